// A library's manifest: a description of its handlers that tools read from the file without running code
// (docs/manifest.md). Part of <xla/ffi/api/ffi.h>.
//
//   XLA_FFI_LIBRARY(rms_norm,
//                   XLA_FFI_HANDLER(rms_norm).Vjp("rms_norm_backward").Default("eps", "1e-5"),
//                   XLA_FFI_HANDLER(rms_norm_backward));
//
// The manifest is computed at compile time; the object file contains one array of bytes.
#ifndef XLA_FFI_SDK_CPP_MANIFEST_H_
#define XLA_FFI_SDK_CPP_MANIFEST_H_

#include "xla_ffi/cpp/describe.h"
#include "xla_ffi/manifest.h"
#include "xla_ffi/on_load.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// A list of at most `n` texts.
template <size_t n>
struct Names {
  std::string_view names[n] = {};
  int count = 0;
  template <typename... Ts>
  constexpr void Set(Ts... texts) {
    static_assert(sizeof...(Ts) <= n, "more names than this list takes");
    count = 0;
    ((names[count++] = std::string_view(texts)), ...);
  }
};

// A property of an operand or an attribute, with its name.
struct NamedText {
  std::string_view name, text;
};

// Not constexpr, so that compile errors show the names of these functions.
inline void No_operand_has_the_name_that_Layout_gives() {}
inline void No_attribute_has_the_name_that_Default_gives() {}
inline void Default_needs_an_attribute_of_type_std_optional() {}
inline void Only_Name_Platforms_and_Doc_are_kept_of_a_binding_that_is_no_constant() {}

// The name of an operand: the given name, or a letter with the operand's index.
struct OperandName {
  std::string_view given, letter;
  int place;

  constexpr bool Is(std::string_view text) const {
    if (!given.empty()) return text == given;
    if (text.substr(0, 1) != letter || (text.size() != 2 && text.substr(1, 1) == "0")) return false;
    text.remove_prefix(1);
    int number = text.empty() ? -1 : 0;
    for (const char digit : text) {
      if (digit < '0' || digit > '9' || number > place) return false;
      number = number * 10 + (digit - '0');
    }
    return number == place;
  }
  constexpr void Write(Json& json) const {
    given.empty() ? json.Raw("\"").Raw(letter).Number(place).Raw("\"") : json.Quoted(given);
  }
};

// The properties of a handler that its author declares in addition to the binding.
struct About {
  std::string_view name, doc, shape, batch, batch_handler;
  std::string_view vjp, forward, jvp, transpose;
  Names<4> platforms{{"cpu"}, 1};
  Names<16> residuals, shared;
  NamedText defaults[16] = {}, layouts[16] = {};
  int default_count = 0, layout_count = 0;
  bool linear = false, has_residuals = false, nondeterministic = false;

  constexpr bool HasGradient() const {
    return linear || !vjp.empty() || !jvp.empty() || !transpose.empty() || !forward.empty();
  }
  // Returns true if any property is declared that refers to operands or attributes.
  constexpr bool HasMore() const {
    return HasGradient() || has_residuals || nondeterministic || !batch.empty() || !batch_handler.empty() ||
           shared.count + default_count + layout_count > 0;
  }
};

// Describes the operands and attributes of the handler of one stage.
template <typename Made>
struct RecipeAbout;

template <ExecutionStage stage_, typename Fn, typename Declared_, typename... Ts>
struct RecipeAbout<Recipe<stage_, Fn, Declared_, Ts...>> {
  using Label = HandlerLabel<sizeof...(Ts)>;
  using Declared = Declared_;
  using Result = std::invoke_result_t<const Fn&, typename ParamOf<Ts>::Type...>;
  static constexpr ExecutionStage stage = stage_;
  static constexpr bool kOpen = (is_open_v<Ts> || ...);
  static constexpr Revision kFloor = FloorOf<stage_, Fn, Ts...>();

  // Calls `each(element, name, position, argument)` for each element of a kind. An in-out operand counts as an argument
  // and as a result. `argument` is the operand's index among the arguments.
  template <ElementKind kind, typename Each>
  static constexpr void ForEach(const Label& label, const Each& each) {
    [[maybe_unused]] int i = 0, position = 0, argument = 0;
    ((IsOf<Ts>(kind) ? each(element_of_v<Ts>, label.names.names[i].text(), position++, argument)
                     : void(),
      argument += IsOf<Ts>(ElementKind::kArg), ++i),
     ...);
  }
  static constexpr void Attributes(const Label& label, [[maybe_unused]] AttrTable* list) {
    [[maybe_unused]] int i = 0;
    (AttributesOf<Ts>::Add(list, label.names.names[i++]), ...);
  }
  static constexpr void Context([[maybe_unused]] Names<16>* names) {
    (AddContext(ContextName<Ts>(), names), ...);
  }

