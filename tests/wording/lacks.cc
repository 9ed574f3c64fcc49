// What tests/wording.rs asks of the C++ headers.
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    run_id, +[](ffi::RunId) { return ffi::Error::Success(); },
    ffi::Ffi::Bind().Ctx<ffi::RunId>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    device_ordinal, +[](int32_t) { return ffi::Error::Success(); },
    ffi::Ffi::Bind().Ctx<ffi::DeviceOrdinal>());

// Fails with the code that the host's own error is told to have.
static ffi::Error Code(ffi::Context context) {
  const XLA_FFI_Api* api = context.api();
  XLA_FFI_TypeId unknown{4711};
  XLA_FFI_InvokeContext_Get_Args args{};
  args.struct_size = XLA_FFI_InvokeContext_Get_Args_STRUCT_SIZE;
  args.ctx = context.ctx();
  args.type_id = &unknown;
  XLA_FFI_Error* error = api->XLA_FFI_InvokeContext_Get(&args);
  if (error == nullptr) return ffi::Error::Success();
  const int code = ffi::internal::GetErrorDetails(api, error).errc;
  ffi::internal::DestroyError(api, error);
  return ffi::Error(ffi::ErrorCode::kAborted, "code " + std::to_string(code));
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(code, Code, ffi::Ffi::Bind().Ctx<ffi::Context>());
