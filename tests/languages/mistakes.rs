//! The mistakes of docs/debugging.md: each gives the text of that table in Rust, C and C++.

use crate::{Given, Languages};
use xla_ffi::prelude::*;
use xla_ffi_runtime::{Attributes, Call, DType, Shape, Tensor};

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

/// A mistake: its name in the table, what it calls, with these arguments and attributes.
type Mistake = (&'static str, &'static str, Vec<Given>, &'static str);

fn mistakes() -> Vec<Mistake> {
    let f32s = |dims: &[i64]| (DType::F32, dims.to_vec());
    let of = |dtype| (dtype, vec![2]);
    let (x, w, by) = (|| f32s(&[2]), || f32s(&[3, 2]), "by = 2.0 : f32");
    vec![
        ("element type", "scale", vec![of(DType::S32), w()], by),
        (
            "element type, complex",
            "scale",
            vec![of(DType::C64), w()],
            by,
        ),
        ("rank", "scale", vec![x(), x()], by),
        ("dimension", "scale", vec![x(), f32s(&[3, 4])], by),
        ("missing argument", "scale", vec![x()], by),
        ("too many arguments", "scale", vec![x(), w(), x()], by),
        ("missing attribute", "scale", vec![x(), w()], ""),
        ("type of an attribute", "scale", vec![x(), w()], "by = 2.0"),
        (
            "kind of an attribute",
            "scale",
            vec![x(), w()],
            "by = \"2\"",
        ),
        (
            "unknown attribute",
            "scale",
            vec![x(), w()],
            "by = 2.0 : f32, to = 1",
        ),
        ("memory of an in-out operand", "bump", vec![x()], ""),
        ("several", "scale", vec![of(DType::S64), w()], "b = 2.0"),
        (
            "returned by the handler",
            "scale",
            vec![x(), w()],
            "by = -1.0 : f32",
        ),
    ]
}

#[test]
fn every_language_reports_mistakes_in_the_same_words() {
    let page = include_str!("../../docs/debugging.md");
    let languages = Languages::new(
        "every_language_reports_mistakes_in_the_same_words",
        IN_C,
        IN_CPP,
    );
    for (mistake, handler, args, attrs) in mistakes() {
        let row = format!("| {mistake} | ");
        let told = page
            .lines()
            .find_map(|line| line.strip_prefix(&row)?.strip_suffix(" |"));
        let told = told.unwrap_or_else(|| panic!("no row for {mistake}"));
        let code = |line: &str| {
            line.strip_prefix("`` ")?
                .strip_suffix(" ``")
                .map(str::to_owned)
        };
        let lines: Option<Vec<String>> = told.split("<br>").map(code).collect();
        let told = lines.expect("code").join("\n");
        let attributes = Attributes::parse(&format!("{{{attrs}}}")).expect("attributes");
        for (language, executable) in languages.handlers(handler, &attributes) {
            let tensor = |(dtype, dims): &Given| {
                Tensor::zeros(Shape::new(*dtype, dims.clone()).unwrap()).unwrap()
            };
            let call: Call = args
                .iter()
                .fold(executable.call(), |call, arg| call.arg(tensor(arg)));
            let error = call
                .ret(Shape::new(DType::F32, [2]).unwrap())
                .run()
                .unwrap_err();
            assert_eq!(error.message(), told, "{mistake} in {language}");
            let returned = mistake == "returned by the handler";
            let code = if returned {
                ErrorCode::OutOfRange
            } else {
                ErrorCode::InvalidArgument
            };
            assert_eq!(error.code(), code, "{mistake} in {language}");
        }
    }
}
