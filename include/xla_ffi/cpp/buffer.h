// Defines element types and buffers. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_BUFFER_H_
#define XLA_FFI_SDK_CPP_BUFFER_H_

#include "xla_ffi/cpp/attribute.h"
#include "xla_ffi/cpp/error.h"
#include "xla_ffi/cpp/match.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

#if defined(XLA_FFI_SDK_INTERNAL_H_)
using DataType = ::xla::PrimitiveType;
#else
enum class DataType : uint8_t {
  INVALID = XLA_FFI_DataType_INVALID,
#define XLA_FFI_SDK_ELEMENT(name, lower, bits) name = XLA_FFI_DataType_##name,
  XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_ELEMENT)
#undef XLA_FFI_SDK_ELEMENT
};
#endif

// Short names of element types: F32 for DataType::F32, and so on.
#define XLA_FFI_SDK_ELEMENT(name, lower, bits) inline constexpr DataType name = DataType::name;
XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_ELEMENT)
#undef XLA_FFI_SDK_ELEMENT

XLA_FFI_SDK_COLD inline std::ostream& operator<<(std::ostream& os, const DataType dtype) {
  const auto number = static_cast<unsigned>(dtype);
  return internal::PrintName(os, xla_ffi_sdk_dtype_name(number), number);
}

// Returns the number of bits of an element; 0 for tokens and unknown types. Elements smaller than a byte are packed,
// with the first in the low bits.
XLA_FFI_SDK_FN constexpr size_t BitWidth(DataType dtype) {
  switch (dtype) {
#define XLA_FFI_SDK_ELEMENT(name, lower, bits) \
  case DataType::name:                         \
    return bits;
    XLA_FFI_SDK_ELEMENT_TYPES(XLA_FFI_SDK_ELEMENT)
#undef XLA_FFI_SDK_ELEMENT
    default:
      return 0;
  }
}

// Returns true if elements of this type are packed, several per byte.
XLA_FFI_SDK_FN constexpr bool IsPacked(DataType dtype) { return BitWidth(dtype) != 0 && BitWidth(dtype) < 8; }

// Returns the size in bytes of a single element; a packed element counts as one byte. For buffers, use size_bytes.
XLA_FFI_SDK_FN constexpr size_t ByteWidth(DataType dtype) { return (BitWidth(dtype) + 7) / 8; }

XLA_FFI_SDK_FN constexpr DataType ToComplex(DataType dtype) {
  return dtype == DataType::F32   ? DataType::C64
         : dtype == DataType::F64 ? DataType::C128
                                  : DataType{};
}
XLA_FFI_SDK_FN constexpr DataType ToReal(DataType dtype) {
  return dtype == DataType::C64    ? DataType::F32
         : dtype == DataType::C128 ? DataType::F64
                                   : dtype;
}
XLA_FFI_SDK_FN constexpr DataType ToImag(DataType dtype) { return ToReal(dtype); }

XLA_FFI_SDK_INTERNAL_BEGIN

template <DataType dtype>
constexpr auto* NativeOf() {
  static_assert(!IsPacked(dtype),
                "elements of less than a byte have no C++ type, as several share a byte: take the buffer's packed_data(), "
                "which is a Span<uint8_t> of size_bytes() bytes, the first element in the low bits of the first");
  if constexpr (dtype == DataType::PRED) {
    return static_cast<bool*>(nullptr);
  } else if constexpr (dtype == DataType::S8) {
    return static_cast<int8_t*>(nullptr);
  } else if constexpr (dtype == DataType::S16) {
    return static_cast<int16_t*>(nullptr);
  } else if constexpr (dtype == DataType::S32) {
    return static_cast<int32_t*>(nullptr);
  } else if constexpr (dtype == DataType::S64) {
    return static_cast<int64_t*>(nullptr);
  } else if constexpr (dtype == DataType::U32) {
    return static_cast<uint32_t*>(nullptr);
  } else if constexpr (dtype == DataType::U64) {
    return static_cast<uint64_t*>(nullptr);
  } else if constexpr (dtype == DataType::F32) {
    return static_cast<float*>(nullptr);
  } else if constexpr (dtype == DataType::F64) {
    return static_cast<double*>(nullptr);
  } else if constexpr (dtype == DataType::C64) {
    return static_cast<std::complex<float>*>(nullptr);
  } else if constexpr (dtype == DataType::C128) {
    return static_cast<std::complex<double>*>(nullptr);
  } else if constexpr (dtype == DataType::TOKEN || dtype == DataType{}) {
    return static_cast<void*>(nullptr);
  } else if constexpr (BitWidth(dtype) == 16) {
    return static_cast<uint16_t*>(nullptr);
  } else {
    return static_cast<uint8_t*>(nullptr);
  }
}

