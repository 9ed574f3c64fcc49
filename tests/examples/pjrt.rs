//! Every example in every language: the calls of `examples/examples.json` on both engines.

use crate::{c_example, client, told};
use serde_json::Value;
use std::path::Path;
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Bundle, DType, Library, Result, Revision, Runtime, Shape, Stage, Stages, Tensor,
};
use xla_ffi_testing::examples::rust_examples;

fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    let list = value[key].as_array().into_iter().flatten();
    list.map(|text| text.as_str().expect("a text")).collect()
}

fn speaks(value: &Value, language: &str) -> bool {
    value["languages"].is_null() || texts(value, "languages").contains(&language)
}

fn tensor(text: &str) -> Tensor {
    Spec::parse(text).expect("a SPEC").tensor().expect("memory")
}

fn arguments(call: &Value) -> Vec<Tensor> {
    texts(call, "args").into_iter().map(tensor).collect()
}

/// The results' types: those of the expected values, or the ones given.
fn results(call: &Value) -> Vec<Shape> {
    let expected = texts(call, "expect").into_iter();
    let expected = expected.map(|text| tensor(text).shape().clone());
    let given = texts(call, "rets").into_iter();
    expected
        .chain(given.map(|text| parse_result(text).expect("a type")))
        .collect()
}

/// Which argument a result lies in.
fn alias(call: &Value, result: usize) -> Option<usize> {
    let pair = call["aliases"]
        .as_array()?
        .iter()
        .find(|pair| pair[1] == result)?;
    usize::try_from(pair[0].as_u64()?).ok()
}

fn attributes(call: &Value) -> Attributes {
    Attributes::parse(call["attrs"].as_str().unwrap_or("{}")).expect("attributes")
}

fn bundle(library: &Library, call: &Value) -> Bundle {
    let name = call["handler"].as_str().expect("a handler");
    let symbols: Vec<_> = texts(call, "stages")
        .into_iter()
        .map(|stage| {
            (
                Stage::from_name(stage).expect("a stage"),
                format!("{name}_{stage}"),
            )
        })
        .collect();
    let mut stages = vec![(Stage::Execute, name)];
    stages.extend(
        symbols
            .iter()
            .map(|(stage, symbol)| (*stage, symbol.as_str())),
    );
    library.bundle(&stages).expect("the handler's symbols")
}

/// The results of as many executions of one executable.
fn embedded(runtime: &Runtime, bundle: Bundle, call: &Value, times: usize) -> Result<Vec<Tensor>> {
    let handler = runtime.handler(call["handler"].as_str().expect("a handler"), bundle)?;
    let executable = handler.instantiate(&attributes(call))?;
    let mut all = vec![];
    for _ in 0..times {
        let mut run = executable.call().stages(Stages::Cpu).args(arguments(call));
        for (index, shape) in results(call).into_iter().enumerate() {
            run = match alias(call, index) {
                Some(argument) => run.ret_alias(argument),
                None => run.ret(shape),
            };
        }
        all.extend(run.run()?.rets);
    }
    Ok(all)
}

fn on_xla(
    client: &xla_ffi_programs::pjrt::Client,
    target: &str,
    call: &Value,
    times: usize,
) -> Result<Vec<Tensor>> {
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

fn every_call(test: &str, language: &str) {
    let Some(client) = client(test) else { return };
    let table: Vec<Value> =
        serde_json::from_str(include_str!("../../examples/examples.json")).expect("a list");
    let runtime = Runtime::new(Revision::R7);
    let (mut wrong, mut ran) = (vec![], 0);
    for example in table.iter().filter(|example| speaks(example, language)) {
        let name = example["example"].as_str().expect("a name");
        let path = match language {
            "Rust" => Some(rust_examples().join(format!("lib{}.so", &name[3..]))),
            "C++" => c_example(
                test,
                &format!("lib{name}_cpp.so"),
                option_env!("CPP_COMPILER"),
            ),
            _ => c_example(test, &format!("lib{name}.so"), option_env!("C_COMPILER")),
        };
        let Some(path) = path else { return };
        let library = runtime.open(Path::new(&path)).expect("the library loads");
        for call in example["calls"].as_array().expect("calls") {
            if !speaks(call, language) {
                continue;
            }
            let bundle = bundle(&library, call);
            let target = format!("{test}.{name}.{}", call["handler"].as_str().unwrap());
            let times = 1 + call["then"].as_array().map_or(0, Vec::len);
            let wanted = told(embedded(&runtime, bundle, call, times), usize::MAX);
            let got = client
                .register(&target, &bundle)
                .and_then(|()| on_xla(&client, &target, call, times));
            let got = told(got, usize::MAX);
            ran += 1;
            if got != wanted {
                wrong.push(format!("{name} {call}: embedded {wanted:?}, PJRT {got:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran >= 10, "{ran} calls");
    // Libraries know a copy of XLA by the address of its table: keep it.
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
