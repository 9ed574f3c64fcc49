//! Tests of legacy targets on the embedded runtime: signatures, tuple forms, and the registry.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;
use xla_ffi_runtime::legacy::{ApiVersion, Function, Invocation, Signature, Target, TupleForm};
use xla_ffi_runtime::{
    Bundle, CpuDevice, CpuStream, DeviceStream, Error, ErrorCode, Hazard, Runtime, Tree,
};
use xla_ffi_sys::{XlaCustomCallStatus, XlaFfiLegacyStatus};

/// A buffer of floats for an operand of a target.
struct Buffer(Vec<f32>);

impl Buffer {
    fn new(values: impl IntoIterator<Item = f32>) -> Self {
        Self(values.into_iter().collect())
    }

    fn at(&mut self) -> Tree<*mut c_void> {
        Tree::Leaf(self.0.as_mut_ptr().cast())
    }
}

/// Computes `a[i] = b[i % 128] + c[i]` for 2048 elements.
unsafe fn add(a: *mut c_void, b: *const c_void, c: *const c_void) {
    for i in 0..2048 {
        // SAFETY: `b` has 128 elements.
        let b = unsafe { element(b.cast::<f32>(), i % 128) };
        // SAFETY: `c` has 2048 elements.
        let c = unsafe { element(c.cast::<f32>(), i) };
        // SAFETY: `a` has 2048 elements.
        unsafe { a.cast::<f32>().wrapping_add(i).write(b + c) };
    }
}

unsafe fn element<T: Copy>(list: *const T, index: usize) -> T {
    // SAFETY: the list of the caller is longer than `index`.
    unsafe { list.wrapping_add(index).read() }
}

unsafe extern "C" fn cpu(out: *mut c_void, ins: *mut *const c_void) {
    // SAFETY: the target has two operands.
    let [b, c] = [0, 1].map(|i| unsafe { element(ins, i) });
    // SAFETY: the target is called with the operands of `add`.
    unsafe { add(out, b, c) };
}

/// Sets an error in a status, as the C functions in the SDK's headers do.
unsafe fn fail(status: *mut XlaCustomCallStatus, message: &[u8]) {
    let status = status.cast::<XlaFfiLegacyStatus>();
    // SAFETY: the runtime created the status.
    let set = unsafe { (*status).set }.expect("set");
    // SAFETY: the message has the given length.
    unsafe {
        set(
            status,
            c_int::from(true),
            message.as_ptr().cast(),
            message.len(),
        )
    };
}

unsafe extern "C" fn cpu_status(
    out: *mut c_void,
    ins: *mut *const c_void,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the target has two operands.
    let b = unsafe { element(ins, 0) };
    // SAFETY: `b` has 128 elements.
    if unsafe { *b.cast::<f32>() } < 0.0 {
        // SAFETY: the runtime created the status.
        return unsafe { fail(status, b"negative\0: \xff, \xc3\xa4") };
    }
    // SAFETY: the host's arguments are passed on unchanged.
    unsafe { cpu(out, ins) };
}

struct Work([usize; 3]);

unsafe extern "C" fn gpu(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
) {
    // SAFETY: the host passes `opaque_len` opaque bytes.
    let opaque = unsafe { std::slice::from_raw_parts(opaque.cast::<u8>(), opaque_len) };
    assert_eq!(opaque, b"\0op\0\xffaque\0");
    // SAFETY: the target has two operands and one result.
    let work = Work([0, 1, 2].map(|i| unsafe { element(buffers, i) } as usize));
    let stream = CpuStream::from_handle(stream).expect("a CPU stream");
    stream.enqueue(Box::new(move || {
        std::thread::sleep(Duration::from_millis(20));
        let [b, c, a] = work.0.map(|address| address as *mut c_void);
        // SAFETY: the buffers are valid until the stream has run the work.
        unsafe { add(a, b, c) };
    }));
}

