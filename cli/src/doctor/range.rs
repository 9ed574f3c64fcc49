//! The value of `--jaxlib`: a release or a range of releases.

use std::str::FromStr;
use xla_ffi_abi::declared::{Edition, parse_version};
use xla_ffi_doctor::{RELEASES, jaxlib};

/// One `--jaxlib`: `0.9.1`, `0.5.0..`, `..0.9.2`, `0.5.0..0.9.2` (both ends included).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    One(String),
    Between(Option<String>, Option<String>),
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let version = |text: &str| match parse_version(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err(format!(
                "expected a jaxlib version (0.12.0) or a range (0.5.0.., ..0.9.2, 0.5.0..0.9.2), got {text:?}"
            )),
        };
        let Some((first, last)) = text.split_once("..") else {
            return version(text).map(Self::One);
        };
        let end = |text: &str| match text {
            "" => Ok(None),
            some => version(some).map(Some),
        };
        let (first, last) = (end(first)?, end(last)?);
        if let (Some(first), Some(last)) = (&first, &last) {
            if parse_version(first) > parse_version(last) {
                return Err(format!("{first} is newer than {last}"));
            }
        }
        Ok(Self::Between(first, last))
    }
}

impl Range {
    /// Returns the releases, oldest first.
    fn releases(&self) -> anyhow::Result<Vec<String>> {
        match self {
            Self::One(version) => match jaxlib(version) {
                Some(_) => Ok(vec![version.clone()]),
                None if Edition::find(version) == Some(Edition::BEFORE_R0) => anyhow::bail!(
                    "jaxlib {version} has the typed FFI from before r0, which is not supported: the first supported release is \
                     0.4.31"
                ),
                None => anyhow::bail!(
                    "jaxlib {version} has no supported FFI: the first supported release is 0.4.31"
                ),
            },
            Self::Between(first, last) => {
                let within = |version: &&&str| {
                    let version = parse_version(version);
                    first
                        .as_deref()
                        .is_none_or(|first| parse_version(first) <= version)
                        && last
                            .as_deref()
                            .is_none_or(|last| version <= parse_version(last))
                };
                let found: Vec<String> = RELEASES
                    .iter()
                    .filter(within)
                    .map(|version| (*version).to_owned())
                    .collect();
                if found.is_empty() {
                    anyhow::bail!(
                        "no published jaxlib is in the range {}..{}",
                        first.as_deref().unwrap_or_default(),
                        last.as_deref().unwrap_or_default()
                    );
                }
                Ok(found)
            }
        }
    }
}

/// Returns all releases of the ranges, each once, oldest first.
pub(crate) fn releases(ranges: &[Range]) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for range in ranges {
        found.extend(range.releases()?);
    }
    found.sort_by_key(|version| parse_version(version));
    found.dedup();
    Ok(found)
}
