//! NumPy's files: reading one array, writing several into an `.npz`.
//!
//! Not by the crate npyz: 0.9 panics where the dimensions of a file's header multiply past 64 bits, allocates
//! the 4 GiB that a file of 12 bytes claims for its header, and brings twenty crates; the checks, the packed
//! types and the advice below, which are most of this file, would stay.

mod header;

use self::header::{Header, descr};
use crate::value::dtype::Class;
use crate::value::scalar_codec::{self, Number};
use crate::{Code, DType, Error, Result, Shape, Tensor};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Headers are a line of text; a longer one is no array's.
const MAX_HEADER: usize = 1 << 16;

/// Reads the array of a `.npy` file, which has to have this shape.
///
/// # Errors
/// What is wrong with the file, and how to write it so that it fits.
pub fn read(path: &Path, shape: Shape) -> Result<Tensor> {
    let open = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::NotFound,
            std::io::ErrorKind::PermissionDenied => Code::PermissionDenied,
            _ => Code::Unavailable,
        };
        Error::new(code, error.to_string()).with_source(error)
    };
    // Asked before it is opened: a pipe that nobody writes to is waited for in `open` itself.
    let file = std::fs::metadata(path).map_err(open).and_then(|known| {
        if !known.is_file() {
            return Err(Error::invalid("it is not a regular file"));
        }
        File::open(path).map_err(open)
    });
    file.and_then(|file| decode(file, shape))
        .map_err(|error| error.within(path.display()))
}

