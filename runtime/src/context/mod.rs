//! The context of a call, and the call that is in progress on the current thread.

pub(crate) mod cancellation;
mod parts;
pub(crate) mod user_data;

pub use cancellation::Canceller;
pub(crate) use parts::Parts;
pub use user_data::UserData;

use self::cancellation::{CancellationExtension, Watched};
use crate::device::Stream;
use crate::frame::Stage;
use crate::frame::encoded::Encoded;
use crate::host::calls::{Progress, Tally, cancelled};
use crate::host::futures::{self, Completion};
use crate::host::pool::Tasks;
use crate::host::state_object::StateSlot;
use crate::host::{Runtime, Shared, only_living};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};
use xla_ffi_sys::{
    Revision, XFFI_Extension_Cancellation, XLA_FFI_Extension, XLA_FFI_Extension_Record,
    XLA_FFI_InternalApi, XLA_FFI_InvokeContext,
};

/// The context of an invocation. Handlers receive its address.
///
/// The alignment ensures that the contexts of calls on several threads share no cache line.
#[repr(align(128))]
pub(crate) struct Context {
    runtime: Runtime,
    parts: Parts,
    progress: Arc<Progress>,
    stage: AtomicU8,
    instantiate: Arc<StateSlot>,
    /// Whether the prepare and initialize stages run for this context, so that it has states for them.
    execution: bool,
    prepare: StateSlot,
    initialize: StateSlot,
    found: AtomicBool,
    /// The type of the last user data that the handler requested and the call does not have.
    absent: AtomicI64,
    prints: bool,
    /// The address of the record extension during the record stage; otherwise null.
    record: AtomicPtr<XLA_FFI_Extension>,
    /// The cancellation extension, created when a handler first requests it.
    cancellation: OnceLock<Box<CancellationExtension>>,
    leftovers: Mutex<Leftovers>,
}

/// The scratch memory and the futures that a handler has not released.
#[derive(Default)]
struct Leftovers {
    findings: Vec<Finding>,
    futures: Vec<usize>,
    memory: BTreeMap<usize, usize>,
}

impl Context {
    pub(crate) fn new(
        shared: Arc<Shared>,
        tally: &Arc<Tally>,
        parts: Parts,
        instantiate: Arc<StateSlot>,
        execution: bool,
    ) -> Self {
        Self {
            progress: shared.calls.enter(tally),
            runtime: Runtime::from_shared(shared),
            parts,
            stage: AtomicU8::new(Stage::Instantiate as u8),
            instantiate,
            execution,
            prepare: StateSlot::default(),
            initialize: StateSlot::default(),
            found: AtomicBool::new(false),
            absent: AtomicI64::new(0),
            prints: crate::frame::print::wanted(),
            record: AtomicPtr::default(),
            cancellation: OnceLock::new(),
            leftovers: Mutex::default(),
        }
    }

    /// Returns the context to which a handler's pointer refers.
    ///
    /// # Safety
    /// `ctx` must be null, or a pointer that this host passed to a handler and whose call object still exists.
    pub(crate) unsafe fn from_raw<'a>(ctx: *mut XLA_FFI_InvokeContext) -> Result<&'a Self> {
        if ctx.is_null() {
            return Err(Error::invalid_argument(
                "ctx is null: metadata calls have no context",
            ));
        }
        // SAFETY: handlers receive contexts as pointers to `Context`.
        let context = unsafe { &*ctx.cast::<Self>() };
        context.check_alive()?;
        Ok(context)
    }

