//! The original custom calls, which predate XLA FFI: bare functions that receive pointers but no sizes. See
//! `docs/legacy.md` in the book.
//!
//! * [`adapt!`](crate::adapt) turns a bare function into a handler of XLA FFI. Every XLA can call the handler, and
//!   the handler can report failures.
//! * [`legacy!`](macro@crate::legacy) turns a handler, or a bare function, into a target of the original conventions,
//!   for programs that still use these conventions.
//! * [`Buffers`] reads a device target's list of buffers in both forms. [`Staging`] writes the tuples of a result
//!   without stalling the stream. [`ShapeProto`] reads a shape from opaque bytes.

mod adapt;
mod buffers;
#[cfg(feature = "internal")]
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod operand;
mod shape_proto;
mod staging;
mod status;
mod structure;
mod table;
mod target;
mod tuples;

pub use adapt::{CopyToDevice, Describe, Function};
pub use buffers::{Buffers, Form, Leaf, Root};
#[cfg(feature = "internal")]
pub use cpu::{CpuEvent, CpuStreams};
pub use operand::{Descriptor, Operand, Operands};
pub use shape_proto::ShapeProto;
pub use staging::{Device, Staging};
pub use status::{set_failure, set_success};
pub use target::{Shapes, register};

/// Each target is written as `NAME = CONVENTION(FUNCTION), OPTIONS : ARGUMENTS -> RESULTS`. The following conventions
/// exist:
///
/// | | the C function |
/// |---|---|
/// | `cpu` | `void(void* out, const void** in)` |
/// | `cpu_status` | `void(void* out, const void** in, XlaCustomCallStatus*)` |
/// | `cpu_unified` | `void(void* out, const void** in, const char* opaque, size_t len, XlaCustomCallStatus*)` |
/// | `gpu` | `void(stream, void** buffers, const char* opaque, size_t len)` |
/// | `gpu_status` | the same with a last `XlaCustomCallStatus*` |
///
/// The function is a handler, and can be safe code. Its errors and panics are written to the status, or to standard
/// error if the convention has no status. Calls carry no sizes, so you declare the element types and dimensions of
/// all operands. Alternatively, `shapes = unsafe FUNCTION` computes [`Shapes`] from the opaque bytes, and promises
/// that no operand has fewer elements. As with every target of the original conventions, a call with smaller operands
/// than declared is undefined behaviour. With several results, the CPU conventions receive an array of pointers, as
/// in current XLA.
///
/// Brackets around shapes form tuples of any depth: `(f32[128], f32[2048]) -> (f32[2048], (f32[2048]))`. The handler
/// receives the leaves of the tuples as operands and results, in pre-order. Programs pass tuples in one of two forms.
/// A call does not reveal the form, so `tuples` must declare it:
///
/// | `tuples` | on the CPU | on devices |
/// |---|---|---|
/// | `"leaves"`: XLA from jaxlib 0.4.32 on | one pointer per leaf of the operands; a tuple result is one array of all its leaves | one pointer per leaf |
/// | `"roots"`: the original documents, jaxlib 0.4.31 | one pointer per operand and one for the result; a tuple's pointer is to an array of its elements' pointers | one pointer per node; operands' tuples are read, results' tuples are written |
///
/// A null or misaligned array of a tuple is an error. Device targets with `"roots"` need a `static` [`Staging`]:
/// `pool = TUPLES`. The pool writes the tuples of the result after the handler's work on the stream. If nodes inside
/// operands are null, the pool's [`Device::resolve`] finds their leaves. With `shapes = unsafe FUNCTION`, declare the
/// tuples with `structure = "(_, _) -> (_, (_))"`, as in [`adapt!`](crate::adapt).
///
/// `opaque = "NAME"` names the handler's attribute that receives the opaque bytes: a string, an array, or a number.
/// `platforms = ["…"]` sets the platforms; the default is the CPU or CUDA, depending on the convention.
///
/// `NAME = unsafe CONVENTION(FUNCTION)` uses a bare `unsafe extern "C"` function instead.
///
/// # Example
/// ```
/// #![forbid(unsafe_code)]
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler(shape = "m, n -> n")]
/// fn tiled_add(b: Buffer<f32, 1>, c: Buffer<f32, 1>, mut a: Out<f32, 1>) -> Result<()> {
///     a.write_with(|i| b[i % b.len()] + c[i]);
///     Ok(())
/// }
///
/// xla_ffi_legacy::legacy! {
///     /// For programs that call it with API_VERSION_STATUS_RETURNING.
///     do_custom_call = cpu_status(tiled_add): f32[128], f32[2048] -> f32[2048];
/// }
///
/// xla_ffi::library! { name = "old_and_new"; tiled_add, legacy do_custom_call }
/// # fn main() {}
/// ```
///
/// The following program calls a target:
///
/// ```
/// use std::ffi::c_void;
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler(shape = "n -> n")]
/// fn double(x: Buffer<f32, 1>, mut y: Out<f32, 1>) -> Result<()> {
///     y.write_with(|i| 2.0 * x[i]);
///     Ok(())
/// }
/// xla_ffi_legacy::legacy! { doubled = cpu(double): f32[2] -> f32[2] }
/// xla_ffi::library! { name = "twice"; legacy doubled }
///
/// unsafe extern "C" {
///     fn twice__doubled(out: *mut c_void, ins: *mut *const c_void);
/// }
/// # fn main() {
/// let (x, mut y) = ([1.0_f32, 2.0], [0.0_f32; 2]);
/// let mut ins = [(&raw const x).cast()];
/// // SAFETY: two numbers each.
/// unsafe { twice__doubled((&raw mut y).cast(), ins.as_mut_ptr()) };
/// assert_eq!(y, [2.0, 4.0]);
/// # }
/// ```
pub use xla_ffi_macros::legacy;

