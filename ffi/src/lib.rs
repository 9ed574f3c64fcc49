//! Write XLA custom calls in safe Rust. One binary loads in every XLA, rejects common mistakes with clear errors, and
//! is as fast as hand-written C.
//!
//! ```standalone_crate
//! use xla_ffi::prelude::*;
//!
//! /// y = a x, element by element.
//! #[xla_ffi::handler(shape = "... -> ...")]
//! fn scale(x: Buffer<f32>, mut y: Out<f32>, a: f32) -> Result<()> {
//!     y.write_with(|i| a * x[i]);
//!     Ok(())
//! }
//!
//! xla_ffi::library! { scale }
//!
//! # use xla_ffi::embed::{self, DType, Shape, Tensor};
//! # fn main() -> Result<(), xla_ffi::Error> {
//! // The examples here run on the embedded runtime: no XLA is needed (feature `internal`).
//! let call = embed::call::<scale>("{a = 2.0 : f32}")?
//!     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
//!     .ret(Shape::new(DType::F32, [2])?);
//! assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.0_f32, 4.0]));
//! # Ok(())
//! # }
//! ```
//!
//! As a `cdylib`, this code exports:
//! - the symbol `scale`, which JAX registers as a custom call target;
//! - a manifest that tools read without running the code;
//! - `xla_ffi_register`, which registers all handlers of the library with other hosts.
//!
//! # Parameters of a handler
//!
//! The type of a parameter determines which part of the call it receives:
//!
//! | | types |
//! |---|---|
//! | arguments | [`Buffer`], [`AnyBuffer`], [`OneOf`], [`Packed`], [`RemainingArgs`], [`Token`], [`DeviceBuffer`] |
//! | results | [`Out`], [`AnyOut`], [`OneOfOut`], [`PackedOut`], [`RemainingRets`], [`TokenOut`], [`DeviceOut`] |
//! | both | [`InOut`] |
//! | attributes | every type that implements [`Attribute`]: numbers, `bool`, `&str`, `&[T]`, [`Dictionary`] … |
//! | context | [`ThreadPool`], [`RunId`], [`DeviceOrdinal`], [`UserData`], [`State`], [`Stream`], [`Scratch`], [`CustomOptions`], [`Extension`](ext::Extension), [`Recorder`](ext::Recorder), [`Collectives`](ext::Collectives), [`Cancellation`], [`Later`], [`RawCall`](ext::RawCall) |
//!
//! `Option` around any of these types makes the parameter optional. `#[attr(…)]` on a parameter gives an attribute a
//! default, a different name or implicit narrowing; see [`macro@handler`]. With the feature `cuda`, `cuda::Stream`
//! launches kernels on device operands. To use your own types as parameters, derive [`macro@Attribute`] or
//! [`macro@Bind`].
#![cfg_attr(docsrs, feature(doc_cfg))]

// The check is in the crate and not in a macro, because programs can use handlers through `library!`, registration or
// the internal API.
#[cfg(panic = "abort")]
compile_error!("a panic in a handler must not take the host down: build with panic = \"unwind\"");

// The modules are ordered from the top layer down: a module uses only the modules below it (see
// tests/book/architecture.rs).
#[cfg(feature = "internal")]
pub mod embed;

mod entry;

mod declare {
    //! The declarations of handlers (stages and attributes), the manifest, and registration.
    pub(crate) mod contract;
    pub(crate) mod handler_info;
    pub(crate) mod library_check;
    pub(crate) mod manifest;
    #[cfg(unix)]
    pub(crate) mod on_load;
    pub(crate) mod register;
    pub mod shape;
    pub(crate) mod stage_params;
}

pub mod bind;

#[cfg(feature = "cuda")]
pub mod cuda;

mod context;

mod future;

mod attribute;

pub mod matching;

mod operand {
    //! Parameter types for arguments and results.
    #[cfg(feature = "ndarray")]
    mod arrays;
    pub(crate) mod buffer;
    pub(crate) mod device;
    pub(crate) mod inout;
    pub(crate) mod out;
    pub(crate) mod packed;
    pub(crate) mod rows;
    pub(crate) mod token;
    pub(crate) mod untyped;
}

mod param;

mod frame;

mod error;

