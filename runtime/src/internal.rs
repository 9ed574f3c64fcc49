//! The internal API: types of the embedded runtime for handlers that are linked with it.
//!
//! A handler gets an [`Invocation`] from its call frame if the host is a runtime of the same library. To check this,
//! the address of the frame's `internal_api` is compared with those of the library's runtimes, before other fields
//! are read. For any other host, for example XLA or a runtime in a different shared library, the result is an error.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::context::{Context, is_asking, is_current};
use crate::device::{DeviceAllocator, Stream};
use crate::frame::Stage;
use crate::host::state_object::{RUST_ALONE, StateObject};
use crate::host::{Runtime, errors, find_living};
use crate::value::{Attributes, DType, Shape};
use xla_ffi_sys::{Error, ErrorCode, Result};
use xla_ffi_sys::{
    XLA_FFI_Api, XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Extension,
    XLA_FFI_InvokeContext,
};

/// A call of a handler: its runtime, stage, operands and context. It is valid during the call.
pub struct Invocation<'f> {
    context: &'f Context,
    frame: *const XLA_FFI_CallFrame,
    _call: PhantomData<&'f ()>,
}

impl<'f> Invocation<'f> {
    /// Returns the invocation for a call frame.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the frame's host is not a runtime of this library.
    ///
    /// # Safety
    /// `frame` must be the call frame of the current call, which must last as long as `'f`.
    pub unsafe fn from_frame(frame: *const XLA_FFI_CallFrame) -> Result<Self> {
        // SAFETY: guaranteed by the caller; the field has the same offset in every revision.
        let api = unsafe { (*frame).api };
        // SAFETY: guaranteed by the caller; the field has the same offset in every revision.
        let ctx = unsafe { (*frame).ctx };
        // SAFETY: a frame refers to its host's table and to its context, which are valid during the call.
        let mut invocation = unsafe { Self::from_call(api, ctx) }?;
        invocation.frame = frame;
        Ok(invocation)
    }

    /// Returns an invocation for a call frame's function table and context. The invocation has no operands.
    ///
    /// # Errors
    /// The errors of [`Invocation::from_frame`].
    ///
    /// # Safety
    /// `api` and `ctx` must belong to the current call, which must last as long as `'f`. `api` may be null.
    pub unsafe fn from_call(
        api: *const XLA_FFI_Api,
        ctx: *mut XLA_FFI_InvokeContext,
    ) -> Result<Self> {
        let internal_api = if api.is_null() {
            std::ptr::null()
        } else {
            // SAFETY: `api` is the table of a host. The fields up to `internal_api` are the same in every revision.
            unsafe { (*api).internal_api }
        };
        // For the call in progress on this thread, the first check succeeds without a lock. The list of all runtimes
        // is for frames that are inspected on a different thread.
        if !is_current(internal_api) && find_living(internal_api).is_none() {
            return Err(foreign());
        }
        // SAFETY: the context belongs to a runtime of this library and is valid during the call.
        unsafe { Self::from_own_context(ctx) }
    }

    /// Returns an invocation for a context that [`Invocation::from_call`] accepted before. The invocation has no
    /// operands.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` after the handler has returned.
    ///
    /// # Safety
    /// `ctx` must be null, or a context of a runtime of this library. The context's call must last as long as `'f`.
    pub unsafe fn from_own_context(ctx: *mut XLA_FFI_InvokeContext) -> Result<Self> {
        Ok(Self {
            // SAFETY: guaranteed by the caller.
            context: unsafe { Context::from_raw(ctx) }?,
            frame: std::ptr::null(),
            _call: PhantomData,
        })
    }

