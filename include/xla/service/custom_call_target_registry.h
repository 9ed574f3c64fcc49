/* Registers targets of the original custom calls, which predate XLA FFI, by name and platform.
 *
 *   void do_custom_call(void* out, const void** in) { ... }
 *   XLA_REGISTER_CUSTOM_CALL_TARGET(do_custom_call, "Host");
 *
 *   void do_custom_call(CUstream stream, void** buffers, const char* opaque, size_t opaque_len);
 *   XLA_REGISTER_CUSTOM_CALL_TARGET(do_custom_call, "CUDA");
 *
 * Each library (or program) has a list of the targets that it registers, and exports the list as
 * `xla_ffi_legacy_targets`. The embedded runtime, the Python loader and CustomCallTargetRegistry below read the
 * list. In C++, the function's type determines its API version. A bare address, or any function in C, is called
 * with the API version of each call.
 *
 * The same function may be registered twice under the same name. A different function for the same name and
 * platform is reported on stderr, and hosts refuse it with an error. */
#ifndef XLA_SERVICE_CUSTOM_CALL_TARGET_REGISTRY_H_
#define XLA_SERVICE_CUSTOM_CALL_TARGET_REGISTRY_H_

/* Silences the C++ warnings about the C-style casts in this header. */
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
/* Marks definitions that every object file contains, of which the linker keeps one. In C, a pointer in the section of
 * load-time functions replaces a constructor. The pointer is not static, because the compiler omits unreferenced static
 * objects. */
#define XFFI_LEGACY_SHARED_ __declspec(selectany)
#define XFFI_LEGACY_EXPORT_ __inline XLA_FFI_SDK_EXPORT
#else
#error "registration of legacy targets needs GCC, Clang or MSVC"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Signatures of original custom calls. */
#define XFFI_LEGACY_UNKNOWN 0    /* unknown: the signature depends on each call's API version */
#define XFFI_LEGACY_CPU 1        /* (void* out, const void** in) */
#define XFFI_LEGACY_CPU_STATUS 2 /* (void* out, const void** in, XlaCustomCallStatus*) */
#define XFFI_LEGACY_GPU 3        /* (stream, void** buffers, const char* opaque, size_t len) */
#define XFFI_LEGACY_GPU_STATUS 4 /* (stream, void** buffers, const char* opaque, size_t len, XlaCustomCallStatus*) */
#define XFFI_LEGACY_CPU_UNIFIED 5 /* (void* out, const void** in, opaque, len, status) */

/* A registered target. Hosts read only the first `struct_size` bytes. A target lives as long as its library. */
typedef struct xffi_legacy_target {
  size_t struct_size;
  const char* name;
  const char* platform;
  void* function;
  uint32_t signature;
  const struct xffi_legacy_target* next;
} xffi_legacy_target;

/* The target of this library that was registered last. */
XFFI_LEGACY_SHARED_ const xffi_legacy_target* xffi_legacy_newest_ = NULL;

/* Returns the last registered target of this library. For use within the library, because the exported function below
 * could resolve to the function of a different library. */
static inline const xffi_legacy_target* xffi_legacy_first_(void) {
  return (const xffi_legacy_target*)XFFI_LOAD_POINTER_(&xffi_legacy_newest_);
}

/* Returns the last registered target of this library, which links to the one before it; null if there is none. */
XFFI_LEGACY_EXPORT_ const xffi_legacy_target* xla_ffi_legacy_targets(void);
XFFI_LEGACY_EXPORT_ const xffi_legacy_target* xla_ffi_legacy_targets(void) {
  return (const xffi_legacy_target*)XFFI_LOAD_POINTER_(&xffi_legacy_newest_);
}

/* Returns 1 if two platform names are equal: case is ignored, "Host" equals "cpu", and "GPU" equals "CUDA". */
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

/* Returns the target that was registered first under a name on a platform; null if there is none. */
static inline const xffi_legacy_target* xffi_legacy_lookup_(const char* name, const char* platform) {
  const xffi_legacy_target* found = NULL;
  const xffi_legacy_target* at = xffi_legacy_first_();
  for (; at != NULL; at = at->next) {
    if (strcmp(at->name, name) == 0 && xffi_legacy_same_platform_(at->platform, platform)) found = at;
  }
  return found;
}

/* Registers a target, and copies name and platform. Returns 0 on success, and if the same function is already
 * registered. Returns 1 if the name has a different function on the platform, and 2 if an argument is null or memory is
 * exhausted. */
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
// The namespace is hidden, like the list of targets, so that each library in a program has its own list.
namespace xffi_legacy_ XLA_FFI_SDK_HIDDEN {

// Returns the XFFI_LEGACY_ signature for the type of a function.
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

// Returns true if a function's type also matches the unified CPU signature. This signature may have `void**` in place
// of `const void**`. The type then does not reveal whether the first parameter is a stream or an output.
template <typename Function>
constexpr bool IsUnified(Function) {
  using Constant = void (*)(void*, const void**, const char*, size_t, XlaCustomCallStatus*);
  using Plain = void (*)(void*, void**, const char*, size_t, XlaCustomCallStatus*);
  return std::is_convertible<Function, Constant>::value || std::is_convertible<Function, Plain>::value;
}
// Returns true if a function's type matches a signature.
template <typename Function>
constexpr bool IsOfForm(Function function, uint32_t signature) {
  return SignatureOf(function) == signature || (signature == XFFI_LEGACY_CPU_UNIFIED && IsUnified(function));
}

// Registers a function. Runs when the library is loaded, as the initializer of a static variable.
template <typename Function>
inline bool Register(const char* name, const char* platform, Function function) {
  const bool unified = IsUnified(function) && xffi_legacy_same_platform_(platform, "cpu");
  const uint32_t signature = unified ? XFFI_LEGACY_CPU_UNIFIED : SignatureOf(function);
  return xffi_legacy_register_(name, platform, (void*)function, signature) == 0;
}

}  // namespace xffi_legacy_

// The registered targets of this library, with the interface of XLA's own registry.
class XLA_FFI_SDK_HIDDEN CustomCallTargetRegistry {
 public:
  static CustomCallTargetRegistry* Global() {
    static CustomCallTargetRegistry registry;
    return &registry;
  }
  // Registers the address of a function of unknown type, which is called with the API version of each call.
  void Register(const std::string& symbol, void* address, const std::string& platform) {
    (void)xffi_legacy_register_(symbol.c_str(), platform.c_str(), address, XFFI_LEGACY_UNKNOWN);
  }
  // Returns the address of a target; null if it is not registered.
  void* Lookup(const std::string& symbol, const std::string& platform) const {
    const xffi_legacy_target* found = xffi_legacy_lookup_(symbol.c_str(), platform.c_str());
    return found != nullptr ? found->function : nullptr;
  }
  // Returns the addresses of all targets of a platform, by name.
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
/* Registers a target with its signature. Calls with a different API version are then refused. */
#define XFFI_REGISTER_LEGACY_TARGET(symbol, address, platform, signature) \
  XFFI_LEGACY_REGISTER_(symbol, address, platform, signature, __COUNTER__)

#endif

/* Registers a function under its own name on a platform. */
#define XLA_REGISTER_CUSTOM_CALL_TARGET(function, platform) \
  XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(#function, function, platform)
/* Registers a function under its own name for the CPU. */
#define XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(function) \
  XLA_REGISTER_CUSTOM_CALL_TARGET(function, "Host")
#define XLA_CPU_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(symbol, address) \
  XLA_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM(symbol, address, "Host")

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* XLA_SERVICE_CUSTOM_CALL_TARGET_REGISTRY_H_ */
