//! Calls on a CUDA device: copies the operands to the device and the results to the host.

use super::invoke::stage_error;
use super::request::{flips, operands};
use super::unwritten::Poison;
use super::{Call, Outcome, PreparedCall, Unwritten};
use crate::device::{CudaDevice, CudaMemory, Stream};
use crate::frame::{CallFrame, Stage};
use crate::value::memory::next_pattern;
use crate::value::{Shape, Tensor};
use std::ffi::c_void;
use xla_ffi_sys::{Error, ErrorCode, Hazard, Result};

/// Size in bytes of the guard after each array. The handler must not write the guard.
const GUARD: usize = 256;

/// An array on the device, followed by a guard. An array without elements has no device memory.
struct Array {
    shape: Shape,
    memory: Option<CudaMemory>,
    /// The value of the bytes in the guard.
    pattern: u8,
}

impl Array {
    /// Allocates an array on the device and copies a tensor's elements to it.
    fn copy_of(tensor: &Tensor, device: &CudaDevice) -> Result<Self> {
        let mut bytes = tensor.bytes().to_vec();
        let pattern = next_pattern();
        let memory = if bytes.is_empty() {
            None
        } else {
            bytes.resize(bytes.len() + GUARD, pattern);
            let memory = device.allocate(bytes.len())?;
            device.stream.upload(&bytes, &memory)?;
            Some(memory)
        };
        Ok(Self {
            shape: tensor.shape().clone(),
            memory,
            pattern,
        })
    }

    fn operand(&self) -> (Shape, *mut c_void) {
        let address = self.memory.as_ref().map(CudaMemory::address);
        (self.shape.clone(), address.unwrap_or(std::ptr::null_mut()))
    }

    /// Returns the current elements, or a hazard if the guard was written. `what` is the array's name for the error
    /// message.
    fn elements(&self, device: &CudaDevice, what: std::fmt::Arguments<'_>) -> Result<Vec<u8>> {
        let Some(memory) = &self.memory else {
            return Ok(vec![]);
        };
        let mut bytes = vec![0; memory.size()];
        device.stream.download(memory, &mut bytes)?;
        let guard = bytes.split_off(self.shape.bytes());
        if guard.iter().any(|byte| *byte != self.pattern) {
            return Err(Error::hazard(
                Hazard::BufferOverrun,
                format!("the bytes after {what} ({}) were written", self.shape),
            ));
        }
        Ok(bytes)
    }
}

/// The arrays of a call on the device. A result that aliases an argument uses the argument's array.
struct Arrays {
    args: Vec<Array>,
    rets: Vec<Array>,
    /// For each result, the index of the argument whose array it uses; `None` for a result with a separate array.
    aliases: Vec<Option<usize>>,
}

impl Arrays {
    fn copies_of(args: &[Tensor], rets: &[Tensor], device: &CudaDevice) -> Result<Self> {
        let copy = |tensor| Array::copy_of(tensor, device);
        let alias = |ret: &Tensor| args.iter().position(|arg| arg.shares_memory_with(ret));
        let aliases: Vec<_> = rets.iter().map(alias).collect();
        let own = rets
            .iter()
            .zip(&aliases)
            .filter(|(_, alias)| alias.is_none());
        Ok(Self {
            args: args.iter().map(copy).collect::<Result<_>>()?,
            rets: own.map(|(ret, _)| copy(ret)).collect::<Result<_>>()?,
            aliases,
        })
    }

    /// Returns the arrays of the results, in the order of the results.
    fn of_rets(&self) -> Vec<&Array> {
        let mut own = self.rets.iter();
        let array = |alias: &Option<usize>| match alias {
            Some(argument) => self.args.get(*argument),
            None => own.next(),
        };
        self.aliases.iter().filter_map(array).collect()
    }
}

