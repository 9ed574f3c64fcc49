//! Every example in every language, on the embedded runtime at every revision: the calls of
//! `examples/examples.json`, which drives JAX (`tests/jax/examples.py`) and `cargo xtask demo` too.

use serde_json::Value;
use std::path::{Path, PathBuf};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, DType, Error, Executable, Revision, Runtime, Shape, Stage, Stages, Tensor,
};
use xla_ffi_testing::examples::rust_examples;
use xla_ffi_testing::skip;

const LANGUAGES: [&str; 3] = ["Rust", "C++", "C"];
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn table() -> Vec<Value> {
    let text = include_str!("../examples/examples.json");
    serde_json::from_str(text).expect("a list of examples")
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    let list = value[key].as_array().into_iter().flatten();
    list.map(|text| text.as_str().expect("a text")).collect()
}

/// Whether an example or a call is there in a language.
fn speaks(value: &Value, language: &str) -> bool {
    value["languages"].is_null() || texts(value, "languages").contains(&language)
}

fn since(example: &Value, call: &Value) -> Revision {
    let name = text(call, "since").or(text(example, "since"));
    Revision::from_name(name.unwrap_or("r0")).expect("a revision")
}

/// The library of an example, or why there is none.
fn library(name: &str, language: &str) -> Result<PathBuf, String> {
    let built = |compiler: Option<&str>, file: String| match compiler {
        Some(_) => Ok(Path::new(env!("C_EXAMPLES_DIR")).join(file)),
        None => Err(format!("no {language} compiler when the tests were built")),
    };
    match language {
        "Rust" => Ok(rust_examples().join(format!("lib{}.so", &name[3..]))),
        "C++" => built(option_env!("CPP_COMPILER"), format!("lib{name}_cpp.so")),
        _ => built(option_env!("C_COMPILER"), format!("lib{name}.so")),
    }
}

fn tensor(text: &str) -> Tensor {
    let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    spec.tensor().expect("memory")
}

/// The results' types: those of the expected values, or the ones given.
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

fn executable(runtime: &Runtime, path: &Path, call: &Value) -> Result<Executable, Error> {
    let library = runtime.open(path)?;
    let name = text(call, "handler").expect("a handler");
    let more = texts(call, "stages");
    let symbols: Vec<_> = more.iter().map(|stage| format!("{name}_{stage}")).collect();
    let mut stages = vec![(Stage::Execute, name)];
    for (stage, symbol) in more.iter().zip(&symbols) {
        stages.push((Stage::from_name(stage).expect("a stage"), symbol));
    }
    let attributes = Attributes::parse(text(call, "attrs").unwrap_or("{}")).expect("attributes");
    library.handler(name, &stages)?.instantiate(&attributes)
}

fn execute(executable: &Executable, call: &Value) -> Result<Vec<Tensor>, Error> {
    let mut run = executable.call().stages(Stages::Cpu).check_unwritten(true);
    run = run.args(texts(call, "args").into_iter().map(tensor));
    let aliases = call["aliases"].as_array();
    for (index, shape) in results(call).into_iter().enumerate() {
        let pair = aliases.and_then(|pairs| pairs.iter().find(|pair| pair[1] == index));
        run = match pair {
            Some(pair) => run.ret_alias(usize::try_from(pair[0].as_u64().unwrap()).unwrap()),
            None => run.ret(shape),
        };
    }
    Ok(run.run()?.rets)
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.shape().dtype() {
        DType::F32 => tensor
            .to_vec::<f32>()
            .expect("f32")
            .iter()
            .map(|x| f64::from(*x))
            .collect(),
        DType::F64 => tensor.to_vec::<f64>().expect("f64"),
        DType::S32 => tensor
            .to_vec::<i32>()
            .expect("s32")
            .iter()
            .map(|x| f64::from(*x))
            .collect(),
        other => panic!("the examples have no results of {other}"),
    }
}

/// What differs, if anything does.
fn difference(got: &[Tensor], expected: &[&str]) -> Option<String> {
    for (got, text) in got.iter().zip(expected) {
        let want = tensor(text);
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
        if got.shape() != want.shape() || !numbers(got).iter().zip(&numbers(&want)).all(close) {
            return Some(format!("expected {text}, got {got}"));
        }
    }
    (got.len() != expected.len()).then(|| format!("{} results", got.len()))
}

