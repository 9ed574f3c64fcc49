//! The ABI of XLA's foreign function interface (FFI) as Rust declarations.
//!
//! This crate has every struct, enumeration, constant and function table that an XLA runtime and a custom call
//! exchange. It covers every *revision* of a released jaxlib ([`Revision`]). The feature `std` adds the error type of
//! all crates of the SDK ([`Error`]).
//!
//! A struct that is the same in all revisions is declared once. If a struct has a different layout in an older
//! revision, that layout has a separate declaration, whose name ends in the revision (`XLA_FFI_State_Set_Args_R0`).
//! One extension belongs to this SDK ([`XFFI_Cancellation_Extension`]).
//!
//! The names are those of the C header. Enumerations that a host may extend are transparent newtypes, so unknown values
//! are not undefined behaviour. Function pointers are `Option`, because a table slot may be null.
//!
//! # How layouts are checked
//!
//! Each struct has a `layout!` line with the type and offset of every field. The line does not compile if it differs
//! from the struct. The same lines are available as data ([`Layout`]). The C headers in `include/` and the snapshots
//! in `abi/` are generated from this data and compared with the headers of released jaxlib wheels.
//!
//! # Which fields can be read
//!
//! `struct_size` is the number of bytes that the creator of the struct has set. Read a field only if `struct_size`
//! covers the field, or if [`Revision`] shows that the field exists. Never create a reference to a whole
//! [`XLA_FFI_Api`], [`XLA_FFI_CallFrame`] or [`XLA_FFI_Metadata`] of a host, because their length varies.
#![no_std]
#![expect(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    reason = "C names are kept"
)]
#![deny(unsafe_code)]

#[cfg(any(feature = "std", test))]
extern crate std;

// The second option is redundant. With it, a test can trigger the error through `--cfg` on any
// machine.
#[cfg(any(not(target_pointer_width = "64"), target_pointer_width = "32"))]
compile_error!("XLA's FFI is laid out for 64-bit systems, and jaxlib has no 32-bit build");
#[cfg(target_endian = "big")]
compile_error!(
    "XLA's FFI is laid out for little-endian systems, and jaxlib has no big-endian build"
);

#[macro_use]
mod layout;

mod api;
mod attribute;
mod call_frame;
mod collectives;
mod context;
mod data_type;
mod element;
mod error;
mod extension;
mod feature;
mod handler;
mod history;
mod legacy;
pub mod manifest;
mod record;
mod revision;
mod state;
#[cfg(feature = "std")]
mod status;
mod types;

pub use api::*;
pub use attribute::*;
pub use call_frame::*;
pub use collectives::*;
pub use context::*;
pub use data_type::*;
pub use element::*;
pub use error::*;
pub use extension::*;
pub use feature::*;
pub use handler::*;
pub use history::*;
pub use layout::*;
pub use legacy::*;
pub use record::*;
pub use revision::*;
pub use state::*;
#[cfg(feature = "std")]
pub use status::*;
pub use types::*;

/// Tests the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
