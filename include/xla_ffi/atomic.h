/* Words and pointers that several threads read and write, for GCC, Clang and Visual C++. Part of <xla_ffi/handler.h> and
 * <xla/service/custom_call_target_registry.h>. Words are of type `long`, the one that both families take. */
#ifndef XLA_FFI_ATOMIC_H_
#define XLA_FFI_ATOMIC_H_

#include <stddef.h>

/* Loads acquire, stores release, swaps and additions do both; additions give what was before. SWAP_IF writes `value`
 * where `*expected` was found, and says whether; where not, `*expected` becomes what was found. */
#if defined(__GNUC__) || defined(__clang__)
#define XFFI_LOAD_(place) __atomic_load_n((place), __ATOMIC_ACQUIRE)
#define XFFI_STORE_(place, value) __atomic_store_n((place), (value), __ATOMIC_RELEASE)
#define XFFI_SWAP_(place, value) __atomic_exchange_n((place), (value), __ATOMIC_ACQ_REL)
#define XFFI_ADD_(place, value) __atomic_fetch_add((place), (value), __ATOMIC_ACQ_REL)
#define XFFI_LOAD_POINTER_(place) XFFI_LOAD_(place)
#define XFFI_SWAP_POINTER_(place, value) XFFI_SWAP_(place, value)
#define XFFI_SWAP_POINTER_IF_(place, expected, value) \
  __atomic_compare_exchange_n((place), (expected), (value), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#elif defined(_MSC_VER)
#include <intrin.h>
/* All of them full fences: a plain load is no acquire on Arm, and may leave a loop on any processor. */
#define XFFI_LOAD_(place) _InterlockedOr((volatile long*)(place), 0)
#define XFFI_STORE_(place, value) ((void)_InterlockedExchange((volatile long*)(place), (value)))
#define XFFI_SWAP_(place, value) _InterlockedExchange((volatile long*)(place), (value))
#define XFFI_ADD_(place, value) _InterlockedExchangeAdd((volatile long*)(place), (value))
#define XFFI_LOAD_POINTER_(place) _InterlockedCompareExchangePointer((void* volatile*)(place), NULL, NULL)
#define XFFI_SWAP_POINTER_(place, value) \
  _InterlockedExchangePointer((void* volatile*)(place), (void*)(value))
#define XFFI_SWAP_POINTER_IF_(place, expected, value) \
  xffi_swap_pointer_if_((void* volatile*)(place), (void**)(expected), (void*)(value))
static inline int xffi_swap_pointer_if_(void* volatile* place, void** expected, void* value) {
  void* const found = _InterlockedCompareExchangePointer(place, value, *expected);
  const int same = found == *expected;
  *expected = found;
  return same;
}
#else
#error "xla_ffi needs the atomic operations of GCC, Clang or MSVC"
#endif

#if defined(_WIN32)
#define XFFI_YIELD_() ((void)0)
#else
#include <sched.h>
#define XFFI_YIELD_() ((void)sched_yield())
#endif

#endif /* XLA_FFI_ATOMIC_H_ */
