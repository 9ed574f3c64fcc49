//! The layouts of all revisions in one table, and the names of types that changed.

use crate::*;

/// All struct layouts except the layout of the function table, which [`Slot`] provides. A struct's
/// name occurs once per layout; `since` and `until` are the layout's revisions.
pub const LAYOUTS: &[StructLayout] = &[
    XLA_FFI_InternalExtension::LAYOUT,
    XLA_FFI_ExtensionId::LAYOUT,
    XLA_FFI_Extension::LAYOUT,
    XLA_FFI_Api_Version::LAYOUT,
    XLA_FFI_Error_Create_Args::LAYOUT,
    XLA_FFI_Error_GetMessage_Args_R0::LAYOUT,
    XLA_FFI_Error_GetDetails_Args::LAYOUT,
    XLA_FFI_Error_Destroy_Args::LAYOUT,
    XLA_FFI_Buffer::LAYOUT,
    XLA_FFI_ByteSpan::LAYOUT,
    XLA_FFI_Scalar::LAYOUT,
    XLA_FFI_Array::LAYOUT,
    XLA_FFI_TypeId::LAYOUT,
    XLA_FFI_TypeInfo_R6::LAYOUT,
    XLA_FFI_TypeInfo::LAYOUT,
    XLA_FFI_Future_Create_Args::LAYOUT,
    XLA_FFI_Future_SetAvailable_Args::LAYOUT,
    XLA_FFI_Future_SetError_Args::LAYOUT,
    XLA_FFI_Args::LAYOUT,
    XLA_FFI_Rets::LAYOUT,
    XLA_FFI_Attrs::LAYOUT,
    XLA_FFI_CallFrame_R0::LAYOUT,
    XLA_FFI_CallFrame::LAYOUT,
    XLA_FFI_Handler_Bundle_R0::LAYOUT,
    XLA_FFI_Handler_Bundle::LAYOUT,
    XLA_FFI_Handler_Register_Args_R0::LAYOUT,
    XLA_FFI_Handler_Register_Args::LAYOUT,
    XLA_FFI_TypeId_Register_Args_R0::LAYOUT,
    XLA_FFI_Type_Register_Args::LAYOUT,
    XLA_FFI_InvokeContext_FindExtension_Args::LAYOUT,
    XLA_FFI_InvokeContext_Get_Args::LAYOUT,
    XLA_FFI_CustomOptions_Get_Args::LAYOUT,
    XLA_FFI_State_Set_Args_R0::LAYOUT,
    XLA_FFI_State_Set_Args_R7::LAYOUT,
    XLA_FFI_State_Set_Args::LAYOUT,
    XLA_FFI_State_Get_Args_R0::LAYOUT,
    XLA_FFI_State_Get_Args::LAYOUT,
    XLA_FFI_Stream_Get_Args::LAYOUT,
    XLA_FFI_DeviceMemory_Allocate_Args::LAYOUT,
    XLA_FFI_DeviceMemory_Free_Args::LAYOUT,
    XLA_FFI_ThreadPool_Schedule_Args::LAYOUT,
    XLA_FFI_ThreadPool_NumThreads_Args::LAYOUT,
    XLA_FFI_RunId_Get_Args::LAYOUT,
    XLA_FFI_DeviceOrdinal_Get_Args::LAYOUT,
    XLA_FFI_Metadata_R1::LAYOUT,
    XLA_FFI_Metadata::LAYOUT,
    XLA_FFI_Metadata_Extension_R1::LAYOUT,
    XLA_FFI_Metadata_Extension::LAYOUT,
    XLA_FFI_Api::LAYOUT,
];

/// The struct layouts of the record extension's header.
pub const RECORD_LAYOUTS: &[StructLayout] = &[
    XLA_FFI_Dim3::LAYOUT,
    XLA_FFI_LaunchDims::LAYOUT,
    XLA_FFI_KernelArg::LAYOUT,
    XLA_FFI_KernelArgs::LAYOUT,
    XLA_FFI_RecordApi::LAYOUT,
    XLA_FFI_RecordFrame::LAYOUT,
    XLA_FFI_Record_Extension::LAYOUT,
];