/// Reads an array from the bytes of a `.npy` file.
///
/// # Errors
/// As [`read`]; `INVALID_ARGUMENT` for a token.
pub fn decode(mut file: impl Read, shape: Shape) -> Result<Tensor> {
    if shape.dtype() == DType::Token {
        return Err(Error::invalid("a token has no elements to read"));
    }
    let mut take = |length: usize, what: &str| -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.by_ref()
            .take(length as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::new(Code::Unavailable, error.to_string()).with_source(error))?;
        if bytes.len() < length {
            return Err(Error::new(
                Code::DataLoss,
                format!(
                    "the file is truncated: {length} bytes of {what} expected, {} came",
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
            Err(Error::invalid("it is not a .npy file"))
        }
    })?;
    let length = match (head[6], head[7]) {
        (1, 0) => u16::from_le_bytes(array(&take(2, "the head")?)).into(),
        (2 | 3, 0) => u32::from_le_bytes(array(&take(4, "the head")?)) as usize,
        (major, minor) => {
            return Err(Error::invalid(format!(
                "its format version {major}.{minor} is not known"
            )));
        }
    };
    if length > MAX_HEADER {
        return Err(Error::invalid(format!("its header is {length} bytes long")));
    }
    let header = take(length, "the header")?;
    let header = Header::parse(&String::from_utf8_lossy(&header))?;
    let width = header.check(&shape)?;
    let data = take(shape.elements() * width, "data")?;
    if take(1, "what follows").is_ok() {
        return Err(Error::invalid(format!(
            "it has more bytes than {shape} takes"
        )));
    }
    let dtype = shape.dtype();
    if !dtype.is_packed() {
        return Tensor::from_bytes(shape, &data);
    }
    // One byte an element in the file, packed in memory.
    let mut wrong = None;
    let tensor = Tensor::from_fn(shape, |index| {
        let byte = data[index];
        // The bits of what is no integer: those above them belong to no value.
        let bits_alone = header.kind == 'u' && dtype.class() != Class::Unsigned;
        if bits_alone && u32::from(byte) >> dtype.bits() != 0 {
            wrong.get_or_insert_with(|| {
                Error::invalid(format!(
                    "element {index}: {byte:#x} is more than the {} bits of {dtype}",
                    dtype.bits()
                ))
            });
        }
        let value = match header.kind {
            'i' => Number::Signed((byte as i8).into()),
            'u' if !bits_alone => Number::Unsigned(byte.into()),
            _ => scalar_codec::decode(dtype, byte.into()).unwrap_or(Number::Unsigned(0)),
        };
        match scalar_codec::encode(dtype, value) {
            Ok(_) => value,
            Err(error) => {
                wrong.get_or_insert_with(|| error.within(format_args!("element {index}")));
                Number::Unsigned(0)
            }
        }
    })?;
    match wrong {
        Some(error) => Err(error),
        None => Ok(tensor),
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

/// The bytes of a `.npy` file with this array. Packed types are written one byte an element.
///
/// # Errors
/// `INVALID_ARGUMENT` for a token.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>> {
    let shape = tensor.shape();
    let dtype = shape.dtype();
    if dtype == DType::Token {
        return Err(Error::invalid("a token has no elements to write"));
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
    // The data begins at a multiple of 64, behind a newline.
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len())
        .map_err(|_| Error::invalid(format!("{shape} has too many dimensions for a file")))?;
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

/// Writes arrays into an `.npz` file, a zip archive of `.npy` files that are not compressed. Tokens are left out.
///
/// # Errors
/// What the file system says; two arrays of one name; names of 64 KiB, 65536 arrays or
/// 4 GiB and more, which need a newer kind of archive.
pub fn write_npz(path: &Path, arrays: &[(String, &Tensor)]) -> Result<()> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    let mut count = 0_u16;
    let too_large = |_| Error::invalid("an .npz file holds less than 4 GiB");
    let mut names = BTreeSet::new();
    for (name, tensor) in arrays {
        if tensor.shape().dtype() == DType::Token {
            continue;
        }
        // Of two members of one name readers find one.
        if !names.insert(name) {
            return Err(Error::invalid(format!(
                "two arrays are called '{name}'; an .npz file holds one of a name"
            )));
        }
        let data = encode(tensor)?;
        let name = format!("{name}.npy");
        let length = u16::try_from(name.len())
            .map_err(|_| Error::invalid("a name in an .npz file has less than 64 KiB"))?;
        let offset = u32::try_from(archive.len()).map_err(too_large)?;
        let size = u32::try_from(data.len()).map_err(too_large)?;
        let mut common = Vec::new();
        // Version 2.0, UTF-8 names, stored, 1980-01-01.
        for field in [20_u16, 0x0800, 0, 0, 0x0021] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        for field in [crc32(&data), size, size] {
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
            .ok_or_else(|| Error::invalid("an .npz file holds less than 65536 arrays"))?;
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
        Error::new(Code::Unavailable, format!("{}: {error}", path.display())).with_source(error)
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut crc = index as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 {
                    crc >> 1 ^ 0xEDB8_8320
                } else {
                    crc >> 1
                };
                bit += 1;
            }
            table[index] = crc;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, byte| {
        TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_array_hides_another() {
        let tensor = Tensor::from_slice([1], &[1.0_f32]).unwrap();
        let pair = ["y", "y"].map(|name| (name.to_owned(), &tensor));
        let error = write_npz(Path::new("/nowhere/x.npz"), &pair).unwrap_err();
        assert!(error.message().contains("two arrays are called 'y'"));
        let long = [("n".repeat(70_000), &tensor)];
        let error = write_npz(Path::new("/nowhere/x.npz"), &long).unwrap_err();
        assert!(error.message().contains("64 KiB"));
    }

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

    /// An unsigned integer of NumPy's has the bits of every type that is none.
    #[test]
    fn unsigned_integers_hold_bits() {
        for dtype in DType::all() {
            let width = dtype.bits().div_ceil(8);
            let is_none = matches!(dtype.class(), Class::Float)
                && !matches!(dtype, DType::F16 | DType::F32 | DType::F64);
            if !is_none || dtype == DType::Token {
                continue;
            }
            let patterns = 1_u32 << dtype.bits().min(8);
            let shape = Shape::new(dtype, [i64::from(patterns)]).unwrap();
            let bits: Vec<u8> = (0..patterns)
                .flat_map(|bits| bits.to_le_bytes()[..width].to_vec())
                .collect();
            let descr = format!("{}u{width}", if width == 1 { '|' } else { '<' });
            let bytes = file(&descr, "False", &format!("{patterns},"), &bits);
            let tensor = decode(&bytes[..], shape.clone()).unwrap();
            for at in 0..patterns {
                let there = scalar_codec::load(tensor.bytes(), dtype, at as usize);
                assert_eq!(there, u128::from(at), "{dtype}");
            }
            if dtype.is_packed() {
                let mut high = bytes;
                *high.last_mut().unwrap() |= 0x80;
                let error = decode(&high[..], shape).unwrap_err().to_string();
                assert!(error.contains(" bits of "), "{dtype}: {error}");
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
        assert!(refuse(&good[..good.len() - 1], f32s(&[2, 3])).contains("truncated"));
        assert!(refuse(&good, f32s(&[3, 2])).contains("shape"));
        let big = file(">f4", "False", "2, 3", &data);
        assert!(refuse(&big, f32s(&[2, 3])).contains("big-endian"));
        let fortran = file("<f4", "True", "2, 3", &data);
        assert!(refuse(&fortran, f32s(&[2, 3])).contains("Fortran"));
        let objects = file("|O", "False", "2, 3", &data);
        assert!(refuse(&objects, f32s(&[2, 3])).contains("objects"));
        for times in ["<M8[ns]", "<m8[D]", "<M8"] {
            let times = file(times, "False", "3", &data);
            assert!(refuse(&times, f32s(&[3])).contains("dates or times"));
        }
        let wide = file("<f8", "False", "2, 3", &[0; 48]);
        assert!(refuse(&wide, f32s(&[2, 3])).contains("astype('<f4')"));
        let longer = file("<f4", "False", "2, 3", &[0; 25]);
        assert!(refuse(&longer, f32s(&[2, 3])).contains("more"));
        assert!(refuse(b"hello, this is text", f32s(&[1])).contains("not a .npy"));
        let s4 = Shape::new(DType::S4, [1]).unwrap();
        assert!(refuse(&file("|i1", "False", "1,", &[9]), s4).contains("element 0"));
        let mut later = good;
        later[7] = 1;
        assert!(refuse(&later, f32s(&[2, 3])).contains("version 1.1"));
    }

    #[test]
    fn the_checksum_is_zips() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
