//! Tests the device conventions in Rust. The streams are threads, so that the tests detect a missing wait.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*, sys::XlaCustomCallStatus};
use xla_ffi_legacy::{Buffers, CpuStreams, Form, Root, Staging};
use xla_ffi_runtime::legacy::{ApiVersion, Invocation, TupleForm};
use xla_ffi_runtime::{CpuDevice, CpuStream, DeviceStream, Runtime, Tree};

fn stream_of(handle: *mut c_void) -> Arc<CpuStream> {
    CpuStream::from_handle(handle).expect("a stream of this runtime")
}

/// Enqueues A[i] = B[i % 128] + C[i] on the stream.
fn launch(stream: *mut c_void, a: *mut f32, b: *const f32, c: *const f32, more: f32) {
    let addresses = [a as usize, b as usize, c as usize];
    stream_of(stream).enqueue(Box::new(move || {
        std::thread::sleep(Duration::from_millis(5));
        let [a, b, c] = addresses;
        for i in 0..2048 {
            // SAFETY: B has 128 elements. The buffers are valid until the stream has finished its
            // work.
            let b = unsafe { (b as *const f32).wrapping_add(i % 128).read() };
            // SAFETY: C has 2048 elements, which are valid until the stream has finished its work.
            let c = unsafe { (c as *const f32).wrapping_add(i).read() };
            // SAFETY: A has 2048 elements, which are valid until the stream has finished its work.
            unsafe { (a as *mut f32).wrapping_add(i).write(b + c + more) };
        }
    }));
}

/// A handler in safe code that launches the kernel.
#[xla_ffi::handler(platforms = ["CUDA"])]
fn tiled_add(
    b: DeviceBuffer<f32, 1>,
    c: DeviceBuffer<f32, 1>,
    a: DeviceOut<f32, 1>,
    stream: Stream,
    #[attr(default = 0.0)] more: f32,
) -> Result<()> {
    if more < 0.0 {
        return Err(Error::invalid_argument(format!("more is {more}")));
    }
    launch(
        stream.as_raw(),
        a.as_device_mut_ptr(),
        b.as_device_ptr(),
        c.as_device_ptr(),
        more,
    );
    Ok(())
}

/// Reads the opaque bytes of `tiled_add_sized`: the length of C and A, as eight bytes.
fn sizes(opaque: &[u8]) -> Result<xla_ffi_legacy::Shapes> {
    let n = opaque.try_into().map(i64::from_le_bytes).map_err(|_| {
        Error::invalid_argument(format!("the opaque has {} bytes, not 8", opaque.len()))
    })?;
    let f32s = |n| (xla_ffi::DataType::F32, vec![n]);
    Ok(xla_ffi_legacy::Shapes {
        args: vec![f32s(128), f32s(n)],
        rets: vec![f32s(n)],
    })
}

#[xla_ffi::handler(platforms = ["CUDA"])]
fn sized(
    b: DeviceBuffer<f32, 1>,
    c: DeviceBuffer<f32, 1>,
    a: DeviceOut<f32, 1>,
    stream: Stream,
) -> Result<()> {
    if [b.len(), c.len(), a.len()] != [128, 2048, 2048] {
        return Err(Error::invalid_argument(format!(
            "C has {} elements",
            c.len()
        )));
    }
    launch(
        stream.as_raw(),
        a.as_device_mut_ptr(),
        b.as_device_ptr(),
        c.as_device_ptr(),
        0.0,
    );
    Ok(())
}

static POOL: Staging<CpuStreams> = Staging::new(CpuStreams::new(), 2);

/// Computes `((B, C)) -> (A, (A + 1))` from a list with every node. Operands are read through their root, and the
/// pool writes the roots of the result.
unsafe extern "C" fn nodes(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    _opaque: *const c_char,
    _opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the program passes a list of this form.
    let buffers = unsafe { Buffers::new(buffers, "(_, _) -> (_, (_))", Form::Nodes) };
    let buffers = buffers.expect("a structure");
    let on_stream = buffers.clone();
    let handle = stream as usize;
    // This task replaces a kernel. It reads the operands through the root, on the stream.
    stream_of(stream).enqueue(Box::new(move || {
        let [b, c] = [0, 1].map(|i| {
            // SAFETY: the operand's tuples are readable on the stream.
            unsafe { on_stream.args()[i].resolve() }
        });
        for (a, more) in on_stream.rets().iter().zip([0.0, 1.0]) {
            launch(handle as *mut c_void, a.cast(), b.cast(), c.cast(), more);
        }
    }));
    // SAFETY: the tables belong to the call, which is not over.
    if let Err(error) = unsafe { POOL.write(stream, buffers.roots()) } {
        // SAFETY: the status belongs to the current call.
        unsafe { xla_ffi_legacy::set_failure(status, error.to_string()) };
    }
}

