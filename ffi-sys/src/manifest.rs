//! How the description of a library lies in its file: records in a section of their own, each a head and a payload in
//! JSON. This SDK's own format, not XLA's.

/// What the head of a record starts with.
pub const MAGIC: &[u8; 8] = b"XLAFFIMF";

/// The newest version of the format, which follows the magic as 4 bytes, little-endian; older ones are read too.
pub const VERSION: u32 = 2;

/// Bytes of the head: magic, version, length of the payload as 4 bytes, little-endian.
pub const HEAD: usize = 16;

/// The section that holds the records, in ELF.
pub const SECTION: &str = ".xla_ffi_manifest";

/// The same in Mach-O, in the segment `__DATA`: no name has more than 16 bytes there.
pub const SECTION_MACH_O: &str = "__xla_ffi";

/// The same in PE: no name in a DLL has more than 8 bytes.
pub const SECTION_PE: &str = ".xla_ffi";

/// A record as it lies in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The version of its format: 1 to [`VERSION`].
    pub version: u32,
    /// Its JSON.
    pub payload: &'a [u8],
    /// What lies behind it.
    pub rest: &'a [u8],
}

/// Why no record that can be read starts at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecord {
    /// It does not start with [`MAGIC`], or ends within the head.
    Magic,
    /// Its version, which is not known.
    Version(u32),
    /// It states more bytes of payload than are there.
    Length {
        /// What it states.
        stated: usize,
        /// What is there.
        there: usize,
    },
}

impl<'a> Record<'a> {
    /// Reads the record that `bytes` start with.
    ///
    /// # Errors
    /// [`NoRecord`] where none does.
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
