//! Tests the embedded runtime in a program that links its handlers, with `xla-ffi` as its only
//! dependency.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use xla_ffi::prelude::*;
use xla_ffi::{
    ErrorCode, Revision,
    embed::{self, Attributes, DType, Runtime, Shape, Stage, Tensor, abi::CallFrame},
};

#[derive(xla_ffi::HostType)]
struct Store {
    scale: i64,
    dropped: Arc<AtomicUsize>,
}

impl Store {
    fn of(scale: i64) -> Self {
        let dropped = Arc::default();
        Self { scale, dropped }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[xla_ffi::handler]
fn scaled(x: Buffer<i64, 1>, mut y: Out<i64, 1>, store: Option<UserData<Store>>) -> Result<()> {
    let scale = store.map_or(-1, |store| store.scale);
    y.write_with(|i| scale * x[i]);
    Ok(())
}
embed::register_handler!("tests.scaled", "Host", scaled);

#[derive(xla_ffi::HostType)]
#[host_type(unsafe(name = "tests.Limit", id = 4242))]
struct Limit(i64);

#[xla_ffi::handler]
fn limited(limit: UserData<Limit>, mut y: Out<i64, 1>) -> Result<()> {
    y.fill(limit.0);
    Ok(())
}
embed::register_handler!("tests.limited", "Host", limited);

fn shape(dims: &[i64]) -> Shape {
    Shape::new(DType::S64, dims).expect("a shape")
}

fn call(runtime: &Runtime) -> embed::Call {
    let handler = runtime.find("tests.scaled", "cpu").expect("registered");
    let executable = handler.instantiate(&Attributes::new()).expect("no state");
    let x = Tensor::from_slice([2], &[1_i64, 2]).expect("a tensor");
    executable.call().arg(x).ret(shape(&[2]))
}

fn answer(call: embed::Call) -> Vec<i64> {
    let outcome = call.run().expect("it runs");
    outcome.rets[0].to_vec().expect("numbers")
}

/// The program chooses the id of a type.
#[test]
fn user_data_with_an_id() {
    let runtime = Runtime::default();
    runtime.register_static().expect("it registers");
    let data = embed::UserData::new(&runtime).with(Limit(3)).expect("new");
    let handler = runtime.find("tests.limited", "cpu").expect("registered");
    let executable = handler.instantiate(&Attributes::new()).expect("no state");
    let call = executable.call().user_data(data).ret(shape(&[1]));
    assert_eq!(answer(call), [3]);
}

#[test]
fn user_data_is_made_before_or_after_registration() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let store = Store::of(5);
        let dropped = store.dropped.clone();
        let before = embed::UserData::new(&runtime).with(store).expect("new");
        runtime.register_static().expect("it registers");
        let after = embed::UserData::new(&runtime)
            .with(Store::of(7))
            .expect("known");
        let data = |data: &embed::UserData| answer(call(&runtime).user_data(data.clone()));
        assert_eq!(data(&before), [5, 10], "{revision}");
        assert_eq!(data(&after), [7, 14], "{revision}");
        assert_eq!(answer(call(&runtime)), [-1, -2], "{revision}");
        // Objects can also be added after the handler has registered the type.
        let late = embed::UserData::new(&runtime).with(Store::of(8));
        assert_eq!(data(&late.expect("known")), [8, 16], "{revision}");
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(before);
        assert_eq!(dropped.load(Ordering::SeqCst), 1, "{revision}");
    }
}

#[test]
fn a_second_object_of_a_type_is_refused_and_dropped() {
    let runtime = Runtime::default();
    let data = embed::UserData::new(&runtime)
        .with(Store::of(1))
        .expect("one");
    let clone = data.clone();
    let shared = data.with(Store::of(2)).expect_err("there is a clone");
    assert_eq!(shared.code(), ErrorCode::FailedPrecondition);
    let store = Store::of(3);
    let dropped = store.dropped.clone();
    let twice = clone.with(store).expect_err("a second one");
    assert_eq!(twice.code(), ErrorCode::AlreadyExists);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn user_data_of_another_runtime_is_refused() {
    let (one, two) = (Runtime::default(), Runtime::default());
    one.register_static().expect("it registers");
    let data = embed::UserData::new(&two)
        .with(Store::of(5))
        .expect("an object");
    let error = call(&one).user_data(data).run().expect_err("of another");
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.message().contains("another runtime"), "{error}");
}

#[test]
fn new_pointers_for_each_call_need_one_dependency() {
    let runtime = Runtime::new(Revision::R9);
    runtime.register_static().expect("it registers");
    let executable = runtime
        .find("tests.scaled", "cpu")
        .and_then(|handler| handler.instantiate(&Attributes::new()))
        .expect("no state");
    let (mut x, mut y) = ([3_i64, 4], [0_i64; 2]);
    let frame = CallFrame::new(
        runtime.revision(),
        &[(shape(&[2]), x.as_mut_ptr().cast())],
        &[(shape(&[2]), y.as_mut_ptr().cast())],
    );
    // SAFETY: the two arrays have two elements each and outlive the call.
    let call = unsafe { executable.call().prepare_on(frame.expect("two shapes")) };
    let mut call = call.expect("it lays out");
    call.invoke().expect("it runs");
    assert_eq!(y, [-3, -4]);
    let mut z = [0_i64; 2];
    // SAFETY: the two arrays have two elements each and outlive the call.
    unsafe { call.update(&[y.as_mut_ptr().cast()], &[z.as_mut_ptr().cast()]) }.expect("one each");
    call.invoke().expect("it runs");
    assert_eq!(z, [3, 4]);
}

