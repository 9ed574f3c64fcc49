//! Tests that each mistake in docs/debugging.md causes the documented message in Rust, C and C++.

use crate::Languages;
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Attributes, Call, spec};

#[xla_ffi::handler(shape = "n, _ n -> n")]
fn scale(x: Buffer<f32>, w: Buffer<f32, 2>, mut y: Out<f32>, by: f32) -> Result<()> {
    let _ = (x, w);
    y.fill(by);
    match by < 0.0 {
        true => Err(Error::out_of_range("by is negative")),
        false => Ok(()),
    }
}

#[xla_ffi::handler]
fn bump(y: InOut<f32>) {
    let _ = y;
}

xla_ffi::embed::register_handler!("scale", "Host", scale);
xla_ffi::embed::register_handler!("bump", "Host", bump);

const IN_C: &str = r#"
static XLA_FFI_Error* scale_impl(xffi_call* call) {
  XLA_FFI_Error* error;
  float by;
  xffi_arg(call, "x", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  xffi_arg(call, "w", XLA_FFI_DataType_F32, 2);
  xffi_ret(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  by = xffi_attr_f32(call, "by");
  xffi_shapes(call, "n, _ n -> n");
  if ((error = xffi_decoded(call)) != NULL) return error;
  return by < 0 ? xffi_error(call, XLA_FFI_Error_Code_OUT_OF_RANGE, "by is %s", "negative") : NULL;
}
XFFI_HANDLER(scale, scale_impl);
static XLA_FFI_Error* bump_impl(xffi_call* call) {
  xffi_inout(call, "y", XLA_FFI_DataType_F32, XFFI_ANY_RANK);
  return xffi_decoded(call);
}
XFFI_HANDLER(bump, bump_impl);
"#;

const IN_CPP: &str = r#"
using Any = ffi::Buffer<ffi::F32>;
using Matrix = ffi::Buffer<ffi::F32, 2>;
static ffi::Error Scale(Any, Matrix, ffi::Result<Any>, float by) {
  return by < 0 ? ffi::Error(ffi::ErrorCode::kOutOfRange, "by is negative") : ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale, ffi::Ffi::Bind().Arg<Any>("x").Arg<Matrix>("w").Ret<Any>("y")
    .Attr<float>("by").Shape(XLA_FFI_SHAPE("n, _ n -> n")));
static ffi::Error Bump(ffi::InOut<Any>) { return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(bump, Bump, ffi::Ffi::Bind().InOut<Any>("y"));
"#;

/// One mistake per line: the row of the table in docs/debugging.md, the handler, the arguments, the attributes.
const MISTAKES: &str = r#"
element type | scale | s32[2] f32[3,2] | by = 2.0 : f32
element type, complex | scale | c64[2] f32[3,2] | by = 2.0 : f32
rank | scale | f32[2] f32[2] | by = 2.0 : f32
dimension | scale | f32[2] f32[3,4] | by = 2.0 : f32
missing argument | scale | f32[2] | by = 2.0 : f32
too many arguments | scale | f32[2] f32[3,2] f32[2] | by = 2.0 : f32
missing attribute | scale | f32[2] f32[3,2] |
type of an attribute | scale | f32[2] f32[3,2] | by = 2.0
kind of an attribute | scale | f32[2] f32[3,2] | by = "2"
unknown attribute | scale | f32[2] f32[3,2] | by = 2.0 : f32, to = 1
memory of an in-out operand | bump | f32[2] |
several | scale | s64[2] f32[3,2] | b = 2.0
returned by the handler | scale | f32[2] f32[3,2] | by = -1.0 : f32
"#;

#[test]
fn every_language_reports_mistakes_in_the_same_words() {
    let test = "every_language_reports_mistakes_in_the_same_words";
    let page = include_str!("../../docs/debugging.md");
    let languages = Languages::new(test, IN_C, IN_CPP);
    for line in MISTAKES.trim().lines() {
        let [mistake, handler, args, attrs] = line.splitn(4, '|').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (row, told) = (format!("| {mistake}| "), |line: &str| {
            line.replace("`` ", "")
                .replace(" ``", "")
                .replace("<br>", "\n")
        });
        let told = page
            .lines()
            .find_map(|line| line.strip_prefix(&row)?.strip_suffix(" |").map(told));
        let attributes = Attributes::parse(&format!("{{{attrs}}}")).expect("attributes");
        for (language, executable) in languages.handlers(handler.trim(), &attributes) {
            let zeros = |arg| {
                spec::Spec::parse(&format!("{arg}=zeros"))
                    .unwrap()
                    .tensor()
                    .unwrap()
            };
            let call = args
                .split_whitespace()
                .map(zeros)
                .fold(executable.call(), Call::arg);
            let error = call
                .ret(spec::parse_result("f32[2]").unwrap())
                .run()
                .unwrap_err();
            assert_eq!(
                Some(error.message()),
                told.as_deref(),
                "{mistake}in {language}"
            );
            let code =
                ["INVALID_ARGUMENT", "OUT_OF_RANGE"][usize::from(mistake.starts_with("returned"))];
            assert_eq!(error.code().name(), code, "{mistake}in {language}");
        }
    }
}
