// Handlers to be timed, in C++: compiled with our headers and with XLA's own. NAME is the prefix of
// the symbols.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define HANDLER(name, ...) XLA_FFI_DEFINE_HANDLER_SYMBOL(name, __VA_ARGS__)

static ffi::Error OneBuffer(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  y->typed_data()[0] = x.typed_data()[0];
  return ffi::Error::Success();
}
HANDLER(JOIN(NAME, one_buffer), OneBuffer,
        ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

using B = ffi::BufferR1<ffi::F32>;
static ffi::Error TenBuffers(B a, B b, B c, B d, B e, B f, B g, B h, ffi::Result<B> y,
                             ffi::Result<B> z) {
  y->typed_data()[0] = a.typed_data()[0] + b.typed_data()[0] + c.typed_data()[0] +
                       d.typed_data()[0];
  z->typed_data()[0] = e.typed_data()[0] + f.typed_data()[0] + g.typed_data()[0] +
                       h.typed_data()[0];
  return ffi::Error::Success();
}
#define ARG .Arg<B>()
HANDLER(JOIN(NAME, ten_buffers), TenBuffers,
        ffi::Ffi::Bind() ARG ARG ARG ARG ARG ARG ARG ARG.Ret<B>().Ret<B>());

static ffi::Error FourAttrs(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float eps,
                            int32_t axis, int64_t size, bool flag) {
  y->typed_data()[0] = x.typed_data()[0] + eps + static_cast<float>(axis + size + flag);
  return ffi::Error::Success();
}
HANDLER(JOIN(NAME, four_attrs), FourAttrs,
        ffi::Ffi::Bind()
            .Arg<ffi::Buffer<ffi::F32>>()
            .Ret<ffi::Buffer<ffi::F32>>()
            .Attr<float>("epsilon")
            .Attr<int32_t>("axis")
            .Attr<int64_t>("size")
            .Attr<bool>("flag"));

static ffi::Error Arrays(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                         ffi::Span<const int64_t> shape, std::string_view mode) {
  y->typed_data()[0] = x.typed_data()[0] + static_cast<float>(shape[0]) +
                       static_cast<float>(mode.size());
  return ffi::Error::Success();
}
HANDLER(JOIN(NAME, arrays), Arrays,
        ffi::Ffi::Bind()
            .Arg<ffi::Buffer<ffi::F32>>()
            .Ret<ffi::Buffer<ffi::F32>>()
            .Attr<ffi::Span<const int64_t>>("shape")
            .Attr<std::string_view>("mode"));

static ffi::Error Stream(void* stream, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  y->typed_data()[0] = x.typed_data()[0] + (stream != nullptr);
  return ffi::Error::Success();
}
HANDLER(JOIN(NAME, stream), Stream,
        ffi::Ffi::Bind()
            .Ctx<ffi::PlatformStream<void*>>()
            .Arg<ffi::Buffer<ffi::F32>>()
            .Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error Remaining(ffi::RemainingArgs args, ffi::ResultBuffer<ffi::F32> y) {
  float sum = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    auto x = args.get<ffi::Buffer<ffi::F32>>(i);
    if (!x) return x.error();
    sum += x->typed_data()[0];
  }
  y->typed_data()[0] = sum;
  return ffi::Error::Success();
}
HANDLER(JOIN(NAME, remaining), Remaining,
        ffi::Ffi::Bind().RemainingArgs().Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error Dict(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                       ffi::Dictionary dict) {
  auto eps = dict.get<float>("epsilon");
  if (!eps) return eps.error();
  auto size = dict.get<int64_t>("size");
  if (!size) return size.error();
  y->typed_data()[0] = x.typed_data()[0] + *eps + static_cast<float>(*size);
  return ffi::Error::Success();
}
HANDLER(JOIN(NAME, dictionary), Dict,
        ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attrs());
