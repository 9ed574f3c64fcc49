// What a handler's function takes beside what its binding gives: conversions that lose something. Part of
// <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_PARAMS_H_
#define XLA_FFI_SDK_CPP_PARAMS_H_

#include "xla_ffi/cpp/decoding.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The parameters of a function, where it says so: templates and overloads, such as `[](auto x)`, take what there is.
template <typename... Ps>
struct ParamList {};

template <typename Fn, typename = void>
struct ParamsOf {
  using Type = void;
};
template <typename Fn>
struct ParamsOf<Fn, std::void_t<decltype(&Fn::operator())>> : ParamsOf<decltype(&Fn::operator())> {};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps...), void> {
  using Type = ParamList<Ps...>;
};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps...) noexcept, void> {
  using Type = ParamList<Ps...>;
};
template <typename R, typename C, typename... Ps>
struct ParamsOf<R (C::*)(Ps...) const, void> {
  using Type = ParamList<Ps...>;
};
template <typename R, typename C, typename... Ps>
struct ParamsOf<R (C::*)(Ps...) const noexcept, void> {
  using Type = ParamList<Ps...>;
};

// What is lost on the way from an element of a binding into a parameter.
enum class Loss : uint8_t {
  kNothing,
  kResult,    // an argument would be written as a result
  kFraction,  // of a floating-point number
  kPointer,   // all of it but whether it is null
  kRange,     // values of an integer: looked at in each call
};

template <typename T>
struct Inner {
  using Type = T;
};
template <typename T>
struct Inner<std::optional<T>> {
  using Type = T;
};
template <typename T>
inline constexpr bool is_result_v = false;
template <typename T>
inline constexpr bool is_result_v<Result<T>> = true;

// Whether an integer type has a number.
template <typename To, typename From>
XLA_FFI_SDK_HOT constexpr bool Holds(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_signed_v<From>) {
    if (value < 0) return std::is_signed_v<To> && static_cast<int64_t>(value) >= static_cast<int64_t>(Limits::min());
  }
  return static_cast<uint64_t>(value) <= static_cast<uint64_t>(Limits::max());
}
template <typename To, typename From>
constexpr bool HoldsAll() {
  return Holds<To>(std::numeric_limits<From>::min()) && Holds<To>(std::numeric_limits<From>::max());
}

template <typename Tag, typename Param>
constexpr Loss LossOf() {
  using From = typename Inner<typename ParamOf<Tag>::Type>::Type;
  using To = typename Inner<std::remove_cv_t<std::remove_reference_t<Param>>>::Type;
  if constexpr (is_tagged_v<ArgTag, Tag> || is_tagged_v<OptionalArgTag, Tag>) {
    return is_result_v<To> && !is_result_v<From> ? Loss::kResult : Loss::kNothing;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return Loss::kFraction;
  } else if constexpr (std::is_pointer_v<From> && std::is_arithmetic_v<To>) {
    return Loss::kPointer;
  } else if constexpr (is_tagged_v<AttrTag, Tag> && std::is_integral_v<From> && std::is_integral_v<To>) {
    // A bool is whether an integer is 0.
    if constexpr (DecodeOne<Tag>::kTakes && !std::is_same_v<To, bool>) {
      return HoldsAll<To, From>() ? Loss::kNothing : Loss::kRange;
    }
  }
  return Loss::kNothing;
}

// Of each element of a binding, where its function says what it takes.
template <size_t n>
struct Losses {
  Loss of[n + 1] = {};
  constexpr bool Has(Loss loss) const {
    for (const Loss one : of) {
      if (one == loss) return true;
    }
    return false;
  }
};
template <typename... Tags, typename... Ps>
constexpr Losses<sizeof...(Tags)> FindLosses([[maybe_unused]] const ParamList<Ps...>* params) {
  if constexpr (sizeof...(Ps) == sizeof...(Tags)) {
    return {{LossOf<Tags, Ps>()..., Loss::kNothing}};
  } else {
    return {};
  }
}
template <typename... Tags>
constexpr Losses<sizeof...(Tags)> FindLosses(const void*) {
  return {};
}

template <size_t i, typename List>
struct ParamAt;
template <size_t i, typename... Ps>
struct ParamAt<i, ParamList<Ps...>> {
  using Type = typename Inner<
      std::remove_cv_t<std::remove_reference_t<std::tuple_element_t<i, std::tuple<Ps...>>>>>::Type;
};

// An attribute's number that its parameter does not hold.
XLA_FFI_SDK_COLD inline void DiagnoseTooLarge(DiagnosticEngine& diagnostic, size_t bytes, bool is_signed, bool negative,
                                              uint64_t value) {
  Text& text = DiagnosticAccess::Add(diagnostic) << "the function takes an integer of " << bytes * 8 << " bits"
                                                 << (is_signed ? "" : " without a sign") << ", got ";
  negative ? text << static_cast<int64_t>(value) : text << value;
}
template <typename From>
void DiagnoseRange(DiagnosticEngine& diagnostic, size_t bytes, bool is_signed, const From& value) {
  DiagnoseTooLarge(diagnostic, bytes, is_signed, value < From{}, static_cast<uint64_t>(value));
}
template <typename From>
void DiagnoseRange(DiagnosticEngine& diagnostic, size_t bytes, bool is_signed, const std::optional<From>& value) {
  DiagnoseRange(diagnostic, bytes, is_signed, *value);
}

// Whether a parameter holds the integer that an attribute has, or it is absent.
template <typename To, typename From>
XLA_FFI_SDK_HOT inline bool HoldsAttr(const From& value) {
  return Holds<To>(value);
}
template <typename To, typename From>
XLA_FFI_SDK_HOT inline bool HoldsAttr(const std::optional<From>& value) {
  return !value.has_value() || Holds<To>(*value);
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_PARAMS_H_
