// What a handler's function takes beside what its binding gives: conversions that lose something. Part of
// <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_PARAMS_H_
#define XLA_FFI_SDK_CPP_PARAMS_H_

#include "xla_ffi/cpp/loss.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// The parameters of a function, where it says so: of templates and overloads, such as `[](auto x)`, they are void.
template <typename Fn, typename = void>
struct ParamsOf {
  using Type = void;
};
template <typename Fn>
struct ParamsOf<Fn, std::void_t<decltype(&Fn::operator())>> : ParamsOf<decltype(&Fn::operator())> {};
template <typename Fn>
struct ParamsOf<std::reference_wrapper<Fn>, void> : ParamsOf<Fn> {};
template <typename R, typename... Ps>
struct ParamsOf<std::reference_wrapper<R(Ps...)>, void> : ParamsOf<R (*)(Ps...)> {};
template <typename R, typename... Ps>
struct ParamsOf<std::reference_wrapper<R(Ps...) noexcept>, void> : ParamsOf<R (*)(Ps...)> {};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps...), void> {
  using Type = ParamList<Ps...>;
};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps...) noexcept, void> {
  using Type = ParamList<Ps...>;
};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps..., ...), void> {
  using Type = ParamList<Ps...>;
};
template <typename R, typename... Ps>
struct ParamsOf<R (*)(Ps..., ...) noexcept, void> {
  using Type = ParamList<Ps...>;
};
// What a constant can be called by.
#define XLA_FFI_SDK_PARAMS_OF_(...)                      \
  template <typename R, typename C, typename... Ps>      \
  struct ParamsOf<R (C::*)(Ps...) __VA_ARGS__, void> {   \
    using Type = ParamList<Ps...>;                       \
  };                                                     \
  template <typename R, typename C, typename... Ps>      \
  struct ParamsOf<R (C::*)(Ps..., ...) __VA_ARGS__, void> { \
    using Type = ParamList<Ps...>;                       \
  }
XLA_FFI_SDK_PARAMS_OF_(const);
XLA_FFI_SDK_PARAMS_OF_(const noexcept);
XLA_FFI_SDK_PARAMS_OF_(const&);
XLA_FFI_SDK_PARAMS_OF_(const& noexcept);
XLA_FFI_SDK_PARAMS_OF_(const volatile);
XLA_FFI_SDK_PARAMS_OF_(const volatile noexcept);
XLA_FFI_SDK_PARAMS_OF_(const volatile&);
XLA_FFI_SDK_PARAMS_OF_(const volatile& noexcept);
#undef XLA_FFI_SDK_PARAMS_OF_

template <typename T>
inline constexpr bool is_result_v = false;
template <typename T>
inline constexpr bool is_result_v<Result<T>> = true;

template <typename Tag>
inline constexpr bool is_arg_tag_v = is_tagged_v<ArgTag, Tag> || is_tagged_v<OptionalArgTag, Tag>;

template <typename Tag, typename Param>
constexpr Loss LossOf() {
  using From = InnerOf<typename ParamOf<Tag>::Type>;
  using To = InnerOf<Param>;
  if constexpr (is_arg_tag_v<Tag>) {
    return is_result_v<To> && !is_result_v<From> ? Loss::kResult : Loss::kNothing;
  } else {
    return LossInto<From, To>();
  }
}

// Of each element of a binding.
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

// The parameter at a place, void behind the last.
template <size_t i, typename List>
struct ParamAt;
template <size_t i>
struct ParamAt<i, ParamList<>> {
  using Type = void;
};
template <typename P, typename... Ps>
struct ParamAt<0, ParamList<P, Ps...>> {
  using Type = InnerOf<P>;
};
template <size_t i, typename P, typename... Ps>
struct ParamAt<i, ParamList<P, Ps...>> : ParamAt<i - 1, ParamList<Ps...>> {};

template <typename Tag, size_t i, typename List>
constexpr Loss LossAt() {
  using To = typename ParamAt<i, List>::Type;
  if constexpr (std::is_void_v<To>) {
    return Loss::kNothing;  // it goes where `...` takes what comes
  } else {
    return LossOf<Tag, To>();
  }
}
template <typename... Tags, typename List, size_t... Is>
constexpr Losses<sizeof...(Tags)> FindLossesAt(const List*, std::index_sequence<Is...>) {
  return {{LossAt<Tags, Is, List>()..., Loss::kNothing}};
}

// Where the function says what it takes. It may take more, by default.
template <typename Fn, typename... Tags, typename... Ps>
constexpr Losses<sizeof...(Tags)> FindLosses([[maybe_unused]] const ParamList<Ps...>* params) {
  if constexpr (sizeof...(Ps) == sizeof...(Tags)) {
    return {{LossOf<Tags, Ps>()..., Loss::kNothing}};
  } else {
    return FindLossesAt<Tags...>(params, std::index_sequence_for<Tags...>{});
  }
}

