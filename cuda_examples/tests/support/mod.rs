//! The example libraries on the embedded runtime.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod driver;

use std::path::PathBuf;
use xla_ffi_runtime::{Attributes, Executable, Runtime, Stage};

/// An example library, built by the cargo that runs this test.
pub(crate) fn library(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a path of its own");
    let profile = this.ancestors().nth(2).expect("the profile's folder");
    profile.join(format!("examples/libcuda_{name}.so"))
}

/// A handler of an example library, instantiated.
pub(crate) fn load(library_name: &str, handler: &str, attributes: &str) -> Executable {
    let runtime = Runtime::default();
    let library = runtime.open(library(library_name)).expect("it loads");
    let symbols: Vec<(Stage, String)> = Stage::ALL
        .into_iter()
        .map(|stage| match stage {
            Stage::Execute => (stage, handler.to_owned()),
            _ => (stage, format!("{handler}_{}", stage.name())),
        })
        .filter(|(_, symbol)| library.symbol(symbol).is_ok())
        .collect();
    let symbols: Vec<(Stage, &str)> = symbols
        .iter()
        .map(|(stage, symbol)| (*stage, symbol.as_str()))
        .collect();
    let handler = library.handler(handler, &symbols).expect("it registers");
    let attributes = Attributes::parse(attributes).expect("attributes");
    handler.instantiate(&attributes).expect("it instantiates")
}