pub use attribute::Attribute;
pub use attribute::dictionary::Dictionary;
pub use bind::one_of::{OneOf, OneOfOut};
pub use bind::remaining::{RemainingArgs, RemainingRets};
pub use context::launch::Launch;
pub use context::{
    Cancellation, CustomOptions, DeviceOrdinal, Initialize, Instantiate, Prepare, RunId, Scratch,
    State, Stream, ThreadPool, UserData,
};
pub use declare::shape;
pub use error::{Error, ErrorCode, Result};
pub use frame::element::{ANY_RANK, Element, Pred};
pub use frame::host_type::HostType;
pub use future::Later;
pub use operand::buffer::Buffer;
pub use operand::device::{DeviceBuffer, DeviceOut};
pub use operand::inout::InOut;
pub use operand::out::Out;
pub use operand::packed::{Packed, PackedOut};
pub use operand::token::{Token, TokenOut};
pub use operand::untyped::{AnyBuffer, AnyOut};
pub use param::bind::Bind;

pub mod device {
    //! Operands and kernel arguments on a device, in addition to [`DeviceBuffer`](crate::DeviceBuffer),
    //! [`DeviceOut`](crate::DeviceOut) and [`Launch`](crate::Launch).
    pub use crate::context::ScratchBuffer;
    pub use crate::context::launch::{KernelArg, KernelArgs, RawArg};
    pub use crate::operand::device::{AnyDeviceBuffer, AnyDeviceOut};
}

pub mod later {
    //! Promises of calls that complete later, and the operands that they own. Created by [`Later`](crate::Later).
    pub use crate::future::kept::{KeptAnyBuffer, KeptAnyOut, KeptBuffer, KeptInOut, KeptOut};
    pub use crate::future::split::{Divide, Part};
    pub use crate::future::{Detach, Kept, Promise};
}

pub mod element {
    //! Element types without an equivalent in Rust, and views of rows and results.
    pub use crate::frame::element::{
        F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU,
    };
    pub use crate::operand::out::Writer;
    pub use crate::operand::packed::{F4E2M1FN, PackedElement, S1, S2, S4, U1, U2, U4};
    pub use crate::operand::rows::{Rows, RowsMut};
}

pub mod ext {
    //! Features that only some hosts have: extensions of the ABI, command buffers, collectives, and the raw call.
    pub use crate::attribute::Pointer;
    pub use crate::context::{
        Collectives, Command, DeviceCommunicator, DeviceCommunicatorRequirements, Extension, Group,
        KernelSource, MemoryRegion, RawCall, Recorder, Window,
    };
}

