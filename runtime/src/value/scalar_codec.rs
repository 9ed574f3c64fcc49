//! Single elements: between numbers and the bits of every element type.

use crate::value::dtype::Class;
use crate::{DType, Error, Result, Shape, Tensor};
use half::{bf16, f16};

/// One element, in the widest type of its class.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// Of PRED.
    Bool(bool),
    /// Of a signed integer type.
    Signed(i64),
    /// Of an unsigned integer type.
    Unsigned(u64),
    /// Of a floating-point type.
    Float(f64),
    /// Of a complex type: real, imaginary.
    Complex(f64, f64),
}

impl Number {
    /// Real and imaginary part.
    fn parts(self) -> [f64; 2] {
        match self {
            Self::Bool(value) => [value.into(), 0.0],
            Self::Signed(value) => [value as f64, 0.0],
            Self::Unsigned(value) => [value as f64, 0.0],
            Self::Float(value) => [value, 0.0],
            Self::Complex(re, im) => [re, im],
        }
    }

    /// How many of its parts are infinite.
    pub(crate) fn infinite_parts(self) -> usize {
        let parts = self.parts().into_iter();
        parts.filter(|part| part.is_infinite()).count()
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{}", u8::from(*value)),
            Self::Signed(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Complex(re, im) if im.is_sign_negative() => write!(f, "{re}-{}i", -im),
            Self::Complex(re, im) => write!(f, "{re}+{im}i"),
        }
    }
}

// Not by the crate microfloat: 0.1.3 decodes every pattern alike, but rounds an f64 to an f32 first, so that of
// the numbers beside a tie every seventh gets another pattern, and makes NaN of f8e8m0fnu's zero. What is
// written as text is rounded once here.

/// A small float: exponent bits, mantissa bits, bias, what its special patterns mean.
struct Small {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

#[derive(PartialEq)]
enum Special {
    /// As IEEE 754: the largest exponent is infinity or not a number.
    Ieee,
    /// All ones is not a number; no infinity.
    OnesNan,
    /// Minus zero is not a number; no infinity.
    NegativeZeroNan,
    /// Every pattern is a finite number.
    Finite,
}

fn small(dtype: DType) -> Option<Small> {
    let (exponent, mantissa, bias, special) = match dtype {
        DType::F8E5M2 => (5, 2, 15, Special::Ieee),
        DType::F8E4M3 => (4, 3, 7, Special::Ieee),
        DType::F8E3M4 => (3, 4, 3, Special::Ieee),
        DType::F8E4M3FN => (4, 3, 7, Special::OnesNan),
        DType::F8E4M3B11FNUZ => (4, 3, 11, Special::NegativeZeroNan),
        DType::F8E5M2FNUZ => (5, 2, 16, Special::NegativeZeroNan),
        DType::F8E4M3FNUZ => (4, 3, 8, Special::NegativeZeroNan),
        DType::F4E2M1FN => (2, 1, 1, Special::Finite),
        _ => return None,
    };
    Some(Small {
        exponent,
        mantissa,
        bias,
        special,
    })
}

fn decode_small(format: &Small, bits: u8) -> f64 {
    let width = 1 + format.exponent + format.mantissa;
    let sign = bits >> (width - 1) & 1;
    let exponent = u32::from(bits >> format.mantissa) & ((1 << format.exponent) - 1);
    let mantissa = u32::from(bits) & ((1 << format.mantissa) - 1);
    let largest = (1 << format.exponent) - 1;
    let sign_factor = if sign == 1 { -1.0 } else { 1.0 };
    match format.special {
        Special::Ieee if exponent == largest && mantissa == 0 => {
            return sign_factor * f64::INFINITY;
        }
        Special::Ieee if exponent == largest => return f64::NAN,
        Special::OnesNan if exponent == largest && mantissa == (1 << format.mantissa) - 1 => {
            return f64::NAN;
        }
        Special::NegativeZeroNan if sign == 1 && exponent == 0 && mantissa == 0 => {
            return f64::NAN;
        }
        _ => {}
    }
    let fraction = f64::from(mantissa) / f64::from(1_u32 << format.mantissa);
    let (value, power) = if exponent == 0 {
        (fraction, 1 - format.bias)
    } else {
        (1.0 + fraction, exponent as i32 - format.bias)
    };
    sign_factor * value * 2.0_f64.powi(power)
}

/// The nearest pattern, ties to the even one; past the range infinity, not-a-number, or the largest
/// number, whichever the format has.
fn encode_small(format: &Small, value: f64) -> u8 {
    let width = 1 + format.exponent + format.mantissa;
    let patterns = 0..=((1_u16 << width) - 1) as u8;
    if value.is_nan() {
        return patterns
            .clone()
            .find(|&bits| decode_small(format, bits).is_nan())
            .unwrap_or(0);
    }
    let sign = u8::from(value.is_sign_negative()) << (width - 1);
    let magnitude = value.abs();
    let half = 1_u8 << (width - 1);
    let largest = (0..half)
        .filter(|&bits| decode_small(format, bits).is_finite())
        .map(|bits| (bits, decode_small(format, bits)))
        .fold(
            (0, 0.0),
            |best, next| if next.1 >= best.1 { next } else { best },
        );
    let below = decode_small(format, largest.0 - 1);
    let tie = largest.1 + (largest.1 - below) / 2.0;
    if magnitude > tie || (magnitude == tie && largest.0 % 2 == 1) {
        let beyond = match format.special {
            Special::Ieee => patterns
                .clone()
                .find(|&b| decode_small(format, b).is_infinite()),
            Special::Finite => Some(largest.0),
            _ => patterns.clone().find(|&b| decode_small(format, b).is_nan()),
        };
        let beyond = beyond.unwrap_or(largest.0);
        return if format.special == Special::NegativeZeroNan {
            beyond
        } else {
            beyond | sign
        };
    }
    let mut best = (0_u8, f64::INFINITY);
    for bits in 0..half {
        let distance = (decode_small(format, bits) - magnitude).abs();
        if distance < best.1 || (distance == best.1 && bits % 2 == 0) {
            best = (bits, distance);
        }
    }
    if best.0 == 0 && format.special == Special::NegativeZeroNan {
        0
    } else {
        best.0 | sign
    }
}

/// `value` as one of the two numbers that it lies between: the odd one. Rounded once more, to a type of fewer bits by
/// two at least, it gives what `value` would, which `from_f64` of the crate half does not: it cuts off 32 bits first.
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    let wide = f64::from(near);
    if wide == value || value.is_nan() {
        return near;
    }
    let towards_zero = near.to_bits() - u32::from(wide.abs() > value.abs());
    f32::from_bits(towards_zero | 1)
}

