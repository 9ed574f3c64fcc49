// Decodes arguments and results, including variadic ones, and matches buffers. Part of <xla/ffi/api/ffi.h>.
#ifndef XLA_FFI_SDK_CPP_OPERAND_H_
#define XLA_FFI_SDK_CPP_OPERAND_H_

#include "xla_ffi/cpp/buffer.h"

XLA_FFI_SDK_NAMESPACE_BEGIN

template <>
struct ArgBinding<AnyBuffer> {
  using Arg = AnyBuffer;
};
template <DataType dtype, size_t rank>
struct ArgBinding<Buffer<dtype, rank>> {
  using Arg = Buffer<dtype, rank>;
};
template <>
struct RetBinding<Result<AnyBuffer>> {
  using Ret = AnyBuffer;
};
template <DataType dtype, size_t rank>
struct RetBinding<Result<Buffer<dtype, rank>>> {
  using Ret = Buffer<dtype, rank>;
};

XLA_FFI_SDK_INTERNAL_BEGIN

template <DataType dtype, size_t rank>
struct OperandType<Buffer<dtype, rank>> {
  static constexpr unsigned kElement = static_cast<unsigned>(dtype);
  static constexpr int64_t kRank = rank == kDynamicRank ? kAnyRank : static_cast<int64_t>(rank);
};

// Returns true if a buffer has an element type, which sub-byte elements from hosts before r5 lack.
XLA_FFI_SDK_HOT inline bool IsaAnyBuffer(const XLA_FFI_Buffer* buf) {
  return IsThere(buf) && XLA_FFI_PREDICT_TRUE(buf->dtype != XLA_FFI_DataType_INVALID);
}

// Returns true if a buffer has this element type and rank.
template <DataType dtype, size_t rank>
XLA_FFI_SDK_HOT inline bool IsaBuffer(const XLA_FFI_Buffer* buf) {
  return IsThere(buf) && static_cast<unsigned>(buf->dtype) == static_cast<unsigned>(dtype) &&
         (rank == kDynamicRank || buf->rank == static_cast<int64_t>(rank));
}

XLA_FFI_SDK_INTERNAL_END

template <>
struct ArgDecoding<AnyBuffer> {
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_ArgType type, void* arg) {
    return type == XLA_FFI_ArgType_BUFFER && internal::IsaAnyBuffer(static_cast<const XLA_FFI_Buffer*>(arg));
  }
  XLA_FFI_SDK_HOT static AnyBuffer Take(void* arg) {
    return AnyBuffer(static_cast<const XLA_FFI_Buffer*>(arg));
  }
  template <typename Decoded = AnyBuffer>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(XLA_FFI_ArgType type, void* arg,
                                                       DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, arg))) {
      internal::DiagnoseBuffer(internal::NumberOf(type), static_cast<const XLA_FFI_Buffer*>(arg), true,
                               internal::kAnyElement, internal::kAnyRank, diagnostic);
      return std::nullopt;
    }
    return AnyBuffer(static_cast<const XLA_FFI_Buffer*>(arg));
  }
};

template <DataType dtype, size_t rank>
struct ArgDecoding<Buffer<dtype, rank>> {
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_ArgType type, void* arg) {
    return type == XLA_FFI_ArgType_BUFFER &&
           internal::IsaBuffer<dtype, rank>(static_cast<const XLA_FFI_Buffer*>(arg));
  }
  XLA_FFI_SDK_HOT static Buffer<dtype, rank> Take(void* arg) {
    return Buffer<dtype, rank>(static_cast<const XLA_FFI_Buffer*>(arg));
  }
  XLA_FFI_SDK_HOT static std::optional<Buffer<dtype, rank>> Decode(XLA_FFI_ArgType type, void* arg,
                                                                   DiagnosticEngine& diagnostic) {
    const auto* buf = static_cast<const XLA_FFI_Buffer*>(arg);
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, arg))) {
      internal::DiagnoseBuffer(internal::NumberOf(type), buf, true, static_cast<unsigned>(dtype),
                               static_cast<int64_t>(rank), diagnostic);
      return std::nullopt;
    }
    return Buffer<dtype, rank>(buf);
  }
};

template <>
struct RetDecoding<AnyBuffer> {
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_RetType type, void* ret) {
    return type == XLA_FFI_RetType_BUFFER && internal::IsaAnyBuffer(static_cast<const XLA_FFI_Buffer*>(ret));
  }
  XLA_FFI_SDK_HOT static Result<AnyBuffer> Take(void* ret) {
    return Result<AnyBuffer>(AnyBuffer(static_cast<const XLA_FFI_Buffer*>(ret)));
  }
  template <typename Decoded = Result<AnyBuffer>>
  XLA_FFI_SDK_HOT static std::optional<Decoded> Decode(XLA_FFI_RetType type, void* ret,
                                                       DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, ret))) {
      internal::DiagnoseBuffer(internal::NumberOf(type), static_cast<const XLA_FFI_Buffer*>(ret), false,
                               internal::kAnyElement, internal::kAnyRank, diagnostic);
      return std::nullopt;
    }
    return Result<AnyBuffer>(AnyBuffer(static_cast<const XLA_FFI_Buffer*>(ret)));
  }
};

