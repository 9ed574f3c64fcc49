//! The functions of `runtime.h` for the context of a call's next runs, and for user data.

use crate::call::xffi_rt_call;
use crate::runtime::{known_threads, xffi_rt};
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, object, object_mut, take_back, text};
use host::{
    Attributes, DeviceAllocator, Error, ErrorCode, Executor, Result, Settings, Unwritten, UserData,
};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

/// Changes the context of a call's next runs, and returns the status.
///
/// # Safety
/// The call must be null or owned by the caller.
pub(crate) unsafe fn change(
    call: *mut xffi_rt_call,
    change: impl Fn(&mut Settings<'_>) -> Result<()>,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { crate::call::change(call, change) })
}

/// Implements `xffi_rt_call_set_run_id`.
///
/// # Safety
/// The call must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_run_id(
    call: *mut xffi_rt_call,
    run_id: i64,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, |to| Ok(_ = to.run_id(run_id))) }
}

/// Implements `xffi_rt_call_set_device_ordinal`.
///
/// # Safety
/// The call must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_device_ordinal(
    call: *mut xffi_rt_call,
    ordinal: i32,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, |to| Ok(_ = to.device_ordinal(ordinal))) }
}

/// Implements `xffi_rt_call_set_stream`.
///
/// # Safety
/// The call must be null or owned by the caller; the stream must outlive the runs of the call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_stream(
    call: *mut xffi_rt_call,
    stream: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    let stream = unsafe { crate::stream::stream_from_handle(stream) };
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, |to| Ok(_ = to.stream(stream.clone()))) }
}

/// Implements `xffi_rt_call_set_time_limit`.
///
/// # Safety
/// The call must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_time_limit(
    call: *mut xffi_rt_call,
    milliseconds: i64,
) -> *mut xffi_rt_status {
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, |to| Ok(_ = to.time_limit(limit))) }
}

/// Converts the flag `check` of the C functions.
pub(crate) fn unwritten(check: c_int) -> Unwritten {
    if check == 0 {
        Unwritten::Allowed
    } else {
        Unwritten::Refused
    }
}

/// Implements `xffi_rt_call_set_check_unwritten`.
///
/// # Safety
/// The call must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_check_unwritten(
    call: *mut xffi_rt_call,
    check: c_int,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, |to| Ok(_ = to.unwritten(unwritten(check)))) }
}

/// Implements `xffi_rt_call_set_user_data`.
///
/// # Safety
/// The call and the data must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_user_data(
    call: *mut xffi_rt_call,
    data: *const xffi_rt_user_data,
) -> *mut xffi_rt_status {
    let user_data = |to: &mut Settings<'_>| {
        // SAFETY: guaranteed by the caller.
        let data = unsafe { object(data, "data") }?;
        to.user_data(data.shared()).map(drop)
    };
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, user_data) }
}

/// Implements `xffi_rt_call_set_custom_options`.
///
/// # Safety
/// The call must be null or owned by the caller, and the options must be null or a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_custom_options(
    call: *mut xffi_rt_call,
    options: *const c_char,
) -> *mut xffi_rt_status {
    let custom_options = |to: &mut Settings<'_>| {
        // SAFETY: guaranteed by the caller.
        let options = unsafe { text(options, "options") }?;
        to.custom_options(&Attributes::parse(options)?);
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, custom_options) }
}

/// Implements `xffi_rt_call_set_allocator`.
///
/// # Safety
/// The call must be null or owned by the caller. Any thread must be allowed to call the functions with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_allocator(
    call: *mut xffi_rt_call,
    allocate: Option<unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void>,
    free: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe {
        change(call, |to| {
            let allocate = allocate.ok_or_else(|| crate::null("allocate"))?;
            let free = free.ok_or_else(|| crate::null("free"))?;
            let scratch: Arc<dyn DeviceAllocator> = Arc::new(Scratch {
                allocate,
                free,
                user,
            });
            to.allocator(scratch);
            Ok(())
        })
    }
}

/// The caller's allocator for scratch memory: two functions, and a pointer that they receive.
struct Scratch {
    allocate: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
    user: *mut c_void,
}

// SAFETY: the contract of `xffi_rt_call_set_allocator` allows any thread to call the functions.
unsafe impl Send for Scratch {}
// SAFETY: the contract of `xffi_rt_call_set_allocator` allows several threads at once to call the functions.
unsafe impl Sync for Scratch {}

