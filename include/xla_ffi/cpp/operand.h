// Decoding of operands and results, variadic ones, and matching of buffers. Part of
// <xla/ffi/api/ffi.h>.
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

// Whether a buffer has that element type and rank.
template <DataType dtype, size_t rank>
XLA_FFI_SDK_HOT inline bool IsaBuffer(const XLA_FFI_Buffer* buf) {
  return static_cast<unsigned>(buf->dtype) == static_cast<unsigned>(dtype) &&
         (rank == kDynamicRank || buf->rank == static_cast<int64_t>(rank));
}

XLA_FFI_SDK_SLOW inline void DiagnoseBuffer(unsigned kind, const XLA_FFI_Buffer* buf,
                                            DataType dtype, size_t rank,
                                            DiagnosticEngine& diagnostic) {
  const unsigned got = kind == 1 ? NumberOf(buf->dtype) : 0;
  if (kind != 1) {
    PutName(DiagnoseKind(diagnostic, "a buffer"), nullptr, kind);
  } else if (got == 0 && BitWidth(dtype) % 8 != 0) {
    // Hosts before r5 send such elements without a number and pack the first into the high bits.
    Text& text = DiagnosticAccess::Add(diagnostic, XLA_FFI_Error_Code_UNIMPLEMENTED);
    PutDType(text, static_cast<unsigned>(dtype))
        << " arrives without its type in this XLA and packed the other way round; the first "
           "jaxlib that has it is "
        << FirstJaxlib(Revision::r5);
  } else if (got != static_cast<unsigned>(dtype)) {
    DiagnoseDType(diagnostic, "dtype ", static_cast<unsigned>(dtype), got, false);
  } else {
    DiagnosticAccess::Add(diagnostic) << "expected rank " << rank << ", got " << buf->rank;
  }
}

XLA_FFI_SDK_INTERNAL_END

template <>
struct ArgDecoding<AnyBuffer> {
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_ArgType type, void*) {
    return type == XLA_FFI_ArgType_BUFFER;
  }
  XLA_FFI_SDK_HOT static AnyBuffer Take(void* arg) {
    return AnyBuffer(static_cast<const XLA_FFI_Buffer*>(arg));
  }
  XLA_FFI_SDK_HOT static std::optional<AnyBuffer> Decode(XLA_FFI_ArgType type, void* arg,
                                                         DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(type != XLA_FFI_ArgType_BUFFER)) {
      internal::DiagnoseBuffer(internal::NumberOf(type), nullptr, DataType::INVALID, 0, diagnostic);
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
      internal::DiagnoseBuffer(internal::NumberOf(type), buf, dtype, rank, diagnostic);
      return std::nullopt;
    }
    return Buffer<dtype, rank>(buf);
  }
};

template <>
struct RetDecoding<AnyBuffer> {
  XLA_FFI_SDK_HOT static bool Isa(XLA_FFI_RetType type, void*) {
    return type == XLA_FFI_RetType_BUFFER;
  }
  XLA_FFI_SDK_HOT static Result<AnyBuffer> Take(void* ret) {
    return Result<AnyBuffer>(AnyBuffer(static_cast<const XLA_FFI_Buffer*>(ret)));
  }
  XLA_FFI_SDK_HOT static std::optional<Result<AnyBuffer>> Decode(XLA_FFI_RetType type, void* ret,
                                                                 DiagnosticEngine& diagnostic) {
    if (XLA_FFI_PREDICT_FALSE(type != XLA_FFI_RetType_BUFFER)) {
      internal::DiagnoseBuffer(internal::NumberOf(type), nullptr, DataType::INVALID, 0, diagnostic);
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
      internal::DiagnoseBuffer(internal::NumberOf(type), buf, dtype, rank, diagnostic);
      return std::nullopt;
    }
    return Result<Buffer<dtype, rank>>(Buffer<dtype, rank>(buf));
  }
};

XLA_FFI_SDK_INTERNAL_BEGIN
XLA_FFI_SDK_COLD inline Error OutOfRange(size_t index, size_t size) {
  Text text;
  text << "index out of range: " << index << " of " << size;
  return Error(ErrorCode::kInvalidArgument, text.str());
}
XLA_FFI_SDK_INTERNAL_END

// The arguments that no element of the binding took.
class XLA_FFI_SDK_TYPE RemainingArgs {
 public:
  XLA_FFI_SDK_HOT RemainingArgs(const XLA_FFI_Args* args, size_t offset)
      : args_(args), offset_(std::min(offset, static_cast<size_t>(args->size))) {}

  XLA_FFI_SDK_HOT size_t size() const { return static_cast<size_t>(args_->size) - offset_; }
  XLA_FFI_SDK_HOT bool empty() const { return size() == 0; }

  template <typename T>
  XLA_FFI_SDK_HOT bool isa(size_t index) const {
    return index < size() &&
           ArgDecoding<T>::Isa(args_->types[offset_ + index], args_->args[offset_ + index]);
  }
  template <typename T>
  XLA_FFI_SDK_HOT ErrorOr<T> get(size_t index) const {
    if constexpr (internal::takes_v<ArgDecoding<T>>) {
      if (XLA_FFI_PREDICT_TRUE(isa<T>(index))) {
        return ArgDecoding<T>::Take(args_->args[offset_ + index]);
      }
      return WhyNot<T>(index);
    } else {
      return Slow<T>(index);
    }
  }

