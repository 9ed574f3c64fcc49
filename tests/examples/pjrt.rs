//! Compares the examples on XLA's CPU backend, through a PJRT plugin, with the examples on the embedded runtime.

use crate::embedded::{executable, execute};
use crate::{alias, arguments, attributes, bundle, every_example, handler, results};
use serde_json::Value;
use std::path::Path;
use xla_ffi_programs::pjrt::{Client, Plugin};
use xla_ffi_runtime::{DType, Result, Revision, Runtime, Tensor};
use xla_ffi_testing::plugin;

/// Returns the results of several executions of one executable.
fn embedded(runtime: &Runtime, path: &Path, call: &Value, times: usize) -> Result<Vec<Tensor>> {
    let executable = executable(runtime, path, call)?;
    let all: Result<Vec<_>> = (0..times).map(|_| execute(&executable, call)).collect();
    Ok(all?.concat())
}

fn on_xla(client: &Client, target: &str, call: &Value, times: usize) -> Result<Vec<Tensor>> {
    let mut made = client
        .call(target)
        .attributes(&attributes(call))
        .args(arguments(call));
    for (index, shape) in results(call).into_iter().enumerate() {
        made = match alias(call, index) {
            Some(argument) => made.ret_alias(argument),
            None => made.ret(shape),
        };
    }
    let program = client.compile(made.program()?.to_stablehlo()?)?;
    let arguments: Vec<_> = arguments(call)
        .into_iter()
        .filter(|argument| argument.shape().dtype() != DType::Token)
        .collect();
    let mut all = vec![];
    for _ in 0..times {
        all.extend(program.run(&arguments)?);
    }
    Ok(all)
}

/// Returns an outcome in a form that can be compared: the bytes of the results, or the code and message.
fn told(outcome: Result<Vec<Tensor>>) -> std::result::Result<Vec<String>, String> {
    let shown = |ret: &Tensor| format!("{ret} {:?}", ret.bytes());
    match outcome {
        Ok(rets) => Ok(rets.iter().map(shown).collect()),
        Err(error) => Err(error.to_string()),
    }
}

fn every_call(test: &str, language: &str) {
    let Some(plugin) = plugin(test) else { return };
    let client = Plugin::load(plugin).and_then(|plugin| plugin.client());
    let client = client.expect("a client of the plugin");
    let runtime = Runtime::new(Revision::R7);
    let (mut wrong, mut ran, mut without) = (vec![], 0, true);
    every_example(test, language, |_, name, path, calls| {
        without = false;
        let library = runtime.open(path).expect("the library loads");
        for call in calls {
            let bundle = bundle(&library, call).expect("the handler's symbols");
            let target = format!("{test}.{name}.{}", handler(call));
            let times = 1 + call["then"].as_array().map_or(0, Vec::len);
            let wanted = told(embedded(&runtime, path, call, times));
            let got = client
                .register(&target, &bundle)
                .and_then(|()| on_xla(&client, &target, call, times));
            let got = told(got);
            ran += 1;
            if got != wanted {
                wrong.push(format!("{name} {call}: embedded {wanted:?}, PJRT {got:?}"));
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran >= 10 || without, "{ran} calls");
    // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the address
    // is not reused.
    std::mem::forget(runtime);
}

#[test]
fn rust() {
    every_call("pjrt.examples.rust", "Rust");
}

#[test]
fn cpp() {
    every_call("pjrt.examples.cpp", "C++");
}

#[test]
fn c() {
    every_call("pjrt.examples.c", "C");
}
