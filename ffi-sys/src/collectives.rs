//! The collectives extension (id 129): communicators, memory windows (0.2) and device communicators
//! (0.3). From r9: jaxlib 0.11.2 has version 0.1, jaxlib 0.12.0 has 0.2; no released jaxlib has 0.3.

use crate::{XLA_FFI_Error, XLA_FFI_Extension, XLA_FFI_InternalExtension};
use core::ffi::c_void;

/// The number of the collectives extension.
pub const XLA_FFI_Extension_Collectives: i64 = 129;
/// The newest major version of the collectives extension.
pub const XLA_FFI_Extension_Collectives_MajorVersion: i32 = 0;
/// The newest minor version of the collectives extension.
pub const XLA_FFI_Extension_Collectives_MinorVersion: i32 = 3;

enumeration! {
    /// How a host interprets the ids in replica groups.
    XLA_FFI_CollectiveGroupMode, "XLA_FFI_GROUP_" {
        /// The ids are replica ids.
        CROSS_REPLICA = 0 since "0.11.2",
        /// The ids are partition ids.
        CROSS_PARTITION = 1 since "0.11.2",
        /// The ids are replica ids, and each group covers all partitions.
        CROSS_REPLICA_AND_PARTITION = 2 since "0.11.2",
        /// The ids are flattened ids of replica and partition.
        FLATTENED_ID = 3 since "0.11.2",
    }
}

/// A group of devices that work together, as a list of ids.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_ReplicaGroup {
    /// The ids of the group's devices; `size` entries.
    pub ids: *const i64,
    /// The number of ids.
    pub size: usize,
}
layout!(XLA_FFI_ReplicaGroup, R9.., size 16 {
    ids: *const i64 = 0,
    size: usize = 8,
});

opaque! {
    /// The host's state of the collectives extension.
    XLA_FFI_CollectivesState
}
opaque! {
    /// A communicator, for example of NCCL.
    XLA_FFI_Communicator
}
opaque! {
    /// Memory registered with a communicator. From version 0.2.
    XLA_FFI_Window
}
opaque! {
    /// The description of a device communicator in host memory, which the host owns. With NCCL, an `ncclDevComm`,
    /// which kernels accept by value. Read or copy the description only in the call that returns it, and do not
    /// change it. From version 0.3.
    XLA_FFI_DeviceCommunicator
}

/// Arguments of `request_communicator`, for the prepare stage.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Communicator_Request_Args {
    /// The number of bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// How the host interprets the ids of `groups`.
    pub group_mode: XLA_FFI_CollectiveGroupMode,
    /// The replica groups; `num_groups` entries.
    pub groups: *const XLA_FFI_ReplicaGroup,
    /// The number of replica groups.
    pub num_groups: usize,
    /// A number that distinguishes communicators of the same groups.
    pub communication_id: i64,
}
layout!(XLA_FFI_Communicator_Request_Args, R9.., size 48, struct_size communication_id 48 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    group_mode: XLA_FFI_CollectiveGroupMode = 16,
    groups: *const XLA_FFI_ReplicaGroup = 24,
    num_groups: usize = 32,
    communication_id: i64 = 40,
});

/// Arguments of `get_communicator`, for the stages after prepare.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Communicator_Get_Args {
    /// The number of bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// How the host interprets the ids of `groups`.
    pub group_mode: XLA_FFI_CollectiveGroupMode,
    /// The replica groups; `num_groups` entries.
    pub groups: *const XLA_FFI_ReplicaGroup,
    /// The number of replica groups.
    pub num_groups: usize,
    /// A number that distinguishes communicators of the same groups.
    pub communication_id: i64,
    /// Out: the communicator of the groups.
    pub communicator: *mut XLA_FFI_Communicator,
}
layout!(XLA_FFI_Communicator_Get_Args, R9.., size 56, struct_size communicator 56 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    group_mode: XLA_FFI_CollectiveGroupMode = 16,
    groups: *const XLA_FFI_ReplicaGroup = 24,
    num_groups: usize = 32,
    communication_id: i64 = 40,
    communicator: *mut XLA_FFI_Communicator = 48,
});

/// A region of memory to cover with a window. From version 0.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_CollectiveMemoryRegion {
    /// The address of the region's first byte.
    pub buffer: *const c_void,
    /// The size of the region in bytes.
    pub byte_size: usize,
    /// Flags with a meaning that the platform defines.
    pub flags: u64,
}
layout!(XLA_FFI_CollectiveMemoryRegion, R10.., size 24 {
    buffer: *const c_void = 0,
    byte_size: usize = 8,
    flags: u64 = 16,
});