/// Derives [`Attribute`](trait@Attribute), so that a struct or an enumeration can be decoded from attributes.
///
/// # Example
/// ```
/// use xla_ffi::{Attribute, prelude::*};
///
/// /// A dictionary, `{"lo": 0.0, "hi": np.float64(1)}` in Python.
/// #[derive(Attribute)]
/// struct Range {
///     lo: f64,
///     #[attr(default = f64::INFINITY)]
///     hi: f64,
/// }
///
/// /// An integer with two values.
/// #[derive(Attribute, PartialEq)]
/// #[repr(i64)]
/// enum Edge {
///     Clamp = 0,
///     Zero = 1,
/// }
///
/// #[xla_ffi::handler(shape = "... -> ...")]
/// fn bounded(x: Buffer<f64>, mut y: Out<f64>, range: Range, edge: Edge) -> Result<()> {
///     y.write_with(|i| match edge {
///         Edge::Clamp => x[i].clamp(range.lo, range.hi),
///         Edge::Zero if x[i] < range.lo || x[i] > range.hi => 0.0,
///         Edge::Zero => x[i],
///     });
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let on = |attrs| {
///     let x = Tensor::from_slice([2], &[-1.0, 1.0])?;
///     embed::call::<bounded>(attrs)?.arg(x).ret(Shape::new(DType::F64, [2])?).run()
/// };
/// let outcome = on("{range = {lo = 0.5}, edge = 0 : i64}")?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![0.5, 1.0]));
/// let error = on("{range = {low = 0.5}, edge = 2 : i64}").unwrap_err();
/// assert!(error.message().starts_with("bounded (execute): 2 problems"));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Details
pub use xla_ffi_macros::Attribute;
/// Derives [`Bind`](trait@Bind), so that a type can be created from a parameter of a different type.
///
/// # Example
/// ```
/// use xla_ffi::{Bind, prelude::*};
///
/// /// A matrix with as many rows as columns.
/// #[derive(Bind)]
/// #[bind(from = Buffer<'f, f64, 2>)]
/// struct Square<'f> {
///     elements: &'f [f64],
///     size: usize,
/// }
///
/// impl<'f> TryFrom<Buffer<'f, f64, 2>> for Square<'f> {
///     type Error = String;
///
///     fn try_from(matrix: Buffer<'f, f64, 2>) -> std::result::Result<Self, String> {
///         match matrix.shape() {
///             [n, m] if n == m => Ok(Self { elements: matrix.as_slice(), size: n }),
///             [n, m] => Err(format!("expected a square matrix, got {n} × {m}")),
///         }
///     }
/// }
///
/// #[xla_ffi::handler]
/// fn trace(a: Square, mut y: Out<f64, 0>) -> Result<()> {
///     y.fill((0..a.size).map(|i| a.elements[i * (a.size + 1)]).sum());
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let on = |n, m| {
///     let a = Tensor::from_slice([n, m], &vec![1.0; (n * m) as usize])?;
///     embed::call::<trace>("{}")?.arg(a).ret(Shape::new(DType::F64, [])?).run()
/// };
/// assert_eq!(on(2, 2)?.rets[0].to_vec(), Some(vec![2.0]));
/// let error = on(1, 2).unwrap_err();
/// assert_eq!(
///     error.message(),
///     "trace (execute): argument `a`: expected a square matrix, got 1 × 2"
/// );
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Details
pub use xla_ffi_macros::Bind;
/// Derives [`HostType`](trait@HostType), so that hosts can store a type as state or user data.
///
/// # Example
/// ```
/// use xla_ffi::HostType;
///
/// /// Known within this program or library only.
/// #[derive(HostType)]
/// struct Store(Vec<f32>);
///
/// /// Known under a name, with a number that the program has chosen. Safe while everything in the
/// /// process that uses the name or the number means two u64.
/// #[derive(HostType)]
/// #[host_type(unsafe(name = "my.cache.v1", id = 0x4d79_0000_0001))]
/// #[repr(C)]
/// struct Cache([u64; 2]);
///
/// assert!(Store::registration().name().contains("::Store@"));
/// assert_eq!(Cache::registration().name(), "my.cache.v1");
/// ```
///
/// See [`UserData`] and [`State`] for handlers that use host types.
///
/// # Details
pub use xla_ffi_macros::HostType;
/// Turns a function into a handler: the code that runs for a custom call.
///
/// # Example
/// ```
/// use xla_ffi::prelude::*;
///
/// /// y = a x + b; Python may leave `b` out, and pass `a` as the float that it is.
/// #[xla_ffi::handler(name = "my.affine", shape = "... -> ...")]
/// fn affine(
///     x: Buffer<f32>,
///     mut y: Out<f32>,
///     #[attr(narrow)] a: f32,
///     #[attr(narrow, default = 0.0)] b: f32,
/// ) -> Result<()> {
///     y.write_with(|i| a * x[i] + b);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// let call = embed::call::<affine>("{a = 2.0 : f64}")?
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?)
///     .ret(Shape::new(DType::F32, [2])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.0_f32, 4.0]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Details
pub use xla_ffi_macros::handler;
/// Exports handlers from a library, with a manifest and a registration function.
///
/// # Example
/// ```standalone_crate
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn answer(mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(42);
///     Ok(())
/// }
///
/// xla_ffi::library! { name = "answers"; answer }
///
/// # use xla_ffi::{embed, sys::{XLA_FFI_CallFrame, XLA_FFI_Error}};
/// # use xla_ffi_runtime::{Bundle, Runtime};
/// # fn main() -> Result<(), xla_ffi::Error> {
/// // The symbol that other programs find; in a `cdylib` also as plain `answer`.
/// unsafe extern "C" {
///     fn answers__answer(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;
/// }
/// // SAFETY: a handler of this program.
/// let bundle = unsafe { Bundle::execute(answers__answer) };
/// let handler = Runtime::default().handler("answer", bundle)?;
/// assert!(handler.metadata().is_some());
/// # Ok(())
/// # }
/// ```
///
/// # Details
pub use xla_ffi_macros::library;
/// Turns a type into a handler with several stages, one function per stage.
///
/// # Example
/// ```
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use xla_ffi::prelude::*;
///
/// /// Counts the executions of one call site.
/// struct Counter(AtomicI64);
///
/// #[xla_ffi::stateful]
/// impl Counter {
///     fn instantiate(#[attr(default = 0)] start: i64) -> Result<Self> {
///         Ok(Self(AtomicI64::new(start)))
///     }
///
///     fn execute(&self, mut y: Out<i64, 0>) -> Result<()> {
///         y.fill(self.0.fetch_add(1, Ordering::Relaxed));
///         Ok(())
///     }
/// }
///
/// # use xla_ffi::embed::{self, DType, Runtime, Shape};
/// let handler = Runtime::default().handler("Counter", embed::bundle::<Counter>())?;
/// let site = handler.instantiate(&embed::Attributes::new().with("start", 5_i64))?;
/// for expected in [5_i64, 6] {
///     let outcome = site.call().ret(Shape::new(DType::S64, [])?).run()?;
///     assert_eq!(outcome.rets[0].to_vec(), Some(vec![expected]));
/// }
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Details
pub use xla_ffi_macros::stateful;
/// The raw declarations of the ABI, for features that this crate does not wrap.
pub use xla_ffi_sys as sys;
pub use xla_ffi_sys::{Revision, XLA_FFI_DataType as DataType};

/// Tests the code in the README of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Tests the code in the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Front;

/// Tests the code in the book's chapter on Rust.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct Chapter;

/// Tests the code in the book's chapter on gradients.
#[cfg(doctest)]
#[doc = include_str!("../../docs/gradients.md")]
struct GradientsChapter;

/// Tests the code in the book's chapter on GPUs.
#[cfg(all(doctest, feature = "cuda"))]
#[doc = include_str!("../../docs/gpu.md")]
struct GpuChapter;

/// The items that most handlers need, for `use xla_ffi::prelude::*`.
pub mod prelude {
    pub use crate::{
        ANY_RANK, AnyBuffer, AnyOut, Buffer, CustomOptions, DeviceOrdinal, Dictionary, Error,
        ErrorCode, InOut, Out, RemainingArgs, RemainingRets, Result, RunId, Scratch, State, Stream,
        ThreadPool, Token, TokenOut, UserData,
    };
}

/// The functions and types that the macros' expansions use. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::attribute::derive_attribute::{
        Attributes, Flat, Member, explain_name, explain_number, explain_struct, explain_variants,
        has_attr, struct_from_dictionary,
    };
    pub use crate::bind::{Hidden, or_default};
    pub use crate::bind::{explain as explain_made, readable};
    pub use crate::context::load_state;
    pub use crate::declare::contract::{always_given, given, size_given};
    pub use crate::declare::contract::{counts_fit, entry_fits};
    pub use crate::declare::handler_info::{About, Batch, Gradient};
    pub use crate::declare::handler_info::{HandlerInfo, StageInfo, StateInfo};
    pub use crate::declare::library_check::check;
    pub use crate::declare::manifest::{
        Library, Listed, ListedTarget, OperandShape, manifest, size,
    };
    #[cfg(unix)]
    pub use crate::declare::on_load::register_on_load;
    pub use crate::declare::register::{Entries, Missing, Registrable, register};
    pub use crate::declare::stage_params::{check_param, operands};
    pub use crate::entry::entry;
    pub use crate::entry::operands::{counts, has_no_overlap};
    pub use crate::entry::outcome::{completed, finish, finish_stage, finish_state};
    pub use crate::entry::{Handler, Stage};
    pub use crate::frame::element::Wide;
    pub use crate::frame::host_type::KnownType;
    pub use crate::frame::pending::Flow;
    pub use crate::future::outlives::{MadeFrom, outlives_call};
    pub use crate::future::task::{Body, start_async};
    pub use crate::param::assert_one_api;
    pub use crate::param::{Bound, Range};
    /// The items of private modules that `xla-ffi-legacy` uses.
    pub mod frame {
        pub use crate::frame::element::name;
        pub use crate::frame::raw_buffer::RawBuffer;
        #[cfg(debug_assertions)]
        pub use crate::frame::result_ledger::mark_accessed;
    }
    #[cfg(feature = "cuda")]
    pub use crate::cuda::check as check_cuda;
    pub use crate::error::panics;
    pub mod wording {
        //! The texts that `cargo xtask headers` copies into the C headers.
        pub use crate::error::wording::*;
    }
    pub use crate::declare::shape::{
        Computed, Contract, Dim, Entry, arg_dims, computes, ret_dims, same_dims, same_size,
    };
    pub use xla_ffi_contract::Form;
    pub use xla_ffi_macros::{__export, __used};
    pub use xla_ffi_sys as sys;
}
