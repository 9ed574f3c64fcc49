//! The functions of `runtime.h` for operands as DLPack tensors.

use super::{Side, add, call_for_operands, xffi_rt_call};
use crate::object;
use crate::status::{status_or_null, xffi_rt_status};
use host::dlpack::{DLManagedTensorVersioned, DLTensor, describe, describe_versioned};
use host::{Error, Result};
use std::ffi::c_void;

unsafe fn operand_of_dlpack(
    call: *mut xffi_rt_call,
    side: fn(&mut xffi_rt_call) -> &mut Side,
    tensor: *const c_void,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let call = unsafe { call_for_operands(call) }?;
    // SAFETY: guaranteed by the caller.
    let tensor = unsafe { object(tensor.cast::<DLTensor>(), "tensor") }?;
    // SAFETY: guaranteed by the caller.
    let (shape, data) = unsafe { describe(tensor) }?;
    add(side(call), shape, data)
}

/// Implements `xffi_rt_call_arg_dlpack`.
///
/// # Safety
/// The call must be null or owned by the caller, and the tensor must be null or a `DLTensor`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_arg_dlpack(
    call: *mut xffi_rt_call,
    tensor: *const c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { operand_of_dlpack(call, |call| &mut call.args, tensor) })
}

/// Implements `xffi_rt_call_ret_dlpack`.
///
/// # Safety
/// The call must be null or owned by the caller, and the tensor must be null or a `DLTensor`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_ret_dlpack(
    call: *mut xffi_rt_call,
    tensor: *const c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe { operand_of_dlpack(call, |call| &mut call.rets, tensor) })
}

/// Whether a handler reads or writes the memory of an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

unsafe fn operand_of_versioned_dlpack(
    call: *mut xffi_rt_call,
    side: fn(&mut xffi_rt_call) -> &mut Side,
    managed: *const c_void,
    wanted: Use,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let call = unsafe { call_for_operands(call) }?;
    // SAFETY: guaranteed by the caller.
    let managed = unsafe { object(managed.cast::<DLManagedTensorVersioned>(), "managed") }?;
    // SAFETY: guaranteed by the caller.
    let (shape, data, read_only) = unsafe { describe_versioned(managed) }?;
    if read_only && wanted == Use::Write {
        return Err(Error::invalid_argument(format!(
            "a DLPack tensor {shape} that is read-only cannot be a result"
        )));
    }
    add(side(call), shape, data)
}

/// Implements `xffi_rt_call_arg_dlpack_versioned`.
///
/// # Safety
/// The call must be null or owned by the caller, and the tensor must be null or a
/// `DLManagedTensorVersioned`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_arg_dlpack_versioned(
    call: *mut xffi_rt_call,
    managed: *const c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe {
        operand_of_versioned_dlpack(call, |call| &mut call.args, managed, Use::Read)
    })
}

/// Implements `xffi_rt_call_ret_dlpack_versioned`.
///
/// # Safety
/// The requirements of [`xffi_rt_call_arg_dlpack_versioned`] apply.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_call_ret_dlpack_versioned(
    call: *mut xffi_rt_call,
    managed: *const c_void,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    status_or_null(|| unsafe {
        operand_of_versioned_dlpack(call, |call| &mut call.rets, managed, Use::Write)
    })
}
