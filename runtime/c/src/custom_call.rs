//! The function of `program.h` that adds custom calls to builders.

use crate::builder::{build, non_negative, shape, tensor, xffi_rt_builder, xffi_rt_op};
use crate::program::xffi_rt_program;
use crate::status::xffi_rt_status;
use crate::{list, object, optional_text, text};
use host::{Error, Result};
use std::ffi::{c_char, c_int, c_void};
use xla_ffi_programs::{ApiVersion, Builder, CustomCall, Program, Schedule};

// The numbers in `xffi_rt_custom_call`. They are literals, because cbindgen does not resolve paths.
pub(crate) const XFFI_RT_API_ORIGINAL: c_int = 1;
pub(crate) const XFFI_RT_API_STATUS_RETURNING: c_int = 2;
pub(crate) const XFFI_RT_API_STATUS_RETURNING_UNIFIED: c_int = 3;
pub(crate) const XFFI_RT_API_TYPED_FFI: c_int = 4;
pub(crate) const XFFI_RT_SCHEDULE_NONE: c_int = 0;
pub(crate) const XFFI_RT_SCHEDULE_LATEST: c_int = 1;
pub(crate) const XFFI_RT_SCHEDULE_EARLIEST: c_int = 2;

const _: () = {
    assert!(XFFI_RT_API_ORIGINAL == ApiVersion::Original as c_int);
    assert!(XFFI_RT_API_STATUS_RETURNING == ApiVersion::StatusReturning as c_int);
    assert!(XFFI_RT_API_STATUS_RETURNING_UNIFIED == ApiVersion::StatusReturningUnified as c_int);
    assert!(XFFI_RT_API_TYPED_FFI == ApiVersion::TypedFfi as c_int);
    assert!(ApiVersion::ALL.len() == 4);
    assert!(XFFI_RT_SCHEDULE_NONE == Schedule::None as c_int);
    assert!(XFFI_RT_SCHEDULE_LATEST == Schedule::Latest as c_int);
    assert!(XFFI_RT_SCHEDULE_EARLIEST == Schedule::Earliest as c_int);
};

/// `xffi_rt_alias` in C: an array in the result that shares memory with an array in an operand.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_alias {
    output: *const i64,
    output_size: usize,
    operand: i64,
    operand_index: *const i64,
    operand_index_size: usize,
}

/// `xffi_rt_custom_call` in C: the description of a custom call.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_custom_call {
    struct_size: usize,
    name: *const c_char,
    target: *const c_char,
    operands: *const xffi_rt_op,
    operand_count: usize,
    shape: *const c_char,
    operand_layouts: *const *const c_char,
    operand_layout_count: usize,
    opaque: *const c_char,
    opaque_size: usize,
    has_side_effect: c_int,
    aliases: *const xffi_rt_alias,
    alias_count: usize,
    literal_shape: *const c_char,
    literal: *const c_void,
    literal_size: usize,
    schedule: c_int,
    api_version: c_int,
    called: *const *const xffi_rt_program,
    called_count: usize,
}

const _: () = assert!(size_of::<xffi_rt_custom_call>() == 152);
const _: () = assert!(size_of::<xffi_rt_alias>() == 40);

/// Converts a path of tuple indices.
///
/// # Safety
/// The requirements of [`list`] apply.
unsafe fn path(pointer: *const i64, count: usize, what: &str) -> Result<Vec<usize>> {
    // SAFETY: guaranteed by the caller.
    let indices = unsafe { list(pointer, count, what) }?;
    indices
        .iter()
        .map(|&index| non_negative(index, what))
        .collect()
}

/// Implements `xffi_rt_builder_custom_call`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_custom_call(
    builder: *mut xffi_rt_builder,
    call: *const xffi_rt_custom_call,
    out: *mut xffi_rt_op,
) -> *mut xffi_rt_status {
    let body = |builder: &mut Builder| {
        // SAFETY: guaranteed by the caller.
        let call = unsafe { object(call, "call") }?;
        // SAFETY: guaranteed by the caller.
        Ok(builder.custom_call(unsafe { custom_call(call) }?))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { build(builder, out, body) }
}

/// Converts the caller's description of a custom call.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
unsafe fn custom_call(call: &xffi_rt_custom_call) -> Result<CustomCall> {
    if call.struct_size != size_of::<xffi_rt_custom_call>() {
        return Err(Error::invalid_argument(format!(
            "the call's struct_size is {}, {} is expected: begin with XFFI_RT_CUSTOM_CALL_INIT",
            call.struct_size,
            size_of::<xffi_rt_custom_call>()
        )));
    }
    let version = ApiVersion::from_number(call.api_version).ok_or_else(|| {
        Error::invalid_argument(format!(
            "api_version {}: there are 1 to 4",
            call.api_version
        ))
    })?;
    let schedule = Schedule::from_raw(call.schedule).ok_or_else(|| {
        Error::invalid_argument(format!("schedule {}: there are 0 to 2", call.schedule))
    })?;
    // SAFETY: guaranteed by the caller.
    let operands = unsafe { list(call.operands, call.operand_count, "operands") }?;
    // SAFETY: guaranteed by the caller.
    let target = unsafe { text(call.target, "target") }?;
    // SAFETY: guaranteed by the caller.
    let result = unsafe { shape(call.shape) }?;
    let operands: Vec<_> = operands.iter().map(|op| op.op()).collect();
    // SAFETY: guaranteed by the caller.
    let opaque = unsafe { list(call.opaque.cast::<u8>(), call.opaque_size, "opaque") }?;
    let mut built = CustomCall::legacy(version, target, operands, result)
        .opaque(opaque)
        .schedule(schedule);
    if call.has_side_effect != 0 {
        built = built.with_side_effect();
    }
    // SAFETY: guaranteed by the caller.
    if let Some(name) = unsafe { optional_text(call.name, "name") }? {
        if !name.is_empty() {
            built = built.named(name);
        }
    }
    if !call.operand_layouts.is_null() || call.operand_layout_count > 0 {
        // SAFETY: guaranteed by the caller.
        let layouts = unsafe { list(call.operand_layouts, call.operand_layout_count, "layouts") }?;
        let layouts = layouts
            .iter()
            // SAFETY: guaranteed by the caller.
            .map(|text| unsafe { shape(*text) })
            .collect::<Result<Vec<_>>>()?;
        built = built.operand_layouts(layouts);
    }
    // SAFETY: guaranteed by the caller.
    for alias in unsafe { list(call.aliases, call.alias_count, "aliases") }? {
        // SAFETY: guaranteed by the caller.
        let output = unsafe { path(alias.output, alias.output_size, "output") }?;
        // SAFETY: guaranteed by the caller.
        let index = unsafe {
            path(
                alias.operand_index,
                alias.operand_index_size,
                "operand_index",
            )
        }?;
        let operand = non_negative(alias.operand, "the aliased operand")?;
        built = built.alias(output, operand, index);
    }
    if call.literal_shape.is_null() && (!call.literal.is_null() || call.literal_size > 0) {
        return Err(crate::null("literal_shape"));
    }
    if !call.literal_shape.is_null() {
        // SAFETY: guaranteed by the caller.
        let literal = unsafe { tensor(call.literal_shape, call.literal, call.literal_size) }?;
        built = built.literal(literal);
    }
    // SAFETY: guaranteed by the caller.
    for called in unsafe { list(call.called, call.called_count, "called") }? {
        // SAFETY: guaranteed by the caller.
        let called: &Program = &unsafe { object(*called, "a called program") }?.0;
        built = built.called_computation(called.clone());
    }
    Ok(built)
}