/// Arguments of `request_window`, for the prepare stage. From version 0.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Window_Request_Args {
    /// The number of bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// How the host interprets the ids of `groups`.
    pub group_mode: XLA_FFI_CollectiveGroupMode,
    /// The replica groups; `num_groups` entries.
    pub groups: *const XLA_FFI_ReplicaGroup,
    /// The number of replica groups.
    pub num_groups: usize,
    /// A number that distinguishes communicators of the same groups.
    pub communication_id: i64,
    /// The memory regions; `num_regions` entries.
    pub regions: *const XLA_FFI_CollectiveMemoryRegion,
    /// The number of memory regions.
    pub num_regions: usize,
}
layout!(XLA_FFI_Window_Request_Args, R10.., size 64, struct_size num_regions 64 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    group_mode: XLA_FFI_CollectiveGroupMode = 16,
    groups: *const XLA_FFI_ReplicaGroup = 24,
    num_groups: usize = 32,
    communication_id: i64 = 40,
    regions: *const XLA_FFI_CollectiveMemoryRegion = 48,
    num_regions: usize = 56,
});

/// Arguments of `get_window`, for the stages after prepare. From version 0.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Window_Get_Args {
    /// The number of bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// How the host interprets the ids of `groups`.
    pub group_mode: XLA_FFI_CollectiveGroupMode,
    /// The replica groups; `num_groups` entries.
    pub groups: *const XLA_FFI_ReplicaGroup,
    /// The number of replica groups.
    pub num_groups: usize,
    /// A number that distinguishes communicators of the same groups.
    pub communication_id: i64,
    /// In: an address in a registered memory region.
    pub buffer: *const c_void,
    /// Out: the window that contains `buffer`.
    pub window: *mut XLA_FFI_Window,
    /// Out: the distance from the window's start to `buffer`, in bytes.
    pub window_offset: usize,
}
layout!(XLA_FFI_Window_Get_Args, R10.., size 72, struct_size window_offset 72 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    group_mode: XLA_FFI_CollectiveGroupMode = 16,
    groups: *const XLA_FFI_ReplicaGroup = 24,
    num_groups: usize = 32,
    communication_id: i64 = 40,
    buffer: *const c_void = 48,
    window: *mut XLA_FFI_Window = 56,
    window_offset: usize = 64,
});

/// The resources that a device communicator needs. From version 0.3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_DeviceCommunicator_Requirements {
    /// The number of bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// The number of barriers between devices that access each other's memory with loads and
    /// stores; at least 0.
    pub lsa_barrier_count: i32,
}
layout!(XLA_FFI_DeviceCommunicator_Requirements, R10.., size 24, struct_size lsa_barrier_count 20 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    lsa_barrier_count: i32 = 16,
});

/// Arguments of `request_device_communicator`, for the prepare stage. From version 0.3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_DeviceCommunicator_Request_Args {
    /// The number of bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// How the host interprets the ids of `groups`.
    pub group_mode: XLA_FFI_CollectiveGroupMode,
    /// The replica groups; `num_groups` entries.
    pub groups: *const XLA_FFI_ReplicaGroup,
    /// The number of replica groups.
    pub num_groups: usize,
    /// A number that distinguishes communicators of the same groups.
    pub communication_id: i64,
    /// The resources of the device communicator, which must be the same on all ranks.
    pub requirements: *const XLA_FFI_DeviceCommunicator_Requirements,
}
layout!(XLA_FFI_DeviceCommunicator_Request_Args, R10.., size 56, struct_size requirements 56 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    group_mode: XLA_FFI_CollectiveGroupMode = 16,
    groups: *const XLA_FFI_ReplicaGroup = 24,
    num_groups: usize = 32,
    communication_id: i64 = 40,
    requirements: *const XLA_FFI_DeviceCommunicator_Requirements = 48,
});

/// Arguments of `get_device_communicator`, for the stages after prepare. From version 0.3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_DeviceCommunicator_Get_Args {
    /// The number of bytes of this struct that the caller filled.
    pub struct_size: usize,
    /// The first entry of the extension chain, or null.
    pub extension_start: *mut XLA_FFI_InternalExtension,
    /// How the host interprets the ids of `groups`.
    pub group_mode: XLA_FFI_CollectiveGroupMode,
    /// The replica groups; `num_groups` entries.
    pub groups: *const XLA_FFI_ReplicaGroup,
    /// The number of replica groups.
    pub num_groups: usize,
    /// A number that distinguishes communicators of the same groups.
    pub communication_id: i64,
    /// The resources of the device communicator, as requested.
    pub requirements: *const XLA_FFI_DeviceCommunicator_Requirements,
    /// Out: the description of the device communicator, in host memory.
    pub device_communicator: *const XLA_FFI_DeviceCommunicator,
    /// Out: the size of the device communicator's description in bytes.
    pub byte_size: usize,
    /// Out: the version of the device communicator's description. With NCCL, the
    /// `NCCL_VERSION_CODE` that the host was compiled with, which may differ from the version of
    /// the NCCL library at run time.
    pub version: i32,
}
layout!(XLA_FFI_DeviceCommunicator_Get_Args, R10.., size 80, struct_size version 76 {
    struct_size: usize = 0,
    extension_start: *mut XLA_FFI_InternalExtension = 8,
    group_mode: XLA_FFI_CollectiveGroupMode = 16,
    groups: *const XLA_FFI_ReplicaGroup = 24,
    num_groups: usize = 32,
    communication_id: i64 = 40,
    requirements: *const XLA_FFI_DeviceCommunicator_Requirements = 48,
    device_communicator: *const XLA_FFI_DeviceCommunicator = 56,
    byte_size: usize = 64,
    version: i32 = 72,
});

