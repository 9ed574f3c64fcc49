//! The example libraries on XLA's CPU backend behind a PJRT plugin: results and errors are those of
//! the embedded runtime.

#[path = "libraries/mod.rs"]
mod libraries;
#[path = "plugin/mod.rs"]
mod plugin;
#[path = "skip/mod.rs"]
mod skip;

use libraries::rust_examples;
use plugin::plugin;
use skip::skip;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use xla_ffi::{Future, Later, prelude::*};
use xla_ffi_runtime::pjrt::{Client, Plugin};
use xla_ffi_runtime::program::{Builder, CustomCall, ValueShape};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Bundle, Code, DType, Library, Result, Revision, Runtime, Shape, Stage, Stages,
    Tensor,
};

/// A call as a command line gives it, and how many of its results are the same in every run.
struct Case {
    handler: &'static str,
    attrs: &'static str,
    args: &'static [&'static str],
    rets: &'static [&'static str],
    aliases: &'static [usize],
    compared: usize,
}

const fn case(
    handler: &'static str,
    attrs: &'static str,
    args: &'static [&'static str],
    rets: &'static [&'static str],
) -> Case {
    Case {
        handler,
        attrs,
        args,
        rets,
        aliases: &[],
        compared: rets.len(),
    }
}

const CASES: &[Case] = &[
    case(
        "scale",
        "{factor = 1.5 : f32}",
        &["f32[2,3]=iota"],
        &["f32[2,3]"],
    ),
    case(
        "scale",
        "{factor = 1.5 : f32}",
        &["f32[0,3]=iota"],
        &["f32[0,3]"],
    ),
    case(
        "scale",
        "{factor = 1.5 : f32}",
        &["f32[2,3]=iota"],
        &["f32[3,2]"],
    ),
    case("scale", "{factor = 1.5}", &["f32[2]=iota"], &["f32[2]"]),
    case("scale", "{}", &["f32[2]=iota"], &["f32[2]"]),
    case(
        "scale",
        "{factor = 1.5 : f32}",
        &["f64[2]=iota"],
        &["f64[2]"],
    ),
    case("scale", "{factor = 1.5 : f32}", &[], &["f32[2]"]),
    case("echo_bool", "{value = true}", &[], &["s64[]"]),
    case(
        "echo_ints",
        "{i8 = -128 : i8, i16 = 2 : i16, i32 = 3 : i32, i64 = -4 : i64, u8 = 255 : ui8, \
         u16 = 6 : ui16, u32 = 7 : ui32, u64 = 8 : ui64}",
        &[],
        &["s64[8]"],
    ),
    case(
        "echo_floats",
        "{f32 = 1.0e-5 : f32, f64 = 0.1}",
        &[],
        &["f64[2]"],
    ),
    case("echo_string", "{text = \"a\\00b\\FF\"}", &[], &["u8[4]"]),
    case(
        "echo_arrays",
        "{i8 = array<i8: 1>, i16 = array<i16: 2, 3>, i32 = array<i32: 4>, i64 = array<i64: -5>, \
         f32 = array<f32: 0.5>, f64 = array<f64: 7.25>}",
        &[],
        &["f64[7]"],
    ),
    case(
        "echo_unsigned_arrays",
        "{u8 = dense<[1]> : tensor<1xui8>, u16 = dense<[2, 3]> : tensor<2xui16>, \
         u32 = dense<[4]> : tensor<1xui32>, u64 = dense<[5]> : tensor<1xui64>}",
        &[],
        &["f64[5]"],
    ),
    case(
        "echo_dict",
        "{options = {flag = true, n = 3, x = 0.5, name = \"four\"}}",
        &[],
        &["f64[4]"],
    ),
    case(
        "echo_nested",
        "{options = {n = 3, inner = {x = 0.5}, list = array<i64: 1, 2>}}",
        &[],
        &["f64[3]"],
    ),
    case("echo_optional", "{}", &[], &["f64[2]"]),
    case("echo_optional", "{n = 2, x = 0.5}", &[], &["f64[2]"]),
    case("describe", "{}", &["c128[2,1]=iota"], &["s64[8]"]),
    case("describe", "{}", &["u4[3]=1,2,3"], &["s64[8]"]),
    case("copy", "{}", &["pred[3]=true,false,true"], &["pred[3]"]),
    case("unpack", "{}", &["s4[5]=-8,7,1,0,-1"], &["s8[5]"]),
    case("unpack", "{}", &["u2[5]=3,0,1,2,3"], &["s8[5]"]),
    case("unpack", "{}", &["f4e2m1fn[3]=0.5,1,6"], &["s8[3]"]),
    case("unpack_s4", "{}", &["s4[3]=-8,7,1"], &["s8[3]"]),
    case("pack", "{}", &["s8[5]=-2,1,0,-1,1"], &["s2[5]"]),
    case("pack", "{}", &["s8[3]=15,1,7"], &["u4[3]"]),
    case(
        "sum_all",
        "{}",
        &["f32[2]=1,2", "f32[]=3", "f32[1,1]=4"],
        &["f32[]"],
    ),
    case("sum_all", "{}", &[], &["f32[]"]),
    case(
        "add_tokens",
        "{}",
        &["token", "f32[2]=1,2"],
        &["token", "f32[2]"],
    ),
    Case {
        aliases: &[0],
        ..case("increment", "{}", &["f32[3]=1,2,3"], &["f32[3]"])
    },
    case(
        "fail",
        "{code = 9 : i32, message = \"a \\22b\\22\\0Ac\"}",
        &["f32[]=1"],
        &["f32[]"],
    ),
    case(
        "fail",
        "{code = 16 : i32, message = \"\"}",
        &["f32[]=1"],
        &["f32[]"],
    ),
    case(
        "panic",
        "{message = \"on purpose\"}",
        &["f32[]=1"],
        &["f32[]"],
    ),
    case("counter", "{start = 41}", &["f32[]=1"], &["s64[]"]),
    case("counter", "{start = -1}", &["f32[]=1"], &["s64[]"]),
    case(
        "async_scale",
        "{factor = 2.0 : f32, delay_ms = 20}",
        &["f32[2]=1,2"],
        &["f32[2]"],
    ),
    case("async_probe", "{}", &[], &["s64[2]"]),
    case(
        "async_fail",
        "{code = 5 : i32, message = \"gone\"}",
        &["f32[]=1"],
        &["f32[]"],
    ),
    Case {
        // How many tasks ran on which thread is the pool's affair.
        compared: 1,
        ..case(
            "pool_sum",
            "{tasks = 4}",
            &["f32[8]=iota"],
            &["f32[]", "s64[2]"],
        )
    },
    case("run_id", "{}", &["f32[]=1"], &["s64[]"]),
    case("device_ordinal", "{}", &["f32[]=1"], &["s32[]"]),
    case("optional_parts", "{}", &["f32[]=1"], &["s64[3]"]),
];

