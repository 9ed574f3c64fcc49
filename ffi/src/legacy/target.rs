//! Targets of the original conventions, made from handlers or from bare functions.

use std::ffi::{CString, c_char, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::adapt::Function;
use super::staging::{Device, Staging};
use super::table::{self, Failure};
use super::tuples::{OnDevice, Tuples, on_host};
use crate::declare::attr_type::AttrType;
use crate::entry::Stage;
use crate::entry::entry;
use crate::error::{Error, Result};
use xla_ffi_sys::*;

/// The stage that the original conventions have.
const EXECUTE: u32 = XLA_FFI_ExecutionStage::EXECUTE.0;

/// Element type and dimensions of an operand.
pub(crate) type OperandShape = (XLA_FFI_DataType, &'static [i64]);

/// What a call's operands look like when only its opaque bytes can tell.
///
/// ```
/// use xla_ffi::{DataType, Error, Result, legacy::Shapes};
///
/// /// The opaque bytes are the number of elements.
/// fn shapes(opaque: &[u8]) -> Result<Shapes> {
///     let n = opaque.try_into().map(i64::from_le_bytes);
///     let n = n.map_err(|_| Error::invalid_argument("expected eight bytes"))?;
///     let vector = (DataType::F32, vec![n]);
///     Ok(Shapes { args: vec![vector.clone()], rets: vec![vector] })
/// }
/// assert_eq!(shapes(&3_i64.to_le_bytes())?.rets[0].1, [3]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    /// The arguments.
    pub args: Vec<(XLA_FFI_DataType, Vec<i64>)>,
    /// The results.
    pub rets: Vec<(XLA_FFI_DataType, Vec<i64>)>,
}

/// How the operands of a target are known: calls of the original conventions carry no sizes.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// Always the same: arguments and results.
    Fixed(&'static [OperandShape], &'static [OperandShape]),
    /// Told by the opaque bytes.
    FromOpaque(fn(opaque: &[u8]) -> Result<Shapes>),
}

impl Layout {
    /// For `legacy!`: what `shapes` makes of the opaque bytes.
    ///
    /// # Safety
    /// For the opaque bytes of every program that calls the target, `shapes` gives no more elements
    /// than the program's operands have, of their types, or an error.
    #[must_use]
    pub const unsafe fn from_opaque(shapes: fn(opaque: &[u8]) -> Result<Shapes>) -> Self {
        Self::FromOpaque(shapes)
    }
}

/// What `legacy!` says of a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetInfo {
    /// The name.
    pub name: &'static str,
    /// The platforms that it is registered for.
    pub platforms: &'static [&'static str],
    /// The function.
    pub function: Function,
    /// The operands; `None` for a bare function.
    pub layout: Option<Layout>,
    /// Their tuples, where there are some.
    pub tuples: Option<Tuples>,
}

impl TargetInfo {
    /// What stands for a target that there is none of.
    pub(crate) const NONE: Self = Self {
        name: "",
        platforms: &[],
        function: Function::Cpu(nothing),
        layout: None,
        tuples: None,
    };
}

unsafe extern "C" fn nothing(_out: *mut c_void, _ins: *mut *const c_void) {}

/// A target, made by `legacy!`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a target of the original conventions",
    note = "`xla_ffi::legacy!` makes one"
)]
pub trait LegacyTarget {
    /// What it says of itself.
    const INFO: TargetInfo;
}

/// The newest target of this library.
static NEWEST: AtomicPtr<XlaFfiLegacyTarget> = AtomicPtr::new(std::ptr::null_mut());

/// Registers a target with this library's list, which hosts walk (`xla_ffi_legacy_targets`); for
/// names that are known when the program runs. `legacy` targets in `library!` are there already.
///
/// ```
/// # use std::ffi::c_void;
/// use xla_ffi::legacy::{Function, register};
///
/// unsafe extern "C" fn nothing(_out: *mut c_void, _ins: *mut *const c_void) {}
/// // SAFETY: it may be called with anything.
/// assert!(unsafe { register("a\0b", "Host", Function::Cpu(nothing)) }.is_err());
/// ```
///
/// # Safety
/// The function may be called with the operands of every call that names it.
///
/// # Errors
/// `INVALID_ARGUMENT` for a name that is empty or has a NUL.
pub unsafe fn register(name: &str, platform: &str, function: Function) -> Result<()> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| {
            Error::invalid_argument(format!("{text:?} has a NUL: it cannot be a target's name"))
        })
    };
    if name.is_empty() {
        return Err(Error::invalid_argument("a target needs a name"));
    }
    let (name, platform) = (text(name)?, text(platform)?);
    let target = Box::leak(Box::new(XlaFfiLegacyTarget {
        struct_size: size_of::<XlaFfiLegacyTarget>(),
        name: name.into_raw(),
        platform: platform.into_raw(),
        function: function.address(),
        signature: function.signature(),
        next: NEWEST.load(Ordering::Relaxed),
    }));
    loop {
        let next = target.next.cast_mut();
        match NEWEST.compare_exchange(next, target, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(newest) => target.next = newest,
        }
    }
}

