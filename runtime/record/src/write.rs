//! Writing a file, section by section.

use crate::Call;
use crate::file::{EXTENSION, Kind, MAGIC, VERSION, checksum};
use serde::Serialize;
use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

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
        let path = path(folder, call);
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
fn path(folder: &Path, call: &Call) -> PathBuf {
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