#[test]
fn a_prepared_call_takes_another_context_and_other_shapes() {
    let runtime = Runtime::default();
    runtime.register_static().expect("it registers");
    let executable = runtime
        .find("tests.scaled", "cpu")
        .and_then(|handler| handler.instantiate(&Attributes::new()))
        .expect("no state");
    let x = |numbers: &[i64]| Tensor::from_slice([numbers.len() as i64], numbers).expect("memory");
    let mut prepared = executable
        .call()
        .arg(x(&[1, 2]))
        .ret(shape(&[2]))
        .prepare()
        .expect("it lays out");
    prepared.invoke().expect("it runs");
    let data = embed::UserData::new(&runtime).with(Store::of(4));
    let mut settings = prepared.settings().expect("not open");
    settings
        .user_data(data.expect("an object"))
        .expect("of this runtime");
    prepared.invoke().expect("it runs");
    let bytes = |numbers: &[i64]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect()
    };
    assert_eq!(prepared.ret_bytes(0).expect("a result"), bytes(&[4, 8]));
    prepared
        .set_operands([x(&[1, 2, 3])], [shape(&[3])])
        .expect("other shapes");
    prepared.invoke().expect("it runs");
    assert_eq!(prepared.ret_bytes(0).expect("a result"), bytes(&[4, 8, 12]));
    prepared.settings().expect("not open").run_id(2);
    prepared.invoke().expect("it runs");
    assert_eq!(prepared.ret_bytes(0).expect("a result"), bytes(&[4, 8, 12]));
    assert!(prepared.set_args([x(&[1])]).is_err());
    let stranger = Runtime::default();
    let data = embed::UserData::new(&stranger).with(Store::of(4));
    let mut settings = prepared.settings().expect("not open");
    let error = settings.user_data(data.expect("an object"));
    assert_eq!(
        error.expect_err("of another runtime").code(),
        ErrorCode::InvalidArgument
    );
}

/// Returns the path of the library from `tests/images/another.rs`.
fn another_image() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = tmp.parent().expect("the target folder");
    let built = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--offline", "--package", "xla-ffi"])
        .args(["--example", "another_image", "--target-dir"])
        .arg(target)
        .status()
        .expect("cargo starts");
    assert!(built.success());
    target.join("debug/examples/libanother_image.so")
}

#[test]
fn a_handler_of_another_image_is_refused_when_it_is_registered() {
    let library = another_image();
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let library = runtime.open(&library).expect("it loads");
        let handler = |name: &str| {
            let symbol = format!("another_image__{name}");
            library.handler(name, &[(Stage::Execute, symbol.as_str())])
        };
        for name in ["outsider", "renamed_scale", "also_listed"] {
            let outsider = handler(name).expect("it uses the external API");
            assert_eq!(outsider.name(), name);
        }
        let error = match handler("insider") {
            Err(error) => error,
            // r0 has no metadata query, so only the call itself is rejected.
            Ok(handler) if revision == Revision::R0 => {
                let executable = handler.instantiate(&Attributes::new());
                let call = executable.expect("no state").call().ret(shape(&[]));
                let error = call.run().expect_err("of another image");
                assert_eq!(error.code(), ErrorCode::Internal, "{error}");
                continue;
            }
            Ok(_) => panic!("accepted on {revision}"),
        };
        if revision < Revision::R7 {
            // The host passes no function table, so the handler cannot create an error.
            assert!(error.message().contains("not answered"), "{error}");
            continue;
        }
        assert_eq!(
            error.code(),
            ErrorCode::FailedPrecondition,
            "{revision}: {error}"
        );
        assert!(error.message().contains("embedded runtime"), "{error}");
    }
}

/// Two images of the same source may differ in layout if only one image is rebuilt. Neither image reads the objects
/// of the other image.
#[test]
fn a_derived_type_is_known_within_one_image() {
    let library = another_image();
    let copy = library.with_file_name("libanother_image_copy.so");
    std::fs::copy(&library, &copy).expect("a copy");
    let [first, second] = [library, copy].map(|path| {
        // SAFETY: the library belongs to these tests, and its initializers do nothing.
        let library = unsafe { libloading::Library::new(path) }.expect("it loads");
        // SAFETY: the library exports the function with this type.
        let name =
            unsafe { library.get::<extern "C" fn() -> *const std::ffi::c_char>(b"session_name") };
        // SAFETY: the function returns a C string that is never freed.
        let name = unsafe { std::ffi::CStr::from_ptr(name.expect("exported")()) }.to_owned();
        std::mem::forget(library);
        name
    });
    assert_ne!(first, second);
}
