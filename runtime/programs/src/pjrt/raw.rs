//! PJRT's C interface: the structs that this crate uses, with their offsets.
//!
//! The layouts are from PJRT's `pjrt_c_api.h` and `pjrt_c_api_ffi_extension.h`, from version 0.57, whose table has
//! the same order as newer versions. Structs only grow at the end. Plugins refuse a struct that is smaller than
//! theirs and ignore additional fields, so older plugins also accept these structs.

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    /// An error that a function of the plugin returned.
    RawError,
    /// An event, which occurs when an asynchronous operation is complete.
    RawEvent,
    /// A client of a plugin, with devices and the programs compiled for them.
    RawClient,
    /// A device of a client.
    RawDevice,
    /// An executable that is loaded on devices.
    RawLoaded,
    /// An executable that is not loaded on a device.
    RawExecutable,
    /// An array on a device.
    RawBuffer,
    /// The context of an execution, which contains the user data.
    RawContext,
}

/// The first fields of an extension. The type determines the complete struct.
#[repr(C)]
pub(super) struct RawExtension {
    pub(super) struct_size: usize,
    pub(super) kind: c_int,
    pub(super) next: *const Self,
}

/// The extension type of the FFI extension.
pub(super) const FFI_EXTENSION: c_int = 5;

/// The first fields of the function table. The functions follow them.
#[repr(C)]
pub(super) struct RawApi {
    pub(super) struct_size: usize,
    pub(super) extension_start: *const RawExtension,
    pub(super) version_size: usize,
    pub(super) version_extension: *const RawExtension,
    pub(super) major: c_int,
    pub(super) minor: c_int,
}

const _: () = assert!(size_of::<RawApi>() == 40 && size_of::<RawExtension>() == 24);

/// A struct that starts with its size, so that newer and older versions accept it.
///
/// # Safety
/// Zero bytes must be a valid value of the type, and its first field must be `struct_size`.
pub(super) unsafe trait SizedStruct: Sized {
    /// The size that PJRT uses, without the padding after the last field.
    const STRUCT_SIZE: usize;

    /// Returns a value whose bytes are zero, except the size.
    fn new() -> Self {
        let mut made = std::mem::MaybeUninit::<Self>::zeroed();
        // SAFETY: the trait's contract guarantees that the first field is a usize.
        unsafe { made.as_mut_ptr().cast::<usize>().write(Self::STRUCT_SIZE) };
        // SAFETY: the trait's contract guarantees that zero bytes and any size are a valid value.
        unsafe { made.assume_init() }
    }
}

/// The arguments of a function in PJRT's table.
pub(super) trait Args: SizedStruct {
    /// The name of the function in PJRT's header.
    const NAME: &'static str;
    /// The index of the function in PJRT's table.
    const SLOT: usize;
}

/// The name, size and offsets of a struct, for the comparison with PJRT's header.
#[cfg(test)]
pub(super) struct Layout {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) fields: &'static [(&'static str, usize)],
}

macro_rules! structs {
    ($(
        $(#[$doc:meta])*
        $name:ident = $c:literal size $size:literal $(slot $slot:literal $function:literal)? {
            $($field:ident: $ty:ty = $offset:literal),* $(,)?
        }
    )*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub(super) struct $name {
                pub(super) struct_size: usize,
                pub(super) extension_start: *const RawExtension,
                $(pub(super) $field: $ty,)*
            }
            // SAFETY: the struct consists of its size, numbers, raw pointers and optional functions.
            unsafe impl SizedStruct for $name {
                const STRUCT_SIZE: usize = $size;
            }
            $(impl Args for $name {
                const NAME: &'static str = $function;
                const SLOT: usize = $slot;
            })?
            const _: () = {
                $(assert!(std::mem::offset_of!($name, $field) == $offset);)*
                assert!(size_of::<$name>() >= $size && size_of::<$name>() < $size + 8);
            };
        )*

        /// The layouts of all structs that exist in PJRT's headers.
        #[cfg(test)]
        pub(super) const LAYOUTS: &[Layout] = &[$(Layout {
            name: $c,
            size: $size,
            fields: &[$((stringify!($field), $offset)),*],
        }),*];

        /// The names and table indices of the functions that this crate uses.
        #[cfg(test)]
        pub(super) const SLOTS: &[(&str, usize)] = &[$($(($function, $slot),)?)*];
    };
}

