//! Opens wheels, unpacks their shared libraries, and compares the libraries with the wheel's tags.

mod findings;
mod member;
mod requirement;
mod tag;

pub use member::Inside;
pub use requirement::{Requirement, releases};
pub use tag::{Name, Platform};

use crate::finding::Finding;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use zip::ZipArchive;
use zip::result::ZipError;

/// The largest number of bytes that are read from one metadata file of a wheel.
const METADATA: u64 = 1 << 20;

/// The error if a file cannot be examined as a wheel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The wheel cannot be read, or a member cannot be written.
    #[error("{path}: {source}", path = crate::library::shown(path))]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file name is not a valid wheel name.
    #[error(
        "{path} is not a wheel's name: {what}; expected NAME-VERSION-PYTHON-ABI-PLATFORM.whl",
        path = crate::library::shown(path)
    )]
    Name {
        /// The path of the file.
        path: PathBuf,
        /// A description of the mistake in the file name.
        what: String,
    },
    /// The file is not a zip archive, or is damaged.
    #[error("{path} is not a readable zip archive: {what}", path = crate::library::shown(path))]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// A description of the damage and its place.
        what: String,
    },
}

/// A wheel whose file name and metadata have been read.
#[derive(Debug)]
pub struct Wheel {
    /// The parts of the file name.
    pub name: Name,
    /// The size of the wheel in bytes.
    pub bytes: u64,
    path: PathBuf,
    zip: ZipArchive<BufReader<File>>,
    /// The tags in the wheel's metadata.
    tags: Vec<String>,
    /// Whether the metadata declares that the wheel has no libraries (`Root-Is-Purelib`).
    is_pure: bool,
    /// The projects that are always installed with the wheel.
    pub requires: Vec<Requirement>,
}

impl Wheel {
    /// Opens the wheel at `path`, and reads its name and metadata.
    ///
    /// # Errors
    /// [`Error`] if the file is not a readable wheel.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let name = Name::of(path)?;
        // Opening a pipe blocks, so the kind of file is checked before opening.
        let metadata = fs::metadata(path).map_err(io)?;
        if !metadata.is_file() {
            return Err(Error::Damaged {
                path: path.to_owned(),
                what: "it is not a regular file".to_owned(),
            });
        }
        let file = BufReader::new(File::open(path).map_err(io)?);
        let mut wheel = Self {
            name,
            bytes: metadata.len(),
            path: path.to_owned(),
            zip: ZipArchive::new(file).map_err(|error| damaged(path, &error))?,
            tags: Vec::new(),
            is_pure: false,
            requires: Vec::new(),
        };
        let is_metadata = |name: &&str| {
            let folder = name
                .strip_suffix(".dist-info/WHEEL")
                .or_else(|| name.strip_suffix(".dist-info/METADATA"));
            folder.is_some_and(|folder| !folder.contains('/'))
        };
        let files = wheel.zip.file_names().filter(is_metadata);
        for name in files.map(str::to_owned).collect::<Vec<_>>() {
            let file = wheel.zip.by_name(&name);
            let mut text = Vec::new();
            let file = file.map_err(|error| damaged(path, &error))?;
            file.take(METADATA).read_to_end(&mut text).map_err(io)?;
            for line in String::from_utf8_lossy(&text).lines() {
                match line.split_once(':').map(|(key, value)| (key, value.trim())) {
                    Some(("Tag", tag)) => wheel.tags.push(tag.to_owned()),
                    Some(("Root-Is-Purelib", value)) => {
                        wheel.is_pure = value.eq_ignore_ascii_case("true");
                    }
                    Some(("Requires-Dist", text)) => wheel.requires.extend(Requirement::of(text)),
                    // An empty line ends the headers of METADATA; a description follows.
                    None if line.is_empty() => break,
                    _ => {}
                }
            }
        }
        Ok(wheel)
    }

    /// Unpacks the wheel's files into `folder`, and keeps their paths. Returns the shared libraries.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the archive is damaged, or if a member would be unpacked outside the folder.
    pub fn unpack(&mut self, folder: &Path) -> Result<Vec<Inside>, Error> {
        let unpacked = self.zip.extract(folder);
        unpacked.map_err(|error| damaged(&self.path, &error))?;
        let members = self.zip.file_names().filter(|name| is_library(name));
        let unpacked = |member: &str| Inside::read(member.to_owned(), folder.join(member));
        Ok(members.filter_map(unpacked).collect())
    }

    /// Returns findings about the wheel. [`Examination`](crate::Examination) contains the findings about the wheel's
    /// libraries.
    #[must_use]
    pub fn findings(&self, inside: &[Inside]) -> Vec<Finding> {
        findings::findings(self, inside)
    }
}

/// Returns true if the file name is that of a shared library on Linux, macOS or Windows.
fn is_library(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    let ends = |end: &&str| file.to_ascii_lowercase().ends_with(end);
    let versioned = file
        .split_once(".so.")
        .is_some_and(|(_, version)| version.starts_with(|first: char| first.is_ascii_digit()));
    versioned || [".so", ".dylib", ".dll", ".pyd"].iter().any(ends)
}

fn damaged(path: &Path, error: &ZipError) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        what: error.to_string(),
    }
}
