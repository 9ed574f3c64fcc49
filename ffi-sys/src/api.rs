//! The host's function table and the version of the ABI.

use crate::{
    Layout, Revision, XLA_FFI_CustomOptions_Get_Args, XLA_FFI_DeviceMemory_Allocate_Args,
    XLA_FFI_DeviceMemory_Free_Args, XLA_FFI_DeviceOrdinal_Get_Args, XLA_FFI_Error,
    XLA_FFI_Error_Create_Args, XLA_FFI_Error_Destroy_Args, XLA_FFI_Error_GetDetails_Args,
    XLA_FFI_Future_Create_Args, XLA_FFI_Future_SetAvailable_Args, XLA_FFI_Future_SetError_Args,
    XLA_FFI_Handler_Register_Args, XLA_FFI_InternalExtension,
    XLA_FFI_InvokeContext_FindExtension_Args, XLA_FFI_InvokeContext_Get_Args,
    XLA_FFI_RunId_Get_Args, XLA_FFI_State_Get_Args, XLA_FFI_State_Set_Args,
    XLA_FFI_Stream_Get_Args, XLA_FFI_ThreadPool_NumThreads_Args, XLA_FFI_ThreadPool_Schedule_Args,
    XLA_FFI_Type_Register_Args,
};

opaque! {
    /// The host's private functions. A handler may only dereference the pointer if the handler's
    /// library created it.
    XLA_FFI_InternalApi
}

