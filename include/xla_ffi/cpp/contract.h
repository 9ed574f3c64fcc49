// Properties that a binding can declare besides its elements: a shape contract, and a restriction to host memory. Part
// of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_CONTRACT_H_
#define XLA_FFI_SDK_CPP_CONTRACT_H_

#include "xla_ffi/cpp/config.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

struct Undeclared {
  static constexpr bool kHostOnly = false;
  static constexpr const char* Shape() { return ""; }
};
template <typename Base>
struct WithHostOnly : Base {
  static constexpr bool kHostOnly = true;
};
// The text of a contract type, which XLA_FFI_SHAPE creates. The contract must be a type, because a string cannot be a
// template argument.
template <typename Contract, typename = void>
struct TextOf {
  static_assert(sizeof(Contract) == 0, "a shape contract is written .Shape(XLA_FFI_SHAPE(\"... n -> ... n\"))");
  static constexpr const char* Text() { return ""; }
};
template <typename Contract>
struct TextOf<Contract, std::void_t<decltype(Contract::Text())>> : Contract {};
template <typename Base, typename Contract>
struct WithShape : Base {
  static constexpr const char* Shape() { return TextOf<Contract>::Text(); }
};

// The reason why a contract does not suit a handler: the text is not a contract, or the number of operands differs.
enum class ShapeFault { kNone, kText, kCount };

constexpr bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLetter(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Removes a number from the start of `text`. Returns false if there are no digits, or if the number is not a valid
// size.
constexpr bool ReadSize(std::string_view* text, bool may_be_zero) {
  int64_t size = 0;
  size_t n = 0;
  for (; n < text->size() && IsDigit((*text)[n]); ++n) {
    if (size <= 0xffffffff) size = size * 10 + ((*text)[n] - '0');
  }
  text->remove_prefix(n);
  return n > 0 && size <= 0xffffffff && (may_be_zero || size > 0);
}

// Returns true if a word is a dimension: a name, a number, `_` or `...`. With `computes`, for results, computed
// dimensions such as `3*n/2-1` are also valid.
constexpr bool IsDimension(std::string_view word, bool computes) {
  if (word == "..." || word == "_") return true;
  bool computed = false;
  if (IsDigit(word[0])) {
    std::string_view rest = word;
    if (ReadSize(&rest, true) && rest.empty()) return true;
    if (!ReadSize(&word, false) || word.empty() || word[0] != '*') return false;
    word.remove_prefix(1);
    computed = true;
  }
  if (word.empty() || !IsLetter(word[0])) return false;
  size_t length = 0;
  while (length < word.size() && (IsLetter(word[length]) || IsDigit(word[length]))) ++length;
  if (length == 1 && word[0] == '_') return false;
  word.remove_prefix(length);
  if (!word.empty() && word[0] == '/') {
    word.remove_prefix(1);
    computed = true;
    if (!ReadSize(&word, false)) return false;
  }
  if (!word.empty() && (word[0] == '+' || word[0] == '-')) {
    word.remove_prefix(1);
    computed = true;
    if (!ReadSize(&word, true)) return false;
  }
  return word.empty() && (computes || !computed);
}

// Returns true if a text is a valid list of dimensions of one operand, `()` or `token`.
constexpr bool IsEntry(std::string_view text, bool computes) {
  if (text.empty()) return false;
  if (text == "()" || text == "token") return true;
  int ellipses = 0;
  while (!text.empty()) {
    size_t length = 0;
    while (length < text.size() && !IsBlank(text[length])) ++length;
    if (length == 0) {
      text.remove_prefix(1);
      continue;
    }
    if (!IsDimension(text.substr(0, length), computes)) return false;
    if (text.substr(0, length) == "...") ++ellipses;
    text.remove_prefix(length);
  }
  return ellipses <= 1;
}

constexpr std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// Removes a mark from the end of an entry. Returns false if the entry does not end with this mark.
constexpr bool TakeMark(char mark, std::string_view* entry) {
  if (entry->empty() || entry->back() != mark) return false;
  *entry = Trimmed(entry->substr(0, entry->size() - 1));
  return true;
}

// Removes and returns the first entry of a side. Sets `more` to true if more entries follow. The side must not be
// empty.
constexpr std::string_view TakeEntry(std::string_view* side, bool* more) {
  const size_t comma = side->find(',');
  const std::string_view entry = Trimmed(side->substr(0, comma));
  *more = comma != std::string_view::npos;
  if (*more) side->remove_prefix(comma + 1);
  return entry;
}

// Checks the entries of one side of a contract: their syntax, and their number against the number of operands.
constexpr ShapeFault SideFault(std::string_view side, bool computes, int required, int optional,
                               bool remaining) {
  int count = 0;
  const int most = required + optional + (remaining ? 1 : 0);
  bool fits = true;
  for (bool more = !Trimmed(side).empty(); more; ++count) {
    std::string_view entry = TakeEntry(&side, &more);
    const bool repeats = TakeMark('*', &entry), may_lack = TakeMark('?', &entry);
    if (!IsEntry(entry, computes) || (repeats && (more || may_lack))) return ShapeFault::kText;
    fits = fits && repeats == (remaining && count == most - 1) &&
           may_lack == (count >= required && count < required + optional);
  }
  return fits && count == most ? ShapeFault::kNone : ShapeFault::kCount;
}

constexpr ShapeFault ShapeProblem(std::string_view contract, int args, int optional_args,
                                  bool remaining_args, int rets, int optional_rets,
                                  bool remaining_rets) {
  const size_t arrow = contract.find("->");
  if (arrow == std::string_view::npos || contract.find("->", arrow + 2) != std::string_view::npos) {
    return ShapeFault::kText;
  }
  const ShapeFault fault =
      SideFault(contract.substr(0, arrow), false, args, optional_args, remaining_args);
  return fault != ShapeFault::kNone ? fault
                                    : SideFault(contract.substr(arrow + 2), true, rets,
                                                optional_rets, remaining_rets);
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

// Creates the shape contract of a handler, for `.Shape(XLA_FFI_SHAPE("... n, n k -> ... k"))` at the end of its
// binding. The contract relates the shapes of the operands, is checked in each call, and is part of the manifest.
#define XLA_FFI_SHAPE(contract)                                  \
  [] {                                                           \
    struct Contract {                                            \
      static constexpr const char* Text() { return contract; }   \
    };                                                           \
    return Contract();                                           \
  }()

#endif  // XLA_FFI_SDK_CPP_CONTRACT_H_