unsafe extern "C" fn cpu_unified(
    out: *mut c_void,
    ins: *mut *const c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the host passes `opaque_len` opaque bytes.
    let opaque = unsafe { std::slice::from_raw_parts(opaque.cast::<u8>(), opaque_len) };
    if opaque == b"fail" {
        // SAFETY: the runtime created the status.
        return unsafe { fail(status, b"asked to fail") };
    }
    assert_eq!(opaque, OPAQUE);
    // SAFETY: the host's arguments are passed on unchanged.
    unsafe { cpu(out, ins) };
}

unsafe extern "C" fn gpu_status(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    if opaque_len == 4 {
        // SAFETY: the runtime created the status.
        return unsafe { fail(status, b"asked to fail") };
    }
    // SAFETY: the host's arguments are passed on unchanged.
    unsafe { gpu(stream, buffers, opaque, opaque_len) };
}

unsafe extern "C-unwind" fn panics(_: *mut c_void, _: *mut *const c_void) {
    panic!("out of the target");
}

fn target_at(address: *const c_void, signature: Signature) -> Function {
    // SAFETY: the tests pass functions of this signature, and panics of the functions are caught.
    unsafe { Function::at(address, Some(signature)) }.expect("not null")
}

/// Returns a runtime in which the example target is registered for every signature.
fn runtime() -> Runtime {
    let runtime = Runtime::default();
    use Signature::*;
    let all = [
        ("cpu", "Host", target_at(cpu as *const c_void, Cpu)),
        (
            "cpu_status",
            "Host",
            target_at(cpu_status as *const c_void, CpuStatus),
        ),
        (
            "unified",
            "cpu",
            target_at(cpu_unified as *const c_void, CpuUnified),
        ),
        // SAFETY: the function has the declared signature.
        ("gpu", "CUDA", unsafe { Function::gpu(gpu) }),
        (
            "unified",
            "CUDA",
            target_at(gpu_status as *const c_void, GpuStatus),
        ),
        ("panics", "Host", target_at(panics as *const c_void, Cpu)),
    ];
    for (name, platform, function) in all {
        runtime
            .register_legacy(name, platform, function)
            .expect(name);
        // A repeated registration of the same target has no effect.
        runtime
            .register_legacy(name, platform, function)
            .expect(name);
    }
    runtime
}

const OPAQUE: &[u8] = b"\0op\0\xffaque\0";

/// Calls the example target and checks its result. `first` is the first element of `b`.
fn example(target: &Target, opaque: &[u8], first: f32) -> Result<(), Error> {
    let mut b = Buffer::new((0..128).map(|i| if i == 0 { first } else { i as f32 }));
    let mut c = Buffer::new((0..2048).map(|i| 0.5 * i as f32));
    let mut a = Buffer::new((0..2048).map(|_| f32::NAN));
    let device = CpuDevice::new().expect("a device");
    let operands = [b.at(), c.at()];
    let result = a.at();
    let mut call = Invocation::new(target, &operands, &result).opaque(opaque);
    if target.platform() != "cpu" {
        call = call.stream(device.stream.stream());
    }
    // SAFETY: the buffers have the sizes of the example and outlive the call.
    unsafe { call.run() }?;
    for (i, a) in a.0.iter().enumerate() {
        assert_eq!(*a, b.0[i % 128] + c.0[i], "{} {i}", target.name());
    }
    Ok(())
}

#[test]
fn the_documents_example_in_every_convention() {
    use ApiVersion::*;
    let runtime = runtime();
    for (name, platform, version) in [
        ("cpu", "HOST", Original),
        ("cpu_status", "cpu", StatusReturning),
        ("unified", "Host", StatusReturningUnified),
        ("gpu", "cuda", Original),
        ("unified", "GPU", StatusReturning),
        ("unified", "CUDA", StatusReturningUnified),
    ] {
        let target = runtime.find_legacy(name, platform, version).expect(name);
        example(&target, OPAQUE, 3.0).expect(name);
    }
}

