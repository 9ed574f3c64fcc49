//! The internal API: handlers that are compiled and linked with the embedded runtime and use its
//! own types. Feature `internal`.
//!
//! A parameter of type [`Invocation`] gives the stream object, the device allocator, the thread
//! pool, state, user data, options, the called computation and the operands' shapes as the runtime
//! holds them. Called by any
//! other host (a real XLA, a runtime in another shared library) such a handler refuses; nothing of
//! that host is touched. A handler takes its context from one API: mixing the two does not compile.
//!
//! A handler that returns [`Status`] hands its error through whole, with its chain of causes.
//!
//! ```
//! use xla_ffi::{internal::{Invocation, Status}, prelude::*};
//!
//! #[xla_ffi::handler]
//! fn load(mut y: Out<f32>, call: Invocation) -> Result<(), Status> {
//!     let value: &f32 = call.called_computation().ok_or_else(|| {
//!         xla_ffi::internal::Error::new(xla_ffi::internal::Code::NotFound, "no computation")
//!     })?;
//!     y.fill(*value);
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail
//! use xla_ffi::{internal::Invocation, prelude::*};
//!
//! #[xla_ffi::handler] // a context from both APIs
//! fn both(_y: Out<f32>, _call: Invocation, _pool: ThreadPool) -> Result<()> {
//!     Ok(())
//! }
//! ```

use std::ops::Deref;

use crate::bind::Bind;
use crate::diagnose::Problems;
use crate::entry::Flow;
use crate::frame::Frame;
use crate::outcome::Failure;
use crate::param::{At, INTERNAL, Param};
use xla_ffi_sys::{Revision, XLA_FFI_Error};

pub use xla_ffi_runtime::{
    Attributes, Code, DType, DeviceAllocator, DeviceStream, Error, Runtime, Shape, Stream, UserData,
};

/// The runtime's own view of the call. Needs the embedded runtime of this very image.
#[derive(Debug)]
pub struct Invocation<'f>(xla_ffi_runtime::internal::Invocation<'f>);

impl<'f> Deref for Invocation<'f> {
    type Target = xla_ffi_runtime::internal::Invocation<'f>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn take<'f>(frame: &Frame<'f>) -> Result<Invocation<'f>, Error> {
    // SAFETY: the frame of the current call.
    unsafe { xla_ffi_runtime::internal::Invocation::of(frame.raw()) }.map(Invocation)
}

// SAFETY: takes no operand.
unsafe impl<'f> Bind<'f> for Invocation<'f> {
    const PARAM: Param = Param::context(INTERNAL, Revision::R0);

    fn bind(frame: &Frame<'f>, _at: &At) -> Option<Self> {
        take(frame).ok()
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        if let Err(error) = take(frame) {
            problems.push(format!("`{}`: {}", at.param.name, error.message()));
        }
    }
}

/// An error of the runtime, returned whole: the caller of the handler gets it back with its chain
/// of causes, which an [`xla_ffi::Error`](crate::Error) has not.
#[derive(Debug)]
pub struct Status(pub Error);

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<crate::Error> for Status {
    fn from(error: crate::Error) -> Self {
        let code = Code::from_raw(error.code().to_raw()).unwrap_or(Code::Unknown);
        Self(Error::new(code, error.message().to_owned()).with_source(error))
    }
}

/// The error without its chain of causes.
pub(crate) fn plain(error: &Error) -> crate::Error {
    let code = crate::ErrorCode::from_raw(error.code().raw());
    let code = code.unwrap_or(crate::ErrorCode::Unknown);
    crate::Error::new(code, error.message().to_owned())
}

/// The host's error object: the runtime's own where the host is that runtime, for no other host can
/// read or free it.
#[cold]
pub(crate) fn answer(frame: &Frame<'_>, error: Error) -> *mut XLA_FFI_Error {
    if take(frame).is_ok() {
        return xla_ffi_runtime::internal::raise(error);
    }
    let error = plain(&error);
    frame.host().make_error(error.code(), error.message())
}

impl Failure for Status {
    fn flow(self) -> Flow {
        Flow::Status(Box::new(self.0))
    }
}
