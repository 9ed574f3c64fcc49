// Decodes attributes: scalars, variants, enums, and structs from dictionaries. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_ATTRIBUTE_H_
#define XLA_FFI_SDK_CPP_ATTRIBUTE_H_

#include "xla_ffi/cpp/handler_core.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Returns the element type of a C++ type; INVALID if XLA has no such type.
template <typename T>
constexpr XLA_FFI_DataType DTypeOf() {
  if constexpr (std::is_same_v<T, bool>) {
    return XLA_FFI_DataType_PRED;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return XLA_FFI_DataType_C64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return XLA_FFI_DataType_C128;
  } else if constexpr (std::is_same_v<T, float>) {
    return XLA_FFI_DataType_F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return XLA_FFI_DataType_F64;
  } else if constexpr (std::is_same_v<T, char>) {
    return XLA_FFI_DataType_U8;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr bool kSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return kSigned ? XLA_FFI_DataType_S8 : XLA_FFI_DataType_U8;
      case 2:
        return kSigned ? XLA_FFI_DataType_S16 : XLA_FFI_DataType_U16;
      case 4:
        return kSigned ? XLA_FFI_DataType_S32 : XLA_FFI_DataType_U32;
      default:
        return kSigned ? XLA_FFI_DataType_S64 : XLA_FFI_DataType_U64;
    }
  } else {
    return XLA_FFI_DataType_INVALID;
  }
}

// Returns the element type of a C++ type; a compile error if XLA has no such type.
template <typename T>
constexpr XLA_FFI_DataType NativeTypeToCApiDataType() {
  static_assert(DTypeOf<T>() != XLA_FFI_DataType_INVALID, "no XLA element type for this C++ type");
  return DTypeOf<T>();
}

// Reports an attribute whose kind or element type differs from the bound type.
XLA_FFI_SDK_COLD inline std::nullopt_t DiagnoseAttr(XLA_FFI_AttrType want, XLA_FFI_DataType dtype, XLA_FFI_AttrType type,
                                                    void* attr, DiagnosticEngine& diagnostic) {
  xla_ffi_sdk_line line;
  line.size = 0;
  xla_ffi_sdk_put_attr_mismatch(&line, NumberOf(want), NumberOf(dtype), NumberOf(type), attr);
  DiagnosticAccess::Add(diagnostic) << line;
  return std::nullopt;
}

template <typename T>
struct XLA_FFI_SDK_TYPE ScalarDecoding {
  using Type = T;
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attr);
    return type == XLA_FFI_AttrType_SCALAR && attr != nullptr && scalar->dtype == DTypeOf<T>() &&
           scalar->value != nullptr;
  }
  XLA_FFI_SDK_HOT static std::optional<T> Decode(XLA_FFI_AttrType type, void* attr,
                                                 DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, attr))) {
      return DiagnoseAttr(XLA_FFI_AttrType_SCALAR, DTypeOf<T>(), type, attr, diagnostic);
    }
    return Take(attr);
  }
  XLA_FFI_SDK_HOT static T Take(void* attr) {
    const void* from = static_cast<const XLA_FFI_Scalar*>(attr)->value;
    if constexpr (std::is_same_v<T, bool>) {  // a bool attribute is true for every non-zero byte
      unsigned char byte;
      std::memcpy(&byte, from, 1);
      return byte != 0;
    } else {
      T value;
      std::memcpy(&value, from, sizeof(T));
      return value;
    }
  }
};

XLA_FFI_SDK_INTERNAL_END