// Is true if a C++ type represents raw bytes.
template <typename T>
inline constexpr bool is_byte_v =
    std::is_same_v<T, char> || std::is_same_v<T, unsigned char> || std::is_same_v<T, std::byte>;

// Returns true if elements of this type are uint16_t in C++.
constexpr bool IsNativelyU16(DataType dtype) { return BitWidth(dtype) == 16 && dtype != DataType::S16; }

// Returns the number of elements of a shape that was checked during decoding. Negative dimensions and overflow were
// then refused, except for products that overflow although a dimension is 0; such products are 0.
XLA_FFI_SDK_HOT inline size_t CountJudged(const int64_t* dims, int64_t rank) {
  uint64_t count = 1;
  for (int64_t i = 0; i < rank; ++i) count *= static_cast<uint64_t>(dims[i]);
  return static_cast<size_t>(count);
}

// Returns the number of elements of any shape. Returns the largest size_t if a dimension is negative or the product
// overflows.
XLA_FFI_SDK_HOT inline size_t CountElements(const int64_t* dims, int64_t rank) {
  int64_t count = 1;
  bool over = false, empty = false;
  for (int64_t i = 0; i < rank; ++i) {
    over |= dims[i] < 0;
    empty |= dims[i] == 0;
    if (!over) over |= xla_ffi_sdk_multiply(count, dims[i], &count) != 0;
  }
  if (XLA_FFI_PREDICT_FALSE(empty)) return 0;
  return XLA_FFI_PREDICT_FALSE(over) ? (std::numeric_limits<size_t>::max)()
                                     : static_cast<size_t>(count);
}

// Returns the size in bytes of `count` elements, packed if they are smaller than a byte; the largest size_t on
// overflow.
XLA_FFI_SDK_HOT inline size_t CountBytes(DataType dtype, size_t count) {
  const size_t bits = BitWidth(dtype);
  if (bits < 8) return count / 8 * bits + (count % 8 * bits + 7) / 8;
  const size_t width = bits / 8;
  return XLA_FFI_PREDICT_FALSE(count > (std::numeric_limits<size_t>::max)() / width)
             ? (std::numeric_limits<size_t>::max)()
             : count * width;
}

#if defined(XLA_FFI_SDK_INTERNAL_H_)
// Returns the type and dimensions as a row-major xla::Shape, the type in the runtime's other headers.
XLA_FFI_SDK_FN inline ::xla::Shape ShapeOf(const XLA_FFI_Buffer* buf) {
  return ::xla::Shape(static_cast<::xla::PrimitiveType>(buf->dtype),
                      std::vector<int64_t>(buf->dims, buf->dims + buf->rank));
}
#endif

XLA_FFI_SDK_INTERNAL_END

// The C++ type of an element; an unsigned integer of the same size if C++ has no such type. Packed elements have no C++
// type.
template <DataType dtype>
using NativeType = std::remove_pointer_t<decltype(internal::NativeOf<dtype>())>;

template <DataType dtype>
XLA_FFI_SDK_FN constexpr bool IsComplexType() {
  return dtype == DataType::C64 || dtype == DataType::C128;
}

#if defined(XLA_FFI_SDK_INTERNAL_H_) && XLA_FFI_ABSEIL
template <typename T>
using Span = absl::Span<T>;
#else
XLA_FFI_SDK_INTERNAL_BEGIN
[[noreturn]] XLA_FFI_SDK_COLD inline void NoSuchElement(size_t size) {
  char text[96];
  std::snprintf(text, sizeof(text), "an element was asked for that is not there: there are %zu", size);
  Misused(text);
}
XLA_FFI_SDK_INTERNAL_END

// A view of contiguous values that it does not own. Access to a missing value, such as `back` of an empty span, ends
// the call with an error; without exceptions, it ends the program. Accesses through `data`, `begin` and `end` are not
// checked.
template <typename T>
class XLA_FFI_SDK_TYPE Span {
 public:
  using value_type = std::remove_cv_t<T>;

  XLA_FFI_SDK_HOT constexpr Span() {}
  XLA_FFI_SDK_HOT constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  XLA_FFI_SDK_FN Span(const std::vector<std::remove_const_t<T>>& vec)  // NOLINT
      : Span(vec.data(), vec.size()) {}

