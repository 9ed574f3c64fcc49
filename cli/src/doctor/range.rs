//! The jaxlibs that are asked about: one release, a range, or several of either.

use std::str::FromStr;
use xla_ffi_abi::declared::{Edition, parse_version};
use xla_ffi_doctor::{RELEASES, jaxlib};

/// What one `--jaxlib` says: `0.9.1`, `0.5.0..`, `..0.9.2`, `0.5.0..0.9.2` (both ends included).
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
                "{text:?} is no jaxlib version; expected one such as 0.12.0, or a range: 0.5.0.., ..0.9.2, 0.5.0..0.9.2"
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
                return Err(format!("{first} comes after {last}"));
            }
        }
        Ok(Self::Between(first, last))
    }
}

impl Range {
    /// The releases that it means, oldest first.
    fn releases(&self) -> anyhow::Result<Vec<String>> {
        match self {
            Self::One(version) => match jaxlib(version) {
                Some(_) => Ok(vec![version.clone()]),
                None if Edition::find(version) == Some(Edition::BEFORE_R0) => anyhow::bail!(
                    "jaxlib {version} has the typed FFI from before its first revision: libraries of this SDK refuse it by \
                     name, others do not fit it unless they were built for it; 0.4.31 is the first that is judged"
                ),
                None => anyhow::bail!(
                    "jaxlib {version} has no FFI that is known: 0.4.31 is the first with these headers"
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
                        "no published jaxlib lies in the range {}..{}",
                        first.as_deref().unwrap_or_default(),
                        last.as_deref().unwrap_or_default()
                    );
                }
                Ok(found)
            }
        }
    }
}

/// All releases that are asked about, each once, oldest first; empty where nothing was said.
pub(crate) fn releases(ranges: &[Range]) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for range in ranges {
        found.extend(range.releases()?);
    }
    found.sort_by_key(|version| parse_version(version));
    found.dedup();
    Ok(found)
}
