//! The internal API: handlers that are compiled and linked with the embedded runtime and use its
//! own types. Feature `internal`.
//!
//! A parameter of type [`Invocation`] gives the stream object, the device allocator, the thread
//! pool, state, user data, options, the called computation and the operands' shapes as the runtime
//! holds them. Called by any
//! other host (a real XLA, a runtime in another shared library) such a handler refuses; nothing of
//! that host is touched, and a registration is refused as `FAILED_PRECONDITION` (hosts before r7 give no
//! way to say so: they hear no answer). A handler takes its context from one API: mixing the two does not compile.
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

use crate::param::bind::Bind;
use crate::frame::Frame;
use crate::param::bind::At;
use crate::param::{INTERNAL, Param};
use crate::frame::pending::Flow;
use crate::entry::Handler as Made;
use crate::entry::outcome::Failure;
use crate::error::problems::Problems;
use xla_ffi_sys::{XLA_FFI_Api, XLA_FFI_Error};

mod register;
mod user_data;

pub use register::register_handler;
pub use user_data::UserData;

/// Programs of several calls that feed each other. Feature `programs`.
#[cfg(feature = "programs")]
#[doc(inline)]
pub use xla_ffi_programs as programs;
#[doc(hidden)]
pub use xla_ffi_runtime::statics as __statics;
pub use xla_ffi_runtime::{
    ALIGNMENT, ArrayShape, Attribute, AttributeArray, Attributes, Bundle, CONTAINS_CXX_EXCEPTIONS,
    Call, CallFrame, Cancellation, Canceller, Code, Collectives, Command, CommunicatorKey,
    CpuDevice, CpuStream, DType, DeviceAllocator, DeviceStream, Displaced, Element, Error,
    Executable, Executor, Finding, Handler, HandlerCounts, Hazard, HostAllocator, KernelArg,
    LEAST_ALIGNMENT, Library, Metadata, Outcome, ParseError, PreparedCall, Recorded, Recorder, Ret,
    Revision, Runtime, Shape, Stage, Stages, StaticHandler, Stream, Tensor, Traits, Tree, TypeInfo,
    Unwritten, ValueShape, canonical_platform, describe, dlpack, legacy, living_objects,
};
/// A device of NVIDIA's. Feature `cuda`.
#[cfg(feature = "cuda")]
#[doc(inline)]
pub use xla_ffi_runtime::{CudaDevice, CudaMemory, CudaStream};

/// The functions of a handler of this program, for [`Runtime::handler`] and [`Runtime::register`].
/// `H` is the handler's name, or that of the type with its stages; `library!` need not have it.
///
/// ```
/// use xla_ffi::{internal, prelude::*};
///
/// #[xla_ffi::handler]
/// fn answer(mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(42);
///     Ok(())
/// }
///
/// let runtime = internal::Runtime::default();
/// runtime.register("the.answer", "cpu", internal::bundle::<answer>(), 0)?;
/// assert!(runtime.find("the.answer", "Host").is_ok());
/// # Ok::<(), internal::Error>(())
/// ```
#[must_use]
pub fn bundle<H: Made>() -> Bundle {
    let mut bundle = Bundle::default();
    for stage in Stage::ALL {
        if let Some(entry) = H::ENTRIES[stage as usize] {
            // SAFETY: an entry point that the macros made, for the stage of this number. It lies in
            // the image of whoever calls this, and so does the runtime.
            bundle = unsafe { bundle.with(stage, entry) };
        }
    }
    bundle
}

/// One call of a handler of this program, on a runtime of the newest revision: for tests and
/// examples. `H` is the handler's name; `attributes` is what MLIR would say, `{a = 2.0 : f32}`.
/// Arguments, results and the context are the caller's to add.
///
/// ```
/// use xla_ffi::{internal, prelude::*};
/// use xla_ffi::internal::{DType, Shape, Tensor};
///
/// #[xla_ffi::handler(shape = "... -> ...")]
/// fn scale(x: Buffer<f32>, mut y: Out<f32>, a: f32) -> Result<()> {
///     y.write_with(|i| a * x[i]);
///     Ok(())
/// }
///
/// let outcome = internal::call::<scale>("{a = 2.0 : f32}")?
///     .arg(Tensor::from_slice([3], &[1.0_f32, 2.0, 3.0])?)
///     .ret(Shape::new(DType::F32, [3])?)
///     .run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![2.0_f32, 4.0, 6.0]));
/// # Ok::<(), internal::Error>(())
/// ```
///
/// # Errors
/// `INVALID_ARGUMENT` when the text is no dictionary of attributes; what the runtime or the
/// handler's instantiate stage answers.
pub fn call<H: Made>(attributes: &str) -> Result<Call, Error> {
    let attributes = Attributes::parse(attributes)
        .map_err(|error| Error::new(Code::InvalidArgument, error.to_string()).with_source(error))?;
    let handler = Runtime::default().handler(H::INFO.name, bundle::<H>())?;
    Ok(handler.instantiate(&attributes)?.call())
}

