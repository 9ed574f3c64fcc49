// The core of a handler: checks a call, decodes it on a fast path, and calls the handler's function. Part of
// <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_HANDLER_CORE_H_
#define XLA_FFI_SDK_CPP_HANDLER_CORE_H_

#include "xla_ffi/cpp/encode.h"
#include "xla_ffi/cpp/plan.h"
#include "xla_ffi/cpp/explain.h"

// Not for nvcc, which rejects the vector casts in HasDistinctStarts.
#if defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_shufflevector)
#define XLA_FFI_SDK_SHUFFLES_
#endif
#endif

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The properties of a handler besides its function: name, traits, and the names of its elements.
template <size_t n>
struct HandlerLabel {
  std::string_view name;  // a string literal, or empty
  XLA_FFI_Handler_Traits traits = 0;
  BoundNames<n> names;

  constexpr HandlerLabel(std::string_view handler, std::initializer_list<Traits> list, const BoundNames<n>& bound)
      : name(handler), names(bound) {
    for (const Traits trait : list) traits |= static_cast<XLA_FFI_Handler_Traits>(trait);
  }
};

// The encoding of the return value of a handler's function.
template <ExecutionStage stage, typename Fn, typename... Ts>
using EncodingOf = ResultEncoding<stage, std::invoke_result_t<const Fn&, typename ParamOf<Ts>::Type...>>;

// Returns the floor of a handler: the oldest revision on which it can work.
template <ExecutionStage stage, typename Fn, typename... Ts>
constexpr Revision FloorOf() {
  Revision floor = Revision::r0;
  ((floor = Later(floor, floor_v<Ts>)), ...);
  if constexpr (stage == ExecutionStage::kRecord) {
    floor = Later(floor, XLA_FFI_SDK_SINCE(RECORD_STAGE));
  }
  if constexpr (is_state_v<EncodingOf<stage, Fn, Ts...>>) {
    floor = Later(floor, stage == ExecutionStage::kInstantiate ? XLA_FFI_SDK_SINCE(STATE)
                                                               : XLA_FFI_SDK_SINCE(STAGE_STATE));
  }
  return floor;
}

// A handler without virtual functions. The object is a compile-time constant if its function and names are constants.
template <ExecutionStage stage, typename Fn, typename Declared, typename... Ts>
class HandlerCore {
  static constexpr int kSize = sizeof...(Ts);
  // The size of arrays with an element for each of `Ts`. Never 0, even if `Ts` is empty.
  static constexpr size_t kRoom = sizeof...(Ts) + 1;
  static constexpr int kInOuts = count_tagged_v<InOutTag, Ts...>;
  static constexpr int kArgs = count_tagged_v<ArgTag, Ts...> + kInOuts;
  static constexpr int kOptionalArgs = count_tagged_v<OptionalArgTag, Ts...>;
  static constexpr bool kRemainingArgs = contains_v<RemainingArgsTag, Ts...>;
  static constexpr int kRets = count_tagged_v<RetTag, Ts...> + kInOuts;
  static constexpr int kOptionalRets = count_tagged_v<OptionalRetTag, Ts...>;
  static constexpr bool kRemainingRets = contains_v<RemainingRetsTag, Ts...>;
  static constexpr int kAttrs = count_tagged_v<AttrTag, Ts...>;
  static constexpr bool kOptionalAttrs = (is_optional_attr_v<Ts> || ...);

 public:
  constexpr HandlerCore(const HandlerLabel<sizeof...(Ts)>& label, Fn fn)
      : fn_(std::move(fn)), name_(label.name), names_(label.names), traits_(label.traits) {
    const auto& names = names_.names;
    // The attributes of a call frame are sorted by the bytes of their names. If the frame has exactly the bound
    // attributes, the index of an attribute is the number of distinct names that sort before its name.
    for (int i = 0; i < kSize; ++i) {
      if (!kIsAttr[i]) continue;
      bool first = true;
      for (int k = 0; k < i; ++k) {
        if (kIsAttr[k] && names[k].text() == names[i].text()) first = false;
      }
      if (!first) continue;
      first_[i] = true;
      ++distinct_;
      for (int k = 0; k < kSize; ++k) {
        if (kIsAttr[k] && Before(names[i].text(), names[k].text())) ++rank_[k];
      }
    }
    if constexpr (kCanPlan) {
      shape_is_planned_ = !ShapeCheck<Declared>::Names(names, kIsAttr, kSize);
    }
  }

