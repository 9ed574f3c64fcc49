//! Runs every example in every language, with the calls of `examples/examples.json`.
//!
//! `tests/jax/examples.py` and `cargo xtask demo` use the same file. These tests use the embedded runtime on every
//! revision, and XLA through a PJRT plugin. Results and errors must be identical.

mod embedded;
mod leaks;
mod pjrt;

use serde_json::Value;
use std::path::{Path, PathBuf};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{Attributes, Bundle, Library, Result, Shape, Stage, Tensor};
use xla_ffi_testing::{rust_examples, skip};

const LANGUAGES: [&str; 3] = ["Rust", "C++", "C"];
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn table() -> Vec<Value> {
    let text = include_str!("../../examples/examples.json");
    serde_json::from_str(text).expect("a list of examples")
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    let list = value[key].as_array().into_iter().flatten();
    list.map(|text| text.as_str().expect("a text")).collect()
}

/// Returns true if an example or a call exists in a language.
fn speaks(value: &Value, language: &str) -> bool {
    value["languages"].is_null() || texts(value, "languages").contains(&language)
}

/// Returns the library of an example in a language, or the reason why the library is missing.
fn library(name: &str, language: &str) -> std::result::Result<PathBuf, String> {
    let built = |compiler: Option<&str>, file: String| match compiler {
        Some(_) => Ok(Path::new(env!("C_EXAMPLES_DIR")).join(file)),
        None => Err(format!("no {language} compiler when the tests were built")),
    };
    match language {
        "Rust" => Ok(rust_examples().join(format!("lib{name}.so"))),
        "C++" => built(option_env!("CPP_COMPILER"), format!("lib{name}_cpp.so")),
        _ => built(option_env!("C_COMPILER"), format!("lib{name}.so")),
    }
}

fn tensor(text: &str) -> Tensor {
    let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    spec.tensor().expect("memory")
}

/// Returns the types of the results: the given types, or else the types of the expected values.
fn results(call: &Value) -> Vec<Shape> {
    let given = texts(call, "rets");
    let given = given.iter().map(|text| parse_result(text).expect("a type"));
    let expected = texts(call, "expect");
    expected
        .iter()
        .map(|text| tensor(text).shape().clone())
        .chain(given)
        .collect()
}

fn arguments(call: &Value) -> Vec<Tensor> {
    texts(call, "args").into_iter().map(tensor).collect()
}

/// Returns the index of the argument that a result aliases.
fn alias(call: &Value, result: usize) -> Option<usize> {
    let mut pairs = call["aliases"].as_array()?.iter();
    let pair = pairs.find(|pair| pair[1] == result)?;
    usize::try_from(pair[0].as_u64()?).ok()
}

fn attributes(call: &Value) -> Attributes {
    Attributes::parse(text(call, "attrs").unwrap_or("{}")).expect("attributes")
}

fn handler(call: &Value) -> &str {
    text(call, "handler").expect("a handler")
}

/// Returns a handler's functions for each stage.
fn bundle(library: &Library, call: &Value) -> Result<Bundle> {
    let name = handler(call);
    let more = texts(call, "stages");
    let symbols: Vec<_> = more.iter().map(|stage| format!("{name}_{stage}")).collect();
    let mut stages = vec![(Stage::Execute, name)];
    for (stage, symbol) in more.iter().zip(&symbols) {
        stages.push((Stage::from_name(stage).expect("a stage"), symbol));
    }
    library.bundle(&stages)
}

/// Calls `work` with the name, library and calls of each example in a language. Reports a skip if a compiler is
/// missing.
fn every_example(test: &str, language: &str, mut work: impl FnMut(&Value, &str, &Path, &[Value])) {
    for example in table().iter().filter(|example| speaks(example, language)) {
        let name = text(example, "example").expect("a name");
        let calls = example["calls"].as_array().expect("calls").iter();
        let calls: Vec<_> = calls
            .filter(|call| speaks(call, language))
            .cloned()
            .collect();
        match library(text(example, "library").expect("a library"), language) {
            Ok(path) => work(example, name, &path, &calls),
            Err(why) => skip(&format!("{test}: {name} in {language}"), &why),
        }
    }
}

/// Returns the names of a folder's files with this extension, without the extension.
fn sources(folder: &str, extension: &str) -> Vec<String> {
    let files = std::fs::read_dir(Path::new(ROOT).join(folder)).expect("a folder");
    let mut found: Vec<String> = files
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(extension)?.to_owned()))
        .collect();
    found.sort();
    found
}

#[test]
fn the_table_has_every_file() {
    let table = table();
    for (language, folder, extension) in [
        ("Rust", "examples", ".rs"),
        ("C++", "c_examples", ".cc"),
        ("C", "c_examples", ".c"),
    ] {
        let mut listed: Vec<&str> = table
            .iter()
            .filter(|example| speaks(example, language))
            .map(|example| text(example, "library").expect("a library"))
            .collect();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed, sources(folder, extension), "{language}");
    }
}