xla_ffi_legacy::legacy! {
    gpu = gpu(tiled_add): f32[128], f32[2048] -> f32[2048];
    gpu_status = gpu_status(tiled_add), platforms = ["CUDA", "ROCM"], opaque = "more":
        f32[128], f32[2048] -> f32[2048];
    // SAFETY: the opaque bytes contain the length of C and A.
    gpu_sized = gpu_status(sized), shapes = unsafe sizes;
    gpu_nodes = unsafe gpu_status(nodes);
}

xla_ffi::library! {
    name = "legacy_device";
    tiled_add,
    legacy gpu,
    legacy gpu_status,
    legacy gpu_sized,
    legacy gpu_nodes,
}

unsafe extern "C" {
    fn legacy_device__xla_ffi_legacy_targets() -> *const xla_ffi::sys::XlaFfiLegacyTarget;
}

/// Creates a runtime with the targets of this program.
fn runtime() -> Runtime {
    let runtime = Runtime::default();
    // SAFETY: `library!` defines this function.
    let list = unsafe { legacy_device__xla_ffi_legacy_targets() };
    // SAFETY: the list belongs to this program.
    unsafe { runtime.register_legacy_list(list) }.expect("all are registered");
    runtime
}

struct Operands {
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Operands {
    fn new() -> Self {
        Self {
            b: (0..128_u8).map(f32::from).collect(),
            c: (0..2048_u16).map(|i| 0.5 * f32::from(i)).collect(),
        }
    }

    fn leaves(&self) -> [Tree<*mut c_void>; 2] {
        [&self.b, &self.c].map(|x| Tree::Leaf(x.as_ptr().cast_mut().cast()))
    }

    fn check(&self, a: &[f32], more: f32) {
        for (i, a) in a.iter().enumerate() {
            assert_eq!(*a, self.b[i % 128] + self.c[i] + more, "{i}");
        }
    }
}

#[test]
fn handlers_behind_the_device_conventions() {
    let runtime = runtime();
    let device = CpuDevice::new().expect("a device");
    let more = 2.5_f32.to_le_bytes();
    let size = 2048_i64.to_le_bytes();
    use ApiVersion::*;
    for (name, platform, version, opaque, more) in [
        ("gpu", "CUDA", Original, &b""[..], 0.0),
        ("gpu_status", "CUDA", StatusReturning, &more, 2.5),
        ("gpu_status", "CUDA", StatusReturningUnified, &more, 2.5),
        ("gpu_status", "ROCM", StatusReturning, &more, 2.5),
        ("gpu_sized", "CUDA", StatusReturning, &size, 0.0),
    ] {
        let target = runtime.find_legacy(name, platform, version).expect(name);
        let operands = Operands::new();
        let mut a = vec![f32::NAN; 2048];
        let (leaves, result) = (operands.leaves(), Tree::Leaf(a.as_mut_ptr().cast()));
        let call = Invocation::new(&target, &leaves, &result)
            .opaque(opaque)
            .stream(device.stream.stream());
        // SAFETY: the buffers outlive the call.
        let launched = unsafe { call.launch() }.expect(name);
        assert!(a[2047].is_nan(), "{name} runs on the stream");
        launched.wait().expect(name);
        operands.check(&a, more);
    }
    let fails = |name, opaque: &[u8], part: &str| {
        let target = runtime
            .find_legacy(name, "CUDA", StatusReturning)
            .expect(name);
        let operands = Operands::new();
        let mut a = vec![0.0_f32; 2048];
        let (leaves, result) = (operands.leaves(), Tree::Leaf(a.as_mut_ptr().cast()));
        let call = Invocation::new(&target, &leaves, &result).opaque(opaque);
        // SAFETY: the buffers outlive the call.
        let error = unsafe { call.stream(device.stream.stream()).run() }.expect_err("it fails");
        assert!(error.message().contains(part), "{name}: {error}");
    };
    fails("gpu_status", &(-1.0_f32).to_le_bytes(), "more is -1");
    fails(
        "gpu_status",
        b"abc",
        "3 bytes, which are no value of F32 for `more`",
    );
    fails("gpu_sized", b"abc", "3 bytes, not 8");
    fails("gpu_sized", &7_i64.to_le_bytes(), "C has 7 elements");
}

#[test]
fn tuples_through_roots_and_the_pool() {
    let runtime = runtime();
    let target = runtime.find_legacy("gpu_nodes", "CUDA", ApiVersion::StatusReturning);
    let target = target.expect("registered");
    let streams: Vec<_> = (0..3)
        .map(|_| CpuStream::new().expect("a stream"))
        .collect();
    let operands = Operands::new();
    let [b, c] = operands.leaves();
    let pair = [Tree::tuple([b, c])];
    for null_inputs in [false, true] {
        // There are more simultaneous calls than the pool has slots.
        let mut outputs: Vec<[Vec<f32>; 2]> = (0..12)
            .map(|_| [(); 2].map(|()| vec![f32::NAN; 2048]))
            .collect();
        let mut launched = vec![];
        for (index, [a, more]) in outputs.iter_mut().enumerate() {
            let [a, more] = [a, more].map(|x| Tree::Leaf(x.as_mut_ptr().cast()));
            let result = Tree::tuple([a, Tree::tuple([more])]);
            let call = Invocation::new(&target, &pair, &result)
                .form(TupleForm::DeviceNodes { null_inputs })
                .stream(streams[index % 3].stream());
            // SAFETY: the buffers outlive the call.
            launched.push(unsafe { call.launch() }.expect("it launches"));
        }
        for call in launched {
            call.wait().expect("the roots are written");
        }
        // The task that replaces the kernel enqueues another task.
        streams
            .iter()
            .for_each(|stream| stream.synchronize().unwrap());
        for [a, more] in &outputs {
            operands.check(a, 0.0);
            operands.check(more, 1.0);
        }
    }
    assert!(POOL.slots() <= 2);
}

/// A gate that blocks a stream until it is opened.
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn close(stream: &CpuStream) -> Self {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let there = gate.clone();
        stream.enqueue(Box::new(move || {
            let open = there.0.lock().expect("no panic");
            drop(there.1.wait_while(open, |open| !*open).expect("no panic"));
        }));
        Self(gate)
    }

