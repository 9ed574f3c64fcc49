//! The range of a numeric attribute.

use crate::frame::element::Wide;
use crate::attribute::{AttrValue, push_number};
use crate::param::AttrType;
use crate::error::problems::Problems;
use xla_ffi_sys::XLA_FFI_DataType;

/// The least or the greatest value.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// As the manifest has it.
    pub json: &'static str,
    /// The number.
    pub value: Wide,
}

/// The values that an attribute may have, both bounds included.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The least one.
    pub min: Option<Bound>,
    /// The greatest one.
    pub max: Option<Bound>,
}

impl Range {
    pub(crate) const ALL: Self = Self {
        min: None,
        max: None,
    };

    /// Whether attributes of this type can be compared with the bounds.
    pub(crate) const fn is_for(&self, ty: AttrType) -> bool {
        use XLA_FFI_DataType as D;
        let whole = matches!(
            (self.min, self.max),
            (
                None | Some(Bound {
                    value: Wide::Int(_),
                    ..
                }),
                None | Some(Bound {
                    value: Wide::Int(_),
                    ..
                })
            )
        );
        match ty {
            AttrType::Scalar(D::F32 | D::F64) => true,
            AttrType::Scalar(
                D::S8 | D::S16 | D::S32 | D::S64 | D::U8 | D::U16 | D::U32 | D::U64,
            ) => whole,
            _ => false,
        }
    }

    /// Whether the value is absent, or a number within the bounds, or none: that is another problem.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, value: Option<AttrValue<'_>>) -> bool {
        (self.min.is_none() && self.max.is_none()) || self.broken(value).is_none()
    }

    /// Which bound the value breaks, and the number.
    fn broken(&self, value: Option<AttrValue<'_>>) -> Option<(&'static str, Bound, Wide)> {
        let value = value?;
        let number = value.number()?;
        // A bound is rounded as the value was: 0.1 of `f32` is more than 0.1.
        let is_single = value.0.scalar()?.dtype() == XLA_FFI_DataType::F32;
        let limit = |bound: &Bound| match bound.value {
            Wide::Float(float) if is_single => Wide::Float(f64::from(float as f32)),
            exact => exact,
        };
        if let Some(min) = self.min.filter(|min| !is_ordered(limit(min), number)) {
            return Some((">=", min, number));
        }
        let max = self.max.filter(|max| !is_ordered(number, limit(max)))?;
        Some(("<=", max, number))
    }

    /// Says which bound the value of the attribute `name` breaks.
    #[cold]
    pub(crate) fn explain(&self, value: AttrValue<'_>, name: &str, problems: &mut Problems<'_>) {
        let Some((sign, bound, number)) = self.broken(Some(value)) else {
            return;
        };
        let text = problems.line();
        let pieces = [
            "attribute `",
            name,
            "`: expected a value ",
            sign,
            " ",
            bound.json,
            ", got ",
        ];
        crate::error::problems::put(text, &pieces);
        push_number(text, number);
    }
}

/// Whether the first is at most the second; not with a NaN.
fn is_ordered(low: Wide, high: Wide) -> bool {
    let float = |number| match number {
        Wide::Int(int) => int as f64,
        Wide::Float(float) => float,
    };
    match (low, high) {
        (Wide::Int(low), Wide::Int(high)) => low <= high,
        _ => float(low) <= float(high),
    }
}
