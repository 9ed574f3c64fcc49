//! Recording into a command buffer, in the record stage.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Context, Extension, context};
use crate::context::launch::{KernelArgs, Launch};
use crate::error::{Error, Result, wording};
use crate::frame::Frame;
use crate::frame::host::Host;
use xla_ffi_sys::{
    Feature, Revision, XLA_FFI_Command, XLA_FFI_Dim3, XLA_FFI_Extension_Record, XLA_FFI_KernelArg,
    XLA_FFI_KernelArgType, XLA_FFI_KernelArgs, XLA_FFI_LaunchDims, XLA_FFI_Record_Extension,
    XLA_FFI_RecordAction, XLA_FFI_RecordApi, XLA_FFI_RecordFrame, XLA_FFI_SourceFormat,
};

/// The code of a recorded kernel. The host copies the code.
///
/// ```
/// use xla_ffi::ext::KernelSource;
///
/// /// What `nvcc` left: text, or machine code.
/// fn source(bytes: &[u8]) -> KernelSource<'_> {
///     match std::str::from_utf8(bytes) {
///         Ok(text) if text.contains(".version") => KernelSource::Ptx(text),
///         _ => KernelSource::Cubin(bytes),
///     }
/// }
///
/// assert!(matches!(source(b".version 7.0"), KernelSource::Ptx(_)));
/// assert!(matches!(source(b"\x7fELF\x02"), KernelSource::Cubin(_)));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum KernelSource<'a> {
    /// PTX text, which the host compiles.
    Ptx(&'a str),
    /// A cubin: machine code for one device architecture.
    Cubin(&'a [u8]),
    /// A `CUfunction`. Requires version 0.2 of the record extension (jaxlib 0.12.0).
    Function(*const c_void),
}

/// A recorded command, which later commands can depend on.
///
/// ```
/// use xla_ffi::{DeviceOut, prelude::*, ext::{Command, Recorder}};
///
/// /// Two copies that need not wait for each other, and one thing to come after both.
/// fn both<'f>(recorder: &Recorder<'f>, y: &DeviceOut<f32, 1>) -> Result<Command<'f>> {
///     let (start, half) = (y.as_device_mut_ptr(), y.byte_size() / 2);
///     let from = start.wrapping_byte_add(half).cast();
///     // SAFETY: both halves lie in the result.
///     let one = unsafe { recorder.copy(start.cast(), from, half, &[]) }?;
///     // SAFETY: as above.
///     let other = unsafe { recorder.copy(start.cast(), from, half, &[]) }?;
///     recorder.join(&[one, other])
/// }
///
/// struct Pair;
///
/// #[xla_ffi::stateful(platforms = ["cuda"])]
/// impl Pair {
///     fn execute(_y: DeviceOut<f32, 1>) {}
///
///     fn record(recorder: Recorder, y: DeviceOut<f32, 1>) -> Result<()> {
///         both(&recorder, &y).map(drop)
///     }
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// # use xla_ffi_runtime::Revision;
/// let mut tape = xla_ffi_runtime::Recorder::new(Revision::R10, 3)?;
/// let call = embed::call::<Pair>("{}")?.ret(Shape::new(DType::F32, [2])?);
/// call.prepare()?.record(&mut tape)?;
/// assert_eq!(tape.commands()[2].after, [0, 1]);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'f> {
    raw: *const XLA_FFI_Command,
    _call: PhantomData<&'f ()>,
}

