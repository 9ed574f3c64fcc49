// The parallel loop of threads.c in C++, loops with ranges that throw, and C++ handlers of the C headers that throw.
// tests/c/threads.rs calls these handlers.
#include <atomic>
#include <stdexcept>
#include <string>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/handler.h"
#include "xla_ffi/legacy/adapt.h"

namespace ffi = xla::ffi;

using Numbers = ffi::ResultBufferR1<ffi::S64>;

static ffi::Error Cover(ffi::ThreadPool pool, Numbers y, Numbers told, int64_t count, int64_t grain) {
  std::atomic<int64_t> ranges{0}, elements{0}, longest{0};
  const int64_t room = static_cast<int64_t>(y->element_count());
  pool.ForEachRange(count, grain, [&](int64_t begin, int64_t end) {
    ++ranges;
    elements += end - begin;
    int64_t before = longest;
    while (end - begin > before && !longest.compare_exchange_weak(before, end - begin)) {
    }
    for (int64_t i = begin; i < end && i < room; ++i) {
      __atomic_fetch_add(&y->typed_data()[i], 1, __ATOMIC_RELAXED);
    }
  });
  told->typed_data()[0] = ranges;
  told->typed_data()[1] = elements;
  told->typed_data()[2] = longest;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(cover, Cover,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Ret<ffi::BufferR1<ffi::S64>>("y")
                                  .Ret<ffi::BufferR1<ffi::S64>>("told")
                                  .Attr<int64_t>("count")
                                  .Attr<int64_t>("grain"));

// Every range from `first` on throws; y counts the ranges that were still running when the exception left the loop.
static ffi::Error RangesThrow(ffi::ThreadPool pool, ffi::ResultBufferR0<ffi::S64> y, int64_t first) {
  std::atomic<int64_t> inside{0};
  std::string said;
  try {
    pool.ForEachRange(64, 1, [&](int64_t begin, int64_t) {
      struct Guard {
        std::atomic<int64_t>& inside;
        explicit Guard(std::atomic<int64_t>& all) : inside(all) { ++inside; }
        ~Guard() { --inside; }
      } guard(inside);
      if (begin >= first) throw std::runtime_error("range " + std::to_string(begin));
    });
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  *y->typed_data() = inside;
  return said.empty() ? ffi::Error::Success() : ffi::Error::Internal(said);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ranges_throw, RangesThrow,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Ret<ffi::BufferR0<ffi::S64>>("y")
                                  .Attr<int64_t>("first"));

// Throws, depending on `what`: 0 nothing, 1 an exception, 2 a number, 3 a text, 4 std::bad_alloc, 5 an exception before
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

// A target of the original custom calls that throws a text.
static void Legacy(void*, const void**) { throw "words"; }
XFFI_ADAPT_CPU(words_legacy, Legacy);