template <DataType dtype, size_t rank>
struct RetDecoding<Buffer<dtype, rank>> {
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_RetType type, void* ret) {
    return type == XLA_FFI_RetType_BUFFER &&
           internal::IsaBuffer<dtype, rank>(static_cast<const XLA_FFI_Buffer*>(ret));
  }
  XLA_FFI_SDK_HOT static Result<Buffer<dtype, rank>> Take(void* ret) {
    return Result<Buffer<dtype, rank>>(
        Buffer<dtype, rank>(static_cast<const XLA_FFI_Buffer*>(ret)));
  }
  XLA_FFI_SDK_HOT static std::optional<Result<Buffer<dtype, rank>>> Decode(
      XLA_FFI_RetType type, void* ret, DiagnosticEngine& diagnostic) {
    const auto* buf = static_cast<const XLA_FFI_Buffer*>(ret);
    if (XLA_FFI_PREDICT_FALSE(!Isa(type, ret))) {
      internal::DiagnoseBuffer(internal::NumberOf(type), buf, false, static_cast<unsigned>(dtype),
                               static_cast<int64_t>(rank), diagnostic);
      return std::nullopt;
    }
    return Result<Buffer<dtype, rank>>(Buffer<dtype, rank>(buf));
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN
template <typename T>
struct DecodeOne<InOutTag<T>> {
  static_assert(takes_v<ArgDecoding<T>> && takes_v<RetDecoding<T>>,
                "an in-out operand is an AnyBuffer or a Buffer");
  static constexpr bool kTakes = true;
  XLA_FFI_SDK_HOT static bool Check(Place at) {
    return DecodeOne<ArgTag<T>>::Check(at) && DecodeOne<RetTag<T>>::Check({at.frame, at.ret}) &&
           IsOneArray(at.frame, static_cast<const XLA_FFI_Buffer*>(ArgList::Value(at)),
                      static_cast<const XLA_FFI_Buffer*>(RetList::Value({at.frame, at.ret})));
  }
  XLA_FFI_SDK_HOT static InOut<T> Take(Place at) {
    return InOut<T>(ArgDecoding<T>::Take(ArgList::Value(at)));
  }
};

XLA_FFI_SDK_COLD inline Error OutOfRange(size_t index, size_t size) {
  Text text;
  text << "index out of range: " << index << " of " << size;
  return Error(ErrorCode::kInvalidArgument, text.str());
}
XLA_FFI_SDK_INTERNAL_END

namespace internal {

// The types and the accessor of arguments (ArgSide) and of results (RetSide), for the template Remaining.
struct XLA_FFI_SDK_TYPE ArgSide {
  using Operands = XLA_FFI_Args;
  template <typename T>
  using Decoding = ArgDecoding<T>;
  template <typename T>
  using Value = T;
  XLA_FFI_SDK_HOT static void* At(const Operands* args, size_t i) { return args->args[i]; }
};
struct XLA_FFI_SDK_TYPE RetSide {
  using Operands = XLA_FFI_Rets;
  template <typename T>
  using Decoding = RetDecoding<T>;
  template <typename T>
  using Value = Result<T>;
  XLA_FFI_SDK_HOT static void* At(const Operands* rets, size_t i) { return rets->rets[i]; }
};

// Gets an operand, or returns an error. This is a free function, because Clang would export a member
// function.
template <typename Side, typename T>
XLA_FFI_SDK_SLOW inline ErrorOr<typename Side::template Value<T>> GetSlow(
    const typename Side::Operands* operands, size_t offset, size_t index) {
  const auto size = static_cast<size_t>(operands->size) - offset;
  if (index >= size) return OutOfRange(index, size);
  DiagnosticEngine diagnostic;
  auto value = Side::template Decoding<T>::Decode(
      operands->types[offset + index], Side::At(operands, offset + index), diagnostic);
  if (!value.has_value()) return ErrorOf(diagnostic);
  return std::move(*value);
}

// The variadic operands of a call, which follow the named operands of the binding.
template <typename Side>
class XLA_FFI_SDK_TYPE Remaining {
  using Operands = typename Side::Operands;

 public:
  XLA_FFI_SDK_HOT Remaining(const Operands* operands, size_t offset)
      : operands_(operands), offset_((std::min)(offset, static_cast<size_t>(operands->size))) {}

  XLA_FFI_SDK_HOT size_t size() const { return static_cast<size_t>(operands_->size) - offset_; }
  XLA_FFI_SDK_HOT bool empty() const { return size() == 0; }

  template <typename T>
  XLA_FFI_SDK_HOT bool isa(size_t index) const {
    return index < size() && Side::template Decoding<T>::Isa(operands_->types[offset_ + index],
                                                             Side::At(operands_, offset_ + index));
  }
  template <typename T>
  XLA_FFI_SDK_HOT ErrorOr<typename Side::template Value<T>> get(size_t index) const {
    using D = typename Side::template Decoding<T>;
    if constexpr (takes_v<D>) {
      if (XLA_FFI_PREDICT_TRUE(isa<T>(index))) {
        return D::Take(Side::At(operands_, offset_ + index));
      }
    }
    return GetSlow<Side, T>(operands_, offset_, index);
  }

 private:
  const Operands* operands_;
  size_t offset_;
};

}  // namespace internal

// The variadic arguments of a call, which follow the named arguments of the binding. Use `size`, `isa<T>(i)`
// and `get<T>(i)`.
class XLA_FFI_SDK_TYPE RemainingArgs : public internal::Remaining<internal::ArgSide> {
 public:
  XLA_FFI_SDK_HOT RemainingArgs(const XLA_FFI_Args* args, size_t offset)
      : Remaining(args, offset) {}
};

// The variadic results of a call, which follow the named results of the binding. `get<T>(i)` returns a
// Result<T>.
class XLA_FFI_SDK_TYPE RemainingRets : public internal::Remaining<internal::RetSide> {
 public:
  XLA_FFI_SDK_HOT RemainingRets(const XLA_FFI_Rets* rets, size_t offset)
      : Remaining(rets, offset) {}
};

XLA_FFI_SDK_INTERNAL_BEGIN

struct BufferCast {
  template <typename To, typename From>
  XLA_FFI_SDK_HOT static To Cast(const From& buffer) {
    return To(buffer.buf_);
  }
};

template <typename B>
XLA_FFI_SDK_HOT inline B Unwrapped(B buffer) {
  return buffer;
}
template <typename B>
XLA_FFI_SDK_HOT inline B Unwrapped(Result<B> buffer) {
  return *buffer;
}

XLA_FFI_SDK_INTERNAL_END

namespace match {

template <typename DTypes = DTypeSet<DataType>, typename Ranks = RankSet<>>
using BufferPattern = internal::BufferPatternBase<DTypes, Ranks>;

template <DataType dtype, size_t rank = kDynamicRank>
XLA_FFI_SDK_HOT inline auto Buffer() {
  if constexpr (rank == kDynamicRank) {
    return BufferPattern<DTypeSet<DataType, dtype>>();
  } else {
    return BufferPattern<DTypeSet<DataType, dtype>, RankSet<rank>>();
  }
}
// This function is a template, so that files without patterns do not compile it.
template <typename DTypes = DTypeSet<DataType>>
XLA_FFI_SDK_HOT inline BufferPattern<DTypes> Buffer() {
  return {};
}

}  // namespace match

// Checks a buffer or a result against a pattern. The error names the buffer.
template <typename BufferType, typename DTypes, typename Ranks>
[[nodiscard]] XLA_FFI_SDK_HOT inline Error Verify(std::string_view name, BufferType buffer,
                                           const match::BufferPattern<DTypes, Ranks>& pattern) {
  auto problem = internal::TryMatchBuffer(name, internal::Unwrapped(buffer), pattern);
  if (XLA_FFI_PREDICT_FALSE(problem.has_value())) {
    return Error(ErrorCode::kInvalidArgument, std::move(*problem));
  }
  return Error();
}

// Checks an untyped buffer against a pattern with one element type and rank, and returns a typed buffer.
template <DataType dtype, size_t rank>
[[nodiscard]] XLA_FFI_SDK_HOT inline ErrorOr<Buffer<dtype, rank>> Match(
    std::string_view name, AnyBuffer buffer,
    const match::BufferPattern<match::DTypeSet<DataType, dtype>, match::RankSet<rank>>& pattern) {
  Error error = Verify(name, buffer, pattern);
  if (XLA_FFI_PREDICT_FALSE(error.failure())) return error;
  return internal::BufferCast::Cast<Buffer<dtype, rank>>(buffer);
}

// Checks a typed buffer against a pattern, and returns the buffer.
template <DataType dtype, size_t rank, typename DTypes, typename Ranks>
[[nodiscard]] XLA_FFI_SDK_HOT inline ErrorOr<Buffer<dtype, rank>> Match(
    std::string_view name, Buffer<dtype, rank> buffer,
    const match::BufferPattern<DTypes, Ranks>& pattern) {
  Error error = Verify(name, buffer, pattern);
  if (XLA_FFI_PREDICT_FALSE(error.failure())) return error;
  return buffer;
}

// Checks a result against a pattern, and returns the typed result.
template <typename BufferType, typename DTypes, typename Ranks>
[[nodiscard]] XLA_FFI_SDK_HOT inline auto Match(std::string_view name, Result<BufferType> buffer,
                                         const match::BufferPattern<DTypes, Ranks>& pattern) {
  auto matched = Match(name, *buffer, pattern);
  using Matched = std::decay_t<decltype(*matched)>;
  if (XLA_FFI_PREDICT_FALSE(matched.has_error())) {
    return ErrorOr<Result<Matched>>(std::move(matched).error());
  }
  return ErrorOr<Result<Matched>>(Result<Matched>(*std::move(matched)));
}

XLA_FFI_SDK_NAMESPACE_END

#endif  // XLA_FFI_SDK_CPP_OPERAND_H_
