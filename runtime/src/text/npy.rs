//! NumPy files: reads an array from a `.npy` file, and writes several arrays into an `.npz` file.
//!
//! The crate npyz (0.9) is not used: it panics if the dimensions in a header overflow 64 bits. It allocates
//! the 4 GiB that a 12-byte file can claim for its header, and it has twenty dependencies.

mod header;

use self::header::{Header, descr};
use crate::value::dtype::Class;
use crate::value::scalar_codec::{self, Number};
use crate::value::{DType, Shape, Tensor};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use xla_ffi_sys::{Error, ErrorCode, Result};

const MAGIC: &[u8] = b"\x93NUMPY";
/// The maximum size of a header in bytes. Valid headers are a single line of text.
const MAX_HEADER: usize = 1 << 16;

/// Reads the array in a `.npy` file. The array must have the given shape.
///
/// # Errors
/// An error for a file that cannot be read or contains a different array. Its message describes how to write a
/// suitable file.
pub fn read(path: &Path, shape: Shape) -> Result<Tensor> {
    let open = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorCode::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
            _ => ErrorCode::Unavailable,
        };
        Error::new(code, error.to_string()).with_source(error)
    };
    // The file type is checked before opening, because opening a pipe without a writer blocks.
    let file = std::fs::metadata(path).map_err(open).and_then(|known| {
        if !known.is_file() {
            return Err(Error::invalid_argument("it is not a regular file"));
        }
        File::open(path).map_err(open)
    });
    file.and_then(|file| decode(file, shape))
        .map_err(|error| error.within(path.display()))
}

/// Reads an array from the bytes of a `.npy` file.
///
/// # Errors
/// The errors of [`read`], and `INVALID_ARGUMENT` for the shape of a token.
pub fn decode(mut file: impl Read, shape: Shape) -> Result<Tensor> {
    if shape.dtype() == DType::Token {
        return Err(Error::invalid_argument("a token has no elements to read"));
    }
    let mut take = |length: usize, what: &str| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.by_ref()
            .take(length as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                Error::new(ErrorCode::Unavailable, error.to_string()).with_source(error)
            })?;
        if bytes.len() < length {
            return Err(Error::new(
                ErrorCode::DataLoss,
                format!(
                    "the file is truncated: expected {length} bytes of {what}, got {}",
                    bytes.len()
                ),
            ));
        }
        Ok(bytes)
    };
    let head = take(8, "the head").and_then(|head| {
        if head.starts_with(MAGIC) {
            Ok(head)
        } else {
            Err(Error::invalid_argument("it is not a .npy file"))
        }
    })?;
    let length = match (head[6], head[7]) {
        (1, 0) => u16::from_le_bytes(array(&take(2, "the head")?)).into(),
        (2 | 3, 0) => u32::from_le_bytes(array(&take(4, "the head")?)) as usize,
        (major, minor) => {
            return Err(Error::invalid_argument(format!(
                "its format version {major}.{minor} is not known"
            )));
        }
    };
    if length > MAX_HEADER {
        return Err(Error::invalid_argument(format!(
            "its header is {length} bytes long"
        )));
    }
    let header = take(length, "the header")?;
    let header = Header::parse(&String::from_utf8_lossy(&header))?;
    let width = header.check(&shape)?;
    let data = take(shape.elements() * width, "data")?;
    if take(1, "what follows").is_ok() {
        return Err(Error::invalid_argument(format!(
            "it has more bytes than {shape} takes"
        )));
    }
    let dtype = shape.dtype();
    if !dtype.is_packed() {
        return Tensor::from_bytes(shape, &data);
    }
    // In the file, each packed element has its own byte, whose unused high bits must be zero unless the type is an
    // integer.
    let bits_alone = header.kind() == 'u' && dtype.class() != Class::Unsigned;
    let value = |byte: u8| match header.kind() {
        'i' => Some(Number::Signed((byte as i8).into())),
        'u' if !bits_alone => Some(Number::Unsigned(byte.into())),
        _ if bits_alone && u32::from(byte) >> dtype.bits() != 0 => None,
        _ => scalar_codec::decode(dtype, byte.into()),
    };
    let is_wrong =
        |byte: &u8| value(*byte).is_none_or(|value| scalar_codec::encode(dtype, value).is_err());
    if let Some(index) = data.iter().position(is_wrong) {
        let byte = data[index];
        let what = format!("element {index}: {byte:#x} is not a value of {dtype}");
        return Err(Error::invalid_argument(what));
    }
    Tensor::from_fn(shape, |index| {
        value(data[index]).unwrap_or(Number::Unsigned(0))
    })
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

/// Returns the bytes of a `.npy` file with the array. Packed types are written with one byte per element.
///
/// # Errors
/// `INVALID_ARGUMENT` for a token.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>> {
    let shape = tensor.shape();
    let dtype = shape.dtype();
    if dtype == DType::Token {
        return Err(Error::invalid_argument("a token has no elements to write"));
    }
    let dims: String = shape.dims().iter().map(|dim| format!("{dim},")).collect();
    let dims = if shape.dims().len() > 1 {
        dims.trim_end_matches(',')
    } else {
        &dims
    };
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({dims}), }}",
        descr(dtype)
    );
    // In a `.npy` file, the data starts at a multiple of 64 bytes, after a newline.
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| {
        Error::invalid_argument(format!("{shape} has too many dimensions for a file"))
    })?;
    let mut bytes = Vec::with_capacity(10 + header.len() + tensor.bytes().len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    if dtype.is_packed() {
        for index in 0..shape.elements() {
            bytes.push(match tensor.get(index) {
                Some(Number::Signed(value)) => value as u8,
                Some(Number::Unsigned(value)) => value as u8,
                _ => scalar_codec::load(tensor.bytes(), dtype, index) as u8,
            });
        }
    } else {
        bytes.extend_from_slice(tensor.bytes());
    }
    Ok(bytes)
}