impl Call {
    /// Runs the call on a CUDA device and waits until it is complete. The operands are copied to the device, and the
    /// results to the host. The call uses the device's stream and scratch memory, and has no thread pool. Requires
    /// the feature `cuda`.
    ///
    /// Each array on the device is followed by guard bytes, which the handler must not write.
    ///
    /// # Errors
    /// The errors of [`Call::run`], and errors of the driver, for example for missing memory or failed kernels.
    ///
    /// ```no_run
    /// # use xla_ffi_runtime::{CudaDevice, DType, Executable, Result, Shape, Tensor};
    /// # fn on_the_first_gpu(executable: &Executable) -> Result<Vec<f32>> {
    /// let device = CudaDevice::new(0)?;
    /// let call = executable.call().arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?);
    /// let outcome = call.ret(Shape::new(DType::F32, [2])?).run_on(&device)?;
    /// # Ok(outcome.rets[0].to_vec().unwrap())
    /// # }
    /// ```
    pub fn run_on(self, device: &CudaDevice) -> Result<Outcome> {
        let executable = self.executable.clone();
        let revision = executable.handler().shared.revision;
        let poisoned = self.request.rules.unwritten == Unwritten::Refused;
        let stream = device.stream.stream();
        let OnDevice {
            mut call,
            arrays,
            mut rets,
            poison,
        } = self.copy_to_device(device, stream, poisoned)?;
        if let Err(error) = call.invoke() {
            // The arrays are freed when the execution ends, because a handler that has not completed its future may
            // use them.
            call.on_end(move || drop(arrays));
            return Err(error);
        }
        let within = |error| stage_error(error, &executable, Stage::Execute);
        device.stream.wait().map_err(within)?;
        for (index, array) in arrays.args.iter().enumerate() {
            array.elements(device, format_args!("argument {index}"))?;
        }
        for (index, (ret, array)) in rets.iter_mut().zip(arrays.of_rets()).enumerate() {
            let elements = array.elements(device, format_args!("result {index}"))?;
            match ret.bytes_mut() {
                Some(bytes) => bytes.copy_from_slice(&elements),
                // The result's memory is shared with an argument, so the result gets a new tensor.
                None => *ret = Tensor::from_bytes(array.shape.clone(), &elements)?,
            }
        }
        if let Some(poison) = poison {
            // SAFETY: the checked results share no memory with other operands, and have not moved since `poison` was
            // created.
            unsafe { poison.check() }.map_err(within)?;
        }
        if flips(revision) {
            rets = rets
                .iter()
                .map(Tensor::with_flipped_packing)
                .collect::<Result<_>>()?;
        }
        Ok(Outcome { rets })
    }

    /// Captures the call twice, as XLA captures handlers with the command-buffer trait. Compares the kinds of the
    /// captured operations and the launch dimensions of kernels. No kernel is executed. Requires the feature `cuda`.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the captures differ, or if a call with results captures no operation. Uncaptured work
    /// would run once instead of at each replay. Also errors that the handler returns during the capture.
    pub fn check_capture(self, device: &CudaDevice) -> Result<()> {
        let executable = self.executable.clone();
        let wrong = |what: String| {
            let error = Error::new(
                ErrorCode::FailedPrecondition,
                format!(
                    "{what}; a handler declared command_buffer_compatible launches the same work on its stream in \
                     every call, for XLA replays what one call launched"
                ),
            );
            stage_error(error, &executable, Stage::Execute)
        };
        // The stream is borrowed, so that dropping it does not wait during the capture. SAFETY: the device keeps its
        // stream, and this function waits for the stream's work before it returns.
        let stream = unsafe { Stream::borrowed(device.stream.stream().handle()) };
        let OnDevice {
            mut call,
            arrays: _kept,
            rets,
            ..
        } = self.copy_to_device(device, stream, false)?;
        device.stream.wait()?;
        let mut capture = || device.stream.capture(|| call.invoke());
        let (first, second) = (capture()?, capture()?);
        if let Some(difference) = first.difference(&second) {
            return Err(wrong(format!("two captured calls differ: {difference}")));
        }
        if first.is_empty() && rets.iter().any(|ret| ret.shape().elements() > 0) {
            return Err(wrong("a captured call launches nothing".into()));
        }
        Ok(())
    }

    /// Copies the operands to the device and prepares the call.
    fn copy_to_device(
        mut self,
        device: &CudaDevice,
        stream: Stream,
        poisoned: bool,
    ) -> Result<OnDevice> {
        let revision = self.executable.handler().shared.revision;
        let mut args = std::mem::take(&mut self.request.args);
        let mut rets = vec![];
        operands(&mut args, &mut self.request.rets, revision, &mut rets)?;
        // SAFETY: this call owns the results, and arguments are not changed.
        let poison = poisoned.then(|| unsafe { Poison::tensors(&args, &rets) });
        let arrays = Arrays::copies_of(&args, &rets, device)?;
        let operand = |array: &Array| array.operand();
        let arguments: Vec<_> = arrays.args.iter().map(operand).collect();
        let results: Vec<_> = arrays.of_rets().into_iter().map(operand).collect();
        let frame = CallFrame::new(revision, &arguments, &results)?;
        let call = self
            .stream(stream)
            .allocator(device.allocator.clone())
            .without_thread_pool()
            .unwritten(Unwritten::Allowed);
        // SAFETY: the arrays have the shapes' sizes, and `OnDevice` keeps them until the execution has ended.
        let call = unsafe { call.prepare_on(frame) }?;
        Ok(OnDevice {
            call,
            arrays,
            rets,
            poison,
        })
    }
}

/// A call whose operands are on a device. The field `call` is dropped first, because the call's work on the stream
/// uses the arrays.
struct OnDevice {
    call: PreparedCall,
    arrays: Arrays,
    /// The results in host memory.
    rets: Vec<Tensor>,
    poison: Option<Poison>,
}
