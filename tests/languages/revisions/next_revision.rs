//! Tests the conformance libraries on randomly generated future revisions. These revisions have longer tables and
//! structs, unknown links, slots and enumerators, and a higher version. `tests/fixtures/next_revision.c` is the host.

use super::features::FEATURES;
use super::subject::{Subject, WRAP, values};
use super::{bootstrap, cell, conformance, expected};
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use xla_ffi::ext::{Collectives, Extension};
use xla_ffi::prelude::Out;
use xla_ffi_runtime::{Attributes, Bundle, DType, Error, Revision, Runtime, Shape, Stage};
use xla_ffi_sys::{
    Slot, XLA_FFI_Api, XLA_FFI_Extension_Collectives, XLA_FFI_Extension_Collectives_MinorVersion,
    XLA_FFI_Handler,
};
use xla_ffi_testing::compiler::{compiler, library_of_text};
use xla_ffi_testing::skip;

/// The number of generated revisions, and the seed of the first.
const COUNT: u64 = 100;
const FIRST: u64 = 1;

/// The differences that a revision can have, in the order of the host's `struct plan`: the smallest value, and the
/// number of possible values. `grown` has a bit per slot.
const NEW: [(&str, i32, u64); 14] = [
    ("minor", Revision::NEWEST.minor_version() + 1, 5),
    ("slots", 1, 12),
    ("frame_words", 1, 6),
    ("buffer_words", 1, 6),
    ("metadata_words", 1, 6),
    ("extension_words", 1, 4),
    ("links", 1, 3),
    ("grown", 0, 1 << Slot::ALL.len()),
    ("stage", 5, 3),
    ("dtype", 40, 60),
    ("arg_type", 2, 3),
    ("attr_type", 5, 3),
    ("code", 17, 5),
    ("extension_minor", 1, 4),
];
const EXTENSION_MINOR: usize = 13;
type Plan = [i32; NEW.len()];

/// Returns the differences for a seed: always a higher version, and each other difference with a probability of one
/// half.
fn plan(seed: u64) -> Plan {
    let mut state = seed;
    // The generator is SplitMix64.
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    NEW.map(|(what, first, count)| match next() % 2 {
        0 if what != "minor" => 0,
        _ => first + (next() % count) as i32,
    })
}

/// Returns a function of the host's library.
///
/// # Safety
/// `F` is the function's type.
unsafe fn function<F: Copy>(name: &str) -> F {
    static HOST: OnceLock<libloading::Library> = OnceLock::new();
    let host = HOST.get_or_init(|| {
        let path = Path::new(env!("C_EXAMPLES_DIR")).join("libnext_revision.so");
        // SAFETY: the library is part of these tests and has no constructors.
        unsafe { libloading::Library::new(path) }.expect("the host loads")
    });
    // SAFETY: the caller guarantees that `F` is the function's type.
    *unsafe { host.get::<F>(name.as_bytes()) }.expect("the function")
}

/// Wraps a handler with the function of the host's library.
fn wrap(bundle: Bundle, stage: Stage) -> Bundle {
    type Wrap = unsafe extern "C" fn(XLA_FFI_Handler) -> XLA_FFI_Handler;
    let handler = bundle.get(stage).expect("the stage was just added");
    // SAFETY: the host's library declares the function with this type.
    let wrap = unsafe { function::<Wrap>("next_revision_wrap") };
    // SAFETY: the wrapping function accepts every handler.
    let wrapped = unsafe { wrap(handler) };
    // SAFETY: the host calls the handler with the arguments that it gets from the runtime.
    unsafe { bundle.with(stage, wrapped) }
}

/// Returns the first fault since the start of the revision, if any.
fn fault() -> Option<&'static CStr> {
    // SAFETY: the host's library declares the function with this type.
    let fault = unsafe { function::<extern "C" fn() -> *const c_char>("next_revision_fault") };
    let text = fault();
    if text.is_null() {
        return None;
    }
    // SAFETY: the host returns a C string that it does not modify.
    Some(unsafe { CStr::from_ptr(text) })
}