fn decode_exponent(bits: u8) -> f64 {
    if bits == 0xFF {
        f64::NAN
    } else {
        2.0_f64.powi(i32::from(bits) - 127)
    }
}

/// The nearest pattern, ties to the larger number, as in ml_dtypes; past the range and below zero not-a-number.
/// Zero, which the type lacks, is its smallest number.
fn encode_exponent(value: f64) -> u8 {
    if value.is_nan() || value < 0.0 {
        return 0xFF;
    }
    (0..0xFF)
        .find(|&bits| value < 1.5 * decode_exponent(bits))
        .unwrap_or(0xFF)
}

/// The bits of `value` in `dtype`, in the low bytes.
///
/// # Errors
/// `INVALID_ARGUMENT` when the number is of another class or past an integer's range.
pub fn encode(dtype: DType, value: Number) -> Result<u128> {
    let refuse = || Error::invalid(format!("{value} is not a value of {dtype}"));
    let bits = dtype.bits() as u32;
    Ok(match (dtype.class(), value) {
        (Class::Bool, Number::Bool(value)) => u128::from(value),
        (Class::Bool, Number::Unsigned(value @ 0..=1)) => u128::from(value),
        (Class::Bool, Number::Signed(value @ 0..=1)) => value as u128,
        (Class::Signed, Number::Bool(value)) => return encode(dtype, Number::Signed(value.into())),
        (Class::Unsigned, Number::Bool(value)) => u128::from(value),
        (Class::Signed, Number::Unsigned(value)) => {
            let value = i64::try_from(value).map_err(|_| refuse())?;
            return encode(dtype, Number::Signed(value));
        }
        (Class::Signed, Number::Signed(value)) => {
            let lowest = i64::MIN >> (64 - bits);
            let highest = i64::MAX >> (64 - bits);
            if !(lowest..=highest).contains(&value) {
                return Err(refuse());
            }
            value as u64 as u128 & ((1_u128 << bits) - 1)
        }
        (Class::Unsigned, Number::Signed(value)) => {
            let value = u64::try_from(value).map_err(|_| refuse())?;
            return encode(dtype, Number::Unsigned(value));
        }
        (Class::Unsigned, Number::Unsigned(value)) => {
            if value > u64::MAX >> (64 - bits) {
                return Err(refuse());
            }
            u128::from(value)
        }
        (Class::Float, Number::Signed(value)) => {
            return encode(dtype, Number::Float(value as f64));
        }
        (Class::Float, Number::Unsigned(value)) => {
            return encode(dtype, Number::Float(value as f64));
        }
        (Class::Float, Number::Float(value)) => match dtype {
            // It has neither infinity nor a NaN.
            DType::F4E2M1FN if value.is_nan() => return Err(refuse()),
            DType::F16 => f16::from_f32(to_odd(value)).to_bits().into(),
            DType::BF16 => bf16::from_f32(to_odd(value)).to_bits().into(),
            DType::F32 => (value as f32).to_bits().into(),
            DType::F64 => value.to_bits().into(),
            DType::F8E8M0FNU => encode_exponent(value).into(),
            other => encode_small(&small(other).ok_or_else(refuse)?, value).into(),
        },
        (Class::Complex, Number::Complex(re, im)) => match dtype {
            DType::C64 => {
                u128::from((re as f32).to_bits()) | u128::from((im as f32).to_bits()) << 32
            }
            _ => u128::from(re.to_bits()) | u128::from(im.to_bits()) << 64,
        },
        (Class::Complex, Number::Float(re)) => return encode(dtype, Number::Complex(re, 0.0)),
        (Class::Complex, Number::Signed(re)) => {
            return encode(dtype, Number::Complex(re as f64, 0.0));
        }
        (Class::Complex, Number::Unsigned(re)) => {
            return encode(dtype, Number::Complex(re as f64, 0.0));
        }
        _ => return Err(refuse()),
    })
}

