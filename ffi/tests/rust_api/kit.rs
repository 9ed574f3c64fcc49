//! Short words for: this handler, these attributes, these operands, on this revision.

use xla_ffi::__private::Handler;
use xla_ffi_runtime::{
    Attributes, Call, Code, DType, Element, Executable, Outcome, Result, Revision, Runtime, Shape,
    Tensor,
};

pub(crate) use xla_ffi::internal::bundle;

/// The handler on a runtime.
pub(crate) fn handler<H: Handler>(runtime: &Runtime) -> xla_ffi_runtime::Handler {
    runtime.handler(H::INFO.name, bundle::<H>()).unwrap()
}

/// The handler as an executable of a runtime.
pub(crate) fn load<H: Handler>(runtime: &Runtime, attrs: &str) -> Result<Executable> {
    let attributes = Attributes::parse(attrs).unwrap();
    handler::<H>(runtime).instantiate(&attributes)
}

/// A call of the handler on a revision.
pub(crate) fn on<H: Handler>(revision: Revision, attrs: &str) -> Call {
    load::<H>(&Runtime::new(revision), attrs).unwrap().call()
}

/// A call of the handler on the newest revision.
pub(crate) fn call<H: Handler>(attrs: &str) -> Call {
    on::<H>(Revision::NEWEST, attrs)
}

/// An array.
pub(crate) fn array<T: Element>(dims: &[i64], elements: &[T]) -> Tensor {
    Tensor::from_slice(dims, elements).unwrap()
}

/// A vector.
pub(crate) fn vector<T: Element>(elements: &[T]) -> Tensor {
    array(&[elements.len() as i64], elements)
}

/// A shape.
pub(crate) fn shape(dtype: DType, dims: &[i64]) -> Shape {
    Shape::new(dtype, dims).unwrap()
}

/// The elements of a result.
pub(crate) fn ret<T: Element>(outcome: &Outcome, index: usize) -> Vec<T> {
    outcome.rets[index].to_vec().unwrap()
}

/// The first result of a call that works.
pub(crate) fn first<T: Element>(call: Call) -> Vec<T> {
    ret(&call.run().unwrap(), 0)
}

/// The text of a call that fails with `INVALID_ARGUMENT`.
pub(crate) fn refused(call: Call) -> String {
    let error = call.run().unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(error.findings(), []);
    error.message().to_owned()
}

/// The code and the text of a call that fails.
pub(crate) fn failed(call: Call) -> (Code, String) {
    let error = call.run().unwrap_err();
    assert_eq!(error.findings(), []);
    (error.code(), error.message().to_owned())
}

/// Every element type.
pub(crate) fn every_dtype() -> impl Iterator<Item = DType> {
    (1..64).filter_map(|number| DType::from_raw(xla_ffi::DataType(number)))
}
