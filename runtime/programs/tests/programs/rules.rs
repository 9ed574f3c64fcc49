//! Tests that the builder refuses mistakes, with the rule, the instruction, and the expected and actual values.

use xla_ffi_programs::{
    ApiVersion, Builder, CustomCall, MAX_DEPTH, Op, Program, ProgramError, Rule, ValueShape,
};
use xla_ffi_runtime::{Attributes, DType, Error, ErrorCode, Shape, Tensor, Tree};

fn f32s(dims: &[i64]) -> ValueShape {
    ValueShape::array(DType::F32, dims).unwrap()
}

/// Returns the error of the program that `make` describes.
fn refused(make: impl FnOnce(&mut Builder) -> Op) -> ProgramError {
    let mut b = Builder::new("broken");
    let root = make(&mut b);
    b.build(root).unwrap_err()
}

/// Checks that the program breaks only this rule, in this instruction.
#[track_caller]
fn breaks(rule: Rule, instruction: &str, make: impl FnOnce(&mut Builder) -> Op) {
    let error = refused(make);
    let found = error.diagnostics();
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.rule, &*one.instruction))
        .collect();
    assert_eq!(found, [(rule, instruction)], "{error}");
}

#[test]
fn names() {
    for name in ["a b", "1a", "f32", "é"] {
        breaks(Rule::Name, name, |b| b.parameter(0, f32s(&[]), name));
    }
    breaks(Rule::UniqueName, "x", |b| {
        b.parameter(0, f32s(&[]), "x");
        b.parameter(1, f32s(&[]), "x")
    });
    let mut b = Builder::new("no\nname");
    let root = b.parameter(0, f32s(&[]), "x\ny");
    let error = b.build(root).unwrap_err();
    assert!(error.breaks(Rule::Name));
    assert_eq!(error.to_string().lines().count(), 3, "{error}");
    // Explicit names have priority over generated names.
    let mut b = Builder::new("made_up");
    let x = b.parameter(0, f32s(&[]), "tuple.1");
    let root = b.tuple([x]);
    let program = b.build(root).unwrap();
    let names: Vec<_> = program.instructions().map(|(name, ..)| name).collect();
    assert_eq!(names, ["tuple.1", "tuple.1_"]);
}

