//! Runs the examples on every revision of the embedded runtime, and compares results and errors with
//! `examples/examples.json`.

use crate::{
    LANGUAGES, alias, arguments, attributes, bundle, every_example, handler, library, results,
    tensor, text, texts,
};
use serde_json::Value;
use std::path::Path;
use xla_ffi_runtime::{DType, Executable, Result, Revision, Runtime, Stages, Tensor, Unwritten};

fn since(example: &Value, call: &Value) -> Revision {
    let name = text(call, "since").or(text(example, "since"));
    Revision::from_name(name.unwrap_or("r0")).expect("a revision")
}

pub(crate) fn executable(runtime: &Runtime, path: &Path, call: &Value) -> Result<Executable> {
    let bundle = bundle(&runtime.open(path)?, call)?;
    let handler = runtime.handler(handler(call), bundle)?;
    handler.instantiate(&attributes(call))
}

pub(crate) fn execute(executable: &Executable, call: &Value) -> Result<Vec<Tensor>> {
    let mut run = executable
        .call()
        .stages(Stages::Cpu)
        .unwritten(Unwritten::Refused);
    run = run.args(arguments(call));
    for (index, shape) in results(call).into_iter().enumerate() {
        run = match alias(call, index) {
            Some(argument) => run.ret_alias(argument),
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

#[test]
fn a_runtime_registers_the_handlers_that_a_manifest_describes() {
    for language in LANGUAGES {
        let Ok(path) = library("operands", language) else {
            continue;
        };
        let runtime = Runtime::default();
        let library = runtime.open(path).expect("the library loads");
        runtime
            .register_library(&library)
            .expect("it has a manifest");
        for handler in ["tiled_add", "axpy", "matmul", "dequantize"] {
            let found = runtime.find(handler, "Host");
            assert!(found.is_ok(), "{language}: {:?}", found.err());
        }
    }
}

/// Returns a description of the first difference between results and expected results, if any.
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

/// Runs one call on one revision and checks its outcome.
fn check(
    runtime: &Runtime,
    path: &Path,
    example: &Value,
    call: &Value,
) -> std::result::Result<(), String> {
    let revision = runtime.revision();
    let parts = texts(call, "error");
    let may_lack = revision < since(example, call);
    let answer = |outcome: Result<Vec<Tensor>>, expected: &[&str]| match outcome {
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
    every_example("embedded", language, |example, name, path, calls| {
        for revision in Revision::ALL {
            let runtime = Runtime::new(revision);
            for call in calls {
                if let Err(why) = check(&runtime, path, example, call) {
                    wrong.push(format!("{name} in {language} on {revision}, {call}: {why}"));
                }
            }
            // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the
            // address is not reused.
            std::mem::forget(runtime);
        }
    });
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