/// Runs every feature on the revision of a seed, and returns the number of cells that are as expected.
fn run(
    language: &str,
    [first, twin]: [&Path; 2],
    extension: Option<&Path>,
    seed: u64,
) -> Result<usize, String> {
    let plan = plan(seed);
    // The plan is printed before the run, so that it is known if the process dies.
    let shown = NEW
        .iter()
        .zip(plan)
        .map(|((what, ..), new)| format!("{what} {new}"));
    println!(
        "{language}, seed {seed}: {}",
        shown.collect::<Vec<_>>().join(", ")
    );
    let runtime = Runtime::new(Revision::NEWEST);
    type Begin = unsafe extern "C" fn(*const XLA_FFI_Api, *const Plan);
    // SAFETY: the host's library declares the function with this type.
    let begin = unsafe { function::<Begin>("next_revision_begin") };
    // SAFETY: the table is valid until the process ends, and the host copies the plan.
    unsafe { begin(runtime.api(), &raw const plan) };
    let bootstrap = bootstrap(option_env!("C_COMPILER").unwrap_or("cc"));
    let subject = Subject::open(runtime, [first, twin], &bootstrap, Revision::NEWEST);
    for (feature, exercise) in FEATURES {
        let wanted = expected(language, feature, Revision::NEWEST);
        let (got, why) = cell(exercise(&subject));
        if got != wanted {
            return Err(format!("{feature}: expected {wanted}, got {got} {why}"));
        }
        if let Some(fault) = fault() {
            return Err(format!("{feature}: {fault:?}"));
        }
    }
    // The C headers pass the extension to handlers unchanged, so there is nothing to test in C.
    if language != "c" {
        let minor = minor_of_extension(&subject.runtime, extension);
        // Without device communicators, the runtime provides the version before the newest.
        let wanted = XLA_FFI_Extension_Collectives_MinorVersion - 1 + plan[EXTENSION_MINOR];
        if minor != Ok(wanted.into()) || fault().is_some() {
            return Err(format!("extension: version {minor:?}, {:?}", fault()));
        }
    }
    match subject.runtime.take_findings().first() {
        Some(finding) => Err(finding.to_string()),
        None => Ok(FEATURES.len() + usize::from(language != "c")),
    }
}

/// Returns the minor version of the collectives extension that the handler gets. The handler must accept a version that
/// is higher than the newest known version.
#[xla_ffi::handler]
fn extension_minor(
    mut y: Out<i64, 0>,
    found: Extension<'_, { XLA_FFI_Extension_Collectives }>,
    _all: Collectives,
) -> xla_ffi::Result<()> {
    y.fill(found.version().1.into());
    Ok(())
}

