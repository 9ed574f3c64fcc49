//! Converts single elements between numbers and the bits of each element type.

use super::{DType, Shape, Tensor};
use crate::value::dtype::Class;
use xla_ffi_sys::{Error, Result};

/// The value of an element, in the widest type of its class.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// A value of `PRED`.
    Bool(bool),
    /// A value of a signed integer type.
    Signed(i64),
    /// A value of an unsigned integer type.
    Unsigned(u64),
    /// A value of a floating-point type.
    Float(f64),
    /// A value of a complex type: real and imaginary part.
    Complex(f64, f64),
}

impl Number {
    /// Returns the real and the imaginary part. The imaginary part of a real number is 0.
    fn parts(self) -> [f64; 2] {
        match self {
            Self::Bool(value) => [value.into(), 0.0],
            Self::Signed(value) => [value as f64, 0.0],
            Self::Unsigned(value) => [value as f64, 0.0],
            Self::Float(value) => [value, 0.0],
            Self::Complex(re, im) => [re, im],
        }
    }

    /// Returns the number of parts (real and imaginary) that are infinite.
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

// The crate microfloat (0.1.3) is not used, because it rounds an `f64` twice, first to an `f32`. As a result, one in
// seven numbers next to a tie gets wrong bits. The crate also encodes zero as NaN in f8e8m0fnu. This module rounds
// once.

/// A small float format: exponent bits, mantissa bits, bias, and the meaning of special bit patterns.
struct Small {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

#[derive(PartialEq)]
enum Special {
    /// As in IEEE 754: numbers with the largest exponent are infinity or NaN.
    Ieee,
    /// The bit pattern with all bits set is NaN; infinity does not exist.
    OnesNan,
    /// The bit pattern of negative zero is NaN; infinity does not exist.
    NegativeZeroNan,
    /// Every bit pattern is a finite number.
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
        DType::F16 => (5, 10, 15, Special::Ieee),
        DType::BF16 => (8, 7, 127, Special::Ieee),
        _ => return None,
    };
    Some(Small {
        exponent,
        mantissa,
        bias,
        special,
    })
}

impl Small {
    fn sign(&self) -> u16 {
        1 << (self.exponent + self.mantissa)
    }

    fn decode(&self, bits: u16) -> f64 {
        let magnitude = bits & (self.sign() - 1);
        let sign = if bits & self.sign() == 0 { 1.0 } else { -1.0 };
        let top = (1_u16 << self.exponent) - 1;
        let power = magnitude >> self.mantissa;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let special = match self.special {
            Special::Ieee if power == top && fraction == 0 => Some(sign * f64::INFINITY),
            Special::Ieee => (power == top).then_some(f64::NAN),
            Special::OnesNan => (magnitude == self.sign() - 1).then_some(f64::NAN),
            Special::NegativeZeroNan => (bits == self.sign()).then_some(f64::NAN),
            Special::Finite => None,
        };
        special.unwrap_or_else(|| {
            let whole = f64::from(u8::from(power > 0));
            let value = whole + f64::from(fraction) / f64::from(1_u16 << self.mantissa);
            sign * value * 2.0_f64.powi(i32::from(power.max(1)) - self.bias)
        })
    }

    /// Encodes a number in an IEEE format by arithmetic, because the search of `encode` is slow for 65536 bit
    /// patterns.
    fn encode_ieee(&self, value: f64) -> u16 {
        let sign = if value.is_sign_negative() {
            self.sign()
        } else {
            0
        };
        let infinity = self.sign() - (1 << self.mantissa);
        if value.is_nan() {
            return sign | infinity | 1 << (self.mantissa - 1);
        }
        let magnitude = value.abs();
        let power = (magnitude.to_bits() >> 52) as i32 - 1023;
        let power = power.max(1 - self.bias);
        // The multiplication by a power of two is exact. Rounding up to the next power of two carries into the
        // exponent bits.
        let steps = magnitude * 2.0_f64.powi(self.mantissa as i32 - power);
        let steps = steps.round_ties_even() as u64;
        let bits = steps.saturating_add(((power + self.bias - 1) as u64) << self.mantissa);
        sign | bits.min(infinity.into()) as u16
    }