/// The function table of a host, in the order of r3 to r10. In r2, the future functions start at
/// the position of `ThreadPool_NumThreads` (see [`Slot::index`]). Before r5, `struct_size` is 88
/// whatever the table's size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Api {
    /// Size of this struct in bytes, set by the host; always 88 before r5.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The host's version of the ABI.
    pub api_version: XLA_FFI_Api_Version,
    /// The host's private functions, which handlers do not use.
    pub internal_api: *const XLA_FFI_InternalApi,
    /// Creates an error object of the host.
    pub XLA_FFI_Error_Create:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error>,
    /// Reads the message and code of an error. Called `Error_GetMessage` up to r8.
    pub XLA_FFI_Error_GetDetails:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_Error_GetDetails_Args)>,
    /// Destroys an error object of the host.
    pub XLA_FFI_Error_Destroy: Option<unsafe extern "C" fn(args: *mut XLA_FFI_Error_Destroy_Args)>,
    /// Registers a handler with the host.
    pub XLA_FFI_Handler_Register: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_Handler_Register_Args) -> *mut XLA_FFI_Error,
    >,
    /// Returns the platform's stream, for example a `CUstream`.
    pub XLA_FFI_Stream_Get:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_Stream_Get_Args) -> *mut XLA_FFI_Error>,
    /// Registers a user type. Called `TypeId_Register` up to r6.
    pub XLA_FFI_Type_Register:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_Type_Register_Args) -> *mut XLA_FFI_Error>,
    /// Returns user data. Called `ExecutionContext_Get` up to r8.
    pub XLA_FFI_InvokeContext_Get: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_InvokeContext_Get_Args) -> *mut XLA_FFI_Error,
    >,
    /// Stores state for later stages of the handler.
    pub XLA_FFI_State_Set:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_State_Set_Args) -> *mut XLA_FFI_Error>,
    /// Returns the state that a stage of the handler stored.
    pub XLA_FFI_State_Get:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_State_Get_Args) -> *mut XLA_FFI_Error>,
    /// Allocates device memory for one call.
    pub XLA_FFI_DeviceMemory_Allocate: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_DeviceMemory_Allocate_Args) -> *mut XLA_FFI_Error,
    >,
    /// Frees device memory of one call.
    pub XLA_FFI_DeviceMemory_Free: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_DeviceMemory_Free_Args) -> *mut XLA_FFI_Error,
    >,
    /// Runs a task on the host's thread pool. From r1.
    pub XLA_FFI_ThreadPool_Schedule: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_ThreadPool_Schedule_Args) -> *mut XLA_FFI_Error,
    >,
    /// Returns the number of threads in the host's thread pool. From r3.
    pub XLA_FFI_ThreadPool_NumThreads: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_ThreadPool_NumThreads_Args) -> *mut XLA_FFI_Error,
    >,
    /// Creates a future of the host. From r2.
    pub XLA_FFI_Future_Create:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_Future_Create_Args) -> *mut XLA_FFI_Error>,
    /// Completes a future of the host. From r2.
    pub XLA_FFI_Future_SetAvailable: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_Future_SetAvailable_Args) -> *mut XLA_FFI_Error,
    >,
    /// Completes a future of the host with an error. From r2.
    pub XLA_FFI_Future_SetError:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_Future_SetError_Args) -> *mut XLA_FFI_Error>,
    /// Returns the run id of the execution. From r4.
    pub XLA_FFI_RunId_Get:
        Option<unsafe extern "C" fn(args: *mut XLA_FFI_RunId_Get_Args) -> *mut XLA_FFI_Error>,
    /// Returns the global ordinal of the device. From r5.
    pub XLA_FFI_DeviceOrdinal_Get: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_DeviceOrdinal_Get_Args) -> *mut XLA_FFI_Error,
    >,
    /// Finds an extension of the invocation context. From r9.
    pub XLA_FFI_InvokeContext_FindExtension: Option<
        unsafe extern "C" fn(
            args: *mut XLA_FFI_InvokeContext_FindExtension_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Returns the custom options of this execution. From r10.
    pub XLA_FFI_CustomOptions_Get: Option<
        unsafe extern "C" fn(args: *mut XLA_FFI_CustomOptions_Get_Args) -> *mut XLA_FFI_Error,
    >,
}
layout!(XLA_FFI_Api, R10.., size 208, struct_size XLA_FFI_CustomOptions_Get 208 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    api_version: XLA_FFI_Api_Version = 16,
    internal_api: *const XLA_FFI_InternalApi = 40,
    XLA_FFI_Error_Create: Option<unsafe extern "C" fn(*mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error> = 48,
    XLA_FFI_Error_GetDetails: Option<unsafe extern "C" fn(*mut XLA_FFI_Error_GetDetails_Args)> = 56,
    XLA_FFI_Error_Destroy: Option<unsafe extern "C" fn(*mut XLA_FFI_Error_Destroy_Args)> = 64,
    XLA_FFI_Handler_Register: Option<unsafe extern "C" fn(*mut XLA_FFI_Handler_Register_Args) -> *mut XLA_FFI_Error> = 72,
    XLA_FFI_Stream_Get: Option<unsafe extern "C" fn(*mut XLA_FFI_Stream_Get_Args) -> *mut XLA_FFI_Error> = 80,
    XLA_FFI_Type_Register: Option<unsafe extern "C" fn(*mut XLA_FFI_Type_Register_Args) -> *mut XLA_FFI_Error> = 88,
    XLA_FFI_InvokeContext_Get: Option<unsafe extern "C" fn(*mut XLA_FFI_InvokeContext_Get_Args) -> *mut XLA_FFI_Error> = 96,
    XLA_FFI_State_Set: Option<unsafe extern "C" fn(*mut XLA_FFI_State_Set_Args) -> *mut XLA_FFI_Error> = 104,
    XLA_FFI_State_Get: Option<unsafe extern "C" fn(*mut XLA_FFI_State_Get_Args) -> *mut XLA_FFI_Error> = 112,
    XLA_FFI_DeviceMemory_Allocate: Option<unsafe extern "C" fn(*mut XLA_FFI_DeviceMemory_Allocate_Args) -> *mut XLA_FFI_Error> = 120,
    XLA_FFI_DeviceMemory_Free: Option<unsafe extern "C" fn(*mut XLA_FFI_DeviceMemory_Free_Args) -> *mut XLA_FFI_Error> = 128,
    XLA_FFI_ThreadPool_Schedule: Option<unsafe extern "C" fn(*mut XLA_FFI_ThreadPool_Schedule_Args) -> *mut XLA_FFI_Error> = 136,
    XLA_FFI_ThreadPool_NumThreads: Option<unsafe extern "C" fn(*mut XLA_FFI_ThreadPool_NumThreads_Args) -> *mut XLA_FFI_Error> = 144,
    XLA_FFI_Future_Create: Option<unsafe extern "C" fn(*mut XLA_FFI_Future_Create_Args) -> *mut XLA_FFI_Error> = 152,
    XLA_FFI_Future_SetAvailable: Option<unsafe extern "C" fn(*mut XLA_FFI_Future_SetAvailable_Args) -> *mut XLA_FFI_Error> = 160,
    XLA_FFI_Future_SetError: Option<unsafe extern "C" fn(*mut XLA_FFI_Future_SetError_Args) -> *mut XLA_FFI_Error> = 168,
    XLA_FFI_RunId_Get: Option<unsafe extern "C" fn(*mut XLA_FFI_RunId_Get_Args) -> *mut XLA_FFI_Error> = 176,
    XLA_FFI_DeviceOrdinal_Get: Option<unsafe extern "C" fn(*mut XLA_FFI_DeviceOrdinal_Get_Args) -> *mut XLA_FFI_Error> = 184,
    XLA_FFI_InvokeContext_FindExtension: Option<unsafe extern "C" fn(*mut XLA_FFI_InvokeContext_FindExtension_Args) -> *mut XLA_FFI_Error> = 192,
    XLA_FFI_CustomOptions_Get: Option<unsafe extern "C" fn(*mut XLA_FFI_CustomOptions_Get_Args) -> *mut XLA_FFI_Error> = 200,
});

