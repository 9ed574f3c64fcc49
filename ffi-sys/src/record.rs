//! The record extension (id 128) for recording into a command buffer, from r9. Version 0.1 was
//! released with jaxlib 0.11.2, and 0.2 with 0.12.0.

use crate::{XLA_FFI_Error, XLA_FFI_Extension};
use core::ffi::{c_char, c_void};

/// The number of the record extension.
pub const XLA_FFI_Extension_Record: i64 = 128;
/// The newest major version of the record extension.
pub const XLA_FFI_Extension_Record_MajorVersion: i32 = 0;
/// The newest minor version of the record extension.
pub const XLA_FFI_Extension_Record_MinorVersion: i32 = 2;

opaque! {
    /// The host's recorder of commands.
    XLA_FFI_RecordContext
}
opaque! {
    /// A recorded command of a command buffer.
    XLA_FFI_Command
}

enumeration! {
    /// The action of a record call: create or update commands.
    XLA_FFI_RecordAction, "XLA_FFI_RecordAction_" {
        /// Creates new commands.
        Create = 0 since "0.11.2",
        /// Sets new values for the existing commands.
        Update = 1 since "0.11.2",
    }
}

enumeration! {
    /// The format of a kernel's code.
    XLA_FFI_SourceFormat, "XLA_FFI_SourceFormat_" {
        /// The code is PTX text.
        PTX = 0 since "0.11.2",
        /// The code is a cubin: machine code for one device architecture.
        CUBIN = 1 since "0.11.2",
        /// The code is a function pointer. From version 0.2.
        FUNCTION_PTR = 2 since "0.12.0",
    }
}

/// The extents of a kernel launch in three dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLA_FFI_Dim3 {
    /// The extent in the first dimension.
    pub x: i32,
    /// The extent in the second dimension.
    pub y: i32,
    /// The extent in the third dimension.
    pub z: i32,
}
layout!(XLA_FFI_Dim3, R9.., size 12 {
    x: i32 = 0,
    y: i32 = 4,
    z: i32 = 8,
});

/// The dimensions of a kernel launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLA_FFI_LaunchDims {
    /// The number of blocks in each dimension.
    pub grid: XLA_FFI_Dim3,
    /// The number of threads per block, in each dimension.
    pub block: XLA_FFI_Dim3,
    /// The number of blocks per cluster, in each dimension.
    pub cluster: XLA_FFI_Dim3,
}
layout!(XLA_FFI_LaunchDims, R9.., size 36 {
    grid: XLA_FFI_Dim3 = 0,
    block: XLA_FFI_Dim3 = 12,
    cluster: XLA_FFI_Dim3 = 24,
});

enumeration! {
    /// The type of a kernel argument.
    XLA_FFI_KernelArgType, "XLA_FFI_KernelArgType_" {
        /// The argument is an address in device memory.
        DevicePtr = 0 since "0.11.2",
        /// The argument is a value on the host, which is copied into the command.
        HostValue = 1 since "0.11.2",
    }
}

/// An argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_KernelArg {
    /// The address in device memory, or the host address of the value.
    pub arg_address: *const c_void,
    /// The size of the argument in bytes.
    pub size: i64,
    /// The type of the argument.
    pub r#type: XLA_FFI_KernelArgType,
}
layout!(XLA_FFI_KernelArg, R9.., size 24 {
    arg_address: *const c_void = 0,
    size: i64 = 8,
    r#type: XLA_FFI_KernelArgType = 16,
});

/// The arguments of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_KernelArgs {
    /// The first argument.
    pub args: *const XLA_FFI_KernelArg,
    /// The number of arguments.
    pub num_args: i64,
}
layout!(XLA_FFI_KernelArgs, R9.., size 16 {
    args: *const XLA_FFI_KernelArg = 0,
    num_args: i64 = 8,
});