/// For `library!`: the list of this library's targets, with those of `infos`.
pub fn targets(once: &Once, infos: &[&'static TargetInfo]) -> *const XlaFfiLegacyTarget {
    once.call_once(|| {
        for info in infos {
            for platform in info.platforms {
                // SAFETY: the author's promise, given to `legacy!`.
                if let Err(error) = unsafe { register(info.name, platform, info.function) } {
                    crate::entry::panics::tell(format_args!("{}: {error}", info.name));
                }
            }
        }
    });
    NEWEST.load(Ordering::Acquire)
}

/// Operands for which nothing is allocated.
const INLINE: usize = 16;

/// The operands and results of one call, as a frame has them.
struct Frame<'a> {
    args: usize,
    rets: usize,
    shape: &'a dyn Fn(usize) -> (XLA_FFI_DataType, &'a [i64]),
    /// Finds where they lie, arguments before results.
    leaves: Leaves<'a>,
}

/// Given the number of arguments, fills a list with the addresses of arguments and results.
type Leaves<'a> = &'a dyn Fn(usize, &mut [*mut c_void]) -> Result<()>;

/// For `legacy!`: a call of `H` in the form of CPU targets; those without opaque bytes give none.
///
/// # Safety
/// The lists have a pointer for each operand of `layout`, to as many elements as it says; `opaque`
/// names that many bytes; `status` is null or the call's.
#[expect(
    clippy::too_many_arguments,
    reason = "what the C function gets, and what the macro knows"
)]
pub unsafe fn call_cpu<H: Stage<EXECUTE>>(
    name: &'static str,
    layout: Layout,
    tuples: Option<Tuples>,
    attribute: &'static str,
    out: *mut c_void,
    ins: *mut *const c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the caller's promise.
    let opaque = unsafe { bytes(opaque, opaque_len) };
    let leaves = |args: usize, leaves: &mut [*mut c_void]| {
        if let Some(tuples) = tuples {
            tuples.check(args, leaves.len() - args)?;
        }
        // SAFETY: the caller's lists.
        unsafe { on_host(tuples, out, ins, args, leaves) }
    };
    // SAFETY: the caller's promise.
    let outcome = unsafe { run::<H>(layout, attribute, opaque, None, &leaves) };
    tell_outcome(name, status, outcome);
}

/// # Safety
/// `data` names `len` bytes, which stay for as long as the call.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 || data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }
}

/// Calls `H` with operands as the layout tells.
///
/// # Safety
/// The leaves name as many elements as the layout says.
unsafe fn run<H: Stage<EXECUTE>>(
    layout: Layout,
    attribute: &'static str,
    opaque: &[u8],
    stream: Option<*mut c_void>,
    leaves: Leaves<'_>,
) -> std::result::Result<(), String> {
    match layout {
        Layout::Fixed(args, rets) => {
            let frame = Frame {
                args: args.len(),
                rets: rets.len(),
                shape: &|index| shape_at(args, rets, index),
                leaves,
            };
            // SAFETY: the caller's promise.
            unsafe { frame.call::<H>(attribute, opaque, stream) }
        }
        Layout::FromOpaque(shapes) => {
            let shapes = match std::panic::catch_unwind(|| shapes(opaque)) {
                Err(panic) => {
                    return Err(crate::entry::panics::describe(
                        "the shapes' function",
                        panic,
                    ));
                }
                Ok(Err(error)) => return Err(error.to_string()),
                Ok(Ok(shapes)) => shapes,
            };
            let all: Vec<_> = shapes.args.iter().chain(&shapes.rets).collect();
            let frame = Frame {
                args: shapes.args.len(),
                rets: shapes.rets.len(),
                shape: &|index| (all[index].0, &all[index].1[..]),
                leaves,
            };
            // SAFETY: the caller's promise.
            unsafe { frame.call::<H>(attribute, opaque, stream) }
        }
    }
}

