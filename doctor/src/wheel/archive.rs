//! Reading an archive that anybody may have made.

use super::Error;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use zip::ZipArchive;
use zip::result::ZipError;

/// How much of a wheel is read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Members.
    pub members: usize,
    /// Bytes of a file of metadata.
    pub metadata: u64,
    /// Bytes of all libraries together, unpacked.
    pub libraries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            members: 100_000,
            metadata: 16 << 20,
            libraries: 1 << 30,
        }
    }
}

/// A file in a wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, which stays within the folder that it is unpacked into.
    pub name: String,
    /// Bytes that it takes in the archive.
    pub packed: u64,
    /// Bytes that it states to have.
    pub size: u64,
    /// Whether it is a symbolic link, which wheels cannot have.
    pub is_link: bool,
    index: usize,
}

impl Member {
    /// Whether its name is that of a shared library, on any system.
    #[must_use]
    pub fn is_library(&self) -> bool {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        let ends = |end: &str| file.to_ascii_lowercase().ends_with(end);
        let versioned = file
            .split_once(".so.")
            .is_some_and(|(_, version)| version.starts_with(|first: char| first.is_ascii_digit()));
        !self.is_link
            && (versioned
                || [".so", ".dylib", ".dll", ".pyd"]
                    .iter()
                    .any(|end| ends(end)))
    }
}

/// An open archive, and how much of it may still be unpacked.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    /// Bytes of the file.
    pub(super) bytes: u64,
    zip: ZipArchive<BufReader<File>>,
    limits: Limits,
    left: u64,
}

impl Archive {
    pub(super) fn open(path: &Path, limits: Limits) -> Result<Self, Error> {
        let io = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        // Asked first: opening a pipe waits for whoever writes to it.
        let metadata = fs::metadata(path).map_err(io)?;
        if !metadata.is_file() {
            return Err(Error::Damaged {
                path: path.to_owned(),
                what: "it is not a regular file".to_owned(),
            });
        }
        let file = File::open(path).map_err(io)?;
        // Opened anew: what is read through a duplicate moves the place where the other reads.
        let mut directory = BufReader::new(File::open(path).map_err(io)?);
        let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(path, &error))?;
        if zip.len() > limits.members {
            return Err(Error::TooLarge {
                path: path.to_owned(),
                what: format!("it has {} members, {} are read", zip.len(), limits.members),
            });
        }
        let twice = repeated(&mut directory, zip.central_directory_start(), zip.len());
        if let Some(member) = twice.map_err(io)? {
            return Err(Error::Hostile {
                path: path.to_owned(),
                member,
                what: "is there twice: which one is installed is a matter of the installer",
            });
        }
        Ok(Self {
            path: path.to_owned(),
            bytes: metadata.len(),
            zip,
            limits,
            left: limits.libraries,
        })
    }

    /// Its files. None has a name that leads out of the folder that it is unpacked into.
    pub(super) fn members(&mut self) -> Result<Vec<Member>, Error> {
        let mut members = Vec::new();
        let mut names = BTreeSet::new();
        for index in 0..self.zip.len() {
            let file = self
                .zip
                .by_index_raw(index)
                .map_err(|error| damaged(&self.path, &error))?;
            let name = file.name().to_owned();
            let hostile = |what| Error::Hostile {
                path: self.path.clone(),
                member: name.clone(),
                what,
            };
            if let Some(what) = out_of_place(&name) {
                return Err(hostile(what));
            }
            if !names.insert(name.to_lowercase()) {
                return Err(hostile(
                    "is there twice, on systems that take small letters for capitals",
                ));
            }
            if file.is_dir() {
                continue;
            }
            members.push(Member {
                packed: file.compressed_size(),
                size: file.size(),
                is_link: file.is_symlink(),
                index,
                name,
            });
        }
        Ok(members)
    }

    /// A text of the wheel's metadata. What is no UTF-8 in it is replaced.
    pub(super) fn text(&mut self, member: &Member) -> Result<String, Error> {
        let limit = self.limits.metadata;
        let file = self
            .zip
            .by_index(member.index)
            .map_err(|error| damaged(&self.path, &error))?;
        let mut bytes = Vec::new();
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| unpacks_not(&self.path, member, &error))?;
        if bytes.len() as u64 > limit {
            return Err(Error::TooLarge {
                path: self.path.clone(),
                what: format!("{} unpacks to more than {limit} bytes", member.name),
            });
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Refuses members that state to be more together than may be unpacked, before any of them is.
    pub(super) fn fits<'a>(&self, members: impl Iterator<Item = &'a Member>) -> Result<(), Error> {
        let mut left = self.left;
        for member in members {
            match left.checked_sub(member.size) {
                Some(rest) => left = rest,
                None => return Err(self.too_large(&member.name)),
            }
        }
        Ok(())
    }

    fn too_large(&self, at: &str) -> Error {
        Error::TooLarge {
            path: self.path.clone(),
            what: format!(
                "its libraries unpack to more than {} bytes, at {at}",
                self.limits.libraries
            ),
        }
    }

    /// Writes a member to `place`.
    pub(super) fn unpack(&mut self, member: &Member, place: &Path) -> Result<(), Error> {
        // Where it is written to says nothing to whoever has the wheel.
        let shown = self.path.join(&member.name);
        let io = |source| Error::Io {
            path: shown.clone(),
            source,
        };
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(&io)?;
        }
        let mut to = File::create_new(place).map_err(&io)?;
        let file = self
            .zip
            .by_index(member.index)
            .map_err(|error| damaged(&self.path, &error))?;
        // What the head states is not believed: it ends when the budget does.
        let mut from = file.take(self.left + 1);
        let mut buffer = vec![0; 1 << 16];
        let mut unpacked = 0;
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unpacks_not(&self.path, member, &error)),
            };
            let over = self.left.checked_sub(count as u64);
            self.left = over.ok_or_else(|| Error::TooLarge {
                path: self.path.clone(),
                what: format!(
                    "its libraries unpack to more than {} bytes, at {}",
                    self.limits.libraries, member.name
                ),
            })?;
            to.write_all(&buffer[..count]).map_err(&io)?;
            unpacked += count as u64;
        }
        if unpacked != member.size {
            return Err(Error::Damaged {
                path: self.path.clone(),
                what: format!(
                    "{} states {} bytes and unpacks to {unpacked}",
                    member.name, member.size
                ),
            });
        }
        Ok(())
    }
}

