//! The record extension (from r9): a recorder that stores the commands of handlers, for tests.

use crate::api::error_or_null;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use xla_ffi_sys::{Error, ErrorCode, Result};
use xla_ffi_sys::{
    Feature, Revision, XLA_FFI_Command, XLA_FFI_Error, XLA_FFI_Extension, XLA_FFI_Extension_Record,
    XLA_FFI_ExtensionId, XLA_FFI_KernelArgs, XLA_FFI_LaunchDims, XLA_FFI_Record_Extension,
    XLA_FFI_RecordAction, XLA_FFI_RecordApi, XLA_FFI_RecordContext, XLA_FFI_RecordFrame,
    XLA_FFI_SourceFormat,
};

/// Handlers receive commands as numbers above this value, instead of addresses.
const BASE: usize = 0xC0D_u64.wrapping_shl(52) as usize;

/// An argument of a recorded kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelArg {
    /// An address in device memory.
    Pointer(usize),
    /// A copy of the bytes of a host value.
    Value(Vec<u8>),
}

/// An operation that a handler recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recorded {
    /// A launch of a kernel.
    Launch {
        /// The name of the kernel.
        kernel: String,
        /// The kernel's code: PTX text, a cubin, or the bytes of a function pointer.
        source: Vec<u8>,
        /// The format of `source`.
        format: XLA_FFI_SourceFormat,
        /// The sizes of the grid, the block and the cluster.
        dims: XLA_FFI_LaunchDims,
        /// The size of the dynamic shared memory in bytes.
        shared_memory: u32,
        /// The kernel's arguments after the last update of the command.
        args: Vec<KernelArg>,
    },
    /// A copy from device memory to device memory.
    Memcpy {
        /// The destination address.
        dst: usize,
        /// The source address.
        src: usize,
        /// The number of bytes to copy.
        size: usize,
    },
    /// An empty command. It only orders other commands.
    Empty,
}

/// A recorded command and its dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// The recorded operation.
    pub what: Recorded,
    /// The indices of the commands that must run before this command, counted from 0 in the order of recording.
    pub after: Vec<usize>,
    /// The number of updates of the command.
    pub updates: u32,
}

#[derive(Default)]
struct Tape {
    commands: Vec<Command>,
    capture: bool,
}

/// The recorder's state. Handlers receive its address as the record context.
struct Core {
    revision: Revision,
    tape: Mutex<Tape>,
}

/// The commands of a call, in the order in which the call's handler last created them.
struct Owned {
    /// The call whose commands these are. The weak reference prevents a later call from having the same address.
    call: Weak<()>,
    commands: Vec<*const XLA_FFI_Command>,
}

/// Stores the commands that handlers record. Pass a recorder to
/// [`PreparedCall::record`](crate::PreparedCall::record). The first recording of a call creates commands; later
/// recordings update them.
pub struct Recorder {
    core: Box<Core>,
    calls: Vec<Owned>,
    limit: usize,
}

// SAFETY: the pointers in the recorder are never dereferenced.
unsafe impl Send for Recorder {}
// SAFETY: a lock protects the list of commands; the pointers are never dereferenced.
unsafe impl Sync for Recorder {}

