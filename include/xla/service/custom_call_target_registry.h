/* Registration of custom call targets that came before XLA FFI, by name and platform.
 *
 *   void do_custom_call(void* out, const void** in) { ... }
 *   XLA_REGISTER_CUSTOM_CALL_TARGET(do_custom_call, "Host");
 *
 *   void do_custom_call(CUstream stream, void** buffers, const char* opaque, size_t opaque_len);
 *   XLA_REGISTER_CUSTOM_CALL_TARGET(do_custom_call, "CUDA");
 *
 * Targets are kept in a list of the library (or program) that registers them. It is exported as
 * `xla_ffi_legacy_targets`, which hosts walk: the embedded runtime, the Python loader, or
 * CustomCallTargetRegistry below. In C++ the function's type tells its API version; a bare address,
 * and any function in C, is called as each call's API version says.
 *
 * The same name for the same function twice is fine; for another function on the same platform it
 * is told on stderr, and refused by hosts with an error. */
#ifndef XLA_SERVICE_CUSTOM_CALL_TARGET_REGISTRY_H_
#define XLA_SERVICE_CUSTOM_CALL_TARGET_REGISTRY_H_

/* C++ also compiles this C code, whose casts would cause warnings. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/service/custom_call_status.h"
#include "xla_ffi/platform.h"

#if defined(__GNUC__) || defined(__clang__)
#define XFFI_LEGACY_SHARED_ __attribute__((weak)) XLA_FFI_SDK_HIDDEN
#define XFFI_LEGACY_EXPORT_ __attribute__((weak)) XLA_FFI_SDK_EXPORT
#define XFFI_LEGACY_CONSTRUCTOR_ __attribute__((constructor))
#elif defined(_MSC_VER)
/* One of what every object file brings. In C a pointer in the section that the start of a library runs through stands for
 * a constructor; it has a name that others see, since the compiler leaves out what nothing refers to. */
#define XFFI_LEGACY_SHARED_ __declspec(selectany)
#define XFFI_LEGACY_EXPORT_ __inline XLA_FFI_SDK_EXPORT
#else
#error "registration of legacy targets needs GCC, Clang or MSVC"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a function is called as. */
#define XFFI_LEGACY_UNKNOWN 0    /* as the call says */
#define XFFI_LEGACY_CPU 1        /* (void* out, const void** in) */
#define XFFI_LEGACY_CPU_STATUS 2 /* (void* out, const void** in, XlaCustomCallStatus*) */
#define XFFI_LEGACY_GPU 3        /* (stream, void** buffers, const char* opaque, size_t len) */
#define XFFI_LEGACY_GPU_STATUS 4 /* the same with a last XlaCustomCallStatus* */
#define XFFI_LEGACY_CPU_UNIFIED 5 /* (void* out, const void** in, opaque, len, status) */

/* A registered target. Hosts read `struct_size` bytes of it; it lives as long as the library. */
typedef struct xffi_legacy_target {
  size_t struct_size;
  const char* name;
  const char* platform;
  void* function;
  uint32_t signature;
  const struct xffi_legacy_target* next;
} xffi_legacy_target;

/* The newest target of this library. */
XFFI_LEGACY_SHARED_ const xffi_legacy_target* xffi_legacy_newest_ = NULL;

/* It, read while others register: the exported function below may be another library's for who calls it here. */
static inline const xffi_legacy_target* xffi_legacy_first_(void) {
  return (const xffi_legacy_target*)XFFI_LOAD_POINTER_(&xffi_legacy_newest_);
}

/* All targets of this library, the newest first, each naming the next; null where there is none. */
XFFI_LEGACY_EXPORT_ const xffi_legacy_target* xla_ffi_legacy_targets(void);
XFFI_LEGACY_EXPORT_ const xffi_legacy_target* xla_ffi_legacy_targets(void) {
  return (const xffi_legacy_target*)XFFI_LOAD_POINTER_(&xffi_legacy_newest_);
}

