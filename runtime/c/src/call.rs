//! Calls on memory of the caller.

mod dlpack;
mod phase;
mod run;

use self::phase::idle;

use self::phase::{destroy, is_running};
use self::run::Running;
use crate::runtime::xffi_rt;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, object, optional_text, text};
use host::{Attributes, Call, Code, DType, Error, PreparedCall, Result, Runtime, Shape};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicU8;
use std::time::Duration;
use xla_ffi_sys::XLA_FFI_DataType;

/// `xffi_rt_call`.
#[derive(Debug)]
pub(crate) struct xffi_rt_call {
    runtime: Runtime,
    /// The context of the next run; its operands are below.
    call: Call,
    prepared: Option<PreparedCall>,
    args: Side,
    rets: Side,
    /// Whether data pointers were replaced since the last run.
    stale: bool,
    /// Whether the context was changed since the last run.
    changed: bool,
    /// Whether operands were taken away since the last run, and others added.
    reshaped: bool,
    /// What is done with it just now, see [`phase`](mod@phase). Read through pointers while other fields are borrowed.
    phase: AtomicU8,
}

/// Changes the context of the runs to come.
///
/// # Safety
/// The call is null or the caller's.
pub(crate) unsafe fn change(
    call: *mut xffi_rt_call,
    change: impl FnOnce(Call) -> Result<Call>,
) -> Result<()> {
    // SAFETY: as promised by the caller.
    let changed = unsafe { idle(call) }?;
    changed.check_closed()?;
    let new = change(changed.call.clone())?;
    let displaced = std::mem::replace(&mut changed.call, new);
    changed.changed = true;
    // Last, and the call is not borrowed any more: what goes with it has deleters of the program's, which may change
    // the call, run it or destroy it.
    drop(displaced);
    Ok(())
}

impl xffi_rt_call {
    fn check_closed(&self) -> Result<()> {
        if self.prepared.as_ref().is_some_and(PreparedCall::is_open) {
            return Err(Error::new(
                Code::FailedPrecondition,
                "the call is open: its context and its operands are the handler's until it is over",
            ));
        }
        Ok(())
    }
}

/// Operands: their shapes and where the caller keeps them.
#[derive(Clone, Debug, Default)]
struct Side {
    shapes: Vec<Shape>,
    data: Vec<*mut c_void>,
}

impl Side {
    fn operands(&self) -> Vec<(Shape, *mut c_void)> {
        self.shapes
            .iter()
            .cloned()
            .zip(self.data.iter().copied())
            .collect()
    }
}

/// `xffi_rt_call_create`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_create(
    runtime: *mut xffi_rt,
    name: *const c_char,
    platform: *const c_char,
    attributes: *const c_char,
    out: *mut *mut xffi_rt_call,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?.0.clone();
        // SAFETY: as promised by the caller.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as promised by the caller.
        let platform = unsafe { text(platform, "platform") }?;
        // SAFETY: as promised by the caller.
        let attributes = unsafe { optional_text(attributes, "attributes") }?.unwrap_or("{}");
        let attributes = Attributes::parse(attributes)?;
        let executable = runtime.find(name, platform)?.instantiate(&attributes)?;
        let call = xffi_rt_call {
            runtime,
            call: executable.call(),
            prepared: None,
            args: Side::default(),
            rets: Side::default(),
            stale: false,
            changed: false,
            reshaped: false,
            phase: AtomicU8::default(),
        };
        // SAFETY: as promised by the caller.
        unsafe { hand_over(out, call) }
    })
}

/// `xffi_rt_call_destroy`.
///
/// # Safety
/// The call is null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_destroy(call: *mut xffi_rt_call) {
    // SAFETY: as promised by the caller.
    unsafe { destroy(call) };
}

unsafe fn operand(
    call: *mut xffi_rt_call,
    side: fn(&mut xffi_rt_call) -> &mut Side,
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *mut c_void,
) -> Result<()> {
    // SAFETY: as promised by the caller.
    let call = unsafe { idle(call) }?;
    if call.prepared.is_some() && !call.reshaped {
        return Err(started());
    }
    // SAFETY: as promised by the caller.
    add(side(call), unsafe { shape_of(dtype, rank, dims) }?, data)
}

/// The shape that a caller's numbers say.
///
/// # Safety
/// The dimensions are null or as many as the rank says.
pub(crate) unsafe fn shape_of(
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
) -> Result<Shape> {
    let invalid = |message: String| Error::new(Code::InvalidArgument, message);
    let dtype = DType::from_raw(dtype)
        .ok_or_else(|| invalid(format!("{} is not an element type", dtype.0)))?;
    // Before the dimensions are read: no array has as many.
    let rank = usize::try_from(rank)
        .ok()
        .filter(|rank| *rank <= Shape::MAX_RANK)
        .ok_or_else(|| {
            let most = Shape::MAX_RANK;
            invalid(format!("the rank is {rank}, there are 0 to {most}"))
        })?;
    let dims: &[i64] = match (rank, dims.is_null()) {
        (0, _) => &[],
        (_, true) => return Err(crate::null("dims")),
        // SAFETY: as promised by the caller.
        _ => unsafe { std::slice::from_raw_parts(dims, rank) },
    };
    Shape::new(dtype, dims)
}

fn add(side: &mut Side, shape: Shape, data: *mut c_void) -> Result<()> {
    if data.is_null() && shape.bytes() > 0 {
        return Err(crate::null("data"));
    }
    side.shapes.push(shape);
    side.data.push(data);
    Ok(())
}

/// A call that takes operands.
///
/// # Safety
/// The call is null or the caller's.
unsafe fn taking<'c>(call: *mut xffi_rt_call) -> Result<&'c mut xffi_rt_call> {
    // SAFETY: as promised by the caller.
    let call = unsafe { idle(call) }?;
    if call.prepared.is_some() && !call.reshaped {
        return Err(started());
    }
    Ok(call)
}

