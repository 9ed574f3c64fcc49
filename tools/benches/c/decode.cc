// The handlers of the benchmark in C++, built with upstream's header and with this project's header.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// A number derived from the values that the last call decoded.
std::atomic<size_t> sink;

ffi::Error Keep(size_t seen) {
  sink.store(seen, std::memory_order_relaxed);
  return ffi::Error::Success();
}

using Array = ffi::Buffer<ffi::F32, 2>;
using Ret = ffi::Result<Array>;

size_t Seen(Array& array) {
  return reinterpret_cast<size_t>(array.typed_data()) + array.element_count();
}
size_t Seen(Ret& array) { return Seen(*array); }
size_t Seen(int32_t value) { return static_cast<size_t>(value); }

struct Config {
  int32_t alpha, beta, gamma, delta, epsilon, zeta, eta, theta;
};

size_t Seen(const Config& c) {
  return Seen(c.alpha) + Seen(c.beta) + Seen(c.gamma) + Seen(c.delta) + Seen(c.epsilon) +
         Seen(c.zeta) + Seen(c.eta) + Seen(c.theta);
}

template <typename... T>
ffi::Error All(T... values) {
  return Keep((Seen(values) + ...));
}

ffi::Error Contract(Array x, Array y, Ret z) {
#ifndef XLA_FFI_SHAPE
  auto a = x.dimensions(), b = y.dimensions(), c = z->dimensions();
  if (a[1] != b[0] || c[0] != a[0] || c[1] != b[1]) {
    return ffi::Error::InvalidArgument("expected [b, n], [n, m] -> [b, m]");
  }
#endif
  return Keep(Seen(x) + Seen(y) + Seen(z));
}

ffi::Error Device(void* stream, Array x, Ret y, int32_t alpha) {
  return Keep(Seen(x) + Seen(y) + Seen(alpha) + reinterpret_cast<size_t>(stream));
}

ffi::Future AsyncInline(Array x) {
  ffi::Promise promise;
  ffi::Future future(promise);
  Keep(Seen(x));
  promise.SetAvailable();
  return future;
}

ffi::Error Fail(Array x) {
  Keep(Seen(x));
  return ffi::Error::InvalidArgument("the matrix is singular to working precision");
}

using I = int32_t;

}  // namespace

XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(
    Config, ffi::StructMember<int32_t>("alpha"), ffi::StructMember<int32_t>("beta"),
    ffi::StructMember<int32_t>("gamma"), ffi::StructMember<int32_t>("delta"),
    ffi::StructMember<int32_t>("epsilon"), ffi::StructMember<int32_t>("zeta"),
    ffi::StructMember<int32_t>("eta"), ffi::StructMember<int32_t>("theta"));

extern "C" size_t bench_sink() { return sink.load(std::memory_order_relaxed); }

// Features of this project's header that upstream's header lacks: shape contracts, and declaring handlers for host
// memory.
#ifdef XLA_FFI_SHAPE
#define BIND(...) __VA_ARGS__.HostOnly()
#define SHAPED(binding, contract) BIND(binding.Shape(XLA_FFI_SHAPE(contract)))
#else
#define BIND(...) __VA_ARGS__
#define SHAPED(binding, contract) binding
#endif

#define ARGS_4 Arg<Array>().Arg<Array>().Arg<Array>().Arg<Array>()
#define RETS_4 Ret<Array>().Ret<Array>().Ret<Array>().Ret<Array>()
#define ATTRS_4 Attr<I>("alpha").Attr<I>("beta").Attr<I>("gamma").Attr<I>("delta")

XLA_FFI_DEFINE_HANDLER_SYMBOL(args_1, (All<Array>), BIND(ffi::Ffi::Bind().Arg<Array>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(args_4, (All<Array, Array, Array, Array>),
                              BIND(ffi::Ffi::Bind().ARGS_4));
XLA_FFI_DEFINE_HANDLER_SYMBOL(args_8,
                              (All<Array, Array, Array, Array, Array, Array, Array, Array>),
                              BIND(ffi::Ffi::Bind().ARGS_4.ARGS_4));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    args_16,
    (All<Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array,
         Array, Array, Array>),
    BIND(ffi::Ffi::Bind().ARGS_4.ARGS_4.ARGS_4.ARGS_4));
XLA_FFI_DEFINE_HANDLER_SYMBOL(rets_8, (All<Ret, Ret, Ret, Ret, Ret, Ret, Ret, Ret>),
                              BIND(ffi::Ffi::Bind().RETS_4.RETS_4));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    args_8_rets_8,
    (All<Array, Array, Array, Array, Array, Array, Array, Array, Ret, Ret, Ret, Ret, Ret, Ret, Ret,
         Ret>),
    BIND(ffi::Ffi::Bind().ARGS_4.ARGS_4.RETS_4.RETS_4));
XLA_FFI_DEFINE_HANDLER_SYMBOL(attrs_1, (All<I>), BIND(ffi::Ffi::Bind().Attr<I>("alpha")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(attrs_4, (All<I, I, I, I>), BIND(ffi::Ffi::Bind().ATTRS_4));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    attrs_8, (All<I, I, I, I, I, I, I, I>),
    BIND(ffi::Ffi::Bind().ATTRS_4.Attr<I>("epsilon").Attr<I>("zeta").Attr<I>("eta").Attr<I>("theta")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(struct_dictionary, (All<Config>),
                              BIND(ffi::Ffi::Bind().Attr<Config>("config")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(struct_attributes, (All<Config>),
                              BIND(ffi::Ffi::Bind().Attrs<Config>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(mixed, (All<Array, Ret, I>),
                              BIND(ffi::Ffi::Bind().Arg<Array>().Ret<Array>().Attr<I>("alpha")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    device, Device,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Arg<Array>().Ret<Array>().Attr<I>("alpha"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(contract, Contract,
                              SHAPED(ffi::Ffi::Bind().Arg<Array>().Arg<Array>().Ret<Array>(),
                                     "b n, n m -> b m"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(async_inline, AsyncInline, BIND(ffi::Ffi::Bind().Arg<Array>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(singular, Fail, BIND(ffi::Ffi::Bind().Arg<Array>()));
