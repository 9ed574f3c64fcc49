//! Tests parameters of device handlers other than operands: recorders, collectives and scratch arrays.
//! Also tests the debug check of handlers that are replayed. The device is this process, and the
//! recorder stores the commands.

use crate::{call, failed, on, shape, vector};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock, Weak};
use xla_ffi::sys::{
    XLA_FFI_CollectiveGroupMode as Mode, XLA_FFI_Collectives_Extension as RawCollectives,
    XLA_FFI_Collectives_Extension_R10, XLA_FFI_Communicator_Get_Args,
    XLA_FFI_DeviceCommunicator_Get_Args, XLA_FFI_Error,
};
use xla_ffi::{
    DeviceBuffer, DeviceOut, Launch,
    ext::{
        Collectives, DeviceCommunicatorRequirements, Group, KernelSource, MemoryRegion, Recorder,
    },
    prelude::*,
};
use xla_ffi_runtime::{
    CpuDevice, DType, ErrorCode, HostAllocator, KernelArg, Recorded, Revision, Stream as HostStream,
};

const PTX: &str = ".version 7.0\n.target sm_75\n";

/// A handler that records kernel launches, a copy and a join.
struct Taped;

#[xla_ffi::stateful(platforms = ["cuda"], command_buffer_compatible)]
impl Taped {
    fn execute(_x: DeviceBuffer<f32, 1>, _y: DeviceOut<f32, 1>, _steps: i64) -> Result<()> {
        Ok(())
    }

    fn record(
        recorder: Recorder,
        x: DeviceBuffer<f32, 1>,
        y: DeviceOut<f32, 1>,
        steps: i64,
    ) -> Result<()> {
        let size = x.byte_size();
        let (to, from) = (y.as_device_mut_ptr().cast(), x.as_device_ptr().cast());
        // SAFETY: the argument and the result have the same size in bytes.
        let copy = unsafe { recorder.copy(to, from, size, &[]) }?;
        let launch = Launch::over(x.len(), 2).with_shared_memory(64);
        let mut last = copy;
        for _ in 0..steps.abs() {
            let arguments = (&x, &y, x.len() as u64, 0.5_f32);
            let kernel = KernelSource::Ptx(PTX);
            // SAFETY: the recorded commands are never replayed.
            last = unsafe { recorder.launch(c"step", kernel, launch, arguments, &[last]) }?;
        }
        recorder.join(&[copy, last])?;
        // An update must not record more commands than exist.
        if steps < 0 && recorder.is_update() {
            recorder.join(&[last])?;
        }
        Ok(())
    }
}

fn prepared(call: xla_ffi_runtime::Call) -> xla_ffi_runtime::PreparedCall {
    let call = call.arg(vector(&[1.0_f32, 2.0, 3.0]));
    call.ret(shape(DType::F32, &[3])).prepare().unwrap()
}

#[test]
fn one_body_makes_and_updates_commands() {
    for revision in [Revision::R9, Revision::R10] {
        let mut call = prepared(on::<Taped>(revision, "{steps = 2 : i64}"));
        let mut recorder = xla_ffi_runtime::Recorder::new(revision, 8).unwrap();
        call.record(&mut recorder).unwrap();
        let made = recorder.commands();
        assert_eq!(made.len(), 4);
        let Recorded::Memcpy { size, .. } = made[0].what else {
            panic!("{made:?}");
        };
        assert_eq!(size, 12);
        let Recorded::Launch {
            kernel,
            source,
            dims,
            shared_memory,
            args,
            ..
        } = &made[1].what
        else {
            panic!("{made:?}");
        };
        assert_eq!((kernel.as_str(), *shared_memory), ("step", 64));
        assert_eq!(source, PTX.as_bytes());
        assert_eq!((dims.grid.x, dims.block.x, dims.cluster.z), (2, 2, 1));
        assert!(matches!(args[0], KernelArg::Pointer(address) if address != 0));
        assert_eq!(args[2], KernelArg::Value(3_u64.to_ne_bytes().to_vec()));
        assert_eq!(args[3], KernelArg::Value(0.5_f32.to_ne_bytes().to_vec()));
        let after: Vec<_> = made.iter().map(|command| command.after.clone()).collect();
        assert_eq!(after, [vec![], vec![0], vec![1], vec![0, 2]]);
        // Running the stage again updates the commands.
        call.record(&mut recorder).unwrap();
        let updated = recorder.commands();
        let updates: Vec<_> = updated.iter().map(|command| command.updates).collect();
        assert_eq!(updates, [1, 1, 1, 0], "a join has nothing to update");
    }
}

