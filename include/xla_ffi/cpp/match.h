// Patterns that check the element type, rank and dimensions of buffers. Part of <xla/ffi/api/api.h>.
#ifndef XLA_FFI_SDK_CPP_MATCH_H_
#define XLA_FFI_SDK_CPP_MATCH_H_

#include "xla_ffi/cpp/print.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

// The value of a rank parameter for buffers of any rank.
inline constexpr size_t kDynamicRank = (std::numeric_limits<size_t>::max)();

template <size_t rank, size_t... ranks>
XLA_FFI_SDK_FN constexpr bool IsDynamicRank() {
  return rank == kDynamicRank || ((ranks == kDynamicRank) || ...);
}

XLA_FFI_SDK_INTERNAL_BEGIN

// Converts an untyped buffer to a typed buffer. The caller has checked the type.
struct BufferCast;

// Adds an element type or a size to a text.
template <typename T>
XLA_FFI_SDK_HOT inline void PutValue(Text& text, T value) noexcept {
  if constexpr (std::is_enum_v<T>) {
    PutDType(text, static_cast<unsigned>(value));
  } else {
    text << value;
  }
}

XLA_FFI_SDK_INTERNAL_END

namespace internal {

// A list of constants, as a type.
template <typename T, T... values>
struct XLA_FFI_SDK_TYPE ValueSequence {
  using ValueType = T;
  XLA_FFI_SDK_FN static constexpr size_t size() { return sizeof...(values); }

  XLA_FFI_SDK_HOT static bool Has([[maybe_unused]] T value) {
    return sizeof...(values) == 0 || ((value == values) || ...);
  }
  // Adds the constants to a text: "F32", or "one of [F32, F64]".
  XLA_FFI_SDK_COLD static void Put(Text& text) noexcept {
    if (sizeof...(values) != 1) text << "one of [";
    [[maybe_unused]] const char* between = "";
    ((PutValue(text << between, values), between = ", "), ...);
    if (sizeof...(values) != 1) text << "]";
  }
};

template <typename DTypes, typename Ranks>
class BufferPatternBase;

}  // namespace internal

namespace match {

template <typename DType, DType... dtypes>
using DTypeSet = internal::ValueSequence<DType, dtypes...>;
template <size_t... ranks>
using RankSet = internal::ValueSequence<size_t, ranks...>;

// A pattern of one dimension: any size, a given size, or a pointer to which the size is written.
class XLA_FFI_SDK_TYPE DimPattern {
 public:
  XLA_FFI_SDK_HOT DimPattern() {}
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
  XLA_FFI_SDK_HOT DimPattern(T value) : kind_(Kind::kSize), size_(static_cast<int64_t>(value)) {  // NOLINT
    static_assert(sizeof(T) <= sizeof(int64_t));
  }
  // Matches any size and writes it to `value`. Dimensions with the same pointer must have equal sizes.
  XLA_FFI_SDK_HOT DimPattern(int64_t* value)  // NOLINT
      : kind_(value != nullptr ? Kind::kCapture : Kind::kAny), capture_(value) {}

  template <typename Reason = std::string>
  XLA_FFI_SDK_FN std::optional<Reason> Match(int64_t value, size_t index) const {
    if (XLA_FFI_PREDICT_TRUE(kind_ != Kind::kSize || size_ == value)) return std::nullopt;
    internal::Text text;
    PutMismatch(text, size_, value, index);
    return text.str();
  }
  XLA_FFI_SDK_HOT void Capture(int64_t value) const {
    if (kind_ == Kind::kCapture) *capture_ = value;
  }
  XLA_FFI_SDK_COLD std::string Describe() const {
    internal::Text text;
    Put(text);
    return text.str();
  }
 private:
  template <typename, typename>
  friend class internal::BufferPatternBase;
  enum class Kind : uint8_t { kAny, kSize, kCapture };

  XLA_FFI_SDK_COLD void Put(internal::Text& text) const noexcept {
    if (kind_ == Kind::kSize) {
      text << size_;
    } else {
      text << (kind_ == Kind::kCapture ? "captured" : "any");
    }
  }
  XLA_FFI_SDK_COLD static void PutMismatch(internal::Text& text, int64_t expected, int64_t got,
                                           size_t index) noexcept {
    text << "expected dimension " << index << " to be " << expected << ", got " << got;
  }
  XLA_FFI_SDK_HOT const int64_t* capture() const { return kind_ == Kind::kCapture ? capture_ : nullptr; }

  Kind kind_ = Kind::kAny;
  union {
    int64_t size_ = 0;
    int64_t* capture_;
  };
};

}  // namespace match