/// Items that the macros use. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::adapt::{Adapter, Args, Rets, call};
    pub use crate::operand::Opaque;
    pub use crate::structure::is_structure;
    pub use crate::target::{
        Call, Layout, LegacyTarget, TargetInfo, call_cpu, call_device, call_device_roots, targets,
    };
    pub use crate::tuples::Tuples;
    pub use xla_ffi;
    pub use xla_ffi_macros::{__export_legacy, __promised};
}

/// The code of the book's chapter on original custom calls, which runs as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/legacy.md")]
struct Chapter;

/// Turns a function of the original conventions into a handler of XLA FFI.
///
/// ```standalone_crate
/// use std::ffi::c_void;
/// use xla_ffi_legacy::{Descriptor, Operands, set_failure};
/// use xla_ffi::prelude::*;
/// use xla_ffi::sys::XlaCustomCallStatus;
///
/// /// y = 1 / x, of a program that called it with `API_VERSION_STATUS_RETURNING`.
/// unsafe extern "C" fn invert(
///     out: *mut c_void,
///     ins: *mut *const c_void,
///     status: *mut XlaCustomCallStatus,
/// ) {
///     // SAFETY: one f32 in, one f32 out.
///     let (x, y) = unsafe { (*(*ins).cast::<f32>(), out.cast::<f32>()) };
///     if x == 0.0 {
///         // SAFETY: the call's status.
///         return unsafe { set_failure(status, "division by zero") };
///     }
///     // SAFETY: as above.
///     unsafe { *y = 1.0 / x };
/// }
///
/// /// What the bare function could not check.
/// fn one_number(operands: &Operands, _: &mut Descriptor) -> Result<()> {
///     operands.arg(0)?.expect("x", xla_ffi::DataType::F32, 1)?;
///     operands.ret(0)?.expect("y", xla_ffi::DataType::F32, 1)
/// }
///
/// xla_ffi_legacy::adapt! {
///     /// y = 1 / x.
///     invert_ffi = unsafe cpu_status(invert), describe = one_number;
/// }
/// xla_ffi::library! { invert_ffi }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// # fn main() -> Result<(), xla_ffi::Error> {
/// let call = |x: f32| -> Result<_, xla_ffi::Error> {
///     let call = embed::call::<invert_ffi>("{}")?;
///     Ok(call.arg(Tensor::from_slice([], &[x])?).ret(Shape::new(DType::F32, [])?))
/// };
/// assert_eq!(call(4.0)?.run()?.rets[0].to_vec(), Some(vec![0.25_f32]));
/// assert_eq!(call(0.0)?.run().unwrap_err().message(), "invert_ffi (execute): division by zero");
/// # Ok(())
/// # }
/// ```
///
/// `unsafe` promises that the function may be called with all operands that `describe` accepts. The convention is
/// `cpu`, `cpu_status`, `cpu_unified`, `gpu` or `gpu_status`. The conventions `gpu` and `gpu_status` are registered
/// for CUDA, unless the first option is `platforms = ["…"]`. Further options, in this order:
///
/// * `opaque = "NAME"`: the attribute whose bytes the function receives: a string, or an array of any type. By
///   default, the function receives no bytes.
/// * `structure = "(_, _), _ -> (_, _)"`: the tuples that the function expects; `_` is a leaf. The function then
///   receives the form that was first documented: nested arrays on the CPU, every node of the shapes in pre-order on
///   devices. By default, the function receives one pointer per leaf, as in current XLA; with several results, `out`
///   is an array of pointers.
/// * `describe = FUNCTION`: a [`Describe`] that checks types and sizes first. The function can refuse the call, or
///   write the adapted function's `opaque` bytes.
/// * `copy = FUNCTION`: an `unsafe` [`CopyToDevice`], for a structure on devices.
///
/// A failure in the function's status becomes an `INTERNAL` error with the complete message; bytes that are not UTF-8
/// are shown as `\xNN`. The function must not unwind: for C++ functions that throw, use the adapter in
/// `xla_ffi/legacy/adapt.h`. Available since r0 (jaxlib 0.4.31).
#[macro_export]
macro_rules! adapt {
    ($($(#[$meta:meta])* $vis:vis $name:ident = $unsafety:tt $convention:ident($function:path)
        $(, platforms = [$($platform:tt),+])?
        $(, opaque = $opaque:tt)?
        $(, structure = $structure:literal)?
        $(, describe = $describe:path)?
        $(, copy = $copy:path)? $(,)?);+ $(;)?) => {
        $($crate::__adapt! {
            @unsafe $unsafety $convention [$unsafety $(#[$meta])* $vis $name] [$function] [$($($platform),+)?]
            [$($opaque)?] [$($structure)?] [$($describe)?] [$($copy)?]
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __adapt {
    (@unsafe unsafe $($rest:tt)*) => {
        $crate::__adapt! { $($rest)* }
    };
    (@unsafe $($rest:tt)*) => {
        ::core::compile_error!("an adapter is `NAME = unsafe CONVENTION(FUNCTION)`: nothing asks what the function does");
    };
    (cpu [$($head:tt)*] [$function:path] [$($platform:tt),*] $($rest:tt)*) => {
        $crate::__adapt! { @host Cpu [$($head)*] [$function] [$($platform),*] $($rest)* }
    };
    (cpu_status [$($head:tt)*] [$function:path] [$($platform:tt),*] $($rest:tt)*) => {
        $crate::__adapt! { @host CpuStatus [$($head)*] [$function] [$($platform),*] $($rest)* }
    };
    (gpu [$($head:tt)*] [$function:path] [] $($rest:tt)*) => {
        $crate::__adapt! { gpu [$($head)*] [$function] ["cuda"] $($rest)* }
    };
    (gpu [$($head:tt)*] [$function:path] [$($platform:tt),+] $($rest:tt)*) => {
        $crate::__adapt! { @device Gpu [$($head)*] [$function] [$($platform),*]
            $($rest)* }
    };
    (cpu_unified [$($head:tt)*] [$function:path] [$($platform:tt),*] $($rest:tt)*) => {
        $crate::__adapt! { @host CpuUnified [$($head)*] [$function] [$($platform),*] $($rest)* }
    };
    (gpu_status [$($head:tt)*] [$function:path] [] $($rest:tt)*) => {
        $crate::__adapt! { gpu_status [$($head)*] [$function] ["cuda"] $($rest)* }
    };
    (gpu_status [$($head:tt)*] [$function:path] [$($platform:tt),+] $($rest:tt)*) => {
        $crate::__adapt! { @device GpuStatus [$($head)*] [$function] [$($platform),*]
            $($rest)* }
    };
    (@host $variant:ident [$($head:tt)*] [$function:path] [$($platform:tt),*] $opaque:tt
        [$($structure:literal)?] [$($describe:path)?] [$($copy:path)?]) => {
        $crate::__adapt! { @handler $variant [$($head)*] [$function] [$($platform),*] []
            [::core::option::Option::None] [::core::option::Option::None]
            $opaque [$($structure)?] [$($describe)?] [$($copy)?] }
    };
    (@device $variant:ident [$($head:tt)*] [$function:path] [$($platform:tt),*] $opaque:tt
        [$($structure:literal)?] [$($describe:path)?] [$($copy:path)?]) => {
        $crate::__adapt! { @handler $variant [$($head)*] [$function] [$($platform),*]
            [__stream: $crate::__private::xla_ffi::Stream<'_>, __scratch: ::core::option::Option<$crate::__private::xla_ffi::Scratch<'_>>]
            [::core::option::Option::Some(__stream)] [__scratch]
            $opaque [$($structure)?] [$($describe)?] [$($copy)?] }
    };
    (@handler $variant:ident [$($head:tt)*] [$function:path] [] $($rest:tt)*) => {
        $crate::__adapt! { @handler $variant [$($head)*] [$function] ["cpu"] $($rest)* }
    };
    (@handler $variant:ident [$($head:tt)*] [$function:path] [$($platform:tt),+]
        [$($context:tt)*] [$stream:expr] [$scratch:expr] []
        [$($structure:literal)?] [$($describe:path)?] [$($copy:path)?]) => {
        $crate::__adapt! { @function [$($head)*] [$($platform),*] [] [$($context)*]
            [$variant] [$function] [$crate::__private::Opaque::EMPTY] [$stream] [$scratch]
            [$($structure)?] [$($describe)?] [$($copy)?] }
    };
    (@handler $variant:ident [$($head:tt)*] [$function:path] [$($platform:tt),+]
        [$($context:tt)*] [$stream:expr] [$scratch:expr] [$opaque:tt]
        [$($structure:literal)?] [$($describe:path)?] [$($copy:path)?]) => {
        $crate::__adapt! { @function [$($head)*] [$($platform),*]
            [#[attr(name = $opaque)] __opaque: $crate::__private::Opaque<'_>,] [$($context)*]
            [$variant] [$function] [__opaque] [$stream] [$scratch]
            [$($structure)?] [$($describe)?] [$($copy)?] }
    };
    (@function [$unsafety:tt $(#[$meta:meta])* $vis:vis $name:ident] [$($platform:tt),+] [$($attr:tt)*]
        [$($context:tt)*] [$variant:ident] [$function:path] [$opaque:expr] [$stream:expr]
        [$scratch:expr] [$($structure:literal)?] [$($describe:path)?] [$($copy:path)?]) => {
        $(const _: () = assert!(
            $crate::__private::is_structure($structure),
            "expected a structure, for instance `(_, _) -> _`: `_` is a leaf, parentheses are a tuple"
        );)?
        $(#[$meta])*
        #[$crate::__private::xla_ffi::handler(platforms = [$($platform),+])]
        $vis fn $name(
            __args: $crate::__private::Args<'_>,
            __rets: $crate::__private::Rets<'_>,
            $($attr)*
            $($context)*
        ) -> $crate::__private::xla_ffi::Result<()> {
            #![allow(clippy::undocumented_unsafe_blocks, reason = "the author's promise")]
            #[allow(unused_mut, unused_assignments, reason = "options may be left out")]
            const ADAPTER: $crate::__private::Adapter = {
                let mut __structure = ::core::option::Option::None;
                let mut __describe: ::core::option::Option<$crate::Describe> =
                    ::core::option::Option::None;
                let mut __copy: ::core::option::Option<$crate::CopyToDevice> =
                    ::core::option::Option::None;
                $(__structure = ::core::option::Option::Some($structure);)?
                $(__describe = ::core::option::Option::Some($describe);)?
                $(__copy = ::core::option::Option::Some($copy);)?
                $crate::__private::Adapter {
                    function: $crate::Function::$variant($function),
                    structure: __structure,
                    describe: __describe,
                    copy: __copy,
                }
            };
            $crate::__private::__promised! {
                $unsafety $crate::__private::call(&ADAPTER, __args, __rets, $opaque, $stream, $scratch)
            }
        }
    };
}
