//! Programs: built, verified and run on the embedded runtime.

use crate::generate;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use xla_ffi_programs::{ApiVersion, Builder, CustomCall, Op, Program, ValueShape};
use xla_ffi_runtime::{Revision, Runtime, Tensor, Tree};

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
        // What the caller holds is as it was, and the same program gives the same again, in memory
        // that is donated, too.
        let before = generate::arguments(&program);
        for (left, right) in arguments.iter().zip(&before) {
            prop_assert_eq!(bytes(left), bytes(right));
        }
        drop(arguments);
        prop_assert_eq!(bytes(&compiled.run(before).unwrap()), bytes(&result));
        texts(&program);
    }
}

/// Anything at all, put into a builder: numbers that mean nothing, paths that lead nowhere, names and
/// texts of any kind.
#[derive(Clone, Debug)]
enum Anything {
    Parameter(usize, String),
    Tuple(Vec<(u64, usize)>),
    Element((u64, usize), usize),
    Call(
        Vec<(u64, usize)>,
        Vec<(Vec<usize>, usize, Vec<usize>)>,
        Vec<u8>,
    ),
    Name((u64, usize), String),
}

fn anything() -> impl Strategy<Value = Anything> {
    let op = || (0..2_u64, 0..8_usize);
    let path = || vec(0..3_usize, 0..3);
    prop_oneof![
        (0..4_usize, ".{0,3}").prop_map(|(number, name)| Anything::Parameter(number, name)),
        vec(op(), 0..4).prop_map(Anything::Tuple),
        (op(), 0..4_usize).prop_map(|(of, element)| Anything::Element(of, element)),
        (
            vec(op(), 0..3),
            vec((path(), 0..3_usize, path()), 0..3),
            vec(any::<u8>(), 0..4)
        )
            .prop_map(|(operands, aliases, opaque)| Anything::Call(operands, aliases, opaque)),
        (op(), "[a-z]{0,2}").prop_map(|(op, name)| Anything::Name(op, name)),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn mistakes_are_told_and_never_panic(all in vec(anything(), 0..12), root in 0..12_usize) {
        let mut b = Builder::new("anything");
        let id = b.tuple([]).to_raw().0;
        // Half of them name instructions of this builder, which may not be there yet.
        let op = |(ours, index): (u64, usize)| Op::from_raw(id + ours, index);
        let shape = ValueShape::parse("(f32[2], (f32[2], s4[3]))").unwrap();
        for one in all {
            match one {
                Anything::Parameter(number, name) => {
                    b.parameter(number, shape.clone(), name);
                }
                Anything::Tuple(elements) => {
                    b.tuple(elements.into_iter().map(op));
                }
                Anything::Element(of, element) => {
                    b.get_tuple_element(op(of), element);
                }
                Anything::Call(operands, aliases, opaque) => {
                    let version = ApiVersion::ALL[opaque.len() % 4];
                    let operands = operands.into_iter().map(op);
                    let mut call = CustomCall::legacy(version, "t", operands, shape.clone());
                    call = call.opaque(opaque);
                    for (output, operand, index) in aliases {
                        call = call.alias(output, operand, index);
                    }
                    b.custom_call(call);
                }
                Anything::Name(of, name) => b.set_name(op(of), name),
            }
        }
        match b.build(Op::from_raw(id, root)) {
            Ok(program) => texts(&program),
            Err(error) => {
                prop_assert!(!error.diagnostics().is_empty());
                prop_assert_eq!(error.to_string().lines().count(), error.diagnostics().len() + 1);
            }
        }
    }

    #[test]
    fn shapes_of_any_text(text in prop_oneof![
        ".{0,20}",
        "[fsu(),\\[\\]{}0-9 ]{0,30}",
        "(f32|s4|pred|token|\\(|\\)|,|\\[2\\]|\\[2,3\\]|\\{0,1\\}|\\{1,0\\}|\\[\\]|/\\*1\\*/| ){0,12}",
    ]) {
        if let Ok(shape) = ValueShape::parse(&text) {
            let printed = shape.to_string();
            prop_assert_eq!(ValueShape::parse(&printed).unwrap().to_string(), printed);
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// HLO text that was spoilt is read or refused, with the line.
    #[test]
    fn spoilt_hlo_is_refused(
        plan in generate::plans(generate::dtypes()),
        spoilt in vec((any::<prop::sample::Index>(), 0..4_usize, "[-{}()\\[\\]\"%,=a-f0-9 .é]"), 1..4),
    ) {
        let mut hlo = plan.program().to_hlo().unwrap();
        for (at, how, with) in spoilt {
            let mut at = at.index(hlo.len());
            while !hlo.is_char_boundary(at) {
                at -= 1;
            }
            match how {
                0 => hlo.truncate(at),
                1 => hlo.insert_str(at, &with),
                _ if hlo.len() > at => drop(hlo.remove(at)),
                _ => {}
            }
            if hlo.is_empty() {
                break;
            }
        }
        match Program::from_hlo(&hlo).and_then(|program| program.to_hlo()) {
            Ok(printed) => {
                let read = Program::from_hlo(&printed).unwrap();
                prop_assert_eq!(read.to_hlo().unwrap(), printed);
            }
            Err(error) => prop_assert!(!error.message().is_empty()),
        }
    }
}

/// Each instruction's shape is in the HLO text, and reads back, as the whole does; StableHLO can be printed.
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
