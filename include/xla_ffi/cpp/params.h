// What a handler's function takes beside what its binding gives. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_PARAMS_H_
#define XLA_FFI_SDK_CPP_PARAMS_H_

#include "xla_ffi/cpp/decoding.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// What a type has within that may be absent, or has a name.
template <typename T>
struct Inner {
  using Type = T;
};
template <typename T>
struct Inner<std::optional<T>> : Inner<T> {};
template <typename T, const char* name>
struct Inner<Attr<T, name>> : Inner<T> {};
template <typename T>
using InnerOf = typename Inner<std::remove_cv_t<std::remove_reference_t<T>>>::Type;

template <typename T>
inline constexpr bool is_result_v = false;
template <typename T>
inline constexpr bool is_result_v<Result<T>> = true;

// Whether a function would write an argument, or takes a number for a pointer: compilers do not warn. Of what it does not say,
// neither.
template <typename Tags, typename Params>
struct Misfit {
  static constexpr bool kWritesArg = false, kLosesPointer = false;
};
template <typename Tag, typename... Tags, typename P, typename... Ps>
struct Misfit<ParamList<Tag, Tags...>, ParamList<P, Ps...>> {
  using Rest = Misfit<ParamList<Tags...>, ParamList<Ps...>>;
  using From = InnerOf<typename ParamOf<Tag>::Type>;
  static constexpr bool kIsArg = is_tagged_v<ArgTag, Tag> || is_tagged_v<OptionalArgTag, Tag>;
  static constexpr bool kWritesArg =
      (kIsArg && is_result_v<InnerOf<P>> && !is_result_v<From>) || Rest::kWritesArg;
  static constexpr bool kLosesPointer =
      (std::is_pointer_v<From> && std::is_arithmetic_v<InnerOf<P>>) || Rest::kLosesPointer;
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_PARAMS_H_
