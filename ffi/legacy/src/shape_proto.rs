//! `xla::ShapeProto` in its wire format, which XLA's documents suggest as `opaque`.

use xla_ffi::{Error, Result};
use xla_ffi_sys::XLA_FFI_DataType as DataType;

/// The maximum depth of nested tuples in a shape.
const DEPTH: usize = 32;
/// The maximum number of dimensions of an array in a shape.
const RANK: usize = 64;
/// The element type number that marks a tuple.
const TUPLE: u64 = 13;

/// A shape, parsed from the bytes of an `xla::ShapeProto`. Programs pass these bytes as `opaque` to targets whose
/// shapes vary between calls.
///
/// Any input is safe: the result is a shape or an error. Unknown fields are skipped.
/// `xla_ffi/legacy/shape_proto.h` is the equivalent for C and C++.
///
/// ```
/// use xla_ffi::DataType;
/// use xla_ffi_legacy::ShapeProto;
///
/// // element_type: F32, dimensions: [2, 300]
/// let opaque = [0x10, 11, 0x1a, 3, 2, 0xac, 0x02];
/// let ShapeProto::Array { dtype, dims, .. } = ShapeProto::parse(&opaque)? else { unreachable!() };
/// assert_eq!((dtype, &dims[..]), (DataType::F32, &[2, 300][..]));
/// assert!(ShapeProto::parse(&opaque[..5]).unwrap_err().to_string().contains("ends in the middle"));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShapeProto {
    /// The shape of an array, or of a token.
    Array {
        /// The array's element type.
        dtype: DataType,
        /// The array's dimensions, none of which is negative.
        dims: Vec<i64>,
        /// The order of the array's dimensions in memory, innermost first; empty if the shape does
        /// not state an order.
        minor_to_major: Vec<i64>,
    },
    /// The shape of a tuple, as the shapes of its elements.
    Tuple(Vec<Self>),
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Passed,
}

/// The part of a protobuf message that is not read yet.
struct Reader<'a>(&'a [u8]);

fn wrong<T>(what: &str) -> Result<T> {
    Err(Error::invalid_argument(format!(
        "no xla::ShapeProto: {what}"
    )))
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let Some((byte, rest)) = self.0.split_first() else {
                return wrong("it ends in the middle of a field");
            };
            self.0 = rest;
            if shift == 63 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 127) << shift;
            if *byte < 128 {
                return Ok(value);
            }
        }
        wrong("it has a number of more than 64 bits")
    }

    fn take(&mut self, size: u64) -> Result<&'a [u8]> {
        let Some((taken, rest)) = usize::try_from(size)
            .ok()
            .and_then(|size| self.0.split_at_checked(size))
        else {
            return wrong("it ends in the middle of a field");
        };
        self.0 = rest;
        Ok(taken)
    }

    /// Returns the number and value of the next field; `None` at the end.
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let field = match tag & 7 {
            0 => Field::Number(self.number()?),
            1 => self.take(8).map(|_| Field::Passed)?,
            2 => {
                let size = self.number()?;
                Field::Bytes(self.take(size)?)
            }
            5 => self.take(4).map(|_| Field::Passed)?,
            _ => return wrong("it has a field of a kind that is not known"),
        };
        Ok(Some((tag >> 3, field)))
    }
}

/// Appends the numbers of a repeated field, packed or not, to `to`.
fn numbers(field: &Field<'_>, to: &mut Vec<i64>) -> Result<()> {
    let mut add = |value: u64| {
        if to.len() == RANK {
            return wrong("it has more than 64 dimensions");
        }
        to.push(value as i64);
        Ok(())
    };
    match field {
        Field::Number(value) => add(*value),
        Field::Bytes(bytes) => {
            let mut packed = Reader(bytes);
            while !packed.0.is_empty() {
                add(packed.number()?)?;
            }
            Ok(())
        }
        Field::Passed => Ok(()),
    }
}