const PAIR: Group = Group {
    mode: Mode::FLATTENED_ID,
    groups: &[&[0, 1], &[2, 3]],
    id: 7,
};

/// Writes the elements of a result.
fn fill(y: &DeviceOut<i64, 1>, values: &[i64]) {
    assert_eq!(y.len(), values.len());
    for (i, value) in values.iter().enumerate() {
        let place = y.as_device_mut_ptr().wrapping_add(i);
        // SAFETY: the runtime's devices share the host's memory, and `y` has at least as many
        // elements.
        unsafe { place.write(*value) };
    }
}

/// Requests a communicator and a window, and returns the communicator's address and the window's offset.
struct Exchange;

#[xla_ffi::stateful(name = "exchange", platforms = ["cuda"])]
impl Exchange {
    fn prepare(
        collectives: Collectives,
        x: DeviceBuffer<f32, 1>,
        windows: bool,
        forget: bool,
    ) -> Result<()> {
        if forget {
            return Ok(());
        }
        collectives.request_communicator(PAIR)?;
        if windows {
            let region = MemoryRegion {
                start: x.as_device_ptr().cast(),
                bytes: x.byte_size(),
                flags: 0,
            };
            collectives.request_window(PAIR, &[region])?;
        }
        Ok(())
    }

    fn execute(
        collectives: Collectives,
        x: DeviceBuffer<f32, 1>,
        y: DeviceOut<i64, 1>,
        windows: bool,
    ) -> Result<()> {
        let communicator = collectives.communicator(PAIR)?.as_ptr() as i64;
        let mut offset = -1;
        if windows {
            let second = x.as_device_ptr().wrapping_add(1);
            let window = collectives.window(PAIR, second.cast())?;
            assert!(!window.raw.is_null());
            offset = window.offset as i64;
        }
        fill(&y, &[communicator, offset]);
        Ok(())
    }
}

#[test]
fn communicators_and_windows_are_fetched_after_they_were_asked_for() {
    let run = |revision: Revision, attrs: &str| {
        let asked = Arc::new(OnceLock::<Weak<xla_ffi_runtime::Collectives>>::new());
        let there = asked.clone();
        let host = xla_ffi_runtime::Collectives::new(revision, move |key| {
            assert_eq!(key.groups, [vec![0, 1], vec![2, 3]]);
            // While a communicator is being created, it is not yet listed, and the query does not block.
            let host = there.get().and_then(Weak::upgrade).unwrap();
            assert_eq!(host.requested(), []);
            (0x7000 + key.id) as *mut c_void
        })
        .unwrap();
        asked.set(Arc::downgrade(&host)).unwrap();
        let call = on::<Exchange>(revision, attrs)
            // SAFETY: the address is never dereferenced.
            .stream(unsafe { HostStream::borrowed(0x5000 as *mut c_void) })
            .collectives(host)
            .arg(vector(&[1.0_f32, 2.0]))
            .ret(shape(DType::S64, &[2]));
        call.run()
            .map(|outcome| outcome.rets[0].to_vec::<i64>().unwrap())
    };
    let attrs = "{windows = false, forget = false}";
    assert_eq!(run(Revision::R9, attrs).unwrap(), [0x7007, -1]);
    let with = "{windows = true, forget = false}";
    assert_eq!(run(Revision::R10, with).unwrap(), [0x7007, 4]);
    let error = run(Revision::R9, with).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unimplemented);
    assert!(
        error
            .message()
            .contains("first jaxlib that has 0.2 is 0.12.0"),
        "{error}"
    );
    assert!(run(Revision::R10, "{windows = false, forget = true}").is_err());
    // A host without the extension rejects the call.
    let (_, text) = failed(
        call::<Exchange>("{windows = false, forget = false}")
            .arg(vector(&[1.0_f32, 2.0]))
            .ret(shape(DType::S64, &[2])),
    );
    assert!(
        text.contains("`collectives`") && text.contains("129"),
        "{text}"
    );
}

/// Requests a device communicator with `barriers` barriers, then gets a device communicator with
/// `barriers + other` barriers.
struct OnDevice;

#[xla_ffi::stateful(name = "on_device", platforms = ["cuda"])]
impl OnDevice {
    fn prepare(
        collectives: Collectives,
        y: DeviceOut<i64, 1>,
        barriers: i32,
        other: i32,
    ) -> Result<()> {
        let _ = (y, other);
        let lsa_barrier_count = barriers;
        let requirements = DeviceCommunicatorRequirements { lsa_barrier_count };
        collectives.request_device_communicator(PAIR, requirements)
    }