impl Recorder {
    /// Returns a recorder with the extension's version in `revision`, with room for `limit` commands per call.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` before r9.
    pub fn new(revision: Revision, limit: usize) -> Result<Self> {
        let since = Feature::RecordStage.since();
        if revision < since {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                format!(
                    "the record stage requires {since} (jaxlib {}) or later, this is {revision}",
                    since.first_jaxlib()
                ),
            ));
        }
        let core = Box::new(Core {
            revision,
            tape: Mutex::default(),
        });
        Ok(Self {
            core,
            calls: vec![],
            limit,
        })
    }

    /// Returns all recorded commands.
    #[must_use]
    pub fn commands(&self) -> Vec<Command> {
        self.core.tape().commands.clone()
    }

    /// Returns true if a handler requested stream capture of its execute stage instead of recording.
    #[must_use]
    pub fn wants_stream_capture(&self) -> bool {
        self.core.tape().capture
    }

    /// Runs `body` with the address of the extension that a handler uses. The first recording of a call creates
    /// commands; later recordings update them.
    pub(crate) fn with_extension<T>(
        &mut self,
        call: &Arc<()>,
        body: impl FnOnce(*const XLA_FFI_Extension) -> Result<T>,
    ) -> Result<T> {
        self.calls.retain(|owned| owned.call.strong_count() > 0);
        let is_it = |owned: &Owned| owned.call.as_ptr() == Arc::as_ptr(call);
        let index = self.calls.iter().position(is_it).unwrap_or_else(|| {
            self.calls.push(Owned {
                call: Arc::downgrade(call),
                commands: vec![],
            });
            self.calls.len() - 1
        });
        let commands = &mut self.calls[index].commands;
        let update = !commands.is_empty();
        let mut count = commands.len() as i64;
        commands.resize(self.limit, std::ptr::null());
        let mut frame = XLA_FFI_RecordFrame {
            record_ctx: std::ptr::from_ref::<Core>(&self.core).cast_mut().cast(),
            api: &raw const API,
            action: if update {
                XLA_FFI_RecordAction::Update
            } else {
                XLA_FFI_RecordAction::Create
            },
            commands: commands.as_mut_ptr(),
            num_commands: &raw mut count,
            max_commands: self.limit as i64,
        };
        let minor_version = if self.core.revision < Feature::KernelPointers.since() {
            1
        } else {
            2
        };
        let extension = XLA_FFI_Record_Extension {
            extension_base: XLA_FFI_Extension {
                struct_size: XLA_FFI_Record_Extension::STRUCT_SIZE,
                id: XLA_FFI_ExtensionId {
                    extension_type: XLA_FFI_Extension_Record,
                    major_version: 0,
                    minor_version,
                },
                next: std::ptr::null(),
            },
            record_frame: &raw mut frame,
        };
        let outcome = body((&raw const extension).cast());
        let left = usize::try_from(count).unwrap_or(usize::MAX);
        commands.truncate(left.min(self.limit));
        if left > self.limit {
            return Err(Error::invalid_argument(format!(
                "the handler left {count} commands, there is room for {}",
                self.limit
            )));
        }
        outcome
    }
}

impl Core {
    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, what: Recorded, after: Vec<usize>) -> *const XLA_FFI_Command {
        let mut tape = self.tape();
        tape.commands.push(Command {
            what,
            after,
            updates: 0,
        });
        (BASE + 16 * tape.commands.len()) as *const XLA_FFI_Command
    }
}

fn index(tape: &Tape, command: *const XLA_FFI_Command) -> Result<usize> {
    (command as usize)
        .checked_sub(BASE + 16)
        .map(|offset| offset / 16)
        .filter(|index| *index < tape.commands.len())
        .ok_or_else(|| {
            Error::invalid_argument(format!("{command:p} is not a command of this recorder"))
        })
}

/// Returns the state of the recorder of a context.
///
/// # Safety
/// `ctx` must be null or the record context of the call in progress.
unsafe fn core<'a>(ctx: *mut XLA_FFI_RecordContext) -> Result<&'a Core> {
    // SAFETY: guaranteed by the caller.
    unsafe { ctx.cast::<Core>().as_ref() }
        .ok_or_else(|| Error::invalid_argument("the record context is a null pointer"))
}

/// Returns the indices of the commands in a handler's list of dependencies.
///
/// # Safety
/// The list must have `count` entries; if `count` is 0, it may be null.
unsafe fn dependencies(
    core: &Core,
    list: *const *const XLA_FFI_Command,
    count: u32,
) -> Result<Vec<usize>> {
    if count == 0 {
        return Ok(vec![]);
    }
    if list.is_null() {
        return Err(Error::invalid_argument(
            "the dependencies are a null pointer",
        ));
    }
    // SAFETY: guaranteed by the caller.
    let list = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let tape = core.tape();
    list.iter().map(|command| index(&tape, *command)).collect()
}

