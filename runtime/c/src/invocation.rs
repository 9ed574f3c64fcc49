//! The functions of `invocation.h`: calls of handlers that are linked with the runtime, as the runtime represents
//! them.

use crate::call::xffi_rt_call;
use crate::context::change;
use crate::plugin_executable::xffi_rt_array;
use crate::program::xffi_rt_program;
use crate::runtime::xffi_rt;
use crate::status::{Carried, Deleter, c_text, status_or_null, xffi_rt_status};
use crate::{hand_over, null, object, take_back, write_out};
use host::internal::Invocation;
use host::{DeviceAllocator, Error, ErrorCode, Result, Stream};
use std::cell::OnceCell;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, OnceLock};
use xla_ffi_programs::Called;
use xla_ffi_sys::{XLA_FFI_Api, XLA_FFI_ExecutionStage, XLA_FFI_InvokeContext};

/// `xffi_rt_invocation` in C: the context of a call by a runtime of this library. Handlers receive its address.
#[derive(Debug)]
pub(crate) struct xffi_rt_invocation(());

/// `xffi_rt_device_stream` in C: the stream of a call.
#[derive(Debug)]
pub(crate) struct xffi_rt_device_stream(Stream);
const _: () = crate::any_thread::<xffi_rt_device_stream>();

/// `xffi_rt_allocator` in C: the allocator for a call's scratch memory.
pub(crate) struct xffi_rt_allocator(Arc<dyn DeviceAllocator>);
const _: () = crate::any_thread::<xffi_rt_allocator>();

/// Returns the address of a symbol that the linker defines separately in each program and shared library.
fn own_image() -> *const c_void {
    unsafe extern "C" {
        #[cfg_attr(windows, link_name = "__ImageBase")]
        static __dso_handle: u8;
    }
    (&raw const __dso_handle).cast()
}

/// Returns an error if the host is not a runtime of this library, or if `image` is not the address that [`own_image`]
/// returns; otherwise `None`.
///
/// # Safety
/// `api` must be null or a host's function table.
unsafe fn refusal(api: *const XLA_FFI_Api, image: *const c_void) -> Option<Error> {
    if image != own_image() {
        return Some(Error::new(
            ErrorCode::FailedPrecondition,
            "the internal API is for handlers that are linked into one program or library with the embedded \
             runtime, statically, but this one is in a different image than its runtime; link \
             libxla_ffi_runtime.a, or write it with the external API (xla/ffi/api/ffi.h)",
        ));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { host::internal::accept_registration(api) }.err()
}

/// Implements `xffi_rt_refuse`.
///
/// # Safety
/// `api` must be null or a host's function table.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_refuse(
    api: *const XLA_FFI_Api,
    image: *const c_void,
) -> *const c_char {
    /// The two possible messages, which are valid until the program ends.
    static TEXTS: [OnceLock<CString>; 2] = [const { OnceLock::new() }; 2];
    // SAFETY: guaranteed by the caller.
    let Some(error) = (unsafe { refusal(api, image) }) else {
        return std::ptr::null();
    };
    let text = &TEXTS[usize::from(image != own_image())];
    text.get_or_init(|| c_text(error.message())).as_ptr()
}

/// Implements `xffi_rt_invocation_of`.
///
/// # Safety
/// The pointers must meet the requirements in `invocation.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_of(
    api: *const XLA_FFI_Api,
    ctx: *mut XLA_FFI_InvokeContext,
    image: *const c_void,
    out: *mut *const xffi_rt_invocation,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        if let Some(error) = unsafe { refusal(api, image) } {
            return Err(error);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { Invocation::from_call(api, ctx) }?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || ctx.cast::<xffi_rt_invocation>().cast_const()) }
    })
}

