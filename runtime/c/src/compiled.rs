//! The functions of `program.h` for compiled programs.

use crate::canceller::xffi_rt_canceller;
use crate::client::xffi_rt_client;
use crate::context::{unwritten, xffi_rt_user_data};
use crate::program::xffi_rt_program;
use crate::runtime::xffi_rt;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, null, object, optional_text, take_back};
use host::legacy::TupleForm;
use host::{Call, CpuDevice, Error, ErrorCode, Result, Shape, Tensor, Tree};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xla_ffi_programs::{Compiled, Options};

// The forms in which legacy targets receive tuples, as numbers in C.
pub(crate) const XFFI_RT_TUPLES_TODAY: c_int = 0;
pub(crate) const XFFI_RT_TUPLES_CPU_ROOTS: c_int = 1;
pub(crate) const XFFI_RT_TUPLES_DEVICE_NODES: c_int = 2;
pub(crate) const XFFI_RT_TUPLES_DEVICE_NULLS: c_int = 3;

/// `xffi_rt_compiled` in C: a compiled program.
#[derive(Debug)]
pub(crate) struct xffi_rt_compiled {
    compiled: Compiled,
    on_plugin: bool,
    args: Vec<Shape>,
    rets: Vec<Shape>,
}
const _: () = crate::any_thread::<xffi_rt_compiled>();

/// `xffi_rt_compile_options` in C: the options of `xffi_rt_compile`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_compile_options {
    struct_size: usize,
    platform: *const c_char,
    tuples: c_int,
    with_device: c_int,
    check_unwritten: c_int,
    client: *const xffi_rt_client,
    milliseconds: i64,
}

/// Implements `xffi_rt_compile`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_compile(
    runtime: *mut xffi_rt,
    program: *const xffi_rt_program,
    options: *const xffi_rt_compile_options,
    out: *mut *mut xffi_rt_compiled,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?.0.clone();
        // SAFETY: guaranteed by the caller.
        let program = unsafe { object(program, "program") }?.0.clone();
        let given = options;
        // SAFETY: guaranteed by the caller.
        let options = match options.is_null() {
            true => Options::new(),
            // SAFETY: guaranteed by the caller.
            false => unsafe { read_options(options) }?,
        };
        // SAFETY: guaranteed by the caller.
        let on_plugin = unsafe { given.as_ref() }.is_some_and(|given| !given.client.is_null());
        let compiled = program.compile_with(&runtime, options)?;
        let args = program.parameters().flat_map(|(_, shape)| shape.leaves());
        let args = args.map(|leaf| leaf.shape().clone()).collect();
        let rets = program.result().leaves();
        let rets = rets.map(|leaf| leaf.shape().clone()).collect();
        let compiled = xffi_rt_compiled {
            compiled,
            on_plugin,
            args,
            rets,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, compiled) }
    })
}

/// Converts the options of `xffi_rt_compile`.
///
/// # Safety
/// The options must have the size in their size field. The platform must be null or a string, and the client must be
/// null or owned by the caller.
unsafe fn read_options(given: *const xffi_rt_compile_options) -> Result<Options> {
    // SAFETY: guaranteed by the caller.
    unsafe { check_size::<xffi_rt_compile_options>(given.cast(), "XFFI_RT_COMPILE_OPTIONS_INIT") }?;
    // SAFETY: guaranteed by the caller; `check_size` verified the size.
    let raw = unsafe { &*given };
    let mut options = Options::new().unwritten(unwritten(raw.check_unwritten));
    // SAFETY: guaranteed by the caller.
    if let Some(platform) = unsafe { optional_text(raw.platform, "platform") }? {
        options = options.platform(platform);
    }
    options = match raw.tuples {
        XFFI_RT_TUPLES_TODAY => options,
        XFFI_RT_TUPLES_CPU_ROOTS => options.tuples(TupleForm::CpuRoots),
        XFFI_RT_TUPLES_DEVICE_NODES | XFFI_RT_TUPLES_DEVICE_NULLS => {
            options.tuples(TupleForm::DeviceNodes {
                null_inputs: raw.tuples == XFFI_RT_TUPLES_DEVICE_NULLS,
            })
        }
        other => {
            return Err(Error::invalid_argument(format!(
                "tuples {other}: there are 0 to 3"
            )));
        }
    };
    if raw.with_device != 0 {
        options = options.device(Arc::new(CpuDevice::new()?));
    }
    if raw.milliseconds != 0 {
        let limit = u64::try_from(raw.milliseconds).ok();
        options = options.time_limit(limit.map(Duration::from_millis));
    }
    // SAFETY: guaranteed by the caller.
    if let Some(client) = unsafe { raw.client.as_ref() } {
        options = options.client(&client.client);
    }
    Ok(options)
}

