// Literals: arrays with values, and tuples of literals.
#ifndef XLA_LITERAL_H_
#define XLA_LITERAL_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "xla/shape_util.h"

namespace xla {

// Maps a C++ type to the XLA element type kType.
template <typename T>
struct NativeType;
#define XFFI_NATIVE_TYPE_(type, name)                    \
  template <>                                            \
  struct NativeType<type> {                              \
    static constexpr PrimitiveType kType = name;         \
  };
XFFI_NATIVE_TYPE_(bool, PRED)
XFFI_NATIVE_TYPE_(int8_t, S8)
XFFI_NATIVE_TYPE_(int16_t, S16)
XFFI_NATIVE_TYPE_(int32_t, S32)
XFFI_NATIVE_TYPE_(int64_t, S64)
XFFI_NATIVE_TYPE_(uint8_t, U8)
XFFI_NATIVE_TYPE_(uint16_t, U16)
XFFI_NATIVE_TYPE_(uint32_t, U32)
XFFI_NATIVE_TYPE_(uint64_t, U64)
XFFI_NATIVE_TYPE_(float, F32)
XFFI_NATIVE_TYPE_(double, F64)
XFFI_NATIVE_TYPE_(std::complex<float>, C64)
XFFI_NATIVE_TYPE_(std::complex<double>, C128)
#undef XFFI_NATIVE_TYPE_

// Ends the program after an access to a missing value, for example the value of a failed StatusOr.
[[noreturn]] inline void EndProgram(const char* what) {
  std::fprintf(stderr, "xla-ffi: %s\n", what);
  std::abort();
}

// A view of a literal's elements. Indexing out of range ends the program; accesses through `data`, `begin` and `end`
// are not checked.
template <typename T>
class LiteralData {
 public:
  LiteralData(T* data, size_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  size_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](size_t index) const {
    if (index >= size_) {
      EndProgram("an element of a literal is asked for that is not there; of another type there are none");
    }
    return data_[index];
  }

 private:
  T* data_;
  size_t size_;
};

// An array with values in row-major order, or a tuple of literals. Sub-byte elements are packed, with the first in the
// low bits.
class Literal {
 public:
  Literal() = default;
  // Creates an array of zeros, or a tuple of such arrays.
  explicit Literal(Shape shape) : shape_(std::move(shape)) {
    if (shape_.IsTuple()) {
      for (const Shape& element : shape_.tuple_shapes()) elements_.emplace_back(element);
    } else {
      // Memory is allocated in words of 16 bytes, so that every element type is aligned.
      words_.resize((static_cast<size_t>(ShapeUtil::ByteSizeOf(shape_)) + 15) / 16);
    }
  }

  const Shape& shape() const { return shape_; }
  size_t size_bytes() const { return static_cast<size_t>(ShapeUtil::ByteSizeOf(shape_)); }
  int64_t element_count() const { return ShapeUtil::ElementsIn(shape_); }
  const void* untyped_data() const { return words_.data(); }
  void* untyped_data() { return words_.data(); }
  // Returns the elements; empty if T is not the C++ type of the element type.
  template <typename T>
  LiteralData<const T> data() const {
    return {reinterpret_cast<const T*>(words_.data()), Size<T>()};
  }
  template <typename T>
  LiteralData<T> data() {
    return {reinterpret_cast<T*>(words_.data()), Size<T>()};
  }
  // Return the elements of a tuple; empty for an array.
  const std::vector<Literal>& elements() const { return elements_; }
  std::vector<Literal>& elements() { return elements_; }

 private:
  struct alignas(16) Word {
    unsigned char bytes[16] = {};
  };

  template <typename T>
  size_t Size() const {
    if (NativeType<T>::kType != shape_.element_type()) return 0;
    // After a move, a literal still has its shape, but no memory.
    const size_t count = static_cast<size_t>(element_count()), most = words_.size() * sizeof(Word) / sizeof(T);
    return count < most ? count : most;
  }

  Shape shape_;
  std::vector<Word> words_;
  std::vector<Literal> elements_;
};

}  // namespace xla

#endif  // XLA_LITERAL_H_