    fn open(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }
}

/// Tables of `width` pointers in device memory, and the distinct pointers to write to each table.
struct Tables {
    tables: Vec<Box<[*mut c_void]>>,
    roots: Vec<Root>,
}

// SAFETY: the addresses are never dereferenced.
unsafe impl Send for Tables {}
// SAFETY: the addresses are never dereferenced.
unsafe impl Sync for Tables {}

impl Tables {
    fn new(count: usize, width: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut tables: Vec<Box<[*mut c_void]>> =
            vec![vec![std::ptr::null_mut(); width].into(); count];
        let roots = tables.iter_mut().map(|table| Root {
            table: table.as_mut_ptr(),
            elements: (0..width)
                .map(|_| {
                    std::ptr::without_provenance_mut(NEXT.fetch_add(1, Ordering::Relaxed) as usize)
                })
                .collect(),
        });
        let roots = roots.collect();
        Self { tables, roots }
    }

    fn is_written(&self) -> bool {
        self.tables.iter().zip(&self.roots).all(|(table, root)| {
            (0..table.len()).all(|i| {
                // SAFETY: the table is not freed, and the stream has written this element.
                let got = unsafe { (&raw const table[i]).read_volatile() };
                got == root.elements[i]
            })
        })
    }
}

#[test]
fn slots_are_bounded_and_streams_never_stall() {
    let pool = Staging::new(CpuStreams::new(), 4);
    let stream = CpuStream::new().expect("a stream");
    let gate = Gate::close(&stream);
    let tables: Vec<_> = (0..5).map(|_| Tables::new(2, 3)).collect();
    let start = Instant::now();
    for tables in &tables[..4] {
        // SAFETY: the tables are freed only after the stream has finished its work.
        unsafe { pool.write(stream.handle(), &tables.roots) }.expect("a free slot");
    }
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "the device stands still; nothing waits"
    );
    assert_eq!(pool.slots(), 4);
    assert!(tables.iter().all(|tables| !tables.is_written()));
    std::thread::scope(|scope| {
        let fifth = scope.spawn(|| {
            // SAFETY: the tables outlive the stream's work.
            unsafe { pool.write(stream.handle(), &tables[4].roots) }.expect("it waits");
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!fifth.is_finished(), "all slots are in use");
        gate.open();
        fifth.join().expect("no panic");
    });
    assert_eq!(pool.slots(), 4, "the oldest was used again");
    stream.synchronize().unwrap();
    assert!(tables.iter().all(Tables::is_written));
}