template <>
struct AttrDecoding<bool> : internal::ScalarDecoding<bool> {};
template <>
struct AttrDecoding<int8_t> : internal::ScalarDecoding<int8_t> {};
template <>
struct AttrDecoding<int16_t> : internal::ScalarDecoding<int16_t> {};
template <>
struct AttrDecoding<int32_t> : internal::ScalarDecoding<int32_t> {};
template <>
struct AttrDecoding<int64_t> : internal::ScalarDecoding<int64_t> {};
template <>
struct AttrDecoding<uint8_t> : internal::ScalarDecoding<uint8_t> {};
template <>
struct AttrDecoding<uint16_t> : internal::ScalarDecoding<uint16_t> {};
template <>
struct AttrDecoding<uint32_t> : internal::ScalarDecoding<uint32_t> {};
template <>
struct AttrDecoding<uint64_t> : internal::ScalarDecoding<uint64_t> {};
template <>
struct AttrDecoding<float> : internal::ScalarDecoding<float> {};
template <>
struct AttrDecoding<double> : internal::ScalarDecoding<double> {};
template <>
struct AttrDecoding<std::complex<float>> : internal::ScalarDecoding<std::complex<float>> {};
template <>
struct AttrDecoding<std::complex<double>> : internal::ScalarDecoding<std::complex<double>> {};

// Decodes an attribute of one of several types, as a std::variant. The first type that accepts the attribute is used.
template <typename T0, typename T1, typename... Ts>
struct AttrDecoding<std::variant<T0, T1, Ts...>> {
  using Type = std::variant<internal::AttrTypeOf<T0>, internal::AttrTypeOf<T1>,
                            internal::AttrTypeOf<Ts>...>;

  XLA_FFI_SDK_FN static bool Isa(XLA_FFI_AttrType type, void* attr) {
    return internal::IsaAttr<T0>(type, attr) || internal::IsaAttr<T1>(type, attr) ||
           (internal::IsaAttr<Ts>(type, attr) || ...);
  }

  XLA_FFI_SDK_FN static std::optional<Type> Decode(XLA_FFI_AttrType type, void* attr,
                                                   DiagnosticEngine& diagnostic) {
    return Try<0, T0, T1, Ts...>(type, attr, diagnostic);
  }

 private:
  template <size_t i, typename U, typename... Us>
  XLA_FFI_SDK_HOT static std::optional<Type> Try(XLA_FFI_AttrType type, void* attr,
                                                 DiagnosticEngine& diagnostic) {
    if (internal::IsaAttr<U>(type, attr)) {
      auto value = AttrDecoding<U>::Decode(type, attr, diagnostic);
      if (XLA_FFI_PREDICT_FALSE(!value.has_value())) return std::nullopt;
      return Type(std::in_place_index<i>, std::move(*value));
    }
    if constexpr (sizeof...(Us) > 0) {
      return Try<i + 1, Us...>(type, attr, diagnostic);
    } else {
      xla_ffi_sdk_line line;
      line.size = 0;
      xla_ffi_sdk_put_attr(&line, internal::NumberOf(type), attr);
      internal::DiagnosticAccess::Add(diagnostic) << "expected one of the types that the handler takes, got " << line;
      return std::nullopt;
    }
  }
};

// A field of a struct that is decoded from a dictionary, for XLA_FFI_REGISTER_STRUCT_ATTR_DECODING.
template <typename T>
struct StructMember {
  using Type = T;
  XLA_FFI_SDK_FN constexpr explicit StructMember(std::string_view field) : name(field) {}
  // Set inclusive bounds of a numeric field.
  template <typename Number>
  XLA_FFI_SDK_FN constexpr StructMember Min(Number value) const {
    return Limited(&internal::Limits::min, value);
  }
  template <typename Number>
  XLA_FFI_SDK_FN constexpr StructMember Max(Number value) const {
    return Limited(&internal::Limits::max, value);
  }
  std::string_view name;
  internal::Limits limits = {};

