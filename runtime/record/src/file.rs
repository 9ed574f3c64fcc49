//! The format of a recorded call.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | [`MAGIC`] |
//! | 8–11 | [`VERSION`], little-endian `u32` |
//! | 12– | sections |
//!
//! A section is four letters ([`Kind`]), the length of its content as `u64`, the content, and the CRC-32 of
//! all that as `u32`; numbers are little-endian. `CALL` comes first: JSON, the [`Call`](crate::Call). Then
//! an `ARGS` for each argument whose bytes are kept: its index as `u64`, then the bytes. All of this is
//! written before the handler runs. `STAT` follows when the handler asks for the state that an
//! instantiation left: JSON, a [`State`](crate::State). When the call is over a `RETS` comes for each
//! result, as for arguments, and `DONE`: JSON, an [`End`](crate::End). A file without `DONE` is that of a call
//! that never ended, or whose end could not be written.

/// How a file begins.
pub const MAGIC: [u8; 8] = *b"XLAFFIRC";

/// The only version so far.
pub const VERSION: u32 = 1;

/// How the files are called.
pub const EXTENSION: &str = "xlacall";

/// The letters of a section.
pub type Kind = [u8; 4];

/// The call, as JSON.
pub const CALL: Kind = *b"CALL";
/// The bytes of an argument.
pub const ARGS: Kind = *b"ARGS";
/// Which state the call uses, as JSON.
pub const STATE: Kind = *b"STAT";
/// The bytes of a result.
pub const RETS: Kind = *b"RETS";
/// How the call ended, as JSON.
pub const DONE: Kind = *b"DONE";

/// The checksum of a section whose content comes in parts.
pub(crate) fn checksum(kind: Kind, parts: &[&[u8]]) -> u32 {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&kind);
    hasher.update(&(length as u64).to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}
