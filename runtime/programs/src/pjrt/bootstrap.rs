//! Accesses the function table of the XLA copy in a plugin. This module runs a job inside a call of a handler, and
//! passes the job the table of the handler's call frame.

use super::executable::Loaded;
use super::extension::Extension;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use xla_ffi_runtime::{Bundle, Error, ErrorCode, Result, Stage, Tensor};
use xla_ffi_sys::{
    Feature, Revision, XLA_FFI_Api, XLA_FFI_Buffer, XLA_FFI_ByteSpan, XLA_FFI_CallFrame,
    XLA_FFI_Error, XLA_FFI_Error_Code, XLA_FFI_Error_Create_Args, XLA_FFI_Error_Destroy_Args,
    XLA_FFI_Error_GetDetails_Args, XLA_FFI_Handler_Bundle, XLA_FFI_Handler_Bundle_R0,
    XLA_FFI_Handler_Register_Args, XLA_FFI_Handler_Register_Args_R0,
    XLA_FFI_InternalExtension_Type, XLA_FFI_Metadata_Extension,
};

/// The function `xla_ffi_register` of a library.
pub(super) type Entry =
    unsafe extern "C" fn(api: *const XLA_FFI_Api, platform: *const c_char) -> *mut XLA_FFI_Error;

/// The function table of an XLA copy, which handlers receive.
///
/// Invariant: the pointer refers to a host's function table. The functions that this module uses have the same
/// offsets in every revision.
#[derive(Clone, Copy)]
pub(super) struct Table {
    api: *const XLA_FFI_Api,
}

// SAFETY: the table is constant.
unsafe impl Send for Table {}

fn span(text: &str) -> XLA_FFI_ByteSpan {
    XLA_FFI_ByteSpan {
        ptr: text.as_ptr().cast(),
        len: text.len(),
    }
}

impl Table {
    /// Returns the function table of a call frame.
    pub(super) fn of(api: *const XLA_FFI_Api) -> Self {
        Self { api }
    }

    /// Returns the minor version of XLA FFI.
    fn minor(self) -> i32 {
        // SAFETY: the invariant of `Table` guarantees the table. The field has the same offset in every revision.
        unsafe { (*self.api).api_version.minor_version }
    }

    /// Converts an error of this host to an [`Error`], and frees the host's error.
    fn into_result(self, error: *mut XLA_FFI_Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let mut details = XLA_FFI_Error_GetDetails_Args {
            struct_size: XLA_FFI_Error_GetDetails_Args::STRUCT_SIZE,
            extension_start: ptr::null_mut(),
            error,
            message: ptr::null(),
            errc: ErrorCode::Internal.to_raw(),
        };
        // SAFETY: the invariant of `Table` guarantees the table.
        if let Some(get) = unsafe { (*self.api).XLA_FFI_Error_GetDetails } {
            // SAFETY: hosts of every revision accept the longer form of the arguments, and the error is not freed
            // yet.
            unsafe { get(&raw mut details) };
        }
        let message = if details.message.is_null() {
            "the host gave an error without a text".into()
        } else {
            // SAFETY: the message is a C string that is valid as long as the error.
            let text = unsafe { CStr::from_ptr(details.message) };
            text.to_string_lossy().into_owned()
        };
        let mut freed = XLA_FFI_Error_Destroy_Args {
            struct_size: XLA_FFI_Error_Destroy_Args::STRUCT_SIZE,
            extension_start: ptr::null_mut(),
            error,
        };
        // SAFETY: the invariant of `Table` guarantees the table.
        if let Some(destroy) = unsafe { (*self.api).XLA_FFI_Error_Destroy } {
            // SAFETY: the caller passed ownership of the error, which is freed once.
            unsafe { destroy(&raw mut freed) };
        }
        Err(Error::new(
            ErrorCode::from_raw(details.errc).unwrap_or(ErrorCode::Internal),
            message,
        ))
    }

    /// Creates an error of this host, for a handler to return.
    pub(super) fn error(self, code: XLA_FFI_Error_Code, text: &str) -> *mut XLA_FFI_Error {
        let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        let mut args = XLA_FFI_Error_Create_Args {
            struct_size: XLA_FFI_Error_Create_Args::STRUCT_SIZE,
            extension_start: ptr::null_mut(),
            message: text.as_ptr(),
            errc: code,
        };
        // SAFETY: the invariant of `Table` guarantees the table.
        match unsafe { (*self.api).XLA_FFI_Error_Create } {
            // SAFETY: the message outlives the call.
            Some(create) => unsafe { create(&raw mut args) },
            None => ptr::null_mut(),
        }
    }