/// The execution's number.
const RUN_ID: i32 = 77;

impl Case {
    fn attributes(&self) -> Attributes {
        Attributes::parse(self.attrs).expect("the case's attributes")
    }

    fn arguments(&self) -> Vec<Tensor> {
        let tensor = |spec: &&str| {
            Spec::parse(spec)
                .expect("a SPEC")
                .tensor()
                .expect("a tensor")
        };
        self.args.iter().map(tensor).collect()
    }

    fn shapes(&self) -> Vec<Shape> {
        let shape = |spec: &&str| parse_result(spec).expect("a result");
        self.rets.iter().map(shape).collect()
    }

    fn embedded(&self, runtime: &Runtime, bundle: Bundle) -> Result<Vec<Tensor>> {
        let mut call = runtime
            .handler(self.handler, bundle)?
            .instantiate(&self.attributes())?
            .call()
            .stages(Stages::Cpu)
            .run_id(RUN_ID.into())
            .args(self.arguments());
        for (index, shape) in self.shapes().into_iter().enumerate() {
            call = match self.aliases.get(index) {
                Some(argument) => call.ret_alias(*argument),
                None => call.ret(shape),
            };
        }
        Ok(call.run()?.rets)
    }

    fn on_xla(&self, client: &Client, target: &str) -> Result<Vec<Tensor>> {
        let mut call = client
            .call(target)
            .attributes(&self.attributes())
            .args(self.arguments())
            .launch_id(RUN_ID);
        for (index, shape) in self.shapes().into_iter().enumerate() {
            call = match self.aliases.get(index) {
                Some(argument) => call.ret_alias(*argument),
                None => call.ret(shape),
            };
        }
        call.run()
    }
}

