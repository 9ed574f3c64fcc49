//! Tests the building, verifying and printing of programs, and runs them on the embedded runtime, in jaxlib and on a
//! PJRT plugin.

use proptest::prelude::*;
use std::collections::BTreeMap;
use xla_ffi_programs::{Program, ValueShape};
use xla_ffi_runtime::{Revision, Runtime, Tensor, Tree};

mod client_option;
mod execution;
mod generate;
mod hlo;
mod in_jaxlib;

mod operand_memory;
mod rules;

fn config() -> ProptestConfig {
    let cases = std::env::var("XLA_FFI_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(1_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn bytes(value: &Tree<Tensor>) -> Vec<Vec<u8>> {
    value.leaves().map(|leaf| leaf.bytes().to_vec()).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_programs_run_and_say_what_they_are(plan in generate::plans(generate::dtypes())) {
        let _alone = generate::alone();
        let program = plan.program();
        let runtime = Runtime::new(Revision::NEWEST);
        generate::register(&runtime);
        let compiled = program.compile(&runtime).unwrap();
        let arguments = generate::arguments(&program);
        let result = compiled.run(arguments.clone()).unwrap();
        let shape = result.map(|leaf| leaf.shape().clone());
        prop_assert!(shape.map(|leaf| leaf.clone().into()).is_compatible(program.result()));
        // The arguments of the caller are unchanged, and a second run returns the same results, also with donated
        // arguments.
        let before = generate::arguments(&program);
        for (left, right) in arguments.iter().zip(&before) {
            prop_assert_eq!(bytes(left), bytes(right));
        }
        drop(arguments);
        prop_assert_eq!(bytes(&compiled.run(before).unwrap()), bytes(&result));
        texts(&program);
    }
}

/// Checks that the HLO text contains each instruction's shape, that the shapes and the text can be parsed, and that
/// StableHLO can be printed.
fn texts(program: &Program) {
    let hlo = program.to_hlo().unwrap();
    assert_eq!(hlo.matches("ROOT ").count(), 1);
    let lines: BTreeMap<&str, &str> = hlo
        .lines()
        .filter_map(|line| {
            line.trim_start()
                .trim_start_matches("ROOT ")
                .split_once(" = ")
        })
        .collect();
    for (name, opcode, shape) in program.instructions() {
        let line = lines[format!("%{name}").as_str()];
        let text = &line[..line.find(&format!(" {opcode}(")).unwrap()];
        assert_eq!(&ValueShape::parse(text).unwrap(), shape);
    }
    assert!(program.to_stablehlo().unwrap().contains("@main("));
    let read = Program::from_hlo(&hlo).unwrap_or_else(|error| panic!("{error}\n{hlo}"));
    assert_eq!(read.to_hlo().unwrap(), hlo);
    assert_eq!(
        read.to_stablehlo().unwrap(),
        program.to_stablehlo().unwrap()
    );
}