structs! {
    /// Frees an error.
    ErrorDestroy = "PJRT_Error_Destroy_Args" size 24 slot 0 "PJRT_Error_Destroy" {
        error: *mut RawError = 16,
    }
    /// Gets the message of an error.
    ErrorMessage = "PJRT_Error_Message_Args" size 40 slot 1 "PJRT_Error_Message" {
        error: *const RawError = 16,
        message: *const c_char = 24,
        message_size: usize = 32,
    }
    /// Gets the code of an error.
    ErrorGetCode = "PJRT_Error_GetCode_Args" size 28 slot 2 "PJRT_Error_GetCode" {
        error: *const RawError = 16,
        code: c_int = 24,
    }
    /// Initialises a plugin; called once per process, before all other functions.
    PluginInitialize = "PJRT_Plugin_Initialize_Args" size 16 slot 3 "PJRT_Plugin_Initialize" {
    }
    /// Frees an event.
    EventDestroy = "PJRT_Event_Destroy_Args" size 24 slot 5 "PJRT_Event_Destroy" {
        event: *mut RawEvent = 16,
    }
    /// Waits for an event, and returns the event's error.
    EventAwait = "PJRT_Event_Await_Args" size 24 slot 8 "PJRT_Event_Await" {
        event: *mut RawEvent = 16,
    }
    /// Creates a client.
    ClientCreate = "PJRT_Client_Create_Args" size 88 slot 10 "PJRT_Client_Create" {
        create_options: *const c_void = 16,
        num_options: usize = 24,
        kv_get_callback: *const c_void = 32,
        kv_get_user_arg: *mut c_void = 40,
        kv_put_callback: *const c_void = 48,
        kv_put_user_arg: *mut c_void = 56,
        client: *mut RawClient = 64,
        kv_try_get_callback: *const c_void = 72,
        kv_try_get_user_arg: *mut c_void = 80,
    }
    /// Destroys a client.
    ClientDestroy = "PJRT_Client_Destroy_Args" size 24 slot 11 "PJRT_Client_Destroy" {
        client: *mut RawClient = 16,
    }
    /// Gets the name of a client's platform, for example `cpu`.
    ClientPlatformName = "PJRT_Client_PlatformName_Args" size 40 slot 12 "PJRT_Client_PlatformName" {
        client: *mut RawClient = 16,
        platform_name: *const c_char = 24,
        platform_name_size: usize = 32,
    }
    /// Gets the devices that this process may use.
    ClientAddressableDevices = "PJRT_Client_AddressableDevices_Args" size 40
    slot 16 "PJRT_Client_AddressableDevices" {
        client: *mut RawClient = 16,
        addressable_devices: *const *mut RawDevice = 24,
        num_addressable_devices: usize = 32,
    }
    /// A program in a format such as StableHLO.
    RawProgram = "PJRT_Program" size 48 {
        code: *const c_char = 16,
        code_size: usize = 24,
        format: *const c_char = 32,
        format_size: usize = 40,
    }
    /// Compiles a program and loads it on the client's devices.
    ClientCompile = "PJRT_Client_Compile_Args" size 56 slot 20 "PJRT_Client_Compile" {
        client: *mut RawClient = 16,
        program: *const RawProgram = 24,
        compile_options: *const c_char = 32,
        compile_options_size: usize = 40,
        executable: *mut RawLoaded = 48,
    }
    /// Copies an array from the host to a device.
    BufferFromHost = "PJRT_Client_BufferFromHostBuffer_Args" size 120
    slot 22 "PJRT_Client_BufferFromHostBuffer" {
        client: *mut RawClient = 16,
        data: *const c_void = 24,
        r#type: c_int = 32,
        dims: *const i64 = 40,
        num_dims: usize = 48,
        byte_strides: *const i64 = 56,
        num_byte_strides: usize = 64,
        host_buffer_semantics: c_int = 72,
        device: *mut RawDevice = 80,
        memory: *mut c_void = 88,
        device_layout: *mut c_void = 96,
        done_with_host_buffer: *mut RawEvent = 104,
        buffer: *mut RawBuffer = 112,
    }
    /// Frees an executable.
    ExecutableDestroy = "PJRT_Executable_Destroy_Args" size 24 slot 40 "PJRT_Executable_Destroy" {
        executable: *mut RawExecutable = 16,
    }
    /// Gets the number of arrays in an executable's result.
    ExecutableNumOutputs = "PJRT_Executable_NumOutputs_Args" size 32
    slot 44 "PJRT_Executable_NumOutputs" {
        executable: *mut RawExecutable = 16,
        num_outputs: usize = 24,
    }
    /// Unloads and frees an executable.
    LoadedDestroy = "PJRT_LoadedExecutable_Destroy_Args" size 24
    slot 50 "PJRT_LoadedExecutable_Destroy" {
        executable: *mut RawLoaded = 16,
    }
    /// Gets the executable of a loaded executable. The caller must free it.
    LoadedGetExecutable = "PJRT_LoadedExecutable_GetExecutable_Args" size 32
    slot 51 "PJRT_LoadedExecutable_GetExecutable" {
        loaded_executable: *mut RawLoaded = 16,
        executable: *mut RawExecutable = 24,
    }
    /// The options of an execution.
    ExecuteOptions = "PJRT_ExecuteOptions" size 112 {
        send_callbacks: *mut c_void = 16,
        recv_callbacks: *mut c_void = 24,
        num_send_ops: usize = 32,
        num_recv_ops: usize = 40,
        launch_id: c_int = 48,
        non_donatable_input_indices: *const i64 = 56,
        num_non_donatable_input_indices: usize = 64,
        context: *mut RawContext = 72,
        call_location: *const c_char = 80,
        num_tasks: usize = 88,
        task_ids: *mut c_int = 96,
        incarnation_ids: *mut i64 = 104,
    }
    /// Runs an executable.
    Execute = "PJRT_LoadedExecutable_Execute_Args" size 80 slot 55 "PJRT_LoadedExecutable_Execute" {
        executable: *mut RawLoaded = 16,
        options: *mut ExecuteOptions = 24,
        argument_lists: *const *const *mut RawBuffer = 32,
        num_devices: usize = 40,
        num_args: usize = 48,
        output_lists: *const *mut *mut RawBuffer = 56,
        device_complete_events: *mut *mut RawEvent = 64,
        execute_device: *mut RawDevice = 72,
    }
    /// Frees an array on a device.
    BufferDestroy = "PJRT_Buffer_Destroy_Args" size 24 slot 58 "PJRT_Buffer_Destroy" {
        buffer: *mut RawBuffer = 16,
    }
    /// Gets the element type of an array.
    BufferElementType = "PJRT_Buffer_ElementType_Args" size 28 slot 59 "PJRT_Buffer_ElementType" {
        buffer: *mut RawBuffer = 16,
        r#type: c_int = 24,
    }
    /// Gets the dimensions of an array.
    BufferDimensions = "PJRT_Buffer_Dimensions_Args" size 40 slot 60 "PJRT_Buffer_Dimensions" {
        buffer: *mut RawBuffer = 16,
        dims: *const i64 = 24,
        num_dims: usize = 32,
    }
    /// A layout as an order of the dimensions in memory.
    TiledLayout = "PJRT_Buffer_MemoryLayout_Tiled" size 56 {
        minor_to_major: *const i64 = 16,
        minor_to_major_size: usize = 24,
        tile_dims: *const i64 = 32,
        tile_dim_sizes: *const usize = 40,
        num_tiles: usize = 48,
    }
    /// The layout of an array in memory, as an order of the dimensions.
    MemoryLayout = "PJRT_Buffer_MemoryLayout" size 76 {
        tiled: TiledLayout = 16,
        r#type: c_int = 72,
    }
    /// Copies an array from a device to the host.
    BufferToHost = "PJRT_Buffer_ToHostBuffer_Args" size 56 slot 70 "PJRT_Buffer_ToHostBuffer" {
        src: *mut RawBuffer = 16,
        host_layout: *mut MemoryLayout = 24,
        dst: *mut c_void = 32,
        dst_size: usize = 40,
        event: *mut RawEvent = 48,
    }
    /// Creates an execution context.
    ContextCreate = "PJRT_ExecuteContext_Create_Args" size 24 slot 98 "PJRT_ExecuteContext_Create" {
        context: *mut RawContext = 16,
    }
    /// Frees an execution context.
    ContextDestroy = "PJRT_ExecuteContext_Destroy_Args" size 24
    slot 99 "PJRT_ExecuteContext_Destroy" {
        context: *mut RawContext = 16,
    }
}

