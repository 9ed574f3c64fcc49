// Tests of operands and results, and of the headers' guarantees for buffers. Comments name the corresponding upstream
// tests, such as AnyBufferArgument.
//
// Every line that starts with `RUN` is a case: handler symbols per stage, attributes, arguments, results, expected
// outcome. `==` precedes the results' values; `!!` precedes an error code for both headers and a message for ours. RUN
// cases apply to both sets of headers, RUN-OURS and RUN-UPSTREAM cases to one set.
#include "common.h"

// Upstream's AnyBufferArgument
// RUN any_buffer_argument {} f32[2,3]=iota -> s64[4] == 11,2,6,24
// RUN any_buffer_argument {} u8[4]=iota -> s64[4] == 6,1,4,4
// RUN any_buffer_argument {} f32[0,3]=zeros -> s64[4] == 11,2,0,0
static ffi::Error AnyBufferArgument(ffi::AnyBuffer x, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {static_cast<int64_t>(x.element_type()), Int(x.dimensions().size()),
          Int(x.element_count()), Int(x.size_bytes())});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(any_buffer_argument, AnyBufferArgument,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's BufferArgument, WrongRankBufferArgument and WrongTypeBufferArgument
// RUN buffer_argument {} f32[2,2]=1,2,3,4 -> f32[] == 10
// RUN buffer_argument {} f32[4]=1,2,3,4 -> f32[] !! INVALID_ARGUMENT argument 0: expected F32[?, ?], got F32[4]
// RUN buffer_argument {} f64[2,2]=1,2,3,4 -> f32[] !! INVALID_ARGUMENT argument 0: expected F32[?, ?], got F64
// RUN buffer_argument {} f32[2,2]=1,2,3,4 -> f32[1] !! INVALID_ARGUMENT result 0: expected F32[], got F32[1]
static ffi::Error BufferArgument(ffi::BufferR2<ffi::F32> x, ffi::ResultBufferR0<ffi::F32> y) {
  float sum = 0;
  for (size_t i = 0; i < x.element_count(); ++i) sum += x.typed_data()[i];
  *y->typed_data() = sum;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(buffer_argument, BufferArgument,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR2<ffi::F32>>()
                                  .Ret<ffi::BufferR0<ffi::F32>>());

// Upstream's AnyBufferResult
// RUN any_buffer_result {} -> s32[3] == 7,7,7
// RUN any_buffer_result {} -> f32[3] !! INVALID_ARGUMENT this handler fills s32
static ffi::Error AnyBufferResult(ffi::Result<ffi::AnyBuffer> y) {
  if (y->element_type() != ffi::S32) return ffi::Error::InvalidArgument("this handler fills s32");
  for (size_t i = 0; i < y->element_count(); ++i) y->typed_data<int32_t>()[i] = 7;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(any_buffer_result, AnyBufferResult,
                              ffi::Ffi::Bind().Ret<ffi::AnyBuffer>());

// Upstream's MissingBufferArgument and WrongNumberOfArguments
// RUN two_arguments {} f32[1]=1 f32[1]=2 -> f32[1] == 3
// RUN two_arguments {} f32[1]=1 -> f32[1] !! INVALID_ARGUMENT missing argument 1
// RUN two_arguments {} f32[1]=1 f32[1]=1 f32[1]=1 -> f32[1] !! INVALID_ARGUMENT expected 2 arguments, got 3
// RUN two_arguments {} f32[1]=1 f32[1]=1 -> f32[1] f32[1] !! INVALID_ARGUMENT expected 1 result, got 2
// RUN two_arguments {} -> f32[1] !! INVALID_ARGUMENT 2 problems\n  missing argument 0\n  missing argument 1
static ffi::Error TwoArguments(ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> b,
                               ffi::ResultBuffer<ffi::F32> y) {
  *y->typed_data() = *a.typed_data() + *b.typed_data();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(two_arguments, TwoArguments,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// Upstream's TokenArgument
// RUN token_argument {} token -> s64[1] == 17
// RUN token_argument {} f32[]=0 -> s64[1] !! INVALID_ARGUMENT argument 0: expected TOKEN
static ffi::Error TokenArgument(ffi::Token token, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {static_cast<int64_t>(token.element_type())});
  return token.dimensions().size() == 0 ? ffi::Error::Success()
                                        : ffi::Error::Internal("a token has a shape");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(token_argument, TokenArgument,
                              ffi::Ffi::Bind().Arg<ffi::Token>().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's RemainingArgs
// RUN remaining_args {} f32[1]=1 f32[2]=1,2 s32[1]=3 -> s64[5] == 2,1,0,0,2
// RUN remaining_args {} f32[1]=1 -> s64[5] == 0,0,0,0,0
// RUN remaining_args {} -> s64[5] !! INVALID_ARGUMENT missing argument 0
static ffi::Error RemainingArgs(ffi::Buffer<ffi::F32>, ffi::RemainingArgs rest,
                                ffi::ResultBufferR1<ffi::S64> y) {
  int64_t floats = 0, elements = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (!rest.isa<ffi::Buffer<ffi::F32>>(i)) continue;
    ++floats;
    auto buffer = rest.get<ffi::Buffer<ffi::F32>>(i);
    if (!buffer.has_value()) return buffer.error();
    elements += Int(buffer->element_count());
  }
  Put(y, {Int(rest.size()), floats, rest.empty() == (rest.size() == 0) ? 0 : 1,
          rest.get<ffi::AnyBuffer>(rest.size()).has_value() ? 1 : 0, elements});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(remaining_args, RemainingArgs,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .RemainingArgs()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's RemainingArgs: a wrong type is reported
// RUN remaining_wrong_type {} s32[1]=1 -> s64[1] !! INTERNAL expected F32[?], got S32[1]
static ffi::Error RemainingWrongType(ffi::RemainingArgs rest, ffi::ResultBufferR1<ffi::S64>) {
  auto buffer = rest.get<ffi::BufferR1<ffi::F32>>(0);
  return buffer.has_value() ? ffi::Error::Success() : buffer.error();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(remaining_wrong_type, RemainingWrongType,
                              ffi::Ffi::Bind().RemainingArgs().Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's RemainingRets
// RUN remaining_rets {} -> s64[1] s32[2] s32[2] == 2;5,5;5,5
// RUN remaining_rets {} -> s64[1] == 0
// RUN remaining_rets {} -> s64[1] f32[2] !! INTERNAL expected S32, got F32
static ffi::Error RemainingRets(ffi::ResultBufferR1<ffi::S64> y, ffi::RemainingRets rest) {
  Put(y, {Int(rest.size())});
  for (size_t i = 0; i < rest.size(); ++i) {
    ffi::ErrorOr<ffi::Result<ffi::Buffer<ffi::S32>>> ret = rest.get<ffi::Buffer<ffi::S32>>(i);
    if (ret.has_error()) return ret.error();
    for (size_t k = 0; k < (*ret)->element_count(); ++k) (*ret)->typed_data()[k] = 5;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(remaining_rets, RemainingRets,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .RemainingRets());

using MaybeF32 = std::optional<ffi::BufferR1<ffi::F32>>;

// Upstream's OptionalArgs: one optional argument, two optional arguments
// RUN optional_arg {} f32[2]=1,2 -> s64[1] == 2
// RUN optional_arg {} -> s64[1] == -1
// RUN-OURS optional_arg {} s32[2]=1,2 -> s64[1] !! INVALID_ARGUMENT argument 0: expected F32
// RUN-UPSTREAM optional_arg {} s32[2]=1,2 -> s64[1] == -1
static ffi::Error OptionalArg(MaybeF32 x, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {x.has_value() ? Int(x->element_count()) : -1});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_arg, OptionalArg,
                              ffi::Ffi::Bind()
                                  .OptionalArg<ffi::BufferR1<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());
// RUN optional_args_two {} f32[2]=1,2 -> s64[2] == 2,-1
// RUN optional_args_two {} f32[2]=1,2 f32[3]=1,2,3 -> s64[2] == 2,3
// RUN optional_args_two {} -> s64[2] == -1,-1
static ffi::Error OptionalArgsTwo(MaybeF32 a, MaybeF32 b, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {a.has_value() ? Int(a->element_count()) : -1,
          b.has_value() ? Int(b->element_count()) : -1});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_args_two, OptionalArgsTwo,
                              ffi::Ffi::Bind()
                                  .OptionalArg<ffi::BufferR1<ffi::F32>>()
                                  .OptionalArg<ffi::BufferR1<ffi::F32>>()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

// Upstream's OptionalArgs: after a required argument, before remaining arguments
// RUN optional_after_required {} f32[1]=1 -> s64[3] == 1,-1,0
// RUN optional_after_required {} f32[1]=1 f32[2]=1,2 -> s64[3] == 1,2,0
// RUN optional_after_required {} f32[1]=1 f32[2]=1,2 s32[1]=0 s32[1]=0 -> s64[3] == 1,2,2
static ffi::Error OptionalAfterRequired(ffi::BufferR1<ffi::F32> x, MaybeF32 maybe,
                                        ffi::RemainingArgs rest,
                                        ffi::ResultBufferR1<ffi::S64> y) {
  const size_t left = maybe.has_value() ? rest.size() : 0;
  Put(y, {Int(x.element_count()), maybe.has_value() ? Int(maybe->element_count()) : -1,
          Int(left)});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_after_required, OptionalAfterRequired,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .OptionalArg<ffi::BufferR1<ffi::F32>>()
                                  .RemainingArgs()
                                  .Ret<ffi::BufferR1<ffi::S64>>());

using MaybeRet = std::optional<ffi::ResultBufferR1<ffi::S64>>;

// Upstream's OptionalRets: one or two optional results, after a required result, before remaining results
// RUN optional_rets {} -> s64[1] == 0
// RUN optional_rets {} -> s64[1] s64[1] == 1;10
// RUN optional_rets {} -> s64[1] s64[1] s64[1] == 2;10;11
// RUN optional_rets {} -> s64[1] s64[1] s64[1] s64[1] == 3;10;11;12
static ffi::Error OptionalRets(ffi::ResultBufferR1<ffi::S64> y, MaybeRet a, MaybeRet b,
                               ffi::RemainingRets rest) {
  int64_t count = 0;
  if (a.has_value()) Put(*a, {10 + count++});
  if (b.has_value()) Put(*b, {10 + count++});
  const size_t left = b.has_value() ? rest.size() : 0;
  for (size_t i = 0; i < left; ++i) {
    auto ret = rest.get<ffi::BufferR1<ffi::S64>>(i);
    if (ret.has_error()) return ret.error();
    Put(*ret, {10 + count++});
  }
  Put(y, {count});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_rets, OptionalRets,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .OptionalRet<ffi::BufferR1<ffi::S64>>()
                                  .OptionalRet<ffi::BufferR1<ffi::S64>>()
                                  .RemainingRets());

// Upstream's AutoBinding and AutoBindingResult
// RUN auto_binding {} f32[2]=3,4 -> f32[2] == 6,8
static ffi::Error AutoBinding(const ffi::AnyBuffer x, ffi::ResultBufferR1<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = 2 * x.typed_data<float>()[i];
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(auto_binding, AutoBinding);

// An aliased buffer: an argument and a result share an address.
// RUN in_out {} f32[3]=1,2,3 -> alias:0 == 2,3,4
static ffi::Error InOut(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (x.untyped_data() != y->untyped_data()) return ffi::Error::Internal("not aliased");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(in_out, InOut,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// Every element type for which both sets of headers have a C++ type
template <ffi::DataType dtype>
static ffi::Error Typed(ffi::Buffer<dtype> x, ffi::ResultBufferR1<ffi::S64> y) {
  Put(y, {Int(sizeof(*x.typed_data())), Int(x.element_count()), Int(x.size_bytes())});
  return ffi::Error::Success();
}
#define TYPED(name, dtype)                                 \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, Typed<ffi::dtype>,   \
                                ffi::Ffi::Bind()           \
                                    .Arg<ffi::Buffer<ffi::dtype>>() \
                                    .Ret<ffi::BufferR1<ffi::S64>>())
// RUN typed_pred {} pred[3]=1,0,1 -> s64[3] == 1,3,3
TYPED(typed_pred, PRED);
// RUN typed_s8 {} s8[3]=1,0,1 -> s64[3] == 1,3,3
TYPED(typed_s8, S8);
// RUN typed_s16 {} s16[3]=1,0,1 -> s64[3] == 2,3,6
TYPED(typed_s16, S16);
// RUN typed_s32 {} s32[3]=1,0,1 -> s64[3] == 4,3,12
TYPED(typed_s32, S32);
// RUN typed_s64 {} s64[3]=1,0,1 -> s64[3] == 8,3,24
TYPED(typed_s64, S64);
// RUN typed_u8 {} u8[3]=1,0,1 -> s64[3] == 1,3,3
TYPED(typed_u8, U8);
// RUN typed_u16 {} u16[3]=1,0,1 -> s64[3] == 2,3,6
TYPED(typed_u16, U16);
// RUN typed_u32 {} u32[3]=1,0,1 -> s64[3] == 4,3,12
TYPED(typed_u32, U32);
// RUN typed_u64 {} u64[3]=1,0,1 -> s64[3] == 8,3,24
TYPED(typed_u64, U64);
// RUN typed_f16 {} f16[3]=1,0,1 -> s64[3] == 2,3,6
TYPED(typed_f16, F16);
// RUN typed_bf16 {} bf16[3]=1,0,1 -> s64[3] == 2,3,6
TYPED(typed_bf16, BF16);
// RUN typed_f32 {} f32[3]=1,0,1 -> s64[3] == 4,3,12
TYPED(typed_f32, F32);
// RUN typed_f64 {} f64[3]=1,0,1 -> s64[3] == 8,3,24
TYPED(typed_f64, F64);
// RUN typed_c64 {} c64[3]=zeros -> s64[3] == 8,3,24
TYPED(typed_c64, C64);
// RUN typed_c128 {} c128[3]=zeros -> s64[3] == 16,3,48
TYPED(typed_c128, C128);

// Results before arguments, const parameters, rank 6 through a type alias, dimensions by name
// RUN results_first {} f32[1,1,1,1,1,2]=5,6 -> f32[2] == 5,6
template <ffi::DataType dtype>
using BufferR6 = ffi::Buffer<dtype, 6>;
static int64_t Last(ffi::AnyBuffer::Dimensions dims) { return dims.back(); }
static int64_t First(const ffi::AnyBuffer::Dimensions& dims) { return dims.front(); }
static ffi::Error ResultsFirst(ffi::ResultBuffer<ffi::F32> y, const BufferR6<ffi::F32> x) {
  if (First(x.dimensions()) != 1 || Last(x.dimensions()) != 2) {
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, "dimensions");
  }
  std::copy_n(x.typed_data(), x.element_count(), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(results_first, ResultsFirst,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Arg<BufferR6<ffi::F32>>());
