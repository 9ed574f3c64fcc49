//! The SDK's libraries on XLA's CPU backend behind a PJRT plugin: results and errors are those of the
//! embedded runtime.

mod behaviours;
mod conformance;

use std::path::{Path, PathBuf};
use xla_ffi_programs::pjrt::{Client, Plugin};
use xla_ffi_runtime::{Result, Tensor};
use xla_ffi_testing::plugin::plugin;
use xla_ffi_testing::skip;

/// A client of the plugin, or `None`, told.
fn client(test: &str) -> Option<Client> {
    let plugin = Plugin::load(plugin(test)?).expect("the plugin loads");
    Some(plugin.client().expect("a client"))
}

/// What an outcome is, for comparing: the results' bytes, or code and text.
fn told(outcome: Result<Vec<Tensor>>, compared: usize) -> Result<Vec<String>, String> {
    match outcome {
        Ok(rets) => Ok(rets
            .iter()
            .take(compared)
            .map(|ret| format!("{ret} {:?}", ret.bytes()))
            .collect()),
        Err(error) => Err(error.to_string()),
    }
}

/// A C or C++ example, or `None`, told, where there was no compiler.
fn c_example(test: &str, name: &str, compiler: Option<&str>) -> Option<PathBuf> {
    if compiler.is_none() {
        skip(test, "no compiler");
        return None;
    }
    Some(Path::new(env!("C_EXAMPLES_DIR")).join(name))
}
