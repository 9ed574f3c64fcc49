//! The conformance libraries on generated next revisions: longer tables and structs, unknown links, slots and
//! enumerators, a higher version. `tests/fixtures/next_revision.c` is the host.

use super::features::FEATURES;
use super::subject::{Subject, WRAP, values};
use super::{bootstrap, cell, expected};
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
use xla_ffi_testing::{rust_examples, skip};

/// How many revisions are generated, and the seed of the first.
const COUNT: u64 = 100;
const FIRST: u64 = 1;

/// What is new in a revision: the plan of the host in C.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Plan {
    minor: i32,
    slots: i32,
    frame_words: i32,
    buffer_words: i32,
    metadata_words: i32,
    extension_words: i32,
    links: i32,
    grown: i32,
    stage: i32,
    dtype: i32,
    arg_type: i32,
    attr_type: i32,
    code: i32,
    extension_minor: i32,
}

impl Plan {
    /// The revision of a seed: each kind of growth in about half of all.
    fn new(seed: u64) -> Self {
        let mut state = seed;
        // SplitMix64.
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        let newest = Revision::NEWEST.minor_version();
        let minor = newest + 1 + (next() % 5) as i32;
        let grown = (next() % (1 << Slot::ALL.len())) as i32;
        // From the first unknown number on, or none.
        let mut some = |first: i32, count: u64| match next() % 2 {
            0 => 0,
            _ => first + (next() % count) as i32,
        };
        Self {
            minor,
            slots: some(1, 12),
            frame_words: some(1, 6),
            buffer_words: some(1, 6),
            metadata_words: some(1, 6),
            extension_words: some(1, 4),
            links: some(1, 3),
            grown,
            stage: some(5, 3),
            dtype: some(40, 60),
            arg_type: some(2, 3),
            attr_type: some(5, 3),
            code: some(17, 5),
            extension_minor: some(1, 4),
        }
    }
}

/// The library with the host.
fn host() -> &'static libloading::Library {
    static HOST: OnceLock<libloading::Library> = OnceLock::new();
    HOST.get_or_init(|| {
        let path = Path::new(env!("C_EXAMPLES_DIR")).join("libnext_revision.so");
        // SAFETY: a library of ours, which has no constructors.
        unsafe { libloading::Library::new(path) }.expect("the host loads")
    })
}

/// Puts the host before a handler.
fn wrap(bundle: Bundle, stage: Stage) -> Bundle {
    type Wrap = unsafe extern "C" fn(XLA_FFI_Handler) -> XLA_FFI_Handler;
    // SAFETY: the host's function has this type.
    let wrap = unsafe { host().get::<Wrap>(b"next_revision_wrap") }.expect("the function");
    let handler = bundle.get(stage).expect("the stage was just added");
    // SAFETY: the host takes every handler.
    let wrapped = unsafe { wrap(handler) };
    // SAFETY: the host calls the handler as the runtime calls the host.
    unsafe { bundle.with(stage, wrapped) }
}

/// Starts the revision of a plan over a runtime.
fn begin(runtime: &Runtime, plan: &Plan) {
    type Begin = unsafe extern "C" fn(*const XLA_FFI_Api, *const Plan);
    // SAFETY: the host's function has this type.
    let begin = unsafe { host().get::<Begin>(b"next_revision_begin") }.expect("the function");
    // SAFETY: the table lives as long as the process; the plan is copied.
    unsafe { begin(runtime.api(), plan) }
}