// Where it does not it is asked. Whether it takes something in braces, from which no template learns its parameter's type,
// between what the binding gives before it and behind.
template <typename Fn, typename Given, typename Before, typename After, typename = void>
inline constexpr bool takes_braced_v = false;
template <typename Fn, typename Given, typename... Bs, typename... As>
inline constexpr bool takes_braced_v<
    Fn, Given, ParamList<Bs...>, ParamList<As...>,
    std::void_t<decltype(std::declval<const Fn&>()(std::declval<Bs>()..., {std::declval<Given>()}, std::declval<As>()...))>> =
    true;

// The same without braces: what a class of its own is made of by two conversions is not taken. Asked where braces are.
template <typename Fn, typename Given, typename Before, typename After, typename = void>
inline constexpr bool takes_plainly_v = false;
template <typename Fn, typename Given, typename... Bs, typename... As>
inline constexpr bool takes_plainly_v<
    Fn, Given, ParamList<Bs...>, ParamList<As...>,
    std::void_t<decltype(std::declval<const Fn&>()(std::declval<Bs>()..., std::declval<Given>(), std::declval<As>()...))>> =
    true;

// An overload that takes everything as it is, and is less special than any: it is called where the function converts.
struct AsItIs {};
template <typename Fn>
struct Rival : Fn {
  using Fn::operator();
  template <typename... Ts>
  AsItIs operator()(Ts...) const;
};
template <typename Fn, typename List, typename = void>
inline constexpr bool converts_v = false;
template <typename Fn, typename... Ps>
inline constexpr bool
    converts_v<Fn, ParamList<Ps...>, std::void_t<decltype(std::declval<const Rival<Fn>&>()(std::declval<Ps>()...))>> =
        std::is_same_v<decltype(std::declval<const Rival<Fn>&>()(std::declval<Ps>()...)), AsItIs>;

// Stands for what converts to results alone, and to no more than a buffer.
struct OnlyResult {
  template <typename T>
  operator Result<T>() const;  // NOLINT
};
template <typename T>
struct OnlyThat {
  operator T() const;  // NOLINT
};
// What nothing is made of but what is made of anything.
struct OnlyItself {};

template <typename Fn, typename Tag, typename Before, typename After>
constexpr Loss AskedLoss() {
  using From = typename ParamOf<Tag>::Type;
  if constexpr (is_arg_tag_v<Tag>) {
    // Where a buffer goes as well, the two are overloads.
    constexpr bool kOne = is_tagged_v<OptionalArgTag, Tag> || takes_braced_v<Fn, OnlyThat<From>, Before, After>;
    if constexpr (kOne && takes_braced_v<Fn, OnlyResult, Before, After> &&
                  !takes_braced_v<Fn, OnlyItself, Before, After>) {
      // A class of the user's own that is made of buffers and of results takes both, too.
      return takes_plainly_v<Fn, OnlyResult, Before, After> ? Loss::kResult : Loss::kNothing;
    } else {
      return Loss::kNothing;
    }
  } else if constexpr (is_number_v<From>) {
    return takes_braced_v<Fn, Stand<From, true>, Before, After> && !takes_braced_v<Fn, Stand<From, false>, Before, After>
               ? Loss::kCut
               : Loss::kNothing;
  } else {
    return Loss::kNothing;
  }
}
template <typename Fn, typename... Bs>
constexpr void AskAll(Loss*, const ParamList<Bs...>*, const ParamList<>*) {}
template <typename Fn, typename Tag, typename... Tags, typename... Bs>
constexpr void AskAll(Loss* to, const ParamList<Bs...>*, const ParamList<Tag, Tags...>*) {
  using Before = ParamList<Bs..., typename ParamOf<Tag>::Type>;
  *to = AskedLoss<Fn, Tag, ParamList<Bs...>, ParamList<typename ParamOf<Tags>::Type...>>();
  AskAll<Fn>(to + 1, static_cast<const Before*>(nullptr), static_cast<const ParamList<Tags...>*>(nullptr));
}
template <typename Fn, typename... Tags>
constexpr Losses<sizeof...(Tags)> FindLosses(const void*) {
  Losses<sizeof...(Tags)> losses;
  if constexpr (std::is_class_v<Fn> && !std::is_final_v<Fn>) {
    if constexpr (converts_v<Fn, ParamList<typename ParamOf<Tags>::Type...>>) {
      AskAll<Fn>(losses.of, static_cast<const ParamList<>*>(nullptr), static_cast<const ParamList<Tags...>*>(nullptr));
    }
  }
  return losses;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_PARAMS_H_