  XLA_FFI_SDK_HOT T& operator[](size_t index) const {
    if (XLA_FFI_PREDICT_FALSE(index >= size_)) internal::NoSuchElement(size_);
    return data_[index];
  }
  XLA_FFI_SDK_FN bool operator==(const Span<T>& other) const {
    return size() == other.size() && std::equal(begin(), end(), other.begin());
  }
  XLA_FFI_SDK_FN bool operator!=(const Span<T>& other) const { return !(*this == other); }
  XLA_FFI_SDK_HOT T& front() const { return (*this)[0]; }
  XLA_FFI_SDK_HOT T& back() const { return (*this)[size_ - 1]; }
  XLA_FFI_SDK_HOT Span<T> first(size_t n) const {
    if (XLA_FFI_PREDICT_FALSE(n > size_)) internal::NoSuchElement(size_);
    return Span<T>(data_, n);
  }
  XLA_FFI_SDK_HOT Span<T> last(size_t n) const {
    if (XLA_FFI_PREDICT_FALSE(n > size_)) internal::NoSuchElement(size_);
    return Span<T>(data_ + (size_ - n), n);
  }
  XLA_FFI_SDK_HOT size_t size() const { return size_; }
  XLA_FFI_SDK_HOT bool empty() const { return size_ == 0; }
  XLA_FFI_SDK_HOT T* data() const { return data_; }
  XLA_FFI_SDK_HOT T* begin() const { return data_; }
  XLA_FFI_SDK_HOT T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};
#endif

// A buffer of any element type and rank.
class XLA_FFI_SDK_TYPE AnyBuffer {
 public:
  using Dimensions = Span<const int64_t>;

  XLA_FFI_SDK_HOT explicit AnyBuffer(const XLA_FFI_Buffer* buf) : buf_(buf) {}

  XLA_FFI_SDK_HOT DataType element_type() const { return static_cast<DataType>(buf_->dtype); }
  XLA_FFI_SDK_HOT Dimensions dimensions() const {
    return Dimensions(buf_->dims, static_cast<size_t>(buf_->rank));
  }
  // Returns the size of the data in bytes; the largest size_t if the shape does not fit into memory.
  XLA_FFI_SDK_HOT size_t size_bytes() const {
    return internal::CountBytes(element_type(), element_count());
  }
  XLA_FFI_SDK_HOT size_t element_count() const {
    return internal::CountElements(buf_->dims, buf_->rank);
  }
  XLA_FFI_SDK_HOT void* untyped_data() const { return buf_->data; }
#if defined(XLA_FFI_SDK_INTERNAL_H_)
  XLA_FFI_SDK_FN ::xla::Shape shape() const { return internal::ShapeOf(buf_); }
#endif

  // Returns the data as elements of type T. T is the buffer's NativeType, a user-defined type of the same size, or
  // bytes (char, unsigned char, std::byte). Any other type, such as float for a buffer of S32, ends the call with an
  // error; without exceptions, it ends the program. Packed elements only allow std::byte, because such a buffer has
  // fewer bytes than elements.
  template <typename T>
  XLA_FFI_SDK_HOT T* typed_data() const {
    using Element = std::remove_cv_t<T>;
    constexpr XLA_FFI_DataType kDType = internal::DTypeOf<Element>();
    if (XLA_FFI_PREDICT_FALSE(kDType != buf_->dtype)) {
      CheckType(kDType, sizeof(T), internal::is_byte_v<Element>, std::is_same_v<Element, std::byte>);
    }
    return static_cast<T*>(buf_->data);
  }
  // Returns the data as elements of type T. Checks only the element size (1 byte for packed elements) and the
  // alignment.
  template <typename T>
  XLA_FFI_SDK_HOT T* reinterpret_data() const {
    CheckWidth(sizeof(T), alignof(T), ByteWidth(element_type()), internal::is_byte_v<std::remove_cv_t<T>>);
    return static_cast<T*>(buf_->data);
  }
  // Returns the bytes of packed elements. For other elements, ends the call with an error, like typed_data. XLA's
  // header does not have this function.
  XLA_FFI_SDK_FN Span<uint8_t> packed_data() const {
    if (XLA_FFI_PREDICT_FALSE(!IsPacked(element_type()))) NotPacked();
    return Span<uint8_t>(static_cast<uint8_t*>(buf_->data), size_bytes());
  }

