// The two loops of calls.rs over elements on the host's thread pool in C++: calls.cc has what upstream's header can say, too.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Array = ffi::Buffer<ffi::F32, 1>;

// Calls `body` for each element, in tasks of as many elements as those of calls.rs.
template <typename Body>
static ffi::Error OnPool(ffi::ThreadPool pool, Array x, ffi::Result<Array> y, const Body& body) {
  const float* const from = x.typed_data();
  float* const to = y->typed_data();
  pool.ForEachRange(static_cast<int64_t>(x.element_count()), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = body(from[i]);
  });
  return ffi::Error::Success();
}

static ffi::Error Scale(ffi::ThreadPool pool, Array x, ffi::Result<Array> y) {
  return OnPool(pool, x, y, [](float x) { return 2.0f * x + 1.0f; });
}

static ffi::Error Newton(ffi::ThreadPool pool, Array x, ffi::Result<Array> y) {
  return OnPool(pool, x, y, [](float x) {
    float root = x;
    for (int step = 0; step < 16; ++step) root = 0.5f * (root + x / root);
    return root;
  });
}

#define ON_POOL Ctx<ffi::ThreadPool>().Arg<Array>().Ret<Array>().Shape(XLA_FFI_SHAPE("n -> n"))

XLA_FFI_DEFINE_HANDLER_SYMBOL(scale_host, Scale, ffi::Ffi::Bind().ON_POOL);
XLA_FFI_DEFINE_HANDLER_SYMBOL(newton_host, Newton, ffi::Ffi::Bind().ON_POOL);
