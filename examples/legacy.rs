//! A[i] = B[i % 128] + C[i], the example in XLA's documents, in every calling convention of the original
//! custom calls. Also adapts functions of those conventions to handlers of XLA FFI.

use std::ffi::{c_char, c_void};
use xla_ffi::prelude::*;
use xla_ffi::{DataType, sys::XlaCustomCallStatus};
use xla_ffi_legacy::{Descriptor, Operands, set_failure};

/// The modern form, as a handler of XLA FFI: safe code with checked operands.
#[xla_ffi::handler(shape = "m, n -> n")]
fn tiled_add(b: Buffer<f32, 1>, c: Buffer<f32, 1>, mut a: Out<f32, 1>) -> Result<()> {
    if b[0] < 0.0 {
        return Err(Error::invalid_argument("B[0] is negative"));
    }
    a.write_with(|i| b[i % b.len()] + c[i]);
    Ok(())
}

/// A handler with two results: A and A + 1.
#[xla_ffi::handler(shape = "m, n -> n, n")]
fn two(
    b: Buffer<f32, 1>,
    c: Buffer<f32, 1>,
    mut a: Out<f32, 1>,
    mut more: Out<f32, 1>,
) -> Result<()> {
    let a = a.write_with(|i| b[i % b.len()] + c[i]);
    more.write_with(|i| a[i] + 1.0);
    Ok(())
}

xla_ffi_legacy::legacy! {
    /// Two results, as in current XLA: A and A + 1.
    tiled_add_two = cpu(two): f32[128], f32[2048] -> f32[2048], f32[2048];
    /// The handler for programs that use `API_VERSION_ORIGINAL`.
    tiled_add_cpu = cpu(tiled_add): f32[128], f32[2048] -> f32[2048];
    /// The handler for programs that use `API_VERSION_STATUS_RETURNING`.
    tiled_add_status = cpu_status(tiled_add): f32[128], f32[2048] -> f32[2048];
    /// The function for programs that use `API_VERSION_STATUS_RETURNING_UNIFIED`.
    tiled_add_unified = unsafe cpu_unified(cpu_unified);
    /// The function for operands and results in tuples. Each tuple is passed as nested arrays of
    /// pointers, as in XLA's documents.
    tiled_add_tuples = cpu(two), tuples = "roots":
        (f32[128], f32[2048]) -> (f32[2048], (f32[2048]));
    /// The function for one tuple operand, which is passed as one array of pointers, as in jaxlib
    /// 0.4.31.
    tiled_add_pair = cpu(tiled_add), tuples = "roots": (f32[128], f32[2048]) -> f32[2048];
    /// The function for tuples in later versions of XLA: one pointer per leaf of the operands, and one array for the
    /// result.
    tiled_add_nested = cpu(two), tuples = "leaves":
        (f32[128], f32[2048]) -> (f32[2048], (f32[2048]));
}

/// # Safety
/// `b` points to 128 elements, `a` and `c` to 2048 elements each.
unsafe fn add(a: *mut f32, b: *const f32, c: *const f32, more: f32) {
    // SAFETY: the caller upholds this function's safety contract.
    let b = unsafe { std::slice::from_raw_parts(b, 128) };
    // SAFETY: the caller upholds this function's safety contract.
    let c = unsafe { std::slice::from_raw_parts(c, 2048) };
    for (i, c) in c.iter().enumerate() {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { a.wrapping_add(i).write(b[i % 128] + c + more) };
    }
}

/// The function for CPU programs that use `API_VERSION_ORIGINAL`.
unsafe extern "C" fn cpu(out: *mut c_void, ins: *mut *const c_void) {
    // SAFETY: the list has the pointers to B and C.
    let [b, c] = [0, 1].map(|i| unsafe { ins.wrapping_add(i).read() });
    // SAFETY: the operands and the result have the sizes that the program declares.
    unsafe { add(out.cast(), b.cast(), c.cast(), 0.0) };
}

/// The function for CPU programs that use `API_VERSION_STATUS_RETURNING`. Refuses a B that starts
/// with a negative number.
unsafe extern "C" fn cpu_status(
    out: *mut c_void,
    ins: *mut *const c_void,
    status: *mut XlaCustomCallStatus,
) {
    // SAFETY: the list has the pointer to B, which is not empty.
    let b = unsafe { ins.read() };
    // SAFETY: the list has the pointer to B, which is not empty.
    if unsafe { b.cast::<f32>().read() } < 0.0 {
        // SAFETY: the status belongs to the current call.
        return unsafe { set_failure(status, "B[0] is negative") };
    }
    // SAFETY: the arguments are those of this function, unchanged.
    unsafe { cpu(out, ins) };
}

