//! Each feature of each package alone: users turn on one, the workspace's own builds all of them.

use crate::cargo::{Metadata, Package, cargo, metadata};
use crate::counts::{Counts, Format};
use crate::tally::{self, Log};
use anyhow::{Result, bail};
use std::path::Path;

/// What to check of a package: itself without features, then with each one.
fn choices(package: &Package) -> Vec<&str> {
    let named = package.features.iter();
    let named = named.filter(|(name, _)| *name != "default");
    std::iter::once("")
        .chain(named.map(|(name, _)| name.as_str()))
        .collect()
}

/// Clippy on the libraries and programs of each package that has features, with none and with each alone. Nothing is
/// built, and tests stay out: their own dependencies would turn features on.
pub(crate) fn check(root: &Path, log: &mut Log) -> Result<Counts> {
    let metadata = metadata(root)?;
    let mut counts = Counts::default();
    for (package, feature) in pairs(&metadata) {
        let mut command = cargo(root);
        command.args(["clippy", "--quiet", "--package", package]);
        command.args(["--no-default-features", "--features", feature]);
        command.args(["--", "-D", "warnings"]);
        let with = if feature.is_empty() {
            "no feature"
        } else {
            feature
        };
        let of = format!("{package} with {with}");
        let one = tally::run(Format::Whole, &of, &mut command, log)?;
        let verdict = if one.failed == 0 { "ok" } else { "FAILED" };
        log.line(format_args!("{of}: {verdict}"));
        counts.add(one);
    }
    if counts == Counts::default() {
        bail!("no package has a feature: what cargo metadata says is not understood");
    }
    Ok(counts)
}

fn pairs(metadata: &Metadata) -> Vec<(&str, &str)> {
    let packages = metadata.packages.iter();
    let packages = packages.filter(|package| choices(package).len() > 1);
    packages
        .flat_map(|package| {
            let choices = choices(package).into_iter();
            choices.map(|feature| (package.name.as_str(), feature))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_stands_alone_and_none_too() {
        let text = r#"{"packages": [
            {"name": "a", "features": {"default": ["x"], "x": [], "y": ["x"]}, "version": "1.0.0"},
            {"name": "b", "features": {"default": []}},
            {"name": "c", "features": {}}
        ]}"#;
        let metadata = serde_json::from_str(text).unwrap();
        assert_eq!(pairs(&metadata), [("a", ""), ("a", "x"), ("a", "y")]);
    }
}
