//! Options for running programs, and the data that calls pass to handlers.

use super::Program;
use super::pjrt::Client;
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_runtime::legacy::TupleForm;
use xla_ffi_runtime::{CpuDevice, Tensor, Unwritten};

/// Options for compiling and running a program.
#[derive(Clone, Default)]
pub struct Options {
    pub(super) client: Option<Client>,
    pub(super) platform: Option<String>,
    pub(super) tuples: Option<TupleForm>,
    pub(super) device: Option<Arc<CpuDevice>>,
    pub(super) unwritten: Unwritten,
    /// The time limit of each call; `None` for the default limit.
    pub(super) limit: Option<Option<Duration>>,
}

impl Options {
    /// Creates the default options: on the CPU, with tuples as in current XLA.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks up targets for a different platform. Without a device, legacy targets of that platform cannot run, because
    /// they need a stream.
    #[must_use]
    pub fn platform(mut self, platform: impl Into<String>) -> Self {
        self.platform = Some(platform.into());
        self
    }

    /// Returns the platform; the CPU if none is set.
    pub(super) fn platform_name(&self) -> &str {
        self.platform.as_deref().unwrap_or("cpu")
    }

    /// Runs the program on a real XLA. The client's plugin compiles it. The program's handlers and legacy CPU targets
    /// are registered with the plugin if the runtime knows them; other targets must be known to the plugin. Each run
    /// copies arguments to the device and results back.
    ///
    /// The plugin creates the contexts of handlers. A device, a time limit and the detection of unwritten results are
    /// only supported by the embedded runtime; compiling with them fails.
    #[must_use]
    pub fn client(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Passes tuples to legacy targets in this form if their signature supports it; other targets receive tuples as in
    /// current XLA.
    #[must_use]
    pub fn tuples(mut self, form: TupleForm) -> Self {
        self.tuples = Some(form);
        self
    }

    /// Gives the calls a CPU thread as their device, with a stream and scratch memory.
    #[must_use]
    pub fn device(mut self, device: Arc<CpuDevice>) -> Self {
        self.device = Some(device);
        self
    }

    /// Sets how results that calls leave unwritten are treated, for typed and legacy calls, like
    /// [`Call::unwritten`](xla_ffi_runtime::Call::unwritten).
    #[must_use]
    pub fn unwritten(mut self, unwritten: Unwritten) -> Self {
        self.unwritten = unwritten;
        self
    }

    /// Sets the time limit for each call of an asynchronous handler, like
    /// [`Call::time_limit`](xla_ffi_runtime::Call::time_limit). The default is 60 s; `None` waits without limit.
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

/// The computations and the literal of a call, for handlers of the internal API. Handlers get this value from
/// [`Invocation::called_computation`](xla_ffi_runtime::internal::Invocation::called_computation) with this type.
#[derive(Clone, Debug)]
pub struct Called {
    pub(super) computations: Vec<Program>,
    pub(super) literal: Option<Tensor>,
}

impl Called {
    /// Returns the computations, in order.
    #[must_use]
    pub fn computations(&self) -> &[Program] {
        &self.computations
    }

    /// Returns the literal.
    #[must_use]
    pub fn literal(&self) -> Option<&Tensor> {
        self.literal.as_ref()
    }
}