/// The value of `host_buffer_semantics` for data that is only valid during the call.
pub(super) const IMMUTABLE_ONLY_DURING_CALL: c_int = 0;
/// The value for a [`MemoryLayout`] that contains an order of the dimensions.
pub(super) const LAYOUT_TILED: c_int = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::path::Path;
    use std::process::Command;
    use xla_ffi_testing::skip;

    /// Compares the layouts with the header in the plugin's wheel, as a C compiler computes them.
    #[test]
    fn layouts_are_those_of_the_header() {
        let test = "layouts_are_those_of_the_header";
        let Some(plugin) = std::env::var_os("XLA_FFI_PJRT_PLUGIN") else {
            skip(test, "XLA_FFI_PJRT_PLUGIN names no plugin");
            return;
        };
        let folder = Path::new(&plugin).parent().unwrap().join("include");
        assert!(folder.join("pjrt_c_api.h").is_file(), "{folder:?}");
        let mut text = String::from("#include \"pjrt_c_api.h\"\n");
        for layout in LAYOUTS {
            let name = layout.name;
            writeln!(
                text,
                "_Static_assert({name}_STRUCT_SIZE == {}, \"{name}\");",
                layout.size
            )
            .unwrap();
            for (field, offset) in layout.fields {
                let field = field.trim_start_matches("r#");
                writeln!(
                    text,
                    "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");"
                )
                .unwrap();
            }
        }
        assert!(LAYOUTS.len() > 25 && SLOTS.len() > 20);
        for (function, slot) in SLOTS {
            let offset = size_of::<RawApi>() + 8 * slot;
            writeln!(
                text,
                "_Static_assert(offsetof(PJRT_Api, {function}) == {offset}, \"{function}\");"
            )
            .unwrap();
        }
        writeln!(
            text,
            "_Static_assert(PJRT_Extension_Type_FFI == {FFI_EXTENSION}, \"\");\n\
             _Static_assert(PJRT_HostBufferSemantics_kImmutableOnlyDuringCall == \
             {IMMUTABLE_ONLY_DURING_CALL}, \"\");\n\
             _Static_assert(PJRT_Buffer_MemoryLayout_Type_Tiled == {LAYOUT_TILED}, \"\");"
        )
        .unwrap();
        for (dtype, number) in super::super::buffer::TYPES {
            writeln!(
                text,
                "_Static_assert(PJRT_Buffer_Type_{} == {number}, \"{dtype}\");",
                dtype.c_name()
            )
            .unwrap();
        }
        let source = std::env::temp_dir().join(format!("pjrt-layout-{}.c", std::process::id()));
        std::fs::write(&source, text).unwrap();
        let answer = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-std=c11", "-fsyntax-only", "-I"])
            .arg(&folder)
            .arg(&source)
            .output();
        std::fs::remove_file(&source).unwrap();
        match answer {
            Ok(output) => assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(error) => skip(test, &format!("no C compiler: {error}")),
        }
    }
}
