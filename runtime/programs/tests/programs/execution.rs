//! Tests programs on the embedded runtime.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "targets follow pointers to pointers; one promise covers each expression"
)]

use crate::generate;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use xla_ffi_programs::{ApiVersion, Builder, Called, CustomCall, Options, Program, ValueShape};
use xla_ffi_runtime::internal::{Invocation, raise};
use xla_ffi_runtime::legacy::{Function, TupleForm};
use xla_ffi_runtime::{
    Attributes, Bundle, CpuDevice, DType, Error, ErrorCode, Result, Revision, Runtime, Stage,
    Tensor, Tree,
};
use xla_ffi_sys::{
    XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Metadata_Extension,
    XlaCustomCallStatus,
};

pub(crate) fn f32s(dims: &[i64]) -> ValueShape {
    ValueShape::array(DType::F32, dims).unwrap()
}

pub(crate) fn leaf(values: &[f32]) -> Tree<Tensor> {
    Tree::Leaf(Tensor::from_slice([values.len() as i64], values).unwrap())
}

pub(crate) fn numbers(value: &Tree<Tensor>) -> Vec<Vec<f32>> {
    value
        .leaves()
        .map(|leaf| leaf.to_vec::<f32>().unwrap())
        .collect()
}

/// Returns a program with one parameter `x`, an array of two numbers.
pub(crate) fn program(
    make: impl FnOnce(&mut Builder, xla_ffi_programs::Op) -> xla_ffi_programs::Op,
) -> Program {
    let mut b = Builder::new("p");
    let x = b.parameter(0, f32s(&[2]), "x");
    let root = make(&mut b, x);
    b.build(root).unwrap()
}

pub(crate) fn legacy(
    target: &str,
    operands: impl IntoIterator<Item = xla_ffi_programs::Op>,
    shape: ValueShape,
) -> CustomCall {
    CustomCall::legacy(ApiVersion::StatusReturning, target, operands, shape)
}