 private:
  template <typename Number>
  XLA_FFI_SDK_FN constexpr StructMember Limited(internal::Limit internal::Limits::* which, Number value) const {
    StructMember limited = *this;
    limited.limits.*which = internal::LimitOf<typename internal::LastNumber<internal::AttrTag<T>>::Type>(value);
    return limited;
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN

template <typename T>
inline constexpr bool is_std_optional_v = false;
template <typename T>
inline constexpr bool is_std_optional_v<std::optional<T>> = true;

// Returns the index of a field in a dictionary, or -1. Reports a missing field unless it is optional.
XLA_FFI_SDK_SLOW inline int64_t FindField(const XLA_FFI_Attrs* attrs, std::string_view name,
                                          bool optional, DiagnosticEngine& diagnostic) {
  const int64_t index = FindAttrIn(attrs, name);
  if (index < 0 && !optional) DiagnosticAccess::Add(diagnostic) << "missing entry `" << name << "`";
  return index;
}

// Reports dictionary entries that match no field of the struct.
XLA_FFI_SDK_COLD inline void DiagnoseUnknown(const XLA_FFI_Attrs* attrs,
                                             const std::string_view* fields, size_t size,
                                             DiagnosticEngine& diagnostic) {
  for (int64_t n = 0; n < attrs->size; ++n) {
    const std::string_view name = ViewOf(attrs->names[n]);
    if (std::find(fields, fields + size, name) != fields + size) continue;
    DiagnosticAccess::Add(diagnostic) << "unknown entry `" << name << "`; remove it";
  }
}

// Is true if a struct can be brace-initialised from values of these types without narrowing.
template <typename T, typename List, typename = void>
inline constexpr bool lists_v = false;
template <typename T, typename... Ts>
inline constexpr bool lists_v<T, ParamList<Ts...>, std::void_t<decltype(T{std::declval<Ts>()...})>> = true;

// Decodes a dictionary into a T, which is brace-initialised with the decoded fields in order.
template <typename T, typename... Ts>
class StructDecoder {
  static constexpr bool kOptionals = (is_std_optional_v<Ts> || ...);
  // This check is needed because compilers do not warn about narrowing inside system headers.
  static_assert(lists_v<T, ParamList<AttrTypeOf<Ts>...>>,
                "the struct is not made of these members: they are given in the order of its fields, with their types");

 public:
  // Whether the decoder has a fast path, for dictionaries that have all fields, sorted by name as hosts sort them.
  static constexpr bool kTakes = !kOptionals && (takes_v<AttrDecoding<Ts>> && ...);

  constexpr explicit StructDecoder(StructMember<Ts>... members) : names_{members.name...}, limits_{members.limits...} {
    for (size_t i = 0; i < sizeof...(Ts); ++i) {
      for (size_t k = 0; k < sizeof...(Ts); ++k) {
        if (names_[i].compare(names_[k]) < 0) ++rank_[k];
      }
    }
  }

  XLA_FFI_SDK_HOT bool Fits(XLA_FFI_AttrType type, void* attr) const {
    const auto* attrs = static_cast<const XLA_FFI_Attrs*>(attr);
    return type == XLA_FFI_AttrType_DICTIONARY && attrs != nullptr &&
           attrs->size == static_cast<int64_t>(sizeof...(Ts)) &&
           FitAll(attrs, std::index_sequence_for<Ts...>{});
  }
  XLA_FFI_SDK_HOT T Take(void* attr) const {
    return TakeAll(static_cast<const XLA_FFI_Attrs*>(attr), std::index_sequence_for<Ts...>{});
  }

  XLA_FFI_SDK_FN XLA_FFI_ATTRIBUTE_NEVER_INLINE std::optional<T> Decode(
      XLA_FFI_AttrType type, void* attr, DiagnosticEngine& diagnostic) const {
    if (XLA_FFI_PREDICT_FALSE(type != XLA_FFI_AttrType_DICTIONARY || attr == nullptr)) {
      return DiagnoseAttr(XLA_FFI_AttrType_DICTIONARY, XLA_FFI_DataType_INVALID, type, attr, diagnostic);
    }
    return Members(static_cast<const XLA_FFI_Attrs*>(attr), diagnostic,
                   std::index_sequence_for<Ts...>{});
  }

  constexpr const auto& names() const { return names_; }
  constexpr const auto& limits() const { return limits_; }

  XLA_FFI_SDK_FN bool Isa(XLA_FFI_AttrType type, void* attr) const {
    DiagnosticEngine ignored;
    return Decode(type, attr, ignored).has_value();
  }

 private:
  // Trailing fields of the struct without a StructMember keep their default values. A StructMember that is a struct may
  // initialise several fields without inner braces.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wmissing-braces"
#endif
  template <size_t... Is>
  XLA_FFI_SDK_HOT bool FitAll(const XLA_FFI_Attrs* attrs, std::index_sequence<Is...>) const {
    return ((IsNamed(attrs->names[rank_[Is]], names_[Is]) &&
             AttrDecoding<Ts>::Isa(attrs->types[rank_[Is]], attrs->attrs[rank_[Is]]) &&
             FitsLimits<Ts>(limits_[Is], attrs->attrs[rank_[Is]])) &&
            ...);
  }
  template <typename U>
  XLA_FFI_SDK_HOT static bool FitsLimits([[maybe_unused]] const Limits& limits, [[maybe_unused]] void* attr) {
    if constexpr (std::is_void_v<typename LastNumber<AttrTag<U>>::Type>) {
      return true;
    } else {
      return limits.Allow(AttrDecoding<U>::Take(attr));
    }
  }
  template <size_t... Is>
  XLA_FFI_SDK_HOT T TakeAll(const XLA_FFI_Attrs* attrs, std::index_sequence<Is...>) const {
    return T{AttrDecoding<Ts>::Take(attrs->attrs[rank_[Is]])...};
  }

  template <size_t... Is>
  std::optional<T> Members(const XLA_FFI_Attrs* attrs, DiagnosticEngine& diagnostic,
                           std::index_sequence<Is...>) const {
    [[maybe_unused]] int64_t found = 0;
    std::tuple<std::optional<AttrTypeOf<Ts>>...> members{
        Member<Ts>(attrs, Is, found, diagnostic)...};
    bool good = (1 & ... & static_cast<int>(std::get<Is>(members).has_value())) != 0;
    if (XLA_FFI_PREDICT_FALSE(found != attrs->size)) {
      DiagnoseUnknown(attrs, names_.data(), names_.size(), diagnostic);
      good = false;
    }
    if (XLA_FFI_PREDICT_FALSE(!good)) return std::nullopt;
    return T{std::move(*std::get<Is>(members))...};
  }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

  template <typename U>
  XLA_FFI_SDK_HOT std::optional<AttrTypeOf<U>> Member(const XLA_FFI_Attrs* attrs, size_t i,
                                                      int64_t& found,
                                                      DiagnosticEngine& diagnostic) const {
    const int64_t index = FindField(attrs, names_[i], is_std_optional_v<U>, diagnostic);
    if (XLA_FFI_PREDICT_FALSE(index < 0)) {
      if constexpr (is_std_optional_v<U>) {
        return std::optional<AttrTypeOf<U>>(std::in_place);  // an absent optional field is an empty optional
      } else {
        return std::nullopt;
      }
    }
    ++found;
    auto value = AttrDecoding<U>::Decode(attrs->types[index], attrs->attrs[index], diagnostic);
    if constexpr (!std::is_void_v<typename LastNumber<AttrTag<U>>::Type>) {
      using Number = typename LastNumber<AttrTag<U>>::Type;
      if (value.has_value() && !IsWithin<Number>(limits_[i], *value, diagnostic)) value.reset();
    }
    if (XLA_FFI_PREDICT_FALSE(!value.has_value())) {
      DiagnosticAccess::NameLast(diagnostic, names_[i]);
    }
    return value;
  }

  std::array<std::string_view, sizeof...(Ts)> names_;
  std::array<Limits, sizeof...(Ts)> limits_;
  // The index of each name among the sorted names. In a sorted dictionary with exactly these names, the entry has the
  // same index.
  std::array<int64_t, sizeof...(Ts)> rank_{};
};

template <typename T, typename... Members>
constexpr auto MakeStructDecoder(Members... members) {
  return StructDecoder<T, typename Members::Type...>(members...);
}

// Returns true if all members have distinct names. HasDistinctNames also returns true if the names are not constants.
template <typename Names>
constexpr bool AreDistinct(const Names& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (names[i] == names[k]) return false;
    }
  }
  return true;
}
template <typename D, bool distinct = AreDistinct(D::Fields().names())>
constexpr bool HasDistinctNames(int) {
  return distinct;
}
template <typename D>
constexpr bool HasDistinctNames(long) {
  return true;
}