    pub(crate) fn raw(&self) -> *mut XLA_FFI_InvokeContext {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.runtime.shared()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Returns the parts that a caller can set, for changes between executions.
    pub(crate) fn parts_mut(&mut self) -> &mut Parts {
        self.cancellation.take();
        &mut self.parts
    }

    /// Returns the custom options of this execution.
    pub(crate) fn custom_options(&self) -> &Encoded {
        let options = self.parts.custom_options.as_ref();
        options.unwrap_or(&self.shared().no_options)
    }

    /// Sets the record extension; null removes it.
    pub(crate) fn set_record(&self, extension: *const XLA_FFI_Extension) {
        self.record.store(extension.cast_mut(), Ordering::Release);
    }

    /// Returns the extension of the given type.
    pub(crate) fn find_extension(&self, number: i64) -> Option<*const XLA_FFI_Extension> {
        let record = self.record.load(Ordering::Acquire).cast_const();
        if number == XLA_FFI_Extension_Record && !record.is_null() {
            return Some(record);
        }
        if number == XFFI_Extension_Cancellation {
            return Some(self.cancellation().raw());
        }
        self.parts.extensions.find(number)
    }

    /// Returns true if the frames of the call are logged before its handler runs.
    #[inline]
    pub(crate) fn prints(&self) -> bool {
        self.prints
    }

    /// Marks the start of a handler's call for `stage`.
    pub(crate) fn begin(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
        self.progress.begin();
    }

    /// Marks the handler's return; `open` is set if the handler returned a future. The context is invalid for the
    /// handler after its return.
    pub(crate) fn end(&self, open: bool) {
        self.progress.end(open);
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Returns the state of the call's cancellation.
    pub(crate) fn cancellation(&self) -> &CancellationExtension {
        self.cancellation.get_or_init(|| {
            let Parts {
                canceller,
                deadline,
                executor,
                ..
            } = &self.parts;
            CancellationExtension::new(Watched {
                canceller: canceller.clone(),
                deadline: *deadline,
                executor: executor.clone(),
                runtime: Arc::downgrade(self.shared()),
            })
        })
    }

    /// Records that the call has no user data of this type.
    pub(crate) fn note_missing_user_data(&self, type_id: i64) {
        self.absent.store(type_id, Ordering::Relaxed);
    }

    /// Returns the error for the last user data that the handler requested and the call does not have.
    pub(crate) fn no_user_data(&self) -> Error {
        let id = self.absent.load(Ordering::Relaxed);
        let name = self.shared().types.name(id);
        let name = name.map_or(String::new(), |name| format!(" ('{name}')"));
        let text = format!("User data with type id {id}{name} not found in execution context");
        let handler = &self.progress.tally().name;
        Error::new(ErrorCode::NotFound, text).within(format_args!("{handler} ({})", self.stage()))
    }

    /// Starts the time limit of an execution. Fails if the execution is cancelled.
    #[inline]
    pub(crate) fn start_time_limit(&mut self, limit: Option<Duration>) -> Result<()> {
        if let Some(limit) = limit {
            self.parts.deadline = Instant::now().checked_add(limit);
            self.cancellation.take();
        }
        match limit {
            Some(Duration::ZERO) => Err(cancelled(ErrorCode::DeadlineExceeded)),
            _ if self.parts.canceller.is_none() => Ok(()),
            _ => self.parts.check_canceller(),
        }
    }

    /// Returns an error if the call was cancelled, or its deadline has passed, before it starts.
    pub(crate) fn check_wanted(&self) -> Result<()> {
        if self.parts.canceller.is_none() && self.parts.deadline.is_none() {
            return Ok(());
        }
        self.parts.check_wanted()
    }

    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.progress.is_inside() {
            return Ok(());
        }
        self.note(Finding::new(Hazard::ContextAfterCall, AFTER));
        Err(Error::new(ErrorCode::FailedPrecondition, AFTER))
    }

    pub(crate) fn stage(&self) -> Stage {
        Stage::from_raw(self.stage.load(Ordering::Relaxed).into()).unwrap_or(Stage::Execute)
    }

    /// Returns the state of a stage, as `State_Get` finds it. The execute stage uses the state of the instantiate
    /// stage.
    pub(crate) fn state(&self, stage: Stage) -> Result<&StateSlot> {
        match stage {
            Stage::Prepare if self.execution => Ok(&self.prepare),
            Stage::Initialize if self.execution => Ok(&self.initialize),
            Stage::Prepare | Stage::Initialize => Err(Error::hazard(
                Hazard::AbsentState,
                format!(
                    "this call has no state of the {stage} stage: XLA on CPU runs neither prepare nor \
                     initialize, and follows a null pointer when their state is named"
                ),
            )),
            _ => Ok(&self.instantiate),
        }
    }

    /// Returns the executor of the tasks that the handler schedules on the thread pool.
    pub(crate) fn pool(&self) -> Result<Tasks<'_>> {
        if !self.parts.thread_pool {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                "this call's context has no thread pool (XLA has one on CPU only)",
            ));
        }
        if let Some(executor) = &self.parts.executor {
            return Ok(Tasks::Executor(&**executor));
        }
        self.shared().pool().map(Tasks::Pool)
    }

    fn leftovers(&self) -> std::sync::MutexGuard<'_, Leftovers> {
        self.leftovers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, finding: Finding) {
        self.leftovers().findings.push(finding);
        self.found.store(true, Ordering::Release);
    }

    /// Returns the findings since the last call of this function.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        if !self.found.swap(false, Ordering::AcqRel) {
            return vec![];
        }
        std::mem::take(&mut self.leftovers().findings)
    }

    pub(crate) fn made_future(&self, handle: usize) {
        self.leftovers().futures.push(handle);
        self.found.store(true, Ordering::Release);
    }

    /// Returns true if the handler left no findings, scratch memory or futures.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        !self.found.load(Ordering::Relaxed)
    }

    /// Frees the numbers of this call's futures, except the returned future. If the handler returned no future, an
    /// incomplete future is kept, because the handler's threads may still use the operands.
    pub(crate) fn forget_futures_but(&self, returned: usize) -> Option<Arc<Completion>> {
        let mut open = None;
        let made = std::mem::take(&mut self.leftovers().futures);
        for handle in made.into_iter().filter(|handle| *handle != returned) {
            if returned == 0 && open.is_none() {
                open = futures::find(handle as *mut _).ok();
                open = open.filter(|completion| !completion.is_done());
                if open.is_some() {
                    self.leftovers().futures.push(handle);
                    continue;
                }
            }
            futures::forget(handle);
        }
        open
    }

    /// Frees the numbers of all futures of this call.
    pub(crate) fn forget_futures(&self) {
        let made = std::mem::take(&mut self.leftovers().futures);
        made.into_iter().for_each(futures::forget);
    }

    /// Returns a finding if the handler has not freed its scratch memory when it returns, because it cannot free the
    /// memory later.
    pub(crate) fn scratch_leak(&self) -> Option<Finding> {
        (!self.leftovers().memory.is_empty()).then(|| {
            Finding::new(
                Hazard::ScratchLeak,
                format!(
                    "{} did not free its scratch memory; XLA frees nothing that handlers allocate",
                    self.progress.tally().name
                ),
            )
        })
    }

    /// Frees the scratch memory that the handler has not freed. The call has ended and its future is complete, so no
    /// thread of the handler uses the memory.
    pub(crate) fn free_memory(&self) {
        let memory = std::mem::take(&mut self.leftovers().memory);
        if let Some(allocator) = &self.parts.allocator {
            for (data, size) in memory {
                let (stream, data) = (self.parts.stream.as_ref(), data as *mut c_void);
                // SAFETY: the allocator returned the memory for this call, which has ended. The memory was in the
                // list until now, so it was not freed before.
                unsafe { Stream::free(stream, allocator, data, size) };
            }
        }
    }

    pub(crate) fn allocate(&self, size: usize, alignment: usize) -> Result<*mut c_void> {
        let allocator = self.parts.allocator.as_ref().ok_or_else(|| {
            // jaxlib on CPU returns this error code. Freeing memory returns UNIMPLEMENTED on CPU.
            Error::invalid_argument(
                "this call's context has no device memory allocator (XLA has none on CPU)",
            )
        })?;
        if size == 0 {
            return Ok(std::ptr::null_mut());
        }
        // XLA's allocators on GPUs align all memory to at least 256 bytes.
        let alignment = alignment.max(256);
        let data = allocator.allocate(size, alignment).ok_or_else(|| {
            Error::new(
                ErrorCode::ResourceExhausted,
                format!("{size} bytes of device memory cannot be allocated"),
            )
        })?;
        if data as usize % alignment != 0 {
            // SAFETY: the allocator just returned the memory, and no other code uses it.
            unsafe { allocator.free(data, size) };
            return Err(Error::new(
                ErrorCode::Internal,
                format!(
                    "the program's allocator was asked for a multiple of {alignment} and gave {data:p}"
                ),
            ));
        }
        self.leftovers().memory.insert(data as usize, size);
        self.found.store(true, Ordering::Release);
        Ok(data)
    }

    pub(crate) fn free(&self, data: *mut c_void, size: usize) -> Result<()> {
        let allocator = self.parts.allocator.as_ref().ok_or_else(|| {
            Error::new(
                ErrorCode::Unimplemented,
                "this call's context has no device memory allocator",
            )
        })?;
        if data.is_null() {
            return Ok(());
        }
        let mut leftovers = self.leftovers();
        match leftovers.memory.get(&(data as usize)) {
            Some(allocated) if *allocated == size => leftovers.memory.remove(&(data as usize)),
            Some(allocated) => {
                return Err(Error::invalid_argument(format!(
                    "{size} bytes are freed of an allocation of {allocated}"
                )));
            }
            None => {
                return Err(Error::invalid_argument(format!(
                    "{data:p} was not allocated in this call"
                )));
            }
        };
        // The lock is released first, because the allocator is code of the program.
        drop(leftovers);
        // SAFETY: the allocator returned the memory, which was in the list until now. The handler, its only user,
        // frees it.
        unsafe { Stream::free(self.parts.stream.as_ref(), allocator, data, size) };
        Ok(())
    }
}