#[test]
fn failures_arrive_whole() {
    let runtime = runtime();
    let target = runtime.find_legacy("cpu_status", "cpu", ApiVersion::StatusReturning);
    let error = example(&target.expect("target"), OPAQUE, -1.0).expect_err("it fails");
    assert!(error.is_from_handler() && error.code() == ErrorCode::Internal);
    assert_eq!(error.message(), "negative\0: \\xff, ä");
    for platform in ["Host", "CUDA"] {
        let target = runtime.find_legacy("unified", platform, ApiVersion::StatusReturningUnified);
        let error = example(&target.expect("target"), b"fail", 1.0).expect_err("it fails");
        assert_eq!(error.message(), "asked to fail");
    }
    let target = runtime.find_legacy("panics", "Host", ApiVersion::Original);
    let error = example(&target.expect("target"), b"", 1.0).expect_err("it panics");
    assert!(error.has(Hazard::Unwound));
    assert!(
        error.message().contains("legacy target 'panics'")
            && error.message().contains("out of the target"),
        "{error}"
    );
}

#[test]
fn the_registry_tells_targets_apart() {
    let runtime = runtime();
    let find = |name, platform, version| {
        let found = runtime.find_legacy(name, platform, version);
        found.expect_err("it is refused")
    };
    use ApiVersion::{Original, StatusReturning, TypedFfi};
    for (error, code, words) in [
        (
            find("nothing", "Host", Original),
            ErrorCode::NotFound,
            "'gpu' on cuda",
        ),
        (
            find("gpu", "Host", Original),
            ErrorCode::NotFound,
            "platform 'cpu'",
        ),
        (
            find("cpu", "Host", StatusReturning),
            ErrorCode::InvalidArgument,
            "call it with API_VERSION_ORIGINAL",
        ),
        (
            find("unified", "CUDA", Original),
            ErrorCode::InvalidArgument,
            "API_VERSION_STATUS_RETURNING or API_VERSION_STATUS_RETURNING_UNIFIED",
        ),
        (
            find("cpu", "Host", TypedFfi),
            ErrorCode::InvalidArgument,
            "API_VERSION_TYPED_FFI",
        ),
    ] {
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(words), "{error}");
    }
    // SAFETY: the registry never calls the function in this test.
    let other = unsafe { Function::cpu_status(cpu_status) };
    let elsewhere = target_at(panics as *const c_void, Signature::Cpu);
    for (name, platform, function, code) in [
        ("cpu", "Host", other, ErrorCode::AlreadyExists),
        ("cpu", "Host", elsewhere, ErrorCode::AlreadyExists),
        ("cpu", "CUDA", other, ErrorCode::InvalidArgument),
        ("", "Host", other, ErrorCode::InvalidArgument),
    ] {
        let error = runtime
            .register_legacy(name, platform, function)
            .unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    // SAFETY: `at` returns an error for null.
    let null = unsafe { Function::at(std::ptr::null(), None) };
    assert!(null.is_err());
    // SAFETY: the call in this test has the signature of the function, because the target is registered without a
    // signature.
    let bare = unsafe { Function::at(cpu as *const c_void, None) }.expect("not null");
    runtime.register_legacy("bare", "Host", bare).expect("bare");
    let target = runtime.find_legacy("bare", "Host", ApiVersion::Original);
    example(&target.expect("target"), b"", 1.0).expect("it runs");
    // If a name is registered only as the other kind (handler or legacy target), the error mentions that kind.
    let error = runtime.find("cpu", "Host").expect_err("no handler");
    assert!(
        error.message().contains("call it as API_VERSION_ORIGINAL"),
        "{error}"
    );
    unsafe extern "C" fn typed(
        _: *mut xla_ffi_sys::XLA_FFI_CallFrame,
    ) -> *mut xla_ffi_sys::XLA_FFI_Error {
        std::ptr::null_mut()
    }
    let old = Runtime::new(xla_ffi_runtime::Revision::R0);
    // SAFETY: `typed` is a handler.
    old.register("typed", "Host", unsafe { Bundle::execute(typed) })
        .expect("r0 asks for no metadata");
    let error = old.find_legacy("typed", "Host", ApiVersion::Original);
    let error = error.expect_err("no legacy target");
    assert!(
        error.message().contains("call it as API_VERSION_TYPED_FFI"),
        "{error}"
    );
}

