//! Tests the Rust API of handlers on the embedded runtime. The handlers are linked into this test
//! and called through the functions that `library!` exports.

mod accessors;
mod asynchronous;
mod attributes;
mod context;
mod contracts;
mod devices;
mod errors;
mod frames;
mod hygiene;
mod in_out;
mod metadata;
mod narrowing;
mod operands;
mod packed;
mod remaining;
mod sizes;
mod stages;
mod structs;
mod user_types;

use xla_ffi::__private::Handler;
use xla_ffi_runtime::{
    Attributes, Call, DType, Element, ErrorCode, Executable, Outcome, Result, Revision, Runtime,
    Shape, Tensor,
};

use xla_ffi::embed::bundle;

/// Registers the handler with a runtime.
fn handler<H: Handler>(runtime: &Runtime) -> xla_ffi_runtime::Handler {
    runtime.handler(H::INFO.name, bundle::<H>()).unwrap()
}

/// Creates an executable of a runtime with the handler.
fn load<H: Handler>(runtime: &Runtime, attrs: &str) -> Result<Executable> {
    let attributes = Attributes::parse(attrs).unwrap();
    handler::<H>(runtime).instantiate(&attributes)
}

/// Creates a call of the handler on a revision.
fn on<H: Handler>(revision: Revision, attrs: &str) -> Call {
    load::<H>(&Runtime::new(revision), attrs).unwrap().call()
}

/// Creates a call of the handler on the newest revision.
fn call<H: Handler>(attrs: &str) -> Call {
    on::<H>(Revision::NEWEST, attrs)
}

/// Returns an array with the dimensions `dims`.
fn array<T: Element>(dims: &[i64], elements: &[T]) -> Tensor {
    Tensor::from_slice(dims, elements).unwrap()
}

/// Returns an array of rank 1.
fn vector<T: Element>(elements: &[T]) -> Tensor {
    array(&[elements.len() as i64], elements)
}

/// Returns a shape with the element type `dtype` and the dimensions `dims`.
fn shape(dtype: DType, dims: &[i64]) -> Shape {
    Shape::new(dtype, dims).unwrap()
}

/// Returns the elements of a result.
fn ret<T: Element>(outcome: &Outcome, index: usize) -> Vec<T> {
    outcome.rets[index].to_vec().unwrap()
}

/// Returns the first result of a successful call.
fn first<T: Element>(call: Call) -> Vec<T> {
    ret(&call.run().unwrap(), 0)
}

/// Returns the message of a call that fails with `INVALID_ARGUMENT`.
fn refused(call: Call) -> String {
    let error = call.run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    assert_eq!(error.findings(), []);
    error.message().to_owned()
}

/// Returns the code and the message of a call that fails.
fn failed(call: Call) -> (ErrorCode, String) {
    let error = call.run().unwrap_err();
    assert_eq!(error.findings(), []);
    (error.code(), error.message().to_owned())
}

/// Iterates over all element types.
fn every_dtype() -> impl Iterator<Item = DType> {
    (1..64).filter_map(|number| DType::from_raw(xla_ffi::DataType(number)))
}
