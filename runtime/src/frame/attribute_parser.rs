//! What the attribute parsers of old hosts do not take. XLA reads a call's dictionary before it asks any handler,
//! and its first parsers knew fewer kinds.

use crate::{Attribute, Attributes, DType, Error, Result};
use xla_ffi_sys::Revision;

/// Refuses attributes that the parser of a host of this revision does not know, in XLA's words. A revision's host is
/// the first jaxlib that has it: so 0.4.35 and 0.4.36, which are r2 as well, take more than is taken here.
pub(crate) fn accept(attributes: &Attributes, revision: Revision) -> Result<()> {
    for (name, value) in attributes.iter() {
        match value {
            Attribute::Dict(_) if revision < Revision::R2 => {
                let what = format!("Unsupported attribute type for attribute: {name}");
                return Err(refused(&what, "dictionaries", "0.4.34", revision));
            }
            Attribute::Dict(nested) => accept(nested, revision)?,
            Attribute::Array(array) if is_unsigned(array.dtype()) && revision < Revision::R3 => {
                let what = format!("Unsupported attribute type for attribute: {name}");
                return Err(refused(&what, "unsigned arrays", "0.4.35", revision));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64)
}

fn refused(what: &str, kind: &str, first: &str, revision: Revision) -> Error {
    let own = revision.first_jaxlib();
    Error::invalid(format!(
        "{what}; the first jaxlib whose attributes may be {kind} is {first}, this is {revision}, as in jaxlib {own}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest revision that takes these attributes.
    fn first(text: &str) -> Revision {
        let attributes = Attributes::parse(text).unwrap();
        let mut all = Revision::ALL.into_iter();
        let first = all
            .find(|revision| accept(&attributes, *revision).is_ok())
            .unwrap();
        assert!(
            all.all(|later| accept(&attributes, later).is_ok()),
            "{text}"
        );
        first
    }

    #[test]
    fn kinds_since() {
        let plain = "{b = true, i = 1 : i64, u = 2 : ui8, f = 0.5 : f32, s = \"t\", a = array<i8: 1>, d = array<f64: 2>}";
        assert_eq!(first(plain), Revision::R0);
        assert_eq!(first("{}"), Revision::R0);
        assert_eq!(first("{d = {}}"), Revision::R2);
        assert_eq!(first("{d = {e = {n = 1 : i64}}}"), Revision::R2);
        for unsigned in ["ui8", "ui16", "ui32", "ui64"] {
            let array = format!("a = array<{unsigned}: 1>");
            assert_eq!(first(&format!("{{{array}}}")), Revision::R3);
            assert_eq!(first(&format!("{{d = {{{array}}}}}")), Revision::R3);
        }
    }

    #[test]
    fn refusals_name_the_attribute_and_the_jaxlib() {
        let attributes = Attributes::parse("{options = {n = 1 : i64}}").unwrap();
        let error = accept(&attributes, Revision::R1).unwrap_err();
        assert_eq!(
            error.message(),
            "Unsupported attribute type for attribute: options; the first jaxlib whose attributes may be \
             dictionaries is 0.4.34, this is r1, as in jaxlib 0.4.33"
        );
    }
}
