// The names of operands and attributes in a binding, and the bounds of attributes. Part of
// <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_NAME_H_
#define XLA_FFI_SDK_CPP_NAME_H_

#include <set>

#include "xla_ffi/cpp/config.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Returns a permanent copy of a name, because the original text may not live as long as the handler.
XLA_FFI_SDK_COLD inline std::string_view Intern(std::string_view name) {
  static std::mutex mutex;
  static auto* const kept = new std::set<std::string>();
  const std::lock_guard<std::mutex> lock(mutex);
  return *kept->emplace(name).first;
}

// A bound of a numeric attribute.
struct XLA_FFI_SDK_TYPE Limit {
  enum Kind : uint8_t { kNone, kSigned, kUnsigned, kFloat, kDouble };
  Kind kind;
  int64_t whole;  // for unsigned types, the bits of the number
  double real;

  template <typename T>
  XLA_FFI_SDK_HOT static constexpr Limit Of(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return {sizeof(T) == sizeof(float) ? kFloat : kDouble, 0, value};
    } else {
      return {std::is_signed_v<T> ? kSigned : kUnsigned, static_cast<int64_t>(value), 0};
    }
  }
  template <typename T>
  XLA_FFI_SDK_HOT constexpr T As() const {
    return std::is_floating_point_v<T> ? static_cast<T>(real) : static_cast<T>(whole);
  }
};
struct XLA_FFI_SDK_TYPE Limits {
  Limit min, max;

  template <typename T>
  XLA_FFI_SDK_HOT constexpr bool Allow(T value) const {
    return (min.kind == Limit::kNone || value >= min.As<T>()) && (max.kind == Limit::kNone || value <= max.As<T>());
  }
  template <typename T>
  XLA_FFI_SDK_HOT constexpr bool Allow(const std::optional<T>& value) const {
    return !value.has_value() || Allow(*value);
  }
};

// Not constexpr, so that a compile error for a bound of the wrong type shows this name.
inline void A_bound_is_not_a_number_of_the_type_of_its_attribute() {}
template <typename T, typename Number>
constexpr Limit LimitOf(Number value) {
  static_assert(!std::is_void_v<T> && std::is_arithmetic_v<Number>, "Min and Max follow an attribute that is a number");
  const T converted = static_cast<T>(value);
  if (std::is_integral_v<T> && (static_cast<Number>(converted) != value || (converted < T{}) != (value < Number{}))) {
    A_bound_is_not_a_number_of_the_type_of_its_attribute();
  }
  return Limit::Of<T>(converted);
}

// The name of an attribute or operand. In a constant expression, the name refers to the string literal;
// otherwise, it is a permanent copy.
class BoundName {
 public:
  constexpr BoundName() = default;
  constexpr BoundName(const char* name)  // NOLINT
#if defined(__GNUC__) || defined(__clang__)
      : text_(__builtin_is_constant_evaluated() ? std::string_view(name)
                                                : Intern(std::string_view(name))) {
  }
#else
      : text_(Intern(std::string_view(name))) {
  }
#endif
  BoundName(const std::string& name) : text_(Intern(name)) {}  // NOLINT
  constexpr BoundName(std::string_view name)                   // NOLINT
#if defined(__GNUC__) || defined(__clang__)
      : text_(__builtin_is_constant_evaluated() ? name : Intern(name)) {
  }
#else
      : text_(Intern(name)) {
  }
#endif

  constexpr std::string_view text() const { return text_; }

  Limits limits = {};  // the bounds of a numeric attribute

 private:
  std::string_view text_;
};

// The names of a binding's elements. The array has at least one entry, because arrays cannot be empty.
template <size_t n>
struct BoundNames {
  BoundName names[n == 0 ? 1 : n] = {};

  constexpr BoundNames<n + 1> With(BoundName name) const {
    BoundNames<n + 1> more;
    for (size_t i = 0; i != n; ++i) more.names[i] = names[i];
    more.names[n] = name;
    return more;
  }
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_NAME_H_
