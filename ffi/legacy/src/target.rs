//! Targets of the original conventions, created from handlers or from bare functions.

use std::ffi::{CString, c_char, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::adapt::Function;
use super::staging::{Device, Staging};
use super::table;
use super::table::Failure;
use super::tuples::{OnDevice, Tuples, on_host};
use xla_ffi::__private::{ListedTarget, OperandShape, Stage, entry};
use xla_ffi::{Error, Result, bind::AttrType};
use xla_ffi_sys::*;

/// The execute stage, the only stage of the original conventions.
const EXECUTE: u32 = XLA_FFI_ExecutionStage::EXECUTE.0;

/// The shapes of a call's operands, computed from the call's opaque bytes.
///
/// ```
/// use xla_ffi::{DataType, Error, Result};
/// use xla_ffi_legacy::Shapes;
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
    /// The element type and the dimensions of each argument.
    pub args: Vec<(XLA_FFI_DataType, Vec<i64>)>,
    /// The element type and the dimensions of each result.
    pub rets: Vec<(XLA_FFI_DataType, Vec<i64>)>,
}

/// The source of the shapes of a target's operands. Original custom calls do not pass sizes.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// The shapes of the arguments and of the results, which are the same in all calls.
    Fixed(&'static [OperandShape], &'static [OperandShape]),
    /// The shapes are computed from the opaque bytes of each call.
    FromOpaque(fn(opaque: &[u8]) -> Result<Shapes>),
}

impl Layout {
    /// Creates a layout from a function of the opaque bytes, for `legacy!`.
    ///
    /// # Safety
    /// For the opaque bytes of every call, `shapes` returns an error or the shapes of the operands. The element types
    /// are the types of the call's operands, and the shapes have at most as many elements.
    #[must_use]
    pub const unsafe fn from_opaque(shapes: fn(opaque: &[u8]) -> Result<Shapes>) -> Self {
        Self::FromOpaque(shapes)
    }
}

/// The properties of a target, as declared in `legacy!`.
#[derive(Clone, Copy, Debug)]
pub struct TargetInfo {
    /// The target's name.
    pub name: &'static str,
    /// The platforms for which hosts register the target.
    pub platforms: &'static [&'static str],
    /// The function that hosts call, and its convention.
    pub function: Function,
    /// The shapes of the operands; `None` for a bare function, which checks no shapes.
    pub layout: Option<Layout>,
    /// The tuples of the operands and the result, if any.
    pub tuples: Option<Tuples>,
}

impl TargetInfo {
    /// Returns the target as an entry of the library's list.
    #[must_use]
    pub const fn listed(&self) -> ListedTarget {
        ListedTarget {
            name: self.name,
            platforms: self.platforms,
            function: self.function.erased(),
            convention: self.function.name(),
            signature: self.function.signature(),
            api_version: self.function.api_version(),
            shapes: match self.layout {
                Some(Layout::Fixed(args, rets)) => Some((args, rets)),
                _ => None,
            },
            tuples: match &self.tuples {
                Some(tuples) => Some((tuples.word(), tuples.structure)),
                None => None,
            },
        }
    }
}

/// A target, defined with `legacy!`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a legacy target",
    note = "make one with `xla_ffi_legacy::legacy!`"
)]
pub trait LegacyTarget {
    /// The target's properties, as declared in `legacy!`.
    const INFO: TargetInfo;
}

/// The head of this library's list of targets: the target that was registered last.
static NEWEST: AtomicPtr<XlaFfiLegacyTarget> = AtomicPtr::new(std::ptr::null_mut());

/// Registers a target in this library's list, which hosts read (`xla_ffi_legacy_targets`). Use this function for
/// names that are only known at run time. Targets listed as `legacy` in `library!` are registered automatically.
///
/// ```
/// # use std::ffi::c_void;
/// use xla_ffi_legacy::{Function, register};
///
/// unsafe extern "C" fn nothing(_out: *mut c_void, _ins: *mut *const c_void) {}
/// // SAFETY: it may be called with anything.
/// assert!(unsafe { register("a\0b", "Host", Function::Cpu(nothing)) }.is_err());
/// ```
///
/// # Safety
/// The function may be called with the operands of every call that uses the name.
///
/// # Errors
/// `INVALID_ARGUMENT` for a name that is empty or has a NUL.
pub unsafe fn register(name: &str, platform: &str, function: Function) -> Result<()> {
    register_erased(name, platform, function.erased(), function.signature())
}