/// The pointers that a target received in its last call.
static SEEN: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(vec![]);

unsafe fn note(list: *const *const c_void, count: usize) {
    // SAFETY: the caller's list has `count` entries.
    let seen = (0..count).map(|i| unsafe { element(list, i) } as usize);
    *SEEN.lock().expect("no panic") = seen.collect();
}

/// A target with tuples in the form `CpuRoots`. It has the operands `((x, (y)), z)` and the result `(a, (b))`.
unsafe extern "C" fn roots(out: *mut c_void, ins: *mut *const c_void) {
    // SAFETY: the target has two operands.
    let pair = unsafe { element(ins, 0) }.cast::<*const c_void>();
    // SAFETY: the second element of the operand is a tuple.
    let inner = unsafe { element(pair, 1) }.cast::<*const c_void>();
    let out = out.cast::<*const c_void>();
    // SAFETY: the second element of the result is a tuple.
    let last = unsafe { element(out, 1) }.cast::<*const c_void>();
    // SAFETY: the tuples contain x, y, z, a and b.
    let seen = [
        (pair, 0),
        (inner, 0),
        (ins.cast_const(), 1),
        (out.cast_const(), 0),
        (last, 0),
    ]
    .map(|(list, index)| unsafe { element(list, index) });
    // SAFETY: the list has five pointers.
    unsafe { note(seen.as_ptr(), 5) };
}

/// A target with tuples in the form `CpuLeaves`. It has three leaves of operands and two leaves of the result.
unsafe extern "C" fn leaves(out: *mut c_void, ins: *mut *const c_void) {
    let out = out.cast::<*const c_void>();
    // SAFETY: the target has three operands and two results.
    let seen = [(ins, 0), (ins, 1), (ins, 2), (out, 0), (out, 1)]
        .map(|(list, index)| unsafe { element(list, index) });
    // SAFETY: the list has five pointers.
    unsafe { note(seen.as_ptr(), 5) };
}

unsafe extern "C" fn flat(
    _: *mut c_void,
    buffers: *mut *mut c_void,
    _: *const c_char,
    _: usize,
    _: *mut XlaCustomCallStatus,
) {
    // SAFETY: the list has five leaves.
    unsafe { note(buffers.cast::<*const c_void>(), 5) };
}

/// A target with tuples in the form `DeviceNodes`. The nodes of `((x, (y)), z) -> (a, (b))` have the numbers `0:
/// root, 1: x, 2: (y), 3: y, 4: z, 5: root, 6: a, 7: (b), 8: b`. On the stream, the target reads the operand through
/// its root, and writes the roots of the result that the opaque bytes select.
unsafe extern "C" fn nodes(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const c_char,
    opaque_len: usize,
) {
    // SAFETY: the list has nine nodes.
    let list: Vec<usize> = (0..9)
        .map(|i| unsafe { element(buffers, i) } as usize)
        .collect();
    // SAFETY: the host passes `opaque_len` opaque bytes.
    let opaque = unsafe { std::slice::from_raw_parts(opaque.cast::<u8>(), opaque_len) };
    let writes = opaque.to_vec();
    let stream = CpuStream::from_handle(stream).expect("a CPU stream");
    stream.enqueue(Box::new(move || {
        std::thread::sleep(Duration::from_millis(20));
        let table = |address: usize| address as *mut *const c_void;
        // SAFETY: the pointer is the root of the first operand, a tuple of two.
        let [x, pair] = [0, 1].map(|i| unsafe { element(table(list[0]), i) });
        // SAFETY: `pair` is a tuple of one.
        let y = unsafe { element(pair.cast::<*const c_void>(), 0) };
        if writes.contains(&b'r') {
            // SAFETY: the target must write this tuple of two.
            unsafe { table(list[5]).write(list[6] as *const c_void) };
            // SAFETY: the target must write this tuple of two.
            unsafe {
                table(list[5])
                    .wrapping_add(1)
                    .write(list[7] as *const c_void)
            };
        }
        if writes.contains(&b'i') {
            // SAFETY: the target must write this tuple of one.
            unsafe { table(list[7]).write(list[8] as *const c_void) };
        }
        let seen = [x, y].map(|pointer| pointer as usize);
        let given = [1, 2, 3].map(|i| list[i]);
        *SEEN.lock().expect("no panic") =
            [&seen[..], &given, &[list[4], list[6], list[8]]].concat();
    }));
}