/// A name that stands in the list of members more than once. The archive's reader has the last of them alone, and fewer
/// members than the list then.
fn repeated(file: &mut BufReader<File>, start: u64, members: usize) -> io::Result<Option<String>> {
    file.seek(SeekFrom::Start(start))?;
    let mut names = BTreeSet::new();
    while names.len() <= members {
        let mut head = [0; 46];
        match file.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            other => other?,
        }
        if !head.starts_with(b"PK\x01\x02") {
            break;
        }
        let length = |at: usize| i64::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let mut name = vec![0; usize::from(u16::from_le_bytes([head[28], head[29]]))];
        file.read_exact(&mut name)?;
        if let Some(name) = names.replace(name) {
            return Ok(Some(String::from_utf8_lossy(&name).into_owned()));
        }
        file.seek_relative(length(30) + length(32))?;
    }
    Ok(None)
}

fn damaged(path: &Path, error: &ZipError) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        what: error.to_string(),
    }
}

fn unpacks_not(path: &Path, member: &Member, error: &io::Error) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        what: format!("{}: {error}", member.name),
    }
}

/// Where a name leads that must not be written.
fn out_of_place(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("has no name");
    }
    if name.contains(|letter: char| letter.is_control()) || name.contains('\\') {
        return Some("has a name that systems read differently");
    }
    let drive = name.as_bytes().get(1) == Some(&b':');
    if name.starts_with('/') || drive {
        return Some("names a place of the machine's own");
    }
    let parts = name.strip_suffix('/').unwrap_or(name).split('/');
    for part in parts {
        match part {
            ".." => return Some("leads out of the folder that it is unpacked into"),
            "" | "." => return Some("has a name that is not the shortest for its place"),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for fine in ["a", "a/b.so", "a/", "a..b/c", "...", "a b/ü.so"] {
            assert_eq!(out_of_place(fine), None, "{fine}");
        }
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a/..",
            "..",
            "a//b",
            "./a",
            "C:/a",
            "a\\..\\b",
            "a\0b",
            "a\n::error::b",
        ] {
            assert!(out_of_place(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn libraries_are_known_by_their_names() {
        let is = |name: &str| {
            let member = Member {
                name: name.to_owned(),
                packed: 0,
                size: 0,
                is_link: false,
                index: 0,
            };
            member.is_library()
        };
        assert!(
            is("a/libb.so") && is("a.libs/libgomp-a34b.so.1.0.0") && is("b.pyd") && is("B.DLL")
        );
        assert!(!is("a.so/b.py") && !is("a.some") && !is("a.so.txt") && !is("liba.a"));
    }
}
