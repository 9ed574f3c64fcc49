//! The functions of `runtime.h` for calls on memory of the caller.

mod dlpack;
use crate::runtime::xffi_rt;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, list, object, object_mut, optional_text, take_back, text};
use host::{
    Attributes, Call, CallFrame, DType, Error, ErrorCode, PreparedCall, Result, Runtime, Settings,
    Shape,
};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;
use xla_ffi_sys::XLA_FFI_DataType;

/// `xffi_rt_call` in C: a call of a handler.
#[derive(Debug)]
pub(crate) struct xffi_rt_call {
    runtime: Runtime,
    /// The context of the next run. The operands are in the fields `args` and `rets`.
    call: Call,
    prepared: Option<PreparedCall>,
    args: Side,
    rets: Side,
    /// Whether data pointers were replaced after the last run.
    stale: bool,
    /// Whether the operands were replaced after the last run.
    reshaped: bool,
}

/// Changes the context of the next runs.
///
/// # Safety
/// The call must be null or owned by the caller.
pub(crate) unsafe fn change(
    call: *mut xffi_rt_call,
    change: impl Fn(&mut Settings<'_>) -> Result<()>,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let call = unsafe { object_mut(call, "call") }?;
    call.check_closed()?;
    if let Some(prepared) = &mut call.prepared {
        change(&mut prepared.settings()?)?;
    }
    // Clones of the call, and its first run, use these settings.
    change(&mut call.call.settings())
}

impl xffi_rt_call {
    fn check_closed(&self) -> Result<()> {
        if self.prepared.as_ref().is_some_and(PreparedCall::is_open) {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "the call is open: its context and its operands are the handler's until it is over",
            ));
        }
        Ok(())
    }

    /// Prepares the call with its current settings and operands.
    ///
    /// # Safety
    /// The operands' data must meet the requirements in `runtime.h`.
    unsafe fn ready(&mut self) -> Result<&mut PreparedCall> {
        let frame = || {
            let (args, rets) = (self.args.operands(), self.rets.operands());
            CallFrame::new(self.runtime.revision(), &args, &rets)
        };
        let prepared = match &mut self.prepared {
            // SAFETY: the caller keeps the operands' data until the execution is over.
            place @ None => place.insert(unsafe { self.call.clone().prepare_on(frame()?) }?),
            Some(prepared) => {
                if self.reshaped {
                    // SAFETY: the caller keeps the operands' data until the execution is over.
                    unsafe { prepared.set_frame(frame()?) }?;
                } else if self.stale {
                    // SAFETY: the caller keeps the operands' data until the execution is over. While an execution is
                    // open, `update` returns an error.
                    unsafe { prepared.update(&self.args.data, &self.rets.data) }?;
                }
                prepared
            }
        };
        (self.stale, self.reshaped) = (false, false);
        Ok(prepared)
    }
}

/// The arguments or the results of a call: their shapes, and their addresses in the caller's memory.
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

/// Implements `xffi_rt_call_create`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_create(
    runtime: *mut xffi_rt,
    name: *const c_char,
    platform: *const c_char,
    attributes: *const c_char,
    out: *mut *mut xffi_rt_call,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let runtime = unsafe { object(runtime, "runtime") }?.0.clone();
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: guaranteed by the caller.
        let platform = unsafe { text(platform, "platform") }?;
        // SAFETY: guaranteed by the caller.
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
            reshaped: false,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, call) }
    })
}

/// Implements `xffi_rt_call_destroy`.
///
/// # Safety
/// The call must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_destroy(call: *mut xffi_rt_call) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(call) };
}

unsafe fn operand(
    call: *mut xffi_rt_call,
    side: fn(&mut xffi_rt_call) -> &mut Side,
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *mut c_void,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let call = unsafe { call_for_operands(call) }?;
    // SAFETY: guaranteed by the caller.
    add(side(call), unsafe { shape_of(dtype, rank, dims) }?, data)
}

/// Returns the shape with the given element type and dimensions.
///
/// # Safety
/// `dims` must be null or point to `rank` numbers.
pub(crate) unsafe fn shape_of(
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
) -> Result<Shape> {
    let dtype = DType::from_raw(dtype)
        .ok_or_else(|| Error::invalid_argument(format!("{} is not an element type", dtype.0)))?;
    // The rank is checked before the dimensions are read, because arrays have at most this rank.
    let rank = usize::try_from(rank)
        .ok()
        .filter(|rank| *rank <= Shape::MAX_RANK)
        .ok_or_else(|| {
            let most = Shape::MAX_RANK;
            Error::invalid_argument(format!("the rank is {rank}, there are 0 to {most}"))
        })?;
    // SAFETY: guaranteed by the caller.
    Shape::new(dtype, unsafe { list(dims, rank, "dims") }?)
}

fn add(side: &mut Side, shape: Shape, data: *mut c_void) -> Result<()> {
    if data.is_null() && shape.bytes() > 0 {
        return Err(crate::null("data"));
    }
    side.shapes.push(shape);
    side.data.push(data);
    Ok(())
}

