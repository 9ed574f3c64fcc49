//! Tests the device conventions in C and C++, with bare and with adapted targets, on emulated streams that are threads.

use crate::Example;
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use xla_ffi_runtime::legacy::{ApiVersion, Invocation, TupleForm};
use xla_ffi_runtime::{
    Attributes, CpuDevice, CpuStream, DType, DeviceStream, Library, Result, Revision, Runtime,
    Shape, Stage, Tensor, Tree,
};
use xla_ffi_testing::skip;

type Task = unsafe extern "C" fn(*mut c_void);

struct Work(Task, usize);

impl Work {
    fn run(self) {
        // SAFETY: the library passed this function together with its data.
        unsafe { (self.0)(self.1 as *mut c_void) };
    }
}

unsafe extern "C" fn enqueue(stream: *mut c_void, task: Task, data: *mut c_void) {
    let work = Work(task, data as usize);
    let stream = CpuStream::from_handle(stream).expect("a CPU stream");
    stream.enqueue(Box::new(move || work.run()));
}

/// Builds `device.c` as C and as C++.
fn libraries(test: &str) -> Vec<(&'static str, PathBuf)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/legacy/device.c");
    let mut built = vec![];
    for (language, compiler, flags, file) in [
        (
            "C",
            option_env!("C_COMPILER"),
            &["-std=gnu99"][..],
            "liblegacy_device_c.so",
        ),
        (
            "C++",
            option_env!("CPP_COMPILER"),
            &["-x", "c++", "-std=c++17"],
            "liblegacy_device_cpp.so",
        ),
    ] {
        let Some(compiler) = compiler else {
            skip(
                test,
                &format!("no {language} compiler when the tests were built"),
            );
            continue;
        };
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}_{file}"));
        let output = Command::new(compiler)
            .args(flags)
            .args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden"])
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror"])
            .args(["-I", env!("SDK_INCLUDE_DIR")])
            .arg(&source)
            .arg("-o")
            .arg(&library)
            .args(["-pthread", "-ldl"])
            .output()
            .expect("the compiler was found");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{language}: {text}");
        built.push((language, library));
    }
    built
}

fn open(runtime: &Runtime, path: &Path) -> Library {
    let library = runtime.open(path).expect("it loads");
    let address = library.symbol("use_enqueue").expect("exported");
    type Use = unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void, Task, *mut c_void));
    // SAFETY: the library exports a function of this type.
    let function = unsafe { std::mem::transmute::<*mut c_void, Use>(address) };
    // SAFETY: the library's function only stores the address, and `enqueue` is never unloaded.
    unsafe { function(enqueue) };
    library
}

#[test]
fn bare_targets() {
    for (language, path) in libraries("bare_targets") {
        let runtime = Runtime::default();
        let library = open(&runtime, &path);
        assert_eq!(library.register_legacy().expect("registered"), 5);
        let device = CpuDevice::new().expect("a device");
        for (name, version) in [
            ("add_gpu", ApiVersion::Original),
            ("add_gpu_status", ApiVersion::StatusReturning),
            ("add_gpu_status", ApiVersion::StatusReturningUnified),
        ] {
            let target = runtime.find_legacy(name, "CUDA", version);
            // In C, a target's type does not determine its convention.
            let target = target.expect(name);
            let mut example = Example::new(1.0);
            let stream = device.stream.stream();
            example.run(&target, b"7", Some(stream)).expect(name);
            example.check(7.0, &format!("{language} {name}"));
        }
        let target = runtime.find_legacy("add_gpu_status", "CUDA", ApiVersion::StatusReturning);
        let target = target.expect("registered");
        let error = Example::new(1.0).run(&target, b"77", Some(device.stream.stream()));
        assert_eq!(error.expect_err("it fails").message(), "one digit, please");
        let nodes = [false, true].map(|null_inputs| TupleForm::DeviceNodes { null_inputs });
        for (name, form) in [
            ("add_nodes", nodes[0]),
            ("add_nodes", nodes[1]),
            ("add_list_nodes", nodes[0]),
            ("add_list_nodes", nodes[1]),
            ("add_list_leaves", TupleForm::DeviceLeaves),
        ] {
            let target = runtime.find_legacy(name, "CUDA", ApiVersion::StatusReturning);
            let target = target.expect("registered");
            let mut example = Example::new(1.0);
            let [b, c, a] = example.pointers();
            let mut more = vec![0.0_f32; 2048];
            let operands = [Tree::tuple([b, c].map(Tree::Leaf))];
            let inner = Tree::tuple([Tree::Leaf(more.as_mut_ptr().cast())]);
            let result = Tree::tuple([Tree::Leaf(a), inner]);
            let call = Invocation::new(&target, &operands, &result)
                .form(form)
                .stream(device.stream.stream());
            // SAFETY: the buffers outlive the call.
            unsafe { call.run() }.expect("the roots are written");
            example.check(0.0, &format!("{language} {name} {form:?}"));
            assert!(
                more.iter()
                    .zip(&example.a)
                    .all(|(more, a)| *more == a + 1.0)
            );
        }
    }
}

