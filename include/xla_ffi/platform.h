/* What the system and the compiler decide, once for C and C++: what exports and hides a name, and where a
 * library's description of itself lies in its file. docs/platforms.md says what was tried where.
 */
#ifndef XLA_FFI_PLATFORM_H_
#define XLA_FFI_PLATFORM_H_

/* A name that hosts find in the library; one that no other library of the process sees. DLLs hide what they do not
 * export. */
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

/* Attributes of a function that a call takes when something is wrong: made for size. GCC makes cold functions so by
 * itself, Clang has to be told; nvcc's front end does not know the word. */
#if defined(__clang__) && !defined(__NVCC__)
#define XLA_FFI_SDK_SMALL_ cold, minsize
#elif defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_SDK_SMALL_ cold
#endif

/* What keeps a record of a manifest in the file, and the section in which readers look for it: a name of Mach-O has at
 * most 16 bytes, one of a DLL 8. */
#if !defined(__GNUC__) && !defined(__clang__)
/* MSVC, which leaves out what nothing refers to and nothing exports. */
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

#endif  /* XLA_FFI_PLATFORM_H_ */
