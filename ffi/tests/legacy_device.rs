//! The device's conventions in Rust, on streams that are threads: a missing wait is seen.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};
use xla_ffi::legacy::{Buffers, CpuStreams, Device, Form, Root, Staging};
use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*, sys::XlaCustomCallStatus};
use xla_ffi_runtime::legacy::{ApiVersion, Invocation, TupleForm};
use xla_ffi_runtime::{CpuDevice, CpuStream, DeviceStream, Runtime, Tree};

fn stream_of(handle: *mut c_void) -> Arc<CpuStream> {
    CpuStream::from_handle(handle).expect("a stream of this runtime")
}

/// A[i] = B[i % 128] + C[i], some time later.
fn launch(stream: *mut c_void, a: *mut f32, b: *const f32, c: *const f32, more: f32) {
    let addresses = [a as usize, b as usize, c as usize];
    stream_of(stream).enqueue(Box::new(move || {
        std::thread::sleep(Duration::from_millis(5));
        let [a, b, c] = addresses;
        for i in 0..2048 {
            // SAFETY: B has 128 elements; the buffers live until the stream has run.
            let b = unsafe { (b as *const f32).wrapping_add(i % 128).read() };
            // SAFETY: C has 2048.
            let c = unsafe { (c as *const f32).wrapping_add(i).read() };
            // SAFETY: A has 2048.
            unsafe { (a as *mut f32).wrapping_add(i).write(b + c + more) };
        }
    }));
}

/// The safe form.
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