/// Returns the invocation to which a handler's pointer refers.
///
/// # Safety
/// `pointer` must be null, or a pointer that [`xffi_rt_invocation_of`] returned in a call that has not ended.
unsafe fn invocation<'a>(pointer: *const xffi_rt_invocation) -> Result<Invocation<'a>> {
    if pointer.is_null() {
        return Err(null("invocation"));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { Invocation::from_own_context(pointer.cast_mut().cast()) }
}

/// Implements `xffi_rt_invocation_runtime`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_runtime(
    invocation: *const xffi_rt_invocation,
) -> *mut xffi_rt {
    // SAFETY: guaranteed by the caller.
    match unsafe { self::invocation(invocation) } {
        Ok(found) => Box::into_raw(Box::new(xffi_rt(found.runtime().clone()))),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Implements `xffi_rt_invocation_stage`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_stage(
    invocation: *const xffi_rt_invocation,
) -> XLA_FFI_ExecutionStage {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { self::invocation(invocation) };
    found.map_or(XLA_FFI_ExecutionStage::EXECUTE, |found| found.stage().raw())
}

/// Implements `xffi_rt_invocation_run_id`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_run_id(
    invocation: *const xffi_rt_invocation,
) -> i64 {
    // SAFETY: guaranteed by the caller.
    unsafe { self::invocation(invocation) }.map_or(0, |found| found.run_id())
}

/// Implements `xffi_rt_invocation_device_ordinal`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_device_ordinal(
    invocation: *const xffi_rt_invocation,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe { self::invocation(invocation) }.map_or(0, |found| found.device_ordinal())
}

/// Implements `xffi_rt_invocation_stream`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_stream(
    invocation: *const xffi_rt_invocation,
) -> *mut xffi_rt_device_stream {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { self::invocation(invocation) };
    let stream = found.ok().and_then(|found| found.stream().cloned());
    stream.map_or(std::ptr::null_mut(), |stream| {
        Box::into_raw(Box::new(xffi_rt_device_stream(stream)))
    })
}

/// Implements `xffi_rt_device_stream_destroy`.
///
/// # Safety
/// The stream must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_device_stream_destroy(stream: *mut xffi_rt_device_stream) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(stream) };
}

/// Implements `xffi_rt_device_stream_handle`.
///
/// # Safety
/// The stream must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_device_stream_handle(
    stream: *const xffi_rt_device_stream,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    let stream = unsafe { stream.as_ref() };
    stream.map_or(std::ptr::null_mut(), |stream| stream.0.handle())
}

/// Implements `xffi_rt_device_stream_enqueue`.
///
/// # Safety
/// The stream must be null or owned by the caller. Any thread must be allowed to call `task` once with `data`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_device_stream_enqueue(
    stream: *const xffi_rt_device_stream,
    task: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let stream = unsafe { object(stream, "stream") }?;
        // SAFETY: guaranteed by the caller.
        stream.0.enqueue(unsafe { crate::task(task, data) }?)
    })
}

/// Implements `xffi_rt_device_stream_synchronize`.
///
/// # Safety
/// The stream must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_device_stream_synchronize(
    stream: *const xffi_rt_device_stream,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { object(stream, "stream") }?.0.synchronize()
    })
}

/// Implements `xffi_rt_invocation_allocator`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_allocator(
    invocation: *const xffi_rt_invocation,
) -> *mut xffi_rt_allocator {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { self::invocation(invocation) };
    let allocator = found
        .ok()
        .and_then(|found| found.device_allocator().cloned());
    allocator.map_or(std::ptr::null_mut(), |allocator| {
        Box::into_raw(Box::new(xffi_rt_allocator(allocator)))
    })
}

/// Implements `xffi_rt_allocator_destroy`.
///
/// # Safety
/// The allocator must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_allocator_destroy(allocator: *mut xffi_rt_allocator) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(allocator) };
}

/// Implements `xffi_rt_allocator_allocate`.
///
/// # Safety
/// The allocator must be null or owned by the caller, and `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_allocator_allocate(
    allocator: *const xffi_rt_allocator,
    size: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let allocator = unsafe { object(allocator, "allocator") }?;
        if size == 0 || !alignment.is_power_of_two() {
            return Err(Error::invalid_argument(format!(
                "{size} bytes at a multiple of {alignment}: there have to be some, at a power of two"
            )));
        }
        let data = allocator.0.allocate(size, alignment).ok_or_else(|| {
            let why = format!("{size} bytes of device memory cannot be allocated");
            Error::new(ErrorCode::ResourceExhausted, why)
        })?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || data) }
    })
}