/// The functions of a handler's stages.
fn bundle(library: &Library, handler: &str) -> Bundle {
    let instantiate = format!("{handler}_instantiate");
    let mut stages = vec![(Stage::Execute, handler)];
    if library.symbol(&instantiate).is_ok() {
        stages.push((Stage::Instantiate, &instantiate));
    }
    library.bundle(&stages).expect("the handler's symbols")
}

fn client(test: &str) -> Option<Client> {
    let plugin = Plugin::load(plugin(test)?).expect("the plugin loads");
    Some(plugin.client().expect("a client"))
}

/// What an outcome is, for comparing: the results' bytes, or code and text.
fn told(outcome: Result<Vec<Tensor>>, compared: usize) -> Result<Vec<String>, String> {
    match outcome {
        Ok(rets) => Ok(rets
            .iter()
            .take(compared)
            .map(|ret| format!("{ret} {:?}", ret.bytes()))
            .collect()),
        Err(error) => Err(error.to_string()),
    }
}

/// Every case on both engines.
fn compare(test: &str, path: &Path) {
    let Some(client) = client(test) else { return };
    // The plugin's XLA speaks FFI 0.2, as r7.
    let runtime = Runtime::new(Revision::R7);
    let library = runtime.open(path).expect("the library loads");
    let mut wrong = vec![];
    let mut failing = 0;
    for (index, case) in CASES.iter().enumerate() {
        if library.symbol(case.handler).is_err() {
            // C has no panics.
            assert_eq!(case.handler, "panic", "{}", path.display());
            continue;
        }
        let bundle = bundle(&library, case.handler);
        let target = format!("{test}.{}", case.handler);
        client.register(&target, &bundle).expect("registration");
        let wanted = told(case.embedded(&runtime, bundle), case.compared);
        let got = told(case.on_xla(&client, &target), case.compared);
        failing += usize::from(wanted.is_err());
        if got != wanted {
            wrong.push(format!(
                "{index} {}: embedded {wanted:?}, PJRT {got:?}",
                case.handler
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        failing >= 8,
        "only {failing} cases fail, so errors are not compared"
    );
}

fn c_example(test: &str, name: &str, compiler: Option<&str>) -> Option<PathBuf> {
    if compiler.is_none() {
        skip(test, "no compiler");
        return None;
    }
    Some(Path::new(env!("C_EXAMPLES_DIR")).join(name))
}

#[test]
fn the_rust_library() {
    compare(
        "pjrt.the_rust_library",
        &rust_examples().join("libconformance.so"),
    );
}

#[test]
fn the_c_library() {
    let test = "pjrt.the_c_library";
    if let Some(path) = c_example(test, "libconformance.so", option_env!("C_COMPILER")) {
        compare(test, &path);
    }
}

#[test]
fn the_cpp_library() {
    let test = "pjrt.the_cpp_library";
    if let Some(path) = c_example(test, "libconformance_cpp.so", option_env!("CPP_COMPILER")) {
        compare(test, &path);
    }
}

/// Both examples in three languages, their results inferred by nobody.
#[test]
fn the_examples() {
    let test = "pjrt.the_examples";
    let Some(client) = client(test) else { return };
    let runtime = Runtime::new(Revision::R7);
    let mut paths = vec![
        ("tiled_add", rust_examples().join("libtiled_add.so")),
        ("rms_norm", rust_examples().join("librms_norm.so")),
    ];
    for (name, file, compiler) in [
        ("tiled_add", "lib01_tiled_add.so", option_env!("C_COMPILER")),
        ("rms_norm", "lib02_rms_norm.so", option_env!("C_COMPILER")),
        (
            "tiled_add",
            "lib01_tiled_add_cpp.so",
            option_env!("CPP_COMPILER"),
        ),
        (
            "rms_norm",
            "lib02_rms_norm_cpp.so",
            option_env!("CPP_COMPILER"),
        ),
    ] {
        paths.extend(c_example(test, file, compiler).map(|path| (name, path)));
    }
    for (name, path) in paths {
        let case = match name {
            "tiled_add" => case(name, "{}", &["f32[3]=1,2,3", "f32[6]=iota"], &["f32[6]"]),
            _ => case(
                name,
                "{eps = 1.0e-5 : f32}",
                &["f32[2,3]=random"],
                &["f32[2,3]"],
            ),
        };
        let library = runtime.open(&path).expect("the library loads");
        let bundle = bundle(&library, name);
        let target = path.file_stem().unwrap().to_string_lossy();
        client.register(&target, &bundle).expect("registration");
        let wanted = told(case.embedded(&runtime, bundle), 1);
        assert!(wanted.is_ok(), "{wanted:?}");
        assert_eq!(
            told(case.on_xla(&client, &target), 1),
            wanted,
            "{}",
            path.display()
        );
    }
}

/// Functions of the original custom calls, adapted: this XLA no longer calls the bare ones.
#[test]
fn adapted_functions() {
    let test = "pjrt.adapted_functions";
    let Some(client) = client(test) else { return };
    let runtime = Runtime::new(Revision::R7);
    let mut paths = vec![rust_examples().join("liblegacy.so")];
    for (file, compiler) in [
        ("lib11_legacy.so", option_env!("C_COMPILER")),
        ("lib11_legacy_cpp.so", option_env!("CPP_COMPILER")),
    ] {
        paths.extend(c_example(test, file, compiler));
    }
    const ARGS: &[&str] = &["f32[128]=iota", "f32[2048]=random"];
    let cases = [
        case("tiled_add_cpu_ffi", "{}", ARGS, &["f32[2048]"]),
        case("tiled_add_status_ffi", "{}", ARGS, &["f32[2048]"]),
        case(
            "tiled_add_unified_ffi",
            "{opaque = \"12\"}",
            ARGS,
            &["f32[2048]"],
        ),
        case(
            "tiled_add_tuples_ffi",
            "{}",
            ARGS,
            &["f32[2048]", "f32[2048]"],
        ),
        // Failures: a status, one with a NUL and what is no UTF-8, sizes.
        case(
            "tiled_add_unified_ffi",
            "{opaque = \"one\"}",
            ARGS,
            &["f32[2048]"],
        ),
        case(
            "tiled_add_unified_ffi",
            "{opaque = array<i8: 110, 0, 111, -1, 33>}",
            ARGS,
            &["f32[2048]"],
        ),
        case("tiled_add_checked_ffi", "{}", ARGS, &["f32[7]"]),
    ];
    for path in paths {
        let library = runtime.open(&path).expect("the library loads");
        for (index, case) in cases.iter().enumerate() {
            let bundle = bundle(&library, case.handler);
            let target = format!("{}.{index}", path.file_stem().unwrap().to_string_lossy());
            client.register(&target, &bundle).expect("registration");
            let wanted = told(case.embedded(&runtime, bundle), case.compared);
            assert_eq!(wanted.is_ok(), index < 4, "{wanted:?}");
            assert_eq!(
                told(case.on_xla(&client, &target), case.compared),
                wanted,
                "{target}"
            );
        }
    }
}

/// A library registers itself, all its handlers at once, also a second time.
#[test]
fn a_library_registers_itself() {
    let Some(client) = client("pjrt.a_library_registers_itself") else {
        return;
    };
    let path = rust_examples().join("librms_norm.so");
    let library = Runtime::default().open(path).unwrap();
    client.register_library(&library).unwrap();
    client.register_library(&library).unwrap();
    let case = case(
        "rms_norm",
        "{eps = 1.0e-5 : f32}",
        &["f32[2,3]=iota"],
        &["f32[2,3]"],
    );
    assert!(case.on_xla(&client, "rms_norm").is_ok());
    // Its neighbour has no handler that this XLA takes, and says which.
    let path = rust_examples().join("libconformance.so");
    let library = Runtime::default().open(path).unwrap();
    let error = client.register_library(&library).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("custom_options: ") && text.contains("(0.5)"),
        "{text}"
    );
    assert!(text.contains("1 of 31 handlers not registered"), "{text}");
}

#[derive(xla_ffi::UserType)]
struct Store {
    value: i64,
}

#[derive(xla_ffi::UserType)]
#[user_type(name = "pjrt.chosen", id = 4242)]
struct Chosen(i64);

#[xla_ffi::handler]
fn stored(store: UserData<Store>, mut y: Out<i64, 0>) -> xla_ffi::Result<()> {
    y.fill(store.value);
    Ok(())
}

#[xla_ffi::handler]
fn chosen(store: UserData<Chosen>, mut y: Out<i64, 0>) -> xla_ffi::Result<()> {
    y.fill(store.0);
    Ok(())
}

static CALLS: AtomicI64 = AtomicI64::new(0);

#[xla_ffi::handler]
fn refuse(_x: Buffer<f32>, _y: Out<f32>) -> xla_ffi::Result<()> {
    Err(xla_ffi::Error::new(
        ErrorCode::DataLoss,
        "the first call failed \u{e9}\n, whole",
    ))
}

#[xla_ffi::handler]
fn count(x: Buffer<f32>, mut y: Out<f32>) -> xla_ffi::Result<()> {
    CALLS.fetch_add(1, Ordering::SeqCst);
    y.write_with(|i| x[i] + 1.0);
    Ok(())
}

#[xla_ffi::handler]
fn copy(x: AnyBuffer, mut y: AnyOut) -> xla_ffi::Result<()> {
    y.copy_from_bytes(x.bytes())?;
    Ok(())
}

#[xla_ffi::handler]
fn never(_x: Buffer<f32>, y: Out<f32>, later: Later) -> xla_ffi::Result<Future> {
    let (promise, future) = later.promise(y)?;
    std::mem::forget(promise);
    Ok(future)
}

xla_ffi::library! {
    name = "pjrt";
    stored, chosen, refuse, count, copy, never,
}

/// Registers a handler of this program under a name of its own and gives the name.
fn registered<H: xla_ffi::__private::Handler>(client: &Client, name: &str) -> String {
    let mut bundle = Bundle::default();
    for stage in Stage::ALL {
        if let Some(entry) = H::ENTRIES[stage as usize] {
            // SAFETY: made by `library!`; this program does not unload itself.
            bundle = unsafe { bundle.with(stage, entry) };
        }
    }
    let name = format!("pjrt.{name}");
    client.register(&name, &bundle).expect("registration");
    name
}

fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len() as i64], values).unwrap()
}

