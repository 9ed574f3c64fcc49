//! The format of a recorded call, and writing it.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | [`MAGIC`] |
//! | 8–11 | [`VERSION`], little-endian `u32` |
//! | 12– | sections |
//!
//! A section is four letters ([`Kind`]), the length of its content as `u64`, the content, and the CRC-32 of
//! all that as `u32`; numbers are little-endian. `CALL` comes first: JSON, the [`Call`]. Then
//! an `ARGS` for each argument whose bytes are kept: its index as `u64`, then the bytes. All of this is
//! written before the handler runs. `STAT` follows when the handler asks for the state that an
//! instantiation left: JSON, a [`State`](crate::State). When the call is over a `RETS` comes for each
//! result, as for arguments, and `DONE`: JSON, an [`End`](crate::End). A file without `DONE` is that of a call
//! that never ended, or whose end could not be written.

use crate::Call;
use serde::Serialize;
use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

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

/// The file of one call. What is written is the kernel's at once, so that a crash of the process loses
/// nothing.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    /// Makes the file of a call; one that is there already is an error.
    pub(crate) fn create(folder: &Path, call: &Call) -> Result<Self> {
        let path = call_path(folder, call);
        let file = File::options().write(true).create_new(true).open(&path)?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        let mut writer = Self { file, path };
        writer.file.write_all(&head)?;
        Ok(writer)
    }

    /// Takes away a file that is good for nothing.
    pub(crate) fn discard(self) {
        // There is nobody to tell of a file that cannot be removed.
        let _ = std::fs::remove_file(&self.path);
    }

    pub(crate) fn json(&mut self, kind: Kind, value: &impl Serialize) -> Result<()> {
        self.section(kind, &[&serde_json::to_vec(value)?])
    }

    pub(crate) fn operand(&mut self, kind: Kind, index: usize, bytes: &[u8]) -> Result<()> {
        self.section(kind, &[&(index as u64).to_le_bytes(), bytes])
    }

    fn section(&mut self, kind: Kind, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = kind.to_vec();
        head.extend((length as u64).to_le_bytes());
        self.file.write_all(&head)?;
        for part in parts {
            self.file.write_all(part)?;
        }
        self.file.write_all(&checksum(kind, parts).to_le_bytes())
    }
}

/// `000012-libfoo.solve-execute.xlacall`.
fn call_path(folder: &Path, call: &Call) -> PathBuf {
    let library = Path::new(&call.library)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let name: String = format!("{library}.{}-{}", call.handler, call.stage)
        .chars()
        .take(150)
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    folder.join(format!("{:06}-{name}.{EXTENSION}", call.number))
}