/// Returns a function that a library exports.
fn function<F: Copy>(library: &Library, name: &str) -> F {
    let address = library.symbol(name).expect("exported");
    assert_eq!(size_of::<F>(), size_of_val(&address));
    // SAFETY: the caller specifies the type that the library's source declares.
    unsafe { std::mem::transmute_copy(&address) }
}

#[test]
fn structures() {
    type Read = unsafe extern "C" fn(*const c_char, i32, *mut [usize; 3]) -> i32;
    for (language, path) in libraries("structures") {
        let runtime = Runtime::default();
        let library = open(&runtime, &path);
        let read: Read = function(&library, "read_structure");
        let counts = |text: &str, nodes: bool| {
            let text = CString::new(text).expect("no NUL");
            let mut counts = [0; 3];
            // SAFETY: the text is NUL-terminated, and there is room for three counts.
            let answer = unsafe { read(text.as_ptr(), i32::from(nodes), &raw mut counts) };
            (answer, counts)
        };
        for (text, wanted) in [
            ("_ -> _", [1, 1, 0]),
            ("-> _", [0, 1, 0]),
            (" ( _ , ( _ ) ) , _ -> ( _ , ( ) , _ ) ", [3, 2, 2]),
            ("((((_)))) -> (((_)))", [1, 1, 3]),
        ] {
            assert_eq!(counts(text, true), (0, wanted), "{language}: {text}");
            let [args, rets, _] = wanted;
            assert_eq!(
                counts(text, false),
                (0, [args, rets, 0]),
                "{language}: {text}"
            );
        }
        let deep = format!("{}_{} -> _", "(".repeat(33), ")".repeat(33));
        for text in [
            "_",
            "->",
            "_, -> _",
            "(_ -> _",
            "(_, ) -> _",
            "_ -> (_",
            &deep,
        ] {
            let (answer, _) = counts(text, true);
            assert_eq!(answer, -1, "{language}: {text:?} is taken for a structure");
        }
    }
}

/// A caller of the host-memory pool waits only for a free slot, not for the stream.
///
/// While the stream is blocked, as many calls return as there are slots. After the stream resumes, no further slots are
/// allocated.
#[test]
fn the_pool_does_not_wait_for_the_stream() {
    type Write = unsafe extern "C" fn(*mut c_void, *mut [usize; 2], usize, usize) -> i32;
    type Count = unsafe extern "C" fn() -> i32;
    for (language, path) in libraries("the_pool_does_not_wait_for_the_stream") {
        let runtime = Runtime::default();
        let library = open(&runtime, &path);
        let write: Write = function(&library, "write_pair");
        let count = |name: &str| {
            let count: Count = function(&library, name);
            // SAFETY: the function only reads a number.
            unsafe { count() }
        };
        let device = CpuDevice::new().expect("a device");
        let (go, gate) = mpsc::channel::<()>();
        device.stream.enqueue(Box::new(move || {
            let _ = gate.recv();
        }));
        let mut tables = [[0_usize; 2]; 4];
        let stream = device.stream.handle() as usize;
        let put = |table: usize, number: usize| {
            // SAFETY: the tables outlive the work on the stream.
            unsafe { write(stream as *mut c_void, table as *mut _, number, 10 * number) }
        };
        let places = tables.each_mut().map(|table| &raw mut *table as usize);
        for (place, number) in places.into_iter().zip(1..=3) {
            assert_eq!(put(place, number), 0, "{language}");
        }
        std::thread::scope(|scope| {
            let late = scope.spawn(|| put(places[3], 4));
            assert_eq!(
                count("events_recorded"),
                3,
                "{language}: the fourth has to wait"
            );
            go.send(()).expect("the stream waits");
            assert_eq!(late.join().expect("it returns"), 0, "{language}");
        });
        device.stream.synchronize().unwrap();
        assert_eq!(tables, [1, 2, 3, 4].map(|n| [n, 10 * n]), "{language}");
        assert_eq!(
            (count("events_made"), count("events_recorded")),
            (3, 4),
            "{language}"
        );
    }
}

