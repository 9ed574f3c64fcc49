// Tests of shape contracts and of host-only handlers, which XLA's own headers do not support. For the RUN lines, see
// operands.cc.
#include "common.h"

#if OURS

template <typename... Operands>
static ffi::Error Nothing(Operands...) {
  return ffi::Error::Success();
}
using Any = ffi::Buffer<ffi::F32>;
using AnyOut = ffi::Result<Any>;

// RUN-OURS product {} f32[2,3]=zeros f32[3,4]=zeros -> f32[2,4] == 0,0,0,0,0,0,0,0
// RUN-OURS product {} f32[1,2]=zeros f32[3,1]=zeros -> f32[1,1] !! INVALID_ARGUMENT argument `b`: expected F32[k, m] with k = 2 from argument `a`, got F32[3, 1]; the contract is `n k, k m -> n m`
// RUN-OURS product {} f32[1,2]=zeros f32[2,1]=zeros -> f32[2,1] !! INVALID_ARGUMENT result 0: expected F32[n, m] with n = 1 from argument `a`, m = 1 from argument `b`, got F32[2, 1]
// RUN-OURS product {} f32[2]=zeros f32[2,1]=zeros -> f32[2,1] !! INVALID_ARGUMENT argument `a`: expected F32[n, k], got F32[2]
// RUN-OURS product {} s32[1,2]=zeros f32[2,1]=zeros -> f32[2,1] !! INVALID_ARGUMENT argument `a`: expected F32, got S32
static ffi::Error Zero(Any, Any, AnyOut y) {
  std::fill_n(y->typed_data(), y->element_count(), 0.0f);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    product, Zero,
    ffi::Ffi::Bind().Arg<Any>("a").Arg<Any>("b").Ret<Any>().Shape(
        XLA_FFI_SHAPE("n k, k m -> n m")));