/// The functions of the host's recorder.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::type_complexity,
    reason = "inline function pointers, as in the C header"
)]
pub struct XLA_FFI_RecordApi {
    /// Records a kernel launch.
    pub create_launch: Option<
        unsafe extern "C" fn(
            ctx: *mut XLA_FFI_RecordContext,
            kernel_name: *const c_char,
            kernel_data: *const c_void,
            kernel_size: i64,
            format: XLA_FFI_SourceFormat,
            launch_dims: XLA_FFI_LaunchDims,
            shared_mem_bytes: u32,
            uses_pdl: i32,
            args: *const XLA_FFI_KernelArgs,
            dependencies: *const *const XLA_FFI_Command,
            num_dependencies: u32,
            out_command: *mut *const XLA_FFI_Command,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Updates the arguments of a recorded kernel launch.
    pub update_launch: Option<
        unsafe extern "C" fn(
            ctx: *mut XLA_FFI_RecordContext,
            command: *const XLA_FFI_Command,
            args: *const XLA_FFI_KernelArgs,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Records a copy from device to device.
    pub create_memcpy_d2d: Option<
        unsafe extern "C" fn(
            ctx: *mut XLA_FFI_RecordContext,
            dst: *mut c_void,
            src: *mut c_void,
            size: i64,
            dependencies: *const *const XLA_FFI_Command,
            num_dependencies: u32,
            out_command: *mut *const XLA_FFI_Command,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Updates the operands of a recorded copy from device to device.
    pub update_memcpy_d2d: Option<
        unsafe extern "C" fn(
            ctx: *mut XLA_FFI_RecordContext,
            command: *const XLA_FFI_Command,
            dst: *mut c_void,
            src: *mut c_void,
            size: i64,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Requests that the host capture the execute stage on a stream instead of recording commands.
    pub request_stream_capture:
        Option<unsafe extern "C" fn(ctx: *mut XLA_FFI_RecordContext) -> *mut XLA_FFI_Error>,
    /// Records an empty command, which only orders other commands.
    pub create_empty_command: Option<
        unsafe extern "C" fn(
            ctx: *mut XLA_FFI_RecordContext,
            dependencies: *const *const XLA_FFI_Command,
            num_dependencies: u32,
            out_command: *mut *const XLA_FFI_Command,
        ) -> *mut XLA_FFI_Error,
    >,
}
layout!(XLA_FFI_RecordApi, R9.., size 48 {
    create_launch: Option<unsafe extern "C" fn(*mut XLA_FFI_RecordContext, *const c_char, *const c_void, i64, XLA_FFI_SourceFormat, XLA_FFI_LaunchDims, u32, i32, *const XLA_FFI_KernelArgs, *const *const XLA_FFI_Command, u32, *mut *const XLA_FFI_Command) -> *mut XLA_FFI_Error> = 0,
    update_launch: Option<unsafe extern "C" fn(*mut XLA_FFI_RecordContext, *const XLA_FFI_Command, *const XLA_FFI_KernelArgs) -> *mut XLA_FFI_Error> = 8,
    create_memcpy_d2d: Option<unsafe extern "C" fn(*mut XLA_FFI_RecordContext, *mut c_void, *mut c_void, i64, *const *const XLA_FFI_Command, u32, *mut *const XLA_FFI_Command) -> *mut XLA_FFI_Error> = 16,
    update_memcpy_d2d: Option<unsafe extern "C" fn(*mut XLA_FFI_RecordContext, *const XLA_FFI_Command, *mut c_void, *mut c_void, i64) -> *mut XLA_FFI_Error> = 24,
    request_stream_capture: Option<unsafe extern "C" fn(*mut XLA_FFI_RecordContext) -> *mut XLA_FFI_Error> = 32,
    create_empty_command: Option<unsafe extern "C" fn(*mut XLA_FFI_RecordContext, *const *const XLA_FFI_Command, u32, *mut *const XLA_FFI_Command) -> *mut XLA_FFI_Error> = 40,
});

/// The data of one call of a record stage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_RecordFrame {
    /// The host's recorder, to pass to the functions of `api`.
    pub record_ctx: *mut XLA_FFI_RecordContext,
    /// The functions of the host's recorder.
    pub api: *const XLA_FFI_RecordApi,
    /// Whether the call creates or updates commands.
    pub action: XLA_FFI_RecordAction,
    /// The commands, with room for `max_commands`. The handler writes them to create and reads them
    /// to update.
    pub commands: *mut *const XLA_FFI_Command,
    /// The number of commands. The handler writes it to create and reads it to update.
    pub num_commands: *mut i64,
    /// The capacity of `commands`.
    pub max_commands: i64,
}
layout!(XLA_FFI_RecordFrame, R9.., size 48 {
    record_ctx: *mut XLA_FFI_RecordContext = 0,
    api: *const XLA_FFI_RecordApi = 8,
    action: XLA_FFI_RecordAction = 16,
    commands: *mut *const XLA_FFI_Command = 24,
    num_commands: *mut i64 = 32,
    max_commands: i64 = 40,
});

/// The record extension of an invocation context.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Record_Extension {
    /// The entry in the extension chain.
    pub extension_base: XLA_FFI_Extension,
    /// The data of the record stage's call.
    pub record_frame: *mut XLA_FFI_RecordFrame,
}
layout!(XLA_FFI_Record_Extension, R9.., size 40, struct_size record_frame 40 {
    extension_base: XLA_FFI_Extension = 0,
    record_frame: *mut XLA_FFI_RecordFrame = 32,
});
