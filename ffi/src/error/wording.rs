//! Words that handlers of every language answer with. `cargo xtask headers` writes them into
//! `include/xla_ffi/facts.h`, so that C and C++ say the same.

use std::fmt;

use xla_ffi_sys::{Feature, Revision};

/// What a feature is called where it is missing.
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

/// What stands between a feature and the first jaxlib that has it.
pub const FIRST_JAXLIB: &str = ": the first jaxlib that has it is ";
/// What stands between that jaxlib and the host.
pub const THIS_HOST: &str = "; this host speaks ";
/// What stands before the host's version, behind which comes its revision in brackets.
pub const VERSION: &str = "XLA FFI ";
/// What stands between a feature and the minor version of the extension that the host has.
pub const THIS_EXTENSION: &str = ": this host has version 0.";
/// What stands between the extension's name and the first jaxlib that has the feature.
pub const NEWER_EXTENSION: &str = " extension; the first jaxlib that has 0.2 is ";

/// Behind the name of what was to be registered or called, where the host is from before r0.
pub const BEFORE_R0: &str = ": this host has the typed FFI from before its first revision, as in jaxlib 0.4.29, \
    0.4.30 and TensorFlow 2.17, which calls handlers in another way; the oldest that is supported is jaxlib 0.4.31";

/// What C and C++, which decode an operand without asking its host, say after an element type of less
/// than a byte that came without its number.
pub const WITHOUT_NUMBER: &str = " arrives without its type in this XLA and packed the other way \
    round; the first jaxlib that has it is ";

/// An operand is not a buffer that can be read.
pub const NOT_A_BUFFER: &str = "not a buffer, or shorter than the ABI's";
/// After an operand's type and shape: its dimensions make no number of elements.
pub const COUNT: &str = " has a negative dimension, or more elements than can be counted";
/// Its bytes are too many.
pub const BYTES: &str = " takes more bytes than can be addressed";
/// It has elements but no address.
pub const NULL_DATA: &str = " has a null data pointer";
/// Its address follows, which is not a multiple of what its element type requires.
pub const IS_AT: &str = " is at ";
/// After that address.
pub const NOT_A_MULTIPLE: &str = ", which is not a multiple of ";
/// Between a result and the operand with which it shares memory.
pub const OVERLAPS: &str = " overlaps ";
/// After that operand, if it is an argument.
pub const ALIASED: &str =
    "; if the caller aliases them (input_output_aliases), declare an in-out operand";
/// Of an in-out operand whose argument and result differ in address: `{0: 0}` follows, their indices.
pub const APART: &str = "argument and result are in different memory; declare the aliasing: \
    input_output_aliases=";
/// After the shapes of an in-out operand's argument and result, which differ.
pub const ONE_ARRAY: &str = "; both must be the same array";

/// A handler of host memory is called with a device's stream.
pub const DEVICE: &str = "the call has a device stream, but the handler reads and writes host memory; register it \
    for platform \"cpu\" only";
/// A handler is called with a frame that is too short. The frame's size and the expected one follow.
pub const SHORT_FRAME: &str = "the call frame or one of its lists is shorter than the ABI's";
/// A handler is called at the stage that follows, which is not its own.
pub const CALLED_AT: &str = "called in stage ";
/// After that stage.
pub const OWN_STAGE: &str = "; register each function of the handler for its own stage";

/// A feature of an extension's version 0.2 on a host with 0.`minor`.
pub(crate) fn older_extension(wanted: Feature, minor: i32, extension: &str) -> String {
    let (wanted, first) = (feature(wanted), wanted.since().first_jaxlib());
    format!("{wanted}{THIS_EXTENSION}{minor} of the {extension}{NEWER_EXTENSION}{first}")
}

/// A revision and the releases that speak it: `r2, as in jaxlib 0.4.34 to 0.4.36`.
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
