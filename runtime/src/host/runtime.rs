//! The runtime: a function table, registries and threads, like those of one copy of XLA in a process.
//!
//! Other modules add methods to [`Runtime`]: `api` to create runtimes, `handler` for handlers and libraries, and
//! `legacy` for targets of original custom calls.

use super::{Execution, HandlerCounts, TypeInfo};
use crate::host::{Shared, errors, find_living, futures};
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_sys::{Finding, Result};
use xla_ffi_sys::{Revision, XLA_FFI_Api, XLA_FFI_InternalApi};

/// A host for handlers that implements one revision of the ABI. Clones refer to the same runtime.
///
/// ```
/// # use std::ffi::c_void;
/// # use xla_ffi_runtime::{Attributes, Bundle, DType, Revision, Runtime, Shape, Tensor};
/// # use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error};
/// # type Frame = XLA_FFI_CallFrame;
/// /// Computes y = 2 x, like a handler that a library exports.
/// unsafe extern "C" fn double(frame: *mut Frame) -> *mut XLA_FFI_Error {
///     // SAFETY: the host passes a complete frame, with one argument and one result.
///     let (args, rets) = unsafe { ((*frame).args.args, (*frame).rets.rets) };
///     // SAFETY: the operands are buffers.
///     let (x, y) = unsafe { ((*args).cast::<XLA_FFI_Buffer>(), (*rets).cast::<XLA_FFI_Buffer>()) };
///     // SAFETY: both buffers contain one f32.
///     unsafe { *(*y).data.cast::<f32>() = 2.0 * *(*x).data.cast::<f32>() };
///     std::ptr::null_mut()
/// }
///
/// # fn main() -> xla_ffi_runtime::Result<()> {
/// // Hosts of the first revision make no metadata query.
/// let runtime = Runtime::new(Revision::R0);
/// // SAFETY: the function is a handler.
/// let bundle = unsafe { Bundle::execute(double) };
/// runtime.register("double", "Host", bundle)?;
/// assert_eq!(runtime.revision().name(), "r0");
/// assert!(runtime.find("double", "CUDA").is_err());
///
/// let executable = runtime.find("double", "cpu")?.instantiate(&Attributes::new())?;
/// let call = executable.call().arg(Tensor::from_slice([], &[21.0_f32])?);
/// let outcome = call.ret(Shape::new(DType::F32, [])?).run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![42.0_f32]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

