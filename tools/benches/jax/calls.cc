// The copies of calls.rs in C++, built with our header and with upstream's.
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
