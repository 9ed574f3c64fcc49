//! Checks that the option for a client runs programs of the embedded runtime on XLA, without other changes.

use crate::generate;
use std::ffi::c_void;
use xla_ffi_programs::pjrt::{Client, Plugin};
use xla_ffi_programs::{ApiVersion, Builder, CustomCall, Options, Program, ValueShape};
use xla_ffi_runtime::legacy::Function;
use xla_ffi_runtime::{Bundle, CpuDevice, DType, ErrorCode, Runtime, Tensor, Tree, Unwritten};
use xla_ffi_testing::plugin;

fn client(test: &str) -> Option<Client> {
    Some(Plugin::load(plugin(test)?).unwrap().client().unwrap())
}

/// Writes the sum of the first elements of all leaves of the operands, and twice the sum.
unsafe extern "C" fn sums(out: *mut c_void, ins: *mut *const c_void) {
    let number = |leaf| {
        // SAFETY: the operands have three leaves.
        let number = unsafe { ins.wrapping_add(leaf).read() };
        // SAFETY: each leaf is one number.
        unsafe { number.cast::<f32>().read() }
    };
    let sum: f32 = (0..3).map(number).sum();
    // SAFETY: the result is a tuple of two leaves.
    let results = unsafe { out.cast::<[*mut f32; 2]>().read() };
    for (result, value) in results.into_iter().zip([sum, 2.0 * sum]) {
        // SAFETY: each leaf of the result is one number, which the call may write.
        unsafe { result.write(value) };
    }
}

unsafe extern "C" fn says(
    _out: *mut c_void,
    _ins: *mut *const c_void,
    opaque: *const std::ffi::c_char,
    length: usize,
    status: *mut xla_ffi_sys::XlaCustomCallStatus,
) {
    // SAFETY: the opaque bytes have this length.
    let opaque = unsafe { std::slice::from_raw_parts(opaque.cast::<u8>(), length) };
    assert_eq!(opaque, b"any\0bytes");
    let status = status.cast::<xla_ffi_sys::XlaFfiLegacyStatus>();
    // SAFETY: the runtime created the status.
    let set = unsafe { (*status).set }.expect("set");
    let message = c"it says no";
    // SAFETY: the function is that of the status, and the message has the given length.
    unsafe { set(status, 1, message.as_ptr(), message.count_bytes()) };
}

fn scalar(value: f32) -> Tree<Tensor> {
    Tree::Leaf(Tensor::from_slice([], &[value]).unwrap())
}

/// Returns the program `sums((x, x), y)`, whose result is the second element of the call's result.
fn program() -> Program {
    let number = ValueShape::array(DType::F32, []).unwrap();
    let mut b = Builder::new("sums");
    let x = b.parameter(0, number.clone(), "x");
    let y = b.parameter(1, number.clone(), "y");
    let both = b.tuple([x, x]);
    let shape = Tree::tuple([number.clone(), number]);
    let call = CustomCall::legacy(ApiVersion::Original, "one_option.sums", [both, y], shape);
    let sums = b.custom_call(call);
    let second = b.get_tuple_element(sums, 1);
    b.build(second).unwrap()
}

#[test]
fn a_legacy_program_runs_on_a_real_xla() {
    let Some(client) = client("a_legacy_program_runs_on_a_real_xla") else {
        return;
    };
    let runtime = Runtime::default();
    // SAFETY: the signature is that of the function.
    let function = unsafe { Function::cpu(sums) };
    runtime
        .register_legacy("one_option.sums", "Host", function)
        .unwrap();
    let program = program();
    let mut results = vec![];
    for options in [Options::new(), Options::new().client(&client)] {
        let compiled = program.compile_with(&runtime, options).unwrap();
        // The program runs twice, because a compiled program can be reused.
        for _ in 0..2 {
            let result = compiled.run([scalar(1.0), scalar(5.0)]).unwrap();
            results.push(result.leaf().unwrap().to_vec::<f32>().unwrap());
        }
    }
    assert_eq!(results, vec![vec![14.0]; 4]);
}