/// The collectives extension of an invocation context, in version 0.3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Collectives_Extension {
    /// The entry in the extension chain.
    pub extension_base: XLA_FFI_Extension,
    /// The host's state, to pass to the extension's functions.
    pub state: *mut XLA_FFI_CollectivesState,
    /// Requests a communicator, in the prepare stage.
    pub request_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Communicator_Request_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Returns a communicator that the prepare stage requested.
    pub get_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Communicator_Get_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Requests a window, in the prepare stage. From version 0.2.
    pub request_window: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Window_Request_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Returns a window that the prepare stage requested. From version 0.2.
    pub get_window: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Window_Get_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Requests a device communicator and the communicator of the same group, in the prepare stage.
    /// From version 0.3.
    pub request_device_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_DeviceCommunicator_Request_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Returns a device communicator that the prepare stage requested. From version 0.3.
    pub get_device_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_DeviceCommunicator_Get_Args,
        ) -> *mut XLA_FFI_Error,
    >,
}
layout!(XLA_FFI_Collectives_Extension, R10.., size 88, struct_size get_device_communicator 88 {
    extension_base: XLA_FFI_Extension = 0,
    state: *mut XLA_FFI_CollectivesState = 32,
    request_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Communicator_Request_Args) -> *mut XLA_FFI_Error> = 40,
    get_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Communicator_Get_Args) -> *mut XLA_FFI_Error> = 48,
    request_window: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Window_Request_Args) -> *mut XLA_FFI_Error> = 56,
    get_window: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Window_Get_Args) -> *mut XLA_FFI_Error> = 64,
    request_device_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_DeviceCommunicator_Request_Args) -> *mut XLA_FFI_Error> = 72,
    get_device_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_DeviceCommunicator_Get_Args) -> *mut XLA_FFI_Error> = 80,
});

/// The collectives extension in version 0.2 (jaxlib 0.12.0), without device communicators.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Collectives_Extension_R10 {
    /// The entry in the extension chain.
    pub extension_base: XLA_FFI_Extension,
    /// The host's state, to pass to the extension's functions.
    pub state: *mut XLA_FFI_CollectivesState,
    /// Requests a communicator, in the prepare stage.
    pub request_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Communicator_Request_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Returns a communicator that the prepare stage requested.
    pub get_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Communicator_Get_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Requests a window, in the prepare stage. From version 0.2.
    pub request_window: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Window_Request_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Returns a window that the prepare stage requested. From version 0.2.
    pub get_window: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Window_Get_Args,
        ) -> *mut XLA_FFI_Error,
    >,
}
layout!(XLA_FFI_Collectives_Extension_R10 as "XLA_FFI_Collectives_Extension", R10..=R10, size 72, struct_size get_window 72 {
    extension_base: XLA_FFI_Extension = 0,
    state: *mut XLA_FFI_CollectivesState = 32,
    request_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Communicator_Request_Args) -> *mut XLA_FFI_Error> = 40,
    get_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Communicator_Get_Args) -> *mut XLA_FFI_Error> = 48,
    request_window: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Window_Request_Args) -> *mut XLA_FFI_Error> = 56,
    get_window: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Window_Get_Args) -> *mut XLA_FFI_Error> = 64,
});

/// The collectives extension in version 0.1 (jaxlib 0.11.2), which only has communicators.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct XLA_FFI_Collectives_Extension_R9 {
    /// The entry in the extension chain.
    pub extension_base: XLA_FFI_Extension,
    /// The host's state, to pass to the extension's functions.
    pub state: *mut XLA_FFI_CollectivesState,
    /// Requests a communicator, in the prepare stage.
    pub request_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Communicator_Request_Args,
        ) -> *mut XLA_FFI_Error,
    >,
    /// Returns a communicator that the prepare stage requested.
    pub get_communicator: Option<
        unsafe extern "C" fn(
            self_: *const XLA_FFI_Collectives_Extension,
            args: *mut XLA_FFI_Communicator_Get_Args,
        ) -> *mut XLA_FFI_Error,
    >,
}
layout!(XLA_FFI_Collectives_Extension_R9 as "XLA_FFI_Collectives_Extension", R9..=R9, size 56, struct_size get_communicator 56 {
    extension_base: XLA_FFI_Extension = 0,
    state: *mut XLA_FFI_CollectivesState = 32,
    request_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Communicator_Request_Args) -> *mut XLA_FFI_Error> = 40,
    get_communicator: Option<unsafe extern "C" fn(*const XLA_FFI_Collectives_Extension, *mut XLA_FFI_Communicator_Get_Args) -> *mut XLA_FFI_Error> = 48,
});
