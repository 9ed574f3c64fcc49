//! Computes the rows of the table of hosts for each library on a PJRT plugin.
//!
//! ```text
//! pjrt_rows PLUGIN ROWS KIND=LIBRARY… --twin KIND=LIBRARY… --legacy KIND=LIBRARY… [--row NAME]
//! ```
//! Prints one line of JSON per cell, in the format of `tests/jax/matrix.py`. Each row of a library runs in a separate
//! process, so that a crash affects only one cell.

use serde_json::{Value, json};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use xla_ffi::prelude::{Out, UserData};
use xla_ffi_programs::pjrt::{Client, Loaded, Plugin, unguarded};
use xla_ffi_programs::{Builder, CustomCall, ValueShape};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{Attributes, Bundle, Library, Runtime, Shape, Stage, Tensor};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error};

/// Environment variable with the kind of the library, set for a process that runs one row.
const KIND: &str = "PJRT_ROWS_KIND";
/// Timeout of a row; rows take about a second.
const LIMIT: Duration = Duration::from_secs(60);

/// The reason why the cell of a row is not `ok`.
enum Not {
    /// The host lacks the feature that the text describes.
    Absent(String),
    /// The test does not apply to the library.
    Moot(String),
    Wrong(String),
}

impl From<xla_ffi_runtime::Error> for Not {
    fn from(error: xla_ffi_runtime::Error) -> Self {
        let text = error.to_string();
        // The library reports a missing host feature, or the host reports that the handler requires a newer version.
        let lacks = text.contains("first jaxlib that has it is")
            || text.contains("incompatible with the framework's API version");
        if lacks {
            Self::Absent(text)
        } else {
            Self::Wrong(text)
        }
    }
}

type Done<T = ()> = Result<T, Not>;

fn wrong<T>(text: String) -> Done<T> {
    Err(Not::Wrong(text))
}

/// The libraries of a row.
struct World {
    client: Client,
    library: Library,
    twin: Library,
    legacy: Library,
}

/// Registers a handler and returns the name under which the host knows the handler.
fn registered(client: &Client, library: &Library, prefix: &str, handler: &str) -> Done<String> {
    if library.symbol(handler).is_err() {
        // Some languages have no panics. No other feature depends on the language.
        return match (std::env::var(KIND).as_deref(), handler) {
            (Ok("c"), "panic") => Err(Not::Moot("the language has no panics".into())),
            _ => wrong(format!("the library has no {handler}")),
        };
    }
    let instantiate = format!("{handler}_instantiate");
    let mut stages = vec![(Stage::Execute, handler)];
    if library.symbol(&instantiate).is_ok() {
        stages.push((Stage::Instantiate, &instantiate));
    }
    let target = format!("{prefix}.{handler}");
    client.register(&target, &library.bundle(&stages)?)?;
    Ok(target)
}

fn tensor(spec: &str) -> Done<Tensor> {
    let parsed = Spec::parse(spec).map_err(|error| Not::Wrong(error.to_string()))?;
    Ok(parsed.tensor()?)
}

fn shape(spec: &str) -> Done<Shape> {
    let spec = spec.split('=').next().unwrap_or(spec);
    parse_result(spec).map_err(|error| Not::Wrong(error.to_string()))
}

fn texts(value: &Value) -> Vec<&str> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

fn parsed(text: &str) -> Done<Attributes> {
    Attributes::parse(text).map_err(|error| Not::Wrong(error.to_string()))
}

impl World {
    fn new(plugin: &str, paths: [&str; 3]) -> Done<Self> {
        let runtime = Runtime::default();
        let [library, twin, legacy] = paths.map(|path| runtime.open(path));
        Ok(Self {
            client: Plugin::load(plugin)?.client()?,
            library: library?,
            twin: twin?,
            legacy: legacy?,
        })
    }

