//! Tests types that libraries register with hosts in Rust, C and C++.
//!
//! Covers types shared by several libraries, types of libraries that are loaded again, and mismatches
//! that must not count as an absent object.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use xla_ffi::{HostType, Prepare, embed::bundle, prelude::*};
use xla_ffi_runtime::{
    Attributes, Bundle, DType, Handler, Revision, Runtime, Shape, Stage, TypeInfo,
    UserData as Objects,
};
use xla_ffi_sys::XLA_FFI_Handler;
use xla_ffi_testing::{rust_examples, skip};

/// Returns the counter example in every language that this machine can build.
fn counters() -> Vec<PathBuf> {
    let mut found = vec![rust_examples().join("libexecution.so")];
    for (compiler, file) in [
        (option_env!("C_COMPILER"), "libexecution.so"),
        (option_env!("CPP_COMPILER"), "libexecution_cpp.so"),
    ] {
        if compiler.is_some() {
            found.push(Path::new(env!("C_EXAMPLES_DIR")).join(file));
        } else {
            skip(file, "no compiler when the tests were built");
        }
    }
    found
}

/// Loads, runs and unloads a library, and returns its load address.
fn run_once(runtime: &Runtime, path: &Path) -> Result<usize, String> {
    let path = path.to_str().unwrap();
    // SAFETY: the library is an example of ours, whose initializers have no preconditions.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    let entry = |name: &[u8]| {
        // SAFETY: handlers are exported with this type.
        *unsafe { library.get::<XLA_FFI_Handler>(name) }.unwrap()
    };
    let (instantiate, execute) = (entry(b"counter_instantiate"), entry(b"counter"));
    // SAFETY: these are the handler's entries, and everything made from them is dropped before the
    // library.
    let bundle = unsafe { Bundle::default().with(Stage::Instantiate, instantiate) };
    // SAFETY: these are the handler's entries, and everything made from them is dropped before the
    // library.
    let bundle = unsafe { bundle.with(Stage::Execute, execute) };
    let run = || {
        let handler = runtime.handler("counter", bundle)?;
        let attributes = Attributes::new().with("start", 3_i32);
        let call = handler.instantiate(&attributes)?.call();
        let outcome = call.ret(Shape::new(DType::S32, [])?).run()?;
        assert_eq!(outcome.rets[0].to_vec(), Some(vec![3_i32]));
        Ok(())
    };
    run().map_err(|error: xla_ffi_runtime::Error| error.to_string())?;
    Ok(execute as usize)
}

/// A library that is loaded at its previous address registers its types again, although the host
/// still knows their names.
#[test]
fn a_library_that_is_loaded_again_registers_its_types_again() {
    for path in counters() {
        for revision in [Revision::R1, Revision::R7, Revision::R10] {
            let runtime = Runtime::new(revision);
            let mut places: Vec<usize> = (0..40)
                .map(|time| match run_once(&runtime, &path) {
                    Ok(place) => place,
                    Err(error) => panic!("{}, time {time}, {revision}: {error}", path.display()),
                })
                .collect();
            places.sort_unstable();
            places.dedup();
            // Without two loads at the same address, the test would not cover anything.
            assert!(places.len() < 20, "{}: never at one place", path.display());
            // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the
            // address is not reused.
            std::mem::forget(runtime);
        }
    }
}

/// Defines a module that acts as a Rust library with its own type under the shared name.
macro_rules! library {
    ($name:ident) => {
        mod $name {
            use xla_ffi::prelude::*;

            #[derive(xla_ffi::HostType)]
            // SAFETY: all types with this name in these tests have the same layout.
            #[host_type(unsafe(name = "tests.Shared.v1"))]
            #[repr(C)]
            pub(super) struct Shared(i64);

            #[xla_ffi::handler]
            pub(super) fn seen(shared: Option<UserData<Shared>>, mut y: Out<i64, 0>) -> Result<()> {
                y.fill(shared.map_or(-1, |shared| shared.0));
                Ok(())
            }
        }
    };
}
library!(one);
library!(two);

const C: &str = r#"
#include "xla_ffi/handler.h"
static xffi_type shared_type = XFFI_SHARED_TYPE("tests.Shared.v1", NULL);
static XLA_FFI_Error* see(xffi_call* call) {
  void* data = NULL;
  XLA_FFI_Error* error;
  xffi_buffer y = xffi_ret(call, "y", XLA_FFI_DataType_S64, 0);
  if ((error = xffi_decoded(call)) != NULL) return error;
  error = xffi_find_user_data(call, &shared_type, &data);
  if (error != NULL) return error;
  *(int64_t*)y.data = data != NULL ? *(int64_t*)data : -1;
  return NULL;
}
XFFI_HANDLER(seen, see);
"#;

const CPP: &str = r#"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
struct Shared { static ffi::TypeId id; int64_t value; };
ffi::TypeId Shared::id = {};
static ffi::Error See(ffi::Context context, ffi::ResultBufferR0<ffi::S64> y) {
  static constexpr auto info = ffi::MakeTypeInfo<Shared>();
  Shared::id.type_id = 0;
  if (XLA_FFI_Error* error = ffi::Ffi::RegisterTypeId(context.api(), "tests.Shared.v1", &Shared::id, &info)) {
    ffi::internal::DestroyError(context.api(), error);
  }
  auto found = context.get<std::optional<ffi::UserData<Shared>>>();
  if (!found.has_value()) return found.error();
  *y->typed_data() = *found ? (**found)->value : -1;
  return {};
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    seen, See, ffi::Ffi::Bind().Ctx<ffi::Context>().Ret<ffi::BufferR0<ffi::S64>>());
"#;