/// Returns a call whose operands may change, or an error while the call is open.
///
/// # Safety
/// The call must be null or owned by the caller.
unsafe fn call_for_operands<'c>(call: *mut xffi_rt_call) -> Result<&'c mut xffi_rt_call> {
    // SAFETY: guaranteed by the caller.
    let call = unsafe { object_mut(call, "call") }?;
    if call.prepared.is_some() && !call.reshaped {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            "operands are added before the first run, or after xffi_rt_call_clear_operands",
        ));
    }
    Ok(call)
}

/// Implements `xffi_rt_call_clear_operands`.
///
/// # Safety
/// The call must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_clear_operands(
    call: *mut xffi_rt_call,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object_mut(call, "call") }?;
        call.check_closed()?;
        (call.args, call.rets) = (Side::default(), Side::default());
        call.reshaped = true;
        Ok(())
    })
}

/// Implements `xffi_rt_call_arg`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_arg(
    call: *mut xffi_rt_call,
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { operand(call, |call| &mut call.args, dtype, rank, dims, data) })
}

/// Implements `xffi_rt_call_ret`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_ret(
    call: *mut xffi_rt_call,
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { operand(call, |call| &mut call.rets, dtype, rank, dims, data) })
}

unsafe fn set_data(
    call: *mut xffi_rt_call,
    side: fn(&mut xffi_rt_call) -> &mut Side,
    index: usize,
    data: *mut c_void,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let call = unsafe { object_mut(call, "call") }?;
    let operands = side(call);
    let count = operands.data.len();
    let Some(slot) = operands.data.get_mut(index) else {
        return Err(Error::new(
            ErrorCode::OutOfRange,
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

/// Implements `xffi_rt_call_set_arg_data`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_arg_data(
    call: *mut xffi_rt_call,
    index: usize,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { set_data(call, |call| &mut call.args, index, data) })
}

/// Implements `xffi_rt_call_set_ret_data`.
///
/// # Safety
/// The pointers must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_set_ret_data(
    call: *mut xffi_rt_call,
    index: usize,
    data: *mut c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { set_data(call, |call| &mut call.rets, index, data) })
}

/// Implements `xffi_rt_call_is_open`.
///
/// # Safety
/// The call must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_is_open(call: *const xffi_rt_call) -> c_int {
    // SAFETY: guaranteed by the caller.
    let call = unsafe { call.as_ref() };
    let prepared = call.and_then(|call| call.prepared.as_ref());
    prepared.is_some_and(PreparedCall::is_open).into()
}

/// Implements `xffi_rt_call_wait`.
///
/// # Safety
/// The call must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_wait(
    call: *mut xffi_rt_call,
    milliseconds: i64,
) -> *mut xffi_rt_status {
    let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object_mut(call, "call") }?;
        match &mut call.prepared {
            Some(prepared) => prepared.wait_for(limit),
            None => Ok(()),
        }
    })
}

/// Implements `xffi_rt_call_on_end`.
///
/// # Safety
/// The call must be null or owned by the caller. Any thread must be allowed to call `callback` once with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_on_end(
    call: *mut xffi_rt_call,
    callback: Option<unsafe extern "C" fn(*mut c_void)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object_mut(call, "call") }?;
        // SAFETY: guaranteed by the caller.
        let told = unsafe { crate::task(callback, user) }?;
        match &call.prepared {
            Some(prepared) if prepared.is_open() => prepared.on_end(told),
            _ => told(),
        }
        Ok(())
    })
}

/// Implements `xffi_rt_call_run`.
///
/// # Safety
/// The call must be null or owned by the caller. The operands' data must meet the requirements in `runtime.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_run(call: *mut xffi_rt_call) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object_mut(call, "call") }?;
        // SAFETY: guaranteed by the caller.
        unsafe { call.ready() }?.invoke()
    })
}

/// Implements `xffi_rt_call_start`.
///
/// # Safety
/// The requirements of [`xffi_rt_call_run`] apply.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_start(call: *mut xffi_rt_call) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object_mut(call, "call") }?;
        // SAFETY: guaranteed by the caller.
        unsafe { call.ready() }?.start().map(|_| ())
    })
}

/// Implements `xffi_rt_call_run_async`.
///
/// # Safety
/// The requirements of [`xffi_rt_call_run`] apply. Any thread must be allowed to call `callback` once with `user`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_run_async(
    call: *mut xffi_rt_call,
    callback: Option<unsafe extern "C" fn(*mut c_void)>,
    user: *mut c_void,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object_mut(call, "call") }?;
        // SAFETY: guaranteed by the caller.
        let told = unsafe { crate::task(callback, user) }?;
        // SAFETY: guaranteed by the caller.
        let prepared = unsafe { call.ready() }?;
        prepared.start()?;
        prepared.on_end_or_limit(told)
    })
}

/// Implements `xffi_rt_call_clone`.
///
/// # Safety
/// The call must be null or owned by the caller, and `out` must be null or valid for writing a pointer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_clone(
    call: *const xffi_rt_call,
    out: *mut *mut xffi_rt_call,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object(call, "call") }?;
        let clone = xffi_rt_call {
            runtime: call.runtime.clone(),
            call: call.call.clone(),
            prepared: None,
            args: call.args.clone(),
            rets: call.rets.clone(),
            stale: false,
            reshaped: false,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, clone) }
    })
}