#[test]
fn tuples_in_every_form() {
    let mut values: Vec<Buffer> = (0..5).map(|i| Buffer::new([i as f32])).collect();
    let at: Vec<Tree<*mut c_void>> = values.iter_mut().map(Buffer::at).collect();
    let operands = [
        Tree::tuple([at[0].clone(), Tree::tuple([at[1].clone()])]),
        at[2].clone(),
    ];
    let result = Tree::tuple([at[3].clone(), Tree::tuple([at[4].clone()])]);
    let addresses: Vec<usize> = at
        .iter()
        .map(|tree| *tree.leaf().expect("leaf") as usize)
        .collect();
    let runtime = Runtime::default();
    let all = [
        (
            "roots",
            "Host",
            target_at(roots as *const c_void, Signature::Cpu),
        ),
        (
            "leaves",
            "Host",
            target_at(leaves as *const c_void, Signature::Cpu),
        ),
        (
            "flat",
            "CUDA",
            target_at(flat as *const c_void, Signature::GpuStatus),
        ),
        (
            "nodes",
            "CUDA",
            target_at(nodes as *const c_void, Signature::Gpu),
        ),
    ];
    for (name, platform, function) in all {
        runtime
            .register_legacy(name, platform, function)
            .expect(name);
    }
    let device = CpuDevice::new().expect("a device");
    let run = |name, platform, version, form, opaque: &[u8]| {
        SEEN.lock().expect("no panic").clear();
        let target = runtime.find_legacy(name, platform, version).expect(name);
        let call = Invocation::new(&target, &operands, &result)
            .form(form)
            .opaque(opaque);
        // SAFETY: the targets do not dereference the pointers to leaves.
        let outcome = unsafe { call.stream(device.stream.stream()).run() };
        outcome.map(|()| SEEN.lock().expect("no panic").clone())
    };
    use ApiVersion::*;
    let seen = run("roots", "Host", Original, TupleForm::CpuRoots, b"");
    assert_eq!(seen.expect("roots"), addresses);
    let seen = run("leaves", "Host", Original, TupleForm::CpuLeaves, b"");
    assert_eq!(seen.expect("leaves"), addresses);
    let seen = run(
        "flat",
        "CUDA",
        StatusReturningUnified,
        TupleForm::DeviceLeaves,
        b"",
    );
    assert_eq!(seen.expect("flat"), addresses);
    for null_inputs in [false, true] {
        let form = TupleForm::DeviceNodes { null_inputs };
        let seen = run("nodes", "CUDA", Original, form, b"ri").expect("nodes");
        assert_eq!(seen[..2], addresses[..2], "through the root");
        if null_inputs {
            assert_eq!(seen[2..5], [0, 0, 0]);
        } else {
            assert_eq!((seen[2], seen[4]), (addresses[0], addresses[1]));
            assert_ne!(seen[3], 0);
        }
        assert_eq!(seen[5..], addresses[2..]);
        for opaque in [b"r", b"i"] {
            let error =
                run("nodes", "CUDA", Original, form, opaque).expect_err("a root is missing");
            assert!(error.message().contains("did not write"), "{error}");
        }
    }
    let error = run("roots", "Host", Original, TupleForm::DeviceLeaves, b"");
    let error = error.expect_err("the form does not fit");
    assert!(error.message().contains("DeviceLeaves"), "{error}");
    let target = runtime
        .find_legacy("nodes", "CUDA", Original)
        .expect("nodes");
    // SAFETY: the call fails before the target is called.
    let error = unsafe { Invocation::new(&target, &operands, &result).run() };
    let error = error.expect_err("no stream");
    assert!(error.message().contains("needs a stream"), "{error}");
}
