//! `cargo xtask version` sets the common version of all packages, or checks that all packages have the same version.

use crate::folders;
use crate::{python, tally};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// Command line of `version`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Version, for example 0.1.1.
    #[arg(value_name = "X.Y.Z", value_parser = parse)]
    version: String,
    /// Change nothing; fail if a place has a different version, or CHANGELOG.md has no entry for this one.
    #[arg(long)]
    check: bool,
}

/// Every place that contains the version: a file, and the text directly before the version. In the text, `*` matches
/// any text within a line.
const PLACES: [(&str, &str); 28] = [
    ("Cargo.toml", "[workspace.package]\nversion = \""),
    ("Cargo.toml", "\", version = \""),
    ("ffi/Cargo.toml", "\", version = \""),
    ("runtime/c/Cargo.toml", "\", version = \""),
    ("Cargo.lock", LOCKED),
    ("python/pyproject.toml", "\nversion = \""),
    ("python/pyproject.toml", "xla-ffi-tools=="),
    ("python/tools/pyproject.toml", "\nversion = \""),
    ("python/tools/pyproject.toml", "xla-ffi=="),
    ("python/xla_ffi/__init__.py", "\n__version__ = \""),
    ("include/xla_ffi/facts.h", "XLA_FFI_SDK_VERSION \""),
    ("include/xla_ffi/runtime.h", "XFFI_RT_VERSION \""),
    ("docs/ci.md", "rev: v"),
    ("docs/ci.md", "uses: xla-ffi/xla-ffi@v"),
    ("docs/ci/xla-ffi.yml", "uses: xla-ffi/xla-ffi@v"),
    ("docs/shipping.md", "/xla_ffi-"),
    ("examples/showcase/images/Cargo.toml", "\nxla-ffi*\""),
    ("examples/showcase/images/Cargo.lock", LOCKED),
    ("examples/showcase/images/pyproject.toml", REQUIRED),
    (
        "examples/showcase/images/.github/workflows/ci.yml",
        REQUIRED,
    ),
    ("examples/showcase/neighbours/Cargo.toml", "\nxla-ffi*\""),
    ("examples/showcase/neighbours/Cargo.lock", LOCKED),
    ("examples/showcase/neighbours/pyproject.toml", REQUIRED),
    (
        "examples/showcase/neighbours/.github/workflows/ci.yml",
        REQUIRED,
    ),
    ("examples/showcase/sparse_solve/Cargo.toml", "\nxla-ffi*\""),
    ("examples/showcase/sparse_solve/Cargo.lock", LOCKED),
    ("examples/showcase/sparse_solve/pyproject.toml", REQUIRED),
    (
        "examples/showcase/sparse_solve/.github/workflows/ci.yml",
        REQUIRED,
    ),
];
/// The text before the version of a package in a `Cargo.lock`.
const LOCKED: &str = "name = \"xla-ffi*\"\nversion = \"";
/// The text before the version of a package in the requirements of a Python project.
const REQUIRED: &str = "xla-ffi*>=";
/// The version of packages that are never published.
const UNPUBLISHED: &str = "0.0.0";

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    if args.check {
        check(&root, &args.version)?;
        let text = read(&root, "CHANGELOG.md")?;
        let heading = heading(&args.version);
        return text.contains(&heading).then_some(()).with_context(|| {
            let heading = heading.trim();
            format!("CHANGELOG.md has no heading `{heading}`: run `cargo xtask version`")
        });
    }
    let mut date = Command::new("date");
    let date = python::output(date.args(["-u", "+%F"]), "date")?;
    set(&root, &args.version, date.trim())?;
    tally::note(format_args!("{} is set; review `git diff`", args.version));
    Ok(())
}

/// Parses a version of three numbers. PyPI and the project's CMake package cannot compare the other forms of versions
/// that Cargo allows.
fn parse(text: &str) -> Result<String> {
    let numbers: Vec<_> = text.split('.').map(str::parse::<u32>).collect();
    let are_numbers = numbers.iter().all(Result::is_ok);
    ensure!(
        numbers.len() == 3 && are_numbers,
        "expected three numbers, for example 0.1.1"
    );
    Ok(text.to_owned())
}

/// Returns the version of the published crates.
pub(crate) fn current(root: &Path) -> Result<String> {
    let (file, marker) = PLACES[0];
    let text = read(root, file)?;
    let [range] = &versions_after(&text, marker)[..] else {
        anyhow::bail!("{file} has no version in [workspace.package]");
    };
    Ok(text[range.clone()].to_owned())
}

/// Checks that every place has the version `version`, and reports the places that have a different version.
pub(crate) fn check(root: &Path, version: &str) -> Result<()> {
    let mut wrong = Vec::new();
    for (file, marker) in PLACES {
        let text = read(root, file)?;
        let found = versions_after(&text, marker);
        if found.is_empty() {
            wrong.push(format!(
                "{file}: no version after {marker:?}; see PLACES in version.rs"
            ));
        }
        for found in found.into_iter().map(|range| &text[range]) {
            if found != version {
                wrong.push(format!("{file}: expected {version}, found {found}"));
            }
        }
    }
    wrong.dedup();
    ensure!(
        wrong.is_empty(),
        "{}\nto set one version everywhere: cargo xtask version {version}",
        wrong.join("\n")
    );
    Ok(())
}

