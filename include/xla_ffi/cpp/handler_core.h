// The handler: guards a call, decodes it in a straight line, calls the function, encodes what it
// returns. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_HANDLER_CORE_H_
#define XLA_FFI_SDK_CPP_HANDLER_CORE_H_

#include "xla_ffi/cpp/refusal.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Whether a result encoding makes state, by its protocol.
template <typename Encoding, typename = void>
inline constexpr bool is_state_v = false;
template <typename Encoding>
inline constexpr bool is_state_v<
    Encoding, std::enable_if_t<std::is_same_v<
                  XLA_FFI_TypeId,
                  decltype(Encoding::state_type_id(std::declval<const XLA_FFI_Api*>()))>>> = true;

// Whether a result encoding can say why its type has no number.
template <typename Encoding, typename = void>
inline constexpr bool can_register_v = false;
template <typename Encoding>
inline constexpr bool can_register_v<
    Encoding, std::void_t<decltype(Encoding::RegisterState(
                  std::declval<const XLA_FFI_Api*>(), std::declval<XLA_FFI_TypeId*>()))>> = true;

#if XLA_FFI_SDK_EXCEPTIONS
// The error for the exception in flight.
XLA_FFI_SDK_COLD inline XLA_FFI_Error* CaughtError(const XLA_FFI_Api* api, std::string_view name) {
  std::string text(name);
  if (!text.empty()) text += ": ";
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    text += std::string("out of memory: ") + e.what();
    return NewError(api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, text);
  } catch (const std::exception& e) {
    text += std::string("a C++ exception: ") + e.what();
  } catch (const std::string& e) {
    text += "a C++ exception: " + e;
  } catch (const char* e) {
    text += std::string("a C++ exception: ") + (e != nullptr ? e : "(null)");
  } catch (...) {
    text += "a C++ exception of a type that is not std::exception";
  }
  return NewError(api, XLA_FFI_Error_Code_INTERNAL, text);
}
#endif

// A handler without a vtable: a constant where its function and its names are.
template <ExecutionStage stage, typename Fn, typename... Ts>
class HandlerCore {
  static constexpr int kSize = sizeof...(Ts);
  static constexpr int kArgs = count_tagged_v<ArgTag, Ts...>;
  static constexpr int kOptionalArgs = count_tagged_v<OptionalArgTag, Ts...>;
  static constexpr bool kRemainingArgs = contains_v<RemainingArgsTag, Ts...>;
  static constexpr int kRets = count_tagged_v<RetTag, Ts...>;
  static constexpr int kOptionalRets = count_tagged_v<OptionalRetTag, Ts...>;
  static constexpr bool kRemainingRets = contains_v<RemainingRetsTag, Ts...>;
  static constexpr int kAttrs = count_tagged_v<AttrTag, Ts...>;
  static constexpr bool kOptionalAttrs = (is_optional_attr_v<Ts> || ...);

 public:
  constexpr HandlerCore(std::string_view name, Fn fn, std::initializer_list<Traits> traits,
                        const BoundNames<kSize>& names)
      : fn_(std::move(fn)), name_(name), names_(names) {
    for (const Traits trait : traits) traits_ |= static_cast<XLA_FFI_Handler_Traits>(trait);
    // A frame's attributes are sorted by the bytes of their names. Where it has all that are bound
    // and no other, an attribute's place is the number of distinct names before its own.
    for (int i = 0; i < kSize; ++i) {
      if (!kIsAttr[i]) continue;
      bool first = true;
      for (int k = 0; k < i; ++k) {
        if (kIsAttr[k] && names.names[k].text() == names.names[i].text()) first = false;
      }
      if (!first) continue;
      ++distinct_;
      for (int k = 0; k < kSize; ++k) {
        if (kIsAttr[k] && Before(names.names[i].text(), names.names[k].text())) ++rank_[k];
      }
    }
  }

  XLA_FFI_SDK_HOT XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const {
    if (XLA_FFI_PREDICT_FALSE(frame->extension_start != nullptr ||
                              frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE ||
                              frame->api == nullptr ||
                              frame->stage != static_cast<XLA_FFI_ExecutionStage>(stage))) {
      XLA_FFI_Error* error = nullptr;
      if (Unusual(frame, &error)) return error;
    }
    if (XLA_FFI_PREDICT_FALSE(!Counts(frame))) return WrongCounts(frame);
    return Decode(frame, std::make_index_sequence<kSize>{});
  }

