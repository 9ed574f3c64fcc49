// What a number loses on its way into a parameter or a field of another type. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_LOSS_H_
#define XLA_FFI_SDK_CPP_LOSS_H_

#include "xla_ffi/cpp/decoding.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Types in a row, such as the parameters of a function.
template <typename... Ps>
struct ParamList {};

// What is lost on the way from an element of a binding into a parameter.
enum class Loss : uint8_t {
  kNothing,
  kResult,    // an argument would be written as a result
  kFraction,  // of a floating-point number
  kPointer,   // all of it but whether it is null
  kRange,     // numbers that the parameter does not hold: looked at in each call
  kCut,       // the same, where nothing can look
};

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

// The integer that an enum without a scope is where one is expected; other types are themselves.
template <typename T, typename = void>
struct Plain {
  using Type = T;
};
template <typename T>
struct Plain<T, std::enable_if_t<std::is_enum_v<T> && std::is_convertible_v<T, std::underlying_type_t<T>>>> {
  using Type = std::underlying_type_t<T>;
};
template <typename T>
using PlainOf = typename Plain<T>::Type;

// 2 to the power of an exponent.
template <typename T>
constexpr T PowerOf2(int exponent) {
  T power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  return power;
}

// Whether a type has a number: integers exactly, floating-point numbers rounded, but not to infinity.
template <typename To, typename From>
XLA_FFI_SDK_HOT constexpr bool Holds(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_floating_point_v<To> && std::is_floating_point_v<From>) {
    if constexpr (Limits::max_exponent < std::numeric_limits<From>::max_exponent) {
      // By its bits: -ffast-math takes for granted that no number is a NaN.
      using Bits = std::conditional_t<sizeof(From) == 4, uint32_t, uint64_t>;
      static_assert(sizeof(From) == sizeof(Bits), "attributes are no wider");
      Bits magnitude = 0;
      std::memcpy(&magnitude, &value, sizeof(magnitude));
      magnitude &= ~Bits{0} >> 1;
      constexpr int kFraction = std::numeric_limits<From>::digits - 1;
      constexpr int kBias = std::numeric_limits<From>::max_exponent - 1;
      // What lies halfway to the next number, which there is none of.
      constexpr Bits kEnd = (Bits{kBias + Limits::max_exponent - 1} << kFraction) |
                            (((Bits{1} << Limits::digits) - 1) << (kFraction - Limits::digits));
      constexpr Bits kInfinite = Bits{2 * kBias + 1} << kFraction;
      return magnitude < kEnd || magnitude >= kInfinite;
    }
    return true;
  } else if constexpr (std::is_floating_point_v<To>) {
    if constexpr (Limits::digits < std::numeric_limits<From>::digits) {
      const To rounded = static_cast<To>(value);
      // Beyond it no integer of that type can be made again.
      constexpr To kEnd = PowerOf2<To>(std::numeric_limits<From>::digits);
      return rounded < kEnd && static_cast<From>(rounded) == value;
    }
    return true;
  } else {
    // The limits of a type that has fewer digits are numbers of the other.
    constexpr bool kShorter = Limits::digits < std::numeric_limits<From>::digits;
    if constexpr (std::is_signed_v<From>) {
      if constexpr (!std::is_signed_v<To>) {
        if (value < 0) return false;
      } else if constexpr (kShorter) {
        if (value < static_cast<From>((Limits::min)())) return false;
      }
    }
    if constexpr (kShorter) return value <= static_cast<From>((Limits::max)());
    return true;
  }
}

// Whether a type is a real number of the compiler's own, such as _Float16, which the standard library knows of in some
// modes alone.
template <typename T, typename = void>
inline constexpr bool is_extended_v = false;
template <typename T>
inline constexpr bool is_extended_v<T, std::void_t<decltype(std::declval<T>() < std::declval<T>())>> =
    std::is_object_v<T> && !std::is_scalar_v<T> && !std::is_class_v<T> && !std::is_union_v<T> && !std::is_array_v<T>;
template <typename T>
inline constexpr bool is_number_type_v = std::is_arithmetic_v<T> || is_extended_v<T>;
// Those of 128 bits: whether a type is one, or the one without a sign.
template <typename T>
inline constexpr bool is_int128_v = false;
template <typename T>
inline constexpr bool is_uint128_v = false;
#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;
template <>
inline constexpr bool is_int128_v<Int128> = true;
template <>
inline constexpr bool is_int128_v<UInt128> = true;
template <>
inline constexpr bool is_uint128_v<UInt128> = true;
#endif

// What a number of one type, or a pointer, loses as a number of another.
template <typename From, typename To>
constexpr Loss NumberLoss() {
  using F = std::numeric_limits<From>;
  using T = std::numeric_limits<To>;
  if constexpr (std::is_same_v<From, To>) {
    return Loss::kNothing;
  } else if constexpr (std::is_pointer_v<From>) {
    return Loss::kPointer;
  } else if constexpr (std::is_floating_point_v<From> && (std::is_integral_v<To> || is_int128_v<To>)) {
    return Loss::kFraction;
  } else if constexpr (is_extended_v<To>) {
    // Wider ones hold it; nothing looks where others do not.
    return sizeof(To) > sizeof(From) && !(std::is_signed_v<From> && is_uint128_v<To>) ? Loss::kNothing : Loss::kCut;
  } else if constexpr (std::is_same_v<To, bool>) {
    return Loss::kNothing;  // whether an integer is 0
  } else if constexpr (std::is_floating_point_v<From>) {
    return T::digits >= F::digits && T::max_exponent >= F::max_exponent ? Loss::kNothing : Loss::kRange;
  } else if constexpr (std::is_floating_point_v<To>) {
    return T::digits >= F::digits ? Loss::kNothing : Loss::kRange;
  } else {
    return T::digits >= F::digits && (std::is_signed_v<To> || !std::is_signed_v<From>) ? Loss::kNothing : Loss::kRange;
  }
}