// Returns the decoder of a struct. This is a free function, because Clang would export a member or variable of
// AttrDecoding. Libraries with structs of the same name would then share one decoder.
template <typename D>
XLA_FFI_SDK_HOT inline const auto& DecoderOf() {
  static_assert(HasDistinctNames<D>(0), "two members of this struct have one name");
  static const auto decoder = D::Fields();
  return decoder;
}

// Returns true if a dictionary can be decoded into the struct. A decoder with a fast path requires entries sorted by
// name, as hosts sort them.
template <typename Decoder>
XLA_FFI_SDK_HOT inline bool IsaStruct(const Decoder& decoder, XLA_FFI_AttrType type, void* attr) {
  if constexpr (Decoder::kTakes) {
    return decoder.Fits(type, attr);
  } else {
    return decoder.Isa(type, attr);
  }
}

// The type of the struct, if its decoder has a fast path; otherwise a substitution failure.
template <typename D>
using TakenStruct =
    std::enable_if_t<std::decay_t<decltype(D::Decoder())>::kTakes, typename D::Type>;

template <typename U>
XLA_FFI_SDK_COLD inline void DiagnoseEnumRange(DiagnosticEngine& diagnostic, U value, U first, U last) {
  DiagnosticAccess::Add(diagnostic)
      << "expected a value from " << +first << " to " << +last << ", got " << +value;
}

