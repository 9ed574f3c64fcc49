//! Real XLA without Python: programs compiled and run by a PJRT plugin, calling the handlers of any
//! library.
//!
//! A plugin is a shared library that exports `GetPjrtApi`: `xla_cpu_pjrt.so` of the wheel
//! `xla-cpu-pjrt` is XLA's CPU backend, `xla_cuda_plugin.so` of `jax-cuda13-pjrt` its CUDA backend.
//!
//! ```no_run
//! use xla_ffi_programs::pjrt::Plugin;
//! use xla_ffi_runtime::{DType, Runtime, Shape, Stage, Tensor};
//!
//! # fn main() -> xla_ffi_runtime::Result<()> {
//! let client = Plugin::load("xla_cpu_pjrt.so")?.client()?;
//! let library = Runtime::default().open("liboperands.so")?;
//! client.register("add", &library.bundle(&[(Stage::Execute, "operands__tiled_add")])?)?;
//! let x = Tensor::from_slice([2], &[1.0_f32, 2.0])?;
//! let results = client
//!     .call("add")
//!     .args([x.clone(), x])
//!     .ret(Shape::new(DType::F32, [2])?)
//!     .run()?;
//! assert_eq!(results[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
//! # Ok(())
//! # }
//! ```
//!
//! [`Client::call`] makes a program of one call; [`Client::compile`] takes any StableHLO. A
//! [`Program`](crate::Program) that runs on the embedded runtime runs here by one option more:
//! [`Options::client`](crate::Options::client).
//!
//! Handlers and types are registered with the XLA copy in the plugin, so for all its clients and
//! until the program ends. Plugins of PJRT 0.57 or later are taken; the functions behind
//! [`Client::register`] need the FFI extension with a register function.

/// The book's chapter, whose code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/pjrt.md")]
mod chapter {}

mod api;
mod bootstrap;
mod buffer;
mod call;
mod client;
mod described;
mod event;
mod executable;
mod extension;
mod initialised;
pub(crate) mod legacy;
mod plugin;
mod raw;
mod shared;
#[doc(hidden)]
pub mod unguarded;

pub use buffer::Buffer;
pub use call::Call;
pub use client::Client;
pub use executable::{Launch, Loaded};
pub use plugin::Plugin;