/// User data by a number that the library chose, and by one that XLA gave the library's type.
#[test]
fn user_data() {
    let Some(client) = client("pjrt.user_data") else {
        return;
    };
    let scalar = Shape::new(DType::S64, []).unwrap();
    let chosen = registered::<chosen>(&client, "chosen");
    client
        .register_type("pjrt.chosen", 4242, xla_ffi_runtime::TypeInfo::default())
        .unwrap();
    let object = Chosen(11);
    // SAFETY: the object outlives the call.
    let call = unsafe {
        client
            .call(&chosen)
            .user_data(4242, (&raw const object).cast())
    };
    let rets = call.ret(scalar.clone()).run().unwrap();
    assert_eq!(rets[0].to_vec::<i64>().unwrap(), [11]);

    let stored = registered::<stored>(&client, "stored");
    let name = <Store as xla_ffi::UserType>::host_type().name();
    let id = client.type_id(name).unwrap();
    assert_eq!(client.type_id(name).unwrap(), id);
    let object = Store { value: 9 };
    // SAFETY: as above.
    let call = unsafe {
        client
            .call(&stored)
            .user_data(id, (&raw const object).cast())
    };
    let rets = call.ret(scalar.clone()).run().unwrap();
    assert_eq!(rets[0].to_vec::<i64>().unwrap(), [9]);

    let error = client.call(&stored).ret(scalar.clone()).run().unwrap_err();
    assert!(
        error.message().contains("stored (execute): `store`: "),
        "{error}"
    );
    // SAFETY: as above.
    let twice = unsafe {
        client
            .call(&stored)
            .user_data(id, (&raw const object).cast())
    };
    // SAFETY: as above.
    let twice = unsafe { twice.user_data(id, (&raw const object).cast()) };
    let error = twice.ret(scalar).run().unwrap_err();
    assert!(
        error
            .message()
            .starts_with(&format!("user data of type {id}: ")),
        "{error}"
    );
}

