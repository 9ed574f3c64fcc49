//! Tests parameters for the parts of the context, on every revision.

use crate::{bundle, call, failed, first, handler, load, on, ret, shape, vector};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use xla_ffi::prelude::*;
use xla_ffi::{
    DeviceBuffer, DeviceOut,
    bind::Slot,
    device::{AnyDeviceBuffer, AnyDeviceOut},
    ext::{Extension, RawCall},
};
use xla_ffi_runtime::{
    Attributes, Call, DType, ErrorCode, HostAllocator, Revision, Runtime, Stream as HostStream,
    TypeInfo, UserData as Objects,
};

fn number(call: Call) -> i64 {
    first::<i64>(call.ret(shape(DType::S64, &[])))[0]
}

fn lacks(call: Call) -> String {
    let (code, text) = failed(call.ret(shape(DType::S64, &[])));
    // Hosts of r0 and r1 report every code as INTERNAL.
    let old = text.contains("(r0,") || text.contains("(r1,");
    let expected = if old {
        ErrorCode::Internal
    } else {
        ErrorCode::Unimplemented
    };
    assert_eq!(code, expected, "{text}");
    text
}

#[xla_ffi::handler]
fn run_id(run: RunId, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(run.get());
    Ok(())
}

#[xla_ffi::handler]
fn ordinal(device: DeviceOrdinal, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(device.get().into());
    Ok(())
}

#[xla_ffi::handler]
fn options(options: CustomOptions, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(options.get_optional("n")?.unwrap_or(-1));
    Ok(())
}

#[xla_ffi::handler]
fn extension(extension: Extension<700>, mut y: Out<i64, 0>) -> Result<()> {
    assert!(!extension.as_raw().is_null());
    let (major, minor) = extension.version();
    y.fill(i64::from(major * 100 + minor));
    Ok(())
}

#[xla_ffi::handler]
fn optional_parts(
    run: Option<RunId>,
    device: Option<DeviceOrdinal>,
    options: Option<CustomOptions>,
    pool: Option<ThreadPool>,
    stream: Option<Stream>,
    extension: Option<Extension<700>>,
    mut y: Out<i64, 0>,
) -> Result<()> {
    let parts = [
        run.is_some(),
        device.is_some(),
        options.is_some(),
        pool.is_some(),
        stream.is_some(),
        extension.is_some(),
    ];
    y.fill(
        parts
            .iter()
            .fold(0, |bits, part| bits << 1 | i64::from(*part)),
    );
    Ok(())
}

/// Covers XLA's tests RunId, RunIdViaContext, DeviceOrdinal and CustomOptions. Revisions without
/// the feature return a clear error.
#[test]
fn parts_of_the_context_over_the_revisions() {
    for revision in Revision::ALL {
        // If the versions show that the host is older than the floor, the host rejects the
        // registration.
        let may_load = |floor: Revision| revision.minor_version() >= floor.minor_version();
        if revision >= Revision::R4 {
            assert_eq!(number(on::<run_id>(revision, "{}").run_id(77)), 77);
        } else if may_load(Revision::R4) || revision == Revision::R0 {
            assert!(lacks(on::<run_id>(revision, "{}")).contains("0.5.1"));
        }
        if revision >= Revision::R5 {
            assert_eq!(
                number(on::<ordinal>(revision, "{}").device_ordinal(2048)),
                2048
            );
        } else if may_load(Revision::R5) || revision == Revision::R0 {
            assert!(lacks(on::<ordinal>(revision, "{}")).contains("0.6.0"));
        }
        if revision == Revision::R10 {
            let n = Attributes::parse("{n = 5 : i64}").unwrap();
            assert_eq!(number(on::<options>(revision, "{}").custom_options(&n)), 5);
            assert_eq!(number(on::<options>(revision, "{}")), -1);
        }
        let bits = number(on::<optional_parts>(revision, "{}"));
        let pool = revision >= Revision::R1;
        let expected = [
            revision >= Revision::R4,
            revision >= Revision::R5,
            revision >= Revision::R10,
            pool,
            false,
            false,
        ];
        let expected = expected
            .iter()
            .fold(0, |bits, part| bits << 1 | i64::from(*part));
        assert_eq!(bits, expected, "{revision}");
    }
}

