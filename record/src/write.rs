//! Writing a file, section by section.

use crate::Call;
use crate::file::{EXTENSION, Kind, MAGIC, VERSION, checksum};
use serde::Serialize;
use std::fs::File;
use std::io::{Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file of one call. What is written is the kernel's at once, so that a crash of the process loses
/// nothing.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    /// Where the last section that is whole ends.
    length: u64,
    /// Whether the file is good for something: if not, it goes with the writer.
    stays: bool,
}

impl Writer {
    /// Makes the file of a call; one that is there already is an error.
    pub(crate) fn create(folder: &Path, call: &Call) -> Result<Self> {
        let path = path(folder, call);
        let file = File::options().write(true).create_new(true).open(&path)?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        let mut writer = Self {
            file,
            path,
            length: head.len() as u64,
            stays: false,
        };
        writer.file.write_all(&head)?;
        Ok(writer)
    }

    /// Says whether the file is to stay when the writer is gone.
    pub(crate) fn stay(&mut self, stays: bool) {
        self.stays = stays;
    }

    pub(crate) fn json(&mut self, kind: Kind, value: &impl Serialize) -> Result<()> {
        self.section(kind, &[&serde_json::to_vec(value)?])
    }

    pub(crate) fn operand(&mut self, kind: Kind, index: usize, bytes: &[u8]) -> Result<()> {
        self.section(kind, &[&(index as u64).to_le_bytes(), bytes])
    }

    /// What `work` writes, or nothing of it: readers refuse half a section, and what follows one.
    pub(crate) fn whole(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = self.length;
        let written = work(self);
        if written.is_err() {
            self.file.set_len(before)?;
            self.file.seek(SeekFrom::Start(before))?;
            self.length = before;
        }
        written
    }

    fn section(&mut self, kind: Kind, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = kind.to_vec();
        head.extend((length as u64).to_le_bytes());
        self.file.write_all(&head)?;
        for part in parts {
            self.file.write_all(part)?;
        }
        self.file.write_all(&checksum(kind, parts).to_le_bytes())?;
        self.length += (head.len() + length + 4) as u64;
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.stays {
            // There is nobody to tell of a file that cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        }
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