#[test]
fn what_a_legacy_target_says_comes_through() {
    let Some(client) = client("what_a_legacy_target_says_comes_through") else {
        return;
    };
    let runtime = Runtime::default();
    // SAFETY: the signature is that of the function.
    let function = unsafe { Function::cpu_unified(says) };
    runtime
        .register_legacy("one_option.says", "Host", function)
        .unwrap();
    let mut b = Builder::new("says");
    let shape = ValueShape::array(DType::F32, [0]).unwrap();
    let version = ApiVersion::StatusReturningUnified;
    let call = CustomCall::legacy(version, "one_option.says", [], shape).with_side_effect();
    let call = b.custom_call(call.opaque(*b"any\0bytes"));
    let program = b.build(call).unwrap();
    for options in [Options::new(), Options::new().client(&client)] {
        let compiled = program.compile_with(&runtime, options).unwrap();
        let error = compiled.run([]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Internal, "{error}");
        assert!(error.message().contains("it says no"), "{error}");
    }
}

#[test]
fn a_typed_program_runs_on_a_real_xla() {
    let Some(client) = client("a_typed_program_runs_on_a_real_xla") else {
        return;
    };
    let _alone = generate::alone();
    let runtime = Runtime::default();
    // SAFETY: `mix` is a handler.
    let bundle = unsafe { Bundle::execute(generate::mix) };
    runtime.register(generate::TARGET, "cpu", bundle).unwrap();
    let mut b = Builder::new("typed");
    let shape = ValueShape::array(DType::S32, [3]).unwrap();
    let x = b.parameter(0, shape.clone(), "x");
    let attributes = xla_ffi_runtime::Attributes::new().with("seed", 7_i64);
    let call = CustomCall::ffi(generate::TARGET, [x], shape).attributes(attributes);
    let call = b.custom_call(call);
    let program = b.build(call).unwrap();
    // The program is printed as HLO text and parsed again.
    let program = Program::from_hlo(&program.to_hlo().unwrap()).unwrap();
    let x = || Tree::Leaf(Tensor::from_slice([3], &[1_i32, 2, 3]).unwrap());
    let bytes = [Options::new(), Options::new().client(&client)].map(|options| {
        let compiled = program.compile_with(&runtime, options).unwrap();
        let result = compiled.run([x()]).unwrap();
        result.leaf().unwrap().bytes().to_vec()
    });
    assert_eq!(bytes[0], bytes[1]);
    assert_ne!(bytes[0], [0; 12]);

    let compiled = program
        .compile_with(&runtime, Options::new().client(&client))
        .unwrap();
    let wrong = Tree::Leaf(Tensor::from_slice([2], &[1_i32, 2]).unwrap());
    let error = compiled.run([wrong]).unwrap_err();
    assert!(
        error
            .message()
            .contains("parameter 'x' of program 'typed': expected s32[3], got s32[2]"),
        "{error}"
    );
    let error = compiled.run_with([x()], |call| call.run_id(3)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
}

#[test]
fn options_that_a_plugin_does_not_take_are_refused() {
    let Some(client) = client("options_that_a_plugin_does_not_take_are_refused") else {
        return;
    };
    let runtime = Runtime::default();
    let options = || Options::new().client(&client);
    let device = std::sync::Arc::new(CpuDevice::new().unwrap());
    for options in [
        options().platform("CUDA"),
        options().device(device),
        options().unwritten(Unwritten::Refused),
    ] {
        let error = program().compile_with(&runtime, options).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    }
    // Neither the runtime nor the plugin has this target.
    let error = program()
        .compile_with(&runtime, options().platform("Host"))
        .unwrap_err();
    assert!(error.message().contains("one_option.sums"), "{error}");
}