/// Records the commands of a record stage, which the host replays instead of calling the execute stage.
///
/// The stage runs first to create the commands, and again with other operands to update them. The same code does
/// both: the `i`-th recorded command updates the `i`-th existing command. The commands and their order must therefore
/// not depend on the operands' addresses. A stage has at most one recorder, because the recorder counts the commands.
/// Available since r9 (jaxlib 0.11.2).
///
/// ```
/// use xla_ffi::{DeviceBuffer, DeviceOut, Launch, prelude::*, ext::{KernelSource, Recorder}};
///
/// const KERNEL: &str = ".version 7.0 …";
///
/// struct Twice;
///
/// #[xla_ffi::stateful(platforms = ["cuda"], command_buffer_compatible)]
/// impl Twice {
///     fn execute(x: DeviceBuffer<f32>, y: DeviceOut<f32>, stream: Stream) -> Result<()> {
///         // … the same two commands on `stream` …
///         # let _ = (x, y, stream);
///         Ok(())
///     }
///
///     fn record(recorder: Recorder, x: DeviceBuffer<f32>, y: DeviceOut<f32>) -> Result<()> {
///         let (to, from) = (y.as_device_mut_ptr().cast(), x.as_device_ptr().cast());
///         // SAFETY: an argument and a result of one size.
///         let copy = unsafe { recorder.copy(to, from, x.byte_size(), &[]) }?;
///         let launch = Launch::over(x.len(), 256);
///         let arguments = (&y, x.len() as u64);
///         let kernel = KernelSource::Ptx(KERNEL);
///         // SAFETY: the kernel's parameters.
///         unsafe { recorder.launch(c"double", kernel, launch, arguments, &[copy]) }?;
///         Ok(())
///     }
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// # use xla_ffi_runtime::Revision;
/// // The embedded runtime keeps what is recorded, with room for two commands here.
/// let mut tape = xla_ffi_runtime::Recorder::new(Revision::R10, 2)?;
/// let mut call = embed::call::<Twice>("{}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::F32, [2])?)
///     .prepare()?;
/// call.record(&mut tape)?;
/// assert_eq!(tape.commands()[1].after, [0]);
/// call.record(&mut tape)?; // an update of the same commands
/// assert_eq!((tape.commands().len(), tape.commands()[1].updates), (2, 1));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder<'f> {
    host: Host,
    frame: NonNull<XLA_FFI_RecordFrame>,
    minor: i32,
    /// The number of commands that this call has created or updated so far.
    done: Cell<usize>,
    _call: PhantomData<&'f ()>,
}

impl<'f> Recorder<'f> {
    fn frame(&self) -> XLA_FFI_RecordFrame {
        // SAFETY: the host keeps the record frame valid during the call.
        unsafe { self.frame.read() }
    }

    /// Returns true if this call updates existing commands with new operands.
    #[must_use]
    pub fn is_update(&self) -> bool {
        self.frame().action == XLA_FFI_RecordAction::Update
    }