    /// Returns the runtime that called the handler.
    #[must_use]
    pub fn runtime(&self) -> &'f Runtime {
        self.context.runtime()
    }

    /// Returns the stage for which the handler was called.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.context.stage()
    }

    /// Returns the run id, the number of the execution.
    #[must_use]
    pub fn run_id(&self) -> i64 {
        self.context.parts().run_id
    }

    /// Returns the device ordinal, the global number of the device.
    #[must_use]
    pub fn device_ordinal(&self) -> i32 {
        self.context.parts().device_ordinal
    }

    /// Returns the stream of the call; `None` on the CPU.
    #[must_use]
    pub fn stream(&self) -> Option<&'f Stream> {
        self.context.parts().stream.as_ref()
    }

    /// Returns the allocator for scratch memory; `None` if the call has no allocator.
    #[must_use]
    pub fn device_allocator(&self) -> Option<&'f Arc<dyn DeviceAllocator>> {
        self.context.parts().allocator.as_ref()
    }

    /// Returns the object of type `T` that the program added to this call's user data with
    /// [`UserData::insert`](crate::UserData::insert). Returns `None` if the user data contains no `T`.
    #[must_use]
    pub fn user_data<T: Any + Send + Sync>(&self) -> Option<&'f T> {
        self.context.parts().user_data.as_ref()?.get()
    }

    /// Returns the custom options of this execution.
    #[must_use]
    pub fn custom_options(&self) -> Attributes {
        self.context.custom_options().to_attributes()
    }

    /// Returns the called computation that the caller passed; `None` if it is not a `T`.
    #[must_use]
    pub fn called_computation<T: Any + Send + Sync>(&self) -> Option<&'f T> {
        let computation = self.context.parts().called_computation.as_ref()?;
        computation.downcast_ref()
    }

    /// Returns the error code that the handler should return because its result is no longer needed; `None` if the
    /// result is needed. The code is `Cancelled` after a cancellation by a [`Canceller`](crate::Canceller),
    /// `DeadlineExceeded` after the time limit, or `Unavailable` after a shutdown. Handlers that run for a long time
    /// should poll this function.
    #[must_use]
    pub fn cancelled(&self) -> Option<ErrorCode> {
        self.context.cancellation().reason()
    }

    /// Returns the call's cancellation extension, for the crate `xla_ffi`.
    #[doc(hidden)]
    #[must_use]
    pub fn cancellation_extension(&self) -> *const XLA_FFI_Extension {
        self.context.cancellation().raw()
    }

    fn frame(&self) -> Result<*const XLA_FFI_CallFrame> {
        (!self.frame.is_null())
            .then_some(self.frame)
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::FailedPrecondition,
                    "an invocation that was not made of a call frame has no operands",
                )
            })
    }

    /// Returns the element types and dimensions of the arguments.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` for an invocation without a frame. `UNIMPLEMENTED` for an element type without a number
    /// on the revision's hosts (packed types on r3 and r4).
    pub fn arg_shapes(&self) -> Result<Vec<Shape>> {
        let frame = self.frame()?;
        // SAFETY: the frame is that of the current call, created by a runtime of this library.
        let args = unsafe { &raw const (*frame).args };
        // SAFETY: the frame is that of the current call, created by a runtime of this library.
        let args = unsafe { args.read() };
        // SAFETY: in a frame of this library's runtimes, the list has `size` buffers.
        unsafe { shapes(args.args, args.size) }
    }

    /// Returns the element types and dimensions of the results.
    ///
    /// # Errors
    /// The errors of [`Invocation::arg_shapes`].
    pub fn ret_shapes(&self) -> Result<Vec<Shape>> {
        let frame = self.frame()?;
        // SAFETY: the frame is that of the current call, created by a runtime of this library.
        let rets = unsafe { &raw const (*frame).rets };
        // SAFETY: the frame is that of the current call, created by a runtime of this library.
        let rets = unsafe { rets.read() };
        // SAFETY: in a frame of this library's runtimes, the list has `size` buffers.
        unsafe { shapes(rets.rets, rets.size) }
    }

    /// Sets the state of this stage. The state of the instantiate stage is kept as long as the executable, the state
    /// of prepare and initialize as long as the call. The type `T` does not have to be registered.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the state is already set; `INVALID_ARGUMENT` in a stage that does not support state.
    pub fn set_state<T: Any + Send + Sync>(&self, value: T) -> Result<()> {
        let stage = self.stage();
        if !matches!(
            stage,
            Stage::Instantiate | Stage::Prepare | Stage::Initialize
        ) {
            return Err(Error::invalid_argument(format!(
                "the {stage} stage has no state"
            )));
        }
        let owner = Arc::downgrade(self.runtime().shared());
        let object = StateObject::of(RUST_ALONE, value, owner);
        self.context
            .state(stage)?
            .set(object)
            .map_err(|refused| *refused.why)
    }

    /// Returns the state that a stage of this handler set with [`Invocation::set_state`].
    ///
    /// # Errors
    /// `NOT_FOUND` if the stage set no state; `INVALID_ARGUMENT` if the state is not a `T`.
    pub fn state<T: Any + Send + Sync>(&self, stage: Stage) -> Result<&'f T> {
        self.context.state(stage)?.value()
    }

    /// Returns the number of threads in the thread pool.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if the call has no thread pool.
    pub fn num_threads(&self) -> Result<usize> {
        self.context.pool().map(|pool| pool.size())
    }

    /// Runs `task` on the thread pool.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if the call has no thread pool.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        crate::api::concurrency::spawn(self.context, task)
    }
}

