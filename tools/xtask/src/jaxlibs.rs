//! The project's one list of jaxlib releases, which `ffi-sys` has.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use xla_ffi_abi::declared::parse_version;
use xla_ffi_sys::JAXLIBS;

/// The checkout.
pub(crate) fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).map(PathBuf::from).unwrap_or(own)
}

/// Every listed version, oldest first.
pub(crate) fn listed() -> Vec<String> {
    JAXLIBS.iter().copied().map(str::to_owned).collect()
}

/// What a command line asks for: each version as it is, the whole list for `all`.
pub(crate) fn expand(asked: &[String]) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for version in asked {
        if version == "all" {
            versions.extend(listed())
        } else {
            versions.push(version.clone())
        }
    }
    Ok(versions)
}

/// A version as numbers, for comparing: `0.9.0.1` is `[0, 9, 0, 1]`.
pub(crate) fn parts(version: &str) -> Result<Vec<u32>> {
    parse_version(version)
        .filter(|numbers| numbers.len() <= 4)
        .with_context(|| {
            format!("{version:?} is no jaxlib version: expected something like 0.12.0")
        })
}

/// The releases among `versions` that have this ABI, each once, oldest first.
///
/// # Errors
/// A listed one is missing: then the index was not asked, or not understood.
pub(crate) fn with_abi(mut versions: Vec<String>) -> Result<Vec<String>> {
    let oldest = parts(xla_ffi_sys::Revision::ALL[0].first_jaxlib())?;
    // What is no plain release (a candidate, a nightly build) has no numbers.
    versions.retain(|version| parts(version).is_ok_and(|numbers| numbers >= oldest));
    versions.sort_by_cached_key(|version| parts(version).unwrap_or_default());
    versions.dedup();
    if let Some(missing) = listed().iter().find(|listed| !versions.contains(listed)) {
        bail!(
            "the package index does not list jaxlib {missing}, which is listed: \
             is a Python missing here, or does the index keep a part only?"
        );
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    #[test]
    fn published_releases_are_those_with_the_abi_in_order() {
        let mut index = super::listed();
        index.extend(["0.4.30", "0.9.0.1", "0.4.32", "0.4.32", "0.13.0rc1"].map(str::to_owned));
        let found = super::with_abi(index).unwrap();
        assert_eq!(&found[..3], &["0.4.31", "0.4.32", "0.4.33"]);
        assert!(found.contains(&"0.9.0.1".to_owned()));
        assert_eq!(found.len(), super::listed().len() + 2);
        assert!(super::with_abi(vec!["0.4.31".to_owned()]).is_err());
    }
}