/// Adds 1 to each of the two numbers in the operand.
pub(crate) unsafe extern "C" fn increment(
    out: *mut c_void,
    ins: *mut *const c_void,
    _status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the operand is an array of two numbers.
    let x = unsafe { (*ins).cast::<[f32; 2]>().read() };
    // SAFETY: the result is an array of two numbers.
    unsafe { out.cast::<[f32; 2]>().write(x.map(|x| x + 1.0)) };
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Adds 1 to each of the two numbers in the operand, and counts the calls.
unsafe extern "C" fn counted(
    out: *mut c_void,
    ins: *mut *const c_void,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the host's arguments are passed on unchanged.
    unsafe { increment(out, ins, status) };
    COUNT.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn with_legacy(targets: &[(&str, Function)]) -> Runtime {
    let runtime = Runtime::default();
    for (name, function) in targets {
        runtime.register_legacy(name, "Host", *function).unwrap();
    }
    runtime
}

/// Answers a metadata query with version 0.1. Returns false if the call is not a metadata query.
///
/// # Safety
/// `frame` must be a host's call frame.
pub(crate) unsafe fn metadata(frame: *mut XLA_FFI_CallFrame) -> bool {
    // SAFETY: hosts pass a valid frame.
    let extension = unsafe { (*frame).extension_start };
    if extension.is_null() {
        return false;
    }
    // SAFETY: hosts pass no extension other than the metadata extension.
    let metadata = unsafe { (*extension.cast::<XLA_FFI_Metadata_Extension>()).metadata };
    // SAFETY: the host's metadata is writable.
    unsafe { (*metadata).api_version.major_version = 0 };
    // SAFETY: the host's metadata is writable.
    unsafe { (*metadata).api_version.minor_version = 1 };
    true
}

pub(crate) fn register(
    runtime: &Runtime,
    name: &str,
    handler: unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error,
) {
    // SAFETY: the functions in this test are handlers.
    let bundle = unsafe { Bundle::execute(handler) };
    runtime.register(name, "Host", bundle).unwrap();
}

/// Returns the data pointer of an operand.
///
/// # Safety
/// The list must have a buffer at the index.
pub(crate) unsafe fn data<T>(list: *mut *mut c_void, index: usize) -> *mut T {
    // SAFETY: the caller upholds this function's safety contract.
    let buffer = unsafe { list.wrapping_add(index).read() };
    // SAFETY: operands are buffers.
    unsafe { (*buffer.cast::<XLA_FFI_Buffer>()).data }.cast()
}

// Sets an error in the status through the head of its object, because status functions are not exported from
// libraries.
pub(crate) unsafe extern "C" fn fail(
    _out: *mut c_void,
    _ins: *mut *const c_void,
    status: *mut XlaCustomCallStatus,
) {
    let message = b"broken: \"quotes\", a NUL \0, \xFF and \xC3\xA9";
    // SAFETY: the runtime created the status, whose head contains the function that sets an error.
    let head = unsafe { &*status.cast::<xla_ffi_sys::XlaFfiLegacyStatus>() };
    let set = head.set.expect("the runtime's function");
    // SAFETY: the message has the given length.
    unsafe { set(status.cast(), 1, message.as_ptr().cast(), message.len()) };
}

#[test]
fn a_failing_target_stops_the_program() {
    // SAFETY: the signatures are those of the functions.
    let functions = unsafe { (Function::cpu_status(counted), Function::cpu_status(fail)) };
    let runtime = with_legacy(&[("counted", functions.0), ("fail", functions.1)]);
    let program = program(|b, x| {
        let first = b.custom_call(legacy("counted", [x], f32s(&[2])));
        let broken = b.custom_call(legacy("fail", [first], f32s(&[2])));
        let effect = legacy("counted", [x], f32s(&[2])).with_side_effect();
        let last = b.custom_call(effect);
        b.tuple([first, broken, last])
    });
    let compiled = program.compile(&runtime).unwrap();
    let error = compiled.run([leaf(&[1.0, 2.0])]).unwrap_err();
    let count = COUNT.load(Ordering::Relaxed);
    assert_eq!(count, 1, "nothing runs after it");
    assert!(error.is_from_handler());
    assert_eq!(error.code(), ErrorCode::Internal);
    assert_eq!(
        error.message(),
        "broken: \"quotes\", a NUL \0, \\xff and é",
        "the message is whole"
    );
}

unsafe extern "C" fn typed_fail(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: hosts pass a valid frame.
    if unsafe { metadata(frame) } {
        return std::ptr::null_mut();
    }
    raise(Error::new(ErrorCode::DataLoss, "the typed\nway \0 too"))
}

#[test]
fn a_typed_failure_keeps_its_code_and_text() {
    let runtime = Runtime::default();
    register(&runtime, "fail", typed_fail);
    let program = program(|b, x| b.custom_call(CustomCall::ffi("fail", [x], f32s(&[2]))));
    let error = program.compile(&runtime).unwrap().run([leaf(&[1.0, 2.0])]);
    let error = error.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (ErrorCode::DataLoss, "the typed\nway \0 too")
    );
}

#[test]
fn calls_that_nobody_reads_do_not_run() {
    let runtime = Runtime::default();
    generate::register(&runtime);
    let seed = |seed: i64| Attributes::new().with("seed", seed);
    let program = program(|b, x| {
        let empty = f32s(&[0, 2]);
        // The result of this call is not used, so the target does not have to exist.
        b.custom_call(CustomCall::ffi("absent", [x], f32s(&[2])));
        // Only a call with an unused result uses the result of this call.
        let inner = b.custom_call(CustomCall::ffi("absent", [x], f32s(&[2])));
        b.custom_call(CustomCall::ffi("absent", [inner], f32s(&[2])));
        // Only empty arrays of this result are used. The other array would not fit into memory.
        let pair = Tree::tuple([empty.clone(), f32s(&[1 << 50])]);
        let pair = b.custom_call(CustomCall::ffi("absent", [x], pair));
        let nothing = b.get_tuple_element(pair, 0);
        // A call with an operand without elements does not make the call that computes the operand run.
        let hollow = b.custom_call(CustomCall::ffi("absent", [x], empty.clone()));
        let call = CustomCall::ffi("mix", [hollow, nothing], f32s(&[1])).attributes(seed(1));
        let read = b.custom_call(call);
        // Calls with side effects run even if their results are unused, and so do the calls that compute their
        // operands.
        let call = CustomCall::ffi("mix", [x], f32s(&[2])).attributes(seed(2));
        let needed = b.custom_call(call);
        let call = CustomCall::ffi("mix", [needed], empty).attributes(seed(3));
        b.custom_call(call.with_side_effect());
        b.tuple([nothing, read, x])
    });
    let compiled = program.compile(&runtime).unwrap();
    let _alone = generate::alone();
    generate::take_called();
    let result = compiled.run([leaf(&[1.0, 2.0])]).unwrap();
    assert_eq!(generate::take_called(), [1, 2, 3]);
    assert!(numbers(&result)[0].is_empty());
    assert_eq!(numbers(&result)[2], [1.0, 2.0]);
}

/// Reads and writes tuples in the form `CpuRoots`: `out = ((a + b), scratch)` of `in = (a, (b))`.
unsafe extern "C" fn by_roots(out: *mut c_void, ins: *mut *const c_void) {
    // SAFETY: the operand is the root of a tuple.
    let root = unsafe { *ins }.cast::<*const f32>();
    // SAFETY: the first element of the tuple is an array.
    let a = unsafe { **root };
    // SAFETY: the second element of the tuple is a tuple.
    let inner = unsafe { *root.wrapping_add(1) }.cast::<*const f32>();
    // SAFETY: the inner tuple has one array.
    let b = unsafe { **inner };
    let outs = out.cast::<*mut c_void>();
    // SAFETY: the first element of the result is a tuple.
    let sums = unsafe { *outs }.cast::<*mut f32>();
    // SAFETY: the tuple has one array.
    unsafe { **sums = a + b };
    // SAFETY: the second element of the result is an array.
    unsafe { *(*outs.wrapping_add(1)).cast::<f32>() = 7.0 };
}

/// Computes the same function as `by_roots`, with tuples in the form `CpuLeaves`.
unsafe extern "C" fn by_leaves(out: *mut c_void, ins: *mut *const c_void) {
    // SAFETY: the operands have two leaves, and so has the result.
    let a = unsafe { *(*ins).cast::<f32>() };
    // SAFETY: the operands have two leaves, and so has the result.
    let b = unsafe { *(*ins.wrapping_add(1)).cast::<f32>() };
    // SAFETY: the operands have two leaves, and so has the result.
    unsafe { **out.cast::<*mut f32>() = a + b };
}

/// Computes the same function as `by_roots` on a device, with tuples in the form `DeviceNodes`. The target must write
/// the roots of the result.
unsafe extern "C" fn by_nodes(
    _stream: *mut c_void,
    buffers: *mut *mut c_void,
    opaque: *const std::ffi::c_char,
    len: usize,
) {
    // SAFETY: the opaque bytes have this length.
    let opaque = unsafe { std::slice::from_raw_parts(opaque.cast::<u8>(), len) };
    assert_eq!(opaque, b"any\0bytes");
    // The nodes are root, a, inner root and b of the operand; root, inner root, sum and scratch of the result.
    // SAFETY: the list has eight nodes.
    let node = |index: usize| unsafe { *buffers.wrapping_add(index) };
    // SAFETY: the node has the type of the program's array.
    let a = unsafe { *node(1).cast::<f32>() };
    // SAFETY: the node has the type of the program's array.
    let b = unsafe { *node(3).cast::<f32>() };
    // SAFETY: the node has the type of the program's array.
    unsafe { *node(6).cast::<f32>() = a + b };
    // SAFETY: the node is a root of the result, which the target must write.
    unsafe { node(5).cast::<*mut c_void>().write(node(6)) };
    // SAFETY: the node is a root of the result, which the target must write.
    unsafe { node(4).cast::<[*mut c_void; 2]>().write([node(5), node(7)]) };
}

#[test]
fn tuples_in_every_form() {
    let runtime = Runtime::default();
    // SAFETY: the signatures are those of the functions.
    let cpu = unsafe { (Function::cpu(by_roots), Function::cpu(by_leaves)) };
    // SAFETY: the signature is that of the function.
    let gpu = unsafe { Function::gpu(by_nodes) };
    runtime.register_legacy("roots", "Host", cpu.0).unwrap();
    runtime.register_legacy("leaves", "Host", cpu.1).unwrap();
    runtime.register_legacy("nodes", "CUDA", gpu).unwrap();
    let scalar = f32s(&[1]);
    for (target, options) in [
        ("leaves", Options::new()),
        ("roots", Options::new().tuples(TupleForm::CpuRoots)),
        (
            "nodes",
            Options::new()
                .platform("CUDA")
                .tuples(TupleForm::DeviceNodes { null_inputs: false })
                .device(Arc::new(CpuDevice::new().unwrap())),
        ),
    ] {
        let mut b = Builder::new("tuples");
        let shape = Tree::tuple([scalar.clone(), Tree::tuple([scalar.clone()])]);
        let x = b.parameter(0, shape, "x");
        let result = Tree::tuple([Tree::tuple([scalar.clone()]), scalar.clone()]);
        let call = CustomCall::legacy(ApiVersion::Original, target, [x], result);
        let call = b.custom_call(call.opaque(*b"any\0bytes"));
        // The second element of the result is scratch memory and is not used.
        let root = b.get_tuple_element(call, 0);
        let compiled = b
            .build(root)
            .unwrap()
            .compile_with(&runtime, options)
            .unwrap();
        let argument = Tree::tuple([leaf(&[2.0]), Tree::tuple([leaf(&[3.0])])]);
        let result = compiled.run([argument]).unwrap();
        assert_eq!(numbers(&result), [[5.0]], "{target}");
        assert!(result.is_tuple());
    }
}

/// Runs the called computation of the call on the operand, and adds the literal.
unsafe extern "C" fn apply(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: hosts pass a valid frame.
    if unsafe { metadata(frame) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the frame belongs to this call.
    let run = unsafe { Invocation::from_frame(frame) }.and_then(|invocation| -> Result<()> {
        assert_eq!(invocation.run_id(), 77);
        assert_eq!(invocation.stage(), Stage::Execute);
        let called: &Called = invocation.called_computation().expect("a computation");
        let [inner, unused] = called.computations() else {
            panic!("{called:?}");
        };
        assert_eq!(unused.name(), "unused");
        // SAFETY: the call has one operand of two numbers.
        let x = unsafe { data::<[f32; 2]>((*frame).args.args, 0).read() };
        let y = inner.compile(invocation.runtime())?.run([leaf(&x)])?;
        let literal = called.literal().and_then(|literal| literal.to_vec::<f32>());
        let sum = numbers(&y)[0][0] + literal.expect("a literal")[0];
        // SAFETY: the call has one result of one number.
        unsafe { data::<f32>((*frame).rets.rets, 0).write(sum) };
        Ok(())
    });
    run.map_or_else(raise, |()| std::ptr::null_mut())
}

#[test]
fn called_computations_and_literals_reach_handlers() {
    // SAFETY: the signature is that of the function.
    let runtime = with_legacy(&[("increment", unsafe { Function::cpu_status(increment) })]);
    register(&runtime, "apply", apply);
    let inner = program(|b, x| b.custom_call(legacy("increment", [x], f32s(&[2]))));
    let mut b = Builder::new("unused");
    let root = b.tuple([]);
    let unused = b.build(root).unwrap();
    let program = program(|b, x| {
        let call = CustomCall::ffi("apply", [x], f32s(&[1]))
            .called_computation(inner)
            .called_computation(unused)
            .literal(Tensor::from_slice([], &[100.0_f32]).unwrap());
        b.custom_call(call)
    });
    let compiled = program.compile(&runtime).unwrap();
    let result = compiled
        .run_with([leaf(&[1.0, 2.0])], |call| call.run_id(77))
        .unwrap();
    assert_eq!(numbers(&result), [[102.0]]);
}

#[test]
fn what_does_not_fit_is_told_by_name() {
    let runtime = Runtime::default();
    let program =
        program(|b, x| b.custom_call(legacy("absent", [x], f32s(&[2])).named("the_call")));
    let error = program.compile(&runtime).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(
        error
            .message()
            .starts_with("instruction 'the_call': no legacy target"),
        "{error}"
    );
    assert_eq!(program.targets(), [("absent", ApiVersion::StatusReturning)]);

    // SAFETY: the signature is that of the function.
    let runtime = with_legacy(&[("absent", unsafe { Function::cpu_status(increment) })]);
    let compiled = program.compile(&runtime).unwrap();
    let error = compiled.run([]).unwrap_err();
    assert_eq!(
        error.message(),
        "program 'p' has 1 parameters, got 0 arguments"
    );
    let error = compiled.run([leaf(&[1.0])]).unwrap_err();
    assert_eq!(
        error.message(),
        "parameter 'x' of program 'p': expected f32[2], got f32[1]"
    );
    let error = compiled
        .run([Tree::tuple([leaf(&[1.0, 2.0])])])
        .unwrap_err();
    assert_eq!(
        error.message(),
        "parameter 'x' of program 'p': expected f32[2], got (f32[2])"
    );
    assert!(compiled.run([leaf(&[1.0, 2.0])]).is_ok());
}

#[test]
fn one_compiled_program_runs_on_many_threads() {
    // SAFETY: the signature is that of the function.
    let runtime = with_legacy(&[("increment", unsafe { Function::cpu_status(increment) })]);
    let program = program(|b, x| b.custom_call(legacy("increment", [x], f32s(&[2]))));
    let compiled = program.compile(&runtime).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let compiled = &compiled;
            scope.spawn(move || {
                for _ in 0..100 {
                    let x = thread as f32;
                    let result = compiled.run([leaf(&[x, -x])]).unwrap();
                    assert_eq!(numbers(&result), [[x + 1.0, 1.0 - x]]);
                }
            });
        }
    });
}

