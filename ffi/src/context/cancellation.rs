//! Whether anybody still wants the result.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::{Context, context};
use crate::error::Result;
use crate::frame::Frame;
use xla_ffi_sys::{
    Revision, XFFI_Cancellation_Extension, XFFI_Extension_Cancellation, XLA_FFI_Extension,
};

/// Whether anybody still wants the result: a handler that works for long asks now and then, and gives up with
/// an error of its own when nobody does. Outlives the handler's return, for asynchronous ones.
///
/// The embedded runtime tells it from r9 on: its callers cancel calls, set deadlines and shut the runtime
/// down. Any other host tells nothing, and a call there is never cancelled.
///
/// ```
/// use xla_ffi::{Cancellation, prelude::*};
///
/// #[xla_ffi::handler]
/// fn search(cancelled: Cancellation, mut y: Out<i64, 0>) -> Result<()> {
///     let mut steps = 0;
///     while !cancelled.is_cancelled() {
///         steps += 1;
///         std::thread::yield_now();
///     }
///     y.fill(steps);
///     Err(Error::new(ErrorCode::Cancelled, "nobody wants it"))
/// }
///
/// # use xla_ffi::embed::{self, Canceller, DType, Shape};
/// let canceller = Canceller::new();
/// let call = embed::call::<search>("{}")?.canceller(&canceller);
/// let mut call = call.ret(Shape::new(DType::S64, [])?).prepare()?;
/// let error = std::thread::scope(|scope| {
///     let running = scope.spawn(|| call.invoke());
///     std::thread::sleep(std::time::Duration::from_millis(10));
///     canceller.cancel();
///     running.join().unwrap()
/// });
/// let message = error.unwrap_err().to_string();
/// # // A machine under load may not have begun.
/// assert!(message.contains("nobody wants it") || message.contains("before it began"));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Cancellation(Option<Object>);

type Function<R> = unsafe extern "C" fn(*const c_void) -> R;

/// A host's object, retained.
#[derive(Debug)]
struct Object {
    object: *const c_void,
    is_cancelled: Function<i32>,
    retain: Function<()>,
    release: Function<()>,
}

// SAFETY: the extension's contract: any thread may ask, retain and release.
unsafe impl Send for Object {}
// SAFETY: as above, several at once.
unsafe impl Sync for Object {}

impl Cancellation {
    /// Whether nobody waits for the result any more. Cheap enough to be asked every few microseconds.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|object| {
            // SAFETY: the object is retained.
            unsafe { (object.is_cancelled)(object.object) != 0 }
        })
    }
}

impl Object {
    fn retained(self) -> Self {
        // SAFETY: the object is alive: the context's, during the call, or another one's who has it.
        unsafe { (self.retain)(self.object) };
        self
    }
}

impl Clone for Object {
    fn clone(&self) -> Self {
        Self { ..*self }.retained()
    }
}

impl Clone for Cancellation {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: retained once, and released here.
        unsafe { (self.release)(self.object) };
    }
}

impl<'f> Context<'f> for Cancellation {
    const NAME: &'static str = "cancellation";
    // A host without it never cancels.
    const SINCE: Revision = Revision::R0;

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the frame's own context.
        let found = unsafe {
            frame
                .host()
                .extension(frame.ctx(), XFFI_Extension_Cancellation)
        };
        // SAFETY: the host's extension lives as long as the call.
        Ok(found.map_or_else(|_| Self::default(), |raw| unsafe { Self::retained(raw) }))
    }
}

impl Cancellation {
    /// Retains a host's extension; never cancelled if it is null or has another layout.
    ///
    /// # Safety
    /// `raw` is null or an extension that is alive.
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
        // SAFETY: it says that it has as many bytes.
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
        };
        Self(Some(object.retained()))
    }
}

context!(Cancellation);
