// Describes the elements of a binding as entries of the manifest. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_DESCRIBE_H_
#define XLA_FFI_SDK_CPP_DESCRIBE_H_

#include "xla_ffi/cpp/extension.h"
#include "xla_ffi/cpp/future.h"
#include "xla_ffi/cpp/make_handler.h"
#include "xla_ffi/cpp/state.h"
#include "xla_ffi/cpp/thread_pool.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

XLA_FFI_SDK_INTERNAL_BEGIN

// Not constexpr, so that a compile error for a bound with more digits shows this name.
inline void A_bound_is_written_with_15_digits_at_most() {}

// A writer of JSON. Without an output buffer, computes only the size of the text.
class Json {
 public:
  constexpr explicit Json(char* out) : out_(out) {}
  constexpr size_t size() const { return size_; }

  constexpr Json& Raw(std::string_view text) {
    if (out_ != nullptr) {
      for (size_t i = 0; i < text.size(); ++i) out_[size_ + i] = text[i];
    }
    size_ += text.size();
    return *this;
  }
  constexpr Json& Quoted(std::string_view text) {
    constexpr char kHex[] = "0123456789abcdef";
    Put('"');
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20) {
        Raw("\\u00").Put(kHex[byte >> 4]);
        Put(kHex[byte & 15]);
      } else {
        if (c == '"' || c == '\\') Put('\\');
        Put(c);
      }
    }
    Put('"');
    return *this;
  }
  constexpr Json& Number(int64_t number) {
    if (number < 0) Put('-');
    return Digits(number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number));
  }
  // Writes a bound as the shortest decimal number that parses to the same value.
  constexpr Json& Number(const Limit& limit) {
    if (limit.kind == Limit::kUnsigned) return Digits(static_cast<uint64_t>(limit.whole));
    if (limit.kind == Limit::kSigned) return Number(limit.whole);
    const double value = limit.real < 0 ? -limit.real : limit.real;
    const auto is_it = [&](double read) {
      return limit.kind == Limit::kFloat ? static_cast<float>(read) == static_cast<float>(value) : read == value;
    };
    if (limit.real < 0) Put('-');
    // A product or quotient of an integer below 2^53 and a power of ten up to 10^22 is rounded once, exactly as JSON
    // parsers round.
    double power = 1;
    for (int k = 0; k <= 22; ++k, power *= 10) {
      for (const bool is_fraction : {true, false}) {
        const double scaled = is_fraction ? value * power : value / power;
        if (!(scaled < 9e15)) continue;
        const auto whole = static_cast<int64_t>(scaled + 0.5);
        const auto read = static_cast<double>(whole);
        if (!is_it(is_fraction ? read / power : read * power)) continue;
        return k == 0 ? Number(whole) : Number(whole).Raw(is_fraction ? "e-" : "e").Number(k);
      }
    }
    A_bound_is_written_with_15_digits_at_most();
    return *this;
  }
  constexpr Json& List(const std::string_view* texts, int count) {
    Put('[');
    for (int i = 0; i < count; ++i) Raw(i > 0 ? ", " : "").Quoted(texts[i]);
    Put(']');
    return *this;
  }

 private:
  constexpr Json& Digits(uint64_t number) {
    if (number >= 10) Digits(number / 10);
    Put(static_cast<char>('0' + number % 10));
    return *this;
  }
  constexpr void Put(char c) {
    if (out_ != nullptr) out_[size_] = c;
    ++size_;
  }

  char* out_;
  size_t size_ = 0;
};

// The description of an operand.
struct Element {
  ElementKind kind = ElementKind::kOther;
  const char* dtype = nullptr;  // null: any element type
  int64_t rank = kAnyRank;
  bool token = false, optional = false, variadic = false, inout = false;
};

template <typename T>
constexpr Element OperandElement(ElementKind kind, bool optional) {
  Element element;
  element.kind = kind;
  element.optional = optional;
  element.dtype = DTypeName(OperandType<T>::kElement);
  element.token = OperandType<T>::kElement == XLA_FFI_DataType_TOKEN;
  element.rank = OperandType<T>::kRank;
  return element;
}
constexpr Element VariadicElement(ElementKind kind) {
  Element element;
  element.kind = kind;
  element.variadic = true;
  return element;
}

template <typename T>
constexpr Element InOutElement() {
  Element element = OperandElement<T>(ElementKind::kInOut, false);
  element.inout = true;
  return element;
}

template <typename Tag>
inline constexpr Element element_of_v = {};
template <typename T>
inline constexpr Element element_of_v<InOutTag<T>> = InOutElement<T>();
template <typename T>
inline constexpr Element element_of_v<ArgTag<T>> = OperandElement<T>(ElementKind::kArg, false);
template <typename T>
inline constexpr Element element_of_v<OptionalArgTag<T>> =
    OperandElement<T>(ElementKind::kArg, true);
