//! Tests the GPU examples without a GPU. The libraries run with an emulator of NVIDIA's driver, which executes their
//! kernels on the host, thread by thread. One test runs without a driver.

mod driver;

use driver::{Driver, call, load};
use std::ffi::c_void;
use std::process::Command;
use std::sync::Arc;
use xla_ffi::Launch;
use xla_ffi::cuda::{Image, Module};
use xla_ffi_legacy::cuda::resolve;
use xla_ffi_legacy::{Buffers, Form};
use xla_ffi_runtime::{
    CallFrame, CudaDevice, DType, ErrorCode, Revision, Shape, Stream, Tensor, Unwritten,
};
use xla_ffi_testing::skip;

/// Returns `count` arbitrary numbers between -2 and 2.
fn numbers(count: usize) -> Vec<f32> {
    let mut state = 12345_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 22) as f32 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

fn tensor(dims: &[i64], elements: &[f32]) -> Tensor {
    Tensor::from_slice(dims, elements).unwrap()
}

fn f32s(dims: &[i64]) -> Shape {
    Shape::new(DType::F32, dims).unwrap()
}

fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

fn bf16_tensor(dims: &[i64], elements: &[f32]) -> Tensor {
    let bytes: Vec<u8> = elements
        .iter()
        .flat_map(|value| bf16_bits(*value).to_le_bytes())
        .collect();
    Tensor::from_bytes(Shape::new(DType::BF16, dims).unwrap(), &bytes).unwrap()
}

fn from_bf16_tensor(tensor: &Tensor) -> Vec<f32> {
    tensor
        .bytes()
        .chunks(2)
        .map(|pair| from_bf16(u16::from_le_bytes([pair[0], pair[1]])))
        .collect()
}

#[test]
fn tiled_add_repeats_its_first_operand() {
    let Some((driver, _one)) = Driver::open("tiled_add") else {
        return;
    };
    let executable = load("kernels", "tiled_add", "{}");
    let (stream, waits) = (driver.stream(0), driver.count("waits"));
    for (m, n) in [(128, 2048), (128, 2000), (1, 7), (5, 3), (3, 0), (3, 257)] {
        let (b, c) = (numbers(m), numbers(n));
        let before = driver.count("launches");
        let outcome = call(&executable, stream)
            .arg(tensor(&[m as i64], &b))
            .arg(tensor(&[n as i64], &c))
            .ret(f32s(&[n as i64]))
            .run()
            .unwrap();
        let wanted: Vec<f32> = (0..n).map(|i| b[i % m] + c[i]).collect();
        assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), wanted, "{m}, {n}");
        let launched = driver.count("launches") - before;
        assert_eq!(launched, i32::from(n > 0), "no launch of nothing");
        if n > 0 {
            assert_eq!(driver.count("block"), 256);
            assert_eq!(driver.count("grid"), n.div_ceil(256) as i32);
        }
    }
    let nobody =
        call(&executable, 0x4000 as *mut c_void).args([tensor(&[1], &[1.0]), tensor(&[1], &[1.0])]);
    let error = nobody.ret(f32s(&[1])).run().unwrap_err();
    assert!(
        error.message().contains("CUDA_ERROR_INVALID_HANDLE"),
        "{error}"
    );
    assert_eq!(driver.count("depth"), 0, "no context is left on the stack");
    assert_eq!(driver.count("waits"), waits, "nothing waits");
}

/// Computes the expected y and dx of RMS normalisation in double precision.
fn reference(x: &[f32], dy: &[f32], n: usize, eps: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut y, mut dx) = (Vec::new(), Vec::new());
    for (x, dy) in x.chunks(n).zip(dy.chunks(n)) {
        let mean = |f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        let scale = 1.0 / (mean(&|i| f64::from(x[i]).powi(2)) + eps).sqrt();
        let pull = scale.powi(3) * mean(&|i| f64::from(x[i]) * f64::from(dy[i]));
        y.extend(x.iter().map(|x| f64::from(*x) * scale));
        dx.extend((0..n).map(|i| scale * f64::from(dy[i]) - pull * f64::from(x[i])));
    }
    (y, dx)
}

fn close(got: &[f32], wanted: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let error = (f64::from(*got) - wanted).abs() / wanted.abs().max(1.0);
        assert!(
            error <= tolerance,
            "{what}: [{i}] is {got}, expected {wanted}"
        );
    }
}