  XLA_FFI_SDK_HOT XLA_FFI_Error* Call(XLA_FFI_CallFrame* frame) const {
    if (XLA_FFI_PREDICT_FALSE(frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE ||
                              frame->extension_start != nullptr || frame->api == nullptr ||
                              !xla_ffi_sdk_has_lists(frame) ||
                              frame->stage != static_cast<XLA_FFI_ExecutionStage>(stage))) {
      XLA_FFI_Error* error = nullptr;
      if (HandleOtherCall(frame, &error)) return error;
    }
#if defined(XLA_FFI_SDK_INTERNAL_H_)
    if (const char* why = xffi_rt_refuse(frame->api, XFFI_RT_IMAGE)) {
      return RefuseHost(frame->api, name_, why);
    }
#endif
    if constexpr (kAsksForStream) {
      if (XLA_FFI_PREDICT_FALSE(!xla_ffi_sdk_is_on_host(frame))) return RefuseDevice(frame, name_);
    }
    if (XLA_FFI_PREDICT_FALSE(!Counts(frame))) return Refuse(frame, std::index_sequence_for<Ts...>{});
    return Decode(frame, std::index_sequence_for<Ts...>{});
  }

 private:
  static constexpr bool kIsAttr[kRoom] = {is_attr_tag_v<Ts>..., false};
  static constexpr ElementKind kKinds[kRoom] = {element_kind_v<Ts>..., ElementKind::kOther};