/// What the opaque bytes of `tiled_add_sized` say: the length of C and A, eight bytes.
fn sizes(opaque: &[u8]) -> Result<xla_ffi::legacy::Shapes> {
    let n = opaque.try_into().map(i64::from_le_bytes).map_err(|_| {
        Error::invalid_argument(format!("the opaque has {} bytes, not 8", opaque.len()))
    })?;
    let f32s = |n| (xla_ffi::DataType::F32, vec![n]);
    Ok(xla_ffi::legacy::Shapes {
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

/// `((B, C)) -> (A, (A + 1))`, every node: operands through their root, roots written by the pool.
unsafe extern "C" fn nodes(
    stream: *mut c_void,
    buffers: *mut *mut c_void,
    _opaque: *const c_char,
    _opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the list has this form.
    let buffers = unsafe { Buffers::new(buffers, "(_, _) -> (_, (_))", Form::Nodes) };
    let buffers = buffers.expect("a structure");
    let on_stream = buffers.clone();
    let handle = stream as usize;
    // What stands for a kernel: reads its operands through the root, on the stream.
    stream_of(stream).enqueue(Box::new(move || {
        let [b, c] = [0, 1].map(|i| {
            // SAFETY: on the stream the root may be read.
            unsafe { on_stream.args()[i].resolve() }
        });
        for (a, more) in on_stream.rets().iter().zip([0.0, 1.0]) {
            launch(handle as *mut c_void, a.cast(), b.cast(), c.cast(), more);
        }
    }));
    // SAFETY: the tables are the call's.
    if let Err(error) = unsafe { POOL.write(stream, buffers.roots()) } {
        // SAFETY: the call's status.
        unsafe { xla_ffi::legacy::set_failure(status, error.to_string()) };
    }
}

xla_ffi::legacy! {
    gpu = gpu(tiled_add): f32[128], f32[2048] -> f32[2048];
    gpu_status = gpu_status(tiled_add), platforms = ["CUDA", "ROCM"], opaque = "more":
        f32[128], f32[2048] -> f32[2048];
    // SAFETY: the opaque bytes say how long C and A are.
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

/// A runtime with this program's own targets.
fn runtime() -> Runtime {
    let runtime = Runtime::default();
    // SAFETY: `library!` defines it.
    let list = unsafe { legacy_device__xla_ffi_legacy_targets() };
    // SAFETY: this program's list.
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
        // Several calls in flight, more than the pool has slots.
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
        // The stand-in for a kernel launches once more.
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

/// A gate on a stream.
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

/// Tables of `width` pointers, each with numbers of its own.
struct Tables {
    tables: Vec<Box<[*mut c_void]>>,
    roots: Vec<Root>,
}

// SAFETY: numbers.
unsafe impl Send for Tables {}
// SAFETY: as above.
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
                // SAFETY: an element of a living table that the stream has written.
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
        // SAFETY: the tables outlive the stream's work.
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
            // SAFETY: as above.
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
    // Polled, not waited for: one slot serves calls that come one by one.
    let pool = Staging::new(CpuStreams::new(), 4);
    for _ in 0..20 {
        let tables = Tables::new(1, 5);
        // SAFETY: as above.
        unsafe { pool.write(stream.handle(), &tables.roots) }.expect("a free slot");
        stream.synchronize().unwrap();
        assert!(tables.is_written());
    }
    assert_eq!(pool.slots(), 1);
}

#[test]
fn a_call_waits_for_the_first_slot_and_for_its_own_device() {
    let [first, second] = [(); 2].map(|()| CpuStream::new().expect("a stream"));
    let pool = Staging::new(CpuStreams::new(), 2);
    let (gate, second_gate) = (Gate::close(&first), Gate::close(&second));
    let tables: Vec<_> = (0..3).map(|_| Tables::new(1, 2)).collect();
    for (stream, tables) in [&first, &second].into_iter().zip(&tables) {
        // SAFETY: the tables outlive the stream's work.
        unsafe { pool.write(stream.handle(), &tables.roots) }.expect("a free slot");
    }
    std::thread::scope(|scope| {
        let third = scope.spawn(|| {
            // SAFETY: as above.
            unsafe { pool.write(second.handle(), &tables[2].roots) }.expect("it waits");
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!third.is_finished(), "both slots are in use");
        // The older slot stays in use, as where the first stream waits for the second.
        second_gate.open();
        let until = Instant::now() + Duration::from_secs(10);
        while !third.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let waited_for_the_oldest = !third.is_finished();
        gate.open();
        assert!(!waited_for_the_oldest, "a slot was free");
    });
    for stream in [&first, &second] {
        stream.synchronize().unwrap();
    }
    assert!(tables.iter().all(Tables::is_written));

    // What is wrong with the events of one device is no concern of another.
    let streams = CpuStreams::new();
    streams.assign(&second, 1);
    let pool = Staging::new(Broken(streams), 1);
    let tables: Vec<_> = (0..3).map(|_| Tables::new(1, 2)).collect();
    let write = |stream: &CpuStream, tables: &Tables| {
        // SAFETY: the tables outlive the streams' work.
        unsafe { pool.write(stream.handle(), &tables.roots) }
    };
    write(&second, &tables[0]).expect("a free slot");
    write(&first, &tables[1]).expect("a device of its own");
    first.synchronize().unwrap();
    write(&first, &tables[2]).expect("the other device's trouble");
    let error = write(&second, &tables[0]).expect_err("its own trouble");
    assert!(error.to_string().contains("device 1 is lost"), "{error}");
    for stream in [&first, &second] {
        stream.synchronize().unwrap();
    }
    assert!(tables.iter().all(Tables::is_written));
}

/// Device 1's events cannot be asked.
struct Broken(CpuStreams);

// SAFETY: events are complete when those of `CpuStreams` are.
unsafe impl Device for Broken {
    type Event = (u64, <CpuStreams as Device>::Event);

    fn device_of(&self, stream: *mut c_void) -> Result<u64> {
        self.0.device_of(stream)
    }
    fn event(&self, stream: *mut c_void) -> Result<Self::Event> {
        Ok((self.0.device_of(stream)?, self.0.event(stream)?))
    }
    fn record(&self, event: &mut Self::Event, stream: *mut c_void) -> Result<()> {
        self.0.record(&mut event.1, stream)
    }
    fn is_complete(&self, event: &Self::Event) -> Result<bool> {
        match event.0 {
            1 => Err(Error::internal("device 1 is lost")),
            _ => self.0.is_complete(&event.1),
        }
    }
    fn wait(&self, event: &Self::Event) -> Result<()> {
        self.0.wait(&event.1)
    }
    unsafe fn copy(
        &self,
        to: *mut *mut c_void,
        from: &[*mut c_void],
        stream: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.copy(to, from, stream) }
    }
}

/// Writes tables from several threads on several streams of two devices; whether all arrived.
fn hammer<D: Device>(make: impl FnOnce(CpuStreams) -> D) -> bool {
    let streams: Vec<_> = (0..4)
        .map(|_| CpuStream::new().expect("a stream"))
        .collect();
    let device = CpuStreams::new();
    streams[2..]
        .iter()
        .for_each(|stream| device.assign(stream, 1));
    let pool = Staging::new(make(device), 3);
    let all: Vec<Tables> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (pool, streams) = (&pool, &streams);
                scope.spawn(move || {
                    let mut all = vec![];
                    for call in 0..60_usize {
                        let stream = &streams[(thread + call) % 4];
                        if call % 7 == 0 {
                            let pause = Duration::from_micros(300);
                            stream.enqueue(Box::new(move || std::thread::sleep(pause)));
                        }
                        let tables = Tables::new(1 + call % 3, 1 + call % 5);
                        // SAFETY: the tables outlive the stream's work.
                        unsafe { pool.write(stream.handle(), &tables.roots) }.expect("written");
                        all.push(tables);
                    }
                    all
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        joined.flatten().collect()
    });
    streams
        .iter()
        .for_each(|stream| stream.synchronize().unwrap());
    assert!(pool.slots() <= 6, "three a device");
    all.iter().all(Tables::is_written)
}

#[test]
fn several_threads_streams_and_devices() {
    assert!(hammer(|device| device));
}

/// A device that calls every event complete: what the pool would be without its waits.
struct Hasty(CpuStreams);

// SAFETY: it breaks the promise, to show that this is seen; what is read too late stays allocated.
unsafe impl Device for Hasty {
    type Event = <CpuStreams as Device>::Event;

    fn device_of(&self, stream: *mut c_void) -> Result<u64> {
        self.0.device_of(stream)
    }
    fn event(&self, stream: *mut c_void) -> Result<Self::Event> {
        self.0.event(stream)
    }
    fn record(&self, event: &mut Self::Event, stream: *mut c_void) -> Result<()> {
        self.0.record(event, stream)
    }
    fn is_complete(&self, _: &Self::Event) -> Result<bool> {
        Ok(true)
    }
    fn wait(&self, event: &Self::Event) -> Result<()> {
        self.0.wait(event)
    }
    unsafe fn copy(
        &self,
        to: *mut *mut c_void,
        from: &[*mut c_void],
        stream: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.copy(to, from, stream) }
    }
}

#[test]
fn a_missing_wait_is_seen() {
    let stream = CpuStream::new().expect("a stream");
    let pool = Staging::new(Hasty(CpuStreams::new()), 2);
    let gate = Gate::close(&stream);
    // Of one size, so that the slot's memory is written over and not replaced.
    let (first, second) = (Tables::new(1, 4), Tables::new(1, 4));
    for tables in [&first, &second] {
        // SAFETY: the tables outlive the stream's work.
        unsafe { pool.write(stream.handle(), &tables.roots) }.expect("written");
    }
    gate.open();
    stream.synchronize().unwrap();
    assert!(
        !first.is_written(),
        "the slot was written again before its copy had run"
    );
    assert!(second.is_written());
}

/// What a device does with its next event: it waits for word, and then fails or panics.
struct Unlucky {
    streams: CpuStreams,
    tries: AtomicUsize,
    word: Mutex<mpsc::Receiver<()>>,
    panics: bool,
    /// Where it goes wrong: when the first event is made, or recorded.
    at_record: bool,
}

impl Unlucky {
    fn trouble(&self, here: bool) -> Result<()> {
        if !here || self.tries.fetch_add(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        self.word.lock().expect("no panic").recv().expect("word");
        if self.panics {
            std::panic::panic_any("on purpose");
        }
        Err(xla_ffi::Error::internal("no event today"))
    }
}

// SAFETY: as the streams', or a failure.
unsafe impl Device for Unlucky {
    type Event = <CpuStreams as Device>::Event;

    fn device_of(&self, stream: *mut c_void) -> Result<u64> {
        self.streams.device_of(stream)
    }
    fn event(&self, stream: *mut c_void) -> Result<Self::Event> {
        self.trouble(!self.at_record)?;
        self.streams.event(stream)
    }
    fn record(&self, event: &mut Self::Event, stream: *mut c_void) -> Result<()> {
        self.trouble(self.at_record)?;
        self.streams.record(event, stream)
    }
    fn is_complete(&self, event: &Self::Event) -> Result<bool> {
        self.streams.is_complete(event)
    }
    fn wait(&self, event: &Self::Event) -> Result<()> {
        self.streams.wait(event)
    }
    unsafe fn copy(
        &self,
        to: *mut *mut c_void,
        from: &[*mut c_void],
        stream: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.streams.copy(to, from, stream) }
    }
}

/// A call waits for the only slot, whose owner loses it: then there is room for another one.
#[test]
fn a_lost_slot_is_made_up_for() {
    for (panics, at_record) in [(false, false), (false, true), (true, false), (true, true)] {
        let (word, told) = mpsc::channel();
        let stream = CpuStream::new().expect("a stream");
        let pool = Arc::new(Staging::new(
            Unlucky {
                streams: CpuStreams::new(),
                tries: AtomicUsize::new(0),
                word: Mutex::new(told),
                panics,
                at_record,
            },
            1,
        ));
        let (done, ends) = mpsc::channel();
        let write = |name: &'static str| {
            let (pool, stream, done) = (pool.clone(), stream.clone(), done.clone());
            std::thread::spawn(move || {
                // Kept for ever: the copy of a failed call may still come.
                let tables = Box::leak(Box::new(Tables::new(1, 2)));
                let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    // SAFETY: the tables outlive the stream's work.
                    unsafe { pool.write(stream.handle(), &tables.roots) }
                }));
                let _ = done.send((name, matches!(written, Ok(Ok(())))));
            })
        };
        write("loses it");
        while pool.slots() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        write("waits");
        std::thread::sleep(Duration::from_millis(5));
        word.send(()).expect("it waits for word");
        let limit = Duration::from_secs(10);
        let mut all: Vec<_> = (0..2)
            .filter_map(|_| ends.recv_timeout(limit).ok())
            .collect();
        all.sort_unstable();
        assert_eq!(
            all,
            [("loses it", false), ("waits", true)],
            "{panics} {at_record}"
        );
        stream.synchronize().unwrap();
        assert_eq!(pool.slots(), 1);
    }
}
