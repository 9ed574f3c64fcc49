//! Compiled programs and their executions.

use super::buffer::Buffer;
use super::extension::Extension;
use super::handles::{Event, Shared};
use super::raw::{
    ContextCreate, ContextDestroy, ExecutableDestroy, ExecutableNumOutputs, Execute,
    ExecuteOptions, LoadedDestroy, LoadedGetExecutable, RawBuffer, RawContext, RawLoaded,
    SizedStruct,
};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use xla_ffi_runtime::{Error, ErrorCode, Result, Tensor};

/// A compiled program, loaded on the client's device. Clones share the same program.
#[derive(Clone)]
pub struct Loaded {
    inner: Arc<Inner>,
    results: usize,
}

/// Invariant: `raw` is a loaded executable of the client's plugin, owned by this object.
struct Inner {
    client: Arc<Shared>,
    raw: *mut RawLoaded,
}

// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Loaded {
    /// Takes ownership of a plugin's loaded executable.
    ///
    /// # Safety
    /// `raw` is a loaded executable of the client's plugin, and its ownership is transferred.
    pub(super) unsafe fn new(client: Arc<Shared>, raw: *mut RawLoaded) -> Result<Self> {
        let api = client.api();
        let inner = Arc::new(Inner { client, raw });
        let mut asked = LoadedGetExecutable::new();
        asked.loaded_executable = raw;
        // SAFETY: guaranteed by the type's invariant.
        unsafe { api.call(&mut asked) }?;
        let mut counted = ExecutableNumOutputs::new();
        counted.executable = asked.executable;
        // SAFETY: the executable was returned just before and is not freed yet.
        let answer = unsafe { api.call(&mut counted) };
        let mut freed = ExecutableDestroy::new();
        freed.executable = asked.executable;
        // SAFETY: this code owns it and frees it once.
        unsafe { api.call(&mut freed) }?;
        answer?;
        Ok(Self {
            inner,
            results: counted.num_outputs,
        })
    }

    /// Returns the number of arrays in the result; PJRT flattens a tuple into its leaves.
    #[must_use]
    pub fn results(&self) -> usize {
        self.results
    }

    /// Starts an execution, without arguments.
    pub fn launch(&self) -> Launch {
        Launch {
            loaded: self.clone(),
            arguments: vec![],
            user_data: vec![],
            launch_id: 0,
            limit: None,
            has_context: true,
        }
    }

    /// Copies arrays to the device, runs the program on them, and copies the results back.
    ///
    /// # Errors
    /// The errors of [`Launch::run`].
    pub fn run(&self, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
        let buffers = arguments
            .iter()
            .map(|tensor| Buffer::upload(&self.inner.client, tensor))
            .collect::<Result<Vec<_>>>()?;
        let results = self.launch().args(&buffers).run()?;
        results.iter().map(Buffer::download).collect()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut freed = LoadedDestroy::new();
        freed.executable = self.raw;
        // SAFETY: guaranteed by the type's invariant; freed once. An error could not be handled.
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

/// An execution context of the plugin, owned by this object.
struct Context {
    client: Arc<Shared>,
    raw: *mut RawContext,
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut freed = ContextDestroy::new();
        freed.context = self.raw;
        // SAFETY: created by the plugin, freed once. An error could not be handled.
        let _nothing_to_do = unsafe { self.client.api().call(&mut freed) };
    }
}

/// An object for the handlers, with the number of its type.
struct UserData(i64, *mut c_void);

// SAFETY: the caller of `user_data` promises that any thread may use the object.
unsafe impl Send for UserData {}

/// One execution that is being set up.
#[must_use = "a launch does nothing before it is run"]
pub struct Launch {
    loaded: Loaded,
    arguments: Vec<Buffer>,
    user_data: Vec<UserData>,
    launch_id: c_int,
    limit: Option<Duration>,
    has_context: bool,
}