/// The first call fails: the second, which reads its result, does not run, and nothing comes out.
#[test]
fn a_failing_call_stops_the_program() {
    let Some(client) = client("pjrt.a_failing_call_stops_the_program") else {
        return;
    };
    let (refuse, count) = (
        registered::<refuse>(&client, "refuse"),
        registered::<count>(&client, "count"),
    );
    let shape = ValueShape::array(DType::F32, [2]).unwrap();
    let program = |first: &str| {
        let mut builder = Builder::new("two");
        let x = builder.parameter(0, shape.clone(), "x");
        let call = CustomCall::ffi(first, [x], shape.clone()).has_side_effect(true);
        let y = builder.custom_call(call);
        let z = builder.custom_call(CustomCall::ffi(count.as_str(), [y], shape.clone()));
        let text = builder.build(z).unwrap().to_stablehlo().unwrap();
        client.compile(text).unwrap()
    };
    let works = program(&count);
    let rets = works.run(&[f32s(&[1.0, 2.0])]).unwrap();
    assert_eq!(rets[0].to_vec::<f32>().unwrap(), [3.0, 4.0]);
    assert_eq!(CALLS.load(Ordering::SeqCst), 2);
    let fails = program(&refuse);
    for _ in 0..20 {
        let error = fails.run(&[f32s(&[1.0, 2.0])]).unwrap_err();
        assert_eq!(error.code(), Code::DataLoss);
        assert_eq!(error.message(), "the first call failed \u{e9}\n, whole");
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 2, "the second call ran");
    // The client and the other program go on.
    assert!(works.run(&[f32s(&[1.0, 2.0])]).is_ok());
}