namespace internal {

// A pattern of buffers. Element types and ranks are template arguments, so that a match can return a typed
// buffer. If they are taken from a buffer (WithShapeOf, Like), they are member variables.
template <typename DTypes, typename Ranks>
class XLA_FFI_SDK_TYPE BufferPatternBase {
  using DType = typename DTypes::ValueType;
  using Dim = match::DimPattern;

 public:
  XLA_FFI_SDK_HOT BufferPatternBase() {}
  XLA_FFI_SDK_DEFAULTS(BufferPatternBase);

  template <size_t rank, size_t... ranks>
  XLA_FFI_SDK_HOT auto WithRank() const {
    static_assert(!IsDynamicRank<rank, ranks...>(), "any rank is what a pattern has by itself");
    return BufferPatternBase<DTypes, match::RankSet<rank, ranks...>>(*this);
  }

  template <DType dtype, DType... dtypes>
  XLA_FFI_SDK_HOT auto WithDType() const {
    return BufferPatternBase<match::DTypeSet<DType, dtype, dtypes...>, Ranks>(*this);
  }

  // Adds the requirement that a buffer has the shape of `buffer`.
  template <typename Buffer>
  XLA_FFI_SDK_HOT auto WithShapeOf(Buffer buffer) const {
    BufferPatternBase<DTypes, match::RankSet<>> pattern(*this);
    const auto dimensions = buffer.dimensions();
    pattern.rank_ = dimensions.size();
    pattern.dims_.assign(dimensions.begin(), dimensions.end());
    return pattern;
  }

  // Adds the requirement that a buffer has the shape and element type of `buffer`.
  template <typename Buffer>
  XLA_FFI_SDK_HOT auto Like(Buffer buffer) const {
    BufferPatternBase<match::DTypeSet<DType>, match::RankSet<>> pattern(WithShapeOf(buffer));
    pattern.dtype_ = buffer.element_type();
    return pattern;
  }

  // Adds the requirement that a buffer has exactly these dimensions, in order.
  template <typename... Args,
            typename = std::enable_if_t<(std::is_convertible_v<Args, match::DimPattern> && ...)>>
  XLA_FFI_SDK_HOT auto WithDims(Args&&... dimensions) const {
    BufferPatternBase<DTypes, match::RankSet<sizeof...(Args)>> pattern(*this);
    pattern.dims_ = {Dim(std::forward<Args>(dimensions))...};
    return pattern;
  }

  // Add a requirement for the dimension at `index`. The requirements for other dimensions and the rank are
  // unchanged.
  XLA_FFI_SDK_FN BufferPatternBase WithDim(size_t index, match::DimPattern dimension) const {
    BufferPatternBase pattern(*this);
    if (index >= pattern.dims_.size()) pattern.dims_.resize(index + 1);
    pattern.dims_[index] = dimension;
    return pattern;
  }
  template <size_t index>
  XLA_FFI_SDK_HOT BufferPatternBase WithDim(match::DimPattern dimension) const {
    return WithDim(index, dimension);
  }

  template <typename Buffer>
  XLA_FFI_SDK_HOT bool Matches(Buffer buffer) const {
    const DType dtype = buffer.element_type();
    const auto dimensions = buffer.dimensions();
    bool good = DTypes::Has(dtype) && (!dtype_.has_value() || *dtype_ == dtype) &&
                Ranks::Has(dimensions.size()) &&
                (rank_ == kDynamicRank || rank_ == dimensions.size()) &&
                dims_.size() <= dimensions.size();
    for (size_t i = 0; good && i < dims_.size(); ++i) {
      const Dim& dim = dims_[i];
      good = dim.kind_ != Dim::Kind::kSize || dim.size_ == dimensions.data()[i];
      if (dim.kind_ != Dim::Kind::kCapture) continue;
      for (size_t k = 0; k < i; ++k) {
        good = good && (dims_[k].capture() != dim.capture_ || dimensions.data()[k] == dimensions.data()[i]);
      }
    }
    return good;
  }

  // Returns nullopt if the buffer matches, otherwise the reason why not.
  template <typename Buffer, typename Reason = std::string>
  XLA_FFI_SDK_HOT std::optional<Reason> Match(Buffer buffer) const {
    if (XLA_FFI_PREDICT_TRUE(Matches(buffer))) return std::nullopt;
    const auto dimensions = buffer.dimensions();
    return Why(buffer.element_type(), dimensions.begin(), dimensions.size());
  }

  // Writes the sizes of the buffer's dimensions to the pointers of the pattern.
  template <typename Buffer>
  XLA_FFI_SDK_HOT void Capture(Buffer buffer) const {
    const auto dimensions = buffer.dimensions();
    for (size_t i = 0; i < dims_.size() && i < dimensions.size(); ++i) dims_[i].Capture(dimensions.data()[i]);
  }