    fn execute(
        collectives: Collectives,
        y: DeviceOut<i64, 1>,
        barriers: i32,
        other: i32,
    ) -> Result<()> {
        let lsa_barrier_count = barriers + other;
        let requirements = DeviceCommunicatorRequirements { lsa_barrier_count };
        let communicator = collectives.communicator(PAIR)?.as_ptr() as i64;
        let found = collectives.device_communicator(PAIR, requirements)?;
        let values = [
            communicator,
            found.raw as i64,
            found.byte_size as i64,
            found.version.into(),
        ];
        fill(&y, &values);
        Ok(())
    }
}

fn run_on_device(
    attrs: &str,
    extend: impl Fn(xla_ffi_runtime::Call) -> xla_ffi_runtime::Call,
) -> Result<Vec<i64>> {
    let call = on::<OnDevice>(Revision::R10, attrs)
        // SAFETY: the address is never dereferenced.
        .stream(unsafe { HostStream::borrowed(0x5000 as *mut c_void) })
        .ret(shape(DType::S64, &[4]));
    let outcome = extend(call).run()?;
    Ok(outcome.rets[0].to_vec().unwrap())
}

#[test]
fn device_communicators_are_those_of_the_requested_group_and_barriers() {
    let host = || {
        xla_ffi_runtime::Collectives::with_device_communicators(
            |key| (0x7000 + key.id) as *mut c_void,
            |key, barriers| xla_ffi_runtime::DeviceCommunicator {
                description: (0x8000 + key.id) as *const c_void,
                byte_size: barriers as usize,
                version: 23203,
            },
        )
    };
    let run = |attrs| run_on_device(attrs, |call| call.collectives(host()));
    let found = run("{barriers = 8 : i32, other = 0 : i32}");
    assert_eq!(found.unwrap(), [0x7007, 0x8007, 8, 23203]);
    let error = run("{barriers = 8 : i32, other = 1 : i32}").unwrap_err();
    assert_eq!(error.code(), ErrorCode::FailedPrecondition);
    let error = run("{barriers = -1 : i32, other = 0 : i32}").unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    for revision in [Revision::R9, Revision::R10] {
        let host = xla_ffi_runtime::Collectives::new(revision, |_| 12 as *mut c_void).unwrap();
        let error = run_on_device("{barriers = 8 : i32, other = 0 : i32}", |call| {
            call.collectives(host.clone())
        });
        assert_eq!(error.unwrap_err().code(), ErrorCode::Unimplemented);
    }
}

/// Returns the addresses of a communicator and of a device communicator. The second address is 0 if
/// the host has no device communicator.
#[xla_ffi::handler(platforms = ["cuda"])]
fn fetched(collectives: Collectives, y: DeviceOut<i64, 1>) -> Result<()> {
    let communicator = collectives.communicator(PAIR)?.as_ptr() as i64;
    let requirements = DeviceCommunicatorRequirements::default();
    let found = collectives.device_communicator(PAIR, requirements);
    if let Err(error) = &found {
        assert_eq!(error.code(), ErrorCode::Unimplemented);
    }
    let values = [communicator, found.map_or(0, |found| found.raw as i64)];
    fill(&y, &values);
    Ok(())
}