// Decodes a scalar of an enum's underlying type into the enum.
template <typename T>
struct XLA_FFI_SDK_TYPE EnumDecoding {
  static_assert(std::is_enum_v<T>, "an enum is expected");
  using Type = T;
  using U = std::underlying_type_t<T>;
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_AttrType type, void* attr) {
    return ScalarDecoding<U>::Isa(type, attr);
  }
  XLA_FFI_SDK_HOT static T Take(void* attr) {
    return static_cast<T>(ScalarDecoding<U>::Take(attr));
  }
  XLA_FFI_SDK_HOT static std::optional<T> Decode(XLA_FFI_AttrType type, void* attr,
                                                 DiagnosticEngine& diagnostic) {
    const std::optional<U> value = ScalarDecoding<U>::Decode(type, attr, diagnostic);
    if (XLA_FFI_PREDICT_FALSE(!value.has_value())) return std::nullopt;
    return static_cast<T>(*value);
  }
};

template <typename T>
struct XLA_FFI_SDK_TYPE EnumRangeDecoding : EnumDecoding<T> {
  using U = std::underlying_type_t<T>;
  XLA_FFI_SDK_HOT static bool Within(XLA_FFI_AttrType type, void* attr, T first, T last) {
    if (!ScalarDecoding<U>::Isa(type, attr)) return false;
    const U value = ScalarDecoding<U>::Take(attr);
    return value >= static_cast<U>(first) && value <= static_cast<U>(last);
  }
  // The range is checked with the underlying type, because the enum may be unable to represent an out-of-range value.
  XLA_FFI_SDK_COLD static std::optional<T> Decode(XLA_FFI_AttrType type, void* attr,
                                                  DiagnosticEngine& diagnostic, T first, T last) {
    const std::optional<U> value = ScalarDecoding<U>::Decode(type, attr, diagnostic);
    if (XLA_FFI_PREDICT_FALSE(!value.has_value())) return std::nullopt;
    if (XLA_FFI_PREDICT_FALSE(*value < static_cast<U>(first) || *value > static_cast<U>(last))) {
      DiagnoseEnumRange<U>(diagnostic, *value, static_cast<U>(first), static_cast<U>(last));
      return std::nullopt;
    }
    return static_cast<T>(*value);
  }
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

// Registers a struct that is decoded from a dictionary, for use as one attribute or as all attributes of a handler:
//   XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Range, StructMember<int64_t>("lo"),
//                                         StructMember<int64_t>("hi"));
// List the fields in the order of the struct's declaration. A field of type std::optional may be absent.
#define XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(T, ...)                                         \
  namespace xla::ffi {                                                                        \
  template <>                                                                                 \
  struct AttrsBinding<T> {                                                                    \
    using Attrs = T;                                                                          \
  };                                                                                          \
  template <>                                                                                 \
  struct AttrDecoding<T> {                                                                    \
    using Type = T;                                                                           \
    template <typename U = T>                                                                 \
    XLA_FFI_SDK_IN_USERS static constexpr auto Fields() {                                     \
      return ::xla::ffi::internal::MakeStructDecoder<U>(__VA_ARGS__);                         \
    }                                                                                         \
    XLA_FFI_SDK_IN_USERS static const auto& Decoder() {                                       \
      return ::xla::ffi::internal::DecoderOf<AttrDecoding>();                                 \
    }                                                                                         \
    XLA_FFI_SDK_IN_USERS static bool Isa(XLA_FFI_AttrType type, void* attr) { \
      return ::xla::ffi::internal::IsaStruct(Decoder(), type, attr);                          \
    }                                                                                         \
    template <typename U = T>                                                                 \
    XLA_FFI_SDK_IN_USERS static ::xla::ffi::internal::TakenStruct<AttrDecoding<U>> Take(void* attr) { \
      return Decoder().Take(attr);                                                            \
    }                                                                                         \
    XLA_FFI_SDK_IN_USERS static std::optional<T> Decode(XLA_FFI_AttrType type, void* attr, \
                                                   ::xla::ffi::DiagnosticEngine& diagnostic) { \
      return Decoder().Decode(type, attr, diagnostic);                                        \
    }                                                                                         \
  };                                                                                          \
  } /* namespace xla::ffi */                                                                  \
  static_assert(std::is_class_v<::xla::ffi::AttrDecoding<T>>)

// Registers an enum that is decoded from a scalar of its underlying type. Every value is accepted.
#define XLA_FFI_REGISTER_ENUM_ATTR_DECODING(T)                         \
  namespace xla::ffi {                                                 \
  template <>                                                          \
  struct AttrDecoding<T> : ::xla::ffi::internal::EnumDecoding<T> {};   \
  } /* namespace xla::ffi */                                           \
  static_assert(std::is_class_v<::xla::ffi::AttrDecoding<T>>)

// Registers an enum that is decoded from a scalar of its underlying type. Values outside FIRST to LAST are refused.
#define XLA_FFI_REGISTER_ENUM_RANGE_ATTR_DECODING(T, FIRST, LAST)                             \
  namespace xla::ffi {                                                                        \
  template <>                                                                                 \
  struct AttrDecoding<T> : ::xla::ffi::internal::EnumRangeDecoding<T> {                       \
    XLA_FFI_SDK_IN_USERS static std::optional<T> Decode(XLA_FFI_AttrType type, void* attr, \
                                                   ::xla::ffi::DiagnosticEngine& diagnostic) { \
      return ::xla::ffi::internal::EnumRangeDecoding<T>::Decode(type, attr, diagnostic,       \
                                                                FIRST, LAST);                 \
    }                                                                                         \
    XLA_FFI_SDK_IN_USERS static bool Isa(XLA_FFI_AttrType type, void* attr) { \
      return ::xla::ffi::internal::EnumRangeDecoding<T>::Within(type, attr, FIRST, LAST);     \
    }                                                                                         \
  };                                                                                          \
  } /* namespace xla::ffi */                                                                  \
  static_assert(std::is_class_v<::xla::ffi::AttrDecoding<T>>)

#endif  // XLA_FFI_SDK_CPP_ATTRIBUTE_H_