  // Returns true if `a` sorts before `b`. Compares unsigned bytes, as hosts do.
  static constexpr bool Before(std::string_view a, std::string_view b) {
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      const auto x = static_cast<unsigned char>(a[i]), y = static_cast<unsigned char>(b[i]);
      if (x != y) return x < y;
    }
    return a.size() < b.size();
  }

  // Returns the index of element `i` among the operands of a kind. In-out operands count as arguments and as results.
  static constexpr int PositionAs(int i, ElementKind kind) {
    int position = 0;
    for (int k = 0; k < i; ++k) {
      position += kKinds[k] == kind || (kKinds[k] == ElementKind::kInOut && IsOperand(kind));
    }
    return position;
  }
  static constexpr bool IsOperand(ElementKind kind) {
    return kind == ElementKind::kArg || kind == ElementKind::kRet;
  }
  // Returns the index of element `i` among the elements of its kind; for an in-out operand, among the arguments.
  static constexpr int Position(int i) {
    return PositionAs(i, kKinds[i] == ElementKind::kInOut ? ElementKind::kArg : kKinds[i]);
  }

  // The number of operands is only checked if an operand is bound, because handlers of other stages may only need
  // attributes. The same applies to the number of attributes. For execute handlers with a contract or a restriction to
  // host memory, all numbers are checked.
  static constexpr bool kCountsAll =
      stage == ExecutionStage::kExecute && !std::is_same_v<Declared, Undeclared>;
  static constexpr bool kCountsArgs = kArgs + kOptionalArgs > 0 || kRemainingArgs || kCountsAll;
  static constexpr bool kCountsRets = kRets + kOptionalRets > 0 || kRemainingRets || kCountsAll;
  static constexpr bool kCountsAttrs =
      kAttrs > 0 || (kCountsAll && !(is_tagged_v<AttrsTag, Ts> || ...));

  XLA_FFI_SDK_HOT bool Counts(const XLA_FFI_CallFrame* frame) const {
    bool good = true;
    if constexpr (kRemainingArgs) {
      good &= frame->args.size >= kArgs;
    } else if constexpr (kOptionalArgs > 0) {
      good &= frame->args.size >= kArgs && frame->args.size <= kArgs + kOptionalArgs;
    } else if constexpr (kCountsArgs) {
      good &= frame->args.size == kArgs;
    }
    if constexpr (kRemainingRets) {
      good &= frame->rets.size >= kRets;
    } else if constexpr (kOptionalRets > 0) {
      good &= frame->rets.size >= kRets && frame->rets.size <= kRets + kOptionalRets;
    } else if constexpr (kCountsRets) {
      good &= frame->rets.size == kRets;
    }
    if constexpr (kCountsAttrs && !kOptionalAttrs) good &= frame->attrs.size == distinct_;
    return good;
  }

  // The indices of the attributes. Without optional attributes, the indices are fixed. A frame with the right number of
  // attributes then has each attribute at its rank among the sorted names, or lacks it.
  struct Fixed {};
  struct Searched {
    int64_t at[kRoom];
  };
  using Places = std::conditional_t<kOptionalAttrs, Searched, Fixed>;

  template <size_t... Is>
  XLA_FFI_SDK_HOT Places Locate([[maybe_unused]] const XLA_FFI_CallFrame* frame,
                                std::index_sequence<Is...>) const {
    if constexpr (kOptionalAttrs) {
      return Searched{{(kIsAttr[Is] ? Search<Is>(frame) : kAbsent)..., 0}};
    } else {
      return Fixed{};
    }
  }
  template <size_t i>
  XLA_FFI_SDK_HOT int64_t Search(const XLA_FFI_CallFrame* frame) const {
    const int64_t found = FindAttrIn(&frame->attrs, names_.names[i].text());
    return found >= 0 ? found : kOptionalFlags[i] ? kAbsent : kMissing;
  }

  // Returns the index of the operand or attribute from which element `i` of the binding is decoded.
  template <size_t i, typename Tag>
  XLA_FFI_SDK_HOT int64_t IndexOf(const XLA_FFI_CallFrame* frame,
                                  [[maybe_unused]] const Places& places) const {
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
    } else if constexpr (kOptionalAttrs) {
      return places.at[i];
    } else {
      return rank_[i];
    }
  }
  template <typename Tag>
  static constexpr bool kIsNumber = !std::is_void_v<typename LastNumber<Tag>::Type>;
  static constexpr bool kOptionalFlags[kRoom] = {is_optional_attr_v<Ts>..., false};

  template <size_t i, typename Tag>
  XLA_FFI_SDK_HOT Place PlaceOf(const XLA_FFI_CallFrame* frame, int64_t index) const {
    if constexpr (is_tagged_v<InOutTag, Tag>) {
      return Place{frame, index, PositionAs(i, ElementKind::kRet)};
    } else {
      return Place{frame, index};
    }
  }

  // Returns true if the attribute of an element is present or optional.
  template <size_t i>
  XLA_FFI_SDK_HOT bool IsThere([[maybe_unused]] const XLA_FFI_CallFrame* frame,
                               [[maybe_unused]] int64_t index) const {
    if constexpr (!kIsAttr[i]) {
      return true;
    } else if constexpr (kOptionalAttrs) {
      return index != kMissing;
    } else {
      return IsNamed(frame->attrs.names[index], names_.names[i].text());
    }
  }

  // Checks an element that has a fast path. Other elements are decoded later, which also checks them.
  template <size_t i, typename Tag>
  XLA_FFI_SDK_HOT bool Check(const XLA_FFI_CallFrame* frame, const Places& places) const {
    const int64_t index = IndexOf<i, Tag>(frame, places);
    if (XLA_FFI_PREDICT_FALSE(!IsThere<i>(frame, index))) return false;
    if constexpr (DecodeOne<Tag>::kTakes) {
      if constexpr (kIsNumber<Tag>) {
        return DecodeOne<Tag>::Check(PlaceOf<i, Tag>(frame, index)) &&
               names_.names[i].limits.Allow(DecodeOne<Tag>::Take(PlaceOf<i, Tag>(frame, index)));
      }
      return DecodeOne<Tag>::Check(PlaceOf<i, Tag>(frame, index));
    } else {
      return true;
    }
  }

  // The storage of an element that is decoded before the function is called; empty for elements with a fast path.
  struct Nothing {
    XLA_FFI_SDK_HOT bool Good() const { return true; }
  };
  template <typename Tag>
  struct Decoded {
    DiagnosticEngine problems;
    std::optional<typename ParamOf<Tag>::Type> value;
    XLA_FFI_SDK_HOT explicit Decoded(Place at) : value(DecodeOne<Tag>::Call(at, problems)) {}
    XLA_FFI_SDK_HOT bool Good() const { return value.has_value(); }
  };
  template <typename Tag>
  using SlotOf = std::conditional_t<DecodeOne<Tag>::kTakes, Nothing, Decoded<Tag>>;

  // The outcome of decoding an element of a call that is refused. The problems are kept, because a decoder may be user
  // code, which must be called only once.
  struct Outcome {
    const DiagnosticEngine* problems = nullptr;
    bool is_good = false;
  };
  template <typename S>
  XLA_FFI_SDK_HOT static Outcome OutcomeOf([[maybe_unused]] const S& slot) {
    if constexpr (std::is_same_v<S, Nothing>) {
      return {};
    } else {
      return {&slot.problems, slot.Good()};
    }
  }

  template <size_t i, typename Tag>
  XLA_FFI_SDK_HOT SlotOf<Tag> Slot([[maybe_unused]] const XLA_FFI_CallFrame* frame,
                                   [[maybe_unused]] const Places& places) const {
    if constexpr (DecodeOne<Tag>::kTakes) {
      return Nothing{};
    } else {
      return SlotOf<Tag>(PlaceOf<i, Tag>(frame, IndexOf<i, Tag>(frame, places)));
    }
  }

  template <size_t i, typename Tag, typename S>
  XLA_FFI_SDK_HOT typename ParamOf<Tag>::Type Value(const XLA_FFI_CallFrame* frame,
                                                    [[maybe_unused]] const Places& places,
                                                    [[maybe_unused]] S& slot) const {
    if constexpr (DecodeOne<Tag>::kTakes) {
      return DecodeOne<Tag>::Take(PlaceOf<i, Tag>(frame, IndexOf<i, Tag>(frame, places)));
    } else {
#if defined(__GNUC__) && !defined(__clang__)
      // Avoids a GCC warning that bytes of a variant's unused alternative are uninitialized.
      __asm__("" : "+m"(slot.value));
#endif
      return *std::move(slot.value);
    }
  }

  // The storage of all elements, as an aggregate, so that the elements are constructed in place.
  template <size_t i, typename S>
  struct Holder {
    S slot;
  };
  template <typename Is, typename... Slots>
  struct Holders;
  template <size_t... Is, typename... Slots>
  struct Holders<std::index_sequence<Is...>, Slots...> : Holder<Is, Slots>... {};
  template <size_t i, typename S>
  XLA_FFI_SDK_HOT static S& SlotIn(Holder<i, S>& holder) {
    return holder.slot;
  }

  // A parameter of the function may be narrower than the bound type, so the conversion in the call would cause
  // warnings.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#endif
  template <size_t... Is>
  XLA_FFI_SDK_HOT XLA_FFI_Error* Decode(XLA_FFI_CallFrame* frame,
                                        std::index_sequence<Is...> is) const {
    [[maybe_unused]] const Places places = Locate(frame, is);
#if defined(__clang__)
    // The slow path is a separate function, because Clang would otherwise reload all values where the two paths join.
    if (XLA_FFI_PREDICT_FALSE(!MatchFastPath(frame, places, is))) return DecodeSlowly(frame, places, is);
    return Checked(frame, places, is, true);
  }
  template <size_t... Is>
  XLA_FFI_SDK_SLOW XLA_FFI_Error* DecodeSlowly(XLA_FFI_CallFrame* frame, const Places& places,
                                               std::index_sequence<Is...> is) const {
    return Checked(frame, places, is, AreValid(frame, places, is));
  }