#[test]
fn newer_and_older_versions_of_collectives_serve_what_they_have() {
    unsafe extern "C" fn get(
        _: *const RawCollectives,
        args: *mut XLA_FFI_Communicator_Get_Args,
    ) -> *mut XLA_FFI_Error {
        // SAFETY: the handler passes a complete argument struct.
        unsafe { (*args).communicator = 0xC0FFEE as *mut _ };
        std::ptr::null_mut()
    }
    unsafe extern "C" fn get_for_device(
        _: *const RawCollectives,
        args: *mut XLA_FFI_DeviceCommunicator_Get_Args,
    ) -> *mut XLA_FFI_Error {
        // SAFETY: the handler passes a complete argument struct.
        unsafe { (*args).device_communicator = 0xD3C0DE as *const _ };
        std::ptr::null_mut()
    }
    let (newest, of_02) = (
        RawCollectives::STRUCT_SIZE,
        XLA_FFI_Collectives_Extension_R10::STRUCT_SIZE,
    );
    for (version, size, has_functions, expected) in [
        ((0, 3), newest, true, Some([0xC0FFEE, 0xD3C0DE])),
        ((0, 7), newest + 16, true, Some([0xC0FFEE, 0xD3C0DE])),
        ((0, 2), newest, true, Some([0xC0FFEE, 0])),
        ((0, 3), of_02, true, Some([0xC0FFEE, 0])),
        ((0, 3), newest, false, Some([0xC0FFEE, 0])),
        ((0, 2), of_02, false, Some([0xC0FFEE, 0])),
        ((1, 3), newest, true, None),
    ] {
        // SAFETY: the struct consists of numbers, pointers and optional functions.
        let mut raw: Box<[RawCollectives; 2]> = Box::new(unsafe { std::mem::zeroed() });
        raw[0].extension_base.struct_size = size;
        raw[0].extension_base.id.extension_type = 129;
        raw[0].extension_base.id.major_version = version.0;
        raw[0].extension_base.id.minor_version = version.1;
        raw[0].get_communicator = Some(get);
        raw[0].get_device_communicator = has_functions.then_some(get_for_device as _);
        let call = on::<fetched>(Revision::R10, "{}").ret(shape(DType::S64, &[2]));
        // SAFETY: the address is never dereferenced.
        let call = call.stream(unsafe { HostStream::borrowed(0x5000 as *mut c_void) });
        // SAFETY: the extension outlives the call.
        let outcome = unsafe { call.extension((&raw const raw[0]).cast()) }.run();
        match expected {
            Some(values) => {
                let found = outcome.unwrap().rets[0].to_vec::<i64>().unwrap();
                assert_eq!(found, values, "{version:?} {size}");
            }
            None => {
                let error = outcome.unwrap_err();
                assert_eq!(error.code(), ErrorCode::Unimplemented);
                assert!(error.message().contains("1.3"), "{error}");
            }
        }
    }
}

#[xla_ffi::handler(platforms = ["cuda"])]
fn scratch_arrays(scratch: Scratch, y: DeviceOut<i64, 1>) -> Result<()> {
    let none = scratch.array::<f64>(0)?;
    let some = scratch.array::<f64>(100)?;
    assert!(none.is_empty() && none.as_device_mut_ptr().is_null());
    assert_eq!((some.len(), some.byte_size()), (100, 800));
    assert_eq!(some.as_device_mut_ptr() as usize % 256, 0);
    // The allocation for an empty operand has size 0.
    let nowhere = scratch.allocate(0, 64)?;
    assert_eq!(nowhere.as_ptr() as usize, 64);
    // SAFETY: the memory was allocated with this size by the same call, and was never used.
    unsafe { scratch.free(nowhere, 0) }?;
    scratch.allocate(0, 256)?;
    let too_many = scratch.array::<f64>(usize::MAX / 4).unwrap_err();
    assert_eq!(too_many.code(), xla_ffi::ErrorCode::ResourceExhausted);
    assert!(!y.as_device_mut_ptr().is_null());
    Ok(())
}

#[test]
fn scratch_comes_as_arrays() {
    let device = CpuDevice::new().unwrap();
    let call = call::<scratch_arrays>("{}").on_device(&device);
    call.ret(shape(DType::S64, &[1])).run().unwrap();
    assert_eq!(device.allocator.living(), 0);
}

#[xla_ffi::handler(platforms = ["cuda"], command_buffer_compatible)]
fn breaks_its_promise(scratch: Scratch, _x: DeviceBuffer<f32, 1>) -> Result<()> {
    scratch.allocate(16, 16).map(drop)
}

#[xla_ffi::handler(platforms = ["cuda"])]
fn promises_nothing(scratch: Scratch, _x: DeviceBuffer<f32, 1>) -> Result<()> {
    scratch.allocate(16, 16).map(drop)
}

#[test]
fn a_replayed_handler_may_not_allocate() {
    let allocator = || -> Arc<HostAllocator> { Arc::default() };
    // SAFETY: the address is never dereferenced.
    let stream = || unsafe { HostStream::borrowed(0x5000 as *mut c_void) };
    let ready = |call: xla_ffi_runtime::Call| {
        call.stream(stream())
            .allocator(allocator())
            .arg(vector(&[1.0_f32]))
    };
    for _ in 0..2 {
        let outcome = ready(call::<breaks_its_promise>("{}")).run();
        if cfg!(debug_assertions) {
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), ErrorCode::FailedPrecondition);
        } else {
            outcome.unwrap();
        }
        // The mark of a running handler that is compatible with command buffers is removed when the
        // call ends.
        ready(call::<promises_nothing>("{}")).run().unwrap();
    }
}