/// Copies the arguments of a kernel.
///
/// # Safety
/// `args` must be null or point to a complete struct.
unsafe fn arguments(args: *const XLA_FFI_KernelArgs) -> Result<Vec<KernelArg>> {
    // SAFETY: guaranteed by the caller.
    let Some(args) = (unsafe { args.as_ref() }) else {
        return Ok(vec![]);
    };
    let count = usize::try_from(args.num_args)
        .map_err(|_| Error::invalid_argument(format!("there are {} arguments", args.num_args)))?;
    if count == 0 {
        return Ok(vec![]);
    }
    if args.args.is_null() {
        return Err(Error::invalid_argument(
            "the kernel's arguments are a null pointer",
        ));
    }
    // SAFETY: guaranteed by the caller.
    let list = unsafe { std::slice::from_raw_parts(args.args, count) };
    list.iter()
        .map(|arg| match arg.r#type.0 {
            0 => Ok(KernelArg::Pointer(arg.arg_address as usize)),
            1 => {
                let size = usize::try_from(arg.size).map_err(|_| {
                    Error::invalid_argument(format!("a value has {} bytes", arg.size))
                })?;
                if arg.arg_address.is_null() && size > 0 {
                    return Err(Error::invalid_argument("a value is a null pointer"));
                }
                let bytes: &[u8] = if size == 0 {
                    &[]
                } else {
                    // SAFETY: handlers pass values with as many bytes as their sizes, as the ABI requires.
                    unsafe { std::slice::from_raw_parts(arg.arg_address.cast(), size) }
                };
                Ok(KernelArg::Value(bytes.to_vec()))
            }
            other => Err(Error::invalid_argument(format!(
                "{other} is not a kind of kernel argument"
            ))),
        })
        .collect()
}

