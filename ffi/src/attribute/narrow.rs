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
