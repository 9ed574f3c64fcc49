//! Programs as a real XLA sees them: jaxlib parses the HLO text, compiles the StableHLO, and computes
//! what the embedded runtime computes.

#[path = "programs/generate.rs"]
mod generate;
#[path = "../../tests/skip/mod.rs"]
mod skip;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use skip::skip;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_runtime::program::{ApiVersion, Builder, CustomCall, Program, Schedule, ValueShape};
use xla_ffi_runtime::{Attributes, DType, Runtime, Shape, Tensor, Tree};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// An array for check.py: element type, dimensions, bytes.
fn json(value: &Tensor) -> String {
    let mut hex = String::new();
    for byte in value.bytes() {
        let _ = write!(hex, "{byte:02x}");
    }
    format!(
        "[\"{}\", {:?}, \"{hex}\"]",
        value.shape().dtype(),
        value.shape().dims()
    )
}

fn jsons(values: &[Tree<Tensor>]) -> String {
    let all: Vec<_> = values.iter().flat_map(Tree::leaves).map(json).collect();
    format!("[{}]", all.join(", "))
}

/// Runs check.py on what is in the folder; what it says, or `None`, told, where it cannot run.
fn check(test: &str, folder: &Path) -> Option<String> {
    let Some(python) = std::env::var_os("XLA_FFI_PYTHON") else {
        skip(
            test,
            "XLA_FFI_PYTHON is not set (`cargo xtask test` sets it)",
        );
        return None;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = folder.join("libmix.so");
    let built = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Werror",
            "-fvisibility=hidden",
            "-o",
        ])
        .arg(&library)
        .arg(here.join("tests/programs/mix.c"))
        .arg(format!("-I{}", here.join("../include").display()))
        .output();
    let Ok(built) = built else {
        skip(test, "no cc");
        return None;
    };
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let done = Command::new(python)
        .arg(here.join("tests/programs/check.py"))
        .args([folder, &library])
        .env("JAX_PLATFORMS", "cpu")
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    Some(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

fn write(folder: &Path, name: &str, program: &Program, values: &str) {
    let file = |end: &str| folder.join(format!("{name}.{end}"));
    std::fs::write(file("hlo"), program.to_hlo().unwrap()).unwrap();
    std::fs::write(file("mlir"), program.to_stablehlo().unwrap()).unwrap();
    std::fs::write(file("json"), values).unwrap();
}

#[test]
fn generated_programs_compute_the_same_in_jaxlib() {
    let folder = folder("generated-programs");
    let runtime = Runtime::default();
    generate::register(&runtime);
    let mut runner = TestRunner::deterministic();
    for number in 0..100 {
        let plan = generate::plans(generate::dtypes());
        let program = plan.new_tree(&mut runner).unwrap().current().program();
        let arguments = generate::arguments(&program);
        let result = program
            .compile(&runtime)
            .unwrap()
            .run(arguments.clone())
            .unwrap();
        let values = format!(
            "{{\"arguments\": {}, \"results\": {}}}",
            jsons(&arguments),
            jsons(&[result])
        );
        write(&folder, &number.to_string(), &program, &values);
    }
    if let Some(said) = check("generated_programs_compute_the_same_in_jaxlib", &folder) {
        assert_eq!(said, "100 read, 100 ran, 0 failed");
    }
}

/// Everything that the texts can say at once, in programs that jaxlib reads.
#[test]
fn jaxlib_reads_every_part_of_a_program() {
    let folder = folder("read-programs");
    let f32s = |dims: &[i64]| ValueShape::array(DType::F32, dims).unwrap();
    let every_byte: Vec<u8> = (0..=255).collect();

    // Constants of every element type and pattern of bits, where they are few enough.
    let mut b = Builder::new("constants");
    let mut constants = vec![];
    for dtype in generate::dtypes() {
        let elements = 1 << dtype.bits().min(8);
        let shape = Shape::new(dtype, [elements]).unwrap();
        let bytes: Vec<u8> = every_byte
            .iter()
            .copied()
            .cycle()
            .take(shape.bytes())
            .collect();
        let tensor = match dtype {
            DType::Pred | DType::C64 | DType::C128 => generate::noise(&shape, 1),
            _ => Tensor::from_bytes(shape, &bytes).unwrap(),
        };
        constants.push(b.constant(tensor));
        constants.push(b.constant(Tensor::zeros(Shape::new(dtype, [2, 0, 1]).unwrap()).unwrap()));
        constants.push(b.constant(generate::noise(&Shape::new(dtype, []).unwrap(), 7)));
    }
    let root = b.tuple(constants);
    let constants = b.build(root).unwrap();
    let values = constants
        .compile(&Runtime::default())
        .unwrap()
        .run([])
        .unwrap();
    let values = format!("{{\"arguments\": [], \"results\": {}}}", jsons(&[values]));
    write(&folder, "constants", &constants, &values);

    // A call with everything.
    let mut b = Builder::new("add");
    let x = b.parameter(0, f32s(&[2]), "x");
    let inner = CustomCall::legacy(ApiVersion::Original, "inner", [x], f32s(&[2]));
    let inner = b.custom_call(inner.named("inner.call"));
    let called = b.build(inner).unwrap();
    let mut b = Builder::new("everything");
    let p0 = b.parameter(0, f32s(&[2, 3]), "p0");
    let nested = Tree::tuple([f32s(&[2]), Tree::tuple([f32s(&[]), Tree::tuple([])])]);
    let p1 = b.parameter(1, nested.clone(), "p1");
    let token = b.token();
    let everything = CustomCall::legacy(
        ApiVersion::StatusReturning,
        "a \"target\"\\ {of} any name\n\u{e9}",
        [p0, p1, token],
        Tree::tuple([f32s(&[2, 3]), ValueShape::token(), nested]),
    )
    .opaque(every_byte.clone())
    .alias([0], 0, [])
    .alias([2, 1, 0], 1, [1, 0])
    .literal(Tensor::from_slice([2], &[1.0_f32, f32::NAN]).unwrap())
    .has_side_effect(true)
    .called_computation(called.clone());
    let everything = b.custom_call(everything);
    let attributes = "{eps = 1.0e-5 : f32, \"odd key}\" = \"\\00\\FF}\\\"{\\\\\", n = 3 : ui8, \
                      v = array<i32: 1, 2>, u = dense<[1, 2]> : tensor<2xui16>, d = {t = true}, \
                      nan = 0x7FC00000 : f32, e = array<f64>, b = array<i1: true>}";
    let column = ValueShape::array_with_layout(DType::F32, [2, 3], [0, 1]).unwrap();
    let typed = CustomCall::ffi("typed", [p0], column.clone())
        .attributes(Attributes::parse(attributes).unwrap())
        .operand_layouts([column])
        .alias([], 0, [])
        .called_computation(called.clone())
        .schedule(Schedule::Earliest)
        .named("typed-call_1");
    let typed = b.custom_call(typed);
    let root = b.tuple([everything, typed]);
    let program = b.build(root).unwrap();
    write(&folder, "everything", &program, "null");

    // What StableHLO cannot say, HLO can.
    let mut b = Builder::new("hlo_only");
    let shape = Tree::tuple([f32s(&[2]), Tree::tuple([f32s(&[3, 2])])]);
    let p0 = b.parameter(0, shape.clone(), "p0");
    let bit = b.constant(Tensor::from_bytes(Shape::new(DType::U1, [3]).unwrap(), &[5]).unwrap());
    let call = CustomCall::legacy(
        ApiVersion::StatusReturningUnified,
        "t",
        [p0, bit],
        shape.clone(),
    );
    let call = call
        .operand_layouts([shape, ValueShape::array(DType::U1, [3]).unwrap()])
        .literal(Tensor::from_slice([1, 1], &[1_u8]).unwrap())
        .called_computation(called.clone())
        .called_computation(called.clone());
    let root = b.custom_call(call);
    let program = b.build(root).unwrap();
    std::fs::write(folder.join("hlo_only.hlo"), program.to_hlo().unwrap()).unwrap();
    let error = program.to_stablehlo().unwrap_err();
    assert_eq!(error.code(), xla_ffi_runtime::Code::Unimplemented);
    assert!(error.message().contains("'constant.1'"), "{error}");

    if let Some(said) = check("jaxlib_reads_every_part_of_a_program", &folder) {
        assert_eq!(said, "3 read, 1 ran, 0 failed");
    }
}
