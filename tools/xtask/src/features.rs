//! Each feature of each package alone: users turn on one, the workspace's own builds all of them.

use crate::cargo::{cargo, metadata};
use crate::tally::{self, Log, Outcome};
use std::path::Path;

/// Compiles each package that has features, with none and with each alone. Tests stay out: their own dependencies
/// would turn features on.
pub(crate) fn check(root: &Path, log: &mut Log) -> Outcome {
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
            tally::run(&of, &mut command, log)?;
        }
    }
    Ok(vec![])
}
