//! The functions of `program.h` for verified programs.

use crate::status::{c_text, status_or_null, xffi_rt_status};
use crate::{object, take_back, write_out};
use host::{Error, ErrorCode, Result};
use std::ffi::{CString, c_char};
use xla_ffi_programs::Program;

/// `xffi_rt_program` in C: a verified program.
#[derive(Debug)]
pub(crate) struct xffi_rt_program(pub(crate) Program);
const _: () = crate::any_thread::<xffi_rt_program>();

/// Writes the address of a new C string to `out`. The caller becomes the owner.
///
/// # Safety
/// `out` must be null or valid for writing a pointer.
pub(crate) unsafe fn hand_over_text(out: *mut *mut c_char, text: &str) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { write_out(out, || c_text(text).into_raw()) }
}

/// Implements `xffi_rt_text_destroy`.
///
/// # Safety
/// `text` must be null or a string from this library, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_text_destroy(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: guaranteed by the caller.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Implements `xffi_rt_program_destroy`.
///
/// # Safety
/// The program must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_program_destroy(program: *mut xffi_rt_program) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(program) };
}

/// Writes a text about a program to `out` as a new C string.
///
/// # Safety
/// The program must be null or owned by the caller, and `out` must be null or valid for writing a pointer.
unsafe fn about(
    program: *const xffi_rt_program,
    out: *mut *mut c_char,
    text: impl FnOnce(&Program) -> Result<String>,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let program = &unsafe { object(program, "program") }?.0;
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over_text(out, &text(program)?) }
    })
}

/// Implements `xffi_rt_program_hlo`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_program_hlo(
    program: *const xffi_rt_program,
    out: *mut *mut c_char,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe { about(program, out, Program::to_hlo) }
}

/// Implements `xffi_rt_program_stablehlo`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_program_stablehlo(
    program: *const xffi_rt_program,
    out: *mut *mut c_char,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe { about(program, out, Program::to_stablehlo) }
}

/// Implements `xffi_rt_program_parameter_count`.
///
/// # Safety
/// The program must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_program_parameter_count(
    program: *const xffi_rt_program,
) -> usize {
    // SAFETY: guaranteed by the caller.
    let program = unsafe { program.as_ref() };
    program.map_or(0, |program| program.0.parameters().len())
}

/// Implements `xffi_rt_program_parameter_shape`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_program_parameter_shape(
    program: *const xffi_rt_program,
    number: usize,
    out: *mut *mut c_char,
) -> *mut xffi_rt_status {
    let text = |program: &Program| match program.parameters().nth(number) {
        Some((_, shape)) => Ok(shape.to_string()),
        None => Err(Error::new(
            ErrorCode::OutOfRange,
            format!(
                "parameter {number} is asked for, there are {}",
                program.parameters().len()
            ),
        )),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { about(program, out, text) }
}

/// Implements `xffi_rt_program_result_shape`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_program_result_shape(
    program: *const xffi_rt_program,
    out: *mut *mut c_char,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe { about(program, out, |program| Ok(program.result().to_string())) }
}

/// Implements `xffi_rt_program_parse`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_program_parse(
    hlo: *const c_char,
    out: *mut *mut xffi_rt_program,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let program = Program::from_hlo(unsafe { crate::text(hlo, "hlo") }?)?;
        // SAFETY: guaranteed by the caller.
        unsafe { crate::hand_over(out, xffi_rt_program(program)) }
    })
}
