//! Tests the parser of HLO text.

use xla_ffi_programs::Program;
use xla_ffi_runtime::ErrorCode;

/// HLO text in the style of XLA, which differs from that of this crate: names without `%`, shapes before operands,
/// metadata, comments.
const XLAS: &str = r#"
HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[2,2]{1,0})->(f32[2,2]{1,0}, s32[])}, frontend_attributes={a="}"}

%inner.1 (x.1: f32[]) -> f32[] {
  ROOT %x.1 = f32[] parameter(0)
}

// The entry.
ENTRY main.7 {
  Arg_0.1 = f32[2,2]{1,0} parameter(0), metadata={op_name="x" source_line=3}
  constant.2 = pred[] constant(true)
  constant.3 = f32[2,2]{1,0} constant({ { 1, -inf }, /*row=1*/ { nan(0x1), 2.5e-1 } })
  custom-call.4 = (f32[2,2]{1,0}, /*index=1*/s32[]) custom-call(f32[2,2]{1,0} Arg_0.1, f32[2,2]{1,0} %constant.3, pred[] constant.2), custom_call_target="t", called_computations={%inner.1}, custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, backend_config={by = 2.0 : f32, d = {s = "}"}}
  get-tuple-element.5 = s32[] get-tuple-element(custom-call.4), index=1
  get-tuple-element.6 = f32[2,2]{1,0} get-tuple-element(custom-call.4), index=0
  ROOT tuple.7 = (f32[2,2]{1,0}, s32[]) tuple(get-tuple-element.6, get-tuple-element.5)
}
"#;

#[test]
fn text_as_xla_prints_it() {
    let program = Program::from_hlo(XLAS).unwrap();
    let printed = program.to_hlo().unwrap();
    for part in [
        "HloModule jit_f, ",
        "constant({{1.0, -inf}, {nan(0x1), 2.5e-1}})",
        "%custom-call.4 = (f32[2,2]{1,0}, s32[]) custom-call(%Arg_0.1, %constant.3, %constant.2), \
         custom_call_target=\"t\"",
        "called_computations={%inner.1}, custom_call_has_side_effect=true",
        "backend_config={by = 2.0 : f32, d = {s = \"}\"}}",
        "ROOT %tuple.7 = ",
    ] {
        assert!(printed.contains(part), "{part}:\n{printed}");
    }
    assert_eq!(
        Program::from_hlo(&printed).unwrap().to_hlo().unwrap(),
        printed
    );
}

#[test]
fn what_is_no_hlo_is_told_with_its_line() {
    let head = "HloModule m\n\nENTRY e {\n";
    let (line, x) = ("HLO text, line 4: ", "  x = f32[2] parameter(0)\n");
    let cases = r#"
x = f33[2] parameter(0) | 'f33' is not an element type
x = f32[2] parameter(one) | expected the parameter's number
x = f32[2] constant({1}) | expected ","
x = f32[2] constant({1, b}) | 'b' is not a value of f32
x = s8[] constant(128) | '128' is not a value of s8
x = f32[4] constant({...}) | left out where the text was printed
x = f32[2] add(y, z) | 'x' is an 'add'
x = f32[] parameter(0), sharding={replicated} | one with 'sharding'
x = f32[] custom-call(y) | instruction 'y' is not defined
x = f32[] custom-call(), called_computations={c} | computation 'c' is not defined
x = f32[] custom-call(), custom_call_target="a | the string has no end
x = f32[] custom-call(), custom_call_target="\q" | '\q' is not an escape
x = f32[] custom-call(), api_version=NEW | 'NEW' is not an API version
"#;
    for case in cases.trim().lines() {
        let (text, why) = case.split_once(" | ").unwrap();
        let error = Program::from_hlo(&format!("{head}{text}\n}}")).expect_err(text);
        let is_unknown = text.contains("add(") || text.contains("sharding");
        let code = match is_unknown {
            true => ErrorCode::Unimplemented,
            false => ErrorCode::InvalidArgument,
        };
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().starts_with(line), "{error}");
        assert!(error.message().contains(why), "{error}");
    }
    for (text, why) in [
        (format!("{head}{x}}}"), "'m' has no ROOT"),
        (
            String::new(),
            "line 1: expected \"HloModule\", got the end of the line",
        ),
        ("HloModule m".to_owned(), "no ENTRY"),
        (
            format!("{head}{x}  ROOT t = (f32[3]) tuple(x)\n}}"),
            "'t' is (f32[2]{0}), not (f32[3]{0})",
        ),
        (
            format!("{head}  ROOT x = f32[2] parameter(1)\n}}"),
            "there is no parameter 0",
        ),
        (
            format!("{head}  ROOT{x}"),
            "expected an instruction's name, got the end of the line",
        ),
    ] {
        let error = Program::from_hlo(&text).expect_err(&text);
        assert!(error.message().contains(why), "{error}");
    }
}