 private:
  template <typename Tag>
  static constexpr bool IsOf(ElementKind kind) {
    return element_of_v<Tag>.kind == kind || element_of_v<Tag>.kind == ElementKind::kInOut;
  }
  static constexpr void AddContext(std::string_view name, Names<16>* names) {
    for (int i = 0; i < names->count; ++i) {
      if (names->names[i] == name) return;
    }
    if (!name.empty() && names->count < 16) names->names[names->count++] = name;
  }
};

// An exported handler function of one stage.
struct Symbol {
  std::string_view name;
  XLA_FFI_Handler* function;
};

// The description of a handler: its stages, each with a maker, and its declared properties. Functions that set a
// property return a changed copy.
template <const auto&... makers>
class HandlerAbout {
  static constexpr bool kDescribed = (IsConstant<makers>(0) && ...);

 public:
  template <typename... Symbols>
  constexpr explicit HandlerAbout(Symbols... symbols) : symbols_{symbols...} {
    about_.name = symbols_[0].name;
  }

  // Sets the name of the handler; the default is the first symbol.
  constexpr HandlerAbout Name(std::string_view name) const {
    return With([&](About* about) { about->name = name; });
  }
  // Sets the platforms of the handler; the default is `cpu`.
  template <typename... Ts>
  constexpr HandlerAbout Platforms(Ts... platforms) const {
    return With([&](About* about) { about->platforms.Set(platforms...); });
  }
  // Sets the documentation of the handler, for its callers.
  constexpr HandlerAbout Doc(std::string_view text) const {
    return With([&](About* about) { about->doc = text; });
  }
  // Sets the default value of an optional attribute, as JSON (`"1e-5"`, `"true"`) or, for a string attribute, as the
  // string. An unknown attribute name is a compile error.
  constexpr HandlerAbout Default(std::string_view attribute, std::string_view value) const {
    return With([&](About* about) {
      about->defaults[about->default_count++] = NamedText{attribute, value};
    });
  }
  // Sets the memory order of an operand: `row`, `column`, or the dimensions from slowest to fastest, as in `[1, 0, 2]`.
  // An unknown operand name is a compile error. Operands without names are called `x0`, `y0` and so on.
  constexpr HandlerAbout Layout(std::string_view operand, std::string_view order) const {
    return With([&](About* about) {
      about->layouts[about->layout_count++] = NamedText{operand, order};
    });
  }
  // Declares that equal calls may give different results.
  constexpr HandlerAbout Nondeterministic() const {
    return With([](About* about) { about->nondeterministic = true; });
  }

  // Set the handlers that compute derivatives, by name. See docs/gradients.md for the operands and results of such
  // handlers.
  constexpr HandlerAbout Vjp(std::string_view handler) const {
    return With([&](About* about) { about->vjp = handler; });
  }
  constexpr HandlerAbout Forward(std::string_view handler) const {
    return With([&](About* about) { about->forward = handler; });
  }
  constexpr HandlerAbout Jvp(std::string_view handler) const {
    return With([&](About* about) { about->jvp = handler; });
  }
  constexpr HandlerAbout Transpose(std::string_view handler) const {
    return With([&](About* about) { about->transpose = handler; });
  }
  constexpr HandlerAbout Linear() const {
    return With([](About* about) { about->linear = true; });
  }
  template <typename... Ts>
  constexpr HandlerAbout Residuals(Ts... operands) const {
    return With([&](About* about) {
      about->has_residuals = true;
      about->residuals.Set(operands...);
    });
  }

  // Set the batching rule: `leading`, `sequential` or `none` for the handler, or `leading` or `shared` for each
  // argument.
  constexpr HandlerAbout Batch(std::string_view how) const {
    return With([&](About* about) { about->batch = how; });
  }
  template <typename... Ts, typename = std::enable_if_t<(sizeof...(Ts) > 1)>>
  constexpr HandlerAbout Batch(Ts... each) const {
    return With([&](About* about) { about->shared.Set(each...); });
  }
  constexpr HandlerAbout BatchedBy(std::string_view handler) const {
    return With([&](About* about) { about->batch_handler = handler; });
  }