/// Every element type that PJRT has crosses the border both ways, bit by bit.
#[test]
fn element_types() {
    let Some(client) = client("pjrt.element_types") else {
        return;
    };
    let copy = registered::<copy>(&client, "copy");
    let mut unknown = vec![];
    for dtype in DType::all().filter(|dtype| *dtype != DType::Token) {
        for dims in [vec![], vec![7], vec![2, 3, 3]] {
            let shape = Shape::new(dtype, dims).unwrap();
            let mut bytes: Vec<u8> = (0..shape.bytes()).map(|i| (i * 37 + 11) as u8).collect();
            if dtype == DType::Pred {
                bytes.iter_mut().for_each(|byte| *byte &= 1);
            }
            // What lies behind the last packed element is nobody's.
            let behind = shape.bytes() * 8 - shape.elements() * dtype.bits();
            if let Some(last) = bytes.last_mut() {
                *last &= 0xFF >> behind;
            }
            let x = Tensor::from_bytes(shape.clone(), &bytes).unwrap();
            match client.upload(&x) {
                Err(error) => {
                    assert_eq!(error.code(), Code::Unimplemented, "{shape}: {error}");
                    unknown.push(dtype);
                    continue;
                }
                Ok(buffer) => {
                    assert_eq!(buffer.shape().unwrap(), shape);
                    assert_eq!(buffer.download().unwrap().bytes(), bytes, "{shape}");
                }
            }
            let rets = client.call(&copy).arg(x).ret(shape.clone()).run();
            assert_eq!(rets.expect("the copy")[0].bytes(), bytes, "{shape}");
        }
    }
    unknown.dedup();
    assert_eq!(unknown, [DType::S1, DType::U1]);
}

/// An argument that a program takes over is used up; one that it does not, is not.
#[test]
fn donation() {
    let Some(client) = client("pjrt.donation") else {
        return;
    };
    let count = registered::<count>(&client, "count");
    let text = |donated: &str| {
        format!(
            "func.func @main(%x: tensor<3xf32>{donated}) -> tensor<3xf32> {{\n\
             %y = stablehlo.custom_call @{count}(%x) {{api_version = 4 : i32}} : \
             (tensor<3xf32>) -> tensor<3xf32>\n return %y : tensor<3xf32>\n}}"
        )
    };
    let keeps = client.compile(text("")).unwrap();
    let takes = client
        .compile(text(" {tf.aliasing_output = 0 : i32}"))
        .unwrap();
    let x = client.upload(&f32s(&[1.0, 2.0, 3.0])).unwrap();
    for _ in 0..1000 {
        let y = keeps.launch().args([&x]).run().unwrap();
        assert_eq!(
            y[0].download().unwrap().to_vec::<f32>().unwrap(),
            [2.0, 3.0, 4.0]
        );
    }
    assert_eq!(
        x.download().unwrap().to_vec::<f32>().unwrap(),
        [1.0, 2.0, 3.0]
    );
    let y = takes.launch().args([&x]).run().unwrap();
    assert_eq!(
        y[0].download().unwrap().to_vec::<f32>().unwrap(),
        [2.0, 3.0, 4.0]
    );
    let error = keeps.launch().args([&x]).run().unwrap_err();
    assert!(error.message().contains("deleted or donated"), "{error}");
    assert!(x.download().is_err());
}