/// The number that `bits` are in `dtype`; `None` for a token.
#[must_use]
pub fn decode(dtype: DType, bits: u128) -> Option<Number> {
    let width = dtype.bits() as u32;
    Some(match dtype.class() {
        Class::Bool => Number::Bool(bits & 0xFF != 0),
        Class::Signed => Number::Signed((bits as u64 as i64) << (64 - width) >> (64 - width)),
        Class::Unsigned => Number::Unsigned((bits as u64) << (64 - width) >> (64 - width)),
        Class::Float => Number::Float(match dtype {
            DType::F16 => f16::from_bits(bits as u16).to_f64(),
            DType::BF16 => bf16::from_bits(bits as u16).to_f64(),
            DType::F32 => f32::from_bits(bits as u32).into(),
            DType::F64 => f64::from_bits(bits as u64),
            DType::F8E8M0FNU => decode_exponent(bits as u8),
            other => decode_small(&small(other)?, bits as u8),
        }),
        Class::Complex if dtype == DType::C64 => Number::Complex(
            f32::from_bits(bits as u32).into(),
            f32::from_bits((bits >> 32) as u32).into(),
        ),
        Class::Complex => Number::Complex(
            f64::from_bits(bits as u64),
            f64::from_bits((bits >> 64) as u64),
        ),
        Class::Token => return None,
    })
}

/// What `value` is and `dtype`, of floating point, has not.
pub(crate) fn lacked(dtype: DType, value: Number) -> Option<&'static str> {
    let Number::Float(value) = value else {
        return None;
    };
    let is_power = dtype == DType::F8E8M0FNU;
    let has_infinity = small(dtype).map_or(!is_power, |small| small.special == Special::Ieee);
    if value.is_infinite() && !has_infinity {
        return Some("infinity");
    }
    (value == 0.0 && is_power).then_some("zero")
}

/// Whether a finite number became infinity, not-a-number, or the largest number of a type that has
/// neither, as `bits` of `dtype`.
pub(crate) fn overflows(dtype: DType, value: Number, bits: u128) -> bool {
    let Some(stored) = decode(dtype, bits) else {
        return false;
    };
    // Rounding moves a number that is not tiny by a quarter at most, in the coarsest of the types.
    let lost = |(given, stored): (f64, f64)| {
        given.is_finite()
            && (!stored.is_finite() || (stored.abs() >= 6.0 && given.abs() > 1.5 * stored.abs()))
    };
    value.parts().into_iter().zip(stored.parts()).any(lost)
}