/// Writes a new command to the handler's out-parameter.
///
/// # Safety
/// `out` must be null or valid for writing a pointer.
unsafe fn hand_out(
    out: *mut *const XLA_FFI_Command,
    command: *const XLA_FFI_Command,
) -> Result<()> {
    if out.is_null() {
        return Err(Error::invalid_argument("out_command is a null pointer"));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { out.write(command) };
    Ok(())
}

static API: XLA_FFI_RecordApi = XLA_FFI_RecordApi {
    create_launch: Some(create_launch),
    update_launch: Some(update_launch),
    create_memcpy_d2d: Some(create_memcpy_d2d),
    update_memcpy_d2d: Some(update_memcpy_d2d),
    request_stream_capture: Some(request_stream_capture),
    create_empty_command: Some(create_empty_command),
};

unsafe extern "C" fn create_launch(
    ctx: *mut XLA_FFI_RecordContext,
    kernel_name: *const c_char,
    kernel_data: *const c_void,
    kernel_size: i64,
    format: XLA_FFI_SourceFormat,
    dims: XLA_FFI_LaunchDims,
    shared_memory: u32,
    _uses_pdl: i32,
    args: *const XLA_FFI_KernelArgs,
    list: *const *const XLA_FFI_Command,
    count: u32,
    out: *mut *const XLA_FFI_Command,
) -> *mut XLA_FFI_Error {
    error_or_null("create_launch", || {
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let core = unsafe { core(ctx) }?;
        if kernel_data.is_null() {
            return Err(Error::invalid_argument("the kernel is a null pointer"));
        }
        let source = match format {
            XLA_FFI_SourceFormat::FUNCTION_PTR
                if core.revision < Feature::KernelPointers.since() =>
            {
                return Err(Error::new(
                    ErrorCode::Unimplemented,
                    format!(
                        "kernels by function pointer need version 0.2 of the extension (jaxlib {})",
                        Feature::KernelPointers.since().first_jaxlib()
                    ),
                ));
            }
            XLA_FFI_SourceFormat::FUNCTION_PTR => (kernel_data as usize).to_ne_bytes().to_vec(),
            XLA_FFI_SourceFormat::PTX | XLA_FFI_SourceFormat::CUBIN => {
                let size = usize::try_from(kernel_size).map_err(|_| {
                    Error::invalid_argument(format!("the kernel has {kernel_size} bytes"))
                })?;
                // SAFETY: handlers pass kernels with as many bytes as their sizes, as the ABI requires.
                unsafe { std::slice::from_raw_parts(kernel_data.cast::<u8>(), size) }.to_vec()
            }
            other => {
                return Err(Error::invalid_argument(format!(
                    "{} is not a source format",
                    other.0
                )));
            }
        };
        let kernel = if kernel_name.is_null() {
            String::new()
        } else {
            // SAFETY: handlers pass a NUL-terminated name, as the ABI requires.
            unsafe { CStr::from_ptr(kernel_name) }
                .to_string_lossy()
                .into_owned()
        };
        // SAFETY: handlers pass null or complete kernel arguments, as the ABI requires.
        let args = unsafe { arguments(args) }?;
        // SAFETY: handlers pass lists with `count` entries, as the ABI requires.
        let after = unsafe { dependencies(core, list, count) }?;
        let launch = Recorded::Launch {
            kernel,
            source,
            format,
            dims,
            shared_memory,
            args,
        };
        // SAFETY: handlers pass null or a valid out-parameter, as the ABI requires.
        unsafe { hand_out(out, core.push(launch, after)) }
    })
}

unsafe extern "C" fn update_launch(
    ctx: *mut XLA_FFI_RecordContext,
    command: *const XLA_FFI_Command,
    new: *const XLA_FFI_KernelArgs,
) -> *mut XLA_FFI_Error {
    error_or_null("update_launch", || {
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let core = unsafe { core(ctx) }?;
        // SAFETY: handlers pass null or complete kernel arguments, as the ABI requires.
        let new = unsafe { arguments(new) }?;
        let mut tape = core.tape();
        let index = index(&tape, command)?;
        let command = &mut tape.commands[index];
        let Recorded::Launch { args, .. } = &mut command.what else {
            return Err(Error::invalid_argument(format!(
                "command {index} is not a launch"
            )));
        };
        if args.len() != new.len() {
            return Err(Error::invalid_argument(format!(
                "the launch has {} arguments, {} are given",
                args.len(),
                new.len()
            )));
        }
        *args = new;
        command.updates += 1;
        Ok(())
    })
}

unsafe extern "C" fn create_memcpy_d2d(
    ctx: *mut XLA_FFI_RecordContext,
    dst: *mut c_void,
    src: *mut c_void,
    size: i64,
    list: *const *const XLA_FFI_Command,
    count: u32,
    out: *mut *const XLA_FFI_Command,
) -> *mut XLA_FFI_Error {
    error_or_null("create_memcpy_d2d", || {
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let core = unsafe { core(ctx) }?;
        let copy = memcpy(dst, src, size)?;
        // SAFETY: handlers pass lists with `count` entries, as the ABI requires.
        let after = unsafe { dependencies(core, list, count) }?;
        // SAFETY: handlers pass null or a valid out-parameter, as the ABI requires.
        unsafe { hand_out(out, core.push(copy, after)) }
    })
}

fn memcpy(dst: *mut c_void, src: *mut c_void, size: i64) -> Result<Recorded> {
    let size = usize::try_from(size)
        .map_err(|_| Error::invalid_argument(format!("{size} bytes are copied")))?;
    Ok(Recorded::Memcpy {
        dst: dst as usize,
        src: src as usize,
        size,
    })
}

unsafe extern "C" fn update_memcpy_d2d(
    ctx: *mut XLA_FFI_RecordContext,
    command: *const XLA_FFI_Command,
    dst: *mut c_void,
    src: *mut c_void,
    size: i64,
) -> *mut XLA_FFI_Error {
    error_or_null("update_memcpy_d2d", || {
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let core = unsafe { core(ctx) }?;
        let copy = memcpy(dst, src, size)?;
        let mut tape = core.tape();
        let index = index(&tape, command)?;
        let command = &mut tape.commands[index];
        if !matches!(command.what, Recorded::Memcpy { .. }) {
            return Err(Error::invalid_argument(format!(
                "command {index} is not a copy"
            )));
        }
        command.what = copy;
        command.updates += 1;
        Ok(())
    })
}

unsafe extern "C" fn request_stream_capture(ctx: *mut XLA_FFI_RecordContext) -> *mut XLA_FFI_Error {
    error_or_null("request_stream_capture", || {
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        unsafe { core(ctx) }?.tape().capture = true;
        Ok(())
    })
}

unsafe extern "C" fn create_empty_command(
    ctx: *mut XLA_FFI_RecordContext,
    list: *const *const XLA_FFI_Command,
    count: u32,
    out: *mut *const XLA_FFI_Command,
) -> *mut XLA_FFI_Error {
    error_or_null("create_empty_command", || {
        // SAFETY: handlers pass the context of their frame, as the ABI requires.
        let core = unsafe { core(ctx) }?;
        // SAFETY: handlers pass lists with `count` entries, as the ABI requires.
        let after = unsafe { dependencies(core, list, count) }?;
        // SAFETY: handlers pass null or a valid out-parameter, as the ABI requires.
        unsafe { hand_out(out, core.push(Recorded::Empty, after)) }
    })
}
