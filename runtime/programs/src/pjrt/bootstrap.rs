//! Accesses the function table of the XLA copy in a plugin. A handler of this crate is called once per job
//! and passes the table of its call frame to the job.

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

/// A library's `xla_ffi_register`.
pub(super) type Entry =
    unsafe extern "C" fn(api: *const XLA_FFI_Api, platform: *const c_char) -> *mut XLA_FFI_Error;

/// The function table of an XLA copy, as handlers see it.
///
/// Invariant: it refers to a host's table. The functions used here are at the same offsets in every revision.
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
    /// Returns the table of a call frame.
    pub(super) fn of(api: *const XLA_FFI_Api) -> Self {
        Self { api }
    }

    /// Returns the minor version of the FFI.
    fn minor(self) -> i32 {
        // SAFETY: guaranteed by the type's invariant; at the same offset in every revision.
        unsafe { (*self.api).api_version.minor_version }
    }

    /// Converts an error of this host to an [`Error`], and frees it.
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
        // SAFETY: guaranteed by the type's invariant.
        if let Some(get) = unsafe { (*self.api).XLA_FFI_Error_GetDetails } {
            // SAFETY: the longer form of the arguments fits every revision; the error is alive.
            unsafe { get(&raw mut details) };
        }
        let message = if details.message.is_null() {
            "the host gave an error without a text".into()
        } else {
            // SAFETY: a C string that is valid as long as the error.
            let text = unsafe { CStr::from_ptr(details.message) };
            text.to_string_lossy().into_owned()
        };
        let mut freed = XLA_FFI_Error_Destroy_Args {
            struct_size: XLA_FFI_Error_Destroy_Args::STRUCT_SIZE,
            extension_start: ptr::null_mut(),
            error,
        };
        // SAFETY: guaranteed by the type's invariant.
        if let Some(destroy) = unsafe { (*self.api).XLA_FFI_Error_Destroy } {
            // SAFETY: this code owns the error and frees it once.
            unsafe { destroy(&raw mut freed) };
        }
        Err(Error::new(
            ErrorCode::from_raw(details.errc).unwrap_or(ErrorCode::Internal),
            message,
        ))
    }

    /// Creates an error of this host.
    pub(super) fn error(self, code: XLA_FFI_Error_Code, text: &str) -> *mut XLA_FFI_Error {
        let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        let mut args = XLA_FFI_Error_Create_Args {
            struct_size: XLA_FFI_Error_Create_Args::STRUCT_SIZE,
            extension_start: ptr::null_mut(),
            message: text.as_ptr(),
            errc: code,
        };
        // SAFETY: guaranteed by the type's invariant.
        match unsafe { (*self.api).XLA_FFI_Error_Create } {
            // SAFETY: the text outlives the call.
            Some(create) => unsafe { create(&raw mut args) },
            None => ptr::null_mut(),
        }
    }

    /// Registers a bundle under a name.
    pub(super) fn register(self, name: &str, platform: &str, bundle: &Bundle) -> Result<()> {
        // SAFETY: guaranteed by the type's invariant.
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
            // SAFETY: the names outlive the call; the bundle's creator vouches for its functions.
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
            // SAFETY: as above; every host accepts the short form without a record stage.
            unsafe { register((&raw mut args).cast()) }
        };
        self.into_result(error)
    }

    /// Calls a library's registration entry.
    pub(super) fn enter(self, entry: Entry, platform: &str) -> Result<()> {
        let platform = CString::new(platform).unwrap_or_default();
        // SAFETY: the arguments are a host's table, and a C string that outlives the call.
        let error = unsafe { entry(self.api, platform.as_ptr()) };
        self.into_result(error)
    }
}

type Job = Box<dyn FnOnce(Table) + Send>;

/// Jobs by their tickets, until their calls arrive.
static JOBS: Mutex<BTreeMap<u64, Job>> = Mutex::new(BTreeMap::new());
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1);

