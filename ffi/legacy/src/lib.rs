//! The custom calls that came before XLA FFI: bare functions that get pointers and no sizes. The
//! book's chapter on them is `docs/legacy.md`.
//!
//! * [`adapt!`](crate::adapt) makes such a function a handler of XLA FFI, which every XLA calls and
//!   which can report failures.
//! * [`legacy!`](macro@crate::legacy) makes a handler, or a bare function, a target of the original
//!   conventions, for programs that still call those.
//! * [`Buffers`] reads a device's list of buffers in both of its forms; [`Staging`] writes the tuples
//!   of a result without stalling the stream; [`ShapeProto`] reads a shape out of its opaque bytes.

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

/// Each is `NAME = CONVENTION(FUNCTION), OPTIONS : ARGUMENTS -> RESULTS`. The convention is one of
///
/// | | the C function |
/// |---|---|
/// | `cpu` | `void(void* out, const void** in)` |
/// | `cpu_status` | `void(void* out, const void** in, XlaCustomCallStatus*)` |
/// | `cpu_unified` | `void(void* out, const void** in, const char* opaque, size_t len, XlaCustomCallStatus*)` |
/// | `gpu` | `void(stream, void** buffers, const char* opaque, size_t len)` |
/// | `gpu_status` | the same with a last `XlaCustomCallStatus*` |
///
/// The function is a handler, which stays safe code: what it returns, and its panics, go into the
/// status; where the convention has none, to standard error. Calls carry no sizes, so they are
/// declared: element types and dimensions of all operands, or `shapes = unsafe FUNCTION` from the opaque
/// bytes to [`Shapes`], which vouches that no operand has fewer elements. A program that calls the target with other sizes than declared
/// breaks its memory, as with every target of these conventions. For several results the function of
/// the CPU forms gets the array of pointers that today's XLA gives.
///
/// Brackets around shapes make tuples, nested to any depth: `(f32[128], f32[2048]) -> (f32[2048], (f32[2048]))`. The
/// handler has their leaves as operands and results, in pre-order. A program hands tuples over in one of two forms, which
/// nothing in a call tells apart, so that `tuples` has to say it:
///
/// | `tuples` | on the CPU | on devices |
/// |---|---|---|
/// | `"leaves"`: XLA from jaxlib 0.4.32 on | one pointer a leaf of the operands; a tuple result is one array of all its leaves | one pointer a leaf |
/// | `"roots"`: the original documents, jaxlib 0.4.31 | one pointer an operand and one for the result, a tuple's to an array of its elements' | every node: operands' tuples are read, results' are written |
///
/// An array that would lie at null or at an odd address is an error. Device targets by roots name a
/// `static` [`Staging`]: `pool = TUPLES`. It writes the tuples of the result behind what the
/// handler put on the stream, and finds the leaves of operands whose nodes are null by
/// [`Device::resolve`]. With `shapes = unsafe FUNCTION` the tuples are told by
/// `structure = "(_, _) -> (_, (_))"`, as in [`adapt!`](crate::adapt).
///
/// `opaque = "NAME"` is the attribute of the handler that the opaque bytes become: a string, or an
/// array or a number of the declared type. `platforms = ["…"]` says where it is registered: without
/// it, on the CPU or on CUDA.
///
/// `NAME = unsafe CONVENTION(FUNCTION)` takes a bare `unsafe extern "C"` function instead.
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
/// What a program then calls:
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

/// What the macros call. Not part of the public interface.
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

/// The book's chapter, whose code runs with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/legacy.md")]
struct Chapter;

/// Makes a function of the original conventions a handler of XLA FFI.
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
/// `unsafe` promises that the function may be called with whatever `describe` lets through. It is one
/// of `cpu`, `cpu_status`, `cpu_unified`, `gpu` and `gpu_status`; the last two are registered for CUDA,
/// unless `platforms = ["…"]` comes first. Options, in this order:
///
/// * `opaque = "NAME"`: the attribute whose bytes the function gets: a string, or an array of any
///   type. Without it there are none.
/// * `structure = "(_, _), _ -> (_, _)"`: the tuples that the function knows, `_` a leaf. Without it
///   the function sees one pointer a leaf, as on today's XLA; for several results `out` is an array of
///   pointers. With it, it sees what the original documents describe: nested arrays on CPU, every node
///   of the shapes in pre-order on devices.
/// * `describe = FUNCTION`: a [`Describe`] that sees types and sizes first. It refuses the call, or
///   writes bytes that the function gets as `opaque`.
/// * `copy = FUNCTION`: an `unsafe` [`CopyToDevice`], for a structure on devices.
///
/// What the function puts into its status becomes an `INTERNAL` error, its message whole; bytes that
/// are no UTF-8 are shown as `\xNN`. The function must not unwind: a C++ function that throws wants the
/// adapter of `xla_ffi/legacy/adapt.h`. Since r0.
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
