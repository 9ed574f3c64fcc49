//! Tests how XLA treats handlers of this program: user data, failures, donation, threads, limits.

use crate::client;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use xla_ffi::{Later, prelude::*};
use xla_ffi_programs::pjrt::{self, Client, Plugin};
use xla_ffi_programs::{Builder, CustomCall, ValueShape};
use xla_ffi_runtime::{Bundle, DType, ErrorCode, Shape, Stage, Tensor};
use xla_ffi_testing::plugin;

#[derive(xla_ffi::HostType)]
struct Store {
    value: i64,
}

#[derive(xla_ffi::HostType)]
// SAFETY: no other type in these tests has this name or number.
#[host_type(unsafe(name = "pjrt.chosen", id = 4242))]
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
    y.copy_from_bytes(x.bytes())
}

#[xla_ffi::handler]
fn never(_x: Buffer<f32>, y: Out<f32>, later: Later) -> xla_ffi::Result<()> {
    let promise = later.promise(y);
    std::mem::forget(promise);
    Ok(())
}

xla_ffi::library! {
    name = "pjrt";
    stored, chosen, refuse, count, copy, never,
}

/// Registers a handler of this program under its own name and returns that name.
fn registered<H: xla_ffi::__private::Handler>(client: &Client, name: &str) -> String {
    let mut bundle = Bundle::default();
    for stage in Stage::ALL {
        if let Some(entry) = H::ENTRIES[stage as usize] {
            // SAFETY: `library!` generates the entry, and this program is never unloaded.
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

/// Returns the values of a buffer.
fn values(buffer: &pjrt::Buffer) -> Vec<f32> {
    buffer.download().unwrap().to_vec().unwrap()
}

/// Returns a program of one call on two numbers; `donated` is the attribute of its argument.
fn program(target: &str, donated: &str) -> String {
    format!(
        "func.func @main(%x: tensor<2xf32>{donated}) -> tensor<2xf32> {{\n\
         %y = stablehlo.custom_call @{target}(%x) {{api_version = 4 : i32}} : \
         (tensor<2xf32>) -> tensor<2xf32>\n return %y : tensor<2xf32>\n}}"
    )
}

/// User data works with a type id that the library chose, and with a type id that XLA assigned.
#[test]
fn user_data() {
    let Some(client) = client("pjrt.user_data") else {
        return;
    };
    let scalar = Shape::new(DType::S64, []).unwrap();
    let chosen = registered::<chosen>(&client, "chosen");
    let info = xla_ffi_runtime::TypeInfo::default();
    // SAFETY: `chosen` declares this type.
    unsafe { client.register_type("pjrt.chosen", 4242, info) }.unwrap();
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
    let name = <Store as xla_ffi::HostType>::registration().name();
    let id = client.type_id(name).unwrap();
    assert_eq!(client.type_id(name).unwrap(), id);
    let object = Store { value: 9 };
    // SAFETY: the object outlives the call.
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
}

/// If the first call fails, the second call, which reads the first result, does not run, and there are no results.
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
        let call = CustomCall::ffi(first, [x], shape.clone()).with_side_effect();
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
        assert_eq!(error.code(), ErrorCode::DataLoss);
        assert_eq!(
            error.message(),
            "refuse (execute): the first call failed \u{e9}\n, whole"
        );
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 2, "the second call ran");
    // The client and the other program still work.
    assert!(works.run(&[f32s(&[1.0, 2.0])]).is_ok());
}

/// Every element type of PJRT is transferred to the device and back without a changed bit.
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
            // The bits after the last packed element are undefined.
            let behind = shape.bytes() * 8 - shape.elements() * dtype.bits();
            if let Some(last) = bytes.last_mut() {
                *last &= 0xFF >> behind;
            }
            let x = Tensor::from_bytes(shape.clone(), &bytes).unwrap();
            match client.upload(&x) {
                Err(error) => {
                    assert_eq!(error.code(), ErrorCode::Unimplemented, "{shape}: {error}");
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

/// A donated argument is consumed; an argument that is not donated remains valid.
#[test]
fn donation() {
    let Some(client) = client("pjrt.donation") else {
        return;
    };
    let count = registered::<count>(&client, "count");
    let compile = |donated| client.compile(program(&count, donated)).unwrap();
    let (keeps, takes) = (compile(""), compile(" {tf.aliasing_output = 0 : i32}"));
    let x = client.upload(&f32s(&[1.0, 2.0])).unwrap();
    for _ in 0..1000 {
        let y = keeps.launch().args([&x]).run().unwrap();
        assert_eq!(values(&y[0]), [2.0, 3.0]);
    }
    assert_eq!(values(&x), [1.0, 2.0]);
    let y = takes.launch().args([&x]).run().unwrap();
    assert_eq!(values(&y[0]), [2.0, 3.0]);
    let error = keeps.launch().args([&x]).run().unwrap_err();
    assert!(error.message().contains("deleted or donated"), "{error}");
    assert!(x.download().is_err());
}

/// Tests two clients, threads that share a program, and objects that are destroyed in any order.
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
    let text = program(&copied, "");
    let (first, second) = (one.compile(&text).unwrap(), other.compile(&text).unwrap());
    drop((one, plugin));
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (first, second) = (&first, &second);
            scope.spawn(move || {
                for program in [first, second].into_iter().cycle().take(50) {
                    let x = f32s(&[f32::from(thread), 2.0]);
                    assert_eq!(
                        program.run(std::slice::from_ref(&x)).unwrap()[0].bytes(),
                        x.bytes()
                    );
                }
            });
        }
    });
    // A result keeps its client alive.
    let x = other.upload(&f32s(&[1.0, 2.0])).unwrap();
    let kept = second.launch().args([&x]).run().unwrap();
    drop((x, second, other));
    assert_eq!(values(&kept[0]), [1.0, 2.0]);
}

#[test]
fn a_call_that_does_not_return() {
    let Some(client) = client("pjrt.a_call_that_does_not_return") else {
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
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// Errors of the compiler and of the plugin are reported to the caller completely.
#[test]
fn refusals() {
    let Some(client) = client("pjrt.refusals") else {
        return;
    };
    let error = client.compile("func.func @main(%x: tensor<").unwrap_err();
    assert!(error.message().contains("expected"), "{error}");
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
    let execute = <count as xla_ffi::__private::Handler>::ENTRIES[3].unwrap();
    // SAFETY: the entry belongs to a handler of this program, which is never unloaded.
    let other = unsafe { Bundle::default().with(Stage::Execute, execute) };
    let error = client.register(&copy, &other).unwrap_err();
    // If a name is taken, the error names the host and the handler.
    let message = error.message();
    assert!(
        message.starts_with("PJRT plugin ") && message.contains(": handler 'pjrt.copy': Duplicate"),
        "{error}"
    );
    // SAFETY: the entry belongs to a handler of this program, which is never unloaded.
    let recorded = unsafe { other.with(Stage::Record, execute) };
    let error = client.register("pjrt.recorded", &recorded).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
}
