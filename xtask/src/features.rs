//! Each feature of each package alone: users turn on one, the workspace's own builds all of them.

use crate::cargo::{cargo, metadata};
use crate::tally::{self, Counts, Format, Log};
use anyhow::{Result, ensure};
use std::path::Path;

/// Compiles each package that has features, with none and with each alone. Tests stay out: their own dependencies
/// would turn features on.
pub(crate) fn check(root: &Path, log: &mut Log) -> Result<Counts> {
    let mut counts = Counts::default();
    for package in metadata(root)?.packages {
        let features = package.features.keys().filter(|name| *name != "default");
        let features: Vec<&str> = features.map(String::as_str).collect();
        if features.is_empty() {
            continue;
        }
        for feature in [&[""], &*features].concat() {
            let mut command = cargo(root);
            command.args(["check", "--quiet", "--package", &package.name]);
            command.args(["--no-default-features", "--features", feature]);
            let of = format!("{} with feature {feature:?} alone", package.name);
            counts.add(tally::run(Format::Whole, &of, &mut command, log)?);
        }
    }
    ensure!(counts != Counts::default(), "no package has a feature");
    Ok(counts)
}
