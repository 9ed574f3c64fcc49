// The copying handlers of calls.rs in C++, built with this project's header and with upstream's header. With this
// project's header, also the two loops over elements on the host's thread pool, which upstream's header does not
// support.
#include <cstring>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Array = ffi::Buffer<ffi::F32, 1>;
using Ret = ffi::Result<Array>;

static void Copy(Array& x, Ret& y) { std::memcpy(y->typed_data(), x.typed_data(), x.size_bytes()); }

static ffi::Error Copy1(Array x, Ret y) {
  Copy(x, y);
  return ffi::Error::Success();
}

static ffi::Error Copy8(Array a, Array b, Array c, Array d, Array e, Array f, Array g, Array h,
                        Ret i, Ret j, Ret k, Ret l, Ret m, Ret n, Ret o, Ret p) {
  Copy(a, i);
  Copy(b, j);
  Copy(c, k);
  Copy(d, l);
  Copy(e, m);
  Copy(f, n);
  Copy(g, o);
  Copy(h, p);
  return ffi::Error::Success();
}

#define ARGS_4 Arg<Array>().Arg<Array>().Arg<Array>().Arg<Array>()
#define RETS_4 Ret<Array>().Ret<Array>().Ret<Array>().Ret<Array>()

XLA_FFI_DEFINE_HANDLER_SYMBOL(copy_1, Copy1, ffi::Ffi::Bind().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(copy_8, Copy8, ffi::Ffi::Bind().ARGS_4.ARGS_4.RETS_4.RETS_4);

#ifdef XLA_FFI_SDK_FFI_H_
// Calls `body` for each element, in tasks of the same size as the tasks in calls.rs.
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
#endif
