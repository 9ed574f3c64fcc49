//! The project's one list of jaxlib releases, `jaxlibs.txt`.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// The checkout.
pub(crate) fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map(PathBuf::from).unwrap_or(own)
}

/// Every listed version, oldest first.
pub(crate) fn listed() -> Result<Vec<String>> {
    let path = root().join("jaxlibs.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut versions = Vec::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        parts(line).with_context(|| path.display().to_string())?;
        versions.push(line.to_owned());
    }
    if versions.is_empty() {
        bail!("{} lists no version", path.display());
    }
    Ok(versions)
}

/// A version as numbers, for comparing: `0.9.0.1` is `[0, 9, 0, 1]`.
pub(crate) fn parts(version: &str) -> Result<Vec<u32>> {
    version
        .split('.')
        .map(str::parse)
        .collect::<Result<Vec<u32>, _>>()
        .ok()
        .filter(|numbers| (2..=4).contains(&numbers.len()))
        .with_context(|| {
            format!("{version:?} is no jaxlib version: expected something like 0.12.0")
        })
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_compare_as_numbers() {
        let parts = |text| super::parts(text).unwrap();
        assert!(parts("0.9.1") < parts("0.10.2"));
        assert!(parts("0.9.0") < parts("0.9.0.1"));
        for bad in ["", "0", "0.x", "1.2.3.4.5", "0.1; true", "-1.2"] {
            assert!(super::parts(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_list_is_sorted() {
        let versions = super::listed().unwrap();
        assert!(versions.is_sorted_by_key(|version| super::parts(version).unwrap()));
    }
}
