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

// The host's recorder.
typedef struct XLA_FFI_RecordContext XLA_FFI_RecordContext;
// One recorded command.
typedef struct XLA_FFI_Command XLA_FFI_Command;

typedef struct XLA_FFI_Dim3 XLA_FFI_Dim3;
typedef struct XLA_FFI_LaunchDims XLA_FFI_LaunchDims;
typedef struct XLA_FFI_KernelArg XLA_FFI_KernelArg;
typedef struct XLA_FFI_KernelArgs XLA_FFI_KernelArgs;
typedef struct XLA_FFI_RecordApi XLA_FFI_RecordApi;
typedef struct XLA_FFI_RecordFrame XLA_FFI_RecordFrame;
typedef struct XLA_FFI_Record_Extension XLA_FFI_Record_Extension;

// Whether commands are created or updated.
enum XLA_FFI_RecordAction {
  // Creates new commands.
  XLA_FFI_RecordAction_Create = 0,
  // Sets new values for the commands that were created.
  XLA_FFI_RecordAction_Update = 1,
};
typedef enum XLA_FFI_RecordAction XLA_FFI_RecordAction;

// The format of a kernel's code.
enum XLA_FFI_SourceFormat {
  // PTX text.
  XLA_FFI_SourceFormat_PTX = 0,
  // A cubin.
  XLA_FFI_SourceFormat_CUBIN = 1,
  // A function pointer. From version 0.2.
  XLA_FFI_SourceFormat_FUNCTION_PTR = 2,
};
typedef enum XLA_FFI_SourceFormat XLA_FFI_SourceFormat;

// The type of a kernel argument.
enum XLA_FFI_KernelArgType {
  // An address in device memory.
  XLA_FFI_KernelArgType_DevicePtr = 0,
  // A value on the host, copied into the command.
  XLA_FFI_KernelArgType_HostValue = 1,
};
typedef enum XLA_FFI_KernelArgType XLA_FFI_KernelArgType;

// The extents of three dimensions.
struct XLA_FFI_Dim3 {
  // The first extent.
  int32_t x;
  // The second extent.
  int32_t y;
  // The third extent.
  int32_t z;
};

// The dimensions of a launch.
struct XLA_FFI_LaunchDims {
  // The number of blocks.
  XLA_FFI_Dim3 grid;
  // The number of threads per block.
  XLA_FFI_Dim3 block;
  // The number of blocks per cluster.
  XLA_FFI_Dim3 cluster;
};

// One argument of a kernel.
struct XLA_FFI_KernelArg {
  // The device address, or the host address of the value.
  const void* arg_address;
  // The size in bytes.
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

// The recorder's functions.
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
  // Updates the arguments of a recorded launch.
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
  // Updates the operands of a recorded copy.
  XLA_FFI_Error* (*update_memcpy_d2d)(XLA_FFI_RecordContext* ctx,
      const XLA_FFI_Command* command,
      void* dst,
      void* src,
      int64_t size);
  // Asks the host to capture the execute stage on a stream instead.
  XLA_FFI_Error* (*request_stream_capture)(XLA_FFI_RecordContext* ctx);
  // Records an empty command, which only orders other commands.
  XLA_FFI_Error* (*create_empty_command)(XLA_FFI_RecordContext* ctx,
      const XLA_FFI_Command* const* dependencies,
      uint32_t num_dependencies,
      const XLA_FFI_Command** out_command);
};

// The frame of a record handler.
struct XLA_FFI_RecordFrame {
  // The recorder.
  XLA_FFI_RecordContext* record_ctx;
  // The recorder's functions.
  const XLA_FFI_RecordApi* api;
  // Whether to create or to update commands.
  XLA_FFI_RecordAction action;
  // The commands, with room for max_commands: an output of create and an input of update.
  const XLA_FFI_Command** commands;
  // The number of commands: an output of create and an input of update.
  int64_t* num_commands;
  // The capacity of commands.
  int64_t max_commands;
};

// The extension in the chain of an invocation context.
struct XLA_FFI_Record_Extension {
  // The entry in the chain.
  XLA_FFI_Extension extension_base;
  // The record frame.
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