/// Covers XLA's test FindExtension: extensions are found by their number.
#[test]
fn extensions_are_found_by_number() {
    let raw = xla_ffi::sys::XLA_FFI_Extension {
        struct_size: size_of::<xla_ffi::sys::XLA_FFI_Extension>(),
        id: xla_ffi::sys::XLA_FFI_ExtensionId {
            extension_type: 700,
            major_version: 3,
            minor_version: 14,
        },
        next: std::ptr::null(),
    };
    for revision in [Revision::R9, Revision::R10] {
        // SAFETY: the extension outlives the call.
        let call = unsafe { on::<extension>(revision, "{}").extension(&raw const raw) };
        assert_eq!(number(call), 314);
        let (code, text) = failed(on::<extension>(revision, "{}").ret(shape(DType::S64, &[])));
        assert_eq!(code, ErrorCode::InvalidArgument);
        assert!(
            text.starts_with("extension (execute): `extension`: "),
            "{text}"
        );
    }
}

#[xla_ffi::handler]
fn parallel(
    pool: ThreadPool,
    n: i64,
    grain: i64,
    mut y: Out<i64, 1>,
    mut z: Out<i64, 0>,
) -> Result<()> {
    let (n, grain) = (n as usize, grain as usize);
    pool.for_each_chunk(y.as_uninit(), grain, |start, chunk| {
        for (offset, slot) in chunk.iter_mut().enumerate() {
            slot.write((start + offset) as i64);
        }
    });
    let sum = AtomicUsize::new(0);
    pool.for_each(n, |i| {
        sum.fetch_add(i, Ordering::Relaxed);
    });
    pool.for_each_range(n, grain, |range| {
        assert!(range.len() <= grain.max(1));
        sum.fetch_add(range.sum::<usize>(), Ordering::Relaxed);
    });
    assert!(pool.num_threads() > 0);
    // The loops have an empty range, and a range smaller than the chunk size.
    pool.for_each(0, |_| unreachable!());
    pool.for_each_range(3, usize::MAX, |range| assert_eq!(range, 0..3));
    z.fill(sum.into_inner() as i64);
    Ok(())
}

#[xla_ffi::handler]
fn sizes(pool: ThreadPool, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(pool.size()? as i64);
    Ok(())
}

#[xla_ffi::handler]
fn panicking_loop(pool: ThreadPool) -> Result<()> {
    pool.for_each_range(64, 1, |range| assert_ne!(range.start, 40, "the fortieth"));
    Ok(())
}

#[xla_ffi::handler]
fn fire_and_forget(pool: ThreadPool, p: xla_ffi::ext::Pointer<AtomicUsize>) -> Result<()> {
    // SAFETY: the test keeps the counter alive for the whole process.
    let counter: &'static AtomicUsize = unsafe { &*p.as_ptr() };
    pool.spawn(move || {
        counter.fetch_add(1, Ordering::Release);
    })?;
    pool.spawn(|| panic!("a task of its own"))?;
    pool.spawn(move || {
        counter.fetch_add(1, Ordering::Release);
    })
}

/// Covers XLA's test ThreadPool: with one thread, with several threads, and without a pool.
#[test]
fn loops_on_the_thread_pool() {
    for threads in [1, 2, 5] {
        for revision in [Revision::R1, Revision::R2, Revision::R10] {
            for (n, grain) in [(0, 1), (1, 1), (1000, 7), (1000, 0), (10, 1_000_000)] {
                let runtime = Runtime::with_threads(revision, threads);
                let attrs = format!("{{n = {n} : i64, grain = {grain} : i64}}");
                let outcome = load::<parallel>(&runtime, &attrs)
                    .unwrap()
                    .call()
                    .ret(shape(DType::S64, &[n]))
                    .ret(shape(DType::S64, &[]))
                    .run()
                    .unwrap();
                assert_eq!(ret::<i64>(&outcome, 0), (0..n).collect::<Vec<_>>());
                assert_eq!(ret::<i64>(&outcome, 1), [n * (n - 1)]);
            }
        }
        let runtime = Runtime::with_threads(Revision::NEWEST, threads);
        let call = load::<sizes>(&runtime, "{}").unwrap().call();
        assert_eq!(number(call), threads as i64);
    }
    let without = call::<parallel>("{n = 100 : i64, grain = 9 : i64}")
        .without_thread_pool()
        .ret(shape(DType::S64, &[100]))
        .ret(shape(DType::S64, &[]));
    assert_eq!(ret::<i64>(&without.run().unwrap(), 1), [9900]);
    let text = lacks(on::<sizes>(Revision::R2, "{}"));
    assert!(text.contains("size of the thread pool: the first jaxlib that has it is 0.4.38"));
    let (code, text) = failed(call::<panicking_loop>("{}"));
    assert_eq!(code, ErrorCode::Internal);
    assert!(text.contains("the fortieth"), "{text}");
}

#[test]
fn tasks_of_their_own() {
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let attributes =
        Attributes::new().with("p", xla_ffi_runtime::Attribute::pointer(&raw const COUNTER));
    let runtime = Runtime::default();
    let executable = handler::<fire_and_forget>(&runtime)
        .instantiate(&attributes)
        .unwrap();
    executable.call().run().unwrap();
    while COUNTER.load(Ordering::Acquire) < 2 {
        std::thread::yield_now();
    }
    let (code, _) = failed(executable.call().without_thread_pool());
    assert_eq!(code, ErrorCode::Unimplemented);
}