/// A function of the host's function table. Its position depends on the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Slot {
    /// Creates an error object of the host.
    ErrorCreate = 0,
    /// Reads the message and code of an error. Called `Error_GetMessage` up to r8.
    ErrorGetDetails = 1,
    /// Destroys an error object of the host.
    ErrorDestroy = 2,
    /// Registers a handler with the host.
    HandlerRegister = 3,
    /// Returns the platform's stream, for example a `CUstream`.
    StreamGet = 4,
    /// Registers a user type. Called `TypeId_Register` up to r6.
    TypeRegister = 5,
    /// Returns user data. Called `ExecutionContext_Get` up to r8.
    InvokeContextGet = 6,
    /// Stores state for later stages of the handler.
    StateSet = 7,
    /// Returns the state that a stage of the handler stored.
    StateGet = 8,
    /// Allocates device memory for one call.
    DeviceMemoryAllocate = 9,
    /// Frees device memory of one call.
    DeviceMemoryFree = 10,
    /// Runs a task on the host's thread pool.
    ThreadPoolSchedule = 11,
    /// Returns the number of threads in the host's thread pool.
    ThreadPoolNumThreads = 12,
    /// Creates a future of the host.
    FutureCreate = 13,
    /// Completes a future of the host.
    FutureSetAvailable = 14,
    /// Completes a future of the host with an error.
    FutureSetError = 15,
    /// Returns the run id of the execution.
    RunIdGet = 16,
    /// Returns the global ordinal of the device.
    DeviceOrdinalGet = 17,
    /// Finds an extension of the invocation context.
    InvokeContextFindExtension = 18,
    /// Returns the custom options of this execution.
    CustomOptionsGet = 19,
}

const _: () = assert!(Slot::HEAD == crate::Revision::TABLE_HEAD);

impl Slot {
    /// The size in bytes of the part of the function table before the first function.
    pub const HEAD: usize = core::mem::offset_of!(XLA_FFI_Api, XLA_FFI_Error_Create);

