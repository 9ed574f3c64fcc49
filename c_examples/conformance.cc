// The conformance handlers (tests/jax/README.md) in C++ from this SDK's headers: the source that is
// written for XLA's own headers, unchanged, and beside it what those headers cannot do.
#define custom_options plain_custom_options
#define pool_threads plain_pool_threads
#define unpack_s4 plain_unpack_s4
#include "../tests/upstream/conformance.cc"
#undef custom_options
#undef pool_threads
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

}  // namespace

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