/// Checks the host that makes a metadata query: it must be a runtime of this library. For any other host,
/// [`Invocation::from_frame`] would fail at the first call.
///
/// # Errors
/// `FAILED_PRECONDITION` for a host that is not a runtime of this library.
///
/// # Safety
/// `api` must be null, as in the metadata query of hosts of version 0.1, or point to a host's function table.
pub unsafe fn accept_registration(api: *const XLA_FFI_Api) -> Result<()> {
    let ours = if api.is_null() {
        // If the query has no function table, the host is a runtime of this library if such a runtime makes a query
        // on this thread.
        is_asking()
    } else {
        // SAFETY: guaranteed by the caller. The fields up to `internal_api` are the same in every revision.
        let internal_api = unsafe { (*api).internal_api };
        is_current(internal_api) || find_living(internal_api).is_some()
    };
    if ours { Ok(()) } else { Err(foreign()) }
}

#[cold]
fn foreign() -> Error {
    Error::new(
        ErrorCode::FailedPrecondition,
        "the internal API works only with the embedded runtime that the handler was built and linked \
         with, and this call comes from another host; register the handler there, or write it with the \
         external API",
    )
}

impl std::fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invocation")
            .field("stage", &self.stage())
            .field("run_id", &self.run_id())
            .finish_non_exhaustive()
    }
}

/// Returns the shapes of the buffers in a list.
///
/// # Safety
/// The list must have `size` buffers of a runtime of this library.
unsafe fn shapes(list: *const *mut c_void, size: i64) -> Result<Vec<Shape>> {
    let shape = |index: usize| {
        // SAFETY: guaranteed by the caller.
        let buffer = unsafe { list.wrapping_add(index).read() }.cast::<XLA_FFI_Buffer>();
        // SAFETY: guaranteed by the caller.
        let buffer = unsafe { buffer.read() };
        let dtype = DType::from_raw(buffer.dtype).ok_or_else(|| {
            let number = buffer.dtype.0;
            Error::new(
                ErrorCode::Unimplemented,
                format!("operand {index} has the element type {number}, which is not known"),
            )
        })?;
        let dims = match usize::try_from(buffer.rank) {
            Ok(rank @ 1..) => {
                // SAFETY: a buffer of rank n has n dimensions.
                unsafe { std::slice::from_raw_parts(buffer.dims, rank) }
            }
            _ => &[],
        };
        Shape::new(dtype, dims)
    };
    (0..usize::try_from(size).unwrap_or(0)).map(shape).collect()
}

/// Creates an error object that owns `error`, including its chain of causes. The handler's caller receives `error`
/// unchanged.
#[must_use]
pub fn raise(error: Error) -> *mut XLA_FFI_Error {
    errors::create(error)
}