/* Whether two platforms are the same: the case does not count, "Host" is "cpu", "GPU" is "CUDA". */
static inline int xffi_legacy_same_platform_(const char* a, const char* b) {
  const char* names[2];
  char text[2][32];
  int k;
  names[0] = a;
  names[1] = b;
  for (k = 0; k < 2; ++k) {
    size_t i = 0;
    for (; names[k][i] != '\0' && i + 1 < sizeof(text[k]); ++i) {
      const char c = names[k][i];
      text[k][i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    text[k][i] = '\0';
    if (strcmp(text[k], "host") == 0) strcpy(text[k], "cpu");
    if (strcmp(text[k], "gpu") == 0) strcpy(text[k], "cuda");
  }
  return strcmp(text[0], text[1]) == 0;
}

/* The target of a name on a platform, the first that was registered; null where there is none. */
static inline const xffi_legacy_target* xffi_legacy_lookup_(const char* name, const char* platform) {
  const xffi_legacy_target* found = NULL;
  const xffi_legacy_target* at = xffi_legacy_first_();
  for (; at != NULL; at = at->next) {
    if (strcmp(at->name, name) == 0 && xffi_legacy_same_platform_(at->platform, platform)) found = at;
  }
  return found;
}

/* Registers a target; name and platform are copied. 0 for success, also of the same function again;
 * 1 where the name stands for another function there, 2 where memory or an argument is missing. */
static inline int xffi_legacy_register_(const char* name, const char* platform, void* function,
                                       uint32_t signature) {
  const xffi_legacy_target* known;
  xffi_legacy_target* target;
  char* text;
  if (name == NULL || platform == NULL || function == NULL || name[0] == '\0') return 2;
  known = xffi_legacy_lookup_(name, platform);
  if (known != NULL && known->function == function) return 0;
  target = (xffi_legacy_target*)malloc(sizeof(*target) + strlen(name) + strlen(platform) + 2);
  if (target == NULL) return 2;
  text = (char*)(target + 1);
  target->struct_size = sizeof(*target);
  target->name = strcpy(text, name);
  target->platform = strcpy(text + strlen(name) + 1, platform);
  target->function = function;
  target->signature = signature;
  target->next = xffi_legacy_first_();
  while (!XFFI_SWAP_POINTER_IF_(&xffi_legacy_newest_, &target->next,
                                (const xffi_legacy_target*)target)) {
  }
  if (known == NULL) return 0;
  fprintf(stderr,
          "xla-ffi: the custom call target '%s' is registered twice for platform '%s', as two "
          "functions; give one of them another name\n",
          name, platform);
  return 1;
}

#ifdef __cplusplus
} /* extern "C" */

#include <string>
#include <type_traits>
#include <unordered_map>

namespace xla {
// Hidden, as the list is: of two libraries in one program each registers in its own.
namespace xffi_legacy_ XLA_FFI_SDK_HIDDEN {

// The signature that a function's type tells.
constexpr uint32_t SignatureOf(void (*)(void*, const void**)) { return XFFI_LEGACY_CPU; }
constexpr uint32_t SignatureOf(void (*)(void*, void**)) { return XFFI_LEGACY_CPU; }
constexpr uint32_t SignatureOf(void (*)(void*, const void**, XlaCustomCallStatus*)) {
  return XFFI_LEGACY_CPU_STATUS;
}
constexpr uint32_t SignatureOf(void (*)(void*, void**, XlaCustomCallStatus*)) {
  return XFFI_LEGACY_CPU_STATUS;
}
constexpr uint32_t SignatureOf(void (*)(void*, const void**, const char*, size_t,
                                        XlaCustomCallStatus*)) {
  return XFFI_LEGACY_CPU_UNIFIED;
}
template <typename Stream>
constexpr uint32_t SignatureOf(void (*)(Stream, void**, const char*, size_t)) {
  static_assert(sizeof(Stream) == sizeof(void*), "the first parameter is to be the stream");
  return XFFI_LEGACY_GPU;
}
template <typename Stream>
constexpr uint32_t SignatureOf(void (*)(Stream, void**, const char*, size_t,
                                        XlaCustomCallStatus*)) {
  static_assert(sizeof(Stream) == sizeof(void*), "the first parameter is to be the stream");
  return XFFI_LEGACY_GPU_STATUS;
}
constexpr uint32_t SignatureOf(const void*) { return XFFI_LEGACY_UNKNOWN; }

// Whether a function's type is of the form on the CPU, too: `void**` goes for `const void**` there, so that the
// type alone does not tell a stream from an output.
template <typename Function>
constexpr bool IsUnified(Function) {
  using Constant = void (*)(void*, const void**, const char*, size_t, XlaCustomCallStatus*);
  using Plain = void (*)(void*, void**, const char*, size_t, XlaCustomCallStatus*);
  return std::is_convertible<Function, Constant>::value || std::is_convertible<Function, Plain>::value;
}
// Whether a function can be called in that form.
template <typename Function>
constexpr bool IsOfForm(Function function, uint32_t signature) {
  return SignatureOf(function) == signature || (signature == XFFI_LEGACY_CPU_UNIFIED && IsUnified(function));
}

// Registers when the library is loaded.
template <typename Function>
inline bool Register(const char* name, const char* platform, Function function) {
  const bool unified = IsUnified(function) && xffi_legacy_same_platform_(platform, "cpu");
  const uint32_t signature = unified ? XFFI_LEGACY_CPU_UNIFIED : SignatureOf(function);
  return xffi_legacy_register_(name, platform, (void*)function, signature) == 0;
}

}  // namespace xffi_legacy_

// The targets of this library.
class XLA_FFI_SDK_HIDDEN CustomCallTargetRegistry {
 public:
  static CustomCallTargetRegistry* Global() {
    static CustomCallTargetRegistry registry;
    return &registry;
  }
  // Registers an address. Calls use it as their API version says.
  void Register(const std::string& symbol, void* address, const std::string& platform) {
    (void)xffi_legacy_register_(symbol.c_str(), platform.c_str(), address, XFFI_LEGACY_UNKNOWN);
  }
  // The address of a target; null where there is none.
  void* Lookup(const std::string& symbol, const std::string& platform) const {
    const xffi_legacy_target* found = xffi_legacy_lookup_(symbol.c_str(), platform.c_str());
    return found != nullptr ? found->function : nullptr;
  }
  // All targets of a platform.
  std::unordered_map<std::string, void*> registered_symbols(const std::string& platform) const {
    std::unordered_map<std::string, void*> symbols;
    const xffi_legacy_target* at = xffi_legacy_first_();
    for (; at != nullptr; at = at->next) {
      if (xffi_legacy_same_platform_(at->platform, platform.c_str())) symbols[at->name] = at->function;
    }
    return symbols;
  }
};

}  // namespace xla

#define XFFI_LEGACY_JOIN2_(a, b) a##b
#define XFFI_LEGACY_JOIN_(a, b) XFFI_LEGACY_JOIN2_(a, b)
#define XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(symbol, address, platform)                \
  [[maybe_unused]] static const bool XFFI_LEGACY_JOIN_(xffi_legacy_target_, __COUNTER__) = \
      ::xla::xffi_legacy_::Register(symbol, platform, address)

#else /* C */

#define XFFI_LEGACY_JOIN2_(a, b) a##b
#define XFFI_LEGACY_JOIN_(a, b) XFFI_LEGACY_JOIN2_(a, b)
#if defined(XFFI_LEGACY_CONSTRUCTOR_)
#define XFFI_LEGACY_CONSTRUCT_(number) \
  XFFI_LEGACY_CONSTRUCTOR_ static void XFFI_LEGACY_JOIN_(xffi_legacy_add_, number)(void)
#else
#pragma section(".CRT$XCU", read)
#define XFFI_LEGACY_CONSTRUCT_(number)                                                                  \
  static void XFFI_LEGACY_JOIN_(xffi_legacy_add_, number)(void);                                        \
  extern void (*const XFFI_LEGACY_JOIN_(XFFI_LEGACY_JOIN_(xffi_legacy_run_, __LINE__), number))(void); \
  __declspec(allocate(".CRT$XCU")) void (*const XFFI_LEGACY_JOIN_(                                      \
      XFFI_LEGACY_JOIN_(xffi_legacy_run_, __LINE__), number))(void) =                                   \
      XFFI_LEGACY_JOIN_(xffi_legacy_add_, number);                                                      \
  static void XFFI_LEGACY_JOIN_(xffi_legacy_add_, number)(void)
#endif
#define XFFI_LEGACY_REGISTER_(symbol, address, platform, signature, number)              \
  XFFI_LEGACY_CONSTRUCT_(number) {                                                       \
    (void)xffi_legacy_register_(symbol, platform, (void*)(uintptr_t)(address), signature); \
  }                                                                                      \
  struct XFFI_LEGACY_JOIN_(xffi_legacy_needs_a_semicolon_, number)
#define XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(symbol, address, platform) \
  XFFI_LEGACY_REGISTER_(symbol, address, platform, XFFI_LEGACY_UNKNOWN, __COUNTER__)
/* The same with the signature, so that a call with another API version is refused. */
#define XFFI_REGISTER_LEGACY_TARGET(symbol, address, platform, signature) \
  XFFI_LEGACY_REGISTER_(symbol, address, platform, signature, __COUNTER__)

#endif

/* Registers a function under its own name. */
#define XLA_REGISTER_CUSTOM_CALL_TARGET(function, platform) \
  XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(#function, function, platform)
/* The same for the CPU. */
#define XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(function) \
  XLA_REGISTER_CUSTOM_CALL_TARGET(function, "Host")
#define XLA_CPU_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(symbol, address) \
  XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(symbol, address, "Host")

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* XLA_SERVICE_CUSTOM_CALL_TARGET_REGISTRY_H_ */