/// What went wrong in the host since it began.
fn fault() -> Option<String> {
    type Fault = unsafe extern "C" fn() -> *const c_char;
    // SAFETY: the host's function has this type.
    let fault = unsafe { host().get::<Fault>(b"next_revision_fault") }.expect("the function");
    // SAFETY: it has no conditions.
    let text = unsafe { fault() };
    if text.is_null() {
        return None;
    }
    // SAFETY: a C string of the host's.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// How often each slot was called.
fn calls() -> [i64; Slot::ALL.len()] {
    type Calls = unsafe extern "C" fn() -> *const [i64; Slot::ALL.len()];
    // SAFETY: the host's function has this type.
    let calls = unsafe { host().get::<Calls>(b"next_revision_calls") }.expect("the function");
    // SAFETY: it has no conditions.
    let calls = unsafe { calls() };
    // SAFETY: the host's array, which no other thread writes any more.
    unsafe { *calls }
}

/// Runs every row on the revision of a seed; returns how many cells are right.
fn run(
    language: &str,
    [first, twin]: [&Path; 2],
    extension: Option<&Path>,
    seed: u64,
) -> Result<usize, String> {
    let plan = Plan::new(seed);
    // Flushed by the end of the line: if the process dies, this says where.
    println!("{language}, seed {seed}: {plan:?}");
    let runtime = Runtime::new(Revision::NEWEST);
    begin(&runtime, &plan);
    let bootstrap = bootstrap(option_env!("C_COMPILER").unwrap_or("cc"));
    let subject = Subject {
        library: runtime.open(first).expect("the library opens"),
        twin: runtime.open(twin).expect("the twin opens"),
        bootstrap: runtime.open(&bootstrap).expect("the bootstrap opens"),
        newest: Revision::NEWEST,
        runtime,
    };
    let table = include_str!("../../jax/expected.txt");
    for (feature, exercise) in FEATURES {
        let wanted = expected(table, language, feature, Revision::NEWEST);
        let (got, why) = cell(exercise(&subject));
        if got != wanted {
            return Err(format!("{feature}: expected {wanted}, got {got} {why}"));
        }
        if let Some(fault) = fault() {
            return Err(format!("{feature}: {fault}"));
        }
    }
    let minor = minor_of_extension(&subject.runtime, extension);
    let wanted = XLA_FFI_Extension_Collectives_MinorVersion + plan.extension_minor;
    if minor != Ok(wanted.into()) || fault().is_some() {
        return Err(format!("extension: version {minor:?}, {:?}", fault()));
    }
    match subject.runtime.take_findings().first() {
        Some(finding) => Err(finding.to_string()),
        None => Ok(FEATURES.len() + 1),
    }
}

/// Returns the minor version of the collectives, which the handler has to take if it is higher than it knows.
#[xla_ffi::handler]
fn extension_minor(
    mut y: Out<i64, 0>,
    found: Extension<'_, { XLA_FFI_Extension_Collectives }>,
    _all: Collectives,
) -> xla_ffi::Result<()> {
    y.fill(found.version().1.into());
    Ok(())
}

const IN_C: &str = r#"
#include "xla_ffi/handler.h"
#include "xla/ffi/api/collectives_c_api.h"
static XLA_FFI_Error* body(xffi_call* call) {
  const xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  const XLA_FFI_Extension* found;
  XLA_FFI_Error* error = xffi_decoded(call);
  if (error == NULL) error = xffi_extension(call, XLA_FFI_Extension_Collectives, &found);
  if (error == NULL) *(int64_t*)y.data = found != NULL ? found->id.minor_version : -1;
  return error;
}
XFFI_HANDLER(extension_minor, body);
"#;

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

/// Compiles the handler in C or C++; `None` for the one in Rust.
fn with_extension(language: &str, test: &str) -> Option<PathBuf> {
    let (is_cpp, text, flags) = match language {
        "c" => (false, IN_C, "-std=c99"),
        "cpp" => (true, IN_CPP, "-std=c++17"),
        _ => return None,
    };
    let program = compiler(is_cpp, test).expect("the conformance library was compiled");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = format!("next_revision_{language}");
    let program = program.to_str().expect("a compiler's name");
    let library = library_of_text(folder, &name, program, text, &[flags]);
    Some(library.expect("the handler compiles"))
}

/// What the handler of a library, or else the one in Rust, returns.
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

/// The slots that the rows use.
const USED: [Slot; 13] = [
    Slot::ErrorCreate,
    Slot::HandlerRegister,
    Slot::TypeRegister,
    Slot::StateSet,
    Slot::StateGet,
    Slot::ThreadPoolSchedule,
    Slot::ThreadPoolNumThreads,
    Slot::FutureCreate,
    Slot::FutureSetAvailable,
    Slot::RunIdGet,
    Slot::DeviceOrdinalGet,
    Slot::InvokeContextFindExtension,
    Slot::CustomOptionsGet,
];

/// Runs all seeds, or those of `XLA_FFI_SEEDS` (`FIRST..LAST`), in a process of their own, which may crash.
fn check(test: &str, language: &str, first: &Path, twin: &Path) {
    if option_env!("C_COMPILER").is_none() {
        return skip(test, "no C compiler when the tests were built");
    }
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
        match run(language, [first, twin], extension.as_deref(), seed) {
            Ok(right) => (cells, count) = (cells + right, count + 1),
            Err(why) => panic!(
                "{why}\nrun again: XLA_FFI_SEEDS={seed}..{} cargo test -p xla-ffi-tests --test languages {test}",
                seed + 1
            ),
        }
    }
    println!("{language}: {cells} cells on {count} generated revisions are right");
    for slot in USED {
        assert!(
            calls()[slot as usize] >= count,
            "{slot:?} was not called: {:?}",
            calls()
        );
    }
}

#[test]
fn the_rust_library() {
    let folder = rust_examples();
    let [first, twin] =
        ["libconformance.so", "libconformance_twin.so"].map(|name| folder.join(name));
    check("the_rust_library", "rust", &first, &twin);
}

#[test]
fn the_c_library() {
    let folder = Path::new(env!("C_EXAMPLES_DIR"));
    let [first, twin] =
        ["libconformance.so", "libconformance_twin.so"].map(|name| folder.join(name));
    check("the_c_library", "c", &first, &twin);
}

#[test]
fn the_cpp_library() {
    if option_env!("CPP_COMPILER").is_none() {
        return skip(
            "the_cpp_library",
            "no C++ compiler when the tests were built",
        );
    }
    let folder = Path::new(env!("C_EXAMPLES_DIR"));
    let [first, twin] =
        ["libconformance_cpp.so", "libconformance_twin_cpp.so"].map(|name| folder.join(name));
    check("the_cpp_library", "cpp", &first, &twin);
}