fn started() -> Error {
    Error::new(
        Code::FailedPrecondition,
        "operands are added before the first run, or after xffi_rt_call_clear_operands",
    )
}

/// `xffi_rt_call_clear_operands`.
///
/// # Safety
/// The call is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_clear_operands(
    call: *mut xffi_rt_call,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let call = unsafe { idle(call) }?;
        call.check_closed()?;
        (call.args, call.rets) = (Side::default(), Side::default());
        call.reshaped = true;
        Ok(())
    })
}

/// `xffi_rt_call_arg`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_arg(
    call: *mut xffi_rt_call,
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    status_or_null(|| unsafe { operand(call, |call| &mut call.args, dtype, rank, dims, data) })
}

/// `xffi_rt_call_ret`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_ret(
    call: *mut xffi_rt_call,
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    status_or_null(|| unsafe { operand(call, |call| &mut call.rets, dtype, rank, dims, data) })
}

unsafe fn set_data(
    call: *mut xffi_rt_call,
    side: fn(&mut xffi_rt_call) -> &mut Side,
    index: usize,
    data: *mut c_void,
) -> Result<()> {
    // SAFETY: as promised by the caller.
    let call = unsafe { idle(call) }?;
    let operands = side(call);
    let count = operands.data.len();
    let Some(slot) = operands.data.get_mut(index) else {
        return Err(Error::new(
            Code::OutOfRange,
            format!("operand {index} is named, there are {count}"),
        ));
    };
    if data.is_null() && operands.shapes[index].bytes() > 0 {
        return Err(crate::null("data"));
    }
    *slot = data;
    call.stale = true;
    Ok(())
}

/// `xffi_rt_call_set_arg_data`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_arg_data(
    call: *mut xffi_rt_call,
    index: usize,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    status_or_null(|| unsafe { set_data(call, |call| &mut call.args, index, data) })
}

/// `xffi_rt_call_set_ret_data`.
///
/// # Safety
/// The pointers are as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_ret_data(
    call: *mut xffi_rt_call,
    index: usize,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: as promised by the caller.
    status_or_null(|| unsafe { set_data(call, |call| &mut call.rets, index, data) })
}

/// `xffi_rt_call_is_open`.
///
/// # Safety
/// The call is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_is_open(call: *const xffi_rt_call) -> c_int {
    // SAFETY: as promised by the caller.
    if unsafe { is_running(call) } {
        return 1;
    }
    // SAFETY: as promised by the caller, and nobody is at work on it.
    let call = unsafe { call.as_ref() };
    let prepared = call.and_then(|call| call.prepared.as_ref());
    prepared.is_some_and(PreparedCall::is_open).into()
}

/// `xffi_rt_call_wait`.
///
/// # Safety
/// The call is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_wait(
    call: *mut xffi_rt_call,
    milliseconds: i64,
) -> *mut xffi_rt_status {
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let mut running = unsafe { Running::new(call) }?;
        match running.prepared() {
            Some(prepared) => prepared.wait_for(limit),
            None => Ok(()),
        }
    })
}

/// A pointer of the caller on its way to the thread that ends a call.
struct User(*mut c_void);

// SAFETY: the contract of `xffi_rt_call_on_end`: any thread may call the callback with it.
unsafe impl Send for User {}

impl User {
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// `xffi_rt_call_on_end`.
///
/// # Safety
/// The call is null or the caller's; the callback may be called once with `user`, on any thread.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_on_end(
    call: *mut xffi_rt_call,
    callback: Option<unsafe extern "C" fn(*mut c_void)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let call = unsafe { idle(call) }?;
        let callback = callback.ok_or_else(|| crate::null("callback"))?;
        let user = User(user);
        // SAFETY: as promised by the caller.
        let told = move || unsafe { callback(user.pointer()) };
        match &call.prepared {
            Some(prepared) if prepared.is_open() => prepared.on_end(told),
            // Nothing is borrowed where it is told here and now.
            _ => told(),
        }
        Ok(())
    })
}

/// `xffi_rt_call_run`.
///
/// # Safety
/// The call is the caller's; its operands' data is as `runtime.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_run(call: *mut xffi_rt_call) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let mut running = unsafe { Running::new(call) }?;
        // SAFETY: as promised by the caller.
        unsafe { running.ready() }?.invoke()
    })
}

/// `xffi_rt_call_start`.
///
/// # Safety
/// As [`xffi_rt_call_run`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_start(call: *mut xffi_rt_call) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let mut running = unsafe { Running::new(call) }?;
        // SAFETY: as promised by the caller.
        unsafe { running.ready() }?.start().map(|_| ())
    })
}

/// `xffi_rt_call_clone`.
///
/// # Safety
/// The call is null or the caller's, `out` null or room for a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_clone(
    call: *const xffi_rt_call,
    out: *mut *mut xffi_rt_call,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        if call.is_null() {
            return Err(crate::null("call"));
        }
        // The caller's; where it runs, what is cloned here is read, too, and nothing of it is written.
        let clone = xffi_rt_call {
            // SAFETY: as above; this field alone is borrowed.
            runtime: unsafe { &(*call).runtime }.clone(),
            // SAFETY: as above.
            call: unsafe { &(*call).call }.clone(),
            prepared: None,
            // SAFETY: as above.
            args: unsafe { &(*call).args }.clone(),
            // SAFETY: as above.
            rets: unsafe { &(*call).rets }.clone(),
            stale: false,
            changed: false,
            reshaped: false,
            phase: AtomicU8::default(),
        };
        // SAFETY: as promised by the caller.
        unsafe { hand_over(out, clone) }
    })
}