    fn run(
        &self,
        library: &Library,
        handler: &str,
        attrs: &str,
        args: &[&str],
        rets: &[&str],
        aliases: &Value,
    ) -> Done<Vec<Tensor>> {
        let target = registered(&self.client, library, "rows", handler)?;
        let mut call = self.client.call(target).attributes(&parsed(attrs)?);
        for arg in args {
            call = call.arg(tensor(arg)?);
        }
        for (index, ret) in rets.iter().enumerate() {
            call = match aliases.get(index).and_then(Value::as_u64) {
                Some(argument) => call.ret_alias(usize::try_from(argument).unwrap_or_default()),
                None => call.ret(shape(ret)?),
            };
        }
        Ok(call.run()?)
    }

    /// Runs one call from the file of rows.
    fn call(&self, call: &Value) -> Done {
        let text = |key: &str| call[key].as_str().unwrap_or_default();
        let (handler, attrs, args) = (text("handler"), text("attrs"), texts(&call["args"]));
        let want = texts(&call["want"]);
        let rets = match call.get("rets") {
            Some(rets) => texts(rets),
            None => want.clone(),
        };
        let got = self.run(
            &self.library,
            handler,
            attrs,
            &args,
            &rets,
            &call["aliases"],
        );
        if call.get("want").is_some() {
            for (got, want) in got?.iter().zip(want) {
                let wanted = tensor(want)?;
                if got.shape() != wanted.shape() || got.bytes() != wanted.bytes() {
                    return wrong(format!("{handler} {attrs}: expected {want}, got {got}"));
                }
            }
            return Ok(());
        }
        let told = match got {
            Ok(_) => return wrong(format!("{handler} {attrs}: no error")),
            Err(Not::Absent(told) | Not::Wrong(told)) => told,
            Err(other) => return Err(other),
        };
        let parts = texts(&call["texts"]);
        let right = told.starts_with(text("code")) && parts.iter().all(|part| told.contains(part));
        if !right {
            let code = text("code");
            return wrong(format!(
                "{handler} {attrs}: expected {code} with {parts:?}, got {told}"
            ));
        }
        Ok(())
    }

    /// Calls a handler with scalars and small arrays and returns the numbers of its result.
    fn numbers(&self, handler: &str, args: &[&str], ret: &str) -> Done<Vec<i64>> {
        let rets = self.run(&self.library, handler, "{}", args, &[ret], &Value::Null)?;
        let ret = &rets[0];
        let wide = ret.to_vec::<i64>();
        let narrow = || {
            ret.to_vec::<i32>()
                .map(|list| list.into_iter().map(i64::from).collect())
        };
        wide.or_else(narrow)
            .ok_or_else(|| Not::Wrong(format!("{handler} gave {ret}")))
    }

    /// Compiles a program of one or two calls that each have the argument `x` and one result.
    fn program(&self, calls: &[(&str, &str)], arg: &Shape, ret: &Shape) -> Done<Loaded> {
        let value = |shape: &Shape| ValueShape::array(shape.dtype(), shape.dims());
        let mut builder = Builder::new("rows");
        let x = builder.parameter(0, value(arg)?, "x");
        let mut results = vec![];
        for (target, attrs) in calls {
            let call = CustomCall::ffi(*target, [x], value(ret)?).attributes(parsed(attrs)?);
            results.push(builder.custom_call(call.with_side_effect()));
        }
        let root = match results.as_slice() {
            [one] => *one,
            many => builder.tuple(many.iter().copied()),
        };
        let program = builder.build(root).map_err(xla_ffi_runtime::Error::from)?;
        Ok(self.client.compile(program.to_stablehlo()?)?)
    }
}

fn number(rets: &[Tensor], index: usize) -> i64 {
    rets.get(index)
        .and_then(|ret| ret.to_vec::<i64>())
        .and_then(|list| list.first().copied())
        .unwrap_or(i64::MIN)
}