/// Test cases: number of rows, row length, and threads of the forward f32 launch. They cover warps and blocks, whole
/// and partial vectors, the limit of the registers, and longer rows.
const ROWS: [(i64, i64, i32); 8] = [
    (9, 1024, 128),
    (2, 1028, 128),
    (2, 8192, 256),
    (1, 32768, 1024),
    (1, 66000, 1024),
    (2, 33001, 256),
    (4, 7, 256),
    (1, 1, 256),
];

#[test]
fn rms_norm_and_its_gradient() {
    let Some((driver, _one)) = Driver::open("rms_norm") else {
        return;
    };
    let attributes = "{eps = 1.0e-3 : f32}";
    let eps = f64::from(1.0e-3_f32);
    let forward = load("rms_norm", "rms_norm", attributes);
    let backward = load("rms_norm", "rms_norm_grad", attributes);
    let stream = driver.stream(0);
    for (rows, n, threads) in ROWS {
        let (count, dims) = ((rows * n) as usize, [rows, n]);
        for dtype in [DType::F32, DType::BF16] {
            let is_f32 = dtype == DType::F32;
            // The tests of bf16 use numbers that bf16 can represent.
            let round = |value: &f32| match is_f32 {
                true => *value,
                false => from_bf16(bf16_bits(*value)),
            };
            let made = |values: &[f32]| match is_f32 {
                true => tensor(&dims, values),
                false => bf16_tensor(&dims, values),
            };
            let read = |tensor: &Tensor| match is_f32 {
                true => tensor.to_vec::<f32>().unwrap(),
                false => from_bf16_tensor(tensor),
            };
            let shape = || Shape::new(dtype, &dims[..]).unwrap();
            // For bf16, which has 8 significant bits, the tolerance is half a unit in the last place.
            let tolerance = if is_f32 { 1e-5 } else { 1.0 / 256.0 + 1e-5 };
            let x: Vec<f32> = numbers(count).iter().map(round).collect();
            let dy: Vec<f32> = numbers(2 * count)[count..].iter().map(round).collect();
            let (y, dx) = reference(&x, &dy, n as usize, eps);
            let outcome = call(&forward, stream).arg(made(&x)).ret(shape()).run();
            if is_f32 {
                assert_eq!(driver.count("block"), threads, "{dims:?}");
            }
            let what = format!("y: {dtype:?}{dims:?}");
            close(&read(&outcome.unwrap().rets[0]), &y, tolerance, &what);
            let outcome = call(&backward, stream).args([made(&x), made(&dy)]);
            let outcome = outcome.ret(shape()).run();
            let what = format!("dx: {dtype:?}{dims:?}");
            close(&read(&outcome.unwrap().rets[0]), &dx, tolerance, &what);
        }
    }
    // Rows without elements need no kernel launch.
    let launches = driver.count("launches");
    let nothing = call(&forward, stream).arg(tensor(&[3, 0], &[]));
    nothing.ret(f32s(&[3, 0])).run().unwrap();
    assert_eq!(driver.count("launches"), launches);
}

#[test]
fn a_state_keeps_its_module_for_each_context() {
    let Some((driver, _one)) = Driver::open("polynomial") else {
        return;
    };
    let (loads, unloads) = (driver.count("loads"), driver.count("unloads"));
    let executable = load(
        "kernels",
        "polynomial",
        "{coefficients = array<f32: 1.0, 0.5, 2.0>}",
    );
    assert_eq!(driver.count("loads"), loads, "no device at instantiate");
    let x = numbers(1000);
    let wanted: Vec<f32> = x.iter().map(|x| (2.0 * x + 0.5) * x + 1.0).collect();
    // Each entry is a device and the expected number of loaded modules: each device loads the module once.
    for (device, loaded) in [(0, 1), (0, 1), (1, 2), (0, 2)] {
        let outcome = call(&executable, driver.stream(device))
            .arg(tensor(&[1000], &x))
            .ret(f32s(&[1000]))
            .run()
            .unwrap();
        assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), wanted);
        assert_eq!(driver.count("loads") - loads, loaded);
    }
    drop(executable);
    assert_eq!(driver.count("unloads") - unloads, 2);
    assert_eq!(driver.count("depth"), 0);
}

