/* Macros for the differences between systems and compilers, for C and C++: export and visibility of names, inlining,
 * the section of a library's manifest, and atomic operations. docs/platforms.md lists the tested platforms. */
#ifndef XLA_FFI_PLATFORM_H_
#define XLA_FFI_PLATFORM_H_

#include <stddef.h>

/* EXPORT: hosts can find the name in the library. HIDDEN: other libraries in the process cannot find the name. DLLs
 * hide all names that they do not export. */
#if defined(_WIN32)
#define XLA_FFI_SDK_EXPORT __declspec(dllexport)
#define XLA_FFI_SDK_HIDDEN
#elif defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_EXPORT __attribute__((visibility("default")))
#define XLA_FFI_SDK_HIDDEN __attribute__((visibility("hidden")))
#else
#define XLA_FFI_SDK_EXPORT
#define XLA_FFI_SDK_HIDDEN
#endif

#ifdef __has_attribute
#define XLA_FFI_SDK_HAS_ATTRIBUTE_(name) __has_attribute(name)
#else
#define XLA_FFI_SDK_HAS_ATTRIBUTE_(name) 0
#endif

/* Attributes of functions that are only called after an error, which are optimized for size. GCC optimizes every cold
 * function for size. Clang needs `minsize`, which nvcc's front end does not support. */
#if defined(__clang__) && !defined(__NVCC__)
#define XLA_FFI_SDK_SMALL_ cold, minsize
#elif defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_SMALL_ cold
#endif

/* Messages use C99 formats such as %zu. Windows' msvcrt does not support all of them, so MinGW provides functions that
 * do. */
#if defined(__MINGW32__) && !defined(_UCRT)
#define xffi_snprintf_ __mingw_snprintf
#define xffi_vsnprintf_ __mingw_vsnprintf
#else
#define xffi_snprintf_ snprintf
#define xffi_vsnprintf_ vsnprintf
#endif
#if defined(__MINGW32__) && !defined(__clang__)
#define XFFI_PRINTF_STYLE_ gnu_printf
#else
#define XFFI_PRINTF_STYLE_ printf
#endif

#ifdef __cplusplus
#define XFFI_EXTERN_C_ extern "C"
#else
/* Because of `extern`, `static XFFI_HANDLER(…)` is a compile error: the symbol would not be exported. */
#define XFFI_EXTERN_C_ extern
#endif

#define XFFI_EXPORT XFFI_EXTERN_C_ XLA_FFI_SDK_EXPORT

#if defined(__GNUC__) || defined(__clang__)
#define XFFI_COLD_ static __attribute__((XLA_FFI_SDK_SMALL_, noinline, unused))
#define XFFI_SLOW_ static __attribute__((noinline, unused))
#define XFFI_INLINE_ static inline
#define XFFI_HOT_ static inline __attribute__((always_inline))
#define XFFI_PRINTF_(at, first) __attribute__((format(XFFI_PRINTF_STYLE_, at, first)))
#define XFFI_PURE_ static __attribute__((noinline, unused, pure)) /* pure: has no visible side effects */
#define XFFI_MUST_USE_ __attribute__((warn_unused_result)) /* because an error that is not returned is lost */
#define XFFI_LIKELY_(x) __builtin_expect(!!(x), 1)
#define XFFI_UNLIKELY_(x) __builtin_expect(!!(x), 0)
#else
#define XFFI_COLD_ static inline /* `inline` avoids warnings about unused functions */
#define XFFI_SLOW_ static inline
#define XFFI_INLINE_ static inline
#define XFFI_HOT_ static inline
#define XFFI_PRINTF_(at, first)
#define XFFI_PURE_ static inline
#define XFFI_MUST_USE_
#define XFFI_LIKELY_(x) (x)
#define XFFI_UNLIKELY_(x) (x)
#endif

/* Attributes of a manifest record: the section for manifests, and protection from removal by the linker.
 * Section names have at most 16 bytes in Mach-O, and 8 in a DLL. */
#if !defined(__GNUC__) && !defined(__clang__)
/* MSVC removes objects that are neither referenced nor exported, so the record is exported. */
#ifdef __cplusplus
#define XLA_FFI_SDK_RECORD_ \
  __pragma(section(".xla_ffi", read)) extern "C" __declspec(allocate(".xla_ffi")) XLA_FFI_SDK_EXPORT
#else
#define XLA_FFI_SDK_RECORD_ \
  __pragma(section(".xla_ffi", read)) __declspec(allocate(".xla_ffi")) XLA_FFI_SDK_EXPORT
#endif
#elif defined(_WIN32)
#define XLA_FFI_SDK_RECORD_ __attribute__((section(".xla_ffi"), used, aligned(16))) static
#elif defined(__APPLE__)
#define XLA_FFI_SDK_RECORD_ __attribute__((section("__DATA,__xla_ffi"), used, aligned(16))) static
#elif XLA_FFI_SDK_HAS_ATTRIBUTE_(retain)
#define XLA_FFI_SDK_RECORD_ \
  __attribute__((section(".xla_ffi_manifest"), used, retain, aligned(16))) static
#else
#define XLA_FFI_SDK_RECORD_ __attribute__((section(".xla_ffi_manifest"), used, aligned(16))) static
#endif

/* Atomic operations on words, of type `long`, and on pointers. Loads acquire, stores release; swaps and additions do
 * both. Additions return the previous value. SWAP_IF writes `value` and returns 1 if it finds `*expected`; otherwise it
 * stores the found value in `*expected`. */
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
/* All these functions are full fences. A plain load is not an acquire on Arm, and the compiler may move it out of a
 * loop on any processor. */
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

/* Relaxed loads and stores, for addresses that are compared but never dereferenced. */
#if defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_LOAD_(from) __atomic_load_n(from, __ATOMIC_RELAXED)
#define XLA_FFI_SDK_STORE_(to, value) __atomic_store_n(to, value, __ATOMIC_RELAXED)
#else
/* Other compilers, such as MSVC, load and store volatile pointers and words atomically. */
#define XLA_FFI_SDK_LOAD_(from) (*(from))
#define XLA_FFI_SDK_STORE_(to, value) (*(to) = (value))
#endif

#if defined(_WIN32)
#define XFFI_YIELD_() ((void)0)
#else
#include <sched.h>
#define XFFI_YIELD_() ((void)sched_yield())
#endif

#endif  /* XLA_FFI_PLATFORM_H_ */
