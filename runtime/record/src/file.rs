//! The file format of a recorded call, and its writer.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | [`MAGIC`] |
//! | 8–11 | [`VERSION`], little-endian `u32` |
//! | 12– | sections |
//!
//! A section consists of four letters ([`Kind`]), the length of the content as `u64`, the content, and a checksum as
//! `u32`. The checksum is the CRC-32 of the letters, the length and the content. All numbers are little-endian.
//!
//! The sections of a file are, in this order:
//!
//! 1. `CALL`: the [`Call`] as JSON.
//! 2. `ARGS`, for each argument whose bytes are kept: the argument's index as `u64`, then its bytes.
//! 3. `STAT`, if the handler requests the state of an instantiate stage: a [`State`](crate::State) as JSON.
//! 4. `RETS`, for each result whose bytes are kept: the result's index as `u64`, then its bytes.
//! 5. `DONE`: an [`End`](crate::End) as JSON.
//!
//! `CALL` and `ARGS` are written before the handler runs, `RETS` and `DONE` when the call ends. A file without `DONE`
//! belongs to a call that did not end, or whose end could not be written.

use crate::Call;
use serde::Serialize;
use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

/// The first bytes of a file of a recorded call.
pub const MAGIC: [u8; 8] = *b"XLAFFIRC";

/// The version of the file format.
pub const VERSION: u32 = 1;

/// The extension of the names of recorded calls' files.
pub const EXTENSION: &str = "xlacall";

/// The four letters that identify the kind of a section.
pub type Kind = [u8; 4];

/// The kind of the section with the call, as JSON.
pub const CALL: Kind = *b"CALL";
/// The kind of a section with the bytes of an argument.
pub const ARGS: Kind = *b"ARGS";
/// The kind of the section with the state that the call uses, as JSON.
pub const STATE: Kind = *b"STAT";
/// The kind of a section with the bytes of a result.
pub const RETS: Kind = *b"RETS";
/// The kind of the section with the end of the call, as JSON.
pub const DONE: Kind = *b"DONE";

/// Returns the checksum of a section. Its content is the concatenation of `parts`.
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

/// Writes the file of a call. Writes are not buffered in the process, so that no data is lost in a crash.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    /// Creates the file of a call. Returns an error if the file exists.
    pub(crate) fn create(folder: &Path, call: &Call) -> Result<Self> {
        let path = call_path(folder, call);
        let file = File::options().write(true).create_new(true).open(&path)?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        let mut writer = Self { file, path };
        writer.file.write_all(&head)?;
        Ok(writer)
    }

    /// Deletes the file of a call that cannot be recorded.
    pub(crate) fn discard(self) {
        // No function of the recorder can return this error.
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

/// Returns the path of a call's file, such as `000012-libfoo.solve-execute.xlacall`.
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