fn state(world: &World) -> Done {
    let (x, scalar) = (tensor("f32[]=1")?, shape("s64[]")?);
    let target = registered(&world.client, &world.library, "rows", "counter")?;
    let made = |start: &str| world.program(&[(target.as_str(), start)], x.shape(), &scalar);
    let (first, second) = (made("{start = 10}")?, made("{start = 110}")?);
    let mut got = vec![];
    for program in [&first, &first, &first, &second, &first] {
        got.push(number(&program.run(std::slice::from_ref(&x))?, 0));
    }
    let stats = |world: &World| world.numbers("counter_stats", &[], "s64[2]");
    let alive = stats(world)?;
    drop((first, second));
    let gone = stats(world)?;
    if got != [10, 11, 12, 110, 13] || alive != [2, 0] || gone != [2, 2] {
        return wrong(format!(
            "counted {got:?}; [built, dropped] {alive:?}, then {gone:?}"
        ));
    }
    Ok(())
}

fn twins(world: &World) -> Done {
    let (x, scalar) = (tensor("f32[]=1")?, shape("s64[]")?);
    let one = registered(&world.client, &world.library, "rows", "counter")?;
    let other = registered(&world.client, &world.twin, "twin", "counter")?;
    let calls = [
        (one.as_str(), "{start = 10}"),
        (other.as_str(), "{start = 20}"),
    ];
    let program = world.program(&calls, x.shape(), &scalar)?;
    for step in 0..3 {
        let rets = program.run(std::slice::from_ref(&x))?;
        if (number(&rets, 0), number(&rets, 1)) != (10 + step, 20 + step) {
            return wrong(format!("step {step}: {} and {}", rets[0], rets[1]));
        }
    }
    Ok(())
}

fn two_libraries(world: &World) -> Done {
    let x = tensor("f32[2]=1,2")?;
    let one = registered(&world.client, &world.library, "rows", "scale")?;
    let other = registered(&world.client, &world.twin, "twin", "scale")?;
    let attrs = "{factor = 2.0 : f32}";
    let calls = [(one.as_str(), attrs), (other.as_str(), attrs)];
    let rets = world
        .program(&calls, x.shape(), x.shape())?
        .run(std::slice::from_ref(&x))?;
    let values: Vec<_> = rets.iter().filter_map(Tensor::to_vec::<f32>).collect();
    // The twin's handler adds 1.
    if values != [[2.0, 4.0], [3.0, 5.0]] {
        return wrong(format!("{values:?}"));
    }
    Ok(())
}

fn later(world: &World) -> Done {
    let [elsewhere, waited] = world.numbers("async_probe", &[], "s64[2]")?[..] else {
        return wrong("two numbers".into());
    };
    if (elsewhere, waited) != (1, 1) {
        return wrong(format!("[elsewhere, later] is {elsewhere}, {waited}"));
    }
    Ok(())
}

fn pool_size(world: &World) -> Done {
    let size = world.numbers("pool_threads", &[], "s64[]")?;
    if !(1..=4096).contains(&size[0]) {
        return wrong(format!("a pool of {size:?} threads"));
    }
    Ok(())
}

fn run_id(world: &World) -> Done {
    let (x, scalar) = (tensor("f32[]=1")?, shape("s64[]")?);
    let target = registered(&world.client, &world.library, "rows", "run_id")?;
    let calls = [(target.as_str(), "{}"); 2];
    let program = world.program(&calls, x.shape(), &scalar)?;
    let buffer = world.client.upload(&x)?;
    for id in [5, 77, 6] {
        let rets = program.launch().args([&buffer]).launch_id(id).run()?;
        for ret in rets {
            if ret.download()?.to_vec::<i64>() != Some(vec![id.into()]) {
                return wrong(format!("launch {id} has another run id"));
            }
        }
    }
    Ok(())
}

fn device_ordinal(world: &World) -> Done {
    match world.numbers("device_ordinal", &["f32[]=1"], "s32[]")?[..] {
        [0] => Ok(()),
        ref other => wrong(format!("the first device is {other:?}")),
    }
}

fn custom_options(world: &World) -> Done {
    match world.numbers("custom_options", &["f32[]=1"], "s64[]")?[..] {
        [0] => Ok(()),
        ref other => wrong(format!("an execution without options has {other:?}")),
    }
}

fn optional_parts(world: &World) -> Done {
    match world.numbers("optional_parts", &["f32[]=1"], "s64[3]")?[..] {
        [1, 1, 1] => Ok(()),
        ref other => wrong(format!("{other:?}")),
    }
}