 private:
  template <typename T>
  XLA_FFI_SDK_COLD Error WhyNot(size_t index) const {
    ErrorOr<T> slow = Slow<T>(index);
    return slow.has_error() ? std::move(slow).error() : Error::Internal("it changed meanwhile");
  }
  template <typename T>
  XLA_FFI_SDK_FN XLA_FFI_ATTRIBUTE_NEVER_INLINE ErrorOr<T> Slow(size_t index) const {
    if (index >= size()) return internal::OutOfRange(index, size());
    DiagnosticEngine diagnostic;
    std::optional<T> value = ArgDecoding<T>::Decode(args_->types[offset_ + index],
                                                    args_->args[offset_ + index], diagnostic);
    if (!value.has_value()) return internal::ErrorOf(diagnostic);
    return std::move(*value);
  }

  const XLA_FFI_Args* args_;
  size_t offset_;
};

// The results that no element of the binding took.
class XLA_FFI_SDK_TYPE RemainingRets {
 public:
  XLA_FFI_SDK_HOT RemainingRets(const XLA_FFI_Rets* rets, size_t offset)
      : rets_(rets), offset_(std::min(offset, static_cast<size_t>(rets->size))) {}

  XLA_FFI_SDK_HOT size_t size() const { return static_cast<size_t>(rets_->size) - offset_; }
  XLA_FFI_SDK_HOT bool empty() const { return size() == 0; }

  template <typename T>
  XLA_FFI_SDK_HOT bool isa(size_t index) const {
    return index < size() &&
           RetDecoding<T>::Isa(rets_->types[offset_ + index], rets_->rets[offset_ + index]);
  }
  template <typename T>
  XLA_FFI_SDK_HOT ErrorOr<Result<T>> get(size_t index) const {
    if constexpr (internal::takes_v<RetDecoding<T>>) {
      if (XLA_FFI_PREDICT_TRUE(isa<T>(index))) {
        return RetDecoding<T>::Take(rets_->rets[offset_ + index]);
      }
      return WhyNot<T>(index);
    } else {
      return Slow<T>(index);
    }
  }

 private:
  template <typename T>
  XLA_FFI_SDK_COLD Error WhyNot(size_t index) const {
    ErrorOr<Result<T>> slow = Slow<T>(index);
    return slow.has_error() ? std::move(slow).error() : Error::Internal("it changed meanwhile");
  }
  template <typename T>
  XLA_FFI_SDK_FN XLA_FFI_ATTRIBUTE_NEVER_INLINE ErrorOr<Result<T>> Slow(size_t index) const {
    if (index >= size()) return internal::OutOfRange(index, size());
    DiagnosticEngine diagnostic;
    std::optional<Result<T>> value = RetDecoding<T>::Decode(
        rets_->types[offset_ + index], rets_->rets[offset_ + index], diagnostic);
    if (!value.has_value()) return internal::ErrorOf(diagnostic);
    return std::move(*value);
  }

  const XLA_FFI_Rets* rets_;
  size_t offset_;
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
XLA_FFI_SDK_HOT inline BufferPattern<> Buffer() { return {}; }

}  // namespace match

// Checks a buffer (or a result) against a pattern; the error names it.
template <typename BufferType, typename DTypes, typename Ranks>
XLA_FFI_SDK_HOT inline Error Verify(std::string_view name, BufferType buffer,
                             const match::BufferPattern<DTypes, Ranks>& pattern) {
  auto problem = internal::TryMatchBuffer(name, internal::Unwrapped(buffer), pattern);
  if (XLA_FFI_PREDICT_FALSE(problem.has_value())) {
    return Error(ErrorCode::kInvalidArgument, std::move(*problem));
  }
  return Error();
}

// Checks an untyped buffer against a pattern of one element type and rank, and gives it its type.
template <DataType dtype, size_t rank>
XLA_FFI_SDK_HOT inline ErrorOr<Buffer<dtype, rank>> Match(
    std::string_view name, AnyBuffer buffer,
    const match::BufferPattern<match::DTypeSet<DataType, dtype>, match::RankSet<rank>>& pattern) {
  Error error = Verify(name, buffer, pattern);
  if (XLA_FFI_PREDICT_FALSE(error.failure())) return error;
  return internal::BufferCast::Cast<Buffer<dtype, rank>>(buffer);
}

// Checks a typed buffer against a pattern.
template <DataType dtype, size_t rank, typename DTypes, typename Ranks>
XLA_FFI_SDK_HOT inline ErrorOr<Buffer<dtype, rank>> Match(
    std::string_view name, Buffer<dtype, rank> buffer,
    const match::BufferPattern<DTypes, Ranks>& pattern) {
  Error error = Verify(name, buffer, pattern);
  if (XLA_FFI_PREDICT_FALSE(error.failure())) return error;
  return buffer;
}

// The same for results.
template <typename BufferType, typename DTypes, typename Ranks>
XLA_FFI_SDK_HOT inline auto Match(std::string_view name, Result<BufferType> buffer,
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