/// The struct layouts of the collectives extension's header, in versions 0.1, 0.2 and 0.3.
pub const COLLECTIVES_LAYOUTS: [&[StructLayout]; 3] = [
    &[
        XLA_FFI_ReplicaGroup::LAYOUT,
        XLA_FFI_Communicator_Request_Args::LAYOUT,
        XLA_FFI_Communicator_Get_Args::LAYOUT,
        XLA_FFI_Collectives_Extension_R9::LAYOUT,
    ],
    &[
        XLA_FFI_ReplicaGroup::LAYOUT,
        XLA_FFI_Communicator_Request_Args::LAYOUT,
        XLA_FFI_Communicator_Get_Args::LAYOUT,
        XLA_FFI_CollectiveMemoryRegion::LAYOUT,
        XLA_FFI_Window_Request_Args::LAYOUT,
        XLA_FFI_Window_Get_Args::LAYOUT,
        XLA_FFI_Collectives_Extension_R10::LAYOUT,
    ],
    &[
        XLA_FFI_ReplicaGroup::LAYOUT,
        XLA_FFI_Communicator_Request_Args::LAYOUT,
        XLA_FFI_Communicator_Get_Args::LAYOUT,
        XLA_FFI_CollectiveMemoryRegion::LAYOUT,
        XLA_FFI_Window_Request_Args::LAYOUT,
        XLA_FFI_Window_Get_Args::LAYOUT,
        XLA_FFI_DeviceCommunicator_Requirements::LAYOUT,
        XLA_FFI_DeviceCommunicator_Request_Args::LAYOUT,
        XLA_FFI_DeviceCommunicator_Get_Args::LAYOUT,
        XLA_FFI_Collectives_Extension::LAYOUT,
    ],
];

/// All enumerations of the main header of the ABI.
pub const ENUMS: &[EnumLayout] = &[
    XLA_FFI_InternalExtension_Type::ENUM,
    XLA_FFI_Error_Code::ENUM,
    XLA_FFI_DataType::ENUM,
    XLA_FFI_ArgType::ENUM,
    XLA_FFI_RetType::ENUM,
    XLA_FFI_AttrType::ENUM,
    XLA_FFI_ExecutionStage::ENUM,
    XLA_FFI_Handler_TraitsBits::ENUM,
];

/// The enumerations of the record extension's header.
pub const RECORD_ENUMS: &[EnumLayout] = &[
    XLA_FFI_RecordAction::ENUM,
    XLA_FFI_SourceFormat::ENUM,
    XLA_FFI_KernelArgType::ENUM,
];

/// The enumerations of the collectives extension's header.
pub const COLLECTIVES_ENUMS: &[EnumLayout] = &[XLA_FFI_CollectiveGroupMode::ENUM];

/// A type whose C name changed while the type's layout did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The type's name in this crate and in the newest header.
    pub new: &'static str,
    /// The type's name in older headers.
    pub old: &'static str,
    /// The newest revision in which the type has the old name.
    pub until: Revision,
}

/// All renamed types. For renamed functions, see [`Slot::name`]. On r0, the field `extension_start`
/// is called `priv` and has the type `void*`.
pub const RENAMES: &[Rename] = &[
    up_to_r8("XLA_FFI_InternalExtension", "XLA_FFI_Extension_Base"),
    up_to_r8("XLA_FFI_InternalExtension_Type", "XLA_FFI_Extension_Type"),
    up_to_r8("XLA_FFI_InvokeContext", "XLA_FFI_ExecutionContext"),
    up_to_r8(
        "XLA_FFI_InvokeContext_Get_Args",
        "XLA_FFI_ExecutionContext_Get_Args",
    ),
];

const fn up_to_r8(new: &'static str, old: &'static str) -> Rename {
    let until = Revision::R8;
    Rename { new, old, until }
}
