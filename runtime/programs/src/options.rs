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
    /// The time limit of each call; the outer `None` means the default limit.
    pub(super) limit: Option<Option<Duration>>,
}

impl Options {
    /// Returns the default options: the CPU as the platform, and tuples in the form of current XLA.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the platform for which targets are looked up. Legacy targets of a platform other than the CPU also need a
    /// device, because they need a stream.
    #[must_use]
    pub fn platform(mut self, platform: impl Into<String>) -> Self {
        self.platform = Some(platform.into());
        self
    }

    /// Returns the platform. The default is the CPU.
    pub(super) fn platform_name(&self) -> &str {
        self.platform.as_deref().unwrap_or("cpu")
    }

    /// Runs the program on XLA, compiled by the client's plugin. The program's handlers and legacy CPU targets are
    /// registered with the plugin if the runtime has them; the plugin must have all other targets. Each run copies
    /// the arguments to the device and the results to the host.
    ///
    /// Only the embedded runtime supports a device, a time limit and the detection of unwritten results. With one of
    /// these options, compiling the program for the plugin fails.
    #[must_use]
    pub fn client(mut self, client: &Client) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Sets the form in which legacy targets receive tuples, if their signature supports this form. Other targets
    /// receive tuples in the form of current XLA.
    #[must_use]
    pub fn tuples(mut self, form: TupleForm) -> Self {
        self.tuples = Some(form);
        self
    }

    /// Sets a CPU device for the calls, with a stream and scratch memory.
    #[must_use]
    pub fn device(mut self, device: Arc<CpuDevice>) -> Self {
        self.device = Some(device);
        self
    }

    /// Sets whether typed and legacy calls with unwritten results fail, like
    /// [`Call::unwritten`](xla_ffi_runtime::Call::unwritten).
    #[must_use]
    pub fn unwritten(mut self, unwritten: Unwritten) -> Self {
        self.unwritten = unwritten;
        self
    }

    /// Sets the time limit of each call of an asynchronous handler, like
    /// [`Call::time_limit`](xla_ffi_runtime::Call::time_limit). The default is 60 s; with `None`, the program waits
    /// without a limit.
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

/// The called computations and the literal of a call, for handlers of the internal API.
/// [`Invocation::called_computation`](xla_ffi_runtime::internal::Invocation::called_computation) returns a value of
/// this type.
#[derive(Clone, Debug)]
pub struct Called {
    pub(super) computations: Vec<Program>,
    pub(super) literal: Option<Tensor>,
}

impl Called {
    /// Returns the called computations, in order.
    #[must_use]
    pub fn computations(&self) -> &[Program] {
        &self.computations
    }

    /// Returns the literal of the call; `None` if the call has no literal.
    #[must_use]
    pub fn literal(&self) -> Option<&Tensor> {
        self.literal.as_ref()
    }
}