#[test]
fn scratch_memory_is_the_hosts() {
    let Some((driver, _one)) = Driver::open("sum") else {
        return;
    };
    let executable = load("kernels", "sum", "{}");
    for count in [0, 1, 255, 256, 257, 5000, 50_000] {
        let x: Vec<f32> = (0..count).map(|i| ((i % 7) as f32) - 2.0).collect();
        let outcome = call(&executable, driver.stream(0))
            .arg(tensor(&[count], &x))
            .ret(f32s(&[]))
            .run()
            .unwrap();
        // All elements are small integers, so the sum is exact in any order.
        let wanted: f32 = x.iter().sum();
        assert_eq!(
            outcome.rets[0].to_vec::<f32>().unwrap(),
            [wanted],
            "{count}"
        );
    }
    assert_eq!(driver.count("allocations"), 0);
}

/// Adapts a target of the original custom calls that writes the root of its result tuple in device memory.
#[test]
fn an_adapted_target_with_tuples() {
    let Some((driver, _one)) = Driver::open("tuples") else {
        return;
    };
    let executable = load("tuples", "sum_and_difference", "{}");
    for (device, n) in [(0, 1), (1, 1000), (0, 257), (0, 0)] {
        let (x, y) = (numbers(n), numbers(2 * n)[n..].to_vec());
        let dims = [n as i64];
        let outcome = call(&executable, driver.stream(device))
            .arg(tensor(&dims, &x))
            .arg(tensor(&dims, &y))
            .ret(f32s(&dims))
            .ret(f32s(&dims))
            .run()
            .unwrap();
        let both = |f: fn(f32, f32) -> f32| -> Vec<f32> {
            x.iter().zip(&y).map(|(x, y)| f(*x, *y)).collect()
        };
        assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), both(|x, y| x + y));
        assert_eq!(outcome.rets[1].to_vec::<f32>().unwrap(), both(|x, y| x - y));
    }
    assert_eq!(driver.count("depth"), 0);
}

/// Passes only the roots of an operand's tuples. The addresses of the leaves are then read from device memory, on a
/// stream that waits for the program's stream.
#[test]
fn leaves_behind_their_root_are_read() {
    let Some((driver, _one)) = Driver::open("leaves") else {
        return;
    };
    let null = std::ptr::null_mut();
    let (x, y, z) = (1.0_f32, 2.0_f32, 3.0_f32);
    let [x, y, z] = [&x, &y, &z].map(|value| std::ptr::from_ref(value).cast_mut().cast::<c_void>());
    let mut inner = [y, z];
    let mut root = [x, inner.as_mut_ptr().cast()];
    let root = root.as_mut_ptr().cast::<c_void>();
    let leaves = |list: [*mut c_void; 6]| {
        // SAFETY: the list has one entry per node of the structure.
        let buffers = unsafe { Buffers::new(list.as_ptr(), "(_, (_, _)) -> _", Form::Nodes) };
        let buffers = buffers.expect("a structure");
        [0, 1, 2].map(|leaf| {
            // SAFETY: the stream belongs to the emulator, and the tuples in device memory have this structure.
            unsafe { resolve(driver.stream(1), &buffers.args()[leaf]) }.expect("it is read")
        })
    };
    let before = driver.count("event waits");
    assert_eq!(leaves([root, x, null, y, z, null]), [x, y, z]);
    assert_eq!(driver.count("event waits"), before, "nothing is read");
    assert_eq!(leaves([root, null, null, null, null, null]), [x, y, z]);
    assert_eq!(driver.count("event waits"), before + 3);
    // A null root is returned as null, because a leaf without elements may have a null address.
    assert_eq!(leaves([null, null, null, null, null, null]), [null; 3]);
    assert_eq!(driver.count("depth"), 0);
}