/// One call at one revision.
fn check(runtime: &Runtime, path: &Path, example: &Value, call: &Value) -> Result<(), String> {
    let revision = runtime.revision();
    let parts = texts(call, "error");
    let may_lack = revision < since(example, call);
    let answer = |outcome: Result<Vec<Tensor>, Error>, expected: &[&str]| match outcome {
        Ok(_) if !parts.is_empty() => Err("no error".to_owned()),
        Ok(rets) => difference(&rets, expected).map_or(Ok(()), Err),
        Err(error) if may_lack && error.message().contains("jaxlib") => Ok(()),
        Err(error) if parts.is_empty() => Err(error.to_string()),
        Err(error) => {
            // r0 and r1 report every handler's error as INTERNAL.
            let code = if revision < Revision::R2 {
                "INTERNAL"
            } else {
                parts[0]
            };
            let told = error.code().name() == code;
            let named = parts[1..].iter().all(|part| error.message().contains(part));
            (told && named)
                .then_some(())
                .ok_or(format!("{} is not {parts:?}", error))
        }
    };
    let executable = match executable(runtime, path, call) {
        Ok(executable) => executable,
        Err(error) => return answer(Err(error), &[]),
    };
    answer(execute(&executable, call), &texts(call, "expect"))?;
    if may_lack {
        return Ok(());
    }
    for later in call["then"].as_array().into_iter().flatten() {
        let expected: Vec<&str> = later
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        answer(execute(&executable, call), &expected)?;
    }
    Ok(())
}

fn every_call(language: &str) {
    let mut wrong = vec![];
    for example in table().iter().filter(|example| speaks(example, language)) {
        let name = text(example, "example").expect("a name");
        let path = match library(name, language) {
            Ok(path) => path,
            Err(why) => {
                skip(&format!("{name} in {language}"), &why);
                continue;
            }
        };
        for revision in Revision::ALL {
            let runtime = Runtime::new(revision);
            for call in example["calls"].as_array().expect("calls") {
                if !speaks(call, language) {
                    continue;
                }
                if let Err(why) = check(&runtime, &path, example, call) {
                    wrong.push(format!("{name} in {language} on {revision}, {call}: {why}"));
                }
            }
            // Libraries know a copy of XLA by the address of its table: keep it.
            std::mem::forget(runtime);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rust() {
    every_call("Rust");
}

#[test]
fn cpp() {
    every_call("C++");
}

#[test]
fn c() {
    every_call("C");
}

/// The files of a folder that begin with a number and have this extension, without it.
fn numbered(folder: &str, extension: &str) -> Vec<String> {
    let files = std::fs::read_dir(Path::new(ROOT).join(folder)).expect("a folder");
    let mut found: Vec<String> = files
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .filter_map(|name| Some(name.strip_suffix(extension)?.to_owned()))
        .collect();
    found.sort();
    found
}

#[test]
fn the_table_has_every_file_and_the_book_every_example() {
    let table = table();
    for (language, folder, extension) in [
        ("Rust", "examples", ".rs"),
        ("C++", "c_examples", ".cc"),
        ("C", "c_examples", ".c"),
    ] {
        let listed: Vec<&str> = table
            .iter()
            .filter(|example| speaks(example, language))
            .map(|example| text(example, "example").expect("a name"))
            .collect();
        assert_eq!(listed, numbered(folder, extension), "{language}");
    }
    let book = std::fs::read_to_string(Path::new(ROOT).join("docs/examples.md")).expect("a page");
    for example in &table {
        let name = text(example, "example").expect("a name");
        let shows = text(example, "shows").expect("what it shows");
        let here = LANGUAGES
            .iter()
            .filter(|language| speaks(example, language));
        let sources: Vec<String> = here
            .map(|language| match *language {
                "Rust" => format!("[Rust](../examples/{name}.rs)"),
                "C++" => format!("[C++](../c_examples/{name}.cc)"),
                _ => format!("[C](../c_examples/{name}.c)"),
            })
            .collect();
        let row = format!("| `{name}` | {shows} | {} |", sources.join(", "));
        assert!(book.contains(&row), "docs/examples.md lacks the row\n{row}");
    }
}
