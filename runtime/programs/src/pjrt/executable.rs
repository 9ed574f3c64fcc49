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

/// A compiled program, loaded on the client's device. Clones are the same program.
#[derive(Clone)]
pub struct Loaded {
    inner: Arc<Inner>,
    results: usize,
}

/// The owner of a loaded executable.
///
/// Invariant: `raw` is a loaded executable of the client's plugin, and only this object frees it.
struct Inner {
    client: Arc<Shared>,
    raw: *mut RawLoaded,
}

// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Send for Inner {}
// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Sync for Inner {}

impl Loaded {
    /// Takes ownership of a plugin's loaded executable.
    ///
    /// # Safety
    /// `raw` must be a loaded executable of the client's plugin. Its ownership moves to the returned value.
    pub(super) unsafe fn new(client: Arc<Shared>, raw: *mut RawLoaded) -> Result<Self> {
        let api = client.api();
        let inner = Arc::new(Inner { client, raw });
        let mut asked = LoadedGetExecutable::new();
        asked.loaded_executable = raw;
        // SAFETY: the invariant of `Inner` guarantees the executable.
        unsafe { api.call(&mut asked) }?;
        let mut counted = ExecutableNumOutputs::new();
        counted.executable = asked.executable;
        // SAFETY: the plugin has just returned the executable, and it is not freed yet.
        let answer = unsafe { api.call(&mut counted) };
        let mut freed = ExecutableDestroy::new();
        freed.executable = asked.executable;
        // SAFETY: the plugin passed ownership of the executable, which is freed once.
        unsafe { api.call(&mut freed) }?;
        answer?;
        Ok(Self {
            inner,
            results: counted.num_outputs,
        })
    }

    /// Returns the number of arrays in the result. PJRT returns the leaves of a tuple as separate arrays.
    #[must_use]
    pub fn results(&self) -> usize {
        self.results
    }

    /// Returns an execution of this program, without arguments.
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

    /// Copies the arguments to the device, runs the program, and copies the results to the host.
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
        // SAFETY: the invariant of `Inner` guarantees the executable, which is freed once. An error of this call
        // cannot be handled.
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

/// An execution context of the plugin. Dropping the value frees the context.
struct Context {
    client: Arc<Shared>,
    raw: *mut RawContext,
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut freed = ContextDestroy::new();
        freed.context = self.raw;
        // SAFETY: the plugin created the context, which is freed once. An error of this call cannot be handled.
        let _nothing_to_do = unsafe { self.client.api().call(&mut freed) };
    }
}

/// The type number and the address of an object in the user data of an execution.
struct UserData(i64, *mut c_void);

// SAFETY: the caller of `user_data` guarantees that any thread may use the object.
unsafe impl Send for UserData {}

/// An execution of a program, before it runs.
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
    /// Adds arguments. If the program declares that an argument aliases a result (`tf.aliasing_output`), the result
    /// may use the argument's memory. Such a buffer cannot be used again.
    pub fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a Buffer>) -> Self {
        self.arguments.extend(arguments.into_iter().cloned());
        self
    }

    /// Adds an object to the user data of the execution. `type_id` is the number of its type, from
    /// [`super::Client::register_type`] or chosen by a library.
    ///
    /// # Safety
    /// The object must have the type `type_id`, be usable from any thread, and outlive the execution, even after its
    /// time limit.
    pub unsafe fn user_data(mut self, type_id: i64, object: *const c_void) -> Self {
        self.user_data.push(UserData(type_id, object.cast_mut()));
        self
    }

    /// Sets the run id, the number of the execution. With 0, the default, XLA chooses the number.
    pub fn launch_id(mut self, id: i32) -> Self {
        self.launch_id = id;
        self
    }

    /// Sets a time limit for the execution. The execution then runs on a separate thread, because XLA's CPU backend
    /// only returns when the handlers have returned. After the limit, that thread continues.
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Omits the execution context, for the module [`super::unguarded`].
    pub(super) fn without_context(mut self) -> Self {
        self.has_context = false;
        self
    }

    /// Runs the program and waits until it is complete. If any part fails, no results are returned.
    ///
    /// # Errors
    /// A handler's error, with its code and complete message. Errors of the plugin, for example for wrong arguments
    /// or for buffers that a result has reused. `DEADLINE_EXCEEDED` at the time limit.
    pub fn run(self) -> Result<Vec<Buffer>> {
        let Some(limit) = self.limit else {
            return self.execute();
        };
        let (sender, answer) = mpsc::channel();
        std::thread::Builder::new()
            .name("pjrt launch".into())
            .spawn(move || {
                // After the time limit, the receiver is dropped, and the results are no longer needed.
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
        // SAFETY: all lists have the declared lengths, and the lists and the buffers outlive the call. The plugin
        // retains the objects that it needs longer.
        unsafe { api.call(&mut args) }?;
        // SAFETY: the plugin has just created the event, and this code owns it.
        let event = unsafe { Event::new(api, event) };
        let results: Vec<Buffer> = outputs
            .into_iter()
            // SAFETY: the plugin has just created the buffers, and this code owns them.
            .map(|output| unsafe { Buffer::new(client.clone(), output) })
            .collect();
        event.wait()?;
        Ok(results)
    }

    /// Creates the execution context with the user data. An execution without user data also needs a context. In some
    /// plugins, a handler that requests user data crashes without a context (see docs/pjrt.md).
    fn context(&self) -> Result<Context> {
        let client = &self.loaded.inner.client;
        let mut made = ContextCreate::new();
        // SAFETY: the function has no inputs.
        unsafe { client.api().call(&mut made) }?;
        let context = Context {
            client: client.clone(),
            raw: made.context,
        };
        for UserData(type_id, object) in &self.user_data {
            let extension = Extension::find(client.api())?;
            // SAFETY: the caller of `user_data` guarantees that the object has the type and outlives the execution.
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