/// Implements `xffi_rt_allocator_free`.
///
/// # Safety
/// The allocator must be null or owned by the caller, and `data` must be null or memory of this size from the
/// allocator.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_allocator_free(
    allocator: *const xffi_rt_allocator,
    data: *mut c_void,
    size: usize,
) {
    // SAFETY: guaranteed by the caller.
    let allocator = unsafe { allocator.as_ref() };
    if let Some(allocator) = allocator.filter(|_| !data.is_null()) {
        // SAFETY: guaranteed by the caller.
        unsafe { allocator.0.free(data, size) };
    }
}

/// Implements `xffi_rt_invocation_num_threads`.
///
/// # Safety
/// The invocation must be null or belong to the current call, and `out` must be null or valid for writing a number.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_num_threads(
    invocation: *const xffi_rt_invocation,
    out: *mut usize,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let found = unsafe { self::invocation(invocation) }?;
        let threads = found.num_threads()?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || threads) }
    })
}

/// Implements `xffi_rt_invocation_spawn`.
///
/// # Safety
/// The invocation must be null or belong to the current call. Any thread must be allowed to call `task` once with
/// `data`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_spawn(
    invocation: *const xffi_rt_invocation,
    task: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let found = unsafe { self::invocation(invocation) }?;
        // SAFETY: guaranteed by the caller.
        found.spawn(unsafe { crate::task(task, data) }?)
    })
}

/// Implements `xffi_rt_call_set_called_computation`.
///
/// # Safety
/// The pointers must meet the requirements in `invocation.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_called_computation(
    call: *mut xffi_rt_call,
    r#type: *const c_void,
    object: *mut c_void,
    deleter: Option<unsafe extern "C" fn(object: *mut c_void)>,
) -> *mut xffi_rt_status {
    if object.is_null() {
        return status_or_null(|| Err(null("object")));
    }
    let deleter: Option<Deleter> = deleter;
    // The object is only wrapped when the call accepts it, because after an error the caller keeps ownership.
    let carried = OnceCell::new();
    let set = |to: &mut host::Settings<'_>| {
        let new = || Arc::new(Carried::new(r#type, object, deleter));
        to.called_computation(carried.get_or_init(new).clone());
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, set) }
}

/// Implements `xffi_rt_invocation_called`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_called(
    invocation: *const xffi_rt_invocation,
    r#type: *const c_void,
) -> *const c_void {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { self::invocation(invocation) };
    let carried = found
        .ok()
        .and_then(|found| found.called_computation::<Carried>());
    let object = carried.and_then(|carried| carried.object(r#type));
    object.unwrap_or(std::ptr::null_mut()).cast_const()
}

/// Returns the called computations and the literal of a program's call; `None` for other calls.
///
/// # Safety
/// The invocation must be null or belong to the current call.
unsafe fn called<'a>(pointer: *const xffi_rt_invocation) -> Result<Option<&'a Called>> {
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { invocation(pointer) }?.called_computation())
}

/// Implements `xffi_rt_invocation_called_count`.
///
/// # Safety
/// The invocation must be null or belong to the current call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_called_count(
    invocation: *const xffi_rt_invocation,
) -> usize {
    // SAFETY: guaranteed by the caller.
    let called = unsafe { called(invocation) }.ok().flatten();
    called.map_or(0, |called| called.computations().len())
}

/// Implements `xffi_rt_invocation_called_program`.
///
/// # Safety
/// The invocation must be null or belong to the current call, and `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_called_program(
    invocation: *const xffi_rt_invocation,
    index: usize,
    out: *mut *mut xffi_rt_program,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let computations = unsafe { called(invocation) }?.map_or(&[][..], Called::computations);
        let program = computations.get(index).ok_or_else(|| {
            let count = computations.len();
            let why = format!("computation {index} is asked for, the call has {count}");
            Error::new(ErrorCode::OutOfRange, why)
        })?;
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, xffi_rt_program(program.clone())) }
    })
}

/// Implements `xffi_rt_invocation_literal`.
///
/// # Safety
/// The invocation must be null or belong to the current call, and `out` must be null or valid for writing an array.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_invocation_literal(
    invocation: *const xffi_rt_invocation,
    out: *mut xffi_rt_array,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let literal = unsafe { called(invocation) }?.and_then(Called::literal);
        let literal =
            literal.ok_or_else(|| Error::new(ErrorCode::NotFound, "the call has no literal"))?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || xffi_rt_array::of(literal)) }
    })
}