/// Two clients, threads that run one program, and objects that outlive each other.
#[test]
fn clients_and_threads() {
    let Some(path) = plugin("pjrt.clients_and_threads") else {
        return;
    };
    let plugin = Plugin::load(&path).unwrap();
    assert_eq!(plugin.path(), path);
    assert!(plugin.version() >= (0, 57), "{plugin:?}");
    let (one, other) = (plugin.client().unwrap(), plugin.client().unwrap());
    assert_eq!(one.platform(), "cpu");
    let copied = registered::<copy>(&one, "copied");
    assert_eq!(registered::<copy>(&other, "copied"), copied);
    let text = format!(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n\
         %y = stablehlo.custom_call @{copied}(%x) {{api_version = 4 : i32}} : \
         (tensor<2xf32>) -> tensor<2xf32>\n return %y : tensor<2xf32>\n}}"
    );
    let (first, second) = (one.compile(&text).unwrap(), other.compile(&text).unwrap());
    drop((one, plugin));
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (first, second) = (&first, &second);
            scope.spawn(move || {
                for program in [first, second].into_iter().cycle().take(50) {
                    let x = f32s(&[f32::from(thread), 2.0]);
                    assert_eq!(program.run(&[x.clone()]).unwrap()[0].bytes(), x.bytes());
                }
            });
        }
    });
    // A result keeps its client.
    let x = other.upload(&f32s(&[1.0, 2.0])).unwrap();
    let kept = second.launch().args([&x]).run().unwrap();
    drop((x, second, other));
    assert_eq!(
        kept[0].download().unwrap().to_vec::<f32>().unwrap(),
        [1.0, 2.0]
    );
}

#[test]
fn a_call_that_does_not_end() {
    let Some(client) = client("pjrt.a_call_that_does_not_end") else {
        return;
    };
    let never = registered::<never>(&client, "never");
    let start = Instant::now();
    let call = client
        .call(&never)
        .arg(f32s(&[1.0]))
        .ret(Shape::new(DType::F32, [1]).unwrap());
    let error = call
        .time_limit(Some(Duration::from_millis(200)))
        .run()
        .unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// What the compiler and the plugin refuse comes whole.
#[test]
fn refusals() {
    let Some(client) = client("pjrt.refusals") else {
        return;
    };
    let error = client.compile("func.func @main(%x: tensor<").unwrap_err();
    assert!(error.message().contains("expected"), "{error}");
    let error = client.compile(b"\xFF\0").unwrap_err();
    assert!(!error.message().is_empty());
    let shape = Shape::new(DType::F32, [1]).unwrap();
    let error = client
        .call("pjrt.nobody")
        .ret(shape.clone())
        .run()
        .unwrap_err();
    assert!(error.message().contains("pjrt.nobody"), "{error}");
    let error = client.call("pjrt.nobody").ret_alias(3).run().unwrap_err();
    assert!(error.message().contains("no argument 3"), "{error}");
    let error = client
        .register("pjrt.empty", &Bundle::default())
        .unwrap_err();
    assert!(error.message().contains("no execute stage"), "{error}");
    let copy = registered::<copy>(&client, "copy");
    let bundle = Bundle::default();
    // SAFETY: a handler of this program.
    let other = unsafe {
        bundle.with(
            Stage::Execute,
            <count as xla_ffi::__private::Handler>::ENTRIES[3].unwrap(),
        )
    };
    let error = client.register(&copy, &other).unwrap_err();
    assert!(error.message().contains("handler 'pjrt.copy': "), "{error}");
    // SAFETY: as above.
    let recorded = unsafe { other.with(Stage::Record, other.get(Stage::Execute).unwrap()) };
    let error = client.register("pjrt.recorded", &recorded).unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented, "{error}");

    let identity =
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
    let program = client.compile(identity).unwrap();
    assert_eq!(program.results(), 1);
    assert!(program.run(&[]).is_err());
    assert!(program.run(&[f32s(&[1.0])]).is_err());
    assert!(
        program
            .run(&[f32s(&[1.0, 2.0]), f32s(&[1.0, 2.0])])
            .is_err()
    );
    assert_eq!(
        program.run(&[f32s(&[1.0, 2.0])]).unwrap()[0].bytes(),
        f32s(&[1.0, 2.0]).bytes()
    );
}
