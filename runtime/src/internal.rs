//! The internal API: the runtime's own types for handlers that are compiled with it.
//!
//! A handler gets a [`Invocation`] from its call frame. It is given only where the frame comes from
//! a runtime of this very image: the address of the frame's `internal_api` is compared with those of
//! this image's runtimes, and nothing else is read before that is settled. Anywhere else (a real
//! XLA, a runtime in another shared library) the answer is an error.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::call::context::Context;
use crate::host::errors;
use crate::{Attributes, Code, DeviceAllocator, Error, Result, Runtime, Stage, Stream, UserData};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

/// The execution context of a call, for as long as the call lasts.
pub struct Invocation<'f> {
    runtime: Runtime,
    context: &'f Context,
    _call: PhantomData<&'f ()>,
}

impl<'f> Invocation<'f> {
    /// The invocation behind a call frame.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when the frame comes from another host than a runtime of this image.
    ///
    /// # Safety
    /// `frame` is the call frame of the current call, which lives as long as `'f`.
    pub unsafe fn of(frame: *const XLA_FFI_CallFrame) -> Result<Self> {
        // SAFETY: the caller's frame; the field lies at the same place in every revision.
        let api = unsafe { (*frame).api };
        let internal_api = (!api.is_null()).then(|| {
            // SAFETY: a frame names its host's table, whose head is the same in every revision.
            unsafe { (*api).internal_api }
        });
        let runtime = internal_api.and_then(Runtime::from_internal_api);
        let Some(runtime) = runtime else {
            return Err(Error::new(
                Code::FailedPrecondition,
                "the internal API works only with the embedded runtime that the handler was built \
                 and linked with, and this call comes from another host; register the handler there, \
                 or write it with the external API",
            ));
        };
        // SAFETY: as above.
        let ctx = unsafe { (*frame).ctx };
        // SAFETY: a frame of this image's runtime names its own context, alive during the call.
        let context = unsafe { crate::host::context(ctx) }?;
        Ok(Self {
            runtime,
            context,
            _call: PhantomData,
        })
    }

    /// The runtime that makes the call.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.context.stage()
    }

    /// The number of the execution.
    #[must_use]
    pub fn run_id(&self) -> i64 {
        self.context.parts().run_id
    }

    /// The number of the device.
    #[must_use]
    pub fn device_ordinal(&self) -> i32 {
        self.context.parts().device_ordinal
    }

    /// The stream object; `None` on the CPU.
    #[must_use]
    pub fn stream(&self) -> Option<&'f Stream> {
        self.context.parts().stream.as_ref()
    }

    /// The allocator of device memory; `None` where the call has none.
    #[must_use]
    pub fn device_allocator(&self) -> Option<&'f Arc<dyn DeviceAllocator>> {
        self.context.parts().allocator.as_ref()
    }

    /// The user data.
    #[must_use]
    pub fn user_data(&self) -> &'f UserData {
        &self.context.parts().user_data
    }

    /// The options of this execution.
    #[must_use]
    pub fn custom_options(&self) -> Attributes {
        self.context.parts().custom_options.to_attributes()
    }

    /// The computation that the call's caller passes along, if it is a `T`.
    #[must_use]
    pub fn called_computation<T: Any + Send + Sync>(&self) -> Option<&'f T> {
        let computation = self.context.parts().called_computation.as_ref()?;
        computation.downcast_ref()
    }

    /// Number of threads in the thread pool.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` where the call has no pool.
    pub fn num_threads(&self) -> Result<usize> {
        self.context.pool().map(crate::host::pool::ThreadPool::size)
    }

    /// Runs `task` on the thread pool.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` where the call has no pool.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        self.context
            .pool()?
            .spawn(self.context.shared().clone(), task);
        Ok(())
    }
}

impl std::fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invocation")
            .field("stage", &self.stage())
            .field("run_id", &self.run_id())
            .finish_non_exhaustive()
    }
}

/// An error object that holds `error` itself, its chain of causes included: the caller of the
/// handler gets it back whole.
#[must_use]
pub fn raise(error: Error) -> *mut XLA_FFI_Error {
    errors::create(error)
}
