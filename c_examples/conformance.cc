// The conformance handlers (tests/jax/README.md) in C++ from this SDK's headers: the source that is
// written for XLA's own headers, unchanged, and beside it what those headers cannot do.
#define async_probe plain_async_probe
#define custom_options plain_custom_options
#define pool_threads plain_pool_threads
#define unpack plain_unpack
#define unpack_s4 plain_unpack_s4
#include "../tests/upstream/conformance.cc"
#undef async_probe
#undef custom_options
#undef pool_threads
#undef unpack
#undef unpack_s4

namespace {

// Taken from the context in the body, so that hosts without custom options still register it.
ffi::Error OptionsOfContext(ffi::Context context, ffi::BufferR0<ffi::F32>,
                            ffi::ResultBufferR0<ffi::S64> y) {
  auto options = context.get<ffi::CustomOptions>();
  if (options.has_error()) return options.error();
  *y->typed_data() = static_cast<int64_t>(options->size());
  return ffi::Error::Success();
}

ffi::Error SizeOfPool(int64_t size, ffi::ResultBufferR0<ffi::S64> y) {
  *y->typed_data() = size;
  return ffi::Error::Success();
}

ffi::Error UnpackDeclared(ffi::BufferR1<ffi::S4> x, ffi::ResultBufferR1<ffi::S8> y) {
  if (x.element_count() != y->element_count()) {
    return ffi::Error::InvalidArgument("x and y differ in length");
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    const int bits = x.typed_data()[i / 2] >> (i % 2 * 4) & 15;
    y->typed_data()[i] = static_cast<int8_t>(bits >= 8 ? bits - 16 : bits);
  }
  return ffi::Error::Success();
}

ffi::Error OptionalParts(std::optional<ffi::RunId> run, std::optional<int32_t> ordinal,
                         std::optional<int64_t> threads, ffi::BufferR0<ffi::F32>,
                         ffi::ResultBufferR1<ffi::S64> y) {
  if (y->element_count() != 3) return ffi::Error::InvalidArgument("y needs 3 elements");
  y->typed_data()[0] = run.has_value();
  y->typed_data()[1] = ordinal.has_value();
  y->typed_data()[2] = threads.has_value();
  return ffi::Error::Success();
}

// Hosts before r5 send packed elements without their type, and in another order.
ffi::Error UnpackAny(ffi::AnyBuffer x, ffi::Result<ffi::Buffer<ffi::S8>> y) {
  if (x.element_type() == ffi::DataType::INVALID) {
    return ffi::Error(ffi::ErrorCode::kUnimplemented,
                      "x arrives without its type in this XLA; the first jaxlib that has it is "
                      "0.6.0");
  }
  return Unpack(x, y);
}

// Whether the probe's handler has returned to the host: its symbol below says so.
thread_local std::shared_ptr<std::atomic<bool>> returned;

ffi::Future AsyncProbeOf(ffi::ResultBufferR1<ffi::S64> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([promise, out = y->typed_data(), returned = returned,
               caller = std::this_thread::get_id()]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    out[0] = caller != std::this_thread::get_id();
    out[1] = *returned;
    promise.SetAvailable();
  }).detach();
  return future;
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(unpack, UnpackAny,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>("x")
                                  .Ret<ffi::Buffer<ffi::S8>>("y"));
XLA_FFI_DECLARE_HANDLER_SYMBOL(async_probe);
XLA_FFI_Error* async_probe(XLA_FFI_CallFrame* call_frame) {
  XLA_FFI_DEFINE_HANDLER(handler, AsyncProbeOf);
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  returned = flag;
  XLA_FFI_Error* error = (*handler)(call_frame);
  *flag = true;
  return error;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(custom_options, OptionsOfContext,
                              ffi::Ffi::Bind()
                                  .Ctx()
                                  .Arg<ffi::BufferR0<ffi::F32>>("x")
                                  .Ret<ffi::BufferR0<ffi::S64>>("y"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    pool_threads, SizeOfPool,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPoolSize>().Ret<ffi::BufferR0<ffi::S64>>("y"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(unpack_s4, UnpackDeclared,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR1<ffi::S4>>("x")
                                  .Ret<ffi::BufferR1<ffi::S8>>("y"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(optional_parts, OptionalParts,
                              ffi::Ffi::Bind()
                                  .Ctx<std::optional<ffi::RunId>>()
                                  .Ctx<std::optional<ffi::DeviceOrdinal>>()
                                  .Ctx<std::optional<ffi::ThreadPoolSize>>()
                                  .Arg<ffi::BufferR0<ffi::F32>>("x")
                                  .Ret<ffi::BufferR1<ffi::S64>>("y"));

// Registers handlers of this library with the host that calls: "conformance_c.NAME", as for every
// library without a manifest.
extern "C" XLA_FFI_SDK_EXPORT XLA_FFI_Error* xla_ffi_register(const XLA_FFI_Api* api,
                                                              const char* platform) {
  return ffi::Ffi::RegisterStaticHandler(api, "conformance_c.scale", platform, scale);
}
