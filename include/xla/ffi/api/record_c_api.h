// The record extension (number 128), version 0.2: recording into a command buffer.
// Generated from ffi-sys by `cargo xtask headers`; do not edit.

#if defined(XLA_FFI_API_RECORD_C_API_H_) && !defined(XLA_FFI_SDK_RECORD_C_API_H_)
#error "XLA's own record_c_api.h came before this SDK's record_c_api.h: keep one of the two include directories"
#endif

#ifndef XLA_FFI_API_RECORD_C_API_H_
#define XLA_FFI_API_RECORD_C_API_H_
#define XLA_FFI_SDK_RECORD_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "xla/ffi/api/c_api.h"

// Number and version of the extension.
#define XLA_FFI_Extension_Record 128
#define XLA_FFI_Extension_Record_MajorVersion 0
#define XLA_FFI_Extension_Record_MinorVersion 2

#ifdef __cplusplus
extern "C" {
#endif

// The host's recorder of commands.
typedef struct XLA_FFI_RecordContext XLA_FFI_RecordContext;
// A recorded command of a command buffer.
typedef struct XLA_FFI_Command XLA_FFI_Command;

typedef struct XLA_FFI_Dim3 XLA_FFI_Dim3;
typedef struct XLA_FFI_LaunchDims XLA_FFI_LaunchDims;
typedef struct XLA_FFI_KernelArg XLA_FFI_KernelArg;
typedef struct XLA_FFI_KernelArgs XLA_FFI_KernelArgs;
typedef struct XLA_FFI_RecordApi XLA_FFI_RecordApi;
typedef struct XLA_FFI_RecordFrame XLA_FFI_RecordFrame;
typedef struct XLA_FFI_Record_Extension XLA_FFI_Record_Extension;

// The action of a record call: create or update commands.
enum XLA_FFI_RecordAction {
  // Creates new commands.
  XLA_FFI_RecordAction_Create = 0,
  // Sets new values for the existing commands.
  XLA_FFI_RecordAction_Update = 1,
};
typedef enum XLA_FFI_RecordAction XLA_FFI_RecordAction;

// The format of a kernel's code.
enum XLA_FFI_SourceFormat {
  // The code is PTX text.
  XLA_FFI_SourceFormat_PTX = 0,
  // The code is a cubin: machine code for one device architecture.
  XLA_FFI_SourceFormat_CUBIN = 1,
  // The code is a function pointer. From version 0.2.
  XLA_FFI_SourceFormat_FUNCTION_PTR = 2,
};
typedef enum XLA_FFI_SourceFormat XLA_FFI_SourceFormat;

// The type of a kernel argument.
enum XLA_FFI_KernelArgType {
  // The argument is an address in device memory.
  XLA_FFI_KernelArgType_DevicePtr = 0,
  // The argument is a value on the host, which is copied into the command.
  XLA_FFI_KernelArgType_HostValue = 1,
};
typedef enum XLA_FFI_KernelArgType XLA_FFI_KernelArgType;

// The extents of a kernel launch in three dimensions.
struct XLA_FFI_Dim3 {
  // The extent in the first dimension.
  int32_t x;
  // The extent in the second dimension.
  int32_t y;
  // The extent in the third dimension.
  int32_t z;
};

// The dimensions of a kernel launch.
struct XLA_FFI_LaunchDims {
  // The number of blocks in each dimension.
  XLA_FFI_Dim3 grid;
  // The number of threads per block, in each dimension.
  XLA_FFI_Dim3 block;
  // The number of blocks per cluster, in each dimension.
  XLA_FFI_Dim3 cluster;
};

// An argument of a kernel.
struct XLA_FFI_KernelArg {
  // The address in device memory, or the host address of the value.
  const void* arg_address;
  // The size of the argument in bytes.
  int64_t size;
  // The type of the argument.
  XLA_FFI_KernelArgType type;
};

// The arguments of a kernel.
struct XLA_FFI_KernelArgs {
  // The first argument.
  const XLA_FFI_KernelArg* args;
  // The number of arguments.
  int64_t num_args;
};

// The functions of the host's recorder.
struct XLA_FFI_RecordApi {
  // Records a kernel launch.
  XLA_FFI_Error* (*create_launch)(XLA_FFI_RecordContext* ctx,
      const char* kernel_name,
      const void* kernel_data,
      int64_t kernel_size,
      XLA_FFI_SourceFormat format,
      XLA_FFI_LaunchDims launch_dims,
      uint32_t shared_mem_bytes,
      int32_t uses_pdl,
      const XLA_FFI_KernelArgs* args,
      const XLA_FFI_Command* const* dependencies,
      uint32_t num_dependencies,
      const XLA_FFI_Command** out_command);
  // Updates the arguments of a recorded kernel launch.
  XLA_FFI_Error* (*update_launch)(XLA_FFI_RecordContext* ctx,
      const XLA_FFI_Command* command,
      const XLA_FFI_KernelArgs* args);
  // Records a copy from device to device.
  XLA_FFI_Error* (*create_memcpy_d2d)(XLA_FFI_RecordContext* ctx,
      void* dst,
      void* src,
      int64_t size,
      const XLA_FFI_Command* const* dependencies,
      uint32_t num_dependencies,
      const XLA_FFI_Command** out_command);
  // Updates the operands of a recorded copy from device to device.
  XLA_FFI_Error* (*update_memcpy_d2d)(XLA_FFI_RecordContext* ctx,
      const XLA_FFI_Command* command,
      void* dst,
      void* src,
      int64_t size);
  // Requests that the host capture the execute stage on a stream instead of recording commands.
  XLA_FFI_Error* (*request_stream_capture)(XLA_FFI_RecordContext* ctx);
  // Records an empty command, which only orders other commands.
  XLA_FFI_Error* (*create_empty_command)(XLA_FFI_RecordContext* ctx,
      const XLA_FFI_Command* const* dependencies,
      uint32_t num_dependencies,
      const XLA_FFI_Command** out_command);
};

// The data of one call of a record stage.
struct XLA_FFI_RecordFrame {
  // The host's recorder, to pass to the functions of api.
  XLA_FFI_RecordContext* record_ctx;
  // The functions of the host's recorder.
  const XLA_FFI_RecordApi* api;
  // Whether the call creates or updates commands.
  XLA_FFI_RecordAction action;
  // The commands, with room for max_commands. The handler writes them to create and reads them
  // to update.
  const XLA_FFI_Command** commands;
  // The number of commands. The handler writes it to create and reads it to update.
  int64_t* num_commands;
  // The capacity of commands.
  int64_t max_commands;
};

// The record extension of an invocation context.
struct XLA_FFI_Record_Extension {
  // The entry in the extension chain.
  XLA_FFI_Extension extension_base;
  // The data of the record stage's call.
  XLA_FFI_RecordFrame* record_frame;
};

// Packed structs, by a header that leaves `#pragma pack` open or by -fpack-struct (/Zp), have other layouts.
#if defined(__cplusplus)
static_assert(sizeof(XLA_FFI_KernelArg) == 24, "XLA_FFI_KernelArg is packed: by an open #pragma pack or by -fpack-struct");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(XLA_FFI_KernelArg) == 24, "XLA_FFI_KernelArg is packed: by an open #pragma pack or by -fpack-struct");
#else
typedef char XLA_FFI_KernelArg_is_packed[sizeof(XLA_FFI_KernelArg) == 24 ? 1 : -1];
#endif

// Bytes up to the end of the last field that upstream counts, which is not always the last
// one.
enum {
  XLA_FFI_Record_Extension_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(XLA_FFI_Record_Extension, record_frame),
};

#ifdef __cplusplus
}
#endif

#endif // XLA_FFI_API_RECORD_C_API_H_