 private:
  friend struct internal::BufferCast;
  XLA_FFI_SDK_SLOW void CheckWidth(size_t size, size_t align, size_t width, bool is_byte) const {
    if ((size != width && !is_byte) || reinterpret_cast<uintptr_t>(buf_->data) % align != 0) NoSuchElements(size);
  }
  // Refuses a T that corresponds to a different element type. Element types without a C++ equivalent only require the
  // same size.
  XLA_FFI_SDK_SLOW void CheckType(XLA_FFI_DataType dtype, size_t size, bool is_byte, bool is_std_byte) const {
    if (XLA_FFI_PREDICT_FALSE(IsPacked(element_type()))) return is_std_byte ? void() : Packed();
    CheckWidth(size, 1, BitWidth(element_type()) / 8, is_byte);
    if (is_byte || dtype == XLA_FFI_DataType_INVALID) return;
    if (dtype != XLA_FFI_DataType_U16 || !internal::IsNativelyU16(element_type())) NoSuchType(dtype);
  }
  [[noreturn]] XLA_FFI_SDK_COLD void Packed() const {
    internal::Misused(std::string("the data of a buffer of ") + xla_ffi_sdk_dtype_name(buf_->dtype) +
                      " was asked for as elements, of which several share a byte: packed_data gives the bytes");
  }
  [[noreturn]] XLA_FFI_SDK_COLD void NotPacked() const {
    const char* const name = xla_ffi_sdk_dtype_name(buf_->dtype);
    internal::Misused(std::string("packed data was asked for of a buffer of ") + (name != nullptr ? name : "an unknown type") +
                      ": typed_data gives its elements");
  }
  [[noreturn]] XLA_FFI_SDK_COLD void NoSuchType(XLA_FFI_DataType dtype) const {
    internal::Misused(std::string("the data of a buffer of ") + xla_ffi_sdk_dtype_name(buf_->dtype) +
                      " was asked for as elements of " + xla_ffi_sdk_dtype_name(dtype) +
                      ": reinterpret_data takes another type of that width");
  }
  [[noreturn]] XLA_FFI_SDK_COLD void NoSuchElements(size_t size) const {
    const char* const name = xla_ffi_sdk_dtype_name(buf_->dtype);
    internal::Misused(std::string("the data of a buffer of ") + (name != nullptr ? name : "an unknown type") +
                      " was asked for as elements of " + std::to_string(size) + " bytes, or of another alignment");
  }
  const XLA_FFI_Buffer* buf_;
};

// A buffer of a known element type and, unless `rank` is kDynamicRank, a known rank. Decoding has checked the shape. If
// you construct a Buffer yourself, the shape must be valid.
template <DataType dtype, size_t rank = kDynamicRank>
class XLA_FFI_SDK_TYPE Buffer {
 public:
  using Dimensions = AnyBuffer::Dimensions;

  XLA_FFI_SDK_HOT explicit Buffer(const XLA_FFI_Buffer* buf) : buf_(buf) {}

  XLA_FFI_SDK_HOT DataType element_type() const { return dtype; }
  XLA_FFI_SDK_HOT Dimensions dimensions() const {
    return Dimensions(buf_->dims,
                      rank == kDynamicRank ? static_cast<size_t>(buf_->rank) : rank);
  }
  XLA_FFI_SDK_HOT size_t size_bytes() const {
    return internal::CountBytes(dtype, element_count());
  }
  XLA_FFI_SDK_HOT size_t element_count() const {
    return internal::CountJudged(
        buf_->dims, rank == kDynamicRank ? buf_->rank : static_cast<int64_t>(rank));
  }
  XLA_FFI_SDK_HOT void* untyped_data() const { return buf_->data; }
#if defined(XLA_FFI_SDK_INTERNAL_H_)
  XLA_FFI_SDK_FN ::xla::Shape shape() const { return internal::ShapeOf(buf_); }
#endif
  // The return type is `auto`, so that for packed elements the compile error refers to the line that calls typed_data.
  XLA_FFI_SDK_HOT auto* typed_data() const { return static_cast<NativeType<dtype>*>(buf_->data); }
  // Returns the bytes of packed elements, such as S4. XLA's header does not have this function.
  XLA_FFI_SDK_HOT Span<uint8_t> packed_data() const {
    static_assert(IsPacked(dtype), "these elements share no bytes: typed_data() gives them");
    return Span<uint8_t>(static_cast<uint8_t*>(buf_->data), size_bytes());
  }

 private:
  friend struct internal::BufferCast;
  const XLA_FFI_Buffer* buf_;
};

template <DataType dtype>
using BufferR0 = Buffer<dtype, 0>;
template <DataType dtype>
using BufferR1 = Buffer<dtype, 1>;
template <DataType dtype>
using BufferR2 = Buffer<dtype, 2>;
template <DataType dtype>
using BufferR3 = Buffer<dtype, 3>;
template <DataType dtype>
using BufferR4 = Buffer<dtype, 4>;

// A buffer of the element type TOKEN, which orders side effects and has no elements.
using Token = BufferR0<DataType::TOKEN>;

template <DataType dtype, size_t rank = kDynamicRank>
using ResultBuffer = Result<Buffer<dtype, rank>>;
template <DataType dtype>
using ResultBufferR0 = ResultBuffer<dtype, 0>;
template <DataType dtype>
using ResultBufferR1 = ResultBuffer<dtype, 1>;
template <DataType dtype>
using ResultBufferR2 = ResultBuffer<dtype, 2>;
template <DataType dtype>
using ResultBufferR3 = ResultBuffer<dtype, 3>;
template <DataType dtype>
using ResultBufferR4 = ResultBuffer<dtype, 4>;

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_BUFFER_H_
