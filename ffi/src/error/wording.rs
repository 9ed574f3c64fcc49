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

/// What C and C++, which decode an operand without asking its host, say behind an element type of less
/// than a byte that came without its number.
pub const WITHOUT_NUMBER: &str = " arrives without its type in this XLA and packed the other way \
    round; the first jaxlib that has it is ";
/// Behind the element type of an attribute that is F64, which nobody asks of a Python float.
pub const PYTHON_FLOAT: &str = " (a Python float is F64: pass numpy.float32(value) or the like)";
/// The same for S64.
pub const PYTHON_INT: &str = " (a Python int is S64: pass numpy.int32(value) or the like)";

/// Behind an operand's type and shape: its dimensions make no number of elements.
pub const COUNT: &str = " has a negative dimension, or more elements than can be counted";
/// Its bytes are too many.
pub const BYTES: &str = " takes more bytes than can be addressed";
/// It lies nowhere.
pub const NULL_DATA: &str = " has a null data pointer";
/// It lies at an address, which is no multiple of what its element type wants.
pub const LIES_AT: &str = " lies at ";
/// Behind that address.
pub const NO_MULTIPLE: &str = ", which is not a multiple of ";
/// Between a result and the operand with which it shares memory.
pub const OVERLAPS: &str = " overlaps ";
/// Of an in-out operand whose argument and result lie apart: `{0: 0}` follows, their indices.
pub const APART: &str = "argument and result lie in different memory; declare the aliasing: \
    input_output_aliases=";
/// Behind the shapes of an in-out operand's argument and result, which differ.
pub const ONE_ARRAY: &str = "; both have to be the same array";

/// Behind the name of a handler of host memory that is called with a device's stream.
pub const DEVICE: &str = ": the call comes with a device stream, but the handler takes its operands from \
    host memory; register it for platform \"cpu\" alone";

/// Behind the name of a handler: what it was called with is too short. The frame's size and the expected one follow.
pub const SHORT_FRAME: &str = ": the call frame or one of its lists is shorter than the ABI's";

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