// SAFETY: the contract of `xffi_rt_call_set_allocator` requires functions that allocate and free such memory.
unsafe impl DeviceAllocator for Scratch {
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void> {
        // SAFETY: guaranteed by the caller of `xffi_rt_call_set_allocator`.
        let data = unsafe { (self.allocate)(self.user, size, alignment) };
        (!data.is_null()).then_some(data)
    }

    unsafe fn free(&self, data: *mut c_void, size: usize) {
        // SAFETY: guaranteed by the caller of `xffi_rt_call_set_allocator`. `allocate` returned the memory, as
        // guaranteed by the caller of `free`.
        unsafe { (self.free)(self.user, data, size) };
    }
}

/// Implements `xffi_rt_call_set_executor`.
///
/// # Safety
/// The call must be null or owned by the caller. Any thread must be allowed to call `execute` with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_executor(
    call: *mut xffi_rt_call,
    execute: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            task: Option<unsafe extern "C" fn(*mut c_void)>,
            data: *mut c_void,
        ),
    >,
    num_threads: usize,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    let set = |to: &mut Settings<'_>| {
        let Some(execute) = execute else {
            to.executor(None);
            return Ok(());
        };
        let threads: Arc<dyn Executor> = Arc::new(Threads {
            execute,
            num_threads: known_threads(num_threads)?,
            user,
        });
        to.executor(threads);
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { change(call, set) }
}

/// The caller's executor, which runs tasks on threads of the caller.
struct Threads {
    execute:
        unsafe extern "C" fn(*mut c_void, Option<unsafe extern "C" fn(*mut c_void)>, *mut c_void),
    num_threads: usize,
    user: *mut c_void,
}

// SAFETY: the contract of `xffi_rt_call_set_executor` allows any thread to call the function.
unsafe impl Send for Threads {}
// SAFETY: the contract of `xffi_rt_call_set_executor` allows several threads at once to call the function.
unsafe impl Sync for Threads {}

type Task = Box<dyn FnOnce() + Send>;

/// Runs a task. The caller's `execute` receives this function and the boxed task.
///
/// # Safety
/// `data` must be a boxed task that was not run before.
unsafe extern "C" fn run_task(data: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    let task = unsafe { Box::from_raw(data.cast::<Task>()) };
    task();
}

impl Executor for Threads {
    fn execute(&self, task: Task) {
        let data = Box::into_raw(Box::new(task)).cast();
        // SAFETY: guaranteed by the caller of `xffi_rt_call_set_executor`.
        unsafe { (self.execute)(self.user, Some(run_task), data) };
    }

    fn num_threads(&self) -> usize {
        self.num_threads
    }
}

/// `xffi_rt_user_data` in C: objects for handlers.
#[derive(Debug)]
pub(crate) struct xffi_rt_user_data(Arc<UserData>);

impl xffi_rt_user_data {
    /// Returns a reference to the user data, for a call.
    pub(crate) fn shared(&self) -> Arc<UserData> {
        self.0.clone()
    }
}

/// Implements `xffi_rt_user_data_create`.
///
/// # Safety
/// The runtime must be null or owned by the caller, and `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_user_data_create(
    runtime: *const xffi_rt,
    out: *mut *mut xffi_rt_user_data,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = &unsafe { object(runtime, "runtime") }?.0;
        let data = xffi_rt_user_data(Arc::new(UserData::new(runtime)));
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, data) }
    })
}

/// Implements `xffi_rt_user_data_add`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_user_data_add(
    data: *mut xffi_rt_user_data,
    name: *const c_char,
    size: usize,
    object: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let data = unsafe { object_mut(data, "data") }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        let objects = Arc::get_mut(&mut data.0).ok_or_else(|| {
            Error::new(
                ErrorCode::FailedPrecondition,
                "calls have this user data already: add every object before",
            )
        })?;
        // SAFETY: guaranteed by the caller.
        unsafe { objects.insert_raw(name, size, object, deleter) }
    })
}

/// Implements `xffi_rt_user_data_destroy`.
///
/// # Safety
/// The data must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_user_data_destroy(data: *mut xffi_rt_user_data) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(data) };
}
