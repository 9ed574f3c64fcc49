// Compiler macros, the namespace, and standard headers on which sources can rely. Part of
// <xla/ffi/api/api.h>.
//
// All declarations are in an inline namespace of this SDK, and functions are hidden. Libraries built with
// XLA's own headers, or with a different version of these headers, can therefore share a process. Public
// types have default visibility, so that user classes can have members of these types without a compiler
// warning.
#ifndef XLA_FFI_SDK_CPP_CONFIG_H_
#define XLA_FFI_SDK_CPP_CONFIG_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/platform.h"


#if defined(__cplusplus) && __cplusplus < 201703L && !defined(_MSC_VER)
#error "xla/ffi/api needs C++17 or newer"
#endif

#if defined(__MINGW32__) && defined(__GLIBCXX__) && !defined(_GLIBCXX_HAS_GTHREADS)
#error "xla/ffi/api needs std::mutex: compile with MinGW's POSIX threads (x86_64-w64-mingw32-g++-posix)"
#endif

// Clang accepts GCC's form of the pragma only from version 13 on.
#ifdef __clang__
#define XLA_FFI_SDK_UNROLL_4_ _Pragma("unroll 4")
#else
#define XLA_FFI_SDK_UNROLL_4_ _Pragma("GCC unroll 4")
#endif

#ifdef __has_builtin
#define XLA_FFI_HAS_BUILTIN(x) __has_builtin(x)
#else
#define XLA_FFI_HAS_BUILTIN(x) 0
#endif

#if defined(__GNUC__) || defined(__clang__)
#define XLA_FFI_ATTRIBUTE_ALWAYS_INLINE __attribute__((always_inline))
#define XLA_FFI_ATTRIBUTE_NEVER_INLINE __attribute__((noinline))
#define XLA_FFI_PREDICT_FALSE(x) (__builtin_expect(false || (x), false))
#define XLA_FFI_PREDICT_TRUE(x) (__builtin_expect(false || (x), true))
// HOT: always inlined. COLD: never inlined, optimized for size, and placed away from the hot path.
#define XLA_FFI_SDK_HOT __attribute__((always_inline)) XLA_FFI_SDK_HIDDEN
#define XLA_FFI_SDK_COLD __attribute__((XLA_FFI_SDK_SMALL_, noinline)) XLA_FFI_SDK_HIDDEN
// SLOW: never inlined, optimized for speed. PURE: like SLOW, for functions without visible side effects.
#define XLA_FFI_SDK_SLOW __attribute__((noinline)) XLA_FFI_SDK_HIDDEN
#define XLA_FFI_SDK_PURE __attribute__((noinline, pure)) XLA_FFI_SDK_HIDDEN
#define XLA_FFI_SDK_FN XLA_FFI_SDK_HIDDEN
// For functions in specializations that macros create for user types. Sets no visibility, because types in an
// anonymous namespace do not allow it.
#define XLA_FFI_SDK_IN_USERS __attribute__((always_inline))
#define XLA_FFI_SDK_UNREACHABLE() __builtin_unreachable()
#elif defined(_MSC_VER)
#define XLA_FFI_ATTRIBUTE_ALWAYS_INLINE __forceinline
#define XLA_FFI_ATTRIBUTE_NEVER_INLINE __declspec(noinline)
#define XLA_FFI_PREDICT_FALSE(x) (x)
#define XLA_FFI_PREDICT_TRUE(x) (x)
#define XLA_FFI_SDK_HOT
#define XLA_FFI_SDK_IN_USERS
#define XLA_FFI_SDK_COLD __declspec(noinline)
#define XLA_FFI_SDK_SLOW __declspec(noinline)
#define XLA_FFI_SDK_PURE __declspec(noinline)
#define XLA_FFI_SDK_FN
#define XLA_FFI_SDK_UNREACHABLE() __assume(0)
#else
#define XLA_FFI_ATTRIBUTE_ALWAYS_INLINE
#define XLA_FFI_ATTRIBUTE_NEVER_INLINE
#define XLA_FFI_PREDICT_FALSE(x) (x)
#define XLA_FFI_PREDICT_TRUE(x) (x)
#define XLA_FFI_SDK_HOT
#define XLA_FFI_SDK_IN_USERS
#define XLA_FFI_SDK_COLD
#define XLA_FFI_SDK_SLOW
#define XLA_FFI_SDK_PURE
#define XLA_FFI_SDK_FN
#define XLA_FFI_SDK_UNREACHABLE() std::abort()
#endif

// Types with default visibility. Libraries that share symbols must agree on the identity of such types, so
// their type information is exported.
#if defined(_WIN32)
#define XLA_FFI_SDK_TYPE
#else
#define XLA_FFI_SDK_TYPE XLA_FFI_SDK_EXPORT
#endif

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define XLA_FFI_SDK_EXCEPTIONS 1
#else
#define XLA_FFI_SDK_EXCEPTIONS 0
#endif

// Declares the special members that compilers would generate, so that they are hidden like other functions.
#define XLA_FFI_SDK_DEFAULTS(Class)                        \
  XLA_FFI_SDK_FN Class(const Class&) = default;            \
  XLA_FFI_SDK_FN Class(Class&&) = default;                 \
  XLA_FFI_SDK_FN Class& operator=(const Class&) = default; \
  XLA_FFI_SDK_FN Class& operator=(Class&&) = default;      \
  XLA_FFI_SDK_FN ~Class() = default

// Types have the same names but different layouts in files of the internal API, <xla/ffi/ffi.h>, and in files
// compiled without exceptions. A program may contain source files of all kinds, so each kind has a separate
// namespace.
#if XLA_FFI_SDK_EXCEPTIONS
#define XLA_FFI_SDK_NAME_OF_KIND(kind) kind##_v1
#else
#define XLA_FFI_SDK_NAME_OF_KIND(kind) kind##_noexcept_v1
#endif
#if !defined(XLA_FFI_SDK_INTERNAL_H_)
#define XLA_FFI_SDK_INLINE_NAMESPACE XLA_FFI_SDK_NAME_OF_KIND(sdk)
#elif XLA_FFI_ABSEIL
#define XLA_FFI_SDK_INLINE_NAMESPACE XLA_FFI_SDK_NAME_OF_KIND(sdk_internal_absl)
#else
#define XLA_FFI_SDK_INLINE_NAMESPACE XLA_FFI_SDK_NAME_OF_KIND(sdk_internal)
#endif
#define XLA_FFI_SDK_NAMESPACE_BEGIN \
  namespace xla::ffi {              \
  inline namespace XLA_FFI_SDK_INLINE_NAMESPACE {
#define XLA_FFI_SDK_NAMESPACE_END \
  } /* inline namespace */        \
  } /* namespace xla::ffi */

// A namespace for types that users do not name, which are completely hidden.
#define XLA_FFI_SDK_INTERNAL_BEGIN namespace internal XLA_FFI_SDK_HIDDEN {
#define XLA_FFI_SDK_INTERNAL_END } /* namespace internal */

namespace xla::ffi {
// Returns the function table of the program with which this code is statically linked. Declared outside the
// inline namespace, because the program defines the function. A shared library uses the table in the call
// frame instead.
const XLA_FFI_Api* GetXlaFfiApi();
}  // namespace xla::ffi

#endif  // XLA_FFI_SDK_CPP_CONFIG_H_