/// Writes arrays into an `.npz` file, a zip archive of uncompressed `.npy` files. Tokens are omitted.
///
/// # Errors
/// Errors of the file system. Errors for names of 64 KiB or more, 65536 or more arrays, and files of 4 GiB or more,
/// which require the newer format zip64.
#[cfg(feature = "npz")]
pub fn write_npz(path: &Path, arrays: &[(String, &Tensor)]) -> Result<()> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    let mut count = 0_u16;
    let too_large = |_| Error::invalid_argument("an .npz file holds less than 4 GiB");
    for (name, tensor) in arrays {
        if tensor.shape().dtype() == DType::Token {
            continue;
        }
        let data = encode(tensor)?;
        let name = format!("{name}.npy");
        let length = u16::try_from(name.len())
            .map_err(|_| Error::invalid_argument("a name in an .npz file has less than 64 KiB"))?;
        let offset = u32::try_from(archive.len()).map_err(too_large)?;
        let size = u32::try_from(data.len()).map_err(too_large)?;
        let mut common = Vec::new();
        // The fields of a zip entry: version 2.0, UTF-8 name, uncompressed, time 0, date 1980-01-01.
        for field in [20_u16, 0x0800, 0, 0, 0x0021] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        for field in [crc32fast::hash(&data), size, size] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        common.extend_from_slice(&length.to_le_bytes());
        common.extend_from_slice(&0_u16.to_le_bytes());
        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(&common);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(&data);
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&20_u16.to_le_bytes());
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
        count = u16::checked_add(count, 1)
            .ok_or_else(|| Error::invalid_argument("an .npz file holds less than 65536 arrays"))?;
    }
    let start = u32::try_from(archive.len()).map_err(too_large)?;
    let size = u32::try_from(directory.len()).map_err(too_large)?;
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    archive.extend_from_slice(&count.to_le_bytes());
    archive.extend_from_slice(&count.to_le_bytes());
    archive.extend_from_slice(&size.to_le_bytes());
    archive.extend_from_slice(&start.to_le_bytes());
    archive.extend_from_slice(&[0, 0]);
    std::fs::write(path, &archive).map_err(|error| {
        Error::new(
            ErrorCode::Unavailable,
            format!("{}: {error}", path.display()),
        )
        .with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, fortran: &str, dims: &str, data: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({dims}), }}\n");
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn f32s(dims: &[i64]) -> Shape {
        Shape::new(DType::F32, dims).unwrap()
    }

    #[test]
    fn every_type_round_trips() {
        for dtype in DType::all().filter(|dtype| *dtype != DType::Token) {
            for dims in [vec![], vec![3], vec![2, 5], vec![0, 4]] {
                let shape = Shape::new(dtype, dims).unwrap();
                let spec = crate::text::spec::Spec::parse(&format!("{shape}=random")).unwrap();
                let tensor = spec.tensor().unwrap();
                let bytes = encode(&tensor).unwrap();
                let back = decode(&bytes[..], shape).unwrap();
                assert_eq!(back.bytes(), tensor.bytes(), "{}", back.shape());
            }
        }
    }

    #[test]
    fn refusals_name_the_remedy() {
        let refuse = |bytes: &[u8], shape: Shape| decode(bytes, shape).unwrap_err().to_string();
        let data = [0; 24];
        let good = file("<f4", "False", "2, 3", &data);
        assert!(decode(&good[..], f32s(&[2, 3])).is_ok());
        for cut in 0..good.len() {
            assert!(decode(&good[..cut], f32s(&[2, 3])).is_err(), "cut at {cut}");
        }
        for (bytes, shape, words) in [
            (good.clone(), f32s(&[3, 2]), "shape"),
            (
                file(">f4", "False", "2, 3", &data),
                f32s(&[2, 3]),
                "astype('<f4')",
            ),
            (file("<f4", "True", "2, 3", &data), f32s(&[2, 3]), "Fortran"),
            (
                file("|O", "False", "2, 3", &data),
                f32s(&[2, 3]),
                "astype('<f4')",
            ),
            (
                file("<M8[ns]", "False", "3", &data),
                f32s(&[3]),
                "astype('<f4')",
            ),
            (
                file("<f8", "False", "2, 3", &[0; 48]),
                f32s(&[2, 3]),
                "astype('<f4')",
            ),
            (
                file("<f4", "False", "2, 3", &[0; 25]),
                f32s(&[2, 3]),
                "more",
            ),
            (b"hello, this is text".to_vec(), f32s(&[1]), "not a .npy"),
            (
                file("|i1", "False", "1,", &[9]),
                Shape::new(DType::S4, [1]).unwrap(),
                "element 0",
            ),
        ] {
            assert!(refuse(&bytes, shape).contains(words), "{words}");
        }
    }
}