impl Launch {
    /// Adds arguments. A program may reuse the memory of an argument that it declares as aliased to a result
    /// (`tf.aliasing_output`); that buffer can then not be used again.
    pub fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a Buffer>) -> Self {
        self.arguments.extend(arguments.into_iter().cloned());
        self
    }

    /// Passes an object to the handlers, with the number of its type ([`super::Client::register_type`], or a
    /// number that a library chose).
    ///
    /// # Safety
    /// The object has that type, is usable from any thread, and outlives the execution, even one that exceeds
    /// its time limit.
    pub unsafe fn user_data(mut self, type_id: i64, object: *const c_void) -> Self {
        self.user_data.push(UserData(type_id, object.cast_mut()));
        self
    }

    /// Sets the number of the execution, which handlers see as the run id. With 0, the default, XLA chooses it.
    pub fn launch_id(mut self, id: i32) -> Self {
        self.launch_id = id;
        self
    }

    /// Sets a time limit for the execution. The execution then runs on its own thread, because XLA's CPU
    /// backend only returns when the handlers have returned. After the limit, that thread continues.
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Omits the context, for [`super::unguarded`].
    pub(super) fn without_context(mut self) -> Self {
        self.has_context = false;
        self
    }

    /// Runs the program to its end. If any part fails, no results are returned.
    ///
    /// # Errors
    /// A handler's error, with its code and complete message; errors from the plugin, for example about the
    /// number or shapes of the arguments, or used-up buffers; `DEADLINE_EXCEEDED`.
    pub fn run(self) -> Result<Vec<Buffer>> {
        let Some(limit) = self.limit else {
            return self.execute();
        };
        let (sender, answer) = mpsc::channel();
        std::thread::Builder::new()
            .name("pjrt launch".into())
            .spawn(move || {
                // After the time limit, the receiver is dropped.
                let _nobody_waits = sender.send(self.execute());
            })
            .map_err(|error| {
                Error::new(ErrorCode::Unavailable, format!("no thread: {error}")).with_source(error)
            })?;
        answer.recv_timeout(limit).unwrap_or_else(|_| {
            Err(Error::new(
                ErrorCode::DeadlineExceeded,
                format!("the execution did not end within {limit:?}"),
            ))
        })
    }

    fn execute(&self) -> Result<Vec<Buffer>> {
        let client = &self.loaded.inner.client;
        let api = client.api();
        let context = self.has_context.then(|| self.context()).transpose()?;
        let mut options = ExecuteOptions::new();
        options.launch_id = self.launch_id;
        options.context = context
            .as_ref()
            .map_or(ptr::null_mut(), |context| context.raw);
        let arguments: Vec<*mut RawBuffer> = self.arguments.iter().map(|arg| arg.raw()).collect();
        let arguments_of_device = arguments.as_ptr();
        let mut outputs: Vec<*mut RawBuffer> = vec![ptr::null_mut(); self.loaded.results];
        let outputs_of_device = outputs.as_mut_ptr();
        let mut event = ptr::null_mut();
        let mut args = Execute::new();
        args.executable = self.loaded.inner.raw;
        args.options = &raw mut options;
        args.argument_lists = &raw const arguments_of_device;
        args.num_devices = 1;
        args.num_args = arguments.len();
        args.output_lists = &raw const outputs_of_device;
        args.device_complete_events = &raw mut event;
        // SAFETY: all lists have the declared lengths and outlive the call, and so do the buffers. The plugin
        // keeps what it needs longer.
        unsafe { api.call(&mut args) }?;
        // SAFETY: the event is new and owned by this code.
        let event = unsafe { Event::new(api, event) };
        let results: Vec<Buffer> = outputs
            .into_iter()
            // SAFETY: the buffers are new and owned by this code.
            .map(|output| unsafe { Buffer::new(client.clone(), output) })
            .collect();
        event.wait()?;
        Ok(results)
    }

    /// Creates the context with the user data. It is also created without user data: in some plugins, a handler
    /// that asks for user data crashes if there is no context (see docs/pjrt.md).
    fn context(&self) -> Result<Context> {
        let client = &self.loaded.inner.client;
        let mut made = ContextCreate::new();
        // SAFETY: there are no inputs.
        unsafe { client.api().call(&mut made) }?;
        let context = Context {
            client: client.clone(),
            raw: made.context,
        };
        for UserData(type_id, object) in &self.user_data {
            let extension = Extension::find(client.api())?;
            // SAFETY: the caller of `user_data` vouches for the object.
            unsafe { extension.add_user_data(context.raw, *type_id, *object) }.map_err(
                |error: Error| error.within(format_args!("user data of type {type_id}")),
            )?;
        }
        Ok(context)
    }
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch")
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}