impl ShapeProto {
    /// Parses the bytes of an `xla::ShapeProto`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for bytes that are not a shape, unsupported element types, negative dimensions, more
    /// than 64 dimensions, or tuples nested more than 32 deep.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return wrong("the text is empty");
        }
        Self::read(bytes, 0)
    }

    fn read(bytes: &[u8], depth: usize) -> Result<Self> {
        let mut element_type = 0;
        let (mut dims, mut minor_to_major, mut elements) = (vec![], vec![], vec![]);
        let mut reader = Reader(bytes);
        while let Some((number, field)) = reader.next()? {
            match (number, field) {
                (2, Field::Number(value)) => element_type = value,
                (3, field) => numbers(&field, &mut dims)?,
                (4, Field::Bytes(bytes)) => elements.push(bytes),
                (5, Field::Bytes(bytes)) => {
                    let mut layout = Reader(bytes);
                    while let Some((number, field)) = layout.next()? {
                        if number == 1 {
                            numbers(&field, &mut minor_to_major)?;
                        }
                    }
                }
                _ => {}
            }
        }
        if dims.iter().any(|dim| *dim < 0) {
            return wrong("it has a negative dimension");
        }
        let mut order = minor_to_major.clone();
        order.sort_unstable();
        let every = (0_i64..).zip(&order).all(|(dim, at)| dim == *at);
        if !order.is_empty() && (order.len() != dims.len() || !every) {
            return wrong("its layout is one of other dimensions");
        }
        let is_array = !dims.is_empty() || !minor_to_major.is_empty();
        let is_tuple = element_type == TUPLE;
        if if is_tuple {
            is_array
        } else {
            !elements.is_empty()
        } {
            return wrong("a tuple has elements and no dimensions, an array the other way round");
        }
        if is_tuple {
            if depth == DEPTH {
                return wrong("it has more than 32 tuples in tuples");
            }
            let elements = elements
                .into_iter()
                .map(|bytes| Self::read(bytes, depth + 1));
            return elements.collect::<Result<_>>().map(Self::Tuple);
        }
        let dtype = u32::try_from(element_type).ok().map(DataType);
        match dtype.filter(|dtype| dtype.bits().is_some()) {
            Some(dtype) => Ok(Self::Array {
                dtype,
                dims,
                minor_to_major,
            }),
            None => wrong("it has an element type that is not known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(field: u8, bytes: &[u8]) -> Vec<u8> {
        let (low, high) = (
            bytes.len() as u8 | 128,
            u8::try_from(bytes.len() >> 7).unwrap(),
        );
        [&[field << 3 | 2, low, high], bytes].concat()
    }

    const F32: [u8; 2] = [0x10, 11];

    fn error(bytes: &[u8]) -> String {
        ShapeProto::parse(bytes).unwrap_err().to_string()
    }

    #[test]
    fn tuples_and_layouts() {
        let matrix = [
            &F32[..],
            &message(3, &[2, 3]),
            &message(5, &message(1, &[0, 1])),
            // Unknown fields, one of every kind, which are skipped.
            &message(6, &[0, 0]),
            &[0x3d, 1, 2, 3, 4],
            &[0x41, 1, 2, 3, 4, 5, 6, 7, 8],
        ]
        .concat();
        let pair = [
            &[0x10, 13][..],
            &message(4, &matrix),
            &message(4, &[0x10, 17]),
        ]
        .concat();
        let nested = [&message(4, &pair)[..], &[0x10, 13]].concat();
        let array = |dtype, dims: &[i64], order: &[i64]| ShapeProto::Array {
            dtype,
            dims: dims.to_vec(),
            minor_to_major: order.to_vec(),
        };
        let wanted = ShapeProto::Tuple(vec![ShapeProto::Tuple(vec![
            array(DataType::F32, &[2, 3], &[0, 1]),
            array(DataType::TOKEN, &[], &[]),
        ])]);
        assert_eq!(ShapeProto::parse(&nested).unwrap(), wanted);
        // Unpacked numbers, as older writers produce them.
        let old = [&F32[..], &[0x18, 2, 0x18, 3]].concat();
        assert_eq!(
            ShapeProto::parse(&old).unwrap(),
            array(DataType::F32, &[2, 3], &[])
        );
    }

    #[test]
    fn damage_is_told() {
        let with = |rest: &[u8]| error(&[&F32[..], rest].concat());
        for (bytes, part) in [
            (&[0x1a][..], "ends in the middle"),
            (&[0x1a, 5, 1], "ends in the middle"),
            (&[0x18, 0xff], "ends in the middle"),
            (
                &[0x18, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
                "more than 64 bits",
            ),
            (
                &[0x18, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
                "negative dimension",
            ),
            (&[0x1b], "a kind that is not known"),
            (&[0x1a, 2, 1, 2, 0x2a, 3, 0x0a, 1, 0], "layout"),
            (&[0x1a, 2, 1, 2, 0x2a, 4, 0x0a, 2, 1, 1], "layout"),
            (&[0x22, 2, 0x10, 11], "the other way round"),
            (&[0x10, 200, 1], "element type"),
            (&[0x10, 0], "element type"),
        ] {
            assert!(with(bytes).contains(part), "{bytes:?}: {}", with(bytes));
        }
    }
}
