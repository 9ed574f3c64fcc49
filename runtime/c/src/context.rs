//! The context of a call's runs to come, and user data.

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

/// Changes the context of the runs to come.
///
/// # Safety
/// The call is null or the caller's.
pub(crate) unsafe fn change(
    call: *mut xffi_rt_call,
    change: impl Fn(&mut Settings<'_>) -> Result<()>,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    status_or_null(|| unsafe { crate::call::change(call, change) })
}

/// `xffi_rt_call_set_run_id`.
///
/// # Safety
/// The call is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_run_id(
    call: *mut xffi_rt_call,
    run_id: i64,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    unsafe { change(call, |to| Ok(_ = to.run_id(run_id))) }
}

/// `xffi_rt_call_set_device_ordinal`.
///
/// # Safety
/// The call is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_device_ordinal(
    call: *mut xffi_rt_call,
    ordinal: i32,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    unsafe { change(call, |to| Ok(_ = to.device_ordinal(ordinal))) }
}

/// `xffi_rt_call_set_stream`.
///
/// # Safety
/// The call is null or the caller's; the stream outlives its runs.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_stream(
    call: *mut xffi_rt_call,
    stream: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    let stream = unsafe { crate::stream::stream_from_handle(stream) };
    // SAFETY: as promised by the caller.
    unsafe { change(call, |to| Ok(_ = to.stream(stream.clone()))) }
}

/// `xffi_rt_call_set_time_limit`.
///
/// # Safety
/// The call is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_time_limit(
    call: *mut xffi_rt_call,
    milliseconds: i64,
) -> *mut xffi_rt_status {
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: as promised by the caller.
    unsafe { change(call, |to| Ok(_ = to.time_limit(limit))) }
}

/// What the flags of the C API say.
pub(crate) fn unwritten(check: c_int) -> Unwritten {
    if check == 0 {
        Unwritten::Allowed
    } else {
        Unwritten::Refused
    }
}

/// `xffi_rt_call_set_check_unwritten`.
///
/// # Safety
/// The call is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_check_unwritten(
    call: *mut xffi_rt_call,
    check: c_int,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    unsafe { change(call, |to| Ok(_ = to.unwritten(unwritten(check)))) }
}

/// `xffi_rt_call_set_user_data`.
///
/// # Safety
/// The call and the data are null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_user_data(
    call: *mut xffi_rt_call,
    data: *const xffi_rt_user_data,
) -> *mut xffi_rt_status {
    let user_data = |to: &mut Settings<'_>| {
        // SAFETY: as promised by the caller.
        let data = unsafe { object(data, "data") }?;
        to.user_data(data.shared()).map(drop)
    };
    // SAFETY: as promised by the caller.
    unsafe { change(call, user_data) }
}

/// `xffi_rt_call_set_custom_options`.
///
/// # Safety
/// The call is null or the caller's, the options null or a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_custom_options(
    call: *mut xffi_rt_call,
    options: *const c_char,
) -> *mut xffi_rt_status {
    let custom_options = |to: &mut Settings<'_>| {
        // SAFETY: as promised by the caller.
        let options = unsafe { text(options, "options") }?;
        to.custom_options(&Attributes::parse(options)?);
        Ok(())
    };
    // SAFETY: as promised by the caller.
    unsafe { change(call, custom_options) }
}

/// `xffi_rt_call_set_allocator`.
///
/// # Safety
/// The call is null or the caller's; the functions may be called from any thread with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_allocator(
    call: *mut xffi_rt_call,
    allocate: Option<unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void>,
    free: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
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

/// Scratch memory of the caller's.
struct Scratch {
    allocate: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
    user: *mut c_void,
}

// SAFETY: the contract of `xffi_rt_call_set_allocator`: any thread may call the functions.
unsafe impl Send for Scratch {}
// SAFETY: as above, several at once.
unsafe impl Sync for Scratch {}

// SAFETY: the contract of `xffi_rt_call_set_allocator`: its functions give and take such memory.
unsafe impl DeviceAllocator for Scratch {
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void> {
        // SAFETY: as promised by the caller of `xffi_rt_call_set_allocator`.
        let data = unsafe { (self.allocate)(self.user, size, alignment) };
        (!data.is_null()).then_some(data)
    }

    unsafe fn free(&self, data: *mut c_void, size: usize) {
        // SAFETY: as above; the caller promises that `allocate` gave it.
        unsafe { (self.free)(self.user, data, size) };
    }
}

/// `xffi_rt_call_set_executor`.
///
/// # Safety
/// The call is null or the caller's; `execute` may be called from any thread with `user`.
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
    // SAFETY: as promised by the caller.
    unsafe { change(call, set) }
}

/// Threads of the caller's.
struct Threads {
    execute:
        unsafe extern "C" fn(*mut c_void, Option<unsafe extern "C" fn(*mut c_void)>, *mut c_void),
    num_threads: usize,
    user: *mut c_void,
}

// SAFETY: the contract of `xffi_rt_call_set_executor`: any thread may call the function.
unsafe impl Send for Threads {}
// SAFETY: as above, several at once.
unsafe impl Sync for Threads {}

type Task = Box<dyn FnOnce() + Send>;

/// What the caller's function is given to run.
///
/// # Safety
/// The data is a boxed task, and this is called once with it.
unsafe extern "C" fn run_task(data: *mut c_void) {
    // SAFETY: as promised by the caller.
    let task = unsafe { Box::from_raw(data.cast::<Task>()) };
    task();
}

impl Executor for Threads {
    fn execute(&self, task: Task) {
        let data = Box::into_raw(Box::new(task)).cast();
        // SAFETY: as promised by the caller of `xffi_rt_call_set_executor`.
        unsafe { (self.execute)(self.user, Some(run_task), data) };
    }

    fn num_threads(&self) -> usize {
        self.num_threads
    }
}

/// `xffi_rt_user_data`.
#[derive(Debug)]
pub(crate) struct xffi_rt_user_data(Arc<UserData>);

impl xffi_rt_user_data {
    /// The same objects, for a call.
    pub(crate) fn shared(&self) -> Arc<UserData> {
        self.0.clone()
    }
}

/// `xffi_rt_user_data_create`.
///
/// # Safety
/// The runtime is null or the caller's, `out` null or room for a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_user_data_create(
    runtime: *const xffi_rt,
    out: *mut *mut xffi_rt_user_data,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let runtime = &unsafe { object(runtime, "runtime") }?.0;
        let data = xffi_rt_user_data(Arc::new(UserData::new(runtime)));
        // SAFETY: as promised by the caller.
        unsafe { hand_over(out, data) }
    })
}

/// `xffi_rt_user_data_add`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_user_data_add(
    data: *mut xffi_rt_user_data,
    name: *const c_char,
    size: usize,
    object: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let data = unsafe { object_mut(data, "data") }?;
        // SAFETY: as promised by the caller.
        let name = unsafe { text(name, "name") }?;
        let objects = Arc::get_mut(&mut data.0).ok_or_else(|| {
            Error::new(
                ErrorCode::FailedPrecondition,
                "calls have this user data already: add every object before",
            )
        })?;
        // SAFETY: as promised by the caller.
        unsafe { objects.insert_raw(name, size, object, deleter) }
    })
}

/// `xffi_rt_user_data_destroy`.
///
/// # Safety
/// The data is null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn xffi_rt_user_data_destroy(data: *mut xffi_rt_user_data) {
    // SAFETY: as promised by the caller.
    unsafe { take_back(data) };
}