 private:
  static constexpr bool kIsAttr[kSize + 1] = {is_attr_tag_v<Ts>..., false};
  static constexpr ElementKind kKinds[kSize + 1] = {element_kind_v<Ts>..., ElementKind::kOther};

  // Compares as the host sorts: by unsigned bytes.
  static constexpr bool Before(std::string_view a, std::string_view b) {
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      const auto x = static_cast<unsigned char>(a[i]), y = static_cast<unsigned char>(b[i]);
      if (x != y) return x < y;
    }
    return a.size() < b.size();
  }

  // The place of element `i` among the operands of its kind.
  static constexpr int Position(int i) {
    int position = 0;
    for (int k = 0; k < i; ++k) position += kKinds[k] == kKinds[i];
    return position;
  }

  // Operands are not counted where none is bound: the handler of another stage may look at the
  // attributes alone. The same goes for attributes.
  XLA_FFI_SDK_HOT bool Counts(const XLA_FFI_CallFrame* frame) const {
    bool good = true;
    if constexpr (kRemainingArgs) {
      good &= frame->args.size >= kArgs;
    } else if constexpr (kOptionalArgs > 0) {
      good &= frame->args.size >= kArgs && frame->args.size <= kArgs + kOptionalArgs;
    } else if constexpr (kArgs > 0) {
      good &= frame->args.size == kArgs;
    }
    if constexpr (kRemainingRets) {
      good &= frame->rets.size >= kRets;
    } else if constexpr (kOptionalRets > 0) {
      good &= frame->rets.size >= kRets && frame->rets.size <= kRets + kOptionalRets;
    } else if constexpr (kRets > 0) {
      good &= frame->rets.size == kRets;
    }
    if constexpr (kAttrs > 0 && !kOptionalAttrs) good &= frame->attrs.size == distinct_;
    return good;
  }

  XLA_FFI_SDK_HOT static bool Equal(const XLA_FFI_ByteSpan* a, std::string_view b) {
    return a->len == b.size() &&
           std::char_traits<char>::compare(a->ptr, b.data(), b.size()) == 0;
  }

  // Where an element's operand or attribute lies.
  template <int i>
  XLA_FFI_SDK_HOT int64_t IndexOf(const XLA_FFI_CallFrame* frame) const {
    using Tag = std::tuple_element_t<i, std::tuple<Ts...>>;
    constexpr int kPosition = Position(i);
    if constexpr (std::is_same_v<Tag, RemainingArgsTag>) {
      return kArgs + kOptionalArgs;
    } else if constexpr (std::is_same_v<Tag, RemainingRetsTag>) {
      return kRets + kOptionalRets;
    } else if constexpr (is_tagged_v<OptionalArgTag, Tag>) {
      return kPosition < frame->args.size ? kPosition : kAbsent;
    } else if constexpr (is_tagged_v<OptionalRetTag, Tag>) {
      return kPosition < frame->rets.size ? kPosition : kAbsent;
    } else if constexpr (!kIsAttr[i]) {
      return kPosition;
    } else {
      const std::string_view name = names_.names[i].text();
      const int64_t guess = rank_[i];
      if (XLA_FFI_PREDICT_TRUE(guess < frame->attrs.size &&
                               Equal(frame->attrs.names[guess], name))) {
        return guess;
      }
      if constexpr (!kOptionalFlags[i] && !kOptionalAttrs) {
        return kMissing;  // the counts are equal: some other attribute stands in its place
      } else {
        const int64_t found = FindAttr(frame, name);
        return found >= 0 ? found : kOptionalFlags[i] ? kAbsent : kMissing;
      }
    }
  }
  static constexpr bool kOptionalFlags[kSize + 1] = {is_optional_attr_v<Ts>..., false};

  // An element that is checked now and taken later: its place.
  struct Taken {
    int64_t index;
    bool good;
    XLA_FFI_SDK_HOT bool Good() const { return good; }
  };
  // An element that is decoded now.
  template <typename T>
  struct Decoded {
    std::optional<T> value;
    XLA_FFI_SDK_HOT bool Good() const { return value.has_value(); }
  };

  template <int i, typename Tag>
  XLA_FFI_SDK_HOT auto Element(const XLA_FFI_CallFrame* frame,
                               [[maybe_unused]] DiagnosticEngine& diagnostic) const {
    const int64_t index = IndexOf<i>(frame);
    if constexpr (DecodeOne<Tag>::kTakes) {
      return Taken{index, index != kMissing && DecodeOne<Tag>::Check(Place{frame, index})};
    } else {
      DiagnosticAccess::Enter(diagnostic, i);
      using Type = typename ParamOf<Tag>::Type;
      return Decoded<Type>{index == kMissing
                               ? std::optional<Type>(std::nullopt)
                               : DecodeOne<Tag>::Call(Place{frame, index}, diagnostic)};
    }
  }

  template <typename Tag, typename Slot>
  XLA_FFI_SDK_HOT static typename ParamOf<Tag>::Type Value(const XLA_FFI_CallFrame* frame,
                                                           Slot& slot) {
    if constexpr (DecodeOne<Tag>::kTakes) {
      return DecodeOne<Tag>::Take(Place{frame, slot.index});
    } else {
      return *std::move(slot.value);
    }
  }

  // All elements; an aggregate, so that nothing is copied on the way in.
  template <size_t i, typename Slot>
  struct Holder {
    Slot slot;
  };
  template <typename Is, typename... Slots>
  struct Holders;
  template <size_t... Is, typename... Slots>
  struct Holders<std::index_sequence<Is...>, Slots...> : Holder<Is, Slots>... {};
  template <typename Tag>
  using SlotOf = std::conditional_t<DecodeOne<Tag>::kTakes, Taken,
                                    Decoded<typename ParamOf<Tag>::Type>>;

  template <size_t... Is>
  XLA_FFI_SDK_HOT XLA_FFI_Error* Decode(XLA_FFI_CallFrame* frame,
                                        std::index_sequence<Is...>) const {
    static_assert(std::is_invocable_v<const Fn&, typename ParamOf<Ts>::Type...>,
                  "the function does not take what the binding gives: compare them one by one");
    using ResultType = std::invoke_result_t<const Fn&, typename ParamOf<Ts>::Type...>;
    DiagnosticEngine diagnostic;
    [[maybe_unused]] Holders<std::index_sequence<Is...>, SlotOf<Ts>...> all{
        {Element<static_cast<int>(Is), Ts>(frame, diagnostic)}...};
    bool good =
        (1 & ... & static_cast<int>(static_cast<Holder<Is, SlotOf<Ts>>&>(all).slot.Good())) != 0;
    if constexpr (kOptionalAttrs) good = good && NoneUnknown(frame);
    if (XLA_FFI_PREDICT_FALSE(!good)) {
      const bool decoded[] = {static_cast<Holder<Is, SlotOf<Ts>>&>(all).slot.Good()..., true};
      return Refuse(frame, decoded, diagnostic, std::index_sequence<Is...>{});
    }
#if XLA_FFI_SDK_EXCEPTIONS
    try {
#endif
      return Encode<ResultType>(
          frame, fn_(Value<Ts>(frame, static_cast<Holder<Is, SlotOf<Ts>>&>(all).slot)...));
#if XLA_FFI_SDK_EXCEPTIONS
    } catch (...) {
      return CaughtError(frame->api, name_);
    }
#endif
  }

  template <typename ResultType>
  XLA_FFI_SDK_HOT static XLA_FFI_Error* Encode(XLA_FFI_CallFrame* frame, ResultType result) {
    using Encoding = ResultEncoding<stage, ResultType>;
    auto encoded = Encoding::Encode(frame->api, frame->ctx, std::move(result));
    using Encoded = decltype(encoded);
    if constexpr (std::is_same_v<Encoded, XLA_FFI_Error*>) {
      return encoded;
    } else if constexpr (std::is_same_v<Encoded, XLA_FFI_Future*>) {
      return SetFuture(frame, encoded);
    } else {
      static_assert(std::is_same_v<Encoded, std::variant<XLA_FFI_Error*, XLA_FFI_Future*>>,
                    "Encode returns XLA_FFI_Error*, XLA_FFI_Future* or a variant of the two");
      if (encoded.index() == 0) return *std::get_if<0>(&encoded);
      return SetFuture(frame, *std::get_if<1>(&encoded));
    }
  }

  // Optional attributes: whatever is in the frame has to be bound.
  XLA_FFI_SDK_FN bool NoneUnknown(const XLA_FFI_CallFrame* frame) const {
    int64_t found = 0;
    for (int i = 0; i < kSize; ++i) {
      if (!kIsAttr[i]) continue;
      bool first = true;
      for (int k = 0; k < i; ++k) {
        if (kIsAttr[k] && names_.names[k].text() == names_.names[i].text()) first = false;
      }
      if (first && FindAttr(frame, names_.names[i].text()) >= 0) ++found;
    }
    return found == frame->attrs.size;
  }

  // A metadata call, or a frame that is not for this handler. False: go on after all.
  XLA_FFI_SDK_COLD bool Unusual(XLA_FFI_CallFrame* frame, XLA_FFI_Error** error) const {
    if (const auto* extension = FindMetadata(frame)) {
      *error = Answer(frame->api, extension);
      return true;
    }
    return RefuseFrame(frame, static_cast<XLA_FFI_ExecutionStage>(stage), name_, error);
  }

  XLA_FFI_SDK_COLD XLA_FFI_Error* Answer(const XLA_FFI_Api* api,
                                         const XLA_FFI_Metadata_Extension* extension) const {
    using ResultType = std::invoke_result_t<const Fn&, typename ParamOf<Ts>::Type...>;
    using Encoding = ResultEncoding<stage, ResultType>;
    constexpr Revision kFloor = [] {
      Revision floor = Revision::r0;
      ((floor = Later(floor, floor_v<Ts>)), ...);
      if constexpr (stage == ExecutionStage::kRecord) floor = Later(floor, Revision::r9);
      if constexpr (is_state_v<Encoding>) {
        floor = Later(floor, stage == ExecutionStage::kInstantiate ? Revision::r1 : Revision::r8);
      }
      return floor;
    }();
    XLA_FFI_Error* error = AnswerMetadata(api, extension, kFloor, traits_, name_);
    if (error != nullptr || api == nullptr || HostMinor(api) < 2) return error;
    XLA_FFI_TypeId id{0};
    if constexpr (can_register_v<Encoding>) {
      if ((error = Encoding::RegisterState(api, &id)) != nullptr) return error;
    } else if constexpr (is_state_v<Encoding>) {
      id = Encoding::state_type_id(api);
      if (id.type_id == 0) {
        return NewError(api, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                        "the type of this handler's state has to be registered before it");
      }
    }
    extension->metadata->state_type_id = id;  // a field of hosts from 0.2 on
    return nullptr;
  }

  XLA_FFI_SDK_COLD XLA_FFI_Error* WrongCounts(const XLA_FFI_CallFrame* frame) const {
    Refusal refusal(frame, name_);
    if (kArgs + kOptionalArgs > 0 || kRemainingArgs) {
      refusal.Count("arguments", frame->args.size, kArgs, kOptionalArgs, kRemainingArgs);
    }
    if (kRets + kOptionalRets > 0 || kRemainingRets) {
      refusal.Count("results", frame->rets.size, kRets, kOptionalRets, kRemainingRets);
    }
    if (kAttrs > 0) {
      for (int i = 0; i < kSize; ++i) {
        if (kIsAttr[i] && !kOptionalFlags[i] && FindAttr(frame, names_.names[i].text()) < 0) {
          refusal.Add("attribute '" + std::string(names_.names[i].text()) + "': missing");
        }
      }
      DiagnosticEngine diagnostic;
      DiagnoseUnknownAttrs(frame, names_.names, kIsAttr, kSize, diagnostic);
      refusal.AddAll(diagnostic);
    }
    return refusal.Finish(XLA_FFI_Error_Code_INVALID_ARGUMENT);
  }

  // Tells what is wrong with the elements that were only checked.
  template <int i, typename Tag>
  XLA_FFI_SDK_FN void Explain(const XLA_FFI_CallFrame* frame, bool decoded,
                              DiagnosticEngine& diagnostic) const {
    if (decoded) return;
    DiagnosticAccess::Enter(diagnostic, i);
    const int64_t index = IndexOf<i>(frame);
    if (index == kMissing) {
      DiagnosticAccess::Add(diagnostic, "missing");
    } else if constexpr (DecodeOne<Tag>::kTakes && !std::is_same_v<Tag, RemainingArgsTag> &&
                         !std::is_same_v<Tag, RemainingRetsTag>) {
      static_cast<void>(DecodeOne<Tag>::Call(Place{frame, index}, diagnostic));
    }
  }

  template <size_t... Is>
  XLA_FFI_SDK_COLD XLA_FFI_Error* Refuse(const XLA_FFI_CallFrame* frame, const bool* decoded,
                                         DiagnosticEngine& diagnostic,
                                         std::index_sequence<Is...>) const {
    (Explain<static_cast<int>(Is), Ts>(frame, decoded[Is], diagnostic), ...);
    if constexpr (kAttrs > 0) {
      DiagnosticAccess::Enter(diagnostic, -1);
      DiagnoseUnknownAttrs(frame, names_.names, kIsAttr, kSize, diagnostic);
    }
    Refusal refusal(frame, name_);
    int positions[kSize + 1] = {};
    for (int i = 0; i < kSize; ++i) positions[i] = Position(i);
    return refusal.Elements(names_.names, kKinds, positions, decoded, kSize, diagnostic);
  }

  Fn fn_;
  std::string_view name_;  // a literal, or empty
  BoundNames<kSize> names_;
  int64_t rank_[kSize + 1] = {};  // of attributes
  int64_t distinct_ = 0;          // attribute names
  XLA_FFI_Handler_Traits traits_ = 0;
};

