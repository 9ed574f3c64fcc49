//! Tests C handlers on every revision of the embedded runtime. Features that C++ also supports are tested with
//! equivalent C++ handlers.

mod context;
mod examples;
mod functions;
mod threads;

use std::path::{Path, PathBuf};
use xla_ffi_runtime::{Attributes, Call, Error, Outcome, Revision, Runtime, Stage, Tensor, spec};
use xla_ffi_testing::{compiler, root, target_folder};

/// Builds a source of this folder as a library. Without a compiler, reports a skip with the reason and
/// returns `None`.
fn library(test: &str, source: &str) -> Option<PathBuf> {
    let include = root().join("include").display().to_string();
    let flags = ["-I", &include, "-fvisibility=hidden", "-pthread"].map(str::to_owned);
    let folder = target_folder().join("tmp/c");
    let path = root().join("tests/c").join(source);
    compiler::shared_library(&folder, test, &path, &source.replace('.', "_"), &flags)
}

/// Calls a handler with operands in the command line's notation. `more` adds further settings to the call.
fn call(
    revision: Revision,
    library: &Path,
    (symbol, attributes): (&str, &str),
    (args, rets): (&[&str], &[&str]),
    more: impl FnOnce(Call) -> Call,
) -> Result<Outcome, Error> {
    let runtime = Runtime::new(revision);
    let library = runtime.open(library)?;
    let handler = library.handler(symbol, &[(Stage::Execute, symbol)])?;
    // Some attributes have types that JAX does not pass to handlers.
    let mut call = handler
        .instantiate_any(&Attributes::parse(attributes)?)?
        .call();
    for arg in args {
        call = call.arg(spec::Spec::parse(arg)?.tensor()?);
    }
    for ret in rets {
        call = call.ret(spec::parse_result(ret)?);
    }
    let outcome = more(call).run();
    // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the address
    // is not reused.
    std::mem::forget(runtime);
    outcome
}

fn ints(tensor: &Tensor) -> Vec<i32> {
    tensor.to_vec().expect("s32")
}
