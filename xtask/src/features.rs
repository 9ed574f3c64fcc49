//! Each feature of each package alone: users turn on one, the workspace's own builds all of them.

use crate::cargo::cargo;
use crate::counts::{Counts, Format};
use crate::tally::{self, Log};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    features: BTreeMap<String, Vec<String>>,
}

impl Package {
    /// What to check: the library without features, then each one.
    fn choices(&self) -> Vec<&str> {
        let named = self.features.iter();
        let named = named.filter(|(name, _)| *name != "default");
        std::iter::once("")
            .chain(named.map(|(name, _)| name.as_str()))
            .collect()
    }
}

/// Clippy on the library of each package that has features, with none and with each alone. Nothing is
/// built, and tests stay out: their own dependencies would turn features on.
pub(crate) fn check(root: &Path, log: &mut Log) -> Result<Counts> {
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    let mut counts = Counts::default();
    for (package, feature) in pairs(&metadata) {
        let mut command = cargo(root);
        command.args(["clippy", "--quiet", "--lib", "--package", package]);
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
    let packages = packages.filter(|package| package.choices().len() > 1);
    packages
        .flat_map(|package| {
            let choices = package.choices().into_iter();
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