// What a macro keeps: the handler itself where it needs no destructor, so that it can be a constant;
// else one on the heap, which is never destroyed because threads may outlive static objects.
template <typename Core>
struct KeptHandler {
  const Core* core;
  XLA_FFI_SDK_HOT XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const { return core->Call(frame); }
};

template <ExecutionStage stage, typename Fn, typename... Ts>
XLA_FFI_SDK_FN constexpr auto MakeHandler(std::string_view name,
                                          const Binding<stage, Ts...>& binding, Fn fn,
                                          std::initializer_list<Traits> traits = {}) {
  using Core = HandlerCore<stage, Fn, Ts...>;
  if constexpr (std::is_trivially_destructible_v<Core>) {
    return Core(name, std::move(fn), traits, BindingAccess::Names(binding));
  } else {
    return KeptHandler<Core>{
        new Core(name, std::move(fn), traits, BindingAccess::Names(binding))};
  }
}

// Bindings of other kinds: whatever has a To.
template <typename B, typename Fn, typename = std::enable_if_t<!IsBinding<std::decay_t<B>>::value>>
XLA_FFI_SDK_FN auto MakeHandler(std::string_view, B&& binding, Fn fn,
                                std::initializer_list<Traits> traits = {}) {
  auto handler = std::forward<B>(binding).To(std::move(fn), traits);
  return KeptHandler<std::remove_reference_t<decltype(*handler)>>{handler.release()};
}

// Automatic binding.
template <typename Fn>
XLA_FFI_SDK_FN constexpr auto MakeHandlerAuto(std::string_view name, Fn fn) {
  return MakeHandler(name, InferOf<Fn>::Bind(Ffi::Bind()), std::move(fn));
}

XLA_FFI_SDK_INTERNAL_END

// A handler behind the common base.
template <ExecutionStage stage, typename Fn, typename... Ts>
class XLA_FFI_SDK_TYPE Handler final : public Ffi {
 public:
  Handler(Fn fn, std::initializer_list<Traits> traits,
          const internal::BoundNames<sizeof...(Ts)>& names)
      : core_({}, std::move(fn), traits, names) {}

  XLA_FFI_SDK_FN XLA_FFI_Error* Call(XLA_FFI_CallFrame* call_frame) const override {
    return core_.Call(call_frame);
  }

 private:
  internal::HandlerCore<stage, Fn, Ts...> core_;
};

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_HANDLER_CORE_H_