  constexpr void Write(Json& json) const {
    json.Raw("{\"name\": ").Quoted(about_.name).Raw(", \"platforms\": ");
    json.List(about_.platforms.names, about_.platforms.count).Raw(", \"stages\": {");
    int i = 0;
    (WriteStage<makers>(json, i++), ...);
    json.Raw("}");
    if (!about_.doc.empty()) json.Raw(", \"doc\": ").Quoted(about_.doc);
    if constexpr (kDescribed) {
      WriteOperands(json);
      WriteAttributes(json);
      WriteRest(json);
    } else {
      json.Raw(", \"described\": false, \"floor\": \"r0\"");
      if (about_.HasMore()) Only_Name_Platforms_and_Doc_are_kept_of_a_binding_that_is_no_constant();
    }
    json.Raw("}");
  }

  // Registers the handler with a host, on each of the handler's platforms.
  void Enroll(const XLA_FFI_Api* api, const char* library) const {
    XLA_FFI_Handler_Bundle bundle{};
    XLA_FFI_Handler_Traits traits = 0;
    int i = 0;
    (AddStage<makers>(&bundle, &traits, i++), ...);
    for (int k = 0; k < about_.platforms.count; ++k) {
      // Every host knows its CPU platform under XLA's name "Host".
      const std::string_view own = about_.platforms.names[k], platform = own == "cpu" ? "Host" : own;
      XLA_FFI_Error* error = Ffi::RegisterStaticHandler(api, about_.name, platform, bundle, traits);
      if (error == nullptr) continue;
      Text text;
      PutError(text << library << ", registered on load: " << about_.name << ": ", api, error);
      std::fprintf(stderr, "xla-ffi: %s\n", text.c_str());
    }
  }

 private:
  template <const auto& maker>
  void AddStage(XLA_FFI_Handler_Bundle* bundle, XLA_FFI_Handler_Traits* traits, int i) const {
    XLA_FFI_Handler* const function = symbols_[i].function;
    switch (kStage<maker>) {
      case ExecutionStage::kInstantiate:
        bundle->instantiate = function;
        break;
      case ExecutionStage::kPrepare:
        bundle->prepare = function;
        break;
      case ExecutionStage::kInitialize:
        bundle->initialize = function;
        break;
      case ExecutionStage::kExecute:
        bundle->execute = function;
        if constexpr (kDescribed) {
          constexpr auto recipe = maker();
          *traits = recipe.label.traits;
        }
        break;
      case ExecutionStage::kRecord:
        bundle->record = function;
        break;
    }
  }

  template <const auto& maker>
  using Of = RecipeAbout<std::decay_t<decltype(maker())>>;
  template <const auto& maker>
  static constexpr ExecutionStage kStage = stage_of_v<std::decay_t<decltype(maker())>>;

  template <typename Change>
  constexpr HandlerAbout With(const Change& change) const {
    HandlerAbout copy = *this;
    change(&copy.about_);
    return copy;
  }

  template <const auto& maker>
  constexpr void WriteStage(Json& json, int i) const {
    json.Raw(i > 0 ? ", \"" : "\"").Raw(StageName(static_cast<unsigned>(kStage<maker>)));
    json.Raw("\": ").Quoted(symbols_[i].name);
  }

  constexpr void WriteOperands(Json& json) const {
    bool is_laid[16] = {};
    json.Raw(", \"args\": [");
    (WriteSide<makers, ElementKind::kArg>(json, "x", is_laid), ...);
    json.Raw("], \"rets\": [");
    (WriteSide<makers, ElementKind::kRet>(json, "y", is_laid), ...);
    json.Raw("]");
    for (int i = 0; i < about_.layout_count; ++i) {
      if (!is_laid[i]) No_operand_has_the_name_that_Layout_gives();
    }
  }
  template <const auto& maker, ElementKind kind>
  constexpr void WriteSide(Json& json, std::string_view letter, bool* is_laid) const {
    if constexpr (kStage<maker> == ExecutionStage::kExecute) {
      constexpr auto recipe = maker();
      Of<maker>::template ForEach<kind>(
          recipe.label, [&](const Element& element, std::string_view name, int position, int argument) {
            json.Raw(position > 0 ? ", {\"name\": " : "{\"name\": ");
            // An in-out operand has the same name as an argument and as a result.
            const OperandName own =
                element.inout ? OperandName{name, "x", argument} : OperandName{name, letter, position};
            own.Write(json);
            json.Raw(element.token ? ", \"kind\": \"token\"" : ", \"kind\": \"buffer\"");
            if (element.dtype != nullptr && !element.token) {
              json.Raw(", \"dtypes\": [\"").Raw(element.dtype).Raw("\"]");
            }
            if (element.rank >= 0) json.Raw(", \"rank\": ").Number(element.rank);
            if (element.optional) json.Raw(", \"optional\": true");
            if (element.variadic) json.Raw(", \"variadic\": true");
            if (element.inout) json.Raw(", \"inout\": true");
            for (int i = 0; i < about_.layout_count; ++i) {
              if (!own.Is(about_.layouts[i].name)) continue;
              is_laid[i] = true;
              json.Raw(", \"layout\": ");
              const std::string_view order = about_.layouts[i].text;
              order.substr(0, 1) == "[" ? json.Raw(order) : json.Quoted(order);
            }
            json.Raw("}");
          });
    }
  }