    /// Returns the bit pattern of the nearest number, with ties to even. Values out of range become infinity, NaN, or
    /// the largest number, depending on the format.
    fn encode(&self, value: f64) -> u16 {
        if value.is_nan() {
            let nan = (0..=0xFF).find(|bits| self.decode(*bits).is_nan());
            return nan.unwrap_or(0);
        }
        let finite = |bits: &u16| self.decode(*bits).is_finite();
        let largest = (0..self.sign()).rev().find(finite).unwrap_or(0);
        let step = self.decode(largest) - self.decode(largest - 1);
        // The bit pattern after the largest number is not a number. For rounding, it counts as the next larger
        // number.
        let number = |bits: u16| match bits > largest {
            true => self.decode(largest) + step,
            false => self.decode(bits),
        };
        let magnitude = value.abs().min(number(largest + 1));
        let distance = |bits: u16| (number(bits) - magnitude).abs();
        let nearest = (0..=largest + 1).min_by(|a, b| {
            let nearer = distance(*a).total_cmp(&distance(*b));
            nearer.then((a % 2).cmp(&(b % 2)))
        });
        let sign = if value.is_sign_negative() {
            self.sign()
        } else {
            0
        };
        match (nearest.unwrap_or(0), &self.special) {
            (0, Special::NegativeZeroNan) => 0,
            (bits, Special::Finite) => bits.min(largest) | sign,
            (bits, _) => bits | sign,
        }
    }
}

fn decode_exponent(bits: u8) -> f64 {
    if bits == 0xFF {
        f64::NAN
    } else {
        2.0_f64.powi(i32::from(bits) - 127)
    }
}

/// Returns the bit pattern of the nearest number of `F8E8M0FNU`. Ties round up, as in ml_dtypes. Negative values and
/// values out of range become NaN. Zero, which the type lacks, becomes the smallest number.
fn encode_exponent(value: f64) -> u8 {
    if value.is_nan() || value < 0.0 {
        return 0xFF;
    }
    (0..0xFF)
        .find(|&bits| value < 1.5 * decode_exponent(bits))
        .unwrap_or(0xFF)
}

fn encode_float(dtype: DType, value: f64) -> Option<u128> {
    Some(match dtype {
        // F4E2M1FN has neither infinity nor NaN.
        DType::F4E2M1FN if value.is_nan() => return None,
        DType::F16 | DType::BF16 => small(dtype)?.encode_ieee(value).into(),
        DType::F32 => (value as f32).to_bits().into(),
        DType::F64 => value.to_bits().into(),
        DType::F8E8M0FNU => encode_exponent(value).into(),
        other => small(other)?.encode(value).into(),
    })
}

fn decode_float(dtype: DType, bits: u128) -> Option<f64> {
    Some(match dtype {
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F64 => f64::from_bits(bits as u64),
        DType::F8E8M0FNU => decode_exponent(bits as u8),
        other => small(other)?.decode(bits as u16),
    })
}

/// Returns the bits of `value` as an element of type `dtype`, in the low bytes of the result.
///
/// # Errors
/// `INVALID_ARGUMENT` if the number is of a different class or out of the range of an integer type.
pub fn encode(dtype: DType, value: Number) -> Result<u128> {
    let whole = match value {
        Number::Bool(value) => Some(i128::from(value)),
        Number::Signed(value) => Some(value.into()),
        Number::Unsigned(value) => Some(value.into()),
        Number::Float(_) | Number::Complex(..) => None,
    };
    let width = dtype.bits();
    let within = |low: i128, high: i128| {
        let whole = whole.filter(|whole| (low..=high).contains(whole))?;
        Some(whole as u128 & ((1 << width) - 1))
    };
    let [re, im] = value.parts();
    let bits = match (dtype.class(), value) {
        (Class::Bool, _) => within(0, 1),
        (Class::Signed, _) => within(-1 << (width - 1), (1 << (width - 1)) - 1),
        (Class::Unsigned, _) => within(0, (1 << width) - 1),
        (Class::Token, _) | (_, Number::Bool(_)) | (Class::Float, Number::Complex(..)) => None,
        (Class::Float, _) => encode_float(dtype, re),
        (Class::Complex, _) => encode_float(dtype.part(), re)
            .zip(encode_float(dtype.part(), im))
            .map(|(re, im)| re | im << (width / 2)),
    };
    bits.ok_or_else(|| Error::invalid_argument(format!("{value} is not a value of {dtype}")))
}

/// Returns the number that `bits` represent in `dtype`, or `None` for a token.
#[must_use]
pub fn decode(dtype: DType, bits: u128) -> Option<Number> {
    let width = dtype.bits();
    Some(match dtype.class() {
        Class::Bool => Number::Bool(bits & 0xFF != 0),
        Class::Signed => Number::Signed((bits as u64 as i64) << (64 - width) >> (64 - width)),
        Class::Unsigned => Number::Unsigned((bits as u64) << (64 - width) >> (64 - width)),
        Class::Float => Number::Float(decode_float(dtype, bits)?),
        Class::Complex => Number::Complex(
            decode_float(dtype.part(), bits)?,
            decode_float(dtype.part(), bits >> (width / 2))?,
        ),
        Class::Token => return None,
    })
}

/// Returns true if a finite number overflowed in the conversion to `bits`: to infinity, NaN, or the largest number of
/// a type that has neither.
pub(crate) fn overflows(dtype: DType, value: Number, bits: u128) -> bool {
    let Some(stored) = decode(dtype, bits) else {
        return false;
    };
    // Rounding changes a number of 6 or more by at most a quarter, even in the least precise type. A larger change is
    // an overflow.
    let lost = |(given, stored): (f64, f64)| {
        given.is_finite()
            && (!stored.is_finite() || (stored.abs() >= 6.0 && given.abs() > 1.5 * stored.abs()))
    };
    value.parts().into_iter().zip(stored.parts()).any(lost)
}

/// Returns the shortest decimal text that is parsed to these bits of `dtype`.
#[must_use]
pub fn shortest(dtype: DType, bits: u128) -> String {
    let float = |dtype: DType, value: f64, bits: u128| {
        let mut shorter = (0..17).filter_map(|digits| format!("{value:.digits$e}").parse().ok());
        let same = |short: &f64| encode_float(dtype, *short) == Some(bits);
        // The text has an exponent only if the number would be long without it.
        let text = format!("{:?}", shorter.find(same).unwrap_or(value));
        text.strip_suffix(".0").unwrap_or(&text).to_owned()
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

/// Writes the element at `index` of an array of `dtype`, which may be packed.
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

/// Returns the element at `index` of an array of `dtype`, which may be packed.
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
    /// Returns the array with the opposite order of elements within each byte. Hosts before r5 put the first element
    /// of a byte into the high bits. Arrays without packed elements are returned unchanged.
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

    /// Returns an array whose elements are the results of `value` for the row-major indices.
    ///
    /// # Errors
    /// The errors of [`encode`], and `RESOURCE_EXHAUSTED` if the memory cannot be allocated.
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

    /// Returns the text of the element with the row-major index `index`, or `None` if the index is out of range.
    #[must_use]
    pub fn text(&self, index: usize) -> Option<String> {
        self.get(index)?;
        let dtype = self.shape().dtype();
        Some(shortest(dtype, load(self.bytes(), dtype, index)))
    }

    /// Returns the element with the row-major index `index`, or `None` if the index is out of range or the array is a
    /// token.
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
    fn known_values() {
        let bits = |dtype, value| encode(dtype, Number::Float(value)).unwrap();
        for (dtype, value, expected) in [
            (DType::F8E4M3FN, 448.0, 0x7E),
            (DType::F8E4M3FN, 1e9, 0x7F),
            (DType::F8E5M2, -1e9, 0xFC),
            (DType::F8E4M3FNUZ, -0.0, 0),
            (DType::F8E4M3FNUZ, 1.0, 0x40),
            (DType::F4E2M1FN, 100.0, 7),
            (DType::F8E8M0FNU, 0.0, 0),
            (DType::F8E8M0FNU, 1.4, 127),
            (DType::F8E8M0FNU, 1.5, 128),
            (DType::F8E8M0FNU, -1.0, 0xFF),
            (DType::BF16, 1.0, 0x3F80),
            (DType::F16, 1.0, 0x3C00),
        ] {
            assert_eq!(bits(dtype, value), expected, "{dtype} {value}");
        }
    }

    #[test]
    fn floats_of_16_bits_are_those_of_the_crate_half() {
        for bits in 0..=u16::MAX {
            for (dtype, expected) in [
                (DType::F16, half::f16::from_bits(bits).to_f64()),
                (DType::BF16, half::bf16::from_bits(bits).to_f64()),
            ] {
                let value = decode_float(dtype, bits.into()).unwrap();
                assert_eq!(value.is_nan(), expected.is_nan(), "{dtype} {bits:#x}");
                if value.is_nan() {
                    continue;
                }
                assert_eq!(value.to_bits(), expected.to_bits(), "{dtype} {bits:#x}");
                assert_eq!(
                    encode_float(dtype, value),
                    Some(bits.into()),
                    "{dtype} {value}"
                );
                // The test values are midway between this number and the next, and the `f64` numbers next to the
                // midpoint.
                let next = decode_float(dtype, (bits ^ 1).into()).unwrap();
                let middle = f64::midpoint(value, next);
                if !middle.is_finite() {
                    continue;
                }
                let [low, high] = [value.min(next), value.max(next)];
                let even = if bits % 2 == 0 { value } else { next };
                for (given, wanted) in [
                    (middle, even),
                    (middle.next_down(), low),
                    (middle.next_up(), high),
                ] {
                    let found = decode_float(dtype, encode_float(dtype, given).unwrap());
                    assert_eq!(found, Some(wanted), "{dtype} {given:e}");
                }
            }
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
}
