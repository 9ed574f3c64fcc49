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
use std::sync::Arc;

use crate::entry::Handler as Made;
use crate::entry::outcome::{Failure, invocation};
use crate::error;
use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::host_type::HostType;
use crate::frame::pending::Flow;
use crate::param::bind::{At, Bind};
use crate::param::{INTERNAL, Param};

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

// SAFETY: takes no operand.
unsafe impl<'f> Bind<'f> for Invocation<'f> {
    const PARAM: Param = Param::context(INTERNAL, Revision::R0);

    fn bind(frame: &Frame<'f>, _at: &At) -> Option<Self> {
        invocation(frame).map(Invocation).ok()
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        if let Err(error) = invocation(frame) {
            let code = error::ErrorCode::from_raw(error.code().raw());
            problems.refuse(code.unwrap_or(error::ErrorCode::Unknown));
            problems.push(format!("`{}`: {}", at.param.name, error.message()));
        }
    }
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

impl From<error::Error> for Status {
    fn from(error: error::Error) -> Self {
        let code = Code::from_raw(error.code().to_raw()).unwrap_or(Code::Unknown);
        Self(Error::new(code, error.message().to_owned()).with_source(error))
    }
}

impl Failure for Status {
    fn error(self) -> error::Error {
        crate::entry::outcome::plain(&self.0)
    }

    fn flow(self) -> Flow {
        Flow::Status(Box::new(self.0))
    }
}

/// Objects that the program hands to its handlers, which take them as
/// [`UserData<T>`](crate::UserData): made for one runtime, before or after the handlers are registered
/// there. Clones are the same objects, which live until the last call that has them is over.
///
/// ```
/// use xla_ffi::{internal::{self, DType, Runtime, Shape}, prelude::*};
///
/// #[derive(xla_ffi::HostType)]
/// struct Seed(i64);
///
/// #[xla_ffi::handler]
/// fn seed(seed: UserData<Seed>, mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(seed.0);
///     Ok(())
/// }
///
/// let runtime = Runtime::default();
/// let data = internal::UserData::new(&runtime).with(Seed(7))?;
/// let handler = runtime.handler("seed", internal::bundle::<seed>())?;
/// let call = handler.instantiate(&internal::Attributes::new())?.call();
/// let call = call.user_data(data.clone()).ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![7_i64]));
/// assert_eq!(data.get::<Seed>().map(|seed| seed.0), Some(7));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UserData(Arc<xla_ffi_runtime::UserData>);

impl UserData {
    /// No objects yet, for calls of this runtime: those of another one refuse it.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self(Arc::new(xla_ffi_runtime::UserData::new(runtime)))
    }

    /// The same with one more object.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of one type, `FAILED_PRECONDITION` when there are clones
    /// already or the runtime is gone. The value is dropped.
    pub fn with<T: HostType>(mut self, value: T) -> Result<Self, Error> {
        let objects = Arc::get_mut(&mut self.0).ok_or_else(|| {
            Error::new(
                Code::FailedPrecondition,
                "user data that has clones does not change: add every object first",
            )
        })?;
        let known = T::registration().erased();
        match known.chosen() {
            // SAFETY: the number stands for `T` alone, by the invariant of its `Registration`.
            Some(number) => unsafe { objects.insert_numbered(known.name(), number, value) },
            // SAFETY: the name stands for `T` alone, by the invariant of its `Registration`.
            None => unsafe { objects.insert(known.name(), value) },
        }?;
        Ok(self)
    }

    /// The object of this type.
    #[must_use]
    pub fn get<T: HostType>(&self) -> Option<&T> {
        self.0.get()
    }
}

impl From<UserData> for Arc<xla_ffi_runtime::UserData> {
    fn from(data: UserData) -> Self {
        data.0
    }
}

/// Registers a handler that is linked into the program, for
/// [`Runtime::register_static`]: its name and platform for custom
/// calls, and the function or the type with its stages.
///
/// ```
/// use xla_ffi::{internal::{self, Runtime}, prelude::*};
///
/// #[xla_ffi::handler(shape = "... -> ...")]
/// fn twice(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
///     y.write_with(|i| 2.0 * x[i]);
///     Ok(())
/// }
/// internal::register_handler!("my_server.twice", "Host", twice);
///
/// # fn main() -> Result<(), internal::Error> {
/// let runtime = Runtime::default();
/// runtime.register_static()?;
/// assert!(runtime.find("my_server.twice", "Host").is_ok());
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use crate::__register_handler as register_handler;

#[doc(hidden)]
#[macro_export]
macro_rules! __register_handler {
    ($name:expr, $platform:expr, $handler:ty $(,)?) => {
        $crate::internal::__statics::submit! {
            $crate::internal::StaticHandler::new(
                $name,
                $platform,
                $crate::internal::bundle::<$handler>,
                $crate::internal::Traits::NONE,
            )
        }
    };
}