impl Runtime {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the revision of the runtime.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.shared.revision
    }

    /// Returns the function table that handlers receive.
    #[must_use]
    pub fn api(&self) -> *const XLA_FFI_Api {
        self.shared.api()
    }

    /// Returns the object to which the table's `internal_api` refers. Its address identifies call frames of this
    /// library.
    #[must_use]
    pub fn internal_api(&self) -> *const XLA_FFI_InternalApi {
        self.shared.internal_api()
    }

    /// Returns the runtime with this `internal_api`, if it belongs to this library. Only addresses are compared; the
    /// pointer is not dereferenced.
    #[must_use]
    pub fn from_internal_api(internal_api: *const XLA_FFI_InternalApi) -> Option<Self> {
        find_living(internal_api).map(Self::from_shared)
    }

    /// Registers a user type and returns its number. If `wanted` is 0, a new number is chosen.
    ///
    /// # Errors
    /// `INTERNAL` if the name is already registered.
    ///
    /// # Safety
    /// In this runtime, all code, including libraries, must use the name and the number `wanted` for the same type.
    /// The deleter must destroy objects of this type.
    pub unsafe fn register_type(&self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        self.shared.types.register(name, wanted, info)
    }

    /// Returns the number of the type called `name`. Registers the type with `info` if the name is new.
    ///
    /// # Errors
    /// This function currently returns no errors.
    ///
    /// # Safety
    /// The requirements of [`Runtime::register_type`] apply.
    pub unsafe fn get_or_register_type(&self, name: &str, info: TypeInfo) -> Result<i64> {
        self.shared.types.get_or_register(name, info)
    }

    /// Returns the type information, with the deleter, of the type with this number.
    ///
    /// # Errors
    /// `INTERNAL` if no type has the number.
    pub fn type_info(&self, id: i64) -> Result<TypeInfo> {
        self.shared.types.info(id)
    }

    /// Returns the number of the type called `name`.
    ///
    /// # Errors
    /// `NOT_FOUND` if no type has the name.
    pub fn type_id(&self, name: &str) -> Result<i64> {
        self.shared.types.id(name)
    }

    /// Waits until no call of this runtime is running or open, including calls that other threads start during the
    /// wait. `None` waits forever. Work on streams is only included if its call was dropped; otherwise use
    /// [`Stream::synchronize`](crate::Stream::synchronize).
    ///
    /// Handlers and work on a call's stream must not call this function, because they would wait for themselves. A
    /// closure of [`on_end`](crate::PreparedCall::on_end) may call this function, unless the closure runs within this
    /// function or [`Runtime::shutdown`].
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` at the time limit, with the handlers of unfinished calls.
    pub fn wait_for_calls(&self, limit: Option<Duration>) -> Result<()> {
        self.shared.calls.wait(limit)
    }

    /// Shuts the runtime down: refuses new calls and instantiations as `UNAVAILABLE`, cancels all calls, and waits
    /// until no call is running. After a successful shutdown, handlers no longer use operands, user data and other
    /// objects of the program.
    ///
    /// Work on a stream may continue; wait for it with [`Stream::synchronize`](crate::Stream::synchronize).
    /// Thread-pool tasks for which a handler did not wait may also continue, with data of the handler. The
    /// restrictions of [`Runtime::wait_for_calls`] apply.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` at the time limit, with the handlers of unfinished calls. The function may be called
    /// again.
    ///
    /// ```
    /// let runtime = xla_ffi_runtime::Runtime::default();
    /// runtime.shutdown(std::time::Duration::from_secs(5))?;
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    pub fn shutdown(&self, limit: Duration) -> Result<()> {
        self.shared.calls.end();
        self.wait_for_calls(Some(limit))
    }

    /// Returns the outcomes of the executions by handler: in flight, succeeded, failed by error code. Counting is
    /// always enabled and costs about a nanosecond per execution, because each call has its own counters. This
    /// function adds the counters up.
    #[must_use]
    pub fn counts(&self) -> Vec<HandlerCounts> {
        self.shared.calls.counts()
    }

    /// Calls `told` at the end of one in `every` executions of each call. Use this function for histograms of
    /// durations, or for log lines with the fields of [`Execution`]. A reported execution costs about 50 ns, because
    /// the clock is read twice. With an `every` of 16, the average cost is a few nanoseconds. An `every` of 0 counts
    /// as 1.
    ///
    /// `told` runs on the thread that ends the execution, possibly on several threads at once. It does not receive
    /// executions that are refused before their handler is called.
    ///
    /// ```
    /// # let runtime = xla_ffi_runtime::Runtime::default();
    /// runtime.observe(16, |it| log::info!("{} {} {:?} {:?}", it.handler, it.run_id, it.duration, it.code))?;
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ALREADY_EXISTS` if this function was called before on the runtime.
    pub fn observe(
        &self,
        every: u32,
        told: impl Fn(&Execution<'_>) + Send + Sync + 'static,
    ) -> Result<()> {
        self.shared.calls.observe(every, Box::new(told))
    }

    /// Returns the findings since the last call of this function that no call returned as an error. Such findings
    /// occur outside calls, for example in thread-pool tasks, or do not fail a call, for example unfreed scratch
    /// memory. A repeated finding is returned once.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        self.shared.take_findings()
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

/// Returns the numbers of errors and futures that exist in all runtimes of this process. Both numbers are 0 after all
/// calls have ended, unless a handler leaks errors or futures.
#[must_use]
pub fn living_objects() -> (usize, usize) {
    (errors::living(), futures::living())
}
