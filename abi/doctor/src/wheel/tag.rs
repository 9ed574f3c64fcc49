//! Parses wheel file names, which state the Python versions and systems for which a wheel can be installed.

use super::Error;
use std::fmt;
use std::path::Path;

/// The parts of a wheel's file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name of the project.
    pub project: String,
    /// The version of the project.
    pub version: String,
    /// The Python tags, such as `py3` or `cp312`.
    pub pythons: Vec<String>,
    /// The ABI tags, such as `none`, `abi3` or `cp312`.
    pub abis: Vec<String>,
    /// The platform tags. The user's system must fit one of them.
    pub platforms: Vec<Platform>,
}

/// A platform tag, which states the systems on which a wheel may be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The tag as text, with `manylinux_2_17_x86_64` for `manylinux2014_x86_64`.
    pub tag: String,
    /// The system in the tag: `any`, `linux`, `manylinux`, `musllinux`, `macosx`, `win`, or an unknown word.
    pub kind: String,
    /// The oldest glibc, musl or macOS that the tag allows, if the tag has a version.
    pub oldest: Option<[u32; 2]>,
    /// The machine in the tag, for example `x86_64`, `arm64` or `universal2`; empty for `any`.
    pub arch: String,
}

impl Platform {
    pub(super) fn of(tag: &str) -> Self {
        let old = [
            ("manylinux1_", "2_5"),
            ("manylinux2010_", "2_12"),
            ("manylinux2014_", "2_17"),
        ];
        let renamed = old
            .iter()
            .find_map(|(old, glibc)| Some(format!("manylinux_{glibc}_{}", tag.strip_prefix(old)?)));
        let tag = renamed.unwrap_or_else(|| tag.to_owned());
        let (kind, rest) = match tag.as_str() {
            "win32" => ("win", "32"),
            tag => tag.split_once('_').unwrap_or((tag, "")),
        };
        let versioned = || {
            let mut parts = rest.splitn(3, '_');
            let version = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
            Some((Some(version), parts.next()?))
        };
        let (oldest, arch) = versioned().unwrap_or((None, rest));
        Self {
            kind: kind.to_owned(),
            oldest,
            arch: arch.to_owned(),
            tag,
        }
    }

    /// Returns the system of the tag: Linux, macOS or Windows; `None` for other tags.
    #[must_use]
    pub fn system(&self) -> Option<&'static str> {
        match self.kind.as_str() {
            "linux" | "manylinux" | "musllinux" => Some("Linux"),
            "macosx" => Some("macOS"),
            "win" => Some("Windows"),
            _ => None,
        }
    }
}

impl Name {
    /// Parses the file name of a wheel.
    pub(super) fn of(path: &Path) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Name {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| wrong("the name is not UTF-8"))?;
        let stem = name
            .strip_suffix(".whl")
            .ok_or_else(|| wrong("it does not end with .whl"))?;
        let parts: Vec<&str> = stem.split('-').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(wrong("a part is empty"));
        }
        // A file name may have an optional build number after the version.
        let (project, version, [python, abi, platform]) = match parts.as_slice() {
            [project, version, rest @ ..] if rest.len() == 3 => {
                (project, version, [rest[0], rest[1], rest[2]])
            }
            [project, version, _build, rest @ ..] if rest.len() == 3 => {
                (project, version, [rest[0], rest[1], rest[2]])
            }
            parts => return Err(wrong(&format!("it has {} parts", parts.len()))),
        };
        // The tag manylinux2014 is the older name of the tag manylinux_2_17.
        let mut platforms: Vec<Platform> = platform.split('.').map(Platform::of).collect();
        platforms.dedup();
        let list = |text: &str| text.split('.').map(str::to_owned).collect();
        Ok(Self {
            project: (*project).to_owned(),
            version: (*version).to_owned(),
            pythons: list(python),
            abis: list(abi),
            platforms,
        })
    }

    /// Returns the platform of a kind that allows the oldest systems.
    #[must_use]
    pub fn platform(&self, kind: &str) -> Option<&Platform> {
        let all = self
            .platforms
            .iter()
            .filter(|platform| platform.kind == kind);
        all.min_by_key(|platform| platform.oldest)
    }

    /// Returns the oldest glibc that the platform tags allow; `None` if no tag names a version of glibc.
    #[must_use]
    pub fn glibc(&self) -> Option<[u32; 2]> {
        self.platform("manylinux")?.oldest
    }

    /// Returns true if the wheel can be installed with this Python. With the stable ABI, Pythons later than the tag's
    /// version are also allowed.
    #[must_use]
    pub fn admits(&self, [major, minor]: [u32; 2]) -> bool {
        let is_stable = self.abis.iter().any(|abi| abi == "abi3");
        self.pythons.iter().any(|python| {
            let digits = python.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
            let (first, rest) = digits.split_at(digits.len().min(1));
            let wanted: Option<u32> = rest.parse().ok();
            let later = is_stable || !python.starts_with("cp");
            first.parse() == Ok(major)
                && wanted.is_none_or(|wanted| wanted == minor || (later && wanted < minor))
        })
    }

    /// Returns true if the wheel can be installed with any Python 3.
    #[must_use]
    pub fn is_for_every_python(&self) -> bool {
        self.pythons.iter().any(|python| python == "py3")
            && self.abis.iter().any(|abi| abi == "none")
    }

    /// Returns the Python and ABI tags as text, such as `py3-none`.
    #[must_use]
    pub fn python(&self) -> String {
        format!("{}-{}", self.pythons.join("."), self.abis.join("."))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Result<Name, String> {
        Name::of(Path::new(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_taken_apart() {
        let many = name("a_b-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl").unwrap();
        assert_eq!(
            (many.project.as_str(), many.version.as_str()),
            ("a_b", "1.0")
        );
        assert_eq!(many.glibc(), Some([2, 17]));
        assert!(many.is_for_every_python());
        assert_eq!(many.platforms.len(), 1);
        // If a wheel has several tags, only the oldest of their glibc versions is guaranteed on the user's system.
        let both = name("a-1-py3-none-manylinux_2_34_x86_64.manylinux_2_28_x86_64.whl").unwrap();
        assert_eq!(both.glibc(), Some([2, 28]));
    }
}