/// For `legacy!`: a call of `H` in the form of device targets, whose list has the leaves.
///
/// # Safety
/// As [`call_cpu`], of one list.
#[expect(
    clippy::too_many_arguments,
    reason = "what the C function gets, and what the macro knows"
)]
pub unsafe fn call_device<H: Stage<EXECUTE>>(
    name: &'static str,
    layout: Layout,
    tuples: Option<Tuples>,
    attribute: &'static str,
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the caller's promise.
    let opaque = unsafe { bytes(opaque, opaque_len) };
    let leaves = |args: usize, leaves: &mut [*mut c_void]| {
        if let Some(tuples) = tuples {
            tuples.check(args, leaves.len() - args)?;
        }
        for (index, leaf) in leaves.iter_mut().enumerate() {
            // SAFETY: one list, arguments before results.
            *leaf = unsafe { buffers.wrapping_add(index).read() };
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    let outcome = unsafe { run::<H>(layout, attribute, opaque, Some(stream), &leaves) };
    tell_outcome(name, status, outcome);
}

/// For `legacy!`: a call of `H` in the form of device targets, whose list has every node. `pool` writes
/// the tuples of the result, when `H` has succeeded.
///
/// # Safety
/// As [`call_cpu`], of one list; tables of the result have room, and tuples of operands their elements'
/// addresses, once the stream has come there.
#[expect(
    clippy::too_many_arguments,
    reason = "what the C function gets, and what the macro knows"
)]
pub unsafe fn call_device_roots<H: Stage<EXECUTE>, D: Device>(
    name: &'static str,
    pool: &'static Staging<D>,
    layout: Layout,
    tuples: Option<Tuples>,
    attribute: &'static str,
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the caller's promise.
    let opaque = unsafe { bytes(opaque, opaque_len) };
    let call = || {
        let Some(tuples) = tuples else {
            unreachable!("`legacy!` names a pool where it names tuples");
        };
        // SAFETY: the caller's list.
        let list = unsafe { OnDevice::new(pool, tuples.structure, stream, buffers) }
            .map_err(|error| error.to_string())?;
        let leaves = |args: usize, leaves: &mut [*mut c_void]| {
            tuples.check(args, leaves.len() - args)?;
            list.leaves(leaves)
        };
        // SAFETY: the caller's promise.
        unsafe { run::<H>(layout, attribute, opaque, Some(stream), &leaves) }?;
        list.write().map_err(|error| error.to_string())
    };
    // The platform's functions may be anybody's.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    let outcome = outcome.unwrap_or_else(|panic| {
        Err(crate::entry::panics::describe(
            "the platform of its pool",
            panic,
        ))
    });
    tell_outcome(name, status, outcome);
}

fn shape_at(
    args: &'static [OperandShape],
    rets: &'static [OperandShape],
    index: usize,
) -> OperandShape {
    match index.checked_sub(args.len()) {
        None => args[index],
        Some(index) => rets[index],
    }
}

/// Tells the status, or whoever reads standard error, how a call went.
fn tell_outcome(
    name: &str,
    status: *mut XlaCustomCallStatus,
    outcome: std::result::Result<(), String>,
) {
    let Err(message) = outcome else { return };
    if status.is_null() {
        crate::entry::panics::tell(format_args!(
            "the custom call '{name}' failed, and its convention has no status to tell it: \
             {message}"
        ));
        return;
    }
    // SAFETY: the status of the call, which lasts.
    unsafe { super::set_failure(status, message) };
}

