//! Compares XLA's CPU backend, through a PJRT plugin, with the embedded runtime: results and errors are the same.
//!
//! Every case of the conformance libraries runs in three languages on both.

mod behaviours;

use std::path::{Path, PathBuf};
use xla_ffi_programs::pjrt::{Client, Plugin};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Bundle, Library, Result, Revision, Runtime, Shape, Stage, Stages, Tensor,
};
use xla_ffi_testing::{plugin, rust_examples, skip};

/// Returns a client of the plugin. Reports a skip and returns `None` without a plugin.
fn client(test: &str) -> Option<Client> {
    let plugin = Plugin::load(plugin(test)?).expect("the plugin loads");
    Some(plugin.client().expect("a client"))
}

/// Returns an outcome in a form that can be compared: the bytes of the results, or the code and message.
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

/// Returns the library of a C or C++ example. Reports a skip and returns `None` without a compiler.
fn c_example(test: &str, name: &str, compiler: Option<&str>) -> Option<PathBuf> {
    if compiler.is_none() {
        skip(test, "no compiler");
        return None;
    }
    Some(Path::new(env!("C_EXAMPLES_DIR")).join(name))
}

/// A call in the command line's notation, with the number of results that are the same in every run.
struct Case {
    handler: &'static str,
    attrs: &'static str,
    args: Vec<&'static str>,
    rets: Vec<&'static str>,
    compared: usize,
}

/// One case per line: handler, attributes, arguments and results.
///
/// A result `@0` aliases argument 0. Results that follow a tilde are not compared, because the pool decides how many
/// tasks run on which thread.
const CASES: &str = r#"
scale | {factor = 1.5 : f32} | f32[2,3]=iota | f32[2,3]
scale | {factor = 1.5 : f32} | f32[0,3]=iota | f32[0,3]
scale | {factor = 1.5 : f32} | f32[2,3]=iota | f32[3,2]
scale | {factor = 1.5} | f32[2]=iota | f32[2]
scale | {} | f32[2]=iota | f32[2]
scale | {factor = 1.5 : f32} | f64[2]=iota | f64[2]
scale | {factor = 1.5 : f32} |  | f32[2]
echo_bool | {value = true} |  | s64[]
echo_ints | {i8 = -128 : i8, i16 = 2 : i16, i32 = 3 : i32, i64 = -4 : i64, u8 = 255 : ui8, u16 = 6 : ui16, u32 = 7 : ui32, u64 = 8 : ui64} |  | s64[8]
echo_floats | {f32 = 1.0e-5 : f32, f64 = 0.1} |  | f64[2]
echo_string | {text = "a\00b\FF"} |  | u8[4]
echo_arrays | {i8 = array<i8: 1>, i16 = array<i16: 2, 3>, i32 = array<i32: 4>, i64 = array<i64: -5>, f32 = array<f32: 0.5>, f64 = array<f64: 7.25>} |  | f64[7]
echo_unsigned_arrays | {u8 = dense<[1]> : tensor<1xui8>, u16 = dense<[2, 3]> : tensor<2xui16>, u32 = dense<[4]> : tensor<1xui32>, u64 = dense<[5]> : tensor<1xui64>} |  | f64[5]
echo_dict | {options = {flag = true, n = 3, x = 0.5, name = "four"}} |  | f64[4]
echo_nested | {options = {n = 3, inner = {x = 0.5}, list = array<i64: 1, 2>}} |  | f64[3]
echo_optional | {} |  | f64[2]
echo_optional | {n = 2, x = 0.5} |  | f64[2]
describe | {} | c128[2,1]=iota | s64[8]
describe | {} | u4[3]=1,2,3 | s64[8]
copy | {} | pred[3]=true,false,true | pred[3]
unpack | {} | s4[5]=-8,7,1,0,-1 | s8[5]
unpack | {} | u2[5]=3,0,1,2,3 | s8[5]
unpack | {} | f4e2m1fn[3]=0.5,1,6 | s8[3]
unpack_s4 | {} | s4[3]=-8,7,1 | s8[3]
pack | {} | s8[5]=-2,1,0,-1,1 | s2[5]
pack | {} | s8[3]=15,1,7 | u4[3]
sum_all | {} | f32[2]=1,2 f32[]=3 f32[1,1]=4 | f32[]
sum_all | {} |  | f32[]
add_tokens | {} | token f32[2]=1,2 | token f32[2]
increment | {} | f32[3]=1,2,3 | f32[3]@0
fail | {code = 9 : i32, message = "a \22b\22\0Ac"} | f32[]=1 | f32[]
fail | {code = 16 : i32, message = ""} | f32[]=1 | f32[]
panic | {message = "on purpose"} | f32[]=1 | f32[]
counter | {start = 41} | f32[]=1 | s64[]
counter | {start = -1} | f32[]=1 | s64[]
async_scale | {factor = 2.0 : f32, delay_ms = 20} | f32[2]=1,2 | f32[2]
async_probe | {} |  | s64[2]
async_fail | {code = 5 : i32, message = "gone"} | f32[]=1 | f32[]
pool_sum | {tasks = 4} | f32[8]=iota | f32[] ~s64[2]
run_id | {} | f32[]=1 | s64[]
device_ordinal | {} | f32[]=1 | s32[]
optional_parts | {} | f32[]=1 | s64[3]
"#;

