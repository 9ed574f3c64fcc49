//! How programs run, and what calls pass along to handlers.

use super::Program;
use super::pjrt::Client;
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_runtime::legacy::TupleForm;
use xla_ffi_runtime::{CpuDevice, Tensor, Unwritten};

/// How a program runs.
#[derive(Clone, Default)]
pub struct Options {
    pub(super) client: Option<Client>,
    pub(super) platform: Option<String>,
    pub(super) tuples: Option<TupleForm>,
    pub(super) device: Option<Arc<CpuDevice>>,
    pub(super) unwritten: Unwritten,
    /// What calls have unless it is set here.
    pub(super) limit: Option<Option<Duration>>,
}

impl Options {
    /// On the CPU, tuples as today's XLA passes them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks targets up for another platform. Without a device its legacy targets, which work on a
    /// stream, cannot run.
    #[must_use]
    pub fn platform(mut self, platform: impl Into<String>) -> Self {
        self.platform = Some(platform.into());
        self
    }

    /// The platform, the CPU where none is named.
    pub(super) fn platform_name(&self) -> &str {
        self.platform.as_deref().unwrap_or("cpu")
    }

    /// Runs the program on a real XLA: the client's plugin compiles it, and the handlers and legacy CPU targets
    /// that it names are registered there, where the runtime that it is compiled with knows them. What the
    /// runtime does not know the plugin may. Arguments are copied to the device with each run, results back.
    ///
    /// Handlers' contexts are the plugin's; a device, a time limit, and looking for unwritten results, are the embedded
    /// runtime's alone and refused.
    #[must_use]
    pub fn client(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Passes tuples to legacy targets in this form where their signature takes it; the others get
    /// them as today's XLA passes them.
    #[must_use]
    pub fn tuples(mut self, form: TupleForm) -> Self {
        self.tuples = Some(form);
        self
    }

    /// Gives the calls a device that is a thread: its stream and its scratch memory.
    #[must_use]
    pub fn device(mut self, device: Arc<CpuDevice>) -> Self {
        self.device = Some(device);
        self
    }

    /// Says what becomes of results that calls leave unwritten, typed and legacy ones, as
    /// [`Call::unwritten`](xla_ffi_runtime::Call::unwritten) does.
    #[must_use]
    pub fn unwritten(mut self, unwritten: Unwritten) -> Self {
        self.unwritten = unwritten;
        self
    }

    /// Sets how long to wait for each call of an asynchronous handler, as
    /// [`Call::time_limit`](xla_ffi_runtime::Call::time_limit) does: 60 s unless set, `None` for ever.
    #[must_use]
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.limit = Some(limit);
        self
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("platform", &self.platform)
            .field("tuples", &self.tuples)
            .finish_non_exhaustive()
    }
}

/// What handlers of the internal API get with a call: the computations that it calls, and its
/// literal. [`Invocation::called_computation`](xla_ffi_runtime::internal::Invocation::called_computation) of
/// this type finds it.
#[derive(Clone, Debug)]
pub struct Called {
    pub(super) computations: Vec<Program>,
    pub(super) literal: Option<Tensor>,
}

impl Called {
    /// The computations, in order.
    #[must_use]
    pub fn computations(&self) -> &[Program] {
        &self.computations
    }

    /// The literal.
    #[must_use]
    pub fn literal(&self) -> Option<&Tensor> {
        self.literal.as_ref()
    }
}
