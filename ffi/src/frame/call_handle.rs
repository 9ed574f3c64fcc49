//! The handle of a call on the embedded runtime. Handlers may keep the handle for cancellation, and for the threads
//! of their tasks.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::Frame;
use crate::error::ErrorCode;
use xla_ffi_sys::{
    XFFI_Cancellation_Extension, XFFI_Extension_Cancellation, XLA_FFI_Error_Code, XLA_FFI_Extension,
};

/// A retained call of a host that has the cancellation extension; empty for other hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallHandle(Option<Object>);

type Function<R> = unsafe extern "C" fn(*const c_void) -> R;
/// A task that the host calls once. `run` is 1 on a thread of the program, or 0 if the program does not run tasks.
type Task = unsafe extern "C" fn(data: *mut c_void, run: i32);

/// A retained object of the host's cancellation extension, with the extension's functions.
#[derive(Debug)]
struct Object {
    object: *const c_void,
    is_cancelled: Function<i32>,
    retain: Function<()>,
    release: Function<()>,
    execute: Option<Execute>,
}

type Execute = unsafe extern "C" fn(*const c_void, Task, *mut c_void);

// SAFETY: by the extension's contract, any thread may query, retain and release the object.
unsafe impl Send for Object {}
// SAFETY: by the extension's contract, several threads may query, retain and release the object at
// once.
unsafe impl Sync for Object {}

impl Object {
    fn retained(self) -> Self {
        // SAFETY: the object is valid: the context owns it during the call, or a different handle has retained it.
        unsafe { (self.retain)(self.object) };
        self
    }
}

impl Clone for Object {
    fn clone(&self) -> Self {
        Self { ..*self }.retained()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: this handle retained the object once, and `drop` releases it once.
        unsafe { (self.release)(self.object) };
    }
}

impl CallHandle {
    /// Returns the handle of the current call.
    pub(crate) fn of(frame: &Frame<'_>) -> Self {
        // SAFETY: the context belongs to the call frame.
        let found = unsafe {
            frame
                .host()
                .extension(frame.ctx(), XFFI_Extension_Cancellation)
        };
        // SAFETY: the host's extension lives as long as the call.
        found.map_or_else(|_| Self::default(), |raw| unsafe { Self::retained(raw) })
    }

    /// Returns the reason for the call's cancellation as an error code, or `None` if the call is not cancelled.
    pub(crate) fn cancelled(&self) -> Option<ErrorCode> {
        let object = self.0.as_ref()?;
        // SAFETY: the object is retained.
        let reason = unsafe { (object.is_cancelled)(object.object) };
        ErrorCode::from_raw(XLA_FFI_Error_Code(reason.unsigned_abs()))
    }

    /// Returns true if the program provides threads for the work that handlers start.
    pub(crate) fn has_threads(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|object| object.execute.is_some())
    }

    /// Passes the task to the program, which runs the task on one of its threads.
    ///
    /// # Safety
    /// The program [has threads](CallHandle::has_threads), and any thread may call the task once with the data.
    pub(crate) unsafe fn execute(&self, task: Task, data: *mut c_void) {
        if let Some((object, execute)) = self.0.as_ref().and_then(|it| Some((it, it.execute?))) {
            // SAFETY: the object is retained. The caller guarantees that the task may be called
            // with the data.
            unsafe { execute(object.object, task, data) };
        }
    }

    /// Retains the object of a host's cancellation extension. Returns an empty handle if the extension is null or
    /// has a different layout.
    ///
    /// # Safety
    /// `raw` is null or a valid extension.
    pub(crate) unsafe fn retained(raw: *const XLA_FFI_Extension) -> Self {
        let Some(extension) = NonNull::new(raw.cast_mut()) else {
            return Self::default();
        };
        // SAFETY: an extension starts with its size and version.
        let head = unsafe { extension.read() };
        if head.id.major_version != 0 || head.struct_size < XFFI_Cancellation_Extension::STRUCT_SIZE
        {
            return Self::default();
        }
        // SAFETY: the extension is at least as large as this struct.
        let raw = unsafe { extension.cast::<XFFI_Cancellation_Extension>().read() };
        let (Some(is_cancelled), Some(retain), Some(release)) =
            (raw.is_cancelled, raw.retain, raw.release)
        else {
            return Self::default();
        };
        let object = Object {
            object: raw.object,
            is_cancelled,
            retain,
            release,
            execute: raw.execute,
        };
        Self(Some(object.retained()))
    }
}
