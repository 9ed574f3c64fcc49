//! The parts of a context that the caller of a handler can set.

use super::{Canceller, UserData};
use crate::device::{DeviceAllocator, Stream};
use crate::frame::encoded::Encoded;
use crate::host::Executor;
use crate::host::calls::cancelled;
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;
use xla_ffi_sys::XLA_FFI_Extension;
use xla_ffi_sys::{ErrorCode, Result};

/// The parts of a context that the caller of a handler can set.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) run_id: i64,
    pub(crate) device_ordinal: i32,
    pub(crate) thread_pool: bool,
    pub(crate) executor: Option<Arc<dyn Executor>>,
    pub(crate) stream: Option<Stream>,
    pub(crate) allocator: Option<Arc<dyn DeviceAllocator>>,
    pub(crate) user_data: Option<Arc<UserData>>,
    pub(crate) extensions: Extensions,
    pub(crate) custom_options: Option<Arc<Encoded>>,
    pub(crate) called_computation: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) canceller: Option<Canceller>,
    /// The deadline of the current execution.
    pub(crate) deadline: Option<Instant>,
}

impl Parts {
    pub(super) fn check_canceller(&self) -> Result<()> {
        match &self.canceller {
            Some(canceller) if canceller.is_cancelled() => Err(cancelled(ErrorCode::Cancelled)),
            _ => Ok(()),
        }
    }

    #[cold]
    pub(super) fn check_wanted(&self) -> Result<()> {
        self.check_canceller()?;
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(cancelled(ErrorCode::DeadlineExceeded))
            }
            _ => Ok(()),
        }
    }

    /// Returns the default parts for a call on a CPU: run id 0, device ordinal 0, and a thread pool.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            run_id: 0,
            device_ordinal: 0,
            thread_pool: true,
            executor: None,
            stream: None,
            allocator: None,
            user_data: None,
            extensions: Default::default(),
            custom_options: None,
            called_computation: None,
            canceller: None,
            deadline: None,
        }
    }
}

/// The extensions of a context (from r9). Handlers find an extension by its type.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    /// The addresses of the extensions. Their owners must not free them while this object exists.
    links: Vec<usize>,
    /// The owners of extensions that the caller does not own.
    owners: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    /// Adds an extension. The caller must not free it while this object exists.
    pub(crate) fn push(&mut self, extension: *const XLA_FFI_Extension) {
        self.links.push(extension as usize);
    }

    /// Adds an extension that `owner` owns.
    pub(crate) fn push_owned(
        &mut self,
        extension: *const XLA_FFI_Extension,
        owner: Arc<dyn Any + Send + Sync>,
    ) {
        self.push(extension);
        self.owners.push(owner);
    }

    /// Returns the extension of the given type.
    pub(crate) fn find(&self, number: i64) -> Option<*const XLA_FFI_Extension> {
        self.links
            .iter()
            .map(|link| *link as *const XLA_FFI_Extension)
            .find(|link| {
                // SAFETY: `Call::extension` requires that extensions outlive the call.
                let id = unsafe { (**link).id };
                id.extension_type == number
            })
    }
}