template <>
inline constexpr Element element_of_v<RemainingArgsTag> = VariadicElement(ElementKind::kArg);
template <typename T>
inline constexpr Element element_of_v<RetTag<T>> = OperandElement<T>(ElementKind::kRet, false);
template <typename T>
inline constexpr Element element_of_v<OptionalRetTag<T>> =
    OperandElement<T>(ElementKind::kRet, true);
template <>
inline constexpr Element element_of_v<RemainingRetsTag> = VariadicElement(ElementKind::kRet);

// The description of an attribute, or of a field of a dictionary attribute.
struct Attribute {
  std::string_view name, type, from;
  bool array = false, optional = false;
  Limits limits = {};
};

struct AttrTable {
  static constexpr int kMost = 64;
  Attribute attrs[kMost] = {};
  int count = 0;

  constexpr void Add(const Attribute& attr) {
    for (int i = 0; i < count; ++i) {
      if (attrs[i].name != attr.name || attrs[i].from != attr.from) continue;
      if (!attr.optional) attrs[i].optional = false;
      if (attr.limits.min.kind != Limit::kNone) attrs[i].limits.min = attr.limits.min;
      if (attr.limits.max.kind != Limit::kNone) attrs[i].limits.max = attr.limits.max;
      return;
    }
    attrs[count++] = attr;
  }
};

// Returns the manifest's name of a scalar attribute type.
constexpr const char* ScalarName(XLA_FFI_DataType dtype) {
  switch (static_cast<unsigned>(dtype)) {
    case XLA_FFI_DataType_PRED:
      return "bool";
#define XLA_FFI_SDK_SCALAR_(name, lower) \
  case XLA_FFI_DataType_##name:          \
    return lower;
      XLA_FFI_SDK_SCALAR_(S8, "i8")
      XLA_FFI_SDK_SCALAR_(S16, "i16")
      XLA_FFI_SDK_SCALAR_(S32, "i32")
      XLA_FFI_SDK_SCALAR_(S64, "i64")
      XLA_FFI_SDK_SCALAR_(U8, "u8")
      XLA_FFI_SDK_SCALAR_(U16, "u16")
      XLA_FFI_SDK_SCALAR_(U32, "u32")
      XLA_FFI_SDK_SCALAR_(U64, "u64")
      XLA_FFI_SDK_SCALAR_(F32, "f32")
      XLA_FFI_SDK_SCALAR_(F64, "f64")
      XLA_FFI_SDK_SCALAR_(C64, "c64")
      XLA_FFI_SDK_SCALAR_(C128, "c128")
#undef XLA_FFI_SDK_SCALAR_
    default:
      return "any";
  }
}

// Is true if an attribute type is a struct with registered fields.
template <typename T, typename = void>
inline constexpr bool has_fields_v = false;
template <typename T>
inline constexpr bool has_fields_v<T, std::void_t<decltype(AttrDecoding<T>::Fields())>> = true;

// The manifest's description of an attribute type. Types with a user-defined decoder are described as "any".
template <typename T>
struct AttrAbout {
  static constexpr bool kArray = false, kOptional = false;
  static constexpr const char* Type() {
    if constexpr (has_fields_v<T> || std::is_same_v<T, Dictionary>) {
      return "dict";
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
      return "str";
    } else if constexpr (std::is_enum_v<T> && !std::is_base_of_v<EnumDecoding<T>, AttrDecoding<T>>) {
      return "any";  // has a user-defined decoder
    } else if constexpr (std::is_enum_v<T>) {
      return ScalarName(DTypeOf<std::underlying_type_t<T>>());
    } else {
      return ScalarName(DTypeOf<T>());
    }
  }
  static constexpr void Add(AttrTable* list, std::string_view name, std::string_view from, bool optional,
                            const Limits& limits) {
    list->Add(Attribute{name, Type(), from, false, optional, limits});
    if constexpr (has_fields_v<T>) {
      if (from.empty()) AddFields(list, name);
    }
  }
  // Adds the fields of the struct T: as fields of the dictionary `from`, or as attributes if `from` is empty.
  static constexpr void AddFields(AttrTable* list, std::string_view from) {
    AddAll(AttrDecoding<T>::Fields(), list, from);
  }

 private:
  template <typename... Ts>
  static constexpr void AddAll(const StructDecoder<T, Ts...>& fields, AttrTable* list,
                               std::string_view from);
};
template <typename T>
struct AttrAbout<std::optional<T>> {
  static constexpr void Add(AttrTable* list, std::string_view name, std::string_view from, bool,
                            const Limits& limits) {
    AttrAbout<T>::Add(list, name, from, true, limits);
  }
};
template <typename T>
struct AttrAbout<Span<const T>> {
  static constexpr void Add(AttrTable* list, std::string_view name, std::string_view from, bool optional,
                            const Limits&) {
    list->Add(Attribute{name, ScalarName(DTypeOf<T>()), from, true, optional});
  }
};
template <typename T>
struct AttrAbout<Pointer<T>> : AttrAbout<int64_t> {};

