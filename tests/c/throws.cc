// Handlers of the C headers in C++ that throw: tests/c/promises.rs calls them.
#include <stdexcept>
#include <string>

#include "xla_ffi/handler.h"
#include "xla_ffi/legacy/adapt.h"

// What is thrown: 0 nothing, 1 an exception, 2 a number, 3 a text, 4 that there is no memory, 5 an exception before
// xffi_decoded.
static XLA_FFI_Error* Throw(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S32, 0);
  const int32_t what = xffi_attr_i32(call, "what");
  if (what == 5) throw std::runtime_error("early");
  if (XLA_FFI_Error* error = xffi_decoded(call)) return error;
  *static_cast<int32_t*>(y.data) = 7;
  if (what == 1) throw std::runtime_error("too " + std::string("bad"));
  if (what == 2) throw 1;
  if (what == 3) throw "words";
  if (what == 4) throw std::bad_alloc();
  return nullptr;
}
XFFI_HANDLER(throws, Throw);

// A function of the original custom calls that throws the same.
static void Legacy(void*, const void**) { throw "words"; }
XFFI_ADAPT_CPU(words_legacy, Legacy);