fn jobs() -> std::sync::MutexGuard<'static, BTreeMap<u64, Job>> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` inside a call of [`bootstrap`], which `program` makes, and returns the job's result.
pub(super) fn inside<R: Send + 'static>(
    program: &Loaded,
    job: impl FnOnce(Table) -> Result<R> + Send + 'static,
) -> Result<R> {
    let (sender, answer) = mpsc::channel();
    let ticket = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
    let job = move |table| {
        // The receiver waits below; if it was dropped, the result is no longer needed.
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

/// Refuses platforms whose operands are in device memory, because the handler reads the ticket from its
/// operand.
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

/// Registers [`bootstrap`] and returns a StableHLO program that calls it.
pub(super) fn register(extension: &Extension, platform: &str) -> Result<String> {
    // Another copy of this crate in the process has its own function, and therefore a different name.
    let name = format!("xla_ffi_bootstrap_{:x}", bootstrap as *const () as usize);
    // SAFETY: the function is a handler in this image, which stays loaded while its code runs.
    unsafe { extension.register_handler(&name, platform, bootstrap) }?;
    Ok(format!(
        "func.func @main(%ticket: tensor<ui64>) -> tensor<ui64> {{\n  \
         %0 = stablehlo.custom_call @{name}(%ticket) {{api_version = 4 : i32, has_side_effect = true}} \
         : (tensor<ui64>) -> tensor<ui64>\n  return %0 : tensor<ui64>\n}}\n"
    ))
}

/// Returns the extension that marks a metadata call.
///
/// # Safety
/// The frame belongs to the current call.
pub(super) unsafe fn is_metadata(
    frame: *mut XLA_FFI_CallFrame,
) -> Option<*mut XLA_FFI_Metadata_Extension> {
    // SAFETY: every revision has the fields up to `attrs`.
    let mut next = unsafe { (*frame).extension_start };
    while !next.is_null() {
        // SAFETY: extensions are valid during the call and start with their head.
        if unsafe { (*next).r#type } == XLA_FFI_InternalExtension_Type::Metadata {
            return Some(next.cast());
        }
        // SAFETY: as above.
        next = unsafe { (*next).next };
    }
    None
}

/// The handler: finds the job of its ticket and passes the table to it.
unsafe extern "C" fn bootstrap(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: every revision has the fields up to `attrs`.
    let table = Table::of(unsafe { (*frame).api });
    // SAFETY: the frame belongs to the current call.
    if let Some(extension) = unsafe { is_metadata(frame) } {
        // SAFETY: the extension belongs to this call.
        unsafe { answer_metadata(extension, table) };
        return ptr::null_mut();
    }
    // SAFETY: only this crate's program calls this handler.
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

/// Answers the metadata call with the host's own version, or 0.1 if the host passes no table.
///
/// # Safety
/// The extension belongs to a metadata call, and the table to its frame; the table may be null.
pub(super) unsafe fn answer_metadata(extension: *mut XLA_FFI_Metadata_Extension, table: Table) {
    // SAFETY: the caller upholds this function's safety contract.
    let metadata = unsafe { (*extension).metadata };
    let newest = Revision::NEWEST.minor_version();
    let minor = if table.api.is_null() {
        1
    } else {
        table.minor().min(newest)
    };
    // SAFETY: every revision that requests metadata has this field.
    let version = unsafe { &raw mut (*metadata).api_version };
    // SAFETY: as above.
    unsafe { (*version).major_version = 0 };
    // SAFETY: as above.
    unsafe { (*version).minor_version = minor };
}

/// Reads the ticket and writes it to the result.
///
/// # Safety
/// The frame belongs to an execute call of the program above.
unsafe fn answer_ticket(frame: *mut XLA_FFI_CallFrame) -> u64 {
    // SAFETY: the caller upholds this function's safety contract.
    let args = unsafe { (*frame).args };
    // SAFETY: as above.
    let rets = unsafe { (*frame).rets };
    // SAFETY: there is one argument.
    let arg = unsafe { args.args.read() }.cast::<XLA_FFI_Buffer>();
    // SAFETY: there is one result.
    let ret = unsafe { rets.rets.read() }.cast::<XLA_FFI_Buffer>();
    // SAFETY: operands of custom calls in StableHLO are buffers, the same in every revision.
    let from = unsafe { (*arg).data }.cast::<u64>();
    // SAFETY: as above.
    let to = unsafe { (*ret).data }.cast::<u64>();
    // SAFETY: a scalar of 64 bits.
    let ticket = unsafe { from.read() };
    // SAFETY: as above; the handler may write its result.
    unsafe { to.write(ticket) };
    ticket
}