template <typename T>
template <typename... Ts>
constexpr void AttrAbout<T>::AddAll(const StructDecoder<T, Ts...>& fields, AttrTable* list,
                                    std::string_view from) {
  size_t i = 0;
  ((AttrAbout<Ts>::Add(list, fields.names()[i], from, false, fields.limits()[i]), ++i), ...);
}

// Adds the attributes that an element of a binding decodes.
template <typename Tag>
struct AttributesOf {
  static constexpr void Add(AttrTable*, const BoundName&) {}
};
template <typename T>
struct AttributesOf<AttrTag<T>> {
  static constexpr void Add(AttrTable* list, const BoundName& name) {
    AttrAbout<T>::Add(list, name.text(), "", false, name.limits);
  }
};
template <typename T>
struct AttributesOf<AttrsTag<T>> {
  static constexpr void Add(AttrTable* list, const BoundName&) {
    if constexpr (has_fields_v<T>) AttrAbout<T>::AddFields(list, "");
  }
};

// Is true if an element accepts attributes that the manifest does not list.
template <typename Tag>
inline constexpr bool is_open_v = false;
template <typename T>
inline constexpr bool is_open_v<AttrsTag<T>> = !has_fields_v<T>;

// The manifest's name of the context value that an element decodes.
template <typename Tag>
struct ContextAbout {
  static constexpr std::string_view kName = "";
};
template <typename Tag>
constexpr std::string_view ContextName() {
  return ContextAbout<Tag>::kName;
}
template <typename T>
struct ContextAbout<CtxTag<std::optional<T>>> : ContextAbout<CtxTag<T>> {};
#define XLA_FFI_SDK_CONTEXT_(Type, name)                 \
  template <>                                            \
  struct ContextAbout<CtxTag<Type>> {                    \
    static constexpr std::string_view kName = name;      \
  }
#define XLA_FFI_SDK_CONTEXT_OF_(Template, name)          \
  template <typename T>                                  \
  struct ContextAbout<CtxTag<Template<T>>> {             \
    static constexpr std::string_view kName = name;      \
  }
XLA_FFI_SDK_CONTEXT_(Context, "raw");
XLA_FFI_SDK_CONTEXT_(ScratchAllocator, "scratch");
XLA_FFI_SDK_CONTEXT_(ThreadPool, "thread_pool");
XLA_FFI_SDK_CONTEXT_(ThreadPoolSize, "thread_pool");
XLA_FFI_SDK_CONTEXT_(RunId, "run_id");
XLA_FFI_SDK_CONTEXT_(DeviceOrdinal, "device_ordinal");
XLA_FFI_SDK_CONTEXT_(CustomOptions, "custom_options");
XLA_FFI_SDK_CONTEXT_OF_(PlatformStream, "stream");
XLA_FFI_SDK_CONTEXT_OF_(UserData, "user_data");
#undef XLA_FFI_SDK_CONTEXT_
#undef XLA_FFI_SDK_CONTEXT_OF_
template <typename T>
struct ContextAbout<CtxTag<Extension<T>>> {
  static constexpr std::string_view kExtension = T::kName;
  static constexpr std::string_view kName = kExtension == "RecordExtension"        ? "recorder"
                                            : kExtension == "CollectivesExtension" ? "collectives"
                                                                                   : "extension";
};
template <typename T, ExecutionStage stage>
struct ContextAbout<CtxTag<State<T, stage>>> {
  static constexpr std::string_view kName = stage == ExecutionStage::kPrepare ? "prepared_state"
                                            : stage == ExecutionStage::kInitialize
                                                ? "initialized_state"
                                                : "state";
};

template <typename R>
inline constexpr bool is_async_v = std::is_same_v<R, Future>;

// The name of the state type that a handler returns; empty if the result is not state.
template <typename R>
struct StateOf {
  static constexpr std::string_view Name() { return ""; }
};
template <typename T>
struct StateOf<ErrorOr<std::unique_ptr<T>>> {
  static constexpr std::string_view Name() {
    return ShortType(PrettyType<T>());
  }
};

// The stage of a handler that a maker creates. Handlers of user-defined binding classes are execute handlers.
template <typename T>
inline constexpr ExecutionStage stage_of_v = ExecutionStage::kExecute;
template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts>
inline constexpr ExecutionStage stage_of_v<Recipe<stage, Fn, Declared, Ts...>> = stage;
template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts>
inline constexpr ExecutionStage stage_of_v<KeptHandler<HandlerCore<stage, Fn, Declared, Ts...>>> = stage;

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_DESCRIBE_H_
