//! Checks programs with jaxlib's XLA: jaxlib parses the HLO text, compiles the StableHLO text, and computes the same
//! results as the embedded runtime.

use crate::generate;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_programs::{ApiVersion, Builder, CustomCall, Program, Schedule, ValueShape};
use xla_ffi_runtime::legacy::Signature;
use xla_ffi_runtime::{Attributes, DType, Runtime, Shape, Tensor, Tree};
use xla_ffi_testing::skip;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Returns an array as JSON for check.py: element type, dimensions and bytes.
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

/// Builds a library with the targets. If no compiler is available, skips the test and returns `None`.
fn library(test: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{test}.so"));
    let flags = [
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-fvisibility=hidden",
    ];
    let built = Command::new("cc")
        .args(flags)
        .arg("-o")
        .arg(&library)
        .arg(here.join("tests/programs/mix.c"))
        .arg(format!("-I{}", here.join("../../include").display()))
        .output();
    let Ok(built) = built else {
        skip(test, "no cc");
        return None;
    };
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    Some(library)
}

/// Runs check.py on the folder and returns its output. If check.py cannot run, skips the test and returns `None`.
fn check(test: &str, folder: &Path, library: &Path) -> Option<String> {
    let Some(python) = std::env::var_os("XLA_FFI_PYTHON") else {
        skip(
            test,
            "XLA_FFI_PYTHON is not set (`cargo xtask test` sets it)",
        );
        return None;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let done = Command::new(python)
        .arg(here.join("tests/programs/check.py"))
        .args([folder, library])
        .env("JAX_PLATFORMS", "cpu")
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    Some(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Writes the files of a program for check.py: its texts, and the parts that jaxlib's text must contain. For a
/// program that has to run, also writes its arguments and expected results.
fn write(
    folder: &Path,
    name: &str,
    program: &Program,
    values: Option<(&[Tree<Tensor>], Tree<Tensor>)>,
    parts: &[&str],
) {
    let file = |end: &str| folder.join(format!("{name}.{end}"));
    let hlo = program.to_hlo().unwrap();
    let quoted: Vec<_> = parts
        .iter()
        .map(|part| {
            assert!(hlo.contains(part), "{part} is not in {hlo}");
            format!("\"{}\"", part.replace('\\', "\\\\").replace('"', "\\\""))
        })
        .collect();
    let mut json = format!("{{\"parts\": [{}]", quoted.join(", "));
    if let Some((arguments, result)) = values {
        let (arguments, results) = (jsons(arguments), jsons(&[result]));
        let _ = write!(json, ", \"arguments\": {arguments}, \"results\": {results}");
    }
    std::fs::write(file("hlo"), hlo).unwrap();
    std::fs::write(file("json"), json + "}").unwrap();
    if let Ok(text) = program.to_stablehlo() {
        std::fs::write(file("mlir"), text).unwrap();
    }
}

#[test]
fn generated_programs_compute_the_same_in_jaxlib() {
    let test = "generated_programs_compute_the_same_in_jaxlib";
    let folder = folder("generated-programs");
    let Some(library) = library(test) else {
        return;
    };
    let runtime = Runtime::default();
    generate::register(&runtime);
    let mut runner = TestRunner::deterministic();
    for number in 0..100 {
        let plan = generate::plans(generate::dtypes());
        let program = plan.new_tree(&mut runner).unwrap().current().program();
        let arguments = generate::arguments(&program);
        let compiled = program.compile(&runtime).unwrap();
        let (result, mut called) = {
            let _alone = generate::alone();
            generate::take_called();
            let result = compiled.run(arguments.clone()).unwrap();
            (result, generate::take_called())
        };
        let values = Some((arguments.as_slice(), result));
        let name = number.to_string();
        write(&folder, &name, &program, values, &[]);
        // The order of calls differs between the hosts; unused calls run on neither.
        called.sort_unstable();
        let file = folder.join(name + ".json");
        let json = std::fs::read_to_string(&file).unwrap();
        let json = json.replacen('{', &format!("{{\"called\": {called:?}, "), 1);
        std::fs::write(file, json).unwrap();
    }
    if let Some(said) = check(test, &folder, &library) {
        assert_eq!(said, "100 read, 100 ran, 0 failed");
    }
}

/// Writes programs with original custom calls, and the results of the embedded runtime.
fn legacy(folder: &Path, library: &Path) {
    let runtime = Runtime::default();
    let library = runtime.open(library).unwrap();
    for (symbol, signature) in [
        ("opaque_bytes", Signature::CpuUnified),
        ("by_leaves", Signature::Cpu),
    ] {
        let function = library.legacy_function(symbol, signature).unwrap();
        runtime.register_legacy(symbol, "Host", function).unwrap();
    }
    let every_byte: Vec<u8> = (0..=255).collect();
    let mut b = Builder::new("every_byte");
    let shape = ValueShape::array(DType::U8, [256]).unwrap();
    let version = ApiVersion::StatusReturningUnified;
    let call = CustomCall::legacy(version, "opaque_bytes", [], shape);
    let root = b.custom_call(call.opaque(every_byte.clone()));
    let program = b.build(root).unwrap();
    let result = program.compile(&runtime).unwrap().run([]).unwrap();
    assert_eq!(result.leaf().unwrap().bytes(), every_byte);
    write(folder, "opaque", &program, Some((&[], result)), &[]);

    let mut b = Builder::new("leaves");
    let nested = ValueShape::parse("(f32[1], (f32[1]))").unwrap();
    let x = b.parameter(0, nested, "x");
    let result = ValueShape::parse("((f32[1]), f32[1])").unwrap();
    let root = b.custom_call(CustomCall::legacy(
        ApiVersion::Original,
        "by_leaves",
        [x],
        result,
    ));
    let program = b.build(root).unwrap();
    let arguments = generate::arguments(&program);
    let result = program
        .compile(&runtime)
        .unwrap()
        .run(arguments.clone())
        .unwrap();
    write(folder, "leaves", &program, Some((&arguments, result)), &[]);
}

/// Writes a program whose calls are ordered by tokens.
fn tokens(folder: &Path) {
    let runtime = Runtime::default();
    generate::register(&runtime);
    let mut b = Builder::new("tokens");
    let x = b.parameter(0, ValueShape::parse("(f32[3], s4[3])").unwrap(), "x");
    let mut token = b.token();
    let mut results = vec![];
    for seed in 0..3_i64 {
        let pair = ValueShape::parse("(token[], f32[2])").unwrap();
        let call = CustomCall::ffi(generate::TARGET, [token, x], pair)
            .attributes(Attributes::new().with("seed", seed))
            .with_side_effect();
        let call = b.custom_call(call);
        token = b.get_tuple_element(call, 0);
        results.push(b.get_tuple_element(call, 1));
    }
    let root = b.tuple(results);
    let program = b.build(root).unwrap();
    let arguments = generate::arguments(&program);
    let compiled = program.compile(&runtime).unwrap();
    let result = {
        let _alone = generate::alone();
        compiled.run(arguments.clone()).unwrap()
    };
    write(
        folder,
        "tokens",
        &program,
        Some((&arguments, result)),
        &["token[]"],
    );
}

/// Checks programs with every feature of HLO and StableHLO text that this crate prints.
#[test]
fn jaxlib_reads_every_part_of_a_program() {
    let test = "jaxlib_reads_every_part_of_a_program";
    let folder = folder("read-programs");
    let Some(library) = library(test) else {
        return;
    };
    let f32s = |dims: &[i64]| ValueShape::array(DType::F32, dims).unwrap();
    let every_byte: Vec<u8> = (0..=255).collect();

    // The program has constants of every element type. Small types occur with every bit pattern.
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
    write(&folder, "constants", &constants, Some((&[], values)), &[]);

    // The program has a call with all options.
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
    .with_side_effect()
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
    // The expected parts of both texts, as jaxlib prints them.
    let parts = [
        r#"custom_call_target="a \"target\"\\ {of} any name\n\303\251""#,
        r#"backend_config="\000\001\002\003\004\005\006\007\010\t\n\013\014\r\016"#,
        r#"\037 !\""#,
        r#"[\\]^_"#,
        r#"~\177\200\201"#,
        r#"\375\376\377""#,
        "custom_call_has_side_effect=true",
        "api_version=API_VERSION_STATUS_RETURNING,",
        "output_to_operand_aliasing={{0}: (0, {}), {2,1,0}: (1, {1,0})}",
        "operand_layout_constraints={f32[2,3]{0,1}}",
        "output_to_operand_aliasing={{}: (0, {})}",
        "schedule=SCHEDULE_EARLIEST",
        "api_version=API_VERSION_TYPED_FFI",
    ];
    write(&folder, "everything", &program, None, &parts);

    // The program has features that HLO text can express and StableHLO cannot.
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
    write(
        &folder,
        "hlo_only",
        &program,
        None,
        &["literal=u8[1,1]{1,0} {"],
    );
    let error = program.to_stablehlo().unwrap_err();
    assert_eq!(error.code(), xla_ffi_runtime::ErrorCode::Unimplemented);
    assert!(error.message().contains("'constant.1'"), "{error}");

    // Legacy targets receive the same opaque bytes and tuples from jaxlib as from the embedded runtime.
    legacy(&folder, &library);
    tokens(&folder);

    if let Some(said) = check(test, &folder, &library) {
        assert_eq!(said, "6 read, 4 ran, 0 failed");
    }
}