    /// Registers a bundle under a name and a platform.
    pub(super) fn register(self, name: &str, platform: &str, bundle: &Bundle) -> Result<()> {
        // SAFETY: the invariant of `Table` guarantees the table.
        let Some(register) = (unsafe { (*self.api).XLA_FFI_Handler_Register }) else {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                "this XLA registers no handlers by its function table",
            ));
        };
        let record = bundle.get(Stage::Record);
        let first = Feature::RecordStage.since().minor_version();
        if record.is_some() && self.minor() < first {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                format!(
                    "it has a record stage, which requires XLA FFI 0.{first} or later: this XLA \
                     speaks 0.{}",
                    self.minor()
                ),
            ));
        }
        let error = if record.is_some() {
            let mut args = XLA_FFI_Handler_Register_Args {
                struct_size: XLA_FFI_Handler_Register_Args::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                name: span(name),
                platform: span(platform),
                bundle: XLA_FFI_Handler_Bundle {
                    instantiate: bundle.get(Stage::Instantiate),
                    prepare: bundle.get(Stage::Prepare),
                    initialize: bundle.get(Stage::Initialize),
                    execute: bundle.get(Stage::Execute),
                    record,
                },
                traits: 0,
            };
            // SAFETY: the names outlive the call, and the bundle's creator guarantees that its functions are
            // handlers.
            unsafe { register(&raw mut args) }
        } else {
            let mut args = XLA_FFI_Handler_Register_Args_R0 {
                struct_size: XLA_FFI_Handler_Register_Args_R0::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                name: span(name),
                platform: span(platform),
                bundle: XLA_FFI_Handler_Bundle_R0 {
                    instantiate: bundle.get(Stage::Instantiate),
                    prepare: bundle.get(Stage::Prepare),
                    initialize: bundle.get(Stage::Initialize),
                    execute: bundle.get(Stage::Execute),
                },
                traits: 0,
            };
            // SAFETY: the names outlive the call. Every host accepts the shorter form, which lacks the record stage.
            unsafe { register((&raw mut args).cast()) }
        };
        self.into_result(error)
    }

    /// Calls the registration function of a library.
    pub(super) fn enter(self, entry: Entry, platform: &str) -> Result<()> {
        let platform = CString::new(platform).unwrap_or_default();
        // SAFETY: the arguments are a host's function table, and a C string that outlives the call.
        let error = unsafe { entry(self.api, platform.as_ptr()) };
        self.into_result(error)
    }
}

type Job = Box<dyn FnOnce(Table) + Send>;

/// The jobs by their tickets, until a call of the bootstrap handler runs them.
static JOBS: Mutex<BTreeMap<u64, Job>> = Mutex::new(BTreeMap::new());
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1);

fn jobs() -> std::sync::MutexGuard<'static, BTreeMap<u64, Job>> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` inside a call of [`bootstrap`], and returns the job's result. `program` calls [`bootstrap`].
pub(super) fn inside<R: Send + 'static>(
    program: &Loaded,
    job: impl FnOnce(Table) -> Result<R> + Send + 'static,
) -> Result<R> {
    let (sender, answer) = mpsc::channel();
    let ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
    let job = move |table| {
        // If the receiver was dropped, the result is no longer needed.
        let _nobody_waits = sender.send(job(table));
    };
    jobs().insert(ticket, Box::new(job));
    let outcome = Tensor::from_slice([], &[ticket]).and_then(|ticket| program.run(&[ticket]));
    jobs().remove(&ticket);
    outcome?;
    answer.try_recv().map_err(|_| {
        Error::new(
            ErrorCode::Internal,
            "the plugin reports success, but did not call the handler of this program",
        )
    })?
}

/// Returns an error for platforms whose operands are in device memory, because the bootstrap handler reads the ticket
/// from its operand.
pub(super) fn check_platform(platform: &str) -> Result<()> {
    if platform == "cpu" {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::Unimplemented,
        format!(
            "handlers are registered on clients of the platform cpu so far, this one is of '{platform}': register them \
             by jax.ffi, or by a file of the program's own that is linked with that XLA"
        ),
    ))
}

/// Registers [`bootstrap`] and returns the StableHLO text of a program that calls it.
pub(super) fn register(extension: &Extension, platform: &str) -> Result<String> {
    // The name contains the function's address, because a second copy of this crate in the process has its own
    // function.
    let name = format!("xla_ffi_bootstrap_{:x}", bootstrap as *const () as usize);
    // SAFETY: the function is a handler of this library, which stays loaded while its code runs.
    unsafe { extension.register_handler(&name, platform, bootstrap) }?;
    Ok(format!(
        "func.func @main(%ticket: tensor<ui64>) -> tensor<ui64> {{\n  \
         %0 = stablehlo.custom_call @{name}(%ticket) {{api_version = 4 : i32, has_side_effect = true}} \
         : (tensor<ui64>) -> tensor<ui64>\n  return %0 : tensor<ui64>\n}}\n"
    ))
}

