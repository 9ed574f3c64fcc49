//! Adapters: run a function of the original conventions as a handler of XLA FFI.

use std::ffi::c_void;

use super::operand::{Descriptor, Opaque, Operands, look};
use super::status;
use super::status::Status;
use super::structure::{Builder, Node, parse};
use xla_ffi::__private::frame::RawBuffer;
#[cfg(debug_assertions)]
use xla_ffi::__private::frame::mark_accessed;
use xla_ffi::{
    Bind, Error, Result, Scratch, Stream,
    bind::{At, DataTypes, Frame, Kind, Param, Problems},
};
use xla_ffi_sys::*;

/// A function of the original conventions.
///
/// ```
/// # use std::ffi::c_void;
/// use xla_ffi_legacy::{Function, register};
///
/// unsafe extern "C" fn nothing(_out: *mut c_void, _ins: *mut *const c_void) {}
///
/// // SAFETY: it may be called with anything.
/// let registered = unsafe { register("nothing", "Host", Function::Cpu(nothing)) };
/// assert!(registered.is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// A CPU function with the convention `API_VERSION_ORIGINAL`.
    Cpu(XlaCustomCallCpu),
    /// A CPU function with the convention `API_VERSION_STATUS_RETURNING`.
    CpuStatus(XlaCustomCallCpuStatus),
    /// A device function with the convention `API_VERSION_ORIGINAL`.
    Gpu(XlaCustomCallGpu),
    /// A device function with the convention `API_VERSION_STATUS_RETURNING` or
    /// `API_VERSION_STATUS_RETURNING_UNIFIED`.
    GpuStatus(XlaCustomCallGpuStatus),
    /// A CPU function with the convention `API_VERSION_STATUS_RETURNING_UNIFIED`.
    CpuUnified(XlaCustomCallCpuUnified),
}

impl Function {
    /// Returns the convention's name in the manifest.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu(_) => "cpu",
            Self::CpuStatus(_) => "cpu_status",
            Self::Gpu(_) => "gpu",
            Self::GpuStatus(_) => "gpu_status",
            Self::CpuUnified(_) => "cpu_unified",
        }
    }

    /// Returns the `CustomCallApiVersion` number with which every platform calls the function.
    pub(crate) const fn api_version(self) -> usize {
        match self {
            Self::Cpu(_) | Self::Gpu(_) => 1,
            Self::CpuStatus(_) | Self::GpuStatus(_) => 2,
            Self::CpuUnified(_) => 3,
        }
    }

    /// Returns the number of the function's signature.
    pub(super) const fn signature(self) -> u32 {
        match self {
            Self::Cpu(_) => XlaFfiLegacyTarget::CPU,
            Self::CpuStatus(_) => XlaFfiLegacyTarget::CPU_STATUS,
            Self::Gpu(_) => XlaFfiLegacyTarget::GPU,
            Self::GpuStatus(_) => XlaFfiLegacyTarget::GPU_STATUS,
            Self::CpuUnified(_) => XlaFfiLegacyTarget::CPU_UNIFIED,
        }
    }

    /// Returns the function as an untyped function pointer. The convention determines the real
    /// type.
    pub(crate) const fn erased(self) -> unsafe extern "C" fn() {
        let function = match self {
            Self::Cpu(function) => function as *const (),
            Self::CpuStatus(function) => function as *const (),
            Self::Gpu(function) => function as *const (),
            Self::GpuStatus(function) => function as *const (),
            Self::CpuUnified(function) => function as *const (),
        };
        // SAFETY: the pointer is a function's address, which is cast back to its real type before a call.
        unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn()>(function) }
    }

    const fn is_cpu(self) -> bool {
        !matches!(self, Self::Gpu(_) | Self::GpuStatus(_))
    }
}

/// A function that copies pointers from host to device memory, asynchronously on a stream. The source is only
/// valid until the function returns.
///
/// ```
/// use xla_ffi_legacy::CopyToDevice;
///
/// // Where host and device share their memory and the stream is empty.
/// let copy: CopyToDevice = |_stream, to, from| {
///     // SAFETY: the table has room.
///     unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
///     Ok(())
/// };
/// let (from, mut to) = ([std::ptr::dangling_mut()], [std::ptr::null_mut()]);
/// // SAFETY: one pointer each.
/// unsafe { copy(std::ptr::null_mut(), to.as_mut_ptr(), &from) }?;
/// assert_eq!(from, to);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Errors
/// Errors from the device's platform.
pub type CopyToDevice =
    unsafe fn(stream: *mut c_void, to: *mut *mut c_void, from: &[*mut c_void]) -> Result<()>;

