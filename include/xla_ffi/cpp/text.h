// Builds message texts in a fixed buffer, or on the heap if a text is long. Part of <xla/ffi/api/api.h>.
//
// Errors are created during calls, so this class avoids the cost of streams, growing strings and locales.
#ifndef XLA_FFI_SDK_CPP_TEXT_H_
#define XLA_FFI_SDK_CPP_TEXT_H_

#include "xla_ffi/cpp/config.h"

XLA_FFI_SDK_NAMESPACE_BEGIN
XLA_FFI_SDK_INTERNAL_BEGIN

class Text {
 public:
  Text() noexcept {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text() {
    if (XLA_FFI_PREDICT_FALSE(data_ != in_place_)) std::free(data_);
  }

  size_t size() const { return size_; }
  std::string_view view() const { return std::string_view(data_, size_); }
  std::string str() const { return std::string(data_, size_); }
  // Returns the text with a NUL at the end.
  const char* c_str() {
    data_[size_] = '\0';
    return data_;
  }
  char& at(size_t i) { return data_[i]; }
  // Truncates the text to its first `size` bytes.
  void Cut(size_t size) { size_ = size; }

  // Adds text. No function of this class throws, so callers need no clean-up code.
  XLA_FFI_SDK_SLOW Text& Add(const char* text, size_t size) noexcept {
    size = Room(size);
    if (size != 0) std::memcpy(data_ + size_, text, size);
    size_ += size;
    return *this;
  }
  // Adds a string literal, whose length is known at compile time.
  template <size_t size>
  XLA_FFI_SDK_HOT Text& operator<<(const char (&text)[size]) noexcept {
    return Add(text, size - 1);
  }
  template <typename T, typename = std::enable_if_t<std::is_same_v<T, const char*>>>
  Text& operator<<(const T& text) noexcept {
    return Put(text);
  }
  Text& operator<<(std::string_view text) noexcept { return Add(text.data(), text.size()); }
  Text& operator<<(const std::string& text) noexcept { return Add(text.data(), text.size()); }

  // Adds a decimal number.
  XLA_FFI_SDK_SLOW Text& Number(unsigned long long rest, bool negative) noexcept {
    char digits[21];
    char* first = digits + sizeof(digits);
    if (negative) rest = 0 - rest;
    do {
      *--first = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    if (negative) *--first = '-';
    return Add(first, static_cast<size_t>(digits + sizeof(digits) - first));
  }
  template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  Text& operator<<(T value) noexcept {
    static_assert(!std::is_same_v<T, bool> && !std::is_same_v<T, char>, "a number is expected");
    if constexpr (std::is_signed_v<T>) {
      return Number(static_cast<unsigned long long>(value), value < 0);
    } else {
      return Number(value, false);  // a comparison with 0 would cause a warning for unsigned types
    }
  }

  // Inserts a text before the byte at index `at`.
  XLA_FFI_SDK_COLD void Insert(size_t at, std::string_view text) noexcept {
    if (Room(text.size()) != text.size()) return;
    std::memmove(data_ + at + text.size(), data_ + at, size_ - at);
    std::memcpy(data_ + at, text.data(), text.size());
    size_ += text.size();
  }

 private:
  static constexpr size_t kInPlace = 488;

  XLA_FFI_SDK_SLOW Text& Put(const char* text) noexcept { return Add(text, std::strlen(text)); }
  // Makes room for `more` bytes and a NUL, and returns the number of bytes that fit. If memory is exhausted, the text
  // is truncated.
  size_t Room(size_t more) noexcept {
    return XLA_FFI_PREDICT_FALSE(more >= capacity_ - size_) ? Grow(more) : more;
  }
  XLA_FFI_SDK_COLD size_t Grow(size_t more) noexcept {
    const size_t capacity = (size_ + more + 1) * 2;
    auto* data = static_cast<char*>(std::malloc(capacity));
    if (data == nullptr) return (std::min)(more, capacity_ - size_ - 1);
    std::memcpy(data, data_, size_);
    if (data_ != in_place_) std::free(data_);
    data_ = data;
    capacity_ = capacity;
    return more;
  }

  char* data_ = in_place_;
  size_t size_ = 0;
  size_t capacity_ = kInPlace;
  char in_place_[kInPlace];
};

// Returns a word in which the high bit of any byte is set if one of eight bytes needs escaping: below 0x20, 0x7f, or at
// least 0x80. False positives are possible, false negatives are not.
XLA_FFI_SDK_HOT inline uint64_t OddBits(const char* bytes) {
  constexpr uint64_t kOnes = ~uint64_t{0} / 255;
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word | (word + kOnes) | (word - kOnes * 0x20);
}

// Returns true if a text has only printable ASCII, which needs no escaping. May also return false for such a text.
XLA_FFI_SDK_SLOW inline bool IsPlain(const char* text, size_t size) noexcept {
  if (size < 16) return false;
  const char* const last = text + size - 16;
  uint64_t odd = OddBits(last) | OddBits(last + 8);
  for (; text < last; text += 16) odd |= OddBits(text) | OddBits(text + 8);
  return (odd & (~uint64_t{0} / 255 * 0x80)) == 0;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_TEXT_H_