/// Implements `xffi_rt_compiled_destroy`.
///
/// # Safety
/// The program must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_compiled_destroy(compiled: *mut xffi_rt_compiled) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(compiled) };
}

/// Implements `xffi_rt_compiled_arg_count`.
///
/// # Safety
/// The program must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_compiled_arg_count(
    compiled: *const xffi_rt_compiled,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { compiled.as_ref() }.map_or(0, |compiled| compiled.args.len())
}

/// Implements `xffi_rt_compiled_ret_count`.
///
/// # Safety
/// The program must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_compiled_ret_count(
    compiled: *const xffi_rt_compiled,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { compiled.as_ref() }.map_or(0, |compiled| compiled.rets.len())
}

/// Implements `xffi_rt_compiled_arg_bytes`.
///
/// # Safety
/// The program must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_compiled_arg_bytes(
    compiled: *const xffi_rt_compiled,
    index: usize,
) -> usize {
    // SAFETY: guaranteed by the caller.
    let compiled = unsafe { compiled.as_ref() };
    let shape = compiled.and_then(|compiled| compiled.args.get(index));
    shape.map_or(0, Shape::bytes)
}

/// Implements `xffi_rt_compiled_ret_bytes`.
///
/// # Safety
/// The program must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_compiled_ret_bytes(
    compiled: *const xffi_rt_compiled,
    index: usize,
) -> usize {
    // SAFETY: guaranteed by the caller.
    let compiled = unsafe { compiled.as_ref() };
    let shape = compiled.and_then(|compiled| compiled.rets.get(index));
    shape.map_or(0, Shape::bytes)
}

/// Implements `xffi_rt_compiled_run`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_compiled_run(
    compiled: *const xffi_rt_compiled,
    args: *const *const c_void,
    arg_count: usize,
    rets: *const *mut c_void,
    ret_count: usize,
    options: *const xffi_rt_run_options,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let compiled = unsafe { object(compiled, "program") }?;
        // SAFETY: guaranteed by the caller.
        let context = unsafe { run_context(options) }?;
        if !options.is_null() && compiled.on_plugin {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                "a real XLA makes the contexts of its calls itself: the options of a run have to be NULL",
            ));
        }
        for (what, came, expected, pointer) in [
            ("arguments", arg_count, compiled.args.len(), args.is_null()),
            ("results", ret_count, compiled.rets.len(), rets.is_null()),
        ] {
            if came != expected {
                return Err(Error::invalid_argument(format!(
                    "the program has {expected} arrays as {what}, got {came} pointers"
                )));
            }
            if pointer && came > 0 {
                return Err(null(what));
            }
        }
        let mut arrays = vec![];
        for (index, shape) in compiled.args.iter().enumerate() {
            // SAFETY: the list has as many pointers as the program has arguments, which was checked.
            let data: *const c_void = unsafe { args.wrapping_add(index).read() };
            if data.is_null() && shape.bytes() > 0 {
                return Err(null(&format!("argument {index}")));
            }
            // SAFETY: the caller guarantees as many bytes as the shape has, until all calls have ended. The bytes are
            // only read: `shared` contains a clone of each array, and arrays with clones are not written.
            arrays.push(
                match unsafe { Tensor::from_raw(shape.clone(), data.cast_mut(), ()) } {
                    Ok(tensor) => tensor,
                    // SAFETY: the caller guarantees as many bytes as the shape has.
                    Err(_) => unsafe { copied_in(shape, data) }?,
                },
            );
        }
        let shared = arrays.clone();
        let mut places = vec![];
        for (index, shape) in compiled.rets.iter().enumerate() {
            // SAFETY: the list has as many pointers as the program has results, which was checked.
            let data: *mut c_void = unsafe { rets.wrapping_add(index).read() };
            // SAFETY: the caller guarantees as many bytes as the shape has, which no other code uses until all calls
            // have ended.
            let tensor = unsafe { Tensor::from_raw(shape.clone(), data, ()) };
            places.push(tensor.ok().filter(|_| !data.is_null()));
        }
        let mut arrays = arrays.into_iter();
        let arguments: Vec<Tree<Tensor>> = compiled
            .compiled
            .program()
            .parameters()
            .filter_map(|(_, shape)| shape.filled(arrays.by_ref().take(shape.leaves().count())))
            .collect();
        let results = compiled.compiled.run_into(arguments, places, context)?;
        drop(shared);
        for (index, array) in results.leaves().enumerate() {
            // SAFETY: the list has as many pointers as the program has results, which was checked.
            let data: *mut c_void = unsafe { rets.wrapping_add(index).read() };
            let bytes = array.bytes();
            // A result that a call has written to the caller's memory needs no copy.
            if !data.is_null() && bytes.as_ptr() != data.cast_const().cast() {
                // SAFETY: the caller guarantees as many bytes as the shape has. The memory may be that of an operand
                // of this run, but not that of this array.
                unsafe { data.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len()) };
            }
        }
        Ok(())
    })
}

