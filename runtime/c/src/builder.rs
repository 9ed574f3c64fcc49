//! The functions of `program.h` for builders of programs.

use crate::program::{hand_over_text, xffi_rt_program};
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, list, null, object, object_mut, optional_text, take_back, text, write_out};
use host::{Error, ErrorCode, Result, Tensor, Tree};
use std::ffi::{c_char, c_void};
use xla_ffi_programs::{Builder, Op, ValueShape};

/// `xffi_rt_builder` in C: a builder of a program; `None` after the program was built.
#[derive(Debug)]
pub(crate) struct xffi_rt_builder(Option<Builder>);

/// `xffi_rt_op` in C: an instruction of a builder.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct xffi_rt_op {
    builder: u64,
    index: u64,
}

pub(crate) fn non_negative(number: i64, what: &str) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::invalid_argument(format!("{what} is {number}")))
}

/// Parses a shape from a string of the caller.
///
/// # Safety
/// The pointer must be null or refer to a NUL-terminated string.
pub(crate) unsafe fn shape(pointer: *const c_char) -> Result<ValueShape> {
    // SAFETY: guaranteed by the caller.
    Ok(ValueShape::parse(unsafe { text(pointer, "shape") }?)?)
}

/// Returns an array with the caller's bytes.
///
/// # Safety
/// The requirements of [`shape`] apply to `pointer`, and those of [`list`] to `data` and `size`.
pub(crate) unsafe fn tensor(
    pointer: *const c_char,
    data: *const c_void,
    size: usize,
) -> Result<Tensor> {
    // SAFETY: guaranteed by the caller.
    let shape = unsafe { shape(pointer) }?;
    let Tree::Leaf(array) = &shape else {
        return Err(Error::invalid_argument(format!(
            "an array has values, {shape} has none"
        )));
    };
    if !array.is_row_major() {
        return Err(Error::invalid_argument(format!(
            "{array} is not row-major; values must be"
        )));
    }
    // The size is compared before the bytes are read, because the size of a valid shape does not exceed the memory.
    let expected = array.shape().bytes();
    if size != expected {
        return Err(Error::invalid_argument(format!(
            "{array} takes {expected} bytes, {size} were given"
        )));
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { list(data.cast::<u8>(), size, "data") }?;
    Tensor::from_bytes(array.shape().clone(), bytes)
}

impl xffi_rt_op {
    fn from_op(op: Op) -> Self {
        let (builder, index) = op.to_raw();
        Self {
            builder,
            index: index as u64,
        }
    }

    pub(crate) fn op(self) -> Op {
        Op::from_raw(
            self.builder,
            usize::try_from(self.index).unwrap_or(usize::MAX),
        )
    }
}

/// Calls `body` with a builder and writes the new instruction to `out`.
///
/// # Safety
/// The builder must be null or owned by the caller, and `out` must be null or valid for writing an instruction.
pub(crate) unsafe fn build(
    builder: *mut xffi_rt_builder,
    out: *mut xffi_rt_op,
    body: impl FnOnce(&mut Builder) -> Result<Op>,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let builder = unsafe { object_mut(builder, "builder") }?;
        // `out` is checked before the instruction is added to the builder.
        if out.is_null() {
            return Err(null("the out-parameter"));
        }
        let op = body(builder.0.as_mut().ok_or_else(already_built)?)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || xffi_rt_op::from_op(op)) }
    })
}

fn already_built() -> Error {
    Error::new(
        ErrorCode::FailedPrecondition,
        "the builder's program is built; make another builder",
    )
}

/// Implements `xffi_rt_builder_create`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_create(
    name: *const c_char,
    out: *mut *mut xffi_rt_builder,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, xffi_rt_builder(Some(Builder::new(name)))) }
    })
}

/// Implements `xffi_rt_builder_destroy`.
///
/// # Safety
/// The builder must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_destroy(builder: *mut xffi_rt_builder) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(builder) };
}