    /// Returns the number of commands in the host's command buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        let count = self.frame().num_commands;
        // SAFETY: the host keeps the counter valid during the call.
        let count = unsafe { count.as_ref() }.copied().unwrap_or(0);
        usize::try_from(count).unwrap_or(0)
    }

    /// Returns true if the host's command buffer has no commands yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records a kernel launch that runs after the commands `after`. An update changes only the arguments.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the host has no room for another command, `FAILED_PRECONDITION` if an update
    /// records more commands than exist, and any error of the host.
    ///
    /// # Safety
    /// The kernel's parameters match `arguments` in order and size. Whenever the host replays the launch, the kernel
    /// stays within the operands' memory.
    pub unsafe fn launch(
        &self,
        name: &CStr,
        kernel: KernelSource<'_>,
        launch: Launch,
        arguments: impl KernelArgs,
        after: &[Command<'f>],
    ) -> Result<Command<'f>> {
        let (data, size, format) = match kernel {
            KernelSource::Ptx(text) => {
                (text.as_ptr().cast(), text.len(), XLA_FFI_SourceFormat::PTX)
            }
            KernelSource::Cubin(bytes) => (
                bytes.as_ptr().cast(),
                bytes.len(),
                XLA_FFI_SourceFormat::CUBIN,
            ),
            KernelSource::Function(_) if self.minor < 2 => {
                return Err(Error::unimplemented(wording::older_extension(
                    Feature::KernelPointers,
                    self.minor,
                    "record",
                )));
            }
            KernelSource::Function(function) => {
                (function.cast(), 0, XLA_FFI_SourceFormat::FUNCTION_PTR)
            }
        };
        let dims = XLA_FFI_LaunchDims {
            grid: dim3(launch.grid)?,
            block: dim3(launch.block)?,
            cluster: dim3(launch.cluster)?,
        };
        arguments.with_raw_args(|arguments| {
            let arguments: Vec<XLA_FFI_KernelArg> = arguments
                .iter()
                .map(|arg| XLA_FFI_KernelArg {
                    arg_address: if arg.is_pointer {
                        // SAFETY: the value of a pointer argument is an address.
                        unsafe { arg.value.cast::<*const c_void>().read() }
                    } else {
                        arg.value
                    },
                    size: arg.size as i64,
                    r#type: if arg.is_pointer {
                        XLA_FFI_KernelArgType::DevicePtr
                    } else {
                        XLA_FFI_KernelArgType::HostValue
                    },
                })
                .collect();
            let list = XLA_FFI_KernelArgs {
                args: arguments.as_ptr(),
                num_args: arguments.len() as i64,
            };
            self.step(
                after,
                |frame, api, after, out| {
                    let create = api.create_launch.ok_or("create_launch")?;
                    // SAFETY: the function belongs to the host, and all pointers are valid until the function
                    // returns.
                    Ok(unsafe {
                        create(
                            frame.record_ctx,
                            name.as_ptr(),
                            data,
                            size as i64,
                            format,
                            dims,
                            launch.shared_bytes,
                            i32::from(launch.overlaps),
                            &raw const list,
                            after.as_ptr(),
                            after.len() as u32,
                            out,
                        )
                    })
                },
                |frame, api, command| {
                    let update = api.update_launch.ok_or("update_launch")?;
                    // SAFETY: the function belongs to the host, all pointers are valid until it
                    // returns, and the host created the command.
                    Ok(unsafe { update(frame.record_ctx, command, &raw const list) })
                },
            )
        })
    }

    /// Records a copy of `size` bytes within device memory that runs after the commands `after`.
    ///
    /// # Errors
    /// The errors of [`Recorder::launch`].
    ///
    /// # Safety
    /// Both regions are in device memory and within operands of this call. The regions have `size` bytes and do not
    /// overlap.
    pub unsafe fn copy(
        &self,
        to: *mut c_void,
        from: *const c_void,
        size: usize,
        after: &[Command<'f>],
    ) -> Result<Command<'f>> {
        let from = from.cast_mut();
        self.step(
            after,
            |frame, api, after, out| {
                let create = api.create_memcpy_d2d.ok_or("create_memcpy_d2d")?;
                // SAFETY: the function belongs to the host, and all pointers are valid until the function returns.
                Ok(unsafe {
                    create(
                        frame.record_ctx,
                        to,
                        from,
                        size as i64,
                        after.as_ptr(),
                        after.len() as u32,
                        out,
                    )
                })
            },
            |frame, api, command| {
                let update = api.update_memcpy_d2d.ok_or("update_memcpy_d2d")?;
                // SAFETY: the function belongs to the host, all pointers are valid until it
                // returns, and the host created the command.
                Ok(unsafe { update(frame.record_ctx, command, to, from, size as i64) })
            },
        )
    }

    /// Records an empty command that joins several commands into one dependency. For an example, see [`Command`].
    ///
    /// # Errors
    /// The errors of [`Recorder::launch`].
    pub fn join(&self, after: &[Command<'f>]) -> Result<Command<'f>> {
        self.step(
            after,
            |frame, api, after, out| {
                let create = api.create_empty_command.ok_or("create_empty_command")?;
                // SAFETY: the function belongs to the host, and all pointers are valid until the function returns.
                Ok(unsafe { create(frame.record_ctx, after.as_ptr(), after.len() as u32, out) })
            },
            |_, _, _| Ok(std::ptr::null_mut()),
        )
    }

    /// Requests that the host call the execute stage and capture its stream instead of recording
    /// commands.
    ///
    /// ```
    /// use xla_ffi::{DeviceOut, prelude::*, ext::Recorder};
    ///
    /// struct Captured;
    ///
    /// #[xla_ffi::stateful(platforms = ["cuda"], command_buffer_compatible)]
    /// impl Captured {
    ///     fn execute(_y: DeviceOut<f32>) {}
    ///
    ///     fn record(recorder: Recorder) -> Result<()> {
    ///         assert!(!recorder.is_update());
    ///         recorder.request_stream_capture()
    ///     }
    /// }
    ///
    /// # use xla_ffi::embed::{self, DType, Shape};
    /// # use xla_ffi_runtime::Revision;
    /// let mut tape = xla_ffi_runtime::Recorder::new(Revision::R10, 1)?;
    /// let call = embed::call::<Captured>("{}")?.ret(Shape::new(DType::F32, [2])?);
    /// call.prepare()?.record(&mut tape)?;
    /// assert!(tape.wants_stream_capture());
    /// # Ok::<(), xla_ffi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Any error of the host.
    pub fn request_stream_capture(&self) -> Result<()> {
        let frame = self.frame();
        let request = self
            .api(&frame)?
            .request_stream_capture
            .ok_or_else(|| missing_function("request_stream_capture"))?;
        // SAFETY: the function and its context belong to the host.
        let error = unsafe { request(frame.record_ctx) };
        self.host.check(error)
    }

    fn api(&self, frame: &XLA_FFI_RecordFrame) -> Result<XLA_FFI_RecordApi> {
        // SAFETY: the host keeps the function table valid during the call.
        unsafe { frame.api.as_ref() }
            .copied()
            .ok_or_else(|| Error::internal("the host's recorder has no functions"))
    }

    /// Calls `create` or `update` for the next command, and counts the command.
    fn step(
        &self,
        after: &[Command<'f>],
        create: impl FnOnce(
            &XLA_FFI_RecordFrame,
            &XLA_FFI_RecordApi,
            &[*const XLA_FFI_Command],
            *mut *const XLA_FFI_Command,
        )
            -> std::result::Result<*mut xla_ffi_sys::XLA_FFI_Error, &'static str>,
        update: impl FnOnce(
            &XLA_FFI_RecordFrame,
            &XLA_FFI_RecordApi,
            *const XLA_FFI_Command,
        )
            -> std::result::Result<*mut xla_ffi_sys::XLA_FFI_Error, &'static str>,
    ) -> Result<Command<'f>> {
        let frame = self.frame();
        let api = self.api(&frame)?;
        let index = self.done.get();
        if frame.commands.is_null() || frame.num_commands.is_null() {
            return Err(Error::internal(
                "the host's recorder has no list of commands",
            ));
        }
        let command = if self.is_update() {
            if index >= self.len() {
                return Err(Error::failed_precondition(format!(
                    "the update of recorded commands has more of them than were made, {}: what a \
                     record stage records must not depend on the operands' addresses",
                    self.len()
                )));
            }
            // SAFETY: the host's list has `len` commands, and `index` is smaller.
            let place = unsafe { frame.commands.add(index) };
            // SAFETY: `place` is an element of the host's list of commands.
            let command = unsafe { place.read() };
            let error = update(&frame, &api, command).map_err(missing_function)?;
            self.host.check(error)?;
            command
        } else {
            if index as i64 >= frame.max_commands {
                return Err(Error::resource_exhausted(format!(
                    "the host has room for {} recorded commands of this call",
                    frame.max_commands
                )));
            }
            let after: Vec<_> = after.iter().map(|command| command.raw).collect();
            let mut command = std::ptr::null();
            let error = create(&frame, &api, &after, &raw mut command).map_err(missing_function)?;
            self.host.check(error)?;
            // SAFETY: the host's list has room for the command, because `index` is less than
            // `max_commands`.
            let place = unsafe { frame.commands.add(index) };
            // SAFETY: `place` is within the host's list of commands.
            unsafe { place.write(command) };
            // SAFETY: the host keeps the counter alive during the call.
            unsafe { frame.num_commands.write(index as i64 + 1) };
            command
        };
        self.done.set(index + 1);
        Ok(Command {
            raw: command,
            _call: PhantomData,
        })
    }
}

fn missing_function(function: &str) -> Error {
    Error::unimplemented(format!("the host's recorder has no function {function}"))
}

fn dim3(extents: [u32; 3]) -> Result<XLA_FFI_Dim3> {
    let [x, y, z] = extents.map(i32::try_from);
    match (x, y, z) {
        (Ok(x), Ok(y), Ok(z)) => Ok(XLA_FFI_Dim3 { x, y, z }),
        _ => Err(Error::invalid_argument(format!(
            "a recorded launch has at most 2147483647 blocks or threads along a dimension, not \
             {extents:?}"
        ))),
    }
}

impl<'f> Context<'f> for Recorder<'f> {
    const NAME: &'static str = "recorder";
    const SINCE: Revision = Feature::RecordStage.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        let extension = Extension::<'f, XLA_FFI_Extension_Record>::from_frame(frame)?;
        let (major, minor) = extension.version();
        if major != 0 || minor < 1 {
            return Err(Error::unimplemented(format!(
                "the host has version {major}.{minor} of the record extension, the handler wants 0.1 \
                 or newer of 0"
            )));
        }
        let raw = extension.as_raw().cast::<XLA_FFI_Record_Extension>();
        // SAFETY: the extension's number determines the struct, and all versions of the struct have
        // this field.
        let record = unsafe { (*raw).record_frame };
        let record = NonNull::new(record)
            .ok_or_else(|| Error::internal("the host's record extension has no frame"))?;
        Ok(Self {
            host: frame.host(),
            frame: record,
            minor,
            done: Cell::new(0),
            _call: PhantomData,
        })
    }
}

context!(Recorder<'f>);