/// The shortest decimal text that reads back as these bits of `dtype`.
#[must_use]
pub fn shortest(dtype: DType, bits: u128) -> String {
    let float = |dtype: DType, value: f64, bits: u128| {
        if !value.is_finite() || value == 0.0 {
            return value.to_string();
        }
        let same = |text: &str| {
            let read = text
                .parse()
                .ok()
                .and_then(|read| encode(dtype, Number::Float(read)).ok());
            read == Some(bits)
        };
        let digits = (0..17)
            .find(|digits| same(&format!("{value:.digits$e}")))
            .unwrap_or(17);
        let text = format!("{value:.digits$e}");
        // Exponents are for numbers that would be long without.
        match text.parse::<f64>() {
            Ok(short) if (1e-4..1e15).contains(&short.abs()) => short.to_string(),
            _ => text,
        }
    };
    match decode(dtype, bits) {
        None => "token".into(),
        Some(Number::Float(value)) => float(dtype, value, bits),
        Some(Number::Complex(re, im)) => {
            let part = dtype.part();
            let mask = (1 << part.bits()) - 1;
            let im = float(part, im, bits >> part.bits());
            let sign = if im.starts_with('-') { "" } else { "+" };
            format!("{}{sign}{im}i", float(part, re, bits & mask))
        }
        Some(value) => value.to_string(),
    }
}