  XLA_FFI_SDK_COLD std::string Describe() const {
    Text text;
    Put(text);
    return text.str();
  }

  // Returns the reason why a buffer does not match. The text names the buffer.
  XLA_FFI_SDK_COLD std::string WhyNot(std::string_view name, DType dtype, const int64_t* dims, size_t rank) const {
    Text text;
    Put(text << "buffer `" << name << "` is not ");
    PutWhy(text << ": ", dtype, dims, rank);
    return text.str();
  }

 private:
  template <typename, typename>
  friend class BufferPatternBase;
  // Copies a pattern with new template arguments. A value for element type or rank is only copied if the
  // template arguments specify none.
  template <typename OtherDTypes, typename OtherRanks>
  XLA_FFI_SDK_HOT explicit BufferPatternBase(
      const BufferPatternBase<OtherDTypes, OtherRanks>& other)
      : dims_(other.dims_) {
    if (DTypes::size() == 0) dtype_ = other.dtype_;
    if (Ranks::size() == 0) rank_ = other.rank_;
  }

  XLA_FFI_SDK_COLD void Put(Text& text) const noexcept {
    text << "a buffer";
    if (DTypes::size() != 0) DTypes::Put(text << " with dtype ");
    if (dtype_.has_value()) PutValue(text << " with dtype ", *dtype_);
    if (Ranks::size() != 0) Ranks::Put(text << " with rank ");
    if (rank_ != kDynamicRank) text << " with rank " << rank_;
    for (size_t i = 0; i < dims_.size(); ++i) dims_[i].Put(text << (i == 0 ? " with dimensions [" : ", "));
    if (dims_.size() != 0) text << "]";
  }

  XLA_FFI_SDK_COLD std::string Why(DType dtype, const int64_t* dims, size_t rank) const {
    Text text;
    PutWhy(text, dtype, dims, rank);
    return text.str();
  }
  XLA_FFI_SDK_COLD void PutWhy(Text& text, DType dtype, const int64_t* dims, size_t rank) const noexcept {
    if (!DTypes::Has(dtype) || (dtype_.has_value() && *dtype_ != dtype)) {
      text << "expected dtype ";
      DTypes::Has(dtype) ? PutValue(text, *dtype_) : DTypes::Put(text);
      return PutValue(text << ", got ", dtype);
    }
    if (!Ranks::Has(rank) || (rank_ != kDynamicRank && rank_ != rank)) {
      text << "expected rank ";
      Ranks::Has(rank) ? PutValue(text, rank_) : Ranks::Put(text);
      return PutValue(text << ", got ", rank);
    }
    if (dims_.size() > rank) {
      text << "expected a dimension " << dims_.size() - 1 << ", got rank " << rank;
      return;
    }
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (dims_[i].kind_ == Dim::Kind::kSize && dims_[i].size_ != dims[i]) {
        return Dim::PutMismatch(text, dims_[i].size_, dims[i], i);
      }
      const int64_t* capture = dims_[i].capture();
      for (size_t k = 0; capture != nullptr && k < i; ++k) {
        if (dims_[k].capture() == capture && dims[k] != dims[i]) {
          Dim::PutMismatch(text, dims[k], dims[i], i);
          text << ", as dimension " << k;
          return;
        }
      }
    }
  }

  std::optional<DType> dtype_;
  size_t rank_ = kDynamicRank;
  std::vector<Dim> dims_;
};

}  // namespace internal

namespace match {

XLA_FFI_SDK_HOT inline DimPattern Dim() { return DimPattern(); }
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
XLA_FFI_SDK_HOT inline DimPattern Dim(T value) {
  return DimPattern(value);
}
XLA_FFI_SDK_HOT inline DimPattern Dim(int64_t* value) { return DimPattern(value); }

}  // namespace match

XLA_FFI_SDK_INTERNAL_BEGIN

// Matches a buffer and writes the captured sizes. If the buffer does not match, returns a message with the
// buffer's name.
template <typename Buffer, typename Pattern, typename Reason = std::string>
XLA_FFI_SDK_HOT inline std::optional<Reason> TryMatchBuffer(std::string_view name, Buffer buffer,
                                                            const Pattern& pattern) {
  if (XLA_FFI_PREDICT_FALSE(!pattern.Matches(buffer))) {
    const auto dimensions = buffer.dimensions();
    return pattern.WhyNot(name, buffer.element_type(), dimensions.begin(), dimensions.size());
  }
  pattern.Capture(buffer);
  return std::nullopt;
}

XLA_FFI_SDK_INTERNAL_END
XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_MATCH_H_