const AFTER: &str = "the context ended with its call: copy what an asynchronous handler needs \
                     (run id, attributes, dimensions) before it returns";

impl Drop for Context {
    fn drop(&mut self) {
        self.forget_futures();
        self.free_memory();
        self.shared().calls.leave(&self.progress);
    }
}

/// The runtime and the context of a call. The runtime is null outside calls; the context is null in metadata queries
/// and thread-pool tasks.
type Current = (*const Shared, *const Context);

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new((ptr::null(), ptr::null())) };
}

/// A guard that makes a call the current call of this thread, until it is dropped.
pub(crate) struct Entered(Current);

impl Entered {
    /// Enters a call. The objects to which the pointers refer must outlive the guard.
    pub(crate) fn new(shared: &Shared, context: Option<&Context>) -> Self {
        let context = context.map_or(ptr::null(), ptr::from_ref);
        Self(CURRENT.replace((shared, context)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Returns true if a call or a registration of a runtime of this library is in progress on this thread.
pub(crate) fn is_asking() -> bool {
    !CURRENT.get().0.is_null()
}

/// Returns true if the call in progress on this thread belongs to the runtime with this `internal_api`. Only
/// addresses are compared.
pub(crate) fn is_current(internal_api: *const XLA_FFI_InternalApi) -> bool {
    // SAFETY: `Entered` is dropped before the targets of its pointers.
    unsafe { CURRENT.get().0.as_ref() }.is_some_and(|shared| shared.internal_api() == internal_api)
}

/// Passes `body` the runtime of a table function that has no context: the runtime of the call in progress on this
/// thread. If no call is in progress, this is the only runtime of the revision that exists.
pub(crate) fn with_shared<T>(
    revision: Revision,
    body: impl FnOnce(&Shared) -> Result<T>,
) -> Result<T> {
    // SAFETY: `Entered` is dropped before the targets of its pointers.
    let current = unsafe { CURRENT.get().0.as_ref() };
    if let Some(shared) = current.filter(|shared| shared.revision == revision) {
        return body(shared);
    }
    body(&*only_living(revision)?)
}

/// Adds a finding to the call in progress on this thread.
pub(crate) fn note(finding: Finding) {
    if let Some(context) = current_context() {
        context.note(finding);
    }
}

/// Returns the context of the call in progress on this thread.
pub(crate) fn current_context<'a>() -> Option<&'a Context> {
    // SAFETY: `Entered` is dropped before the targets of its pointers.
    unsafe { CURRENT.get().1.as_ref() }
}