#[derive(xla_ffi::HostType)]
struct Store {
    value: i64,
}

/// A handler of this program, because the libraries of the rows have no such handler.
#[xla_ffi::handler]
fn stored(store: UserData<Store>, mut y: Out<i64, 0>) -> xla_ffi::Result<()> {
    y.fill(store.value);
    Ok(())
}

xla_ffi::library! {
    name = "pjrt_rows";
    stored,
}

fn register_stored(world: &World) -> Done {
    let mut bundle = Bundle::default();
    for stage in Stage::ALL {
        if let Some(entry) = <stored as xla_ffi::__private::Handler>::ENTRIES[stage as usize] {
            // SAFETY: `library!` generates the entry, and this program is never unloaded.
            bundle = unsafe { bundle.with(stage, entry) };
        }
    }
    Ok(world.client.register("rows.stored", &bundle)?)
}

fn user_data(world: &World) -> Done {
    register_stored(world)?;
    let id = world
        .client
        .type_id(<Store as xla_ffi::HostType>::registration().name())?;
    let object = Store { value: 9 };
    let call = world.client.call("rows.stored").ret(shape("s64[]")?);
    // SAFETY: the object outlives the call.
    let rets = unsafe { call.user_data(id, (&raw const object).cast()) }.run()?;
    if number(&rets, 0) != 9 {
        return wrong(format!("expected 9, got {}", rets[0]));
    }
    // Without the object, the handler reports missing user data. On some plugins, XLA crashes if there is no execution
    // context.
    let none = world.client.call("rows.stored").ret(shape("s64[]")?).run();
    match none {
        Err(error) if error.to_string().contains("`store`") => Ok(()),
        other => wrong(format!("without the object: {other:?}")),
    }
}

fn itself(world: &World) -> Done {
    for _ in 0..2 {
        if let Err(error) = world.client.register_library(&world.library) {
            let text = error.to_string();
            if !(text.contains("custom_options: ") && text.contains("1 of ")) {
                return Err(error.into());
            }
        }
    }
    // In the C library and its C++ twin, a hand-written registration function puts the library's name before the
    // handler's name.
    let called = |target: &str| -> Done<Vec<Tensor>> {
        let call = world.client.call(target).arg(tensor("f32[2]=1,2")?);
        let call = call.attributes(&parsed("{factor = 2.0 : f32}")?);
        Ok(call.ret(shape("f32[2]")?).run()?)
    };
    let rets = called("scale").or_else(|_| called("conformance_c.scale"))?;
    match rets[0].to_vec::<f32>().as_deref() {
        Some([2.0, 4.0]) => Ok(()),
        other => wrong(format!("{other:?}")),
    }
}

fn threads(world: &World) -> Done {
    let x = tensor("f32[2]=1,2")?;
    let target = registered(&world.client, &world.library, "rows", "scale")?;
    let calls = [(target.as_str(), "{factor = 2.0 : f32}")];
    let program = world.program(&calls, x.shape(), x.shape())?;
    let right = || {
        (0..50).all(|_| {
            let rets = program.run(std::slice::from_ref(&x));
            rets.is_ok_and(|rets| rets[0].to_vec::<f32>() == Some(vec![2.0, 4.0]))
        })
    };
    let all = std::thread::scope(|scope| {
        let running: Vec<_> = (0..4).map(|_| scope.spawn(right)).collect();
        running.into_iter().all(|each| each.join().unwrap_or(false))
    });
    if all {
        Ok(())
    } else {
        wrong("a thread got another result".into())
    }
}