/// Builds a library from a source. Returns `None` without a compiler.
fn built(name: &str, compiler: Option<&str>, source: &str, standard: &str) -> Option<PathBuf> {
    let Some(compiler) = compiler else {
        skip(name, "no compiler when the tests were built");
        return None;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("types");
    std::fs::create_dir_all(&folder).unwrap();
    let (text, library) = (folder.join(name), folder.join(format!("{name}.so")));
    std::fs::write(&text, source).unwrap();
    let status = Command::new(compiler)
        .args([
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-Wall",
            "-Werror",
            "-I",
        ])
        .arg(env!("SDK_INCLUDE_DIR"))
        .arg(standard)
        .arg(&text)
        .arg("-o")
        .arg(&library)
        .status()
        .unwrap();
    assert!(status.success(), "{name} does not compile");
    Some(library)
}

/// Returns two libraries in C and two in C++.
fn foreign() -> &'static [PathBuf] {
    // The libraries are built once, because a loaded library must not be overwritten.
    static BUILT: OnceLock<Vec<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let c = built("shared.c", option_env!("C_COMPILER"), C, "-std=c99");
        let cpp = built("shared.cc", option_env!("CPP_COMPILER"), CPP, "-std=c++17");
        let twice = |path: PathBuf| {
            let copy = path.with_extension("copy.so");
            std::fs::copy(&path, &copy).unwrap();
            [path, copy]
        };
        c.into_iter().chain(cpp).flat_map(twice).collect()
    })
}

/// Calls the handler. Returns the number in the object that the handler finds, -1 without an object, or the handler's
/// error.
fn look(handler: &Handler, objects: Option<&Arc<Objects>>) -> Result<i64, xla_ffi_runtime::Error> {
    let mut call = handler.instantiate(&Attributes::new())?.call();
    if let Some(objects) = objects {
        call = call.user_data(objects.clone());
    }
    let outcome = call.ret(Shape::new(DType::S64, [])?).run()?;
    Ok(outcome.rets[0].to_vec().unwrap()[0])
}

#[test]
fn libraries_share_the_number_of_a_type() {
    let foreign = foreign();
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let name = "tests.Shared.v1";
        // SAFETY: all libraries that use this name mean an i64.
        let id = unsafe { runtime.get_or_register_type(name, TypeInfo::default()) }.unwrap();
        static VALUE: i64 = 7;
        let mut objects = Objects::new(&runtime);
        // SAFETY: the object is a static that is never written.
        unsafe { objects.insert_borrowed(id, (&raw const VALUE).cast_mut().cast()) }.unwrap();
        let objects = Arc::new(objects);
        let mut handlers = vec![
            (
                "Rust".to_owned(),
                runtime.handler("one", bundle::<one::seen>()),
            ),
            (
                "Rust".to_owned(),
                runtime.handler("two", bundle::<two::seen>()),
            ),
        ];
        for path in foreign {
            let library = runtime.open(path).unwrap();
            let handler = library.handler("seen", &[(Stage::Execute, "seen")]);
            handlers.push((path.display().to_string(), handler));
        }
        for (language, handler) in handlers {
            let handler = handler.unwrap();
            let with = look(&handler, Some(&objects));
            assert_eq!(
                with.map_err(|e| e.to_string()),
                Ok(7),
                "{language}, {revision}"
            );
            let without = look(&handler, None).map_err(|e| e.to_string());
            assert_eq!(without, Ok(-1), "{language}, {revision}");
        }
        std::mem::forget(runtime);
    }
}

#[derive(HostType)]
struct Left(#[expect(dead_code, reason = "only its type counts")] i64);

#[derive(HostType)]
struct Asked;

struct Stages;

#[xla_ffi::stateful]
impl Stages {
    fn prepare() -> Result<Left> {
        Ok(Left(1))
    }

    fn execute(state: Option<State<Asked, Prepare>>, mut y: Out<i64, 0>) -> Result<()> {
        y.fill(if state.is_some() { 1 } else { -1 });
        Ok(())
    }
}

struct Mixed;

#[xla_ffi::stateful]
impl Mixed {
    fn prepare() -> Result<Asked> {
        Ok(Asked)
    }

    fn execute(state: Option<State<Asked, Prepare>>, mut y: Out<i64, 0>) -> Result<()> {
        y.fill(if state.is_some() { 1 } else { -1 });
        Ok(())
    }
}

#[test]
fn state_of_a_different_type_is_an_error() {
    let runtime = Runtime::default();
    let mixed = runtime.handler("mixed", bundle::<Mixed>()).unwrap();
    assert_eq!(look(&mixed, None).unwrap(), 1);
    // From this registration on, the library knows that the stage sets state of the type, so it requests the state from
    // the host.
    let stages = runtime.handler("stages", bundle::<Stages>()).unwrap();
    let error = look(&stages, None).expect_err("refused").to_string();
    assert!(
        error.contains("`state`: State_Get: the state is of type id"),
        "{error}"
    );
}

/// Types with the same name in different functions are distinct.
#[test]
fn types_of_the_same_name_are_distinct() {
    fn a() -> &'static str {
        #[derive(HostType)]
        struct Same(#[expect(dead_code, reason = "only its type counts")] u64);
        Same::registration().name()
    }
    fn b() -> &'static str {
        #[derive(HostType)]
        struct Same(#[expect(dead_code, reason = "only its type counts")] u64);
        Same::registration().name()
    }
    assert_ne!(a(), b());
    let path = "type_ids::types_of_the_same_name_are_distinct::a::Same@";
    assert!(a().contains(path), "{}", a());
}
