//! The embedded runtime for programs that link their handlers statically. Requires the feature `internal`.
//!
//! A [`Runtime`] registers handlers and calls them. A handler with a parameter of type [`Invocation`] uses the
//! runtime's own objects. These are the stream, device allocator, thread pool, state, user data, options, called
//! computation and the operands' shapes. Such a handler refuses calls of any other host (a real XLA, or a runtime in
//! a different shared library) with `FAILED_PRECONDITION`. From r7 on, it also refuses to be registered with other
//! hosts. A handler must use either `Invocation` or the context types of this crate; using both is a compile error.
//!
//! A panic in a handler becomes an error of the call, so this crate does not compile with `panic = "abort"`. A
//! handler that is not asynchronous blocks its caller until the handler returns, even after the call's time limit
//! ([`Call::time_limit`]).
//!
//! The caller of a handler receives the handler's error together with the error's source
//! ([`Error::with_source`](crate::Error::with_source)).
//!
//! ```
//! use xla_ffi::{embed::{self, DType, Invocation, Shape}, prelude::*};
//! use std::error::Error as _;
//!
//! #[xla_ffi::handler]
//! fn load(mut y: Out<f32>, call: Invocation) -> Result<()> {
//!     let value: &f32 = call.called_computation().ok_or_else(|| {
//!         let source = std::io::Error::other("the disk is full");
//!         Error::not_found("no computation").with_source(source)
//!     })?;
//!     y.fill(*value);
//!     Ok(())
//! }
//!
//! let call = embed::call::<load>("{}")?.ret(Shape::new(DType::F32, [])?);
//! let error = call.run().unwrap_err();
//! assert_eq!(error.source().unwrap().to_string(), "the disk is full");
//! # Ok::<(), Error>(())
//! ```
//!
//! ```compile_fail
//! use xla_ffi::{embed::Invocation, prelude::*};
//!
//! #[xla_ffi::handler] // a context from both APIs
//! fn both(_y: Out<f32>, _call: Invocation, _pool: ThreadPool) -> Result<()> {
//!     Ok(())
//! }
//! ```

use std::ops::Deref;
use std::sync::Arc;

use crate::entry::Handler as HandlerType;
use crate::entry::outcome::invocation;
use crate::error::problems::Problems;
use crate::error::{Error, ErrorCode};
use crate::frame::Frame;
use crate::frame::host_type::HostType;
use crate::param::bind::{At, Bind};
use crate::param::{INTERNAL, Param};
use xla_ffi_sys::Revision;

#[cfg(feature = "programs")]
#[doc(inline)]
pub use xla_ffi_programs as programs;
#[cfg(feature = "libraries")]
pub use xla_ffi_runtime::Library;
#[doc(hidden)]
pub use xla_ffi_runtime::statics as __statics;
pub use xla_ffi_runtime::{
    Attribute, Attributes, Bundle, Call, Canceller, DType, Executable, Execution, Finding, Handler,
    HandlerCounts, Hazard, Outcome, Runtime, Shape, Stage, Tensor, legacy,
};

pub mod calls {
    //! Prepared calls, operands at misaligned addresses, and checks for unwritten results.
    pub use xla_ffi_runtime::{Displaced, PreparedCall, Ret, Settings, Stages, Unwritten};
}

pub mod device {
    //! Devices with their streams and memory, and thread pools.
    pub use xla_ffi_runtime::{
        CpuDevice, CpuStream, DeviceAllocator, DeviceStream, Executor, HostAllocator, Stream,
    };
    #[cfg(feature = "cuda")]
    pub use xla_ffi_runtime::{CudaDevice, CudaMemory, CudaStream};
}

pub mod record {
    //! The record stage: a recorder that stores commands, as a GPU's command buffer does.
    pub use xla_ffi_runtime::{Command, KernelArg, Recorded, Recorder};
}

pub mod collectives {
    //! Communicators for handlers with a parameter of type
    //! [`Collectives`](crate::ext::Collectives).
    pub use xla_ffi_runtime::{Collectives, CommunicatorKey, DeviceCommunicator};
}

pub mod value {
    //! Trees, arrays other than [`Tensor`](super::Tensor), layouts, and DLPack.
    pub use xla_ffi_runtime::{
        ALIGNMENT, ArrayShape, AttributeArray, LEAST_ALIGNMENT, ParseError, Tree, ValueShape,
        dlpack,
    };
}

pub mod abi {
    //! A handler's metadata, and unchecked call frames.
    pub use xla_ffi_runtime::{
        CONTAINS_CXX_EXCEPTIONS, CallFrame, Metadata, StaticHandler, Traits, TypeInfo,
        canonical_platform, describe, living_objects,
    };
}

/// Returns the functions of a handler of this program, for [`Runtime::handler`] and [`Runtime::register`]. `H` is the
/// name of the handler function, or of the type with the stages. The handler need not be listed in `library!`.
///
/// ```
/// use xla_ffi::{embed, prelude::*};
///
/// #[xla_ffi::handler]
/// fn answer(mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(42);
///     Ok(())
/// }
///
/// let runtime = embed::Runtime::default();
/// runtime.register("the.answer", "cpu", embed::bundle::<answer>())?;
/// assert!(runtime.find("the.answer", "Host").is_ok());
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[must_use]
pub fn bundle<H: HandlerType>() -> Bundle {
    let mut bundle = Bundle::default();
    for stage in Stage::ALL {
        if let Some(entry) = H::ENTRIES[stage as usize] {
            // SAFETY: the macros created this entry point for this stage. The entry point and the runtime belong to
            // the image of the calling code.
            bundle = unsafe { bundle.with(stage, entry) };
        }
    }
    bundle
}