    /// All functions of the table, in the order of the newest revision.
    pub const ALL: [Self; 20] = [
        Self::ErrorCreate,
        Self::ErrorGetDetails,
        Self::ErrorDestroy,
        Self::HandlerRegister,
        Self::StreamGet,
        Self::TypeRegister,
        Self::InvokeContextGet,
        Self::StateSet,
        Self::StateGet,
        Self::DeviceMemoryAllocate,
        Self::DeviceMemoryFree,
        Self::ThreadPoolSchedule,
        Self::ThreadPoolNumThreads,
        Self::FutureCreate,
        Self::FutureSetAvailable,
        Self::FutureSetError,
        Self::RunIdGet,
        Self::DeviceOrdinalGet,
        Self::InvokeContextFindExtension,
        Self::CustomOptionsGet,
    ];

    /// Returns the oldest revision that has the function.
    #[must_use]
    pub const fn since(self) -> Revision {
        match self {
            Self::ThreadPoolSchedule => Revision::R1,
            Self::FutureCreate | Self::FutureSetAvailable | Self::FutureSetError => Revision::R2,
            Self::ThreadPoolNumThreads => Revision::R3,
            Self::RunIdGet => Revision::R4,
            Self::DeviceOrdinalGet => Revision::R5,
            Self::InvokeContextFindExtension => Revision::R9,
            Self::CustomOptionsGet => Revision::R10,
            _ => Revision::R0,
        }
    }

    /// Returns the function's index among the function slots of `revision`; slot 0 follows
    /// `internal_api`. Returns `None` if the revision lacks the function.
    #[must_use]
    pub const fn index(self, revision: Revision) -> Option<usize> {
        if (revision as u8) < self.since() as u8 {
            return None;
        }
        let newest = self as usize;
        let r2_future =
            revision as u8 == Revision::R2 as u8 && newest > Self::ThreadPoolNumThreads as usize;
        Some(if r2_future { newest - 1 } else { newest })
    }

    /// Returns the C name of the function in `revision`.
    #[must_use]
    pub const fn name(self, revision: Revision) -> &'static str {
        let before_r7 = (revision as u8) < Revision::R7 as u8;
        let before_r9 = (revision as u8) < Revision::R9 as u8;
        match self {
            Self::ErrorGetDetails if before_r9 => "XLA_FFI_Error_GetMessage",
            Self::TypeRegister if before_r7 => "XLA_FFI_TypeId_Register",
            Self::InvokeContextGet if before_r9 => "XLA_FFI_ExecutionContext_Get",
            // The first four fields of the table are not functions.
            _ => <XLA_FFI_Api as Layout>::LAYOUT.fields[4 + self as usize].name,
        }
    }

    /// Returns true if the function returns an error pointer. Returns false if the function returns
    /// nothing.
    #[must_use]
    pub const fn returns_error(self) -> bool {
        !matches!(self, Self::ErrorGetDetails | Self::ErrorDestroy)
    }
}

/// The major version of the ABI, which is 0 in all revisions.
pub const XLA_FFI_API_MAJOR: i32 = 0;
/// The minor version of the ABI's newest revision ([`Revision::NEWEST`](crate::Revision::NEWEST)).
pub const XLA_FFI_API_MINOR: i32 = 5;

/// A version of the ABI, as in [`XLA_FFI_Api`](crate::XLA_FFI_Api) and
/// [`XLA_FFI_Metadata`](crate::XLA_FFI_Metadata).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Api_Version {
    /// Size of this struct in bytes, set by its creator.
    pub struct_size: usize,
    /// The first entry of the extension chain; null in all revisions.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The major version of the ABI.
    pub major_version: i32,
    /// The minor version of the ABI.
    pub minor_version: i32,
}
layout!(XLA_FFI_Api_Version, R0.., size 24, struct_size minor_version 24 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    major_version: i32 = 16,
    minor_version: i32 = 20,
});