/// `xffi_rt_run_options` in C: the options of `xffi_rt_compiled_run`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_run_options {
    struct_size: usize,
    user_data: *const xffi_rt_user_data,
    canceller: *const xffi_rt_canceller,
    milliseconds: i64,
    run_id: i64,
}

/// Returns a function that applies the options of `xffi_rt_compiled_run` to the calls of a program.
///
/// # Safety
/// The options must be null or have the size in their size field. The objects to which they refer must be null or
/// owned by the caller.
unsafe fn run_context(given: *const xffi_rt_run_options) -> Result<impl FnMut(Call) -> Call> {
    if !given.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { check_size::<xffi_rt_run_options>(given.cast(), "XFFI_RT_RUN_OPTIONS_INIT") }?;
    }
    // SAFETY: guaranteed by the caller; `check_size` verified the size.
    let options = unsafe { given.as_ref() };
    let limit = options.and_then(|it| u64::try_from(it.milliseconds).ok());
    let limit = limit.filter(|limit| *limit > 0).map(Duration::from_millis);
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    Ok(move |mut call: Call| {
        let Some(options) = options else { return call };
        call = call.run_id(options.run_id);
        // SAFETY: guaranteed by the caller.
        if let Some(canceller) = unsafe { options.canceller.as_ref() } {
            call = call.canceller(&canceller.0);
        }
        // SAFETY: guaranteed by the caller.
        if let Some(data) = unsafe { options.user_data.as_ref() } {
            call = call.user_data(data.shared());
        }
        match end {
            // The time limit is that of the program, so each call gets the remaining time.
            Some(end) => call.time_limit(Some(end.saturating_duration_since(Instant::now()))),
            None => call,
        }
    })
}

/// Returns an error if the size field of options differs from the size of `T`.
///
/// # Safety
/// `given` must point to options that start with their size.
unsafe fn check_size<T>(given: *const usize, init: &str) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let (size, whole) = (unsafe { given.read() }, size_of::<T>());
    if size == whole {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "the options' struct_size is {size}, {whole} is expected: begin with {init}"
    )))
}

/// Returns a copy of an array that lacks the alignment which handlers require.
///
/// # Safety
/// `data` must point to as many bytes as the shape has.
unsafe fn copied_in(shape: &Shape, data: *const c_void) -> Result<Tensor> {
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), shape.bytes()) };
    Tensor::from_bytes(shape.clone(), bytes)
}
