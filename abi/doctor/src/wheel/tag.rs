//! What a wheel's file name promises: on which Pythons and systems it can be installed.

use super::Error;
use std::fmt;
use std::path::Path;

/// A wheel's file name in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The project.
    pub project: String,
    /// Its version.
    pub version: String,
    /// `py3`, `cp312`.
    pub pythons: Vec<String>,
    /// `none`, `abi3`, `cp312`.
    pub abis: Vec<String>,
    /// The systems that it may be installed on, any of them.
    pub platforms: Vec<Platform>,
}

/// Systems on which a wheel may be installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// Every system.
    Any,
    /// Linux, whatever its libraries: what a build gives before auditwheel names it.
    Linux {
        /// `x86_64`.
        arch: String,
    },
    /// Linux with a glibc of this version or later.
    Manylinux {
        /// Major and minor version.
        glibc: [u32; 2],
        /// `x86_64`.
        arch: String,
    },
    /// Linux with musl.
    Musllinux {
        /// `x86_64`.
        arch: String,
    },
    /// macOS of this version or later.
    Macos {
        /// Major and minor version.
        oldest: [u32; 2],
        /// `arm64`, `x86_64`, `universal2`.
        arch: String,
    },
    /// Windows.
    Windows {
        /// `amd64`, `arm64`, `32`.
        arch: String,
    },
    /// Something else.
    Other(String),
}

impl Platform {
    pub(super) fn of(tag: &str) -> Self {
        let other = || Self::Other(tag.to_owned());
        let versioned = |rest: &str| {
            let mut parts = rest.splitn(3, '_');
            let major = parts.next()?.parse().ok()?;
            let minor = parts.next()?.parse().ok()?;
            Some(([major, minor], parts.next()?.to_owned()))
        };
        if tag == "any" {
            return Self::Any;
        }
        for (start, glibc) in [
            ("manylinux1_", [2, 5]),
            ("manylinux2010_", [2, 12]),
            ("manylinux2014_", [2, 17]),
        ] {
            if let Some(arch) = tag.strip_prefix(start) {
                let arch = arch.to_owned();
                return Self::Manylinux { glibc, arch };
            }
        }
        if let Some(rest) = tag.strip_prefix("manylinux_") {
            return versioned(rest)
                .map_or_else(other, |(glibc, arch)| Self::Manylinux { glibc, arch });
        }
        if let Some(rest) = tag.strip_prefix("musllinux_") {
            return versioned(rest).map_or_else(other, |(_, arch)| Self::Musllinux { arch });
        }
        if let Some(arch) = tag.strip_prefix("linux_") {
            let arch = arch.to_owned();
            return Self::Linux { arch };
        }
        if let Some(rest) = tag.strip_prefix("macosx_") {
            return versioned(rest)
                .map_or_else(other, |(oldest, arch)| Self::Macos { oldest, arch });
        }
        if let Some(arch) = tag.strip_prefix("win_").or_else(|| tag.strip_prefix("win")) {
            let arch = arch.to_owned();
            return Self::Windows { arch };
        }
        other()
    }

    /// Its machine, where it names one.
    #[must_use]
    pub fn arch(&self) -> Option<&str> {
        match self {
            Self::Any | Self::Other(_) => None,
            Self::Linux { arch }
            | Self::Manylinux { arch, .. }
            | Self::Musllinux { arch }
            | Self::Macos { arch, .. }
            | Self::Windows { arch } => Some(arch),
        }
    }

    /// Its system, in a word.
    #[must_use]
    pub fn system(&self) -> Option<&'static str> {
        match self {
            Self::Any | Self::Other(_) => None,
            Self::Linux { .. } | Self::Manylinux { .. } | Self::Musllinux { .. } => Some("Linux"),
            Self::Macos { .. } => Some("macOS"),
            Self::Windows { .. } => Some("Windows"),
        }
    }
}

impl Name {
    /// The parts of a file name.
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
        // A build number may stand behind the version.
        let (project, version, [python, abi, platform]) = match parts.as_slice() {
            [project, version, rest @ ..] if rest.len() == 3 => {
                (project, version, [rest[0], rest[1], rest[2]])
            }
            [project, version, _build, rest @ ..] if rest.len() == 3 => {
                (project, version, [rest[0], rest[1], rest[2]])
            }
            parts => return Err(wrong(&format!("it has {} parts", parts.len()))),
        };
        // manylinux2014 is another name of manylinux_2_17.
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

    /// The oldest glibc that it may be installed beside; none where it names no glibc.
    #[must_use]
    pub fn glibc(&self) -> Option<[u32; 2]> {
        let floors = self.platforms.iter().map(|platform| match platform {
            Platform::Manylinux { glibc, .. } => Some(*glibc),
            _ => None,
        });
        floors.flatten().min()
    }

    /// Whether this version of Python may have it: exactly that of the tag, or with the stable ABI a later one, too.
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

    /// Whether any Python 3 may have it.
    #[must_use]
    pub fn is_for_every_python(&self) -> bool {
        self.pythons.iter().any(|python| python == "py3")
            && self.abis.iter().any(|abi| abi == "none")
    }

    /// `py3-none`.
    #[must_use]
    pub fn python(&self) -> String {
        format!("{}-{}", self.pythons.join("."), self.abis.join("."))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Linux { arch } => write!(f, "linux_{arch}"),
            Self::Manylinux {
                glibc: [major, minor],
                arch,
            } => write!(f, "manylinux_{major}_{minor}_{arch}"),
            Self::Musllinux { arch } => write!(f, "musllinux_{arch}"),
            Self::Macos {
                oldest: [major, minor],
                arch,
            } => write!(f, "macosx_{major}_{minor}_{arch}"),
            Self::Windows { arch } => write!(f, "win_{arch}"),
            Self::Other(tag) => f.write_str(tag),
        }
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
        // The newest glibc that any of its tags takes is no promise.
        let both = name("a-1-py3-none-manylinux_2_34_x86_64.manylinux_2_28_x86_64.whl").unwrap();
        assert_eq!(both.glibc(), Some([2, 28]));
    }
}