/// Calls an adapted function on a device.
fn call(
    library: &Library,
    device: Option<&CpuDevice>,
    symbol: &str,
    attributes: &str,
    rets: usize,
) -> Result<Vec<Vec<f32>>> {
    let handler = library.handler(symbol, &[(Stage::Execute, symbol)])?;
    let b: Vec<f32> = (0..128_u8).map(f32::from).collect();
    let c: Vec<f32> = (0..2048_u16).map(|i| 0.5 * f32::from(i)).collect();
    let mut call = handler
        .instantiate(&Attributes::parse(attributes)?)?
        .call()
        .arg(Tensor::from_slice([128], &b)?)
        .arg(Tensor::from_slice([2048], &c)?);
    for _ in 0..rets {
        call = call.ret(Shape::new(DType::F32, [2048])?);
    }
    if let Some(device) = device {
        call = call.on_device(device);
    }
    let outcome = call.run()?;
    Ok(outcome
        .rets
        .iter()
        .map(|ret| ret.to_vec().expect("f32"))
        .collect())
}

fn expected(more: f32) -> Vec<f32> {
    (0..2048_u16)
        .map(|i| f32::from(i % 128) + 0.5 * f32::from(i) + more)
        .collect()
}

#[test]
fn adapted_targets() {
    for (language, path) in libraries("adapted_targets") {
        for revision in Revision::ALL {
            let runtime = Runtime::new(revision);
            let library = open(&runtime, &path);
            let device = CpuDevice::new().expect("a device");
            let on_device =
                |symbol, attributes, rets| call(&library, Some(&device), symbol, attributes, rets);
            let context = format!("{language} {revision}");
            for (symbol, attributes, more) in [
                ("add_gpu_ffi", "{opaque = \"\"}", 0.0),
                ("add_gpu_ffi", "{opaque = \"4\"}", 4.0),
                ("add_gpu_status_ffi", "{opaque = \"5\"}", 5.0),
                ("add_described_ffi", "{}", 1.0),
            ] {
                let got = on_device(symbol, attributes, 1);
                let got = got.unwrap_or_else(|error| panic!("{context} {symbol}: {error}"));
                assert_eq!(got[0], expected(more), "{context} {symbol}");
            }
            let got = on_device("add_nodes_ffi", "{}", 2);
            let got = got.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(got[0], expected(0.0), "{context}");
            assert_eq!(got[1], expected(1.0), "{context}");
            let fails = |outcome: Result<Vec<Vec<f32>>>, part: &str| {
                let error = outcome.expect_err("it fails");
                assert!(error.message().contains(part), "{context}: {error}");
            };
            fails(
                on_device("add_gpu_status_ffi", "{opaque = \"\"}", 1),
                "one digit, please",
            );
            fails(on_device("add_no_copy_ffi", "{}", 2), "`copy` function");
            fails(on_device("add_nodes_ffi", "{}", 3), "3 results");
            fails(
                call(&library, None, "add_gpu_ffi", "{opaque = \"\"}", 1),
                "no stream",
            );
            device.stream.synchronize().unwrap();
            assert_eq!(device.allocator.living(), 0, "{context}");
            std::mem::forget(runtime);
        }
    }
}