fn adapted(world: &World) -> Done {
    const ARGS: &[&str] = &["f32[128]=iota", "f32[2048]=iota"];
    let b = tensor(ARGS[0])?.to_vec::<f32>().unwrap_or_default();
    let c = tensor(ARGS[1])?.to_vec::<f32>().unwrap_or_default();
    for (name, attrs, more) in [
        ("tiled_add_cpu_ffi", "{}", 0.0),
        ("tiled_add_status_ffi", "{}", 0.0),
        ("tiled_add_unified_ffi", "{opaque = \"12\"}", 12.0),
    ] {
        let rets = world.run(
            &world.legacy,
            name,
            attrs,
            ARGS,
            &["f32[2048]"],
            &Value::Null,
        )?;
        let got = rets[0].to_vec::<f32>().unwrap_or_default();
        let right = |(i, got): (usize, &f32)| *got == b[i % 128] + c[i] + more;
        if got.len() != 2048 || !got.iter().enumerate().all(right) {
            return wrong(format!("{name} gave {}", rets[0]));
        }
    }
    Ok(())
}

fn adapted_failure(world: &World) -> Done {
    let args = ["f32[128]=iota", "f32[2048]=iota"];
    let attrs = "{opaque = \"one\"}";
    let rets = ["f32[2048]"];
    let name = "tiled_add_unified_ffi";
    match world.run(&world.legacy, name, attrs, &args, &rets, &Value::Null) {
        Err(Not::Wrong(text)) if text.contains("one") => Ok(()),
        Err(other) => Err(other),
        Ok(_) => wrong("no error".into()),
    }
}

fn original(_: &World) -> Done {
    Err(Not::Absent(
        "PJRT has no function by which a target of the original custom calls could be registered"
            .into(),
    ))
}

/// Calls a handler that requests user data, in an execution without a context.
fn without_context(world: &World) -> Done {
    register_stored(world)?;
    let scalar = shape("s64[]")?;
    let call = world.client.call("rows.stored").ret(scalar);
    let program = call.program()?.to_stablehlo()?;
    match unguarded::run_without_context(&world.client.compile(program)?) {
        Err(error) if error.to_string().contains("`store`") => Ok(()),
        other => wrong(format!("without a context: {other:?}")),
    }
}

/// A handler that does not answer the metadata query, so every XLA rejects the handler.
unsafe extern "C" fn silent(_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    std::ptr::null_mut()
}

/// Checks that the plugin's own function reports that XLA rejects a handler.
fn refusal_is_reported(world: &World) -> Done {
    // SAFETY: the handler is a function of this program that accepts any frame.
    if unsafe { unguarded::register(&world.client, "rows.silent", silent) }.is_err() {
        return Ok(());
    }
    match world.client.call("rows.silent").ret(shape("f32[]")?).run() {
        Err(error) if error.to_string().contains("rows.silent") => Err(Not::Absent(
            "PJRT_FFI_Register_Handler answers success where XLA refused the handler".into(),
        )),
        other => wrong(format!("a handler without a version: {other:?}")),
    }
}

type Row = fn(&World) -> Done;

/// Rows for behaviour of plugins that `xla_ffi_programs::pjrt` does not guard against. This behaviour does not depend
/// on the library.
const OF_PLUGINS: [(&str, Row); 2] = [
    ("plugin: user data without a context", without_context),
    ("plugin: a refused handler is reported", refusal_is_reported),
];

const OWN: [(&str, Row); 15] = [
    ("state", state),
    ("the same state type in two libraries", twins),
    ("two libraries at once", two_libraries),
    ("async: completed later by another thread", later),
    ("thread pool size", pool_size),
    ("run id", run_id),
    ("device ordinal", device_ordinal),
    ("custom options", custom_options),
    ("optional context parts", optional_parts),
    ("user data", user_data),
    ("a library that registers itself", itself),
    ("calls from several threads", threads),
    ("original custom calls", original),
    ("adapted custom calls: results", adapted),
    (
        "adapted custom calls: a failure reaches the caller",
        adapted_failure,
    ),
];

/// The command-line arguments.
struct Given {
    plugin: String,
    rows: Vec<Value>,
    libraries: Vec<(String, [String; 3])>,
    row: Option<String>,
}