#[test]
fn parameters() {
    breaks(Rule::ParameterTwice, "y", |b| {
        b.parameter(0, f32s(&[]), "x");
        b.parameter(0, f32s(&[]), "y")
    });
    breaks(Rule::ParameterGap, "z", |b| {
        b.parameter(3, f32s(&[]), "z");
        b.parameter(4, f32s(&[]), "zz");
        b.parameter(0, f32s(&[]), "x")
    });
    // Parameters may be added in any order.
    let mut b = Builder::new("order");
    let second = b.parameter(1, f32s(&[2]), "second");
    b.parameter(0, f32s(&[1]), "first");
    let program = b.build(second).unwrap();
    let names: Vec<_> = program.parameters().map(|(name, _)| name).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn operands_and_elements() {
    let mut other = Builder::new("other");
    let stranger = other.parameter(0, f32s(&[]), "x");
    breaks(Rule::UnknownOperand, "tuple.1", |b| {
        let x = b.parameter(0, f32s(&[]), "x");
        b.tuple([x, stranger])
    });
    breaks(Rule::UnknownOperand, "custom-call.0", |b| {
        b.custom_call(CustomCall::ffi("t", [stranger], f32s(&[])))
    });
    breaks(Rule::UnknownOperand, "get-tuple-element.0", |b| {
        b.get_tuple_element(Op::from_raw(1 << 40, 7), 0)
    });
    breaks(Rule::UnknownOperand, "", |b| {
        b.set_name(stranger, "lost");
        b.parameter(0, f32s(&[]), "x")
    });
    breaks(Rule::UnknownRoot, "", |b| {
        b.tuple([]);
        stranger
    });
    breaks(Rule::NotATuple, "get-tuple-element.1", |b| {
        let x = b.parameter(0, f32s(&[2]), "x");
        b.get_tuple_element(x, 0)
    });
    breaks(Rule::ElementRange, "get-tuple-element.2", |b| {
        let x = b.parameter(0, f32s(&[2]), "x");
        let pair = b.tuple([x]);
        b.get_tuple_element(pair, 1)
    });
    // Errors that are consequences of a mistake are not reported.
    let error = refused(|b| {
        let x = b.parameter(0, f32s(&[2]), "x");
        let wrong = b.get_tuple_element(x, 0);
        let inner = b.get_tuple_element(wrong, 5);
        let call = CustomCall::ffi("t", [inner], f32s(&[2])).alias([], 0, [1]);
        b.custom_call(call)
    });
    assert_eq!(error.diagnostics().len(), 1, "{error}");
}

#[test]
fn depth_and_size() {
    let error = refused(|b| {
        let mut shape = f32s(&[]);
        for _ in 0..=MAX_DEPTH {
            shape = Tree::tuple([shape]);
        }
        b.parameter(0, shape, "deep")
    });
    assert!(error.breaks(Rule::Depth) && error.to_string().contains("'deep'"));
    // Computations that call computations are printed and dropped recursively.
    let calling = |called: Option<Program>| {
        let mut b = Builder::new("calling");
        let call = CustomCall::ffi("t", [], f32s(&[])).named("call");
        let root = b.custom_call(match called {
            Some(called) => call.called_computation(called),
            None => call,
        });
        b.build(root)
    };
    let mut program = calling(None).unwrap();
    for _ in 1..MAX_DEPTH {
        program = calling(Some(program)).unwrap();
    }
    let hlo = program.to_hlo().unwrap();
    assert_eq!(hlo.matches("called_computations=").count(), MAX_DEPTH - 1);
    let error = calling(Some(program)).unwrap_err();
    assert!(error.breaks(Rule::Depth) && error.to_string().contains("'call': its computations"));
}

#[test]
fn targets_configurations_and_literals() {
    for target in ["", "a\0b"] {
        breaks(Rule::Target, "c", |b| {
            b.custom_call(CustomCall::ffi(target, [], f32s(&[])).named("c"))
        });
    }
    breaks(Rule::AttributesWithLegacy, "c", |b| {
        let call = CustomCall::legacy(ApiVersion::StatusReturning, "t", [], f32s(&[]));
        b.custom_call(call.named("c").attributes(Attributes::new()))
    });
    for opaque in [&b"bytes"[..], b"\xFF", b"{a = }", b"{a = 1"] {
        let error = refused(|b| {
            let call = CustomCall::ffi("t", [], f32s(&[])).named("c");
            b.custom_call(call.opaque(opaque))
        });
        assert!(error.breaks(Rule::OpaqueWithTypedFfi), "{error}");
        assert!(error.to_string().contains("'c': "), "{error}");
    }
    // As in XLA's builder, the `opaque` string of a typed custom call is a printed attribute dictionary.
    let mut b = Builder::new("texts");
    let call = CustomCall::legacy(ApiVersion::TypedFfi, "t", [], f32s(&[]));
    let root = b.custom_call(call.opaque(*b" {a = 1 : i32}"));
    let hlo = b.build(root).unwrap().to_hlo().unwrap();
    assert!(hlo.ends_with("backend_config={a = 1 : i32}\n}\n"), "{hlo}");
    let token = Tensor::zeros(Shape::token()).unwrap();
    breaks(Rule::Constant, "constant.0", |b| b.constant(token.clone()));
    breaks(Rule::Constant, "c", |b| {
        let call = CustomCall::ffi("t", [], f32s(&[])).named("c");
        b.custom_call(call.literal(token.clone()))
    });
}

#[test]
fn layouts() {
    let column = ValueShape::array_with_layout(DType::F32, [2, 3], [0, 1]).unwrap();
    breaks(Rule::ResultLayout, "c", |b| {
        b.custom_call(CustomCall::ffi("t", [], column.clone()).named("c"))
    });
    breaks(Rule::LayoutCount, "c", |b| {
        let x = b.parameter(0, f32s(&[2]), "x");
        let call = CustomCall::ffi("t", [x], f32s(&[2])).named("c");
        b.custom_call(call.operand_layouts([]))
    });
    breaks(Rule::LayoutShape, "c", |b| {
        let x = b.parameter(0, f32s(&[2]), "x");
        let call = CustomCall::ffi("t", [x], f32s(&[2])).named("c");
        b.custom_call(call.operand_layouts([column.clone()]))
    });
    let error = ValueShape::array_with_layout(DType::F32, [2, 3], [0]).unwrap_err();
    assert!(
        error.message().contains("each of the 2 dimensions"),
        "{error}"
    );
}

#[test]
fn aliases() {
    type Make = fn(CustomCall) -> CustomCall;
    let cases: [(Rule, Make); 9] = [
        (Rule::AliasOperand, |call| call.alias([0], 2, [])),
        (Rule::AliasIndex, |call| call.alias([0], 0, [1])),
        (Rule::AliasIndex, |call| call.alias([4], 0, [])),
        (Rule::AliasIndex, |call| call.alias([1], 0, [])),
        (Rule::AliasIndex, |call| call.alias([0], 1, [])),
        (Rule::AliasShape, |call| call.alias([0], 1, [0])),
        (Rule::AliasTwice, |call| {
            call.alias([0], 0, []).alias([2], 0, [])
        }),
        (Rule::AliasTwice, |call| {
            call.alias([0], 0, []).alias([0], 1, [1])
        }),
        (Rule::AliasIndex, |call| call.alias([1, 0, 0], 0, [])),
    ];
    for (rule, alias) in cases {
        breaks(rule, "c", |b| {
            let x = b.parameter(0, f32s(&[2]), "x");
            let pair = Tree::tuple([f32s(&[3]), f32s(&[2])]);
            let y = b.parameter(1, pair.clone(), "y");
            let result = Tree::tuple([f32s(&[2]), pair, f32s(&[2])]);
            let call = CustomCall::ffi("t", [x, y], result).named("c");
            b.custom_call(alias(call))
        });
    }
    // The rule also compares layouts.
    let column = ValueShape::array_with_layout(DType::F32, [2, 3], [0, 1]).unwrap();
    breaks(Rule::AliasShape, "c", |b| {
        let x = b.parameter(0, f32s(&[2, 3]), "x");
        let call = CustomCall::ffi("t", [x], f32s(&[2, 3])).named("c");
        b.custom_call(call.operand_layouts([column]).alias([], 0, []))
    });
}

#[test]
fn all_problems_come_at_once_and_as_an_error() {
    let error = refused(|b| {
        let x = b.parameter(1, f32s(&[2]), "f32");
        let y = b.get_tuple_element(x, 0);
        b.custom_call(CustomCall::ffi("", [y], f32s(&[])))
    });
    let rules: Vec<_> = error
        .diagnostics()
        .iter()
        .map(|problem| problem.rule)
        .collect();
    assert_eq!(
        rules,
        [
            Rule::Name,
            Rule::NotATuple,
            Rule::Target,
            Rule::ParameterGap
        ]
    );
    let told = error.to_string();
    assert_eq!(told.lines().count(), 5);
    let error = Error::from(error);
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert_eq!(error.message(), told);
    assert!(std::error::Error::source(&error).is_some());
}
