//! `cargo xtask compilers` compiles handlers with each compiler of the table in docs/platforms.md, and calls them.
//!
//! The task fails if the table differs from the results.

mod native;
mod rust;

use crate::cargo::cargo;
use crate::tally::{self, Tally};
use crate::{folders, matrix};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::sync::{Mutex, PoisonError};

/// Command line of `compilers`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check only compilers whose name contains this text, for example `clang`; may be repeated [default: all].
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// The page that contains the table of compilers.
const PAGE: &str = "docs/platforms.md";
const HEADING: &str = "\n## Compilers\n";

/// The table's row for Visual C++, which is not available on Linux.
const MSVC: &str = "| Visual C++ | | not run; `.github/workflows/platforms.yml` |";

/// A row of the table: its start, and the row as measured or the reason why it was not checked.
type Row = (&'static str, Result<String, String>);

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = &folders::checkout();
    let steps = Tally::new();
    let tally = &steps;
    let rows: Mutex<Vec<Row>> = Mutex::default();
    let is_wanted = &|row: &str| {
        args.names.is_empty() || args.names.iter().any(|name| row.contains(name.as_str()))
    };
    let keep = &|row: &'static str, seen: Result<String, String>| {
        if let Err(reason) = &seen
            && is_wanted(row)
        {
            tally.work(row, |_| Ok(vec![format!("{row}: {reason}")]));
        }
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.push((row, seen));
    };
    let mut built = false;
    tally.wide("command line and runtime", |log| {
        let mut build = cargo(root);
        build.args(["build", "-p", "xla-ffi-cli", "-p", "xla-ffi-runtime-c"]);
        let done = tally::run("cargo build", &mut build, log)?;
        // The programs find the shared library by its SONAME.
        let folder = root.join("target/compilers");
        fs::create_dir_all(&folder)?;
        let link = folder.join("libxla_ffi_runtime.so.0");
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        std::os::unix::fs::symlink(root.join("target/debug/libxla_ffi_runtime.so"), link)?;
        built = true;
        Ok(done)
    });
    if !built {
        return steps.finish(matrix::in_ci());
    }
    let wine = &native::Wine::find(root);
    let rusts = &rust::rusts(root)?;
    std::thread::scope(|scope| {
        for (row, compiler) in native::natives(root) {
            scope.spawn(move || {
                let seen = match is_wanted(row) {
                    true => compiler.and_then(|found| found.check(row, wine.as_ref(), tally)),
                    false => Err("not asked for".to_owned()),
                };
                keep(row, seen);
            });
        }
        for (row, version) in rust::RUSTS {
            let found = rusts.iter().find(|found| is_of(&found.version, version));
            scope.spawn(move || {
                let seen = match found {
                    _ if !is_wanted(row) => Err("not asked for".to_owned()),
                    Some(found) => Ok(found.check(root, row, tally)),
                    None => Err("not found; run .ci/rust on Debian 12".to_owned()),
                };
                keep(row, seen);
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.push(("Visual C++", Ok(MSVC.to_owned())));
    tally.work(PAGE, |log| {
        let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
        let differences = differences(&page, &rows)?;
        differences
            .iter()
            .for_each(|line| *log += &format!("{line}\n"));
        ensure!(
            differences.is_empty(),
            "the table of {PAGE} is not what was seen"
        );
        Ok(vec![])
    });
    steps.finish(matrix::in_ci())
}

/// Returns a row of the table of compilers.
fn line(row: &str, version: &str, standards: &str, ran: &str) -> String {
    let name = row.rsplit_once(' ').map_or(row, |(name, _)| name);
    format!("| {name} {version} | {standards} | {ran} |")
}

/// Returns true if the components of the version `version` start with those of `part`.
fn is_of(version: &str, part: &str) -> bool {
    version
        .strip_prefix(part)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the differences between the table on the page and the rows of this run.
///
/// The page must contain rows that were not checked, with any content.
fn differences(page: &str, rows: &[Row]) -> Result<Vec<String>> {
    let (_, section) = page
        .split_once(HEADING)
        .with_context(|| format!("{PAGE} has no table"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| "));
    let mut claimed: Vec<&str> = lines.skip(1).collect();
    let mut differences = vec![];
    for (row, seen) in rows {
        let is_own = |line: &&str| line.strip_prefix("| ").is_some_and(|line| is_of(line, row));
        let own = claimed.iter().position(is_own).map(|at| claimed.remove(at));
        match (own, seen) {
            (Some(own), Ok(seen)) if own != seen => {
                differences.push(format!("claimed: {own}\nseen:    {seen}"));
            }
            (None, Ok(seen)) => differences.push(format!("missing: {seen}")),
            (None, Err(_)) => differences.push(format!("missing: a row for {row}")),
            _ => {}
        }
    }
    differences.extend(
        claimed
            .iter()
            .map(|line| format!("no such compiler: {line}")),
    );
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rust_is_the_one_that_crates_name() {
        let manifest = fs::read_to_string(folders::checkout().join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("\nrust-version = \"{}\"\n", rust::RUSTS[0].1)));
    }

    #[test]
    fn a_table_that_differs_is_told_by_row() {
        let page = |rows: &str| {
            format!(
                "text\n{HEADING}\n| compiler | standards | result |\n|---|---|---|\n{rows}\n## Next\n| no | row |\n"
            )
        };
        let seen = || Ok(line("g++ 11", "11.3.0", "C11, C17", "called"));
        let rows: [Row; 2] = [
            ("g++ 11", seen()),
            ("zig 0.9", Err("no network".to_owned())),
        ];
        let of = |rows_of_page: &str| differences(&page(rows_of_page), &rows).unwrap();
        let zig = "| zig 0.9.1 | C11 | called |\n";
        assert_eq!(
            of(&format!("| g++ 11.3.0 | C11, C17 | called |\n{zig}")),
            [""; 0]
        );
        for (claimed, told) in [
            (
                "| g++ 11.4.0 | C11, C17 | called |\n",
                "claimed: | g++ 11.4.0",
            ),
            (
                "| g++ 11.3.0 | C11 | called |\n",
                "seen:    | g++ 11.3.0 | C11, C17",
            ),
            ("", "missing: | g++ 11.3.0"),
            (
                "| g++ 11.3.0 | C11, C17 | called |\n| icc 1 | C11 | called |\n",
                "no such compiler: | icc 1",
            ),
        ] {
            let found = of(&format!("{claimed}{zig}"));
            assert!(found.len() == 1 && found[0].contains(told), "{found:?}");
        }
        assert_eq!(
            of("| g++ 11.3.0 | C11, C17 | called |\n"),
            ["missing: a row for zig 0.9"]
        );
        assert!(differences("no heading", &rows).is_err());
    }

    #[test]
    fn versions_are_compared_by_their_parts() {
        assert!(is_of("1.85.0", "1.85") && is_of("g++ 11.3.0 | C", "g++ 11"));
        assert!(!is_of("1.850.0", "1.85") && !is_of("1.8", "1.85"));
    }
}