  // Writes the attributes of all stages. An attribute that several stages bind is written once.
  constexpr void WriteAttributes(Json& json) const {
    AttrTable list;
    bool open = false, is_taken[16] = {};
    (AddAttributes<makers>(&list, &open), ...);
    json.Raw(", \"attrs\": [");
    for (int i = 0; i < list.count; ++i) {
      const Attribute& attr = list.attrs[i];
      json.Raw(i > 0 ? ", {\"name\": " : "{\"name\": ").Quoted(attr.name).Raw(", \"type\": \"");
      json.Raw(attr.array ? "[" : "").Raw(attr.type).Raw(attr.array ? "]\"" : "\"");
      std::string_view value;
      for (int k = 0; k < about_.default_count; ++k) {
        // Defaults apply only to attributes. A dictionary field may have the same name.
        if (!attr.from.empty() || about_.defaults[k].name != attr.name) continue;
        // The handler itself supplies the default, so it must accept calls without the attribute.
        if (!attr.optional) Default_needs_an_attribute_of_type_std_optional();
        is_taken[k] = true;
        value = about_.defaults[k].text;
      }
      if (attr.optional) json.Raw(", \"optional\": true");
      if (!value.empty()) {
        json.Raw(", \"default\": ");
        attr.type == std::string_view("str") ? json.Quoted(value) : json.Raw(value);
      }
      if (attr.limits.min.kind != Limit::kNone) json.Raw(", \"min\": ").Number(attr.limits.min);
      if (attr.limits.max.kind != Limit::kNone) json.Raw(", \"max\": ").Number(attr.limits.max);
      if (!attr.from.empty()) json.Raw(", \"from\": ").Quoted(attr.from);
      json.Raw("}");
    }
    json.Raw(open ? "], \"open_attrs\": true" : "]");
    for (int k = 0; k < about_.default_count; ++k) {
      if (!is_taken[k]) No_attribute_has_the_name_that_Default_gives();
    }
  }
  template <const auto& maker>
  static constexpr void AddAttributes(AttrTable* list, bool* open) {
    constexpr auto recipe = maker();
    Of<maker>::Attributes(recipe.label, list);
    *open |= Of<maker>::kOpen;
  }

  constexpr void WriteRest(Json& json) const {
    std::string_view shape, state;
    Names<16> context;
    unsigned traits = 0;
    bool async = false, host_only = false;
    Revision floor = Revision::r0;
    (Gather<makers>(&shape, &state, &context, &traits, &async, &host_only, &floor), ...);
    if (!shape.empty()) json.Raw(", \"shape\": ").Quoted(shape);
    if (context.count > 0) json.Raw(", \"context\": ").List(context.names, context.count);
    Names<16> words;
    if ((traits & XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE) != 0) {
      words.names[words.count++] = "command_buffer_compatible";
    }
    if (about_.nondeterministic) words.names[words.count++] = "nondeterministic";
    if (host_only) words.names[words.count++] = "host_only";
    if (words.count > 0) json.Raw(", \"traits\": ").List(words.names, words.count);
    if (async) json.Raw(", \"async\": true");
    if (!state.empty()) json.Raw(", \"state\": {\"type\": ").Quoted(state).Raw("}");
    if (about_.HasGradient()) WriteGradient(json);
    if (!about_.batch.empty()) json.Raw(", \"batch\": ").Quoted(about_.batch);
    if (about_.shared.count > 0) {
      json.Raw(", \"batch\": ").List(about_.shared.names, about_.shared.count);
    }
    if (!about_.batch_handler.empty()) {
      json.Raw(", \"batch\": {\"handler\": ").Quoted(about_.batch_handler).Raw("}");
    }
    json.Raw(", \"floor\": \"r").Number(static_cast<int>(floor)).Raw("\"");
  }
  template <const auto& maker>
  static constexpr void Gather(std::string_view* shape, std::string_view* state, Names<16>* context,
                               unsigned* traits, bool* async, bool* host_only, Revision* floor) {
    using A = Of<maker>;
    constexpr auto recipe = maker();
    if (*A::Declared::Shape() != '\0') *shape = A::Declared::Shape();
    *host_only |= A::Declared::kHostOnly;
    A::Context(context);
    *async |= is_async_v<typename A::Result>;
    *floor = Later(*floor, A::kFloor);
    if constexpr (A::stage == ExecutionStage::kInstantiate) {
      *state = StateOf<typename A::Result>::Name();
    } else if constexpr (A::stage == ExecutionStage::kExecute) {
      *traits = recipe.label.traits;
    }
  }