fn register_erased(
    name: &str,
    platform: &str,
    function: unsafe extern "C" fn(),
    signature: u32,
) -> Result<()> {
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
        function: function as *mut c_void,
        signature,
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

/// Returns the list of this library's targets, which includes the targets in `infos`. Used by
/// `library!`.
pub fn targets(once: &Once, infos: &[&'static ListedTarget]) -> *const XlaFfiLegacyTarget {
    once.call_once(|| {
        for info in infos {
            for platform in info.platforms {
                // The author promised in `legacy!` that the function has this convention.
                let registered =
                    register_erased(info.name, platform, info.function, info.signature);
                if let Err(error) = registered {
                    xla_ffi::__private::panics::warn(format_args!("{}: {error}", info.name));
                }
            }
        }
    });
    NEWEST.load(Ordering::Acquire)
}

/// A call of a target: the parts that all conventions have in common. Used by `legacy!`.
#[derive(Debug)]
pub struct Call {
    /// The target's name.
    pub name: &'static str,
    /// The shapes of the target's operands.
    pub layout: Layout,
    /// The tuples of the operands and the result.
    pub tuples: Option<Tuples>,
    /// The attribute that receives the opaque bytes.
    pub attribute: &'static str,
    /// The opaque bytes; null if the convention has none.
    pub opaque: *const c_char,
    /// The number of opaque bytes.
    pub opaque_len: usize,
    /// The call's status; null if the convention has no status.
    pub status: *mut XlaCustomCallStatus,
}

/// Calls `H` in the form of CPU targets, for `legacy!`. Conventions without opaque bytes pass none.
///
/// # Safety
/// The lists have a pointer for each operand of the layout, to at least as many elements as the layout declares.
/// `opaque` has `opaque_len` bytes. The status is null or belongs to the call.
pub unsafe fn call_cpu<H: Stage<EXECUTE>>(call: Call, out: *mut c_void, ins: *mut *const c_void) {
    call.answer(|| {
        let find = |args: usize, leaves: &mut [*mut c_void]| {
            // SAFETY: the caller guarantees the entries of `out` and `ins`.
            unsafe { on_host(call.tuples, out, ins, args, leaves) }
        };
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { call.run::<H>(None, &find) }
    });
}

/// Calls `H` in the form of device targets whose list of buffers has only the leaves, for
/// `legacy!`.
///
/// # Safety
/// The requirements of [`call_cpu`] apply to the list `buffers`.
pub unsafe fn call_device<H: Stage<EXECUTE>>(
    call: Call,
    stream: *mut c_void,
    buffers: *mut *mut c_void,
) {
    call.answer(|| {
        let find = |_: usize, leaves: &mut [*mut c_void]| {
            for (index, leaf) in leaves.iter_mut().enumerate() {
                // SAFETY: the list has the arguments, followed by the results.
                *leaf = unsafe { buffers.wrapping_add(index).read() };
            }
            Ok(())
        };
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { call.run::<H>(Some(stream), &find) }
    });
}

/// Calls `H` in the form of device targets whose list of buffers has every node, for `legacy!`. `pool` writes the
/// tuples of the result after `H` has succeeded.
///
/// # Safety
/// The requirements of [`call_cpu`] apply to the list of buffers. When the stream reaches this call, the result's
/// tables must have room, and operands' tuples must contain their elements' addresses.
pub unsafe fn call_device_roots<H: Stage<EXECUTE>, D: Device>(
    call: Call,
    pool: &'static Staging<D>,
    stream: *mut c_void,
    buffers: *mut *mut c_void,
) {
    call.answer(|| {
        let structure = call.tuples.map_or("", |tuples| tuples.structure);
        // SAFETY: the caller guarantees the entries of `buffers`.
        let list = unsafe { OnDevice::new(pool, structure, stream, buffers) }?;
        let find = |_: usize, leaves: &mut [*mut c_void]| list.leaves(leaves);
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { call.run::<H>(Some(stream), &find) }?;
        list.write()
    });
}

/// A function that fills a list with the addresses of arguments and results, given the number of arguments.
type Find<'a> = &'a dyn Fn(usize, &mut [*mut c_void]) -> Result<()>;

impl Call {
    /// Runs the call and writes the outcome to the status or to standard error. A panic, for example of the author's
    /// function for shapes, becomes an error.
    fn answer(&self, run: impl FnOnce() -> Result<()>) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let outcome = outcome.unwrap_or_else(|panic| {
            let text = xla_ffi::__private::panics::describe(self.name, panic);
            Err(Error::internal(text))
        });
        let Err(error) = outcome else { return };
        if self.status.is_null() {
            xla_ffi::__private::panics::warn(format_args!(
                "the custom call '{}' failed, and its convention has no status to report the error: {error}",
                self.name
            ));
            return;
        }
        // SAFETY: the status is valid until the call returns.
        unsafe { super::set_failure(self.status, error.to_string()) };
    }

    /// Calls `H` with operands of the layout.
    ///
    /// # Safety
    /// The operands that `find` returns have at least as many elements as the layout declares.
    unsafe fn run<H: Stage<EXECUTE>>(
        &self,
        stream: Option<*mut c_void>,
        find: Find<'_>,
    ) -> Result<()> {
        let opaque = if self.opaque_len == 0 || self.opaque.is_null() {
            &[]
        } else {
            // SAFETY: the caller upholds this function's safety contract.
            unsafe { std::slice::from_raw_parts(self.opaque.cast::<u8>(), self.opaque_len) }
        };
        let told;
        let (args, shapes): (usize, Vec<(XLA_FFI_DataType, &[i64])>) = match self.layout {
            Layout::Fixed(args, rets) => (args.len(), args.iter().chain(rets).copied().collect()),
            Layout::FromOpaque(shapes) => {
                told = shapes(opaque)?;
                let all = told.args.iter().chain(&told.rets);
                let all = all.map(|(dtype, dims)| (*dtype, &dims[..]));
                (told.args.len(), all.collect())
            }
        };
        if let Some(tuples) = self.tuples {
            tuples.check(args, shapes.len() - args)?;
        }
        let mut pointers = vec![std::ptr::null_mut(); shapes.len()];
        find(args, &mut pointers)?;
        let mut buffers: Vec<_> = shapes
            .iter()
            .zip(&pointers)
            .map(|((dtype, dims), data)| XLA_FFI_Buffer {
                struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                dtype: *dtype,
                data: *data,
                rank: dims.len() as i64,
                dims: dims.as_ptr().cast_mut(),
            })
            .collect();
        for (pointer, buffer) in pointers.iter_mut().zip(&mut buffers) {
            *pointer = std::ptr::from_mut(buffer).cast();
        }
        // All operands are buffers, so arguments and results can share one list of type tags.
        let mut types = vec![XLA_FFI_ArgType::BUFFER; shapes.len()];
        let value = Value::decode::<H>(self.attribute, opaque)?;
        let name = XLA_FFI_ByteSpan {
            ptr: self.attribute.as_ptr().cast(),
            len: self.attribute.len(),
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
                size: args as i64,
                types: types.as_mut_ptr(),
                args: pointers.as_mut_ptr(),
            },
            rets: XLA_FFI_Rets {
                struct_size: XLA_FFI_Rets::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                size: (shapes.len() - args) as i64,
                types: types.as_mut_ptr().cast(),
                rets: pointers[args..].as_mut_ptr(),
            },
            attrs: XLA_FFI_Attrs {
                struct_size: XLA_FFI_Attrs::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                size: i64::from(!self.attribute.is_empty()),
                types: tags.as_mut_ptr(),
                names: names.as_mut_ptr(),
                attrs: values.as_mut_ptr(),
            },
            future: std::ptr::null_mut(),
        };
        // SAFETY: the call frame is complete, and its parts are valid until the handler returns.
        let error = unsafe { entry::<H, EXECUTE>(&raw mut frame) };
        // SAFETY: all errors of this frame were created by this host's own function.
        match unsafe { Failure::from_raw(error) } {
            None => Ok(()),
            Some(failure) => Err(Error::internal(failure.message())),
        }
    }
}

/// The value of the attribute that receives the opaque bytes, with the type that the handler
/// declares.
enum Value {
    String(XLA_FFI_ByteSpan),
    Array(XLA_FFI_Array),
    Scalar(XLA_FFI_Scalar),
}

impl Value {
    fn decode<H: Stage<EXECUTE>>(name: &str, bytes: &[u8]) -> Result<Self> {
        let declared = H::INFO.attrs().find(|param| param.name == name);
        let declared = declared.map_or(AttrType::String, |param| param.attr);
        let data = bytes.as_ptr().cast_mut().cast();
        let whole = |dtype: xla_ffi::DataType| {
            let bits = dtype.bits().unwrap_or(0);
            let size = bits / 8;
            (size > 0 && bytes.len() % size == 0).then(|| bytes.len() / size)
        };
        let wrong = |what: &str, dtype| {
            Error::invalid_argument(format!(
                "the opaque has {} bytes, which are no {what} of {} for `{name}`",
                bytes.len(),
                xla_ffi::__private::frame::name(dtype)
            ))
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