/// Runs a handler on the CUDA device of the embedded runtime: with its memory, stream and scratch memory.
#[test]
fn a_device_of_the_embedded_runtime() {
    let Some((driver, _one)) = Driver::open("CudaDevice") else {
        return;
    };
    assert!(CudaDevice::new(7).is_err_and(|error| error.message().contains("cuDeviceGet(7)")));
    {
        let device = CudaDevice::new(1).unwrap();
        let x: Vec<f32> = (0..3000).map(|i| (i % 5) as f32).collect();
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let (from, to) = (
            device.allocate(bytes.len()).unwrap(),
            device.allocate(4).unwrap(),
        );
        device.stream.upload(&bytes, &from).unwrap();
        let too_much = device.stream.upload(&bytes, &to).unwrap_err();
        assert!(too_much.message().contains("has 4"), "{too_much}");
        let executable = load("kernels", "sum", "{}");
        let frame = CallFrame::new(
            Revision::NEWEST,
            &[(f32s(&[3000]), from.address())],
            &[(f32s(&[]), to.address())],
        )
        .unwrap();
        let call = executable
            .call()
            .stream(device.stream.stream())
            .allocator(device.allocator.clone());
        // SAFETY: the device memory has the sizes of the operands' shapes and outlives the call.
        let mut call = unsafe { call.prepare_on(frame) }.unwrap();
        for _ in 0..3 {
            call.invoke().unwrap();
        }
        let mut sum = [0; 4];
        device.stream.download(&to, &mut sum).unwrap();
        assert_eq!(f32::from_le_bytes(sum), x.iter().sum::<f32>());
    }
    assert_eq!(
        driver.count("allocations"),
        0,
        "scratch memory is freed too"
    );
    assert_eq!(driver.count("depth"), 0);
}

/// Copies operands from host memory to the device before the call, and results back after the call.
#[test]
fn a_call_whose_operands_are_copied() {
    let Some((driver, _one)) = Driver::open("run_on") else {
        return;
    };
    let device = CudaDevice::new(0).unwrap();
    let axpy = load("kernels", "axpy", "{a = 3.0 : f32}");
    let call = || {
        let call = axpy.call().arg(tensor(&[3], &[1.0, 2.0, 3.0]));
        call.arg(tensor(&[3], &[10.0, 20.0, 30.0]))
    };
    let wanted = [13.0_f32, 26.0, 39.0];
    for _ in 0..2 {
        let outcome = call().ret(f32s(&[3])).unwritten(Unwritten::Refused);
        let outcome = outcome.run_on(&device).unwrap();
        assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), wanted);
        let shared = call().ret_alias(1).run_on(&device).unwrap();
        assert_eq!(shared.rets[0].to_vec::<f32>().unwrap(), wanted);
    }
    assert_eq!(driver.count("allocations"), 0);
    assert_eq!(driver.count("depth"), 0);
}

/// Captures the work of two calls and compares both captures, because a command buffer would replay this work. A
/// difference reveals a wrong declaration.
#[test]
fn a_wrong_declaration_for_command_buffers_is_told() {
    let Some((driver, _one)) = Driver::open("check_capture") else {
        return;
    };
    let device = CudaDevice::new(0).unwrap();
    let check = |library: &str, handler: &str, attributes: &str, args: usize| {
        let executable = load(library, handler, attributes);
        assert!(
            executable
                .handler()
                .metadata()
                .unwrap()
                .is_command_buffer_compatible()
        );
        let x = || tensor(&[3], &[1.0, 2.0, 3.0]);
        let call = executable.call().args((0..args).map(|_| x()));
        call.ret(f32s(&[3])).check_capture(&device)
    };
    let launches = driver.count("launches");
    check("kernels", "axpy", "{a = 3.0 : f32}", 2).unwrap();
    assert_eq!(driver.count("launches") - launches, 2);
    check("probe", "probe", "{}", 1).unwrap();
    let told = check("probe", "fickle", "{idle = false}", 1).unwrap_err();
    let told = told.message();
    assert!(
        told.contains(
            "fickle (execute): two captured calls differ: operation 0 is one time kernel"
        ) && told.contains("command_buffer_compatible"),
        "{told}"
    );
    let idle = check("probe", "fickle", "{idle = true}", 1).unwrap_err();
    assert!(
        idle.message().contains("a captured call launches nothing"),
        "{idle}"
    );
    assert_eq!(driver.count("allocations"), 0);
    assert_eq!(driver.count("depth"), 0);
}

const PTX: &[u8] = b"// a header\n.version 7.0\n.target sm_75\n.visible .entry axpy() {}\n";