/// A function that inspects the operands before an adapted function is called; see [`adapt!`](crate::adapt) and
/// [`Operands`].
///
/// ```
/// use xla_ffi::Error;
/// use xla_ffi_legacy::Describe;
///
/// let refuse_all: Describe = |operands, _| {
///     Err(Error::invalid_argument(format!("{} operands", operands.arg_count())))
/// };
/// assert_eq!(size_of_val(&refuse_all), size_of::<usize>());
/// ```
///
/// # Errors
/// An error that refuses the call.
pub type Describe = fn(operands: &Operands<'_>, opaque: &mut Descriptor) -> Result<()>;

/// An adapted function, and the data that a call of it needs. Created by [`adapt!`](crate::adapt).
#[derive(Clone, Copy, Debug)]
pub struct Adapter {
    /// The adapted function, with its convention.
    pub function: Function,
    /// The structure of the tuples that the function expects, if it expects tuples.
    pub structure: Option<&'static str>,
    /// The function that inspects the operands before a call.
    pub describe: Option<Describe>,
    /// The function that copies the pointers of tuples to a device.
    pub copy: Option<CopyToDevice>,
}

macro_rules! all {
    ($(#[$meta:meta])* $name:ident $kind:ident $operand:ident $field:ident $count:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $name<'f> {
            frame: Frame<'f>,
        }

        // SAFETY: the type holds only addresses and shapes; the adapted function dereferences the addresses.
        unsafe impl<'f> Bind<'f> for $name<'f> {
            const PARAM: Param = Param::operand(Kind::$kind, DataTypes::ANY, None)
                .variadic()
                .on_device();

            #[inline]
            fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
                let whole = |index| frame.$operand(index).and_then(look).is_some();
                (at.$field..frame.$count())
                    .all(whole)
                    .then_some(Self { frame: *frame })
            }

            fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
                for index in at.$field..frame.$count() {
                    let at = At { $field: index, ..*at };
                    problems.$operand(frame, &at, 1);
                }
            }
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.frame.$count()).finish()
            }
        }
    };
}

all! {
    /// All arguments of an adapted call, in host or device memory.
    Args Arg arg arg arg_count
}
all! {
    /// All results of an adapted call, in host or device memory.
    Rets Ret ret ret ret_count
}

/// Calls an adapted function.
///
/// # Safety
/// The adapted function may be called with the operands of this call.
///
/// # Errors
/// The failure in the function's status, and errors from `describe` and `copy`. `INVALID_ARGUMENT` if the structure
/// does not describe the call, and an error if a device call has no stream.
pub unsafe fn call(
    adapter: &Adapter,
    args: Args<'_>,
    _rets: Rets<'_>,
    opaque: Opaque<'_>,
    stream: Option<Stream<'_>>,
    scratch: Option<Scratch<'_>>,
) -> Result<()> {
    let operands = Operands { frame: args.frame };
    let mut descriptor = Descriptor::new();
    let mut opaque = opaque.as_bytes();
    if let Some(describe) = adapter.describe {
        describe(&operands, &mut descriptor)?;
        if !descriptor.as_bytes().is_empty() {
            opaque = descriptor.as_bytes();
        }
    }
    let stream = stream.map_or(std::ptr::null_mut(), Stream::as_raw);
    let call = Pointers {
        adapter,
        operands,
        opaque,
        stream,
    };
    if let Some(text) = adapter.structure {
        // SAFETY: the caller upholds this function's safety contract.
        return unsafe { call.structured(text, scratch) };
    }
    let leaves = operands.arg_count() + operands.ret_count();
    let leaf = |index| call.leaf(index).unwrap_or(std::ptr::null_mut());
    let mut list: Vec<_> = (0..leaves).map(leaf).collect();
    let rets = &mut list[operands.arg_count()..];
    let out = match operands.ret_count() {
        1 => rets[0],
        _ => rets.as_mut_ptr().cast(),
    };
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { call.enter(out, &mut list) }
}

/// The data of one call of an adapted function.
struct Pointers<'a> {
    adapter: &'a Adapter,
    operands: Operands<'a>,
    opaque: &'a [u8],
    stream: *mut c_void,
}