/// Writes the element `index` of a packed or plain array of `dtype`.
#[doc(hidden)]
pub fn store(bytes: &mut [u8], dtype: DType, index: usize, bits: u128) {
    let width = dtype.bits();
    if dtype.is_packed() {
        let per_byte = 8 / width;
        let shift = index % per_byte * width;
        let mask = ((1_u16 << width) - 1) as u8;
        let byte = &mut bytes[index / per_byte];
        *byte = *byte & !(mask << shift) | (bits as u8 & mask) << shift;
    } else {
        let size = width / 8;
        bytes[index * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// Reads the element `index` of a packed or plain array of `dtype`.
#[doc(hidden)]
pub fn load(bytes: &[u8], dtype: DType, index: usize) -> u128 {
    let width = dtype.bits();
    if dtype.is_packed() {
        let per_byte = 8 / width;
        let byte = bytes[index / per_byte] >> (index % per_byte * width);
        return u128::from(byte & ((1_u16 << width) - 1) as u8);
    }
    let size = width / 8;
    let mut wide = [0; 16];
    wide[..size].copy_from_slice(&bytes[index * size..][..size]);
    u128::from_le_bytes(wide)
}

impl Tensor {
    /// The same elements in the other order within each byte: hosts before r5 put the first element
    /// of a byte into its high bits. Arrays that are not packed are the same in both.
    pub(crate) fn with_flipped_packing(&self) -> Result<Self> {
        let dtype = self.shape().dtype();
        if !dtype.is_packed() {
            return Ok(self.clone());
        }
        let width = dtype.bits();
        let per_byte = 8 / width;
        let mask = ((1_u16 << width) - 1) as u8;
        let flip = |byte: &u8| {
            (0..per_byte).fold(0, |flipped, at| {
                flipped | (byte >> (at * width) & mask) << ((per_byte - 1 - at) * width)
            })
        };
        let bytes: Vec<u8> = self.bytes().iter().map(flip).collect();
        Self::from_bytes(self.shape().clone(), &bytes)
    }

    /// An array whose elements `value` gives, by their row-major number.
    ///
    /// # Errors
    /// Whatever [`encode`] refuses, and memory that cannot be allocated.
    pub fn from_fn(shape: Shape, mut value: impl FnMut(usize) -> Number) -> Result<Self> {
        let dtype = shape.dtype();
        let elements = shape.elements();
        let mut tensor = Self::zeros(shape)?;
        if let Some(bytes) = tensor.bytes_mut() {
            for index in 0..elements {
                store(bytes, dtype, index, encode(dtype, value(index))?);
            }
        }
        Ok(tensor)
    }

    /// The text of the element with the row-major number `index`; `None` past the end.
    #[must_use]
    pub fn text(&self, index: usize) -> Option<String> {
        self.get(index)?;
        let dtype = self.shape().dtype();
        Some(shortest(dtype, load(self.bytes(), dtype, index)))
    }

    /// The element with the row-major number `index`; `None` past the end and for a token.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Number> {
        if index >= self.shape().elements() {
            return None;
        }
        let dtype = self.shape().dtype();
        if dtype == DType::Token {
            return None;
        }
        decode(dtype, load(self.bytes(), dtype, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_pattern_round_trips() {
        for dtype in DType::all() {
            let Some(format) = small(dtype) else { continue };
            for bits in 0..(1_u16 << dtype.bits()) {
                let value = decode_small(&format, bits as u8);
                if value.is_nan() {
                    assert!(decode_small(&format, encode_small(&format, value)).is_nan());
                } else {
                    assert_eq!(encode_small(&format, value), bits as u8, "{dtype} {value}");
                }
            }
        }
    }

    #[test]
    fn known_values() {
        let bits = |dtype, value| encode(dtype, Number::Float(value)).unwrap();
        assert_eq!(bits(DType::F8E4M3FN, 448.0), 0x7E);
        assert_eq!(bits(DType::F8E4M3FN, 1e9), 0x7F);
        assert_eq!(bits(DType::F8E5M2, 1e9), 0x7C);
        assert_eq!(bits(DType::F8E5M2, -1e9), 0xFC);
        assert_eq!(bits(DType::F8E4M3FNUZ, -0.0), 0);
        assert_eq!(bits(DType::F8E4M3FNUZ, 1.0), 0x40);
        assert_eq!(bits(DType::F4E2M1FN, 6.0), 7);
        assert_eq!(bits(DType::F4E2M1FN, 100.0), 7);
        assert_eq!(bits(DType::F8E8M0FNU, 1.0), 127);
        assert_eq!(bits(DType::BF16, 1.0), 0x3F80);
        assert_eq!(bits(DType::F16, 1.0), 0x3C00);
    }

    /// The pattern of a type whose infinity has the bits `beyond`, in whole numbers.
    fn nearest(value: f64, exponent_bits: u32, mantissa_bits: u32, beyond: u64) -> u64 {
        let mantissa = value.to_bits() & ((1 << 52) - 1);
        let exponent = (value.to_bits() >> 52 & 0x7FF) as i64;
        let hidden = u64::from(exponent != 0) << 52;
        // The value is `whole` by 2 to the power `power`, a step of its pattern 2 to the power `step`.
        let (whole, power) = (hidden | mantissa, exponent.max(1) - 1075);
        let lowest = 2 - (1 << (exponent_bits - 1)) - i64::from(mantissa_bits);
        let step = lowest.max(power + 52 - i64::from(mantissa_bits));
        let cut = (step - power).min(63);
        let (kept, rest) = (whole >> cut, whole & ((1 << cut) - 1));
        let up = match rest.cmp(&(1 << (cut - 1))) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => kept & 1,
            std::cmp::Ordering::Greater => 1,
        };
        (kept + up + (((step - lowest) as u64) << mantissa_bits)).min(beyond)
    }

    #[test]
    fn halves_are_rounded_once() {
        for (dtype, exponent_bits, mantissa_bits, beyond) in
            [(DType::F16, 5, 10, 0x7C00), (DType::BF16, 8, 7, 0x7F80)]
        {
            let finite = |bits: u64| match decode(dtype, bits.into()) {
                Some(Number::Float(value)) if value.is_finite() => value,
                _ => 2.0_f64.powi(1 << (exponent_bits - 1)),
            };
            for bits in 0..beyond {
                let (below, above) = (finite(bits), finite(bits + 1));
                for middle in [below, below + (above - below) / 2.0, above] {
                    let middle = middle.to_bits();
                    for value in [middle.saturating_sub(1), middle, middle + 1] {
                        let value = f64::from_bits(value);
                        let expected = nearest(value, exponent_bits, mantissa_bits, beyond);
                        let got = |value| encode(dtype, Number::Float(value)).unwrap();
                        assert_eq!(got(value), expected.into(), "{dtype} {value:e}");
                        let sign = 1 << 15;
                        assert_eq!(
                            got(-value),
                            u128::from(expected | sign),
                            "{dtype} -{value:e}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn small_floats_are_rounded_once() {
        for dtype in DType::all() {
            let Some(format) = small(dtype) else { continue };
            let (largest, beyond) = match dtype {
                DType::F8E5M2 => (0x7B, 0x7C),
                DType::F8E4M3 => (0x77, 0x78),
                DType::F8E3M4 => (0x6F, 0x70),
                DType::F8E4M3FN => (0x7E, 0x7F),
                DType::F4E2M1FN => (7, 7),
                _ => (0x7F, 0x80),
            };
            // Ties and what lies beside them, as wide as in binary64, of a type that goes on past `largest`.
            let scale = 2.0_f64.powi((1 << (format.exponent - 1)) - 1 - format.bias);
            for bits in 0..=largest {
                let step = (bits >> format.mantissa).max(1) as i32 - format.bias;
                let step = 2.0_f64.powi(step - format.mantissa as i32);
                let below = decode_small(&format, bits as u8);
                for middle in [below, below + step / 2.0, below + step] {
                    let middle = middle.to_bits();
                    for value in [middle.saturating_sub(1), middle, middle + 1] {
                        let value = f64::from_bits(value);
                        let expected =
                            nearest(value / scale, format.exponent, format.mantissa, 1 << 8);
                        let expected = if expected > largest { beyond } else { expected };
                        let got = encode(dtype, Number::Float(value)).unwrap();
                        assert_eq!(got, expected.into(), "{dtype} {value:e}");
                    }
                }
            }
        }
    }

    #[test]
    fn powers_of_two_are_the_nearest() {
        let bits = |value| encode(DType::F8E8M0FNU, Number::Float(value)).unwrap();
        for power in -127..=127 {
            let own = (power + 127) as u128;
            let value = 2.0_f64.powi(power);
            let tie = 1.5 * value;
            // Ties are the larger, as in ml_dtypes; past the largest is not a number.
            for (value, expected) in [
                (value, own),
                (f64::from_bits(tie.to_bits() - 1), own),
                (tie, own + 1),
                (f64::from_bits(tie.to_bits() + 1), own + 1),
                (f64::from_bits((2.0 * value).to_bits() - 1), own + 1),
            ] {
                assert_eq!(bits(value), expected, "{value:e}");
            }
        }
        for (value, expected) in [
            (0.0, 0),
            (1e-300, 0),
            (1e300, 0xFF),
            (f64::INFINITY, 0xFF),
            (-1.0, 0xFF),
            (f64::NAN, 0xFF),
        ] {
            assert_eq!(bits(value), expected, "{value:e}");
        }
    }

    #[test]
    fn shortest_texts() {
        let text = |dtype, value| shortest(dtype, encode(dtype, Number::Float(value)).unwrap());
        assert_eq!(text(DType::F32, 0.1), "0.1");
        assert_eq!(text(DType::F64, 0.1), "0.1");
        assert_eq!(text(DType::BF16, 0.1), "0.1");
        assert_eq!(text(DType::F32, 1e-5), "1e-5");
        assert_eq!(text(DType::F32, 16_777_216.0), "16777216");
        assert_eq!(text(DType::F32, f64::NAN), "NaN");
        let complex = encode(DType::C64, Number::Complex(0.1, -2.0)).unwrap();
        assert_eq!(shortest(DType::C64, complex), "0.1-2i");
        assert_eq!(shortest(DType::Pred, 1), "1");
    }

    #[test]
    fn integers_have_ranges() {
        assert_eq!(encode(DType::S4, Number::Signed(-8)).unwrap(), 8);
        assert!(encode(DType::S4, Number::Signed(8)).is_err());
        assert!(encode(DType::U2, Number::Unsigned(4)).is_err());
        assert!(encode(DType::U8, Number::Signed(-1)).is_err());
        assert!(encode(DType::S32, Number::Float(1.0)).is_err());
        assert!(encode(DType::Pred, Number::Signed(2)).is_err());
        assert_eq!(
            encode(DType::U64, Number::Unsigned(u64::MAX)).unwrap(),
            u64::MAX.into()
        );
    }

    #[test]
    fn flipped_packing_is_its_own_inverse() {
        for dtype in [DType::S4, DType::U2, DType::S1] {
            let shape = Shape::new(dtype, [11]).unwrap();
            let tensor = Tensor::from_fn(shape, |i| match dtype {
                DType::U2 => Number::Unsigned(i as u64 % 4),
                DType::S1 => Number::Signed(-(i as i64 % 2)),
                _ => Number::Signed(i as i64 - 5),
            })
            .unwrap();
            let flipped = tensor.with_flipped_packing().unwrap();
            assert_ne!(flipped.bytes(), tensor.bytes());
            assert_eq!(
                flipped.with_flipped_packing().unwrap().bytes(),
                tensor.bytes()
            );
        }
    }

    #[test]
    fn packing_puts_the_first_element_low() {
        let shape = Shape::new(DType::S4, [3]).unwrap();
        let tensor = Tensor::from_fn(shape, |index| Number::Signed(index as i64 - 1)).unwrap();
        assert_eq!(tensor.bytes(), [0x0F, 0x01]);
        assert_eq!(tensor.get(0), Some(Number::Signed(-1)));
        assert_eq!(tensor.get(2), Some(Number::Signed(1)));
        assert_eq!(tensor.get(3), None);
    }
}