/// The function for CPU programs that use `API_VERSION_STATUS_RETURNING_UNIFIED`. Adds the decimal number in
/// `opaque`. Other bytes are refused, with the bytes in the message.
unsafe extern "C" fn cpu_unified(
    out: *mut c_void,
    ins: *mut *const c_void,
    opaque: *const c_char,
    opaque_len: usize,
    status: *mut XlaCustomCallStatus,
) {
    let mut more = 0.0;
    if opaque_len > 0 {
        // SAFETY: the program passes `opaque_len` bytes.
        let opaque = unsafe { std::slice::from_raw_parts(opaque.cast::<u8>(), opaque_len) };
        let number = std::str::from_utf8(opaque).ok();
        match number.and_then(|number| number.parse::<u16>().ok()) {
            Some(number) => more = f32::from(number),
            // SAFETY: the status belongs to the current call.
            None => return unsafe { set_failure(status, opaque) },
        }
    }
    // SAFETY: the list has the pointers to B and C.
    let [b, c] = [0, 1].map(|i| unsafe { ins.wrapping_add(i).read() });
    // SAFETY: the operands and the result have the sizes that the program declares.
    unsafe { add(out.cast(), b.cast(), c.cast(), more) };
}

/// The function for operands and results in tuples, as in XLA's documents: `((B, C)) -> (A, (A +
/// 1))`.
unsafe extern "C" fn tuples(out: *mut c_void, ins: *mut *const c_void) {
    // SAFETY: the list has one tuple, with the pointers to B and C.
    let pair = unsafe { *ins }.cast::<*const c_void>();
    // SAFETY: the tuple has the pointers to B and C.
    let [b, c] = [0, 1].map(|i| unsafe { pair.wrapping_add(i).read() });
    let results = out.cast::<*mut c_void>();
    // SAFETY: the result is a tuple of the pointers to A and to a tuple.
    let [a, inner] = [0, 1].map(|i| unsafe { results.wrapping_add(i).read() });
    // SAFETY: the operands and the results have the sizes that the program declares.
    unsafe { add(a.cast(), b.cast(), c.cast(), 0.0) };
    // SAFETY: the inner tuple has one element, the pointer to A + 1.
    let more = unsafe { inner.cast::<*mut c_void>().read() };
    // SAFETY: the operands and the results have the sizes that the program declares.
    unsafe { add(more.cast(), b.cast(), c.cast(), 1.0) };
}

/// Checks the sizes of the operands, which the bare functions do not receive.
fn sizes(operands: &Operands, _: &mut Descriptor) -> Result<()> {
    operands.arg(0)?.expect("B", DataType::F32, 128)?;
    operands.arg(1)?.expect("C", DataType::F32, 2048)?;
    operands.ret(0)?.expect("A", DataType::F32, 2048)
}

xla_ffi_legacy::adapt! {
    /// The function `cpu` as a handler of XLA FFI.
    tiled_add_cpu_ffi = unsafe cpu(cpu);
    /// The function `cpu_status` as a handler of XLA FFI, so that every XLA reports its failures.
    tiled_add_status_ffi = unsafe cpu_status(cpu_status);
    /// The function `cpu_unified` as a handler of XLA FFI with the attribute `opaque`.
    tiled_add_unified_ffi = unsafe cpu_unified(cpu_unified), opaque = "opaque";
    /// The function `cpu` as a handler of XLA FFI that checks the sizes of its operands.
    tiled_add_checked_ffi = unsafe cpu(cpu), describe = sizes;
    /// The function `tuples` as a handler of XLA FFI whose operands and results are not in tuples.
    tiled_add_tuples_ffi = unsafe cpu(tuples), structure = "(_, _) -> (_, (_))";
}

xla_ffi::library! {
    tiled_add,
    tiled_add_cpu_ffi,
    tiled_add_status_ffi,
    tiled_add_unified_ffi,
    tiled_add_checked_ffi,
    tiled_add_tuples_ffi,
    legacy tiled_add_cpu,
    legacy tiled_add_two,
    legacy tiled_add_status,
    legacy tiled_add_unified,
    legacy tiled_add_tuples,
    legacy tiled_add_pair,
    legacy tiled_add_nested,
}