/// Tests features that the examples do not use: shared modules, launch attributes, and streams converted to cudarc's
/// type.
#[test]
fn the_api_beneath_the_examples() {
    let Some((driver, _one)) = Driver::open("cuda API") else {
        return;
    };
    let raw = driver.stream(1);
    // SAFETY: the stream belongs to the emulator and is valid until this process ends.
    let stream = unsafe { xla_ffi::cuda::Stream::from_raw(raw) }.unwrap();
    let context = stream.context().unwrap();
    assert_eq!(context.device().unwrap(), 1);
    assert_eq!(context.compute_capability().unwrap(), (9, 0));

    let module = Arc::new(Module::from_vec(PTX.to_vec()));
    assert_eq!(module.image(), Image::Ptx);
    let missing = module.shared_kernel("total").load(context).unwrap_err();
    assert_eq!(missing.code(), xla_ffi::ErrorCode::NotFound);

    let axpy = module.shared_kernel("axpy");
    let (x, y) = ([1.0_f32, 2.0, 3.0], [10.0_f32, 20.0, 30.0]);
    let mut z = [0.0_f32; 3];
    let mut launch = Launch::over(3, 32);
    launch.cluster = [2, 1, 1];
    let arguments = (2.0_f32, x.as_ptr(), y.as_ptr(), z.as_mut_ptr(), 3_u64);
    // SAFETY: the arguments have the kernel's parameter types and refer to memory that the emulator can access.
    unsafe { axpy.launch(&stream, launch, arguments) }.unwrap();
    assert_eq!(z, [12.0, 24.0, 36.0]);
    assert_eq!(driver.count("attributes"), 2);
    // A block can have more than 48 KiB of shared memory if the launch requests it.
    let much = Launch::over(3, 32).with_shared_memory(200 << 10);
    // SAFETY: the arguments have the kernel's parameter types and refer to memory that the emulator can access.
    unsafe { axpy.launch(&stream, much, arguments) }.unwrap();
    assert_eq!(driver.count("shared"), 200 << 10);
    let too_much = Launch::over(3, 32).with_shared_memory(228 << 10);
    // SAFETY: the launch is refused before the kernel runs.
    let refused = unsafe { axpy.launch(&stream, too_much, arguments) }.unwrap_err();
    assert_eq!(refused.code(), xla_ffi::ErrorCode::InvalidArgument);

    assert_eq!(driver.count("depth"), 0);

    // The conversion to cudarc always leaves the context current on this thread. SAFETY: only this test uses the
    // stream.
    let safe = unsafe { stream.to_cudarc() }.unwrap();
    assert_eq!(safe.cu_stream(), raw.cast());
    assert_eq!(safe.context().ordinal(), 1);
    let waits = driver.count("waits");
    safe.synchronize().unwrap();
    stream.synchronize().unwrap();
    assert_eq!(driver.count("waits"), waits + 2);
    drop(safe);

    let unloads = driver.count("unloads");
    drop((axpy, module));
    assert_eq!(driver.count("unloads"), unloads + 1);
}

/// Without NVIDIA's driver, the libraries load and answer metadata queries. All other calls report that the driver is
/// missing.
#[test]
fn without_a_driver_a_call_says_what_is_missing() {
    // The test runs itself in a separate process, which does not load the emulator.
    const ALONE: &str = "XLA_FFI_TEST_NO_DRIVER";
    if std::env::var_os(ALONE).is_none() {
        let test = "without_a_driver_a_call_says_what_is_missing";
        let status = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--nocapture"])
            .env(ALONE, "1")
            .status();
        return assert!(status.expect("it starts").success());
    }
    // SAFETY: this loads only NVIDIA's driver library, if it is installed.
    if unsafe { libloading::Library::new("libcuda.so.1") }.is_ok() {
        skip("no_driver", "this machine has NVIDIA's driver");
        return;
    }
    let executable = load("kernels", "tiled_add", "{}");
    let x = || Tensor::from_slice([2], &[1.0_f32, 2.0]).unwrap();
    let call = || {
        executable
            .call()
            .arg(x())
            .arg(x())
            .ret(Shape::new(DType::F32, [2]).unwrap())
    };
    // SAFETY: the address is never dereferenced.
    let stream = unsafe { Stream::borrowed(0x5000 as *mut std::ffi::c_void) };
    let error = call().stream(stream).run().unwrap_err();
    assert!(
        error
            .message()
            .contains("libcuda.so.1 not found: this machine has no NVIDIA driver"),
        "{error}"
    );
    // A call without a stream is not a call from a GPU host. This error is reported before the missing driver.
    let error = call().run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unimplemented, "{error}");
    assert!(error.message().contains("stream"), "{error}");
}