#[xla_ffi::handler]
fn scratch(scratch: Scratch, mut y: Out<i64, 0>) -> Result<()> {
    for odd in [0, 3, 512] {
        let told = scratch.allocate(16, odd).unwrap_err();
        let wanted = format!("alignment {odd} is not a power of two up to 256");
        assert_eq!(told.message(), wanted);
    }
    let first = scratch.allocate(64, 64)?;
    let second = scratch.allocate(1, 1)?;
    assert_ne!(first, second);
    let array = scratch.array::<f64>(3)?.as_device_mut_ptr();
    assert_eq!(array as usize % 256, 0);
    // SAFETY: the memory was allocated with this size by the same call.
    unsafe { scratch.free(first, 64)? };
    y.fill(first.as_ptr() as i64 % 64);
    Ok(())
}

#[xla_ffi::handler]
fn uses_scratch(scratch: Scratch, panics: bool) -> Result<()> {
    let _memory = scratch.allocate(64, 256)?;
    assert!(!panics, "on purpose");
    Ok(())
}

/// Covers XLA's tests ScratchAllocator and ScratchAllocatorUnimplemented: hosts with and without an
/// allocator.
#[test]
fn scratch_memory() {
    let allocator = Arc::new(HostAllocator::default());
    for revision in Revision::ALL {
        let call = on::<scratch>(revision, "{}").allocator(allocator.clone());
        assert_eq!(number(call), 0);
    }
    assert_eq!(allocator.living(), 0);
    // XLA frees no scratch memory, so the memory must also be freed if the handler panics.
    let runtime = Runtime::new(Revision::NEWEST);
    for panics in [false, true] {
        let attributes = Attributes::parse(&format!("{{panics = {panics}}}")).unwrap();
        let executable = handler::<uses_scratch>(&runtime)
            .instantiate(&attributes)
            .unwrap();
        let ended = executable.call().allocator(allocator.clone()).run();
        assert_eq!(ended.is_err(), panics);
    }
    assert_eq!(runtime.take_findings(), []);
    assert_eq!(allocator.living(), 0);
    // The error code is the same as in jaxlib on CPU.
    let (code, text) = failed(call::<scratch>("{}").ret(shape(DType::S64, &[])));
    assert_eq!(code, ErrorCode::InvalidArgument, "{text}");
}

#[xla_ffi::handler(platforms = ["cuda"], shape = "n -> n, ...?")]
fn device(
    x: DeviceBuffer<f32, 1>,
    y: DeviceOut<f32, 1>,
    stream: Stream,
    mut pass: Option<AnyDeviceOut>,
) -> Result<()> {
    assert_eq!(stream.as_raw() as usize, 0x5000);
    assert_eq!(
        (x.len(), x.byte_size(), x.dims(), x.shape()),
        (2, 8, &[2][..], [2])
    );
    assert!(!x.is_empty() && y.len() == 2 && pass.take().is_none());
    // SAFETY: the test's device is this process, and the operands have two elements.
    let from = unsafe { std::slice::from_raw_parts(x.as_device_ptr(), 2) };
    // SAFETY: the test's device is this process, and the operands have two elements.
    unsafe {
        y.as_device_mut_ptr()
            .copy_from_nonoverlapping(from.as_ptr(), 2)
    };
    Ok(())
}

#[xla_ffi::handler(platforms = ["cuda"])]
fn any_device(x: AnyDeviceBuffer, y: AnyDeviceOut) -> Result<()> {
    assert_eq!(x.byte_size(), Some(8));
    assert_eq!(
        (x.dtype(), x.dims(), x.element_count()),
        (y.dtype(), y.dims(), 2)
    );
    assert!(!x.as_device_ptr().is_null() && !y.as_device_mut_ptr().is_null());
    Ok(())
}

#[xla_ffi::handler]
fn host_memory(_x: Buffer<f32>) -> Result<()> {
    unreachable!("refused before")
}