// Stands for a value of a type in the place of a parameter, in braces, which say nothing to a template: it converts to
// what such a value converts to, or to those types alone that hold each.
template <typename From, bool all>
struct Stand {
  template <typename T>
  static constexpr bool Converts() {
    if constexpr (std::is_same_v<T, From>) {
      return true;
    } else if constexpr (is_number_type_v<T>) {
      return all || NumberLoss<PlainOf<From>, T>() == Loss::kNothing;
    } else {
      return std::is_pointer_v<From> && std::is_pointer_v<T> && std::is_convertible_v<From, T>;
    }
  }
  template <typename T, std::enable_if_t<Converts<T>(), int> = 0>
  operator T() const;  // NOLINT
};
template <typename From, bool all>
struct Stand<std::optional<From>, all> {
  template <typename T, std::enable_if_t<Stand<InnerOf<From>, all>::template Converts<InnerOf<T>>(), int> = 0>
  operator std::optional<T>() const;  // NOLINT
};

// Whether a value of that type is a number that can lose something, or a pointer.
template <typename From>
inline constexpr bool is_number_v = std::is_arithmetic_v<PlainOf<InnerOf<From>>> || std::is_pointer_v<InnerOf<From>>;

// Whether something is made of values in braces, none of which narrows.
template <typename To, typename List, typename = void>
inline constexpr bool is_made_v = false;
template <typename To, typename... Froms>
inline constexpr bool is_made_v<To, ParamList<Froms...>, std::void_t<decltype(To{std::declval<Froms>()...})>> = true;
template <typename To, typename... Froms>
inline constexpr bool lists_v = is_made_v<To, ParamList<Froms...>>;
// The same where each value has braces of its own, so that it goes into a constructor, too.
template <typename To, typename List, typename = void>
inline constexpr bool is_made_of_each_v = false;
template <typename To, typename... Froms>
inline constexpr bool is_made_of_each_v<To, ParamList<Froms...>, std::void_t<decltype(To{{std::declval<Froms>()}...})>> =
    true;

// What a value loses in a parameter or a field, both types known.
template <typename From, typename To>
constexpr Loss LossInto() {
  using P = PlainOf<From>;
  constexpr bool kNumber = std::is_arithmetic_v<P> || std::is_pointer_v<P>;
  if constexpr (std::is_same_v<From, To>) {
    return Loss::kNothing;
  } else if constexpr (kNumber && is_number_type_v<To>) {
    return NumberLoss<P, To>();
  } else if constexpr (kNumber && std::is_class_v<To>) {
    // By a constructor of its own, whose parameter nobody sees.
    return lists_v<To, Stand<From, true>> && !lists_v<To, Stand<From, false>> ? Loss::kCut : Loss::kNothing;
  } else if constexpr (std::is_class_v<From> && std::is_arithmetic_v<To> && !std::is_same_v<To, bool>) {
    // By a conversion of its own: braces refuse what narrows.
    return std::is_convertible_v<From, To> && !lists_v<To, From> ? Loss::kCut : Loss::kNothing;
  } else {
    return Loss::kNothing;
  }
}

// A floating-point number in as many digits as tell it from others.
XLA_FFI_SDK_COLD inline Text& PutFloat(Text& text, double value) {
  char digits[32];
  for (int precision = 6; precision <= 17; ++precision) {
    std::snprintf(digits, sizeof(digits), "%.*g", precision, value);
    if (std::strtod(digits, nullptr) == value) break;
  }
  // Whatever the locale writes.
  for (char* at = digits; *at != '\0'; ++at) {
    if (*at == ',') *at = '.';
  }
  return text.Add(digits, std::strlen(digits));
}

// Begins the problem of a number that its parameter does not hold.
XLA_FFI_SDK_COLD inline Text& DiagnoseLoss(DiagnosticEngine& diagnostic, size_t bytes, bool is_float, bool is_signed) {
  Text& text = DiagnosticAccess::Add(diagnostic) << "the function takes " << (is_float ? "a floating-point number" : "an integer");
  return text << " of " << bytes * 8 << " bits" << (is_signed ? "" : " without a sign") << ", got ";
}
template <typename To, typename From>
void DiagnoseRange(DiagnosticEngine& diagnostic, const From& value) {
  using P = PlainOf<From>;
  Text& text = DiagnoseLoss(diagnostic, sizeof(To), std::is_floating_point_v<To>, std::is_signed_v<To>);
  if constexpr (std::is_floating_point_v<P>) {
    PutFloat(text, static_cast<double>(value));
  } else {
    text << +static_cast<P>(value);
  }
}
template <typename To, typename From>
void DiagnoseRange(DiagnosticEngine& diagnostic, const std::optional<From>& value) {
  DiagnoseRange<To>(diagnostic, *value);
}

// Whether a parameter holds the number that a binding gives, or it is absent.
template <typename To, typename From>
XLA_FFI_SDK_HOT inline bool HoldsGiven(const From& value) {
  return Holds<To>(static_cast<PlainOf<From>>(value));
}
template <typename To, typename From>
XLA_FFI_SDK_HOT inline bool HoldsGiven(const std::optional<From>& value) {
  return !value.has_value() || HoldsGiven<To>(*value);
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_LOSS_H_