const IN_CPP: &str = r#"
#include "xla/ffi/api/collectives_api.h"
namespace ffi = xla::ffi;
struct Found {
  Found(const XLA_FFI_Api*, const XLA_FFI_Collectives_Extension* ext) : minor(ext->extension_base.id.minor_version) {}
  int minor;
};
struct Minor : ffi::internal::CollectivesExtensionBase<Found> {};
static ffi::Error Body(Found found, ffi::CommunicatorContext, ffi::ResultBufferR0<ffi::S64> y) {
  *y->typed_data() = found.minor;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(extension_minor, Body, ffi::Ffi::Bind().Ctx<ffi::Extension<Minor>>()
    .Ctx<ffi::Extension<ffi::CollectivesExtension>>().Ret<ffi::BufferR0<ffi::S64>>());
"#;

/// Compiles the C++ handler. Returns `None` for the Rust handler, which needs no library.
fn with_extension(language: &str, test: &str) -> Option<PathBuf> {
    if language != "cpp" {
        return None;
    }
    let program = compiler(true, test).expect("the conformance library was compiled");
    let program = program.to_str().expect("a compiler's name");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = library_of_text(folder, "next_revision", program, IN_CPP, &["-std=c++17"]);
    Some(library.expect("the handler compiles"))
}

/// Calls the handler of a library, or the Rust handler of this program, and returns its result.
fn minor_of_extension(runtime: &Runtime, library: Option<&Path>) -> Result<i64, Error> {
    let bundle = match library {
        Some(path) => runtime
            .open(path)?
            .bundle(&[(Stage::Execute, "extension_minor")])?,
        None => xla_ffi::embed::bundle::<extension_minor>(),
    };
    let handler = runtime.handler("extension_minor", wrap(bundle, Stage::Execute))?;
    let provided = xla_ffi_runtime::Collectives::new(Revision::NEWEST, |_| std::ptr::null_mut())?;
    let call = handler.instantiate(&Attributes::new())?.call();
    let outcome = call
        .collectives(provided)
        .ret(Shape::new(DType::S64, [])?)
        .run()?;
    Ok(values::<i64>(&outcome, 0)[0])
}

/// Runs all seeds, or those of `XLA_FFI_SEEDS` (`FIRST..LAST`), in a separate process, because the process may crash.
fn check(test: &str, language: &str) {
    let (Some(_), Some([first, twin])) = (option_env!("C_COMPILER"), conformance(language)) else {
        return skip(test, "no compiler when the tests were built");
    };
    let seeds = std::env::var("XLA_FFI_SEEDS").unwrap_or(format!("{FIRST}..{}", FIRST + COUNT));
    if std::env::var_os("XLA_FFI_SEEDS_HERE").is_none() {
        let this = std::env::current_exe().expect("a path of its own");
        let output = Command::new(this)
            .args([
                &format!("revisions::next_revision::{test}"),
                "--exact",
                "--nocapture",
            ])
            .envs([("XLA_FFI_SEEDS_HERE", "1"), ("XLA_FFI_SEEDS", &seeds)])
            .output()
            .expect("the test starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let last = said
            .lines()
            .rfind(|line| line.contains("seed "))
            .unwrap_or_default();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{}: {last}\n{errors}",
            output.status
        );
        print!(
            "{}",
            said.lines()
                .rfind(|line| line.contains("cells"))
                .unwrap_or_default()
        );
        return;
    }
    let _ = WRAP.set(wrap);
    let (from, to) = seeds.split_once("..").expect("FIRST..LAST");
    let extension = with_extension(language, test);
    let (mut cells, mut count) = (0, 0);
    for seed in from.parse().expect("a seed")..to.parse::<u64>().expect("a seed") {
        match run(language, [&first, &twin], extension.as_deref(), seed) {
            Ok(right) => (cells, count) = (cells + right, count + 1),
            Err(why) => panic!(
                "{why}\nrun again: XLA_FFI_SEEDS={seed}..{} cargo test -p xla-ffi-tests --test languages {test}",
                seed + 1
            ),
        }
    }
    println!("{language}: {cells} cells on {count} generated revisions are right");
    type Calls = extern "C" fn() -> *const [i64; Slot::ALL.len()];
    // SAFETY: the host's library declares the function with this type.
    let calls = unsafe { function::<Calls>("next_revision_calls") }();
    // SAFETY: the array belongs to the host, and no other thread writes it any more.
    let calls = unsafe { *calls };
    // The features call these slots in every language.
    for slot in [
        Slot::ErrorCreate,
        Slot::HandlerRegister,
        Slot::TypeRegister,
        Slot::StateSet,
        Slot::StateGet,
        Slot::ThreadPoolSchedule,
        Slot::FutureCreate,
        Slot::RunIdGet,
    ] {
        assert!(
            calls[slot as usize] > 0,
            "{slot:?} was not called: {calls:?}"
        );
    }
}

#[test]
fn the_rust_library() {
    check("the_rust_library", "rust");
}

#[test]
fn the_c_library() {
    check("the_c_library", "c");
}

#[test]
fn the_cpp_library() {
    check("the_cpp_library", "cpp");
}
