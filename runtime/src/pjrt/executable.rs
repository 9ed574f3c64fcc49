//! What is compiled, and its executions.

use super::buffer::Buffer;
use super::client::Shared;
use super::event::Event;
use super::extension::Extension;
use super::raw::{
    ContextCreate, ContextDestroy, Counted, ExecutableDestroy, ExecutableNumOutputs, Execute,
    ExecuteOptions, LoadedDestroy, LoadedGetExecutable, RawBuffer, RawContext, RawLoaded,
};
use crate::{Code, Error, Result, Tensor};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// A compiled program, loaded on the client's device.
///
/// Invariant: `raw` is a loaded executable of the client's plugin, ours to free.
pub struct Loaded {
    client: Arc<Shared>,
    raw: *mut RawLoaded,
    results: usize,
}

// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// # Safety
    /// `raw` is a loaded executable of the client's plugin that nobody else frees.
    pub(super) unsafe fn new(client: Arc<Shared>, raw: *mut RawLoaded) -> Result<Self> {
        let mut loaded = Self {
            client,
            raw,
            results: 0,
        };
        let api = loaded.client.api();
        let mut asked = LoadedGetExecutable::new();
        asked.loaded_executable = raw;
        // SAFETY: the invariant.
        unsafe { api.call(&mut asked) }?;
        let mut counted = ExecutableNumOutputs::new();
        counted.executable = asked.executable;
        // SAFETY: the executable was given a moment ago.
        let answer = unsafe { api.call(&mut counted) };
        let mut freed = ExecutableDestroy::new();
        freed.executable = asked.executable;
        // SAFETY: it is ours, and freed once.
        unsafe { api.call(&mut freed) }?;
        answer?;
        loaded.results = counted.num_outputs;
        Ok(loaded)
    }

    /// How many arrays the program gives: PJRT flattens a tuple into its leaves.
    #[must_use]
    pub fn results(&self) -> usize {
        self.results
    }

    /// An execution, to be given its arguments.
    #[must_use]
    pub fn launch(&self) -> Launch<'_> {
        Launch {
            loaded: self,
            arguments: vec![],
            user_data: vec![],
            launch_id: 0,
            limit: None,
        }
    }

    /// Copies arrays to the device, runs the program on them, and copies the results back.
    ///
    /// # Errors
    /// As [`Launch::run`].
    pub fn run(&self, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
        let buffers = arguments
            .iter()
            .map(|tensor| Buffer::upload(&self.client, tensor))
            .collect::<Result<Vec<_>>>()?;
        let results = self.launch().args(&buffers).run()?;
        results.iter().map(Buffer::download).collect()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let mut freed = LoadedDestroy::new();
        freed.executable = self.raw;
        // SAFETY: the invariant; freed once. An error would leave nothing to do.
        let _nothing_to_do = unsafe { self.client.api().call(&mut freed) };
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("results", &self.results)
            .finish_non_exhaustive()
    }
}

/// A context of the plugin's, ours to free.
struct Context {
    client: Arc<Shared>,
    raw: *mut RawContext,
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut freed = ContextDestroy::new();
        freed.context = self.raw;
        // SAFETY: made by the plugin, freed once. An error would leave nothing to do.
        let _nothing_to_do = unsafe { self.client.api().call(&mut freed) };
    }
}

/// One execution, being put together.
#[must_use = "a launch does nothing before it is run"]
pub struct Launch<'a> {
    loaded: &'a Loaded,
    arguments: Vec<&'a Buffer>,
    user_data: Vec<(i64, *mut c_void)>,
    launch_id: c_int,
    limit: Option<Duration>,
}

impl<'a> Launch<'a> {
    /// More arguments. A program may take over the memory of an argument that it declares
    /// aliased to a result (`tf.aliasing_output`): that buffer is used up then.
    pub fn args(mut self, arguments: impl IntoIterator<Item = &'a Buffer>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Hands an object to the handlers, by the number of its type
    /// ([`super::Client::register_type`], or the number that a library chose for it).
    ///
    /// # Safety
    /// The object is one of the type, usable from any thread, and outlives the execution.
    pub unsafe fn user_data(mut self, type_id: i64, object: *const c_void) -> Self {
        self.user_data.push((type_id, object.cast_mut()));
        self
    }

    /// The number of the execution, which handlers see as the run id; 0, the default, lets XLA choose.
    pub fn launch_id(mut self, id: i32) -> Self {
        self.launch_id = id;
        self
    }

    /// How long to wait for the end of the execution. A handler that keeps the calling
    /// thread (XLA's CPU backend runs small programs there) is not stopped by it: run such a one in a
    /// child process, as `xla-ffi run` does.
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the program to its end. No result is given when anything in it failed.
    ///
    /// # Errors
    /// What a handler answered, with its code and whole message; the plugin's own complaints, about the number
    /// or shapes of the arguments and used-up buffers for instance; `DEADLINE_EXCEEDED`.
    pub fn run(self) -> Result<Vec<Buffer>> {
        let client = &self.loaded.client;
        let api = client.api();
        let context = self.context()?;
        let mut options = ExecuteOptions::new();
        options.launch_id = self.launch_id;
        options.context = context.as_ref().map_or(ptr::null_mut(), |made| made.raw);
        let arguments: Vec<*mut RawBuffer> = self.arguments.iter().map(|arg| arg.raw()).collect();
        let arguments_of_device = arguments.as_ptr();
        let mut outputs: Vec<*mut RawBuffer> = vec![ptr::null_mut(); self.loaded.results];
        let outputs_of_device = outputs.as_mut_ptr();
        let mut event = ptr::null_mut();
        let mut args = Execute::new();
        args.executable = self.loaded.raw;
        args.options = &raw mut options;
        args.argument_lists = &raw const arguments_of_device;
        args.num_devices = 1;
        args.num_args = arguments.len();
        args.output_lists = &raw const outputs_of_device;
        args.device_complete_events = &raw mut event;
        // SAFETY: all lists have the lengths that are told and outlive the call; the buffers outlive it
        // too, and the plugin keeps for itself what it needs of them later.
        unsafe { api.call(&mut args) }?;
        // SAFETY: the event is new and ours.
        let event = unsafe { Event::new(api, event) };
        let results: Vec<Buffer> = outputs
            .into_iter()
            // SAFETY: the buffers are new and ours.
            .map(|output| unsafe { Buffer::new(client.clone(), output) })
            .collect();
        match event.wait(self.limit) {
            Ok(()) => Ok(results),
            Err(error) => {
                if error.code() == Code::DeadlineExceeded && self.limit.is_some() {
                    // The execution may still go on: what it uses stays.
                    std::mem::forget((results, context, event));
                }
                Err(error)
            }
        }
    }

    /// The context with the user data; none where there are none.
    fn context(&self) -> Result<Option<Context>> {
        if self.user_data.is_empty() {
            return Ok(None);
        }
        let client = &self.loaded.client;
        let extension = Extension::of(client.api())?;
        let mut made = ContextCreate::new();
        // SAFETY: nothing is given.
        unsafe { client.api().call(&mut made) }?;
        let context = Context {
            client: client.clone(),
            raw: made.context,
        };
        for (type_id, object) in &self.user_data {
            // SAFETY: the caller of `user_data` vouches for the object.
            unsafe { extension.add_user_data(context.raw, *type_id, *object) }.map_err(
                |error: Error| error.within(format_args!("user data of type {type_id}")),
            )?;
        }
        Ok(Some(context))
    }
}

impl std::fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch")
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}
