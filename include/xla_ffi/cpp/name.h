// The names of operands and attributes. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_NAME_H_
#define XLA_FFI_SDK_CPP_NAME_H_

#include "xla_ffi/cpp/growing_list.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

// Keeps a name that is not known to outlive the handler. Names are few and their handlers are
// static, so they are kept for good, each once.
struct KeptName {
  std::string text;
  KeptName* next;
};
inline ListHead<KeptName> kept_names{nullptr};

XLA_FFI_SDK_COLD inline std::string_view Intern(std::string_view name) {
  const auto is = [&name](const KeptName& kept) { return kept.text == name; };
  if (const KeptName* kept = FindIn(kept_names, is)) return kept->text;
  auto* made = new KeptName{std::string(name), nullptr};
  KeptName* const kept = AddTo(kept_names, made, is);
  if (kept != made) delete made;
  return kept->text;
}

// The name of an attribute or operand. A literal in a constant expression is taken as it is.
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

 private:
  std::string_view text_;
};

// A list of names; an array may not be empty.
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