/// The runtime's own view of the call. Needs the embedded runtime of this very image.
///
/// ```
/// use xla_ffi::{internal::{self, DType, Invocation, Shape}, prelude::*};
///
/// #[xla_ffi::handler]
/// fn run_number(mut y: Out<i64, 0>, call: Invocation) -> Result<()> {
///     y.fill(call.run_id());
///     Ok(())
/// }
///
/// let call = internal::call::<run_number>("{}")?.run_id(5).ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5_i64]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Debug)]
pub struct Invocation<'f>(xla_ffi_runtime::internal::Invocation<'f>);

impl<'f> Deref for Invocation<'f> {
    type Target = xla_ffi_runtime::internal::Invocation<'f>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn invocation<'f>(frame: &Frame<'f>) -> Result<Invocation<'f>, Error> {
    // SAFETY: the frame of the current call.
    unsafe { xla_ffi_runtime::internal::Invocation::from_frame(frame.raw()) }.map(Invocation)
}

// SAFETY: takes no operand.
unsafe impl<'f> Bind<'f> for Invocation<'f> {
    const PARAM: Param = Param::context(INTERNAL, Revision::R0);

    fn bind(frame: &Frame<'f>, _at: &At) -> Option<Self> {
        invocation(frame).ok()
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        if let Err(error) = invocation(frame) {
            let code = crate::ErrorCode::from_raw(error.code().raw());
            problems.refuse(code.unwrap_or(crate::ErrorCode::Unknown));
            problems.push(format!("`{}`: {}", at.param.name, error.message()));
        }
    }
}

/// What a handler that takes an [`Invocation`] answers a host that is no runtime of this image, when
/// it is registered: an error, or null where nothing stands against it. `None` where the host gave no
/// table to make an error with; then the question stays unanswered, which hosts refuse, too.
///
/// # Safety
/// `api` is null or names a host's table.
pub(crate) unsafe fn refuse_registration(
    api: *const XLA_FFI_Api,
    name: &str,
) -> Option<*mut XLA_FFI_Error> {
    // SAFETY: the caller's promise.
    let Err(error) = (unsafe { xla_ffi_runtime::internal::accept_registration(api) }) else {
        return Some(std::ptr::null_mut());
    };
    if api.is_null() {
        crate::error::panics::tell(format_args!("{name}: {}", error.message()));
        return None;
    }
    let error = plain(&error);
    // SAFETY: the caller's promise.
    let host = unsafe { crate::Host::new(api) };
    Some(host.make_error(error.code(), error.message()))
}

/// An error of the runtime, returned whole: the caller of the handler gets it back with its chain
/// of causes, which an [`xla_ffi::Error`](crate::Error) has not. From an `async fn` code and text get
/// through.
///
/// ```
/// use std::error::Error as _;
/// use xla_ffi::{internal::{self, Code, Status}, prelude::*};
///
/// #[xla_ffi::handler]
/// fn load() -> Result<(), Status> {
///     let cause = std::io::Error::other("the disk is full");
///     Err(internal::Error::new(Code::DataLoss, "cannot load").with_source(cause))?
/// }
///
/// let error = internal::call::<load>("{}")?.run().unwrap_err();
/// let cause = error.source().map(ToString::to_string);
/// assert_eq!(cause.as_deref(), Some("the disk is full"));
/// # Ok::<(), internal::Error>(())
/// ```
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
pub(crate) fn make_error(frame: &Frame<'_>, error: Error) -> *mut XLA_FFI_Error {
    if invocation(frame).is_ok() {
        return xla_ffi_runtime::internal::raise(error);
    }
    let plain = plain(&error);
    destroy(error);
    frame.host().make_error(plain.code(), plain.message())
}

/// Destroys an error, whose cause is the user's: its destructor may panic.
pub(crate) fn destroy(error: Error) {
    if let Err(panic) = crate::error::panics::destroy(error) {
        crate::error::panics::discard(panic);
    }
}

impl Failure for Status {
    fn error(self) -> crate::Error {
        plain(&self.0)
    }

    fn flow(self) -> Flow {
        Flow::Status(Box::new(self.0))
    }
}
