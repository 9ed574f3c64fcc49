//! The runtime: one XLA copy's worth of tables, registries and threads.
//!
//! Higher layers add methods: `api` makes runtimes, `handler` has handlers and libraries, `legacy` the targets of the
//! original custom calls.

use super::{Execution, HandlerCounts, TypeInfo};
use crate::host::{Shared, errors, find_living, futures};
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_sys::{Finding, Result};
use xla_ffi_sys::{Revision, XLA_FFI_Api, XLA_FFI_InternalApi};

/// A host for handlers that speaks one revision of the ABI. Clones are the same runtime.
///
/// ```
/// # use std::ffi::c_void;
/// # use xla_ffi_runtime::{Attributes, Bundle, DType, Revision, Runtime, Shape, Tensor};
/// # use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error};
/// # type Frame = XLA_FFI_CallFrame;
/// /// y = 2 x, in place of what a library would export.
/// unsafe extern "C" fn double(frame: *mut Frame) -> *mut XLA_FFI_Error {
///     // SAFETY: a host gives whole frames, here always of one argument and one result.
///     let (args, rets) = unsafe { ((*frame).args.args, (*frame).rets.rets) };
///     // SAFETY: as above.
///     let (x, y) = unsafe { ((*args).cast::<XLA_FFI_Buffer>(), (*rets).cast::<XLA_FFI_Buffer>()) };
///     // SAFETY: an f32 each, as the call below has it.
///     unsafe { *(*y).data.cast::<f32>() = 2.0 * *(*x).data.cast::<f32>() };
///     std::ptr::null_mut()
/// }
///
/// # fn main() -> xla_ffi_runtime::Result<()> {
/// // The first revision, which does not ask handlers what they are.
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

    /// The revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.shared.revision
    }

    /// The function table that handlers are given.
    #[must_use]
    pub fn api(&self) -> *const XLA_FFI_Api {
        self.shared.api()
    }

    /// The object behind the table, by whose address this image knows its own frames.
    #[must_use]
    pub fn internal_api(&self) -> *const XLA_FFI_InternalApi {
        self.shared.internal_api()
    }

    /// The runtime whose `internal_api` this is, if it is one of this image: the address alone is
    /// compared, nothing is read through it.
    #[must_use]
    pub fn from_internal_api(internal_api: *const XLA_FFI_InternalApi) -> Option<Self> {
        find_living(internal_api).map(Self::from_shared)
    }

    /// Registers a user type and says its number: `wanted` 0 asks for one.
    ///
    /// # Errors
    /// `INTERNAL` when the name is taken.
    ///
    /// # Safety
    /// In this runtime the name, and the number if one is asked for, stand for one type alone: whoever
    /// finds objects by them, libraries included, means the same. The deleter destroys objects of it.
    pub unsafe fn register_type(&self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        self.shared.types.register(name, wanted, info)
    }

    /// The number of the type called `name`, which is registered with `info` if there was none.
    ///
    /// # Errors
    /// None today.
    ///
    /// # Safety
    /// As for [`Runtime::register_type`].
    pub unsafe fn get_or_register_type(&self, name: &str, info: TypeInfo) -> Result<i64> {
        self.shared.types.get_or_register(name, info)
    }

    /// How objects of the type with this number are destroyed.
    ///
    /// # Errors
    /// `INTERNAL` for a number that no type has.
    pub fn type_info(&self, id: i64) -> Result<TypeInfo> {
        self.shared.types.info(id)
    }

    /// The number of the type called `name`.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn type_id(&self, name: &str) -> Result<i64> {
        self.shared.types.id(name)
    }

    /// Waits until no call of this runtime is under way: none inside of its handler, and none open. Calls that
    /// others make meanwhile are waited for, too. What handlers put on a stream is not waited for, unless its call was
    /// dropped: that is for [`Stream::synchronize`](crate::Stream::synchronize). `None` waits for ever. Not to be called by a handler, nor by work on a
    /// stream of a call, which would wait for themselves; a closure of [`on_end`](crate::PreparedCall::on_end) may,
    /// unless it is called within one of these.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` when time is up, with the handlers that are late.
    pub fn wait_for_calls(&self, limit: Option<Duration>) -> Result<()> {
        self.shared.calls.wait(limit)
    }

    /// Ends the runtime: every call and every instantiation from here on is `UNAVAILABLE`, handlers
    /// that poll see their calls cancelled, and this waits until none is under way. What the program lent to
    /// handlers is its own then, but for what they put on a stream: that is over when the stream has run it
    /// ([`Stream::synchronize`](crate::Stream::synchronize)). A task that a handler gave to the threads and did not wait
    /// for may run on: it owns what it uses. To be called where [`Runtime::wait_for_calls`] may.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` when time is up, with the handlers that are late; it may be asked again.
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

    /// Returns what became of the executions, by handler: in flight, succeeded, failed by error code. Counting is always
    /// on and costs about a nanosecond per execution, because calls count for themselves; this adds them up.
    #[must_use]
    pub fn counts(&self) -> Vec<HandlerCounts> {
        self.shared.calls.counts()
    }

    /// Calls `told` at the end of one in `every` executions of each call, with the duration: for a histogram, or for a
    /// line of a log whose fields are those of [`Execution`]. Two readings of the clock cost about 50 ns; with an
    /// `every` of 16 the average is a few nanoseconds. 0 counts as 1.
    ///
    /// `told` is called on the thread that ends the execution, several times at once. It is not called for executions that
    /// are refused before their handler is called.
    ///
    /// ```
    /// # let runtime = xla_ffi_runtime::Runtime::default();
    /// runtime.observe(16, |it| log::info!("{} {} {:?} {:?}", it.handler, it.run_id, it.duration, it.code))?;
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ALREADY_EXISTS` if the runtime has such a function.
    pub fn observe(
        &self,
        every: u32,
        told: impl Fn(&Execution<'_>) + Send + Sync + 'static,
    ) -> Result<()> {
        self.shared.calls.observe(every, Box::new(told))
    }

    /// What was found outside of any call (in pool tasks, for instance), or is no error of one (scratch memory that was not
    /// given back), since the last time. The same is told once.
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

/// Errors and futures that handlers hold at the moment, in all runtimes of this process: both are 0
/// once every call is over, unless a handler leaks.
#[must_use]
pub fn living_objects() -> (usize, usize) {
    (errors::living(), futures::living())
}