  constexpr void WriteGradient(Json& json) const {
    const NamedText handlers[] = {{"vjp", about_.vjp},
                                  {"forward", about_.forward},
                                  {"jvp", about_.jvp},
                                  {"transpose", about_.transpose}};
    json.Raw(about_.linear ? ", \"gradient\": {\"linear\": true" : ", \"gradient\": {\"linear\": false");
    for (const NamedText& each : handlers) {
      if (!each.text.empty()) json.Raw(", \"").Raw(each.name).Raw("\": ").Quoted(each.text);
    }
    if (about_.has_residuals) {
      json.Raw(", \"residuals\": ").List(about_.residuals.names, about_.residuals.count);
    }
    json.Raw("}");
  }

  Symbol symbols_[sizeof...(makers)];
  About about_;
};

// The type of XLA_FFI_REGISTER_ON_LOAD, an option in the list of a library's handlers.
struct RegisterOnLoad {};
template <typename T>
constexpr bool is_handler_v = !std::is_same_v<T, RegisterOnLoad>;

// Writes the manifest of a library. Without an output buffer, computes only the size.
template <typename... Handlers>
constexpr size_t WriteLibrary(char* out, std::string_view name, const Handlers&... handlers) {
  Json json(out);
  json.Raw("{\"library\": ").Quoted(name).Raw(", \"sdk\": \"" XLA_FFI_SDK_VERSION "\", \"handlers\": [");
  int i = 0;
  const auto write = [&](const auto& handler) {
    if constexpr (is_handler_v<std::decay_t<decltype(handler)>>) handler.Write(json.Raw(i++ > 0 ? ", " : ""));
  };
  (write(handlers), ...);
  return json.Raw("]}").size();
}

// Registers a library's handlers with a host that was found when the library was loaded.
template <typename... Handlers>
void EnrollLibrary(const XLA_FFI_Api* api, const char* library, const void* context) {
  const auto enroll = [&](const auto& handler) {
    if constexpr (is_handler_v<std::decay_t<decltype(handler)>>) handler.Enroll(api, library);
  };
  std::apply([&](const auto&... each) { (enroll(each), ...); },
             *static_cast<const std::tuple<Handlers...>*>(context));
}

// Called when the library is loaded. Does nothing if the option RegisterOnLoad is missing.
template <typename... Handlers>
constexpr bool OnLoad([[maybe_unused]] const char* library, [[maybe_unused]] const Handlers&... handlers) {
  if constexpr ((!is_handler_v<Handlers> || ...)) {
    const std::tuple<Handlers...> all(handlers...);
    xla_ffi_sdk_on_load(library, EnrollLibrary<Handlers...>, &all);
  }
  return true;
}

// A record of the manifest in the library file.
template <size_t n>
struct Record {
  char magic[8] = {'X', 'L', 'A', 'F', 'F', 'I', 'M', 'F'};
  unsigned char head[8] = {2, 0, 0, 0, n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24 & 255};
  char payload[n] = {};
};