#[test]
fn programs_run_on_every_revision() {
    let whole: Vec<_> = generate::dtypes()
        .into_iter()
        .filter(|dtype| dtype.since() == Revision::R0)
        .collect();
    let _alone = generate::alone();
    let mut runner = TestRunner::deterministic();
    for _ in 0..30 {
        let plan = generate::plans(whole.clone())
            .new_tree(&mut runner)
            .unwrap();
        let program = plan.current().program();
        let mut results = Revision::ALL.into_iter().map(|revision| {
            let runtime = Runtime::new(revision);
            generate::register(&runtime);
            let compiled = program.compile(&runtime).unwrap();
            let result = compiled.run(generate::arguments(&program)).unwrap();
            result
                .leaves()
                .map(|leaf| leaf.bytes().to_vec())
                .collect::<Vec<_>>()
        });
        let first = results.next();
        assert!(results.all(|result| Some(result) == first));
    }
}

#[test]
fn handlers_of_a_loaded_library() {
    let test = "handlers_of_a_loaded_library";
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libmix-execution.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&file)
        .arg(here.join("tests/programs/mix.c"))
        .arg(format!("-I{}", here.join("../../include").display()))
        .output();
    let Ok(built) = built else {
        xla_ffi_testing::skip(test, "no cc");
        return;
    };
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let program = program(|b, x| {
        let call = CustomCall::ffi("mix", [x], f32s(&[2, 2]));
        b.custom_call(call.attributes(Attributes::new().with("seed", 5_i64)))
    });
    let ours = Runtime::default();
    generate::register(&ours);
    let loaded = Runtime::default();
    let library = loaded.open(&file).unwrap();
    let bundle = library.bundle(&[(Stage::Execute, "mix")]).unwrap();
    loaded.register("mix", "Host", bundle).unwrap();
    let _alone = generate::alone();
    let results = [ours, loaded].map(|runtime| {
        let result = program.compile(&runtime).unwrap().run([leaf(&[1.0, 2.0])]);
        result.unwrap().leaf().unwrap().bytes().to_vec()
    });
    assert_eq!(results[0], results[1]);
}