/// Returns the metadata extension of a frame; `None` if the call is not a metadata query.
///
/// # Safety
/// `frame` must be the call frame of the current call.
pub(super) unsafe fn is_metadata(
    frame: *mut XLA_FFI_CallFrame,
) -> Option<*mut XLA_FFI_Metadata_Extension> {
    // SAFETY: the frames of all revisions have the fields up to `attrs`.
    let mut next = unsafe { (*frame).extension_start };
    while !next.is_null() {
        // SAFETY: extensions are valid during the call, and start with this head.
        if unsafe { (*next).r#type } == XLA_FFI_InternalExtension_Type::Metadata {
            return Some(next.cast());
        }
        // SAFETY: extensions are valid during the call, and start with this head.
        next = unsafe { (*next).next };
    }
    None
}

/// The bootstrap handler: finds the job of the ticket in its argument and passes the function table to the job.
unsafe extern "C" fn bootstrap(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frames of all revisions have the fields up to `attrs`.
    let table = Table::of(unsafe { (*frame).api });
    // SAFETY: the frame belongs to the current call.
    if let Some(extension) = unsafe { is_metadata(frame) } {
        // SAFETY: the extension and the table belong to the current call.
        unsafe { answer_metadata(extension, table) };
        return ptr::null_mut();
    }
    // SAFETY: only the program of this module calls this handler, with a ticket as the argument.
    let ticket = unsafe { answer_ticket(frame) };
    let Some(job) = jobs().remove(&ticket) else {
        return table.error(
            ErrorCode::NotFound.to_raw(),
            "the bootstrap call has no job",
        );
    };
    match catch_unwind(AssertUnwindSafe(|| job(table))) {
        Ok(()) => ptr::null_mut(),
        Err(payload) => {
            xla_ffi_runtime::__programs::discard(payload);
            table.error(ErrorCode::Internal.to_raw(), "the bootstrap's job panicked")
        }
    }
}

/// Answers a metadata query with the host's version, or with 0.1 if the frame has no function table.
///
/// # Safety
/// `extension` must belong to a metadata query, and `table` to its frame. `table` may be null.
pub(super) unsafe fn answer_metadata(extension: *mut XLA_FFI_Metadata_Extension, table: Table) {
    // SAFETY: the caller upholds this function's safety contract.
    let metadata = unsafe { (*extension).metadata };
    let newest = Revision::NEWEST.minor_version();
    let minor = if table.api.is_null() {
        1
    } else {
        table.minor().min(newest)
    };
    // SAFETY: the metadata structs of all revisions have this field.
    let version = unsafe { &raw mut (*metadata).api_version };
    // SAFETY: `version` points into the host's metadata, which is writable.
    unsafe { (*version).major_version = 0 };
    // SAFETY: `version` points into the host's metadata, which is writable.
    unsafe { (*version).minor_version = minor };
}

/// Returns the ticket in the argument of a frame, and copies it to the result.
///
/// # Safety
/// `frame` must belong to an execute call by the program of [`register`].
unsafe fn answer_ticket(frame: *mut XLA_FFI_CallFrame) -> u64 {
    // SAFETY: the caller upholds this function's safety contract.
    let args = unsafe { (*frame).args };
    // SAFETY: the caller upholds this function's safety contract.
    let rets = unsafe { (*frame).rets };
    // SAFETY: the program passes one argument.
    let arg = unsafe { args.args.read() }.cast::<XLA_FFI_Buffer>();
    // SAFETY: the program has one result.
    let ret = unsafe { rets.rets.read() }.cast::<XLA_FFI_Buffer>();
    // SAFETY: the operands of custom calls in StableHLO are buffers, whose layout is the same in every revision.
    let from = unsafe { (*arg).data }.cast::<u64>();
    // SAFETY: the operands of custom calls in StableHLO are buffers, whose layout is the same in every revision.
    let to = unsafe { (*ret).data }.cast::<u64>();
    // SAFETY: the argument is a scalar of 64 bits.
    let ticket = unsafe { from.read() };
    // SAFETY: the result is a scalar of 64 bits, which the handler may write.
    unsafe { to.write(ticket) };
    ticket
}