template <const auto& write>
constexpr auto MakeRecord() {
  Record<write(nullptr)> record;
  write(record.payload);
  return record;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

// XLA_FFI_HANDLER(symbol[, symbol of another stage ...]): describes a handler that XLA_FFI_DEFINE_HANDLER_SYMBOL
// defines in this source file. The handler has the name of the first symbol.
#define XLA_FFI_HANDLER(...)                                                                      \
  XLA_FFI_SDK_PICK_5_(__VA_ARGS__, XLA_FFI_SDK_ABOUT_5_, XLA_FFI_SDK_ABOUT_4_,                    \
                      XLA_FFI_SDK_ABOUT_3_, XLA_FFI_SDK_ABOUT_2_, XLA_FFI_SDK_ABOUT_1_, unused, ) \
  (__VA_ARGS__)
#define XLA_FFI_SDK_PICK_5_(a1, a2, a3, a4, a5, MACRO, ...) MACRO
#define XLA_FFI_SDK_SYMBOL_OF_(symbol) \
  ::xla::ffi::internal::Symbol { #symbol, symbol }
#define XLA_FFI_SDK_ABOUT_1_(a)                                                                   \
  ::xla::ffi::internal::HandlerAbout<xla_ffi_maker_##a>(                                          \
      XLA_FFI_SDK_SYMBOL_OF_(a))
#define XLA_FFI_SDK_ABOUT_2_(a, b)                                                                \
  ::xla::ffi::internal::HandlerAbout<xla_ffi_maker_##a, xla_ffi_maker_##b>(                       \
      XLA_FFI_SDK_SYMBOL_OF_(a), XLA_FFI_SDK_SYMBOL_OF_(b))
#define XLA_FFI_SDK_ABOUT_3_(a, b, c)                                                             \
  ::xla::ffi::internal::HandlerAbout<xla_ffi_maker_##a, xla_ffi_maker_##b, xla_ffi_maker_##c>(    \
      XLA_FFI_SDK_SYMBOL_OF_(a), XLA_FFI_SDK_SYMBOL_OF_(b), XLA_FFI_SDK_SYMBOL_OF_(c))
#define XLA_FFI_SDK_ABOUT_4_(a, b, c, d)                                                          \
  ::xla::ffi::internal::HandlerAbout<xla_ffi_maker_##a, xla_ffi_maker_##b, xla_ffi_maker_##c,     \
                                     xla_ffi_maker_##d>(                                          \
      XLA_FFI_SDK_SYMBOL_OF_(a), XLA_FFI_SDK_SYMBOL_OF_(b), XLA_FFI_SDK_SYMBOL_OF_(c),            \
      XLA_FFI_SDK_SYMBOL_OF_(d))
#define XLA_FFI_SDK_ABOUT_5_(a, b, c, d, e)                                                       \
  ::xla::ffi::internal::HandlerAbout<xla_ffi_maker_##a, xla_ffi_maker_##b, xla_ffi_maker_##c,     \
                                     xla_ffi_maker_##d, xla_ffi_maker_##e>(                       \
      XLA_FFI_SDK_SYMBOL_OF_(a), XLA_FFI_SDK_SYMBOL_OF_(b), XLA_FFI_SDK_SYMBOL_OF_(c),            \
      XLA_FFI_SDK_SYMBOL_OF_(d), XLA_FFI_SDK_SYMBOL_OF_(e))

// XLA_FFI_LIBRARY(name, XLA_FFI_HANDLER(symbol), ...): adds a manifest of this source file's handlers to the library. A
// file may have at most one XLA_FFI_LIBRARY. Files with the same library name describe the same library.
//
// For hosts that load a file without registering its handlers, add XLA_FFI_REGISTER_ON_LOAD to the list. When the
// library is loaded, it then registers the handlers with every host in the process. It does nothing if there is no
// host, and reports refused registrations on stderr.
#define XLA_FFI_LIBRARY(library, ...)                                                         \
  [[maybe_unused]] static constexpr auto xla_ffi_library_##library = [](char* out) {          \
    return ::xla::ffi::internal::WriteLibrary(out, #library, __VA_ARGS__);                    \
  };                                                                                          \
  [[maybe_unused]] static const bool xla_ffi_on_load_##library =                              \
      ::xla::ffi::internal::OnLoad(#library, __VA_ARGS__);                                    \
  XLA_FFI_SDK_RECORD_ constexpr auto library##__xla_ffi_manifest =                            \
      ::xla::ffi::internal::MakeRecord<xla_ffi_library_##library>()
#if !defined(_WIN32)
#define XLA_FFI_REGISTER_ON_LOAD ::xla::ffi::internal::RegisterOnLoad {}
#endif

#endif  // XLA_FFI_SDK_CPP_MANIFEST_H_
