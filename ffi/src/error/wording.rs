//! Texts that the error messages of all languages share. `cargo xtask headers` copies them into
//! `include/xla_ffi/facts.h` for C and C++.

use std::fmt;

use xla_ffi_sys::{Feature, Revision};

/// Returns the name of a feature in messages about missing features.
#[must_use]
pub const fn feature(feature: Feature) -> &'static str {
    match feature {
        Feature::Registration => "registration",
        Feature::UserTypes => "user types",
        Feature::UserData => "user data",
        Feature::Stream => "the platform's stream",
        Feature::ScratchMemory => "scratch memory",
        Feature::Metadata => "metadata call",
        Feature::State => "state",
        Feature::ThreadPool => "thread pool",
        Feature::Futures => "futures",
        Feature::ThreadPoolSize => "size of the thread pool",
        Feature::RunId => "run id",
        Feature::DeviceOrdinal => "device ordinal",
        Feature::PackedElementTypes => "element types of less than a byte",
        Feature::TypesAgain => "registering a type again",
        Feature::TypeDeleters => "deleters of types",
        Feature::StageState => "state of the prepare and initialize stages",
        Feature::ErrorCodes => "error codes",
        Feature::Extensions => "extensions",
        Feature::RecordStage => "record stage",
        Feature::CustomOptions => "custom options",
        Feature::CollectiveWindows => "windows of collective memory",
        Feature::KernelPointers => "kernels by function pointer",
    }
}

/// Separates a feature from the first jaxlib that has the feature.
pub const FIRST_JAXLIB: &str = ": the first jaxlib that has it is ";
/// Separates the first jaxlib that has a feature from the host's version.
pub const THIS_HOST: &str = "; this host speaks ";
/// Precedes the host's version. The host's revision follows in brackets.
pub const VERSION: &str = "XLA FFI ";
/// Follows the host's version if the host is newer than every revision that the library knows.
pub const NEWER_HOST: &str = ", which is newer than this library: build it with a newer xla-ffi";
/// Separates a feature from the minor version of the host's extension.
pub const THIS_EXTENSION: &str = ": this host has version 0.";
/// Separates the extension's name from the first jaxlib that has the feature.
pub const NEWER_EXTENSION: &str = " extension; the first jaxlib that has 0.2 is ";

/// Follows the name of the handler or library that a host before r0 registers or calls.
pub const BEFORE_R0: &str = ": this host has the typed FFI from before its first revision, as in jaxlib 0.4.29, \
    0.4.30 and TensorFlow 2.17, which calls handlers in another way; the oldest that is supported is jaxlib 0.4.31";

/// Follows the name of an element type smaller than a byte if the host sent no number for the type.
/// C and C++ use this text, because they decode an operand without access to its host.
pub const WITHOUT_NUMBER: &str = " arrives without its type in this XLA and packed the other way \
    round; the first jaxlib that has it is ";

/// Reports an operand that is not a readable buffer.
pub const NOT_A_BUFFER: &str = "not a buffer, or shorter than the ABI's";
/// Follows an operand's type and shape if the number of elements cannot be computed.
pub const COUNT: &str = " has a negative dimension, or more elements than can be counted";
/// Follows an operand's type and shape if the operand's size in bytes overflows.
pub const BYTES: &str = " takes more bytes than can be addressed";
/// Reports an operand that has elements but no address.
pub const NULL_DATA: &str = " has a null data pointer";
/// Separates the name of a misaligned operand from the operand's address.
pub const IS_AT: &str = " is at ";
/// Separates a misaligned operand's address from the alignment that the element type requires.
pub const NOT_A_MULTIPLE: &str = ", which is not a multiple of ";
/// Separates a result from the operand that shares its memory.
pub const OVERLAPS: &str = " overlaps ";
/// Follows the operand that shares a result's memory, if that operand is an argument.
pub const ALIASED: &str =
    "; if the caller aliases them (input_output_aliases), declare an in-out operand";
/// Reports an in-out operand whose argument and result have different addresses. The indices of
/// both follow: `{0: 0}`.
pub const APART: &str = "argument and result are in different memory; declare the aliasing: \
    input_output_aliases=";
/// Follows the shapes of an in-out operand's argument and result if these shapes differ.
pub const ONE_ARRAY: &str = "; both must be the same array";

/// Reports that a handler for host memory is called with a device stream.
pub const DEVICE: &str = "the call has a device stream, but the handler reads and writes host memory; register it \
    for platform \"cpu\" only";
/// Reports a call frame that is too short. The frame's size and the expected size follow.
pub const SHORT_FRAME: &str = "the call frame or one of its lists is shorter than the ABI's";
/// Reports that a handler is called in the wrong stage. The stage's name follows.
pub const CALLED_AT: &str = "called in stage ";
/// Follows the name of the wrong stage in which a handler is called.
pub const OWN_STAGE: &str = "; register each function of the handler for its own stage";

/// Returns the message for a feature of version 0.2 of an extension on a host with version 0.`minor`.
pub(crate) fn older_extension(wanted: Feature, minor: i32, extension: &str) -> String {
    let (wanted, first) = (feature(wanted), wanted.since().first_jaxlib());
    format!("{wanted}{THIS_EXTENSION}{minor} of the {extension}{NEWER_EXTENSION}{first}")
}

/// A revision and its jaxlib releases as text: `r2, as in jaxlib 0.4.34 to 0.4.36`.
#[derive(Clone, Copy, Debug)]
pub struct Releases(pub Revision);

impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(revision) = self;
        let first = revision.first_jaxlib();
        write!(f, "{revision}, as in jaxlib {first}")?;
        match revision.last_jaxlib() {
            Some(last) if last != first => write!(f, " to {last}"),
            Some(_) => Ok(()),
            None => f.write_str(" and newer"),
        }
    }
}