/// Implements `xffi_rt_builder_parameter`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_parameter(
    builder: *mut xffi_rt_builder,
    number: i64,
    shape: *const c_char,
    name: *const c_char,
    out: *mut xffi_rt_op,
) -> *mut xffi_rt_status {
    let body = |builder: &mut Builder| {
        let number = non_negative(number, "the parameter's number")?;
        // SAFETY: guaranteed by the caller.
        let shape = unsafe { self::shape(shape) }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { optional_text(name, "name") }?.unwrap_or("");
        Ok(builder.parameter(number, shape, name))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { build(builder, out, body) }
}

/// Implements `xffi_rt_builder_constant`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_constant(
    builder: *mut xffi_rt_builder,
    shape: *const c_char,
    data: *const c_void,
    size: usize,
    out: *mut xffi_rt_op,
) -> *mut xffi_rt_status {
    let body = |builder: &mut Builder| {
        // SAFETY: guaranteed by the caller.
        let tensor = unsafe { tensor(shape, data, size) }?;
        Ok(builder.constant(tensor))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { build(builder, out, body) }
}

/// Implements `xffi_rt_builder_token`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_token(
    builder: *mut xffi_rt_builder,
    out: *mut xffi_rt_op,
) -> *mut xffi_rt_status {
    // SAFETY: guaranteed by the caller.
    unsafe { build(builder, out, |builder| Ok(builder.token())) }
}

/// Implements `xffi_rt_builder_tuple`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_tuple(
    builder: *mut xffi_rt_builder,
    elements: *const xffi_rt_op,
    count: usize,
    out: *mut xffi_rt_op,
) -> *mut xffi_rt_status {
    let body = |builder: &mut Builder| {
        // SAFETY: guaranteed by the caller.
        let elements = unsafe { list(elements, count, "elements") }?;
        Ok(builder.tuple(elements.iter().map(|op| op.op())))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { build(builder, out, body) }
}

/// Implements `xffi_rt_builder_get_tuple_element`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_get_tuple_element(
    builder: *mut xffi_rt_builder,
    tuple: xffi_rt_op,
    index: i64,
    out: *mut xffi_rt_op,
) -> *mut xffi_rt_status {
    let body = |builder: &mut Builder| {
        let index = non_negative(index, "the element's index")?;
        Ok(builder.get_tuple_element(tuple.op(), index))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { build(builder, out, body) }
}

/// Implements `xffi_rt_builder_set_name`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_set_name(
    builder: *mut xffi_rt_builder,
    op: xffi_rt_op,
    name: *const c_char,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let builder = unsafe { object_mut(builder, "builder") }?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { text(name, "name") }?;
        let builder = builder.0.as_mut().ok_or_else(already_built)?;
        builder.set_name(op.op(), name);
        Ok(())
    })
}

/// Implements `xffi_rt_builder_shape`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_shape(
    builder: *const xffi_rt_builder,
    op: xffi_rt_op,
    out: *mut *mut c_char,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let builder = unsafe { object(builder, "builder") }?;
        let builder = builder.0.as_ref().ok_or_else(already_built)?;
        let shape = builder.shape(op.op()).ok_or_else(|| {
            let why = "no instruction of this builder, or one that a mistake left without a shape";
            Error::new(ErrorCode::NotFound, why)
        })?;
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over_text(out, &shape.to_string()) }
    })
}

/// Implements `xffi_rt_builder_last`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_last(
    builder: *const xffi_rt_builder,
    out: *mut xffi_rt_op,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let builder = unsafe { object(builder, "builder") }?;
        let last = builder.0.as_ref().ok_or_else(already_built)?.last();
        let last =
            last.ok_or_else(|| Error::new(ErrorCode::NotFound, "the builder has no instruction"))?;
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || xffi_rt_op::from_op(last)) }
    })
}

/// Implements `xffi_rt_builder_build`.
///
/// # Safety
/// The pointers must meet the requirements in `program.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_builder_build(
    builder: *mut xffi_rt_builder,
    root: xffi_rt_op,
    out: *mut *mut xffi_rt_program,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let builder = unsafe { object_mut(builder, "builder") }?;
        let program = builder
            .0
            .take()
            .ok_or_else(already_built)?
            .build(root.op())?;
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, xffi_rt_program(program)) }
    })
}
