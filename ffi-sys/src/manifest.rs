//! The storage format of a library's manifest: records in a separate section of the file. Each
//! record is a head and a JSON payload. This is a format of this SDK, not of XLA.

/// The first bytes of a record's head.
pub const MAGIC: &[u8; 8] = b"XLAFFIMF";

/// The newest version of the format, stored after the magic as 4 bytes in little-endian order.
/// Older versions are also supported.
pub const VERSION: u32 = 2;

/// The size of the head in bytes: magic, version, and the payload's length as 4 bytes in
/// little-endian order.
pub const HEAD: usize = 16;

/// The name of the section with the records in ELF files.
pub const SECTION: &str = ".xla_ffi_manifest";

/// The name of the section with the records in Mach-O files, in the segment `__DATA`. Section names
/// have at most 16 bytes.
pub const SECTION_MACH_O: &str = "__xla_ffi";

/// The name of the section with the records in PE files. Section names in a DLL have at most 8
/// bytes.
pub const SECTION_PE: &str = ".xla_ffi";

/// A record of a manifest section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The version of the format: 1 to [`VERSION`].
    pub version: u32,
    /// The JSON payload of the record.
    pub payload: &'a [u8],
    /// The bytes after the record.
    pub rest: &'a [u8],
}

/// The reason why bytes do not start with a readable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecord {
    /// The bytes do not start with [`MAGIC`], or they end within the head.
    Magic,
    /// The version of the record's format is unknown.
    Version(u32),
    /// The payload is shorter than the length that the record's head states.
    Length {
        /// The length that the record's head states, in bytes.
        stated: usize,
        /// The number of bytes after the record's head.
        there: usize,
    },
}

impl<'a> Record<'a> {
    /// Reads the record at the start of `bytes`.
    ///
    /// # Errors
    /// [`NoRecord`] if `bytes` does not start with a readable record.
    pub fn read(bytes: &'a [u8]) -> Result<Self, NoRecord> {
        let (head, behind) = bytes.split_first_chunk::<HEAD>().ok_or(NoRecord::Magic)?;
        let (magic, numbers) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(NoRecord::Magic);
        }
        let number = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&numbers[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let version = number(0);
        if !(1..=VERSION).contains(&version) {
            return Err(NoRecord::Version(version));
        }
        let stated = number(4) as usize;
        let there = behind.len();
        if stated > there {
            return Err(NoRecord::Length { stated, there });
        }
        let (payload, rest) = behind.split_at(stated);
        Ok(Self {
            version,
            payload,
            rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: u8, stated: u8) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(MAGIC);
        (bytes[8], bytes[12]) = (version, stated);
        bytes[16..].copy_from_slice(b"{}\0\0");
        bytes
    }

    #[test]
    fn a_record_is_split_from_what_lies_behind_it() {
        let bytes = record(2, 2);
        let read = Record::read(&bytes).unwrap();
        assert_eq!(
            (read.version, read.payload, read.rest),
            (2, &b"{}"[..], &[0, 0][..])
        );
    }

    #[test]
    fn what_is_no_record_is_told_by_what_is_wrong() {
        let why = |bytes: &[u8]| Record::read(bytes).unwrap_err();
        assert_eq!(why(&record(2, 2)[..15]), NoRecord::Magic);
        assert_eq!(why(b"XLAFFIMX00000000"), NoRecord::Magic);
        assert_eq!(why(&record(0, 2)), NoRecord::Version(0));
        assert_eq!(why(&record(3, 2)), NoRecord::Version(3));
        let (stated, there) = (5, 4);
        assert_eq!(why(&record(1, 5)), NoRecord::Length { stated, there });
    }
}