// RUN-OURS in_place {} f32[2]=1,2 f32[2]=10,20 -> alias:1 f32[] == 11,22;33
// RUN-OURS in_place {} f32[0]= f32[0]= -> alias:1 f32[] == ;0
// RUN-OURS in_place {} f32[2]=1,2 f32[2]=10,20 -> f32[2] f32[] !! INVALID_ARGUMENT in-out operand `y`: argument and result are in different memory; declare the aliasing: input_output_aliases={1: 0}
// RUN-OURS in_place {} f32[2]=1,2 f32[2]=10,20 -> f32[3] f32[] !! INVALID_ARGUMENT in-out operand `y`: the argument is F32[2], the result F32[3]; both must be the same array
// RUN-OURS in_place {} f32[2]=1,2 s32[2]=10,20 -> f32[2] f32[] !! INVALID_ARGUMENT argument `y`: expected F32[?], got S32[2]; cast it: y.astype(np.float32)
// RUN-OURS in_place {} f32[2]=1,2 f32[2]=10,20 -> s32[2] f32[] !! INVALID_ARGUMENT result `y`: expected F32[?], got S32[2]; declare it as np.float32
// RUN-OURS in_place {} f32[2]=1,2 -> f32[2] f32[] !! INVALID_ARGUMENT missing argument `y`
// RUN-OURS in_place {} f32[2]=1,2 f32[2]=10,20 -> alias:1 !! INVALID_ARGUMENT missing result `sum`
static ffi::Error InPlace(Any x, ffi::InOut<ffi::BufferR1<ffi::F32>> y, AnyOut sum) {
  float total = 0;
  for (size_t i = 0; i < x.element_count(); ++i) total += y->typed_data()[i] += x.typed_data()[i];
  *sum->typed_data() = total;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(in_place, InPlace,
                              ffi::Ffi::Bind()
                                  .Arg<Any>("x")
                                  .InOut<ffi::BufferR1<ffi::F32>>("y")
                                  .Ret<Any>("sum"));

// An in-out operand that is inferred from the signature, after another result and before a variable number of
// arguments.
// RUN-OURS in_place_any {} f32[2]=1,2 -> f32[] alias:0 == 8;3,4
// RUN-OURS in_place_any {} f32[2]=1,2 f32[1]=1 -> f32[] alias:0 == 9;3,4
// RUN-OURS in_place_any {} f32[2]=1,2 f32[1]=1 -> f32[] f32[2] !! INVALID_ARGUMENT in-out operand 0: argument and result are in different memory; declare the aliasing: input_output_aliases={0: 1}
static ffi::Error InPlaceAny(AnyOut size, ffi::InOut<ffi::AnyBuffer> x, ffi::RemainingArgs rest) {
  float* data = x->typed_data<float>();
  for (size_t i = 0; i < x->element_count(); ++i) data[i] += 2;
  *size->typed_data() = static_cast<float>(x->size_bytes() + rest.size());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(in_place_any, InPlaceAny);

// RUN-OURS rows {} f32[2,3,4]=zeros f32[4]=zeros -> f32[2,3,0] ==
// RUN-OURS rows {} f32[4]=zeros f32[4]=zeros -> f32[0] ==
// RUN-OURS rows {} f32[2,3,4]=zeros f32[4]=zeros -> f32[3,0] !! INVALID_ARGUMENT expected F32[..., 0] with ... = [2, 3], got F32[3, 0]
// RUN-OURS rows {} f32[]=zeros f32[4]=zeros -> f32[0] !! INVALID_ARGUMENT argument 0: expected F32[..., n], got F32[]
// RUN-OURS rows {} f32[5,4]=zeros f32[5]=zeros -> f32[5,0] !! INVALID_ARGUMENT argument 1: expected F32[n] with n = 4 from argument 0
XLA_FFI_DEFINE_HANDLER_SYMBOL(rows, (Nothing<Any, Any, AnyOut>),
                              ffi::Ffi::Bind().Arg<Any>().Arg<Any>().Ret<Any>().Shape(
                                  XLA_FFI_SHAPE("... n, n -> ... 0")));

// RUN-OURS pairs {k = 3 : i32} f32[4]=zeros -> f32[2,3,5] == 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0
// RUN-OURS pairs {k = 3 : i32} f32[3]=zeros -> f32[1,3,4] !! INVALID_ARGUMENT with n = 3 from argument 0, n/2, which leaves a remainder, k = 3 from attribute `k`, 3*n/2-1, which leaves a remainder, got
// RUN-OURS pairs {k = 3 : i32} f32[4]=zeros -> f32[2,2,5] !! INVALID_ARGUMENT result 0: expected F32[n/2, k, 3*n/2-1] with n = 4 from argument 0, n/2 = 2, k = 3 from attribute `k`, 3*n/2-1 = 5, got F32[2, 2, 5]
// RUN-OURS pairs {k = -1 : i32} f32[4]=zeros -> f32[2,2,5] !! INVALID_ARGUMENT k = -1 from attribute `k`
// RUN-OURS pairs {k = 1 : i32} f32[0]=zeros -> f32[0,1,0] !! INVALID_ARGUMENT 3*n/2-1, which is negative
static ffi::Error Pairs(Any, ffi::ResultBufferR3<ffi::F32> y, int32_t) {
  std::fill_n(y->typed_data(), y->element_count(), 0.0f);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(pairs, Pairs,
                              ffi::Ffi::Bind()
                                  .Arg<Any>()
                                  .Ret<ffi::BufferR3<ffi::F32>>()
                                  .Attr<int32_t>("k")
                                  .Shape(XLA_FFI_SHAPE("n -> n/2 k 3*n/2-1")));

// RUN-OURS maybe_rows {k = 2 : i32} f32[4]=zeros -> f32[4,0] !! INVALID_ARGUMENT k = 2 from attribute `k`
// RUN-OURS maybe_rows {k = 0 : i32} f32[4]=zeros -> f32[4,0] ==
// RUN-OURS maybe_rows {} f32[4]=zeros -> f32[4,0] ==
static ffi::Error MaybeRows(Any, ffi::ResultBufferR2<ffi::F32>, std::optional<int32_t>) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(maybe_rows, MaybeRows,
                              ffi::Ffi::Bind()
                                  .Arg<Any>()
                                  .Ret<ffi::BufferR2<ffi::F32>>()
                                  .Attr<std::optional<int32_t>>("k")
                                  .Shape(XLA_FFI_SHAPE("n -> n k")));

// A parameter may be narrower than the attribute it binds; the author is responsible for the conversion.
// RUN-OURS narrower {n = 3 : ui64, x = 0.5} -> s64[1] == 3
static ffi::Error Narrower(ffi::ResultBufferR1<ffi::S64> y, int n, float x) {
  Put(y, {x > 0 ? n : 0});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(narrower, Narrower,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR1<ffi::S64>>()
                                  .Attr<uint64_t>("n")
                                  .Attr<double>("x"));

// RUN-OURS many {} f32[3]=zeros -> f32[] == 0
// RUN-OURS many {} f32[3]=zeros f32[]=zeros -> f32[] == 0
// RUN-OURS many {} f32[3]=zeros f32[]=zeros f32[3,1]=zeros f32[3,1]=zeros -> f32[] == 0
// RUN-OURS many {} f32[3]=zeros f32[1]=zeros -> f32[] !! INVALID_ARGUMENT argument `scale`: expected F32[], got F32[1]
// RUN-OURS many {} f32[3]=zeros f32[]=zeros f32[3,1]=zeros f32[3,2]=zeros -> f32[] !! INVALID_ARGUMENT argument 3: expected F32[n, 1] with n = 3 from argument `x`, got F32[3, 2]
// RUN-OURS many {} f32[3]=zeros f32[]=zeros f32[2,1]=zeros f32[3,2]=zeros -> f32[] !! INVALID_ARGUMENT argument 2: expected F32[n, 1] with n = 3 from argument `x`, got F32[2, 1]; the contract is `n, ()?, n 1* -> ()`\n  argument 3:
static ffi::Error Many(Any, std::optional<Any>, ffi::RemainingArgs, ffi::ResultBufferR0<ffi::F32> y) {
  *y->typed_data() = 0;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(many, Many,
                              ffi::Ffi::Bind()
                                  .Arg<Any>("x")
                                  .OptionalArg<Any>("scale")
                                  .RemainingArgs()
                                  .Ret<ffi::BufferR0<ffi::F32>>()
                                  .Shape(XLA_FFI_SHAPE("n, ()?, n 1* -> ()")));

// In a contract, spaces may separate marks such as `*` from names.
// RUN-OURS apart {} f32[2,3]=zeros f32[4,3]=zeros -> f32[0] !! INVALID_ARGUMENT argument 1: expected F32[..., n] with n = 3 from argument 0, ... = [2], got F32[4, 3]
// RUN-OURS apart {} f32[2,3]=zeros f32[2,3]=zeros -> f32[0] ==
// RUN-OURS apart {} -> f32[0] ==
XLA_FFI_DEFINE_HANDLER_SYMBOL(apart, (Nothing<ffi::RemainingArgs, AnyOut>),
                              ffi::Ffi::Bind().RemainingArgs().Ret<Any>().Shape(XLA_FFI_SHAPE("... n * -> _")));
// RUN-OURS tokens_apart {} token token -> f32[0] ==
XLA_FFI_DEFINE_HANDLER_SYMBOL(tokens_apart, (Nothing<ffi::RemainingArgs, AnyOut>),
                              ffi::Ffi::Bind().RemainingArgs().Ret<Any>().Shape(XLA_FFI_SHAPE("token * -> _")));

// RUN-OURS host_only {} f32[2]=zeros -> f32[0] ==
// RUN-OURS host_only stream=4660 {} f32[2]=zeros -> f32[0] !! FAILED_PRECONDITION host_only (execute): the call has a device stream, but the handler reads and writes host memory
// RUN-OURS either stream=4660 {} f32[2]=zeros -> f32[0] ==
XLA_FFI_DEFINE_HANDLER_SYMBOL(host_only, (Nothing<Any, AnyOut>),
                              ffi::Ffi::BindOf(Nothing<Any, AnyOut>).HostOnly());
XLA_FFI_DEFINE_HANDLER_SYMBOL(either, (Nothing<Any, AnyOut>));

// Declarations of a binding that is converted with To.
// RUN-OURS by_to {} f32[2]=zeros -> f32[3] !! INVALID_ARGUMENT expected F32[n]
extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_Error* by_to(XLA_FFI_CallFrame* frame) {
  static const auto handler =
      ffi::Ffi::Bind().Arg<Any>().Ret<Any>().HostOnly().Shape(XLA_FFI_SHAPE("n -> n")).To(
          Nothing<Any, AnyOut>);
  return handler->Call(frame);
}

#endif
