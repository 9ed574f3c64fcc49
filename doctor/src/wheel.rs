//! A wheel: the archive in which Python's installers get a library. Anybody may have made it: names, sizes and
//! contents are judged before anything is unpacked, and what is unpacked is bounded.

mod archive;
mod judge;
mod macos;
mod metadata;
mod needs;
mod tag;

pub use archive::{Limits, Member};
pub use tag::{Name, Platform};

use crate::finding::Finding;
use crate::library;
use archive::Archive;
use metadata::Metadata;
use std::path::{Path, PathBuf};

/// Why a file is no wheel that can be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read, or what it holds cannot be written.
    #[error("{path}: {source}", path = crate::library::shown(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its name is not that of a wheel.
    #[error(
        "{path} is not named as a wheel is: {what}; expected NAME-VERSION-PYTHON-ABI-PLATFORM.whl",
        path = crate::library::shown(path)
    )]
    Name {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// It is no archive, or a damaged one.
    #[error("{path} is no zip archive that can be read: {what}", path = crate::library::shown(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and what.
        what: String,
    },
    /// A member would be written where an installer must not write.
    #[error("{path}: the member {member:?} {what}: no installer should take this wheel", path = crate::library::shown(path))]
    Hostile {
        /// The file.
        path: PathBuf,
        /// The member's name.
        member: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It unpacks to more than is read.
    #[error("{path}: {what}", path = crate::library::shown(path))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is too large, and the limit.
        what: String,
    },
}

/// A wheel, of which nothing but its head and its metadata has been unpacked.
#[derive(Debug)]
pub struct Wheel {
    /// What its file name says.
    pub name: Name,
    /// Bytes of the file.
    pub bytes: u64,
    /// What it holds, folders aside.
    pub members: Vec<Member>,
    metadata: Metadata,
    archive: Archive,
}

/// A shared library of a wheel, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Its name in the wheel.
    pub member: String,
    /// Where it lies now.
    pub place: PathBuf,
    /// Why it cannot be loaded on this machine, whatever it is.
    pub foreign: Option<String>,
}

impl Inside {
    /// Whether it was put there for other libraries to find, as auditwheel does with what they need.
    #[must_use]
    pub fn is_bundled(&self) -> bool {
        self.member
            .split('/')
            .rev()
            .skip(1)
            .any(|folder| folder.ends_with(".libs") || folder == ".dylibs")
    }
}

impl Wheel {
    /// Reads the head and the metadata of the wheel at `path`.
    ///
    /// # Errors
    /// [`Error`], also where it may be read and no installer should take it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_within(path, Limits::default())
    }

    /// The same with limits of one's own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_within(path: &Path, limits: Limits) -> Result<Self, Error> {
        let name = Name::of(path)?;
        let mut archive = Archive::open(path, limits)?;
        let members = archive.members()?;
        let metadata = Metadata::read(&mut archive, &members)?;
        Ok(Self {
            name,
            bytes: archive.bytes,
            members,
            metadata,
            archive,
        })
    }

    /// Unpacks its shared libraries into `folder`, as they lie in it.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::TooLarge`], or [`Error::Io`] where they cannot be written.
    pub fn unpack(&mut self, folder: &Path) -> Result<Vec<Inside>, Error> {
        let mut all = Vec::new();
        let libraries = self.members.iter().filter(|member| member.is_library());
        self.archive.fits(libraries)?;
        for member in self.members.iter().filter(|member| member.is_library()) {
            let place = folder.join(&member.name);
            self.archive.unpack(member, &place)?;
            let shown = Path::new(&member.name);
            let bytes = library::bytes(&place);
            if bytes.as_ref().is_ok_and(|bytes| is_for_linkers(bytes)) {
                continue;
            }
            let parts = bytes.as_ref().map(|bytes| library::parts(shown, bytes));
            let foreign = match parts {
                Ok(Ok(parts)) => parts
                    .first()
                    .filter(|part| !part.machine.is_this())
                    .map(|part| format!("it is built for {}", part.machine)),
                Ok(Err(error)) => Some(reason(&error)),
                Err(error) => Some(reason(error)),
            };
            all.push(Inside {
                member: member.name.clone(),
                place,
                foreign,
            });
        }
        Ok(all)
    }

    /// What is wrong with it as a wheel; what is wrong with each library is an
    /// [`Examination`](crate::Examination)'s to tell.
    #[must_use]
    pub fn findings(&self, inside: &[Inside]) -> Vec<Finding> {
        judge::findings(self, inside)
    }
}

/// Whether it is a text that tells linkers which library is meant: wheels have no links.
fn is_for_linkers(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 3] = [b"INPUT", b"GROUP", b"/* GNU ld script"];
    starts.iter().any(|start| bytes.starts_with(start))
}

/// What an error says beside the name of the file.
fn reason(error: &library::Error) -> String {
    match error {
        library::Error::Kind { what, .. } => what.clone(),
        library::Error::Damaged { what, .. } => format!("it is a damaged library: {what}"),
        other => other.to_string(),
    }
}