fn given() -> Option<Given> {
    let mut arguments = std::env::args().skip(1);
    let plugin = arguments.next()?;
    let text = std::fs::read_to_string(arguments.next()?).ok()?;
    let rows: Value = serde_json::from_str(&text).ok()?;
    let (mut which, mut row) = (0, None);
    let mut found: [Vec<(String, String)>; 3] = Default::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--twin" => which = 1,
            "--legacy" => which = 2,
            "--row" => row = arguments.next(),
            pair => {
                let (kind, path) = pair.split_once('=')?;
                found[which].push((kind.to_owned(), path.to_owned()));
                which = 0;
            }
        }
    }
    let of = |which: usize, kind: &str| {
        let list: &[(String, String)] = &found[which];
        list.iter()
            .find(|(known, _)| known == kind)
            .map(|(_, path)| path.clone())
    };
    let libraries = found[0]
        .iter()
        .map(|(kind, path)| Some((kind.clone(), [path.clone(), of(1, kind)?, of(2, kind)?])))
        .collect::<Option<Vec<_>>>()?;
    Some(Given {
        plugin,
        rows: rows.as_array()?.clone(),
        libraries,
        row,
    })
}

/// Runs one row in this process.
fn one(given: &Given, paths: &[String; 3], row: &str) -> Done {
    let world = World::new(&given.plugin, [&paths[0], &paths[1], &paths[2]])?;
    if let Some((_, own)) = OWN.iter().chain(&OF_PLUGINS).find(|(name, _)| *name == row) {
        return own(&world);
    }
    let listed = given.rows.iter().find(|listed| listed["row"] == row);
    let Some(calls) = listed.and_then(|listed| listed["calls"].as_array()) else {
        return wrong(format!("there is no row {row:?}"));
    };
    calls.iter().try_for_each(|call| world.call(call))
}

/// Runs one row in a separate process, and returns the cell and the cell's message.
fn isolated(kind: &str, row: &str) -> (String, String) {
    let failed = |why: String| ("FAIL".to_owned(), why);
    let Ok(own) = std::env::current_exe() else {
        return failed("this program is gone".into());
    };
    // The kind is passed in the environment because all processes get the same arguments.
    let child = Command::new(own)
        .args(std::env::args_os().skip(1))
        .args(["--row", row])
        .env(KIND, kind)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        return failed("no child process".into());
    };
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            return failed(format!("no result within {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let Ok(output) = child.wait_with_output() else {
        return failed("the child's output is gone".into());
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().next_back().unwrap_or_default();
    match last.split_once('\t') {
        Some((cell, message)) => (cell.to_owned(), message.to_owned()),
        None => failed(format!("crash, {}", output.status)),
    }
}

fn main() -> ExitCode {
    let Some(given) = given() else {
        eprintln!(
            "usage: pjrt_rows PLUGIN ROWS KIND=LIBRARY… --twin KIND=LIBRARY… --legacy KIND=LIBRARY… [--row NAME]"
        );
        return ExitCode::from(2);
    };
    if let (Some(row), Ok(kind)) = (&given.row, std::env::var(KIND)) {
        let Some((_, paths)) = given.libraries.iter().find(|(known, _)| *known == kind) else {
            return ExitCode::from(2);
        };
        let (cell, text) = match one(&given, paths, row) {
            Ok(()) => ("ok", String::new()),
            Err(Not::Absent(text)) => ("absent", text),
            Err(Not::Moot(text)) => ("moot", text),
            Err(Not::Wrong(text)) => ("FAIL", text),
        };
        println!("{cell}\t{}", text.replace(['\n', '\t'], " "));
        return ExitCode::SUCCESS;
    }
    let listed = || given.rows.iter().filter_map(|row| row["row"].as_str());
    for (kind, _) in &given.libraries {
        let of_plugins: &[(&str, Row)] = if kind == "rust" { &OF_PLUGINS } else { &[] };
        let own = OWN.iter().chain(of_plugins).map(|(name, _)| *name);
        let rows: Vec<&str> = match &given.row {
            Some(row) => vec![row],
            None => listed().chain(own).collect(),
        };
        for row in &rows {
            let (cell, message) = isolated(kind, row);
            println!(
                "{}",
                json!({"library": kind, "feature": row, "cell": cell, "message": message})
            );
        }
    }
    ExitCode::SUCCESS
}