/// Covers XLA's tests BindingPlatformStreamInference, RunOptionsCtx and PlatformStream. A host
/// handler does not access device memory.
#[test]
fn streams_and_device_operands() {
    // SAFETY: the address is never dereferenced.
    let stream = || unsafe { HostStream::borrowed(0x5000 as *mut c_void) };
    let x = || vector(&[1.0_f32, 2.0]);
    let f32s = || shape(DType::F32, &[2]);
    let outcome = call::<device>("{}")
        .stream(stream())
        .arg(x())
        .ret(f32s())
        .run()
        .unwrap();
    assert_eq!(ret::<f32>(&outcome, 0), [1.0, 2.0]);
    let aliased = call::<any_device>("{}")
        .stream(stream())
        .arg(x())
        .ret_alias(0);
    assert!(aliased.run().is_ok(), "nothing here reads both");
    let (code, text) = failed(call::<any_device>("{}").stream(stream()).arg(x()));
    assert_eq!(code, ErrorCode::InvalidArgument, "{text}");
    let (code, text) = failed(call::<device>("{}").arg(x()).ret(f32s()));
    assert_eq!(code, ErrorCode::Unimplemented);
    assert!(text.starts_with("device (execute): `stream`: "), "{text}");
    let (_, text) = failed(
        call::<device>("{}")
            .stream(stream())
            .arg(vector(&[1_i32, 2]))
            .ret(f32s()),
    );
    assert!(
        text.starts_with("device (execute): argument `x`: expected F32[?], got S32[2]"),
        "{text}"
    );
    let (code, text) = failed(call::<host_memory>("{}").stream(stream()).arg(x()));
    assert_eq!(code, ErrorCode::FailedPrecondition);
    assert!(
        text.starts_with("host_memory (execute): the call has a device stream"),
        "{text}"
    );
}

#[derive(xla_ffi::HostType)]
struct Store {
    value: i64,
}

#[derive(xla_ffi::HostType)]
// SAFETY: no other type of these tests has this name or this number.
#[host_type(unsafe(name = "test.chosen", id = 4242))]
struct Chosen(i64);

#[xla_ffi::handler]
fn stored(store: UserData<Store>, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(store.value);
    Ok(())
}

#[xla_ffi::handler]
fn chosen(store: UserData<Chosen>, mut y: Out<i64, 0>) -> Result<()> {
    y.fill(store.0);
    Ok(())
}

/// Covers XLA's tests for UserData, with assigned and explicit ids.
#[test]
fn user_data() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        // The program chooses the type's number.
        let info = TypeInfo::default();
        // SAFETY: the type is the parameter type of `chosen`.
        unsafe { runtime.register_type("test.chosen", 4242, info) }.unwrap();
        let executable = load::<chosen>(&runtime, "{}").unwrap();
        let mut object = Chosen(11);
        let mut objects = Objects::new(&runtime);
        // SAFETY: the object outlives the call.
        unsafe { objects.insert_borrowed(4242, (&raw mut object).cast()) }.unwrap();
        let call = executable.call().user_data(Arc::new(objects));
        assert_eq!(number(call), 11, "{revision}");
        if revision < Revision::R7 {
            // These hosts pass no function table before the first call, which then registers the
            // type.
            continue;
        }
        let executable = load::<stored>(&runtime, "{}").unwrap();
        let name = <Store as xla_ffi::HostType>::registration().name();
        assert!(name.starts_with(std::any::type_name::<Store>()), "{name}");
        let id = runtime.type_id(name).unwrap();
        let object = Box::into_raw(Box::new(Store { value: 9 }));
        let mut objects = Objects::new(&runtime);
        // SAFETY: the object comes from a `Box`, as the type's deleter expects, and the user data
        // becomes its owner.
        unsafe { objects.insert_owned(id, object.cast()) }.unwrap();
        assert_eq!(number(executable.call().user_data(Arc::new(objects))), 9);
        let (code, text) = failed(executable.call().ret(shape(DType::S64, &[])));
        assert_eq!(code, ErrorCode::InvalidArgument);
        assert!(text.starts_with("stored (execute): `store`: "), "{text}");
    }
}

#[xla_ffi::handler]
fn bare(call: RawCall, mut y: Out<i64, 0>) -> Result<()> {
    assert!(!call.api().is_null() && !call.context().is_null());
    let host = call.host();
    assert!(host.has(Slot::ErrorCreate));
    y.fill(i64::from(host.version().1) * 100 + host.revision() as i64);
    Ok(())
}

#[test]
fn the_bare_call() {
    for revision in Revision::ALL {
        let told = number(on::<bare>(revision, "{}"));
        // A handler cannot distinguish r5 from r6.
        let shown = if revision == Revision::R6 {
            Revision::R5
        } else {
            revision
        };
        let expected = i64::from(revision.minor_version()) * 100 + shown as i64;
        assert_eq!(told, expected, "{revision}");
    }
    assert!(
        bundle::<bare>()
            .get(xla_ffi_runtime::Stage::Execute)
            .is_some()
    );
}

xla_ffi::library! {
    name = "context";
    run_id, ordinal, options, extension, optional_parts, parallel, sizes, panicking_loop,
    fire_and_forget, scratch, device, any_device, host_memory, stored, chosen, bare,
}