/// Starts a call of a handler of this program on a runtime of the newest revision, for tests and examples. `H` is the
/// handler's name; `attributes` is an MLIR dictionary such as `{a = 2.0 : f32}`. Add arguments, results and context to
/// the call.
///
/// ```
/// use xla_ffi::{embed, prelude::*};
/// use xla_ffi::embed::{DType, Shape, Tensor};
///
/// #[xla_ffi::handler(shape = "... -> ...")]
/// fn scale(x: Buffer<f32>, mut y: Out<f32>, a: f32) -> Result<()> {
///     y.write_with(|i| a * x[i]);
///     Ok(())
/// }
///
/// let outcome = embed::call::<scale>("{a = 2.0 : f32}")?
///     .arg(Tensor::from_slice([3], &[1.0_f32, 2.0, 3.0])?)
///     .ret(Shape::new(DType::F32, [3])?)
///     .run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![2.0_f32, 4.0, 6.0]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Errors
/// `INVALID_ARGUMENT` if the text is not a dictionary of attributes. Errors of the registration and of the handler's
/// instantiate stage.
pub fn call<H: HandlerType>(attributes: &str) -> Result<Call, Error> {
    let attributes = Attributes::parse(attributes)?;
    let handler = Runtime::default().handler(H::INFO.name, bundle::<H>())?;
    Ok(handler.instantiate(&attributes)?.call())
}

/// A view of a call with the objects of the embedded runtime. Requires a runtime that is linked into the same
/// program.
///
/// ```
/// use xla_ffi::{embed::{self, DType, Invocation, Shape}, prelude::*};
///
/// #[xla_ffi::handler]
/// fn run_number(mut y: Out<i64, 0>, call: Invocation) -> Result<()> {
///     y.fill(call.run_id());
///     Ok(())
/// }
///
/// let call = embed::call::<run_number>("{}")?.run_id(5).ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5_i64]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct Invocation<'f>(xla_ffi_runtime::internal::Invocation<'f>);

impl Invocation<'_> {
    /// Returns the call's cancellation, which handlers can keep after the end of the call.
    #[must_use]
    pub fn cancellation(&self) -> crate::context::Cancellation {
        // SAFETY: the extension belongs to the current call.
        unsafe { crate::context::Cancellation::retained(self.0.cancellation_extension()) }
    }
}

impl<'f> Deref for Invocation<'f> {
    type Target = xla_ffi_runtime::internal::Invocation<'f>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

// SAFETY: an `Invocation` does not access operands.
unsafe impl<'f> Bind<'f> for Invocation<'f> {
    const PARAM: Param = Param::context(INTERNAL, Revision::R0);

    fn bind(frame: &Frame<'f>, _at: &At) -> Option<Self> {
        invocation(frame).map(Invocation).ok()
    }

    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        if let Err(error) = invocation(frame) {
            problems.refuse(error.code());
            problems.push(format!("`{}`: {}", at.param.name, error.message()));
        }
    }
}

/// Objects that the program passes to its handlers, which receive them as [`UserData<T>`](crate::UserData). The
/// objects belong to one runtime. Clones share the objects, which are dropped after the last call that uses them.
///
/// ```
/// use xla_ffi::{embed::{self, DType, Runtime, Shape}, prelude::*};
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
/// let data = embed::UserData::new(&runtime).with(Seed(7))?;
/// let handler = runtime.handler("seed", embed::bundle::<seed>())?;
/// let call = handler.instantiate(&embed::Attributes::new())?.call();
/// let call = call.user_data(data.clone()).ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![7_i64]));
/// assert_eq!(data.get::<Seed>().map(|seed| seed.0), Some(7));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UserData(Arc<xla_ffi_runtime::UserData>);

impl UserData {
    /// Creates user data without objects, for calls on `runtime`. Other runtimes reject this user
    /// data.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self(Arc::new(xla_ffi_runtime::UserData::new(runtime)))
    }

    /// Returns this user data with an additional object.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of a type, `FAILED_PRECONDITION` if the user data has been cloned or the
    /// runtime no longer exists. On error, `value` is dropped.
    pub fn with<T: HostType>(mut self, value: T) -> Result<Self, Error> {
        let objects = Arc::get_mut(&mut self.0).ok_or_else(|| {
            Error::new(
                ErrorCode::FailedPrecondition,
                "user data that has clones does not change: add every object first",
            )
        })?;
        let known = T::registration().erased();
        match known.chosen() {
            // SAFETY: the number only denotes `T`, by the invariant of `T`'s `Registration`.
            Some(number) => unsafe { objects.insert_numbered(known.name(), number, value) },
            // SAFETY: the name only denotes `T`, by the invariant of `T`'s `Registration`.
            None => unsafe { objects.insert(known.name(), value) },
        }?;
        Ok(self)
    }

    /// Returns the object of type `T`, or `None` if there is no such object.
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

/// Registers a handler that is linked into the program, for [`Runtime::register_static`]. Accepts the custom call
/// target's name, the platform, and the handler function or the type with the stages.
///
/// ```
/// use xla_ffi::{embed::{self, Runtime}, prelude::*};
///
/// #[xla_ffi::handler(shape = "... -> ...")]
/// fn twice(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
///     y.write_with(|i| 2.0 * x[i]);
///     Ok(())
/// }
/// embed::register_handler!("my_server.twice", "Host", twice);
///
/// # fn main() -> Result<(), xla_ffi::Error> {
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
        $crate::embed::__statics::submit! {
            $crate::embed::abi::StaticHandler::new(
                $name,
                $platform,
                $crate::embed::bundle::<$handler>,
            )
        }
    };
}
