// Handlers for features that JAX on CPU does not support, and handlers that their first call creates.
#include <cstring>
#include <string>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

ffi::Error UseScratch(ffi::ScratchAllocator scratch, ffi::ResultBufferR0<ffi::S64> y) {
  const std::optional<void*> first = scratch.Allocate(64, 64), second = scratch.Allocate(8, 8);
  if (!first || !second) return ffi::Error(ffi::ErrorCode::kResourceExhausted, "no scratch memory");
  std::memset(*first, 7, 64);
  std::memset(*second, 7, 8);
  *y->typed_data() = static_cast<char*>(*first)[63] + static_cast<char*>(*second)[7];
  return ffi::Error::Success();
}

ffi::Future CountDown(ffi::ResultBufferR0<ffi::S64>) {
  ffi::CountDownPromise promise(2);
  ffi::Future future(promise);
  std::thread([promise, error = ffi::Error(ffi::ErrorCode::kDataLoss, "more than thirty-two characters in a text")]() mutable {
    promise.CountDown(1, error);
    promise.CountDown();
  }).detach();
  return future;
}

// A user-defined decoder
struct Even {
  int64_t value;
};

ffi::Error EchoEven(Even n, ffi::ResultBufferR0<ffi::S64> y) {
  *y->typed_data() = n.value;
  return ffi::Error::Success();
}

struct Number {
  static ffi::TypeId id;
  int64_t value;
};
ffi::TypeId Number::id = {4242};

ffi::Error FindNumber(std::optional<Number*> number, ffi::ResultBufferR0<ffi::S64> y) {
  *y->typed_data() = number ? (*number)->value : -1;
  return ffi::Error::Success();
}

}  // namespace

template <>
struct ffi::AttrDecoding<Even> {
  using Type = Even;
  static std::optional<Even> Decode(XLA_FFI_AttrType type, void* attr, ffi::DiagnosticEngine& diagnostic) {
    const auto n = ffi::AttrDecoding<int64_t>::Decode(type, attr, diagnostic);
    if (n && *n % 2 == 0) return Even{*n};
    return diagnostic.Emit("a number that is divisible by 2 is expected, which is not true of ") << n.value_or(-1);
  }
};

// The attribute's name is not known at compile time, so the first call creates the handler.
XLA_FFI_DEFINE_HANDLER_SYMBOL(own_decoder, EchoEven,
                              ffi::Ffi::Bind().Attr<Even>(std::string("n") + "umber").Ret<ffi::BufferR0<ffi::S64>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(count_down, CountDown, ffi::Ffi::Bind().Ret<ffi::BufferR0<ffi::S64>>("y"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    scratch, UseScratch,
    ffi::Ffi::Bind().Ctx<ffi::ScratchAllocator>().Ret<ffi::BufferR0<ffi::S64>>("y"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(user_data, FindNumber,
                              ffi::Ffi::Bind()
                                  .Ctx<std::optional<ffi::UserData<Number>>>()
                                  .Ret<ffi::BufferR0<ffi::S64>>("y"));
