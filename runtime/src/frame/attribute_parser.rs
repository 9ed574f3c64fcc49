//! Rejects attributes that the attribute parsers of hosts do not accept.
//!
//! XLA parses the attribute dictionary of a call before it runs any handler. Its parser supports few number types,
//! and the parsers of early revisions support fewer kinds of attributes. The behaviour was measured with jaxlib
//! 0.4.31 to 0.12.0.

use crate::value::attribute_array::Spelling;
use crate::value::dtype::Class;
use crate::value::{Attribute, AttributeArray, Attributes, DType};
use xla_ffi_sys::Revision;
use xla_ffi_sys::{Error, Result};

/// Returns XLA's error for attributes that the attribute parser of the revision's hosts rejects. The parser of a
/// revision's first jaxlib is used; jaxlib 0.4.35 and 0.4.36, also of r2, accept more.
pub(crate) fn accept(attributes: &Attributes, revision: Revision) -> Result<()> {
    for (name, value) in attributes.iter() {
        match value {
            Attribute::Scalar(dtype, _) => accept_scalar(name, *dtype)?,
            Attribute::Array(array) => accept_array(name, array, revision)?,
            Attribute::Dict(_) if revision < Revision::R2 => {
                return Err(too_new_kind(name, "dictionaries", "0.4.34", revision));
            }
            Attribute::Dict(nested) => accept(nested, revision)?,
            Attribute::Str(_) => {}
        }
    }
    Ok(())
}

const KIND: &str = "Unsupported attribute type";
const ELEMENT: &str = "Unsupported array element type";
const FLOATS: &str = "f32 or f64";
const INTEGERS: &str = "integers of 8, 16, 32 or 64 bits";

fn accept_scalar(name: &str, dtype: DType) -> Result<()> {
    if dtype == DType::Pred || is_passed(dtype) {
        return Ok(());
    }
    let (what, instead) = match dtype.class() {
        Class::Float => ("Unsupported float attribute bit width", FLOATS),
        Class::Signed | Class::Unsigned => ("Unsupported integer attribute bit width", INTEGERS),
        _ => (KIND, "an array of its parts"),
    };
    Err(unsupported_kind(
        what,
        name,
        &format!("{dtype} as an attribute"),
        instead,
    ))
}

fn accept_array(name: &str, array: &AttributeArray, revision: Revision) -> Result<()> {
    let dtype = array.dtype();
    let is_unsigned = dtype.class() == Class::Unsigned;
    if array.spelling() == Spelling::Dense && revision < Revision::R3 {
        return Err(too_new_kind(name, "dense<…>", "0.4.35", revision));
    }
    if !is_passed(dtype) {
        let instead = match dtype.class() {
            Class::Bool => "an array of ui8 or i8",
            Class::Float | Class::Complex => FLOATS,
            _ => INTEGERS,
        };
        let kind = format!("arrays of {dtype} as attributes");
        return Err(unsupported_kind(ELEMENT, name, &kind, instead));
    }
    if is_unsigned && array.spelling() == Spelling::Array {
        let (bits, len) = (dtype.bits(), array.len());
        let instead = format!("dense<[…]> : tensor<{len}xui{bits}>");
        return Err(unsupported_kind(
            ELEMENT,
            name,
            &format!("array<ui{bits}: …>"),
            &instead,
        ));
    }
    if is_unsigned && revision < Revision::R3 {
        return Err(too_new_kind(name, "unsigned arrays", "0.4.35", revision));
    }
    Ok(())
}

/// Returns true if XLA passes scalars and arrays of this type to handlers.
fn is_passed(dtype: DType) -> bool {
    match dtype.class() {
        Class::Signed | Class::Unsigned => dtype.bits() >= 8,
        Class::Float => matches!(dtype, DType::F32 | DType::F64),
        _ => false,
    }
}

fn unsupported_kind(what: &str, name: &str, kind: &str, instead: &str) -> Error {
    Error::invalid_argument(format!(
        "{what} for attribute: {name}; no XLA passes {kind}: pass {instead}"
    ))
}

fn too_new_kind(name: &str, kind: &str, first: &str, revision: Revision) -> Error {
    let own = revision.first_jaxlib();
    Error::invalid_argument(format!(
        "{KIND} for attribute: {name}; the first jaxlib whose attributes may be {kind} is {first}, this is \
         {revision}, as in jaxlib {own}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the oldest revision whose parser accepts these attributes, or `None` if all parsers reject them.
    fn first(text: &str) -> Option<Revision> {
        let attributes = Attributes::parse(text).expect(text);
        let mut all = Revision::ALL.into_iter();
        let first = all.find(|revision| accept(&attributes, *revision).is_ok());
        assert!(
            all.all(|later| accept(&attributes, later).is_ok()),
            "{text}"
        );
        first
    }

    #[test]
    fn kinds_since() {
        let plain = "{b = true, c = 1 : i1, i = 1 : i64, u = 2 : ui8, s = 1 : si16, f = 0.5 : f32, \
                     t = \"t\", a = array<i8: 1>, d = array<f64: 2.0>, e = array<i32>}";
        assert_eq!(first(plain), Some(Revision::R0));
        assert_eq!(first("{}"), Some(Revision::R0));
        assert_eq!(first("{d = {}}"), Some(Revision::R2));
        assert_eq!(first("{d = {e = {n = 1 : i64}}}"), Some(Revision::R2));
        for dense in ["dense<1> : tensor<2xi32>", "dense<[1]> : tensor<1xui8>"] {
            assert_eq!(first(&format!("{{a = {dense}}}")), Some(Revision::R3));
            assert_eq!(
                first(&format!("{{d = {{a = {dense}}}}}")),
                Some(Revision::R3)
            );
        }
    }

    #[test]
    fn what_no_jaxlib_passes() {
        for text in [
            "1.5 : f16",
            "1 : i4",
            "(1.0, 2.0)",
            "array<i1: true, false>",
            "array<bf16: 1.0>",
            "array<ui8: 1>",
            "dense<true> : tensor<9xi1>",
            "dense<[1, 2, 3]> : tensor<3xi4>",
        ] {
            assert_eq!(first(&format!("{{a = {text}}}")), None, "{text}");
            assert_eq!(first(&format!("{{d = {{a = {text}}}}}")), None, "{text}");
        }
    }
}