impl Frame<'_> {
    /// Calls the handler with a call frame of these operands.
    ///
    /// # Safety
    /// The leaves name as many elements as the shapes say.
    unsafe fn call<H: Stage<EXECUTE>>(
        &self,
        attribute: &'static str,
        opaque: &[u8],
        stream: Option<*mut c_void>,
    ) -> std::result::Result<(), String> {
        let count = self.args + self.rets;
        if count <= INLINE {
            let mut buffers = [EMPTY; INLINE];
            let mut pointers = [std::ptr::null_mut(); INLINE];
            // SAFETY: the caller's promise.
            return unsafe {
                self.enter::<H>(&mut buffers, &mut pointers, attribute, opaque, stream)
            };
        }
        let mut buffers = vec![EMPTY; count];
        let mut pointers = vec![std::ptr::null_mut(); count];
        // SAFETY: the caller's promise.
        unsafe { self.enter::<H>(&mut buffers, &mut pointers, attribute, opaque, stream) }
    }

    /// # Safety
    /// As [`Frame::call`]; the slices have room for all operands.
    unsafe fn enter<H: Stage<EXECUTE>>(
        &self,
        buffers: &mut [XLA_FFI_Buffer],
        pointers: &mut [*mut c_void],
        attribute: &'static str,
        opaque: &[u8],
        stream: Option<*mut c_void>,
    ) -> std::result::Result<(), String> {
        // All operands are buffers: one list of tags serves arguments and results, whatever their
        // number.
        let mut few = [XLA_FFI_ArgType::BUFFER; INLINE];
        let mut many = Vec::new();
        let types = if pointers.len() <= INLINE {
            &mut few[..]
        } else {
            many.resize(pointers.len(), XLA_FFI_ArgType::BUFFER);
            &mut many[..]
        };
        let count = self.args + self.rets;
        (self.leaves)(self.args, &mut pointers[..count]).map_err(|error| error.to_string())?;
        for (index, (buffer, pointer)) in buffers.iter_mut().zip(&mut pointers[..count]).enumerate()
        {
            let (dtype, dims) = (self.shape)(index);
            *buffer = XLA_FFI_Buffer {
                dtype,
                data: *pointer,
                rank: dims.len() as i64,
                dims: dims.as_ptr().cast_mut(),
                ..EMPTY
            };
            *pointer = std::ptr::from_mut(buffer).cast();
        }
        let value = Value::decode::<H>(attribute, opaque)?;
        let name = XLA_FFI_ByteSpan {
            ptr: attribute.as_ptr().cast(),
            len: attribute.len(),
        };
        let mut names = [(&raw const name).cast_mut()];
        let mut values = [value.address()];
        let mut tags = [value.tag()];
        let mut context = table::Context {
            stream: stream.unwrap_or(std::ptr::null_mut()),
        };
        let mut frame = XLA_FFI_CallFrame {
            struct_size: XLA_FFI_CallFrame::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            api: table::api(stream.is_some()),
            ctx: (&raw mut context).cast(),
            stage: XLA_FFI_ExecutionStage::EXECUTE,
            args: XLA_FFI_Args {
                struct_size: XLA_FFI_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                size: self.args as i64,
                types: types.as_mut_ptr(),
                args: pointers.as_mut_ptr(),
            },
            rets: XLA_FFI_Rets {
                struct_size: XLA_FFI_Rets::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                size: self.rets as i64,
                types: types.as_mut_ptr().cast(),
                rets: pointers[self.args..].as_mut_ptr(),
            },
            attrs: XLA_FFI_Attrs {
                struct_size: XLA_FFI_Attrs::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                size: i64::from(!attribute.is_empty()),
                types: tags.as_mut_ptr(),
                names: names.as_mut_ptr(),
                attrs: values.as_mut_ptr(),
            },
            future: std::ptr::null_mut(),
        };
        // SAFETY: a whole call frame, whose parts live until the handler returns.
        let error = unsafe { entry::<H, EXECUTE>(&raw mut frame) };
        // SAFETY: errors of this frame come from the table's own function.
        match unsafe { Failure::from_raw(error) } {
            None => Ok(()),
            Some(failure) => Err(failure.message()),
        }
    }
}

const EMPTY: XLA_FFI_Buffer = XLA_FFI_Buffer {
    struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
    extension_start: std::ptr::null_mut(),
    dtype: XLA_FFI_DataType::INVALID,
    data: std::ptr::null_mut(),
    rank: 0,
    dims: std::ptr::null_mut(),
};

/// The opaque bytes as the attribute that the handler declares.
enum Value {
    String(XLA_FFI_ByteSpan),
    Array(XLA_FFI_Array),
    Scalar(XLA_FFI_Scalar),
}

impl Value {
    fn decode<H: Stage<EXECUTE>>(name: &str, bytes: &[u8]) -> std::result::Result<Self, String> {
        let declared = H::INFO.attrs().find(|param| param.name == name);
        let declared = declared.map_or(AttrType::String, |param| param.attr);
        let data = bytes.as_ptr().cast_mut().cast();
        let whole = |dtype| {
            let bits = crate::operand::element::bit_width(dtype).unwrap_or(0);
            let size = bits / 8;
            (size > 0 && bytes.len() % size == 0).then(|| bytes.len() / size)
        };
        let wrong = |what: &str, dtype| {
            format!(
                "the opaque has {} bytes, which are no {what} of {} for `{name}`",
                bytes.len(),
                crate::operand::element::name(dtype)
            )
        };
        Ok(match declared {
            AttrType::Scalar(dtype) => match whole(dtype) {
                Some(1) => Self::Scalar(XLA_FFI_Scalar { dtype, value: data }),
                _ => return Err(wrong("value", dtype)),
            },
            AttrType::Array(dtype) => match whole(dtype) {
                Some(size) => Self::Array(XLA_FFI_Array { dtype, size, data }),
                None => return Err(wrong("array", dtype)),
            },
            AttrType::String | AttrType::Any | AttrType::Dictionary => {
                Self::String(XLA_FFI_ByteSpan {
                    ptr: bytes.as_ptr().cast(),
                    len: bytes.len(),
                })
            }
        })
    }

    fn tag(&self) -> XLA_FFI_AttrType {
        match self {
            Self::String(_) => XLA_FFI_AttrType::STRING,
            Self::Array(_) => XLA_FFI_AttrType::ARRAY,
            Self::Scalar(_) => XLA_FFI_AttrType::SCALAR,
        }
    }

    fn address(&self) -> *mut c_void {
        match self {
            Self::String(span) => std::ptr::from_ref(span).cast_mut().cast(),
            Self::Array(array) => std::ptr::from_ref(array).cast_mut().cast(),
            Self::Scalar(scalar) => std::ptr::from_ref(scalar).cast_mut().cast(),
        }
    }
}
