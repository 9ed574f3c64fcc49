//! Legacy targets on XLA in a plugin. Plugins only accept typed handlers, so a handler of this crate calls the legacy
//! target that the ticket of the call identifies.

use super::bootstrap::{Table, answer_metadata, is_metadata};
use super::client::Client;
use crate::ValueShape;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xla_ffi_runtime::legacy::{Invocation, Target, TupleForm};
use xla_ffi_runtime::{Attributes, Bundle, Error, ErrorCode, Result, Tree};
use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Scalar};

/// The name of the attribute with the ticket of a call.
const TICKET: &str = "ticket";

/// A call of a legacy target, without its operands.
pub(crate) struct Bridged {
    pub(crate) target: Target,
    pub(crate) operands: Vec<ValueShape>,
    pub(crate) result: ValueShape,
    pub(crate) opaque: Vec<u8>,
    pub(crate) form: Option<TupleForm>,
}

/// The calls by their tickets.
static CALLS: Mutex<BTreeMap<i64, Arc<Bridged>>> = Mutex::new(BTreeMap::new());
static NEXT_TICKET: AtomicI64 = AtomicI64::new(1);

fn calls() -> MutexGuard<'static, BTreeMap<i64, Arc<Bridged>>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A ticket of a call of a legacy target. Programs can refer to the call while the ticket exists.
pub(crate) struct Ticket(i64);

impl Ticket {
    pub(crate) fn new(call: Bridged) -> Self {
        let number = NEXT_TICKET.fetch_add(1, Ordering::Relaxed);
        calls().insert(number, Arc::new(call));
        Self(number)
    }

    /// Returns the attributes with which a program refers to the call of this ticket.
    pub(crate) fn attributes(&self) -> Attributes {
        Attributes::new().with(TICKET, self.0)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        calls().remove(&self.0);
    }
}

/// Registers the handler that calls legacy targets, if necessary, and returns its name.
pub(crate) fn target(client: &Client) -> Result<String> {
    // The name contains the function's address, because a second copy of this crate in the process has its own
    // function.
    let name = format!("xla_ffi_legacy_{:x}", enter as *const () as usize);
    // SAFETY: the function is a handler of this library, which stays loaded while its code runs.
    client.register(&name, &unsafe { Bundle::execute(enter) })?;
    Ok(name)
}

/// The handler that calls legacy targets: XLA calls it for each call of a legacy target in a program.
unsafe extern "C" fn enter(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame belongs to the current call, and the frames of all revisions have this field.
    let table = Table::of(unsafe { (*frame).api });
    // SAFETY: the frame belongs to the current call.
    if let Some(extension) = unsafe { is_metadata(frame) } {
        // SAFETY: the extension and the table belong to the current call.
        unsafe { answer_metadata(extension, table) };
        return std::ptr::null_mut();
    }
    // SAFETY: the call is not a metadata query, so the frame belongs to an execute call.
    match catch_unwind(AssertUnwindSafe(|| unsafe { call(frame) })) {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(error)) => table.error(error.code().to_raw(), error.message()),
        Err(payload) => {
            xla_ffi_runtime::__programs::discard(payload);
            table.error(
                ErrorCode::Internal.to_raw(),
                "the call of a legacy target panicked",
            )
        }
    }
}

/// Calls the legacy target that the frame's ticket identifies, with the frame's operands.
///
/// # Safety
/// `frame` must belong to an execute call.
unsafe fn call(frame: *mut XLA_FFI_CallFrame) -> Result<()> {
    // SAFETY: the caller upholds this function's safety contract.
    let ticket = unsafe { ticket(frame) };
    let call = calls().get(&ticket).cloned();
    let call = call.ok_or_else(|| {
        Error::new(
            ErrorCode::NotFound,
            "the compiled program of this call is gone",
        )
    })?;
    // SAFETY: the caller upholds this function's safety contract.
    let args = unsafe { (*frame).args };
    // SAFETY: the caller upholds this function's safety contract.
    let rets = unsafe { (*frame).rets };
    // SAFETY: the list of arguments has `size` buffers.
    let mut arguments = unsafe { arrays(args.args, args.size) }.into_iter();
    // SAFETY: the list of results has `size` buffers.
    let mut results = unsafe { arrays(rets.rets, rets.size) }.into_iter();
    let operands: Option<Vec<Tree<*mut c_void>>> = (call.operands.iter())
        .map(|shape| fill(shape, &mut arguments))
        .collect();
    let result = fill(&call.result, &mut results);
    let (Some(operands), Some(result), None, None) =
        (operands, result, arguments.next(), results.next())
    else {
        return Err(Error::invalid_argument(format!(
            "legacy target '{}' was called with {} arrays as operands and {} as results",
            call.target.name(),
            args.size,
            rets.size
        )));
    };
    let mut invocation = Invocation::new(&call.target, &operands, &result).opaque(&call.opaque);
    if let Some(form) = call.form.filter(|form| form.fits(call.target.signature())) {
        invocation = invocation.form(form);
    }
    // SAFETY: XLA's arrays have the program's shapes and are valid until this function returns. The registration of
    // the target guarantees that it stays within its operands.
    unsafe { invocation.run() }
}

/// Returns the tree of a shape with the given arrays as its leaves.
fn fill(
    shape: &ValueShape,
    arrays: &mut impl Iterator<Item = *mut c_void>,
) -> Option<Tree<*mut c_void>> {
    let leaves: Vec<_> = arrays.take(shape.leaves().count()).collect();
    (leaves.len() == shape.leaves().count()).then(|| shape.filled(leaves))?
}

/// A placeholder whose address replaces the null pointers of empty arrays, because a null pointer may mark a hidden
/// node of a tuple.
#[repr(align(64))]
struct Nowhere;
static NOWHERE: Nowhere = Nowhere;

/// Returns the data addresses of the buffers in a list.
///
/// # Safety
/// The list must have `size` buffers.
unsafe fn arrays(list: *const *mut c_void, size: i64) -> Vec<*mut c_void> {
    let address = |index: usize| {
        // SAFETY: the caller upholds this function's safety contract.
        let buffer = unsafe { list.wrapping_add(index).read() }.cast::<XLA_FFI_Buffer>();
        // SAFETY: the operands of custom calls in StableHLO are buffers, whose layout is the same in every revision.
        let data = unsafe { (*buffer).data };
        match data.is_null() {
            true => (&raw const NOWHERE).cast_mut().cast(),
            false => data,
        }
    };
    (0..usize::try_from(size).unwrap_or(0))
        .map(address)
        .collect()
}

/// Returns the ticket in the frame's attributes.
///
/// # Safety
/// `frame` must belong to an execute call by a program of this crate, which passes one attribute.
unsafe fn ticket(frame: *mut XLA_FFI_CallFrame) -> i64 {
    // SAFETY: the caller upholds this function's safety contract.
    let attrs = unsafe { (*frame).attrs };
    // SAFETY: the call has one attribute, a scalar.
    let scalar = unsafe { attrs.attrs.read() }.cast::<XLA_FFI_Scalar>();
    // SAFETY: the call has one attribute, a scalar.
    let value = unsafe { (*scalar).value };
    // SAFETY: the scalar has 64 bits.
    unsafe { value.cast::<i64>().read_unaligned() }
}