/// Sets the version in every place, and adds a heading with the version and the date to the changelog.
fn set(root: &Path, version: &str, date: &str) -> Result<()> {
    for (file, marker) in PLACES {
        let mut text = read(root, file)?;
        for range in versions_after(&text, marker).into_iter().rev() {
            text.replace_range(range, version);
        }
        fs::write(root.join(file), text).context(file)?;
    }
    let text = read(root, "CHANGELOG.md")?;
    if !text.contains(&heading(version)) {
        const UNRELEASED: &str = "\n## Unreleased\n";
        ensure!(text.contains(UNRELEASED), "CHANGELOG.md has no{UNRELEASED}");
        let dated = format!("{UNRELEASED}{}{date}\n", heading(version));
        let text = text.replacen(UNRELEASED, &dated, 1);
        fs::write(root.join("CHANGELOG.md"), text).context("CHANGELOG.md")?;
    }
    check(root, version)
}

/// Returns the heading of a version in the changelog, without the date.
fn heading(version: &str) -> String {
    format!("\n## {version} - ")
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).context(file.to_owned())
}

/// Returns the position of each version that follows the text `marker`.
fn versions_after(text: &str, marker: &str) -> Vec<Range<usize>> {
    let (start, end) = marker.split_once('*').unwrap_or((marker, ""));
    let found = text.match_indices(start).filter_map(|(at, _)| {
        let rest = &text[at + start.len()..];
        let skipped = rest.find(end)?;
        let rest = (!rest[..skipped].contains('\n')).then(|| &rest[skipped + end.len()..])?;
        let is_other = |c: char| !c.is_ascii_digit() && c != '.';
        let version = &rest[..rest.find(is_other).unwrap_or(rest.len())];
        let from = text.len() - rest.len();
        // Excludes the final period in `xla_ffi-0.1.0.tar.gz`.
        Some(from..from + version.trim_end_matches('.').len())
    });
    found
        .filter(|range| &text[range.clone()] != UNPUBLISHED)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::cargo;
    use serde_json::Value;

    /// Copies the files of the checkout to a new folder.
    fn copy() -> tempfile::TempDir {
        let (root, copy) = (folders::checkout(), tempfile::tempdir().unwrap());
        let mut list = Command::new("git");
        let list = list.args(["ls-files", "-z"]).current_dir(&root);
        let files = python::output(list, "git ls-files").unwrap();
        for file in files.split_terminator('\0') {
            let to = copy.path().join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(root.join(file), to).unwrap();
        }
        copy
    }

    #[test]
    fn one_command_sets_the_version_everywhere() {
        let copy = copy();
        let root = copy.path();
        let is_locked = || {
            let mut update = cargo(root);
            update.args(["update", "--workspace", "--locked", "--offline"]);
            python::output(&mut update, "cargo update")
        };
        check(root, &current(root).unwrap()).unwrap();
        set(root, "7.8.9", "2030-01-02").unwrap();
        assert_eq!(current(root).unwrap(), "7.8.9");
        is_locked().unwrap();
        let changelog = || read(root, "CHANGELOG.md").unwrap();
        let dated = changelog();
        assert!(dated.contains("\n## Unreleased\n\n## 7.8.9 - 2030-01-02\n"));
        set(root, "7.8.9", "2031-01-02").unwrap();
        assert_eq!(changelog(), dated);

        for (file, marker) in PLACES {
            let text = read(root, file).unwrap();
            let mut stale = text.clone();
            stale.replace_range(versions_after(&text, marker)[0].clone(), "7.8.8");
            fs::write(root.join(file), stale).unwrap();
            let error = check(root, "7.8.9").unwrap_err().to_string();
            let named = format!("{file}: expected 7.8.9, found 7.8.8\n");
            assert!(error.starts_with(&named), "{marker:?}: {error}");
            if file == "Cargo.lock" {
                is_locked().unwrap_err();
            }
            fs::write(root.join(file), text).unwrap();
        }
        let edited = read(root, "docs/ci.md").unwrap().replace("rev: v", "rev: ");
        fs::write(root.join("docs/ci.md"), edited).unwrap();
        let error = check(root, "7.8.9").unwrap_err().to_string();
        assert!(error.contains("docs/ci.md: no version"), "{error}");
        for wrong in ["0.1", "0.1.1-rc.1", "v0.1.1", "0.1.1.0"] {
            parse(wrong).unwrap_err();
        }
    }

    /// Tests that published packages have the metadata that registries display, and the same repository address.
    #[test]
    fn published_packages_have_their_metadata() {
        let root = folders::checkout();
        let mut ask = cargo(&root);
        ask.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata = python::output(&mut ask, "cargo metadata").unwrap();
        let metadata: Value = serde_json::from_str(&metadata).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let published = packages
            .iter()
            .filter(|package| package["publish"].is_null());
        let mut repository = "";
        for package in published {
            repository = package["repository"].as_str().expect("repository");
            for key in [
                "description",
                "documentation",
                "homepage",
                "license",
                "readme",
            ] {
                assert!(package[key].is_string(), "{}: no {key}", package["name"]);
            }
            for key in ["keywords", "categories"] {
                let count = package[key].as_array().unwrap().len();
                assert!((1..=5).contains(&count), "{}: {key}", package["name"]);
            }
            for key in ["documentation", "homepage"] {
                let url = package[key].as_str().unwrap();
                let is_ours = url.starts_with("https://docs.rs/") || url.starts_with(repository);
                assert!(is_ours, "{}: {url}", package["name"]);
            }
        }
        for file in [
            "python/pyproject.toml",
            "python/tools/pyproject.toml",
            "docs/ci.md",
        ] {
            assert!(read(&root, file).unwrap().contains(repository), "{file}");
        }
        let action = repository.trim_start_matches("https://github.com/");
        let workflow = read(&root, "docs/ci/xla-ffi.yml").unwrap();
        assert!(workflow.contains(&format!("uses: {action}@")), "{action}");
    }
}
