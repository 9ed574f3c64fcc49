// Whether a type has its `id` from another class: it would be given that one's objects. Part of <xla/ffi/api/ffi.h>.
//
// No language tells whose member a static one is, but the compiler's name of a function that has both does:
// "… [with Asked = Log; auto* Declared = (& Plain::id)]" (GCC), "… [Asked = Log, Declared = &Plain::id]" (Clang). What no
// compiler tells so is taken as it is.
#ifndef XLA_FFI_SDK_CPP_WHOSE_ID_H_
#define XLA_FFI_SDK_CPP_WHOSE_ID_H_

#include "xla_ffi/cpp/config.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

template <typename Asked, auto* Declared>
XLA_FFI_SDK_FN constexpr const char* WhoseId() {
#if defined(__GNUC__) || defined(__clang__)
  return __PRETTY_FUNCTION__;
#else
  return "";
#endif
}

// A class's name that is read beside another spelling of it. Compilers write most types in one way wherever they occur; but
// arguments that a template has by default may be left out, and a value may be a number here and a name there.
class ClassName {
 public:
  constexpr explicit ClassName(std::string_view text) : text_(text) { SkipBlanks(); }

  // The next character that is no blank, 0 at the end.
  constexpr char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  constexpr void Next() {
    const char c = Peek();
    depth_ += (c == '<') - (c == '>');
    ++at_;
    SkipBlanks();
    if (c == '<' || c == ',') argument_ = at_;
  }
  constexpr int depth() const { return depth_; }

  // From the beginning of an argument to what ends it.
  constexpr std::string_view Argument() const {
    int depth = 0;
    size_t end = argument_;
    for (; end < text_.size(); ++end) {
      const char c = text_[end];
      if (c == '\'' && end + 2 < text_.size()) {
        end += text_[end + 1] == '\\' ? size_t{3} : size_t{2};
        continue;
      }
      if (depth == 0 && (c == ',' || c == '>')) break;
      depth += (c == '<' || c == '(') - (c == '>' || c == ')');
    }
    while (end > argument_ && text_[end - 1] == ' ') --end;
    return text_.substr(argument_, end - argument_);
  }
  // On to what ends the argument.
  constexpr void SkipArgument(std::string_view argument) {
    at_ = argument_ + argument.size();
    SkipBlanks();
    argument_ = at_;  // behind it there is none until the next begins
  }
  // On to the end of the list.
  constexpr void SkipList() {
    while (Peek() == ',') {
      Next();
      SkipArgument(Argument());
    }
  }

 private:
  constexpr void SkipBlanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t argument_ = 0;
  int depth_ = 0;
};

constexpr bool IsNumber(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  bool all = !text.empty();
  for (const char c : text) all = all && c >= '0' && c <= '9';
  return all;
}
// Whether a template's argument is a value, by how it begins.
constexpr bool IsValue(std::string_view text) {
  if (text.empty()) return false;
  return IsNumber(text.substr(0, text[0] == '-' ? 2 : 1)) || text[0] == '\'' || text[0] == '(' || text == "true" ||
         text == "false";
}

// Whether two spellings are of one class. What cannot be compared is another one.
constexpr bool IsOneClass(std::string_view one, std::string_view other) {
  ClassName a(one), b(other);
  while (a.Peek() != '\0' || b.Peek() != '\0') {
    const char x = a.Peek(), y = b.Peek();
    if (x == y) {
      a.Next();
      b.Next();
    } else if (a.depth() > 1 && ((x == '>' && y == ',') || (x == ',' && y == '>'))) {
      // Left out. Not of the class itself: one of fewer arguments is often the base of one of more.
      (x == ',' ? a : b).SkipList();
    } else if (a.depth() > 0) {
      const std::string_view s = a.Argument(), t = b.Argument();
      if ((!IsValue(s) && !IsValue(t)) || (IsNumber(s) && IsNumber(t))) return false;
      a.SkipArgument(s);
      b.SkipArgument(t);
    } else {
      return false;
    }
  }
  return true;
}

// Whether a template's arguments have that type.
constexpr bool HasArgument(std::string_view whole, std::string_view type) {
  for (size_t at = whole.find(type, whole.find('<')); at != std::string_view::npos; at = whole.find(type, at + 1)) {
    const size_t end = at + type.size();
    const bool begins = at != 0 && (whole[at - 1] == '<' || whole[at - 1] == ' ');
    if (begins && end < whole.size() && (whole[end] == '>' || whole[end] == ',' || whole[end] == ' ')) return true;
  }
  return false;
}

constexpr bool IsOfAnother(std::string_view told) {
  const std::string_view asked = "Asked = ", declared = "Declared = ";
  const size_t first = told.find(asked), second = told.rfind(declared);
  if (first == std::string_view::npos || second == std::string_view::npos || second < first) return false;
  std::string_view type = told.substr(first + asked.size(), second - first - asked.size());
  std::string_view owner = told.substr(second + declared.size());
  for (const std::string_view between : {"; auto* ", ", "}) {
    if (type.size() < between.size() || type.substr(type.size() - between.size()) != between) continue;
    type.remove_suffix(between.size());
    while (!owner.empty() && (owner[0] == '(' || owner[0] == '&' || owner[0] == ' ')) {
      if (owner.substr(0, 10) == "(anonymous") break;
      owner.remove_prefix(1);
    }
    const size_t end = owner.rfind("::id");
    if (end == std::string_view::npos) return false;
    owner = owner.substr(0, end);
    return !IsOneClass(owner, type) && !HasArgument(owner, type);
  }
  return false;
}

#if defined(_WIN32)
// An id that another DLL has is no constant.
template <typename T>
inline constexpr bool inherits_id_v = false;
#else
template <typename T>
inline constexpr bool inherits_id_v = IsOfAnother(WhoseId<std::remove_cv_t<T>, &T::id>());
#endif

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_WHOSE_ID_H_