impl Pointers<'_> {
    /// Returns the address of leaf `index`. The leaves of arguments precede the leaves of results.
    fn leaf(&self, index: usize) -> Option<*mut c_void> {
        let args = self.operands.arg_count();
        let frame = self.operands.frame;
        let raw = match index.checked_sub(args) {
            None => frame.arg(index),
            Some(index) => frame.ret(index),
        };
        #[cfg(debug_assertions)]
        if let Some(ret) = raw.filter(|_| index >= args) {
            mark_accessed(ret.data().cast_const().cast());
        }
        raw.map(RawBuffer::data)
    }

    /// Builds the tuples and calls the function.
    ///
    /// # Safety
    /// The requirements of [`call`] apply.
    unsafe fn structured(&self, text: &str, scratch: Option<Scratch<'_>>) -> Result<()> {
        let args = self.operands.arg_count();
        let leaves = args + self.operands.ret_count();
        let wrong = || {
            Error::invalid_argument(format!(
                "the structure \"{text}\" does not describe a call with {args} operands and {} \
                 results",
                leaves - args
            ))
        };
        let (operands, result) = parse(text).ok_or_else(wrong)?;
        let count = operands.iter().map(Node::slots).sum::<usize>() + result.slots();
        let mut slots = vec![std::ptr::null_mut(); count];
        let mut base = slots.as_mut_ptr();
        let is_cpu = self.adapter.function.is_cpu();
        let mut device: Option<CopyToDevice> = None;
        if !is_cpu && !self.stream.is_null() {
            let copy = self.adapter.copy.ok_or_else(|| {
                Error::unimplemented(
                    "tuples on a device are in device memory: give the adapter a `copy` function",
                )
            })?;
            let scratch = scratch
                .as_ref()
                .ok_or_else(|| Error::failed_precondition("the call has no scratch memory"))?;
            let size = size_of_val(&slots[..]);
            base = scratch.allocate(size, 64)?.as_ptr().cast();
            device = Some(copy);
        }
        let mut builder = Builder {
            slots,
            used: 0,
            list: Vec::new(),
            leaf: |index| self.leaf(index),
            leaves: 0,
            base,
        };
        for (index, operand) in operands.iter().enumerate() {
            let root = builder.node(operand).ok_or_else(wrong)?;
            if is_cpu {
                // On the CPU, the adapted function receives only the roots.
                builder.list.truncate(index);
                builder.list.push(root);
            }
        }
        let (operand_leaves, operand_slots) = (builder.leaves, builder.used);
        let out = builder.node(&result).ok_or_else(wrong)?;
        if operand_leaves != args || builder.leaves != leaves {
            return Err(wrong());
        }
        if let Some(copy) = device.filter(|_| operand_slots > 0) {
            // SAFETY: the scratch memory has room for all slots, on the call's stream.
            unsafe { copy(self.stream, base, &builder.slots[..operand_slots]) }?;
        }
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { self.enter(out, &mut builder.list) }
    }

    /// Calls the adapted function and reads the status that the function wrote.
    ///
    /// # Safety
    /// The requirements of [`call`] apply. `out` and `list` have the form that the function
    /// expects.
    unsafe fn enter(&self, out: *mut c_void, list: &mut [*mut c_void]) -> Result<()> {
        let (list, opaque) = (list.as_mut_ptr(), self.opaque.as_ptr().cast());
        let (len, stream, status) = (self.opaque.len(), self.stream, Status::acquire());
        let at = status.as_ptr();
        match self.adapter.function {
            // SAFETY: the caller upholds this function's safety contract.
            Function::Cpu(function) => unsafe { function(out, list.cast()) },
            // SAFETY: the caller upholds this function's safety contract.
            Function::Gpu(function) => unsafe { function(stream, list, opaque, len) },
            // SAFETY: the caller upholds this function's safety contract.
            Function::CpuStatus(function) => unsafe { function(out, list.cast(), at) },
            // SAFETY: the caller upholds this function's safety contract.
            Function::CpuUnified(function) => unsafe {
                function(out, list.cast(), opaque, len, at);
            },
            // SAFETY: the caller upholds this function's safety contract.
            Function::GpuStatus(function) => unsafe { function(stream, list, opaque, len, at) },
        }
        match status.failure() {
            None => Ok(()),
            Some(message) => Err(Error::internal(status::text(&message))),
        }
    }
}