fn cases(text: &'static str) -> Vec<Case> {
    let case = |line: &'static str| {
        let [handler, attrs, args, rets] =
            [0, 1, 2, 3].map(|at| line.split('|').nth(at).expect("a column"));
        let rets: Vec<_> = rets.split_whitespace().collect();
        Case {
            handler: handler.trim(),
            attrs: attrs.trim(),
            args: args.split_whitespace().collect(),
            compared: rets.iter().take_while(|ret| !ret.starts_with('~')).count(),
            rets,
        }
    };
    text.trim().lines().map(case).collect()
}

/// The run id of the execution.
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

    /// Returns the types of the results, or the arguments that they alias.
    fn results(&self) -> impl Iterator<Item = std::result::Result<Shape, usize>> {
        self.rets.iter().map(|spec| match spec.split_once('@') {
            Some((_, argument)) => Err(argument.parse().expect("a number")),
            None => Ok(parse_result(spec.trim_start_matches('~')).expect("a result")),
        })
    }

    fn embedded(&self, runtime: &Runtime, bundle: Bundle) -> Result<Vec<Tensor>> {
        let mut call = runtime
            .handler(self.handler, bundle)?
            .instantiate(&self.attributes())?
            .call()
            .stages(Stages::Cpu)
            .run_id(RUN_ID.into())
            .args(self.arguments());
        for result in self.results() {
            call = match result {
                Err(argument) => call.ret_alias(argument),
                Ok(shape) => call.ret(shape),
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
        for result in self.results() {
            call = match result {
                Err(argument) => call.ret_alias(argument),
                Ok(shape) => call.ret(shape),
            };
        }
        call.run()
    }
}

/// Returns the functions of a handler's stages.
fn bundle(library: &Library, handler: &str) -> Bundle {
    let instantiate = format!("{handler}_instantiate");
    let mut stages = vec![(Stage::Execute, handler)];
    if library.symbol(&instantiate).is_ok() {
        stages.push((Stage::Instantiate, &instantiate));
    }
    library.bundle(&stages).expect("the handler's symbols")
}

/// Runs every case on the plugin and on the embedded runtime, and compares the outcomes.
fn compare(test: &str, path: &Path) {
    let Some(client) = client(test) else { return };
    // The plugin's XLA has FFI 0.2, like r7.
    let runtime = Runtime::new(Revision::R7);
    let library = runtime.open(path).expect("the library loads");
    let mut wrong = vec![];
    let mut failing = 0;
    for (index, case) in cases(CASES).iter().enumerate() {
        if library.symbol(case.handler).is_err() {
            // The C library has no handler that panics.
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

/// Adapted targets of the original custom calls work, although this XLA no longer calls unadapted targets.
#[test]
fn adapted_functions() {
    let test = "pjrt.adapted_functions";
    let Some(client) = client(test) else { return };
    let runtime = Runtime::new(Revision::R7);
    let mut paths = vec![rust_examples().join("liblegacy.so")];
    for (file, compiler) in [
        ("liblegacy.so", option_env!("C_COMPILER")),
        ("liblegacy_cpp.so", option_env!("CPP_COMPILER")),
    ] {
        paths.extend(c_example(test, file, compiler));
    }
    // The last three cases fail: with a status, with a status that has a NUL and invalid UTF-8, and with wrong sizes.
    let cases = cases(
        r#"
tiled_add_cpu_ffi | {} | f32[128]=iota f32[2048]=random | f32[2048]
tiled_add_status_ffi | {} | f32[128]=iota f32[2048]=random | f32[2048]
tiled_add_unified_ffi | {opaque = "12"} | f32[128]=iota f32[2048]=random | f32[2048]
tiled_add_tuples_ffi | {} | f32[128]=iota f32[2048]=random | f32[2048] f32[2048]
tiled_add_unified_ffi | {opaque = "one"} | f32[128]=iota f32[2048]=random | f32[2048]
tiled_add_unified_ffi | {opaque = array<i8: 110, 0, 111, -1, 33>} | f32[128]=iota f32[2048]=random | f32[2048]
tiled_add_checked_ffi | {} | f32[128]=iota f32[2048]=random | f32[7]
"#,
    );
    for (number, path) in paths.iter().enumerate() {
        let library = runtime.open(path).expect("the library loads");
        for (index, case) in cases.iter().enumerate() {
            let bundle = bundle(&library, case.handler);
            let target = format!("legacy.{number}.{index}");
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

/// A library can register all its handlers at once, and do so repeatedly.
#[test]
fn a_library_registers_itself() {
    let Some(client) = client("pjrt.a_library_registers_itself") else {
        return;
    };
    let path = rust_examples().join("librms_norm.so");
    let library = Runtime::default().open(path).unwrap();
    client.register_library(&library).unwrap();
    client.register_library(&library).unwrap();
    let cases = cases("rms_norm | {eps = 1.0e-5 : f32} | f32[2,3]=iota | f32[2,3]");
    assert!(cases[0].on_xla(&client, "rms_norm").is_ok());
    // This library has a handler that this XLA rejects; the error names the handler.
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
