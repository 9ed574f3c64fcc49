//! Numbers of one type as another, exact or refused.

/// Conversion from a number of another type, exact or refused; floats are rounded to nearest.
pub(crate) trait Narrow: Sized {
    fn from_int(value: i128) -> Option<Self>;
    fn from_float(value: f64) -> Option<Self>;
}

macro_rules! narrow_int {
    ($($ty:ty)*) => {
        $(impl Narrow for $ty {
            fn from_int(value: i128) -> Option<Self> {
                value.try_into().ok()
            }

            fn from_float(_: f64) -> Option<Self> {
                None
            }
        })*
    };
}

narrow_int!(i8 i16 i32 i64 u8 u16 u32 u64);

impl Narrow for f64 {
    fn from_int(value: i128) -> Option<Self> {
        let float = value as Self;
        (float as i128 == value).then_some(float)
    }

    fn from_float(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Narrow for f32 {
    fn from_int(value: i128) -> Option<Self> {
        let float = value as Self;
        (float as i128 == value).then_some(float)
    }

    fn from_float(value: f64) -> Option<Self> {
        let float = value as Self;
        (float.is_finite() || !value.is_finite()).then_some(float)
    }
}

/// An integer of any width, or a float, widened.
#[derive(Clone, Copy, Debug)]
pub enum Wide {
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
}

macro_rules! wide {
    ($kind:ident $($ty:ty)*) => {
        $(impl From<$ty> for Wide {
            fn from(value: $ty) -> Self {
                Self::$kind(value.into())
            }
        })*
    };
}

wide!(Int i8 i16 i32 i64 u8 u16 u32 u64);
wide!(Float f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_is_exact_for_integers_and_rounds_floats() {
        assert_eq!(i8::from_int(127), Some(127));
        assert_eq!(i8::from_int(128), None);
        assert_eq!(u64::from_int(-1), None);
        assert_eq!(i32::from_float(1.0), None);
        assert_eq!(f32::from_float(1e-5), Some(1e-5));
        assert_eq!(f32::from_float(1e40), None);
        assert_eq!(f32::from_float(f64::INFINITY), Some(f32::INFINITY));
        assert!(f32::from_float(f64::NAN).is_some_and(f32::is_nan));
        assert_eq!(f32::from_int(1 << 24), Some(16_777_216.0));
        assert_eq!(f32::from_int((1 << 24) + 1), None);
        assert_eq!(f64::from_int(i128::from(i64::MAX)), None);
    }
}