#else
    return Checked(frame, places, is, MatchFastPath(frame, places, is) || AreValid(frame, places, is));
  }
#endif
  template <size_t... Is>
  XLA_FFI_SDK_HOT XLA_FFI_Error* Checked(XLA_FFI_CallFrame* frame, [[maybe_unused]] const Places& places,
                                         std::index_sequence<Is...> is, bool good) const {
    if constexpr (kOptionalAttrs) good = good && NoneUnknown(frame, places);
    if constexpr (kHasShape) good = good && ShapeIsGood(frame);
    if (XLA_FFI_PREDICT_FALSE(!good)) return Refuse(frame, is);
    if constexpr ((DecodeOne<Ts>::kTakes && ...)) {
      [[maybe_unused]] Nothing nothing;
      return Run(frame, [&]() -> decltype(auto) {
        return fn_(Value<Is, Ts>(frame, places, nothing)...);
      });
    } else {
      return RunDecoded(frame, places, is);
    }
  }

  // Decodes the elements without a fast path, and calls the function. User-defined decoders and constructors may throw.
  template <size_t... Is>
  XLA_FFI_SDK_HOT XLA_FFI_Error* RunDecoded(XLA_FFI_CallFrame* frame, const Places& places,
                                            std::index_sequence<Is...> is) const {
#if XLA_FFI_SDK_EXCEPTIONS
    try {
#endif
      Holders<std::index_sequence<Is...>, SlotOf<Ts>...> slots{{Slot<Is, Ts>(frame, places)}...};
      if (XLA_FFI_PREDICT_FALSE(!(SlotIn<Is, SlotOf<Ts>>(slots).Good() && ...))) {
        const Outcome outcomes[] = {OutcomeOf(SlotIn<Is, SlotOf<Ts>>(slots))...};
        return Refuse(frame, is, outcomes);
      }
      return Run(frame, [&]() -> decltype(auto) {
        return fn_(Value<Is, Ts>(frame, places, SlotIn<Is, SlotOf<Ts>>(slots))...);
      });
#if XLA_FFI_SDK_EXCEPTIONS
    } catch (...) {
      return CaughtError(CallerOf(frame));
    }
#endif
  }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

  // Whether operands have memory in this stage.
  static constexpr bool kHasMemory = HasMemory(static_cast<XLA_FFI_ExecutionStage>(stage));
  static constexpr bool kHasOperands =
      kArgs + kOptionalArgs + kRets + kOptionalRets > 0 || kRemainingArgs || kRemainingRets;
  static constexpr bool kAsksForStream = Declared::kHostOnly && kHasOperands;
  static constexpr bool kCountsVary =
      kOptionalArgs + kOptionalRets > 0 || kRemainingArgs || kRemainingRets;
  // Returns true if an element is not an operand, or has an element type and a rank that are known at compile time.
  template <template <typename> typename Tag, typename T>
  static constexpr bool IsKnown(const Tag<T>*) {
    constexpr bool kOperand =
        is_tagged_v<ArgTag, Tag<T>> || is_tagged_v<RetTag, Tag<T>> || is_tagged_v<InOutTag, Tag<T>>;
    return !kOperand || (OperandType<T>::kElement != kAnyElement && OperandType<T>::kRank != kAnyRank);
  }
  static constexpr bool IsKnown(const void*) { return true; }
  static constexpr bool LocatesInline() {
    return kHasMemory && !kCountsVary && kArgs + kRets <= XLA_FFI_SDK_PAIRS &&
           (IsKnown(static_cast<const Ts*>(nullptr)) && ...);
  }
  static constexpr bool kLocatesInline = LocatesInline();

  enum class Called { kGood, kWrites, kDiffers };
  static constexpr Called CallKind() {
    if constexpr (std::is_invocable_v<const Fn&, typename ParamOf<Ts>::Type...>) {
      return Called::kGood;
    } else {
      return std::is_invocable_v<Fn&, typename ParamOf<Ts>::Type...> ? Called::kWrites : Called::kDiffers;
    }
  }
  using Counted = std::conditional_t<CallKind() == Called::kDiffers, Parameters<typename ParamsOf<Fn>::Type, sizeof...(Ts)>,
                                     Parameters<void, 0>>;
  static_assert(sizeof(Counted) > 0);
  static_assert(CallKind() != Called::kWrites,
                "a handler's function is called as a constant, by many threads at once: take `mutable` from the lambda, or "
                "make its operator() const; what calls have in common is state, or an atomic");
  static_assert(CallKind() != Called::kDiffers,
                "the function does not take what the binding gives: compare them one by one");
  using Misfits = Misfit<ParamList<Ts...>, typename ParamsOf<Fn>::Type>;
  static_assert(!Misfits::kWritesArg,
                "the function would write an argument: what it takes as a Result is bound by .Ret, or by .InOut");
  static_assert(!Misfits::kLosesPointer, "the function takes a number where the binding gives a pointer");
  static constexpr bool kHasShape = *Declared::Shape() != '\0';
  static_assert(!kHasShape || ShapeProblem(Declared::Shape(), kArgs, kOptionalArgs, kRemainingArgs, kRets,
                                           kOptionalRets, kRemainingRets) != ShapeFault::kText,
                "XLA_FFI_SHAPE is not a contract such as \"... n, n k -> ... k\": docs/rust.md has the grammar");
  static_assert(!kHasShape || ShapeProblem(Declared::Shape(), kArgs, kOptionalArgs, kRemainingArgs, kRets,
                                           kOptionalRets, kRemainingRets) != ShapeFault::kCount,
                "XLA_FFI_SHAPE has another number of entries than the binding has operands; one that is "
                "optional ends in '?', the remaining ones are one entry that ends in '*'");

  // Return the number of arguments, and of results, of the frame that belong to the binding; 0 if the binding has none.
  static int64_t ArgCount(const XLA_FFI_CallFrame* frame) {
    return kArgs + kOptionalArgs > 0 || kRemainingArgs ? frame->args.size : 0;
  }
  static int64_t RetCount(const XLA_FFI_CallFrame* frame) {
    return kRets + kOptionalRets > 0 || kRemainingRets ? frame->rets.size : 0;
  }

  // Returns true if quick checks prove that the memory of a buffer is usable. Element type and rank were checked
  // before. Writes the start address to `starts`; the addresses of an in-out operand were compared before.
  template <size_t i, template <typename> typename Tag, typename T>
  XLA_FFI_SDK_HOT static bool IsPlain(const XLA_FFI_CallFrame* frame, uintptr_t* starts, const Tag<T>*) {
    constexpr bool kIsArg = is_tagged_v<ArgTag, Tag<T>>, kIsInOut = is_tagged_v<InOutTag, Tag<T>>;
    if constexpr (kIsArg || kIsInOut || is_tagged_v<RetTag, Tag<T>>) {
      constexpr int kPosition = kIsInOut ? PositionAs(i, ElementKind::kRet) : Position(i);
      const auto* buf = static_cast<const XLA_FFI_Buffer*>(kIsArg ? frame->args.args[kPosition]
                                                                  : frame->rets.rets[kPosition]);
      if constexpr (kIsInOut) starts[Position(i)] = 8 * size_t{Position(i)};
      starts[kIsArg ? kPosition : kArgs + kPosition] = reinterpret_cast<uintptr_t>(buf->data);
      return xla_ffi_sdk_is_small(buf, OperandType<T>::kElement, OperandType<T>::kRank) && buf->data != nullptr;
    }
    return true;
  }
  template <size_t i>
  XLA_FFI_SDK_HOT static bool IsPlain(const XLA_FFI_CallFrame*, uintptr_t*, const void*) {
    return true;
  }

  // Returns true if all operands are aligned for every element type, and no result starts where another operand starts.
  template <size_t... Os>
  XLA_FFI_SDK_HOT static bool HasDistinctStarts(const uintptr_t* starts, std::index_sequence<Os...>) {
    constexpr size_t kFirst = size_t{kArgs}, kCount = kFirst + size_t{kRets};
#if defined(XLA_FFI_SDK_SHUFFLES_)
    if constexpr (kCount > 4) {
      // Compares the lower halves of four addresses at a time.
      typedef uint32_t Four __attribute__((vector_size(16)));
      typedef uint64_t Two __attribute__((vector_size(16)));
      constexpr size_t kGroups = (kCount + 3) / 4;
      const auto start = [&](size_t i) { return i < kCount ? starts[i] : 8 * i; };
      const auto none = [](Four alike) {
        const auto both = reinterpret_cast<Two>(alike);
        return (both[0] | both[1]) == 0;
      };
      Four groups[kGroups], alike = {};
      XLA_FFI_SDK_UNROLL_4_
      for (size_t g = 0; g < kGroups; ++g) {
        const Two a = {start(4 * g), start(4 * g + 1)}, b = {start(4 * g + 2), start(4 * g + 3)};
        groups[g] = __builtin_shufflevector(reinterpret_cast<Four>(a), reinterpret_cast<Four>(b), 0, 2, 4, 6);
        alike |= groups[g] << 29;
      }
      if (!none(alike)) return false;
      XLA_FFI_SDK_UNROLL_4_
      for (size_t g = kFirst / 4; kRets > 0 && g < kGroups; ++g) {
        const Four own = groups[g], turned[] = {__builtin_shufflevector(own, own, 1, 2, 3, 0),
                                                __builtin_shufflevector(own, own, 2, 3, 0, 1),
                                                __builtin_shufflevector(own, own, 3, 0, 1, 2)};
        alike = reinterpret_cast<Four>((own == turned[0]) | (own == turned[1]));
        XLA_FFI_SDK_UNROLL_4_
        for (size_t o = 0; o < g; ++o) {
          alike |= reinterpret_cast<Four>((groups[o] == own) | (groups[o] == turned[0]) | (groups[o] == turned[1]) |
                                          (groups[o] == turned[2]));
        }
        if (!none(alike)) return false;
      }
      return true;
    } else
#endif
    {
      bool apart = ((starts[Os] | ... | 0) & 7) == 0;
      for (size_t r = kFirst; r < kCount; ++r) {
        for (size_t other = 0; other < r; ++other) apart = apart && starts[r] != starts[other];
      }
      return apart;
    }
  }

  // MatchFastPath returns true if quick checks prove that all elements with a fast path are valid. AreValid makes the
  // complete checks.
  template <size_t... Is>
  XLA_FFI_SDK_HOT bool MatchFastPath(const XLA_FFI_CallFrame* frame, const Places& places, std::index_sequence<Is...>) const {
    if constexpr (kLocatesInline && kArgs + kRets > 0) {
      uintptr_t starts[size_t{kArgs} + size_t{kRets} + 1];
      return XLA_FFI_PREDICT_TRUE(((Check<Is, Ts>(frame, places) &&
                                    IsPlain<Is>(frame, starts, static_cast<const Ts*>(nullptr))) && ...) &&
                                  HasDistinctStarts(starts, std::make_index_sequence<size_t{kArgs + kRets}>{}));
    }
    return !kHasOperands && (Check<Is, Ts>(frame, places) && ...);
  }
  template <size_t... Is>
  XLA_FFI_SDK_PURE bool AreValid(const XLA_FFI_CallFrame* frame, const Places& places, std::index_sequence<Is...>) const {
    return kHasOperands && (Check<Is, Ts>(frame, places) && ...) &&
           xla_ffi_sdk_memory_is_good(frame, ArgCount(frame), RetCount(frame), kHasMemory);
  }

  // Returns true if the contract may be checked with its plan: all operands are buffers, and the names of all
  // attributes are known.
  static constexpr bool CanPlan() {
    if constexpr (kHasShape) {
      return kCountsAll && ShapeCheck<Declared>::kPlan.is_plan && !(is_tagged_v<AttrsTag, Ts> || ...) &&
             ((DecodeOne<Ts>::kTakes || !IsOperand(element_kind_v<Ts>)) && ...);
    } else {
      return false;
    }
  }
  static constexpr bool kCanPlan = CanPlan();

  // Returns true if an element is not an operand, or if its decoder checks a known element type.
  template <template <typename> typename Tag, typename T>
  static constexpr bool IsFound(const Tag<T>*) {
    constexpr bool kOperand =
        is_tagged_v<ArgTag, Tag<T>> || is_tagged_v<RetTag, Tag<T>> || is_tagged_v<InOutTag, Tag<T>>;
    return !kOperand || OperandType<T>::kElement != kAnyElement;
  }
  static constexpr bool IsFound(const void*) { return true; }
  template <template <typename> typename Tag, typename T>
  static constexpr unsigned ElementOf(const Tag<T>*) {
    return OperandType<T>::kElement;
  }
  template <template <typename> typename Tag, typename T>
  static constexpr int64_t RankOf(const Tag<T>*) {
    return OperandType<T>::kRank;
  }

  XLA_FFI_SDK_HOT bool ShapeIsGood(const XLA_FFI_CallFrame* frame) const {
    if constexpr (kCanPlan) {
      if (XLA_FFI_PREDICT_TRUE(shape_is_planned_ &&
                               ShapeCheck<Declared>::Fits(frame))) {
        return true;
      }
    }
    return HasValidShapes(frame, Declared::Shape());
  }

  // Calls the handler's function and encodes its result.
  template <typename Function>
  XLA_FFI_SDK_HOT XLA_FFI_Error* Run(XLA_FFI_CallFrame* frame, const Function& function) const {
    using ResultType = decltype(function());
    static_assert(is_complete_v<ResultEncoding<stage, ResultType>>,
                  "a handler does not return this: it returns Error, Future or, to leave state, "
                  "ErrorOr<std::unique_ptr<T>>; its results are parameters, such as Result<Buffer<F32>>");
#if XLA_FFI_SDK_EXCEPTIONS
    try {
      return EncodeResult<ResultEncoding<stage, ResultType>, ResultType>(frame, CallerOf(frame), function());
    } catch (...) {
      return CaughtError(CallerOf(frame));
    }
#else
    return EncodeResult<ResultEncoding<stage, ResultType>, ResultType>(frame, CallerOf(frame), function());
#endif
  }

  // Returns true if all attributes in the frame are bound. Used if a binding has optional attributes.
  XLA_FFI_SDK_HOT bool NoneUnknown(const XLA_FFI_CallFrame* frame, const Places& places) const {
    int64_t found = 0;
    for (int i = 0; i < kSize; ++i) found += kIsAttr[i] && first_[i] && places.at[i] >= 0;
    return found == frame->attrs.size;
  }

  // Handles a metadata query or an invalid call frame. Returns false if the frame is valid and the call should
  // continue.
  XLA_FFI_SDK_COLD bool HandleOtherCall(XLA_FFI_CallFrame* frame, XLA_FFI_Error** error) const {
    if (const auto* extension = FindMetadata(frame)) {
      *error = Describe(frame->api, extension);
      return true;
    }
    return RefuseFrame(frame, static_cast<XLA_FFI_ExecutionStage>(stage), name_, error);
  }

  XLA_FFI_SDK_COLD XLA_FFI_Error* Describe(const XLA_FFI_Api* api,
                                         const XLA_FFI_Metadata_Extension* extension) const {
    using Encoding = EncodingOf<stage, Fn, Ts...>;
    constexpr Revision kFloor = FloorOf<stage, Fn, Ts...>();
#if defined(XLA_FFI_SDK_INTERNAL_H_)
    // If the query has no function table, no error can be created. Hosts refuse a handler that does not answer the
    // query.
    if (const char* why = xffi_rt_refuse(api, XFFI_RT_IMAGE)) return RefuseHost(api, name_, why);
#endif
    XLA_FFI_Error* error = AnswerMetadata(api, extension, kFloor, traits_, name_);
    if (error != nullptr || api == nullptr || HostMinor(api) < 2) return error;
    XLA_FFI_TypeId id{0};
#if XLA_FFI_SDK_EXCEPTIONS
    try {  // because an encoding may be user code
      error = StateType<Encoding>(api, &id);
    } catch (...) {
      error = CaughtError({api, nullptr, name_, static_cast<XLA_FFI_ExecutionStage>(stage)});
    }
#else
    error = StateType<Encoding>(api, &id);
#endif
    if (error != nullptr) return error;
    extension->metadata->state_type_id = id;  // the host's struct has this field from version 0.2 on
    return nullptr;
  }

  // Gets the id of the handler's state type, if the handler stores state.
  template <typename Encoding>
  XLA_FFI_SDK_HOT static XLA_FFI_Error* StateType([[maybe_unused]] const XLA_FFI_Api* api,
                                                  [[maybe_unused]] XLA_FFI_TypeId* id) {
    if constexpr (can_register_v<Encoding>) {
      return Encoding::RegisterState(api, id);
    } else if constexpr (is_state_v<Encoding>) {
      *id = Encoding::state_type_id(api);
      if (id->type_id == 0) {
        return NewError(api, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                        "the type of this handler's state has to be registered before it");
      }
    }
    return nullptr;
  }

  // Reports the problem of an element, if there is one.
  template <size_t i, typename Tag>
  XLA_FFI_SDK_HOT void Explain(const XLA_FFI_CallFrame* frame, const Outcome* outcomes, Refusal& refusal) const {
    constexpr ElementKind kKind = kKinds[i];
    constexpr bool kIsArg = kKind == ElementKind::kArg;
    [[maybe_unused]] int64_t index = Position(i);
    bool good = true;
    refusal.Enter(static_cast<int>(i));
    if (outcomes != nullptr && outcomes[i].problems != nullptr) {
      if (!outcomes[i].is_good) refusal.Add(*outcomes[i].problems);
      outcomes[i].is_good ? refusal.Decoded() : refusal.Failed();
      return;
    }
    if constexpr (kKind == ElementKind::kInOut) {
      return refusal.InOut(index, PositionAs(i, ElementKind::kRet), ElementOf(static_cast<const Tag*>(nullptr)),
                           RankOf(static_cast<const Tag*>(nullptr)), kHasMemory);
    } else if constexpr (kKind == ElementKind::kRemainingArgs || kKind == ElementKind::kRemainingRets) {
      constexpr bool kArgsAreLeft = kKind == ElementKind::kRemainingArgs;
      return refusal.Memory(kArgsAreLeft, kArgsAreLeft ? kArgs + kOptionalArgs : kRets + kOptionalRets, -1, kHasMemory);
    } else {
      if constexpr (kIsAttr[i]) {
        index = FindAttr(frame, names_.names[i].text());
        if (index < 0) return kOptionalFlags[i] ? void() : refusal.MissingAttr(names_.names[i].text());
      } else if constexpr (is_tagged_v<OptionalArgTag, Tag> || is_tagged_v<OptionalRetTag, Tag>) {
        if (index >= (kIsArg ? frame->args.size : frame->rets.size)) return;
      } else if constexpr (IsOperand(kKind)) {
        if constexpr (IsFound(static_cast<const Tag*>(nullptr))) {
          return refusal.Operand(kIsArg, index, ElementOf(static_cast<const Tag*>(nullptr)),
                                 RankOf(static_cast<const Tag*>(nullptr)), kHasMemory);
        }
        if (refusal.IsMissing(kIsArg, index)) return;
      }
      const auto value = DecodeOne<Tag>::Call(PlaceOf<i, Tag>(frame, index), refusal.diagnostic());
      good = value.has_value();
      if constexpr (kIsNumber<Tag>) {
        good = good && IsWithin<typename LastNumber<Tag>::Type>(names_.names[i].limits, *value, refusal.diagnostic());
      }
      good ? refusal.Decoded() : refusal.Failed();
      if constexpr (IsOperand(kKind)) {
        if (good) refusal.Memory(kIsArg, index, index + 1, kHasMemory);
      }
    }
  }

  template <size_t... Is>
  XLA_FFI_SDK_COLD XLA_FFI_Error* Refuse(const XLA_FFI_CallFrame* frame, std::index_sequence<Is...>,
                                         [[maybe_unused]] const Outcome* outcomes = nullptr) const {
#if XLA_FFI_SDK_EXCEPTIONS
    try {
#endif
      Refusal refusal(frame, name_, Elements{names_.names, kKinds, kSize});
      (Explain<Is, Ts>(frame, outcomes, refusal), ...);
      refusal.Count(true, kCountsArgs && !kRemainingArgs ? kArgs + kOptionalArgs : -1);
      refusal.Count(false, kCountsRets && !kRemainingRets ? kRets + kOptionalRets : -1);
      if constexpr (kHasShape) refusal.Shapes(Declared::Shape());
      if constexpr (kCountsAttrs) refusal.UnknownAttrs();
      if constexpr (kHasOperands && kHasMemory) refusal.Clashes(ArgCount(frame), RetCount(frame));
      return refusal.Finish();
#if XLA_FFI_SDK_EXCEPTIONS
    } catch (...) {
      return CaughtError(CallerOf(frame));
    }
#endif
  }
  Caller CallerOf(const XLA_FFI_CallFrame* frame) const {
    return {frame->api, frame->ctx, name_, static_cast<XLA_FFI_ExecutionStage>(stage)};
  }

  Fn fn_;
  std::string_view name_;
  BoundNames<sizeof...(Ts)> names_;
  int64_t rank_[kRoom] = {};  // index of each attribute among the sorted names
  bool first_[kRoom] = {};    // whether no earlier attribute has the same name
  int64_t distinct_ = 0;          // number of distinct attribute names
  XLA_FFI_Handler_Traits traits_;
  bool shape_is_planned_ = false;
};

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_HANDLER_CORE_H_
