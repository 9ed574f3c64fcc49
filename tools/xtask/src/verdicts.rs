//! `cargo xtask verdicts` measures how libraries built with upstream's headers behave on real jaxlibs.
//!
//! A test compares the doctor's verdicts with the resulting table. The task takes half an hour and is started by hand.

use crate::cargo::python_driver;
use crate::{folders, python, tally, uv, venv};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;
use xla_ffi_sys::Revision;
use xla_ffi_testing::headers::Headers;
use xla_ffi_testing::verdicts::{self, End, Kind, Row, Table};

/// Command line of `verdicts`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure only this jaxlib and keep the rest of the table; may be repeated.
    #[arg(long, value_name = "X.Y.Z")]
    jaxlib: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let libraries = libraries(&root)?;
    let mut table = if args.jaxlib.is_empty() {
        let jaxlibs = venv::published()?;
        Table {
            glibc: vec![String::new(); jaxlibs.len()],
            jaxlibs,
            rows: Vec::new(),
        }
    } else {
        Table::committed()
    };
    let wanted = match args.jaxlib.as_slice() {
        [] => table.jaxlibs.clone(),
        some => some.to_vec(),
    };
    for version in &wanted {
        let start = Instant::now();
        let cells = measure(&root, version, &libraries)?;
        tally::note(format_args!(
            "jaxlib {version}: {} cells, {}",
            cells.len(),
            tally::seconds(start.elapsed())
        ));
        let at = table.jaxlibs.iter().position(|known| known == version);
        let at = at.with_context(|| format!("the table has no jaxlib {version}: measure all"))?;
        table.glibc[at] = glibc(&venv::exactly(version)?.tags()?)?;
        for (headers, case, end) in cells {
            enter(&mut table, at, headers, case, end);
        }
        // The results are saved after each jaxlib, even if a later jaxlib fails.
        std::fs::write(verdicts::path(), table.render())
            .with_context(|| verdicts::path().display().to_string())?;
    }
    println!("{}", verdicts::path().display());
    Ok(())
}

/// Builds the libraries. Returns the name `HEADERS-KIND` and the file of each library.
fn libraries(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut libraries = Vec::new();
    for version in verdicts::headers() {
        let headers = Headers {
            version: version.to_owned(),
            revision: Revision::of_jaxlib(version).context("a listed jaxlib has a revision")?,
            include: uv::headers(version)?,
        };
        for kind in Kind::ALL {
            if kind.is_in(headers.revision) {
                let folder = root.join("target/tmp/verdicts");
                let library = verdicts::library(&folder, "xtask verdicts", &headers, kind)
                    .context("no C++ compiler is there")?;
                libraries.push((format!("{version}-{}", kind.handler()), library));
            }
        }
    }
    Ok(libraries)
}

/// Runs every case on one jaxlib. Returns the headers, the case and the outcome of each.
fn measure(
    root: &Path,
    version: &str,
    libraries: &[(String, PathBuf)],
) -> Result<Vec<(String, String, End)>> {
    let venv = venv::exactly(version)?;
    let mut command = python_driver(root, &venv, "verdicts.py");
    for (name, path) in libraries {
        command.arg(format!("{name}={}", path.display()));
    }
    let said = python::output(&mut command, "the driver")?;
    let mut cells = Vec::new();
    for line in said.lines() {
        let data: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("the driver printed {line:?}"))?;
        let text = |key: &str| data[key].as_str().unwrap_or_default();
        let end = End::from_name(text("end"))
            .with_context(|| format!("no such end: {:?}", text("end")))?;
        let (headers, _) = text("library")
            .split_once('-')
            .context("a library's name")?;
        println!(
            "jaxlib {version}, headers of {headers}, {}: {}: {}",
            text("case"),
            end.name(),
            text("message")
        );
        cells.push((headers.to_owned(), text("case").to_owned(), end));
    }
    Ok(cells)
}

/// Returns the glibc in a wheel's tag: `2.27` for `manylinux_2_27`, `2.17` for `manylinux2014`.
fn glibc(wheel: &str) -> Result<String> {
    if wheel.contains("manylinux2014_") {
        return Ok("2.17".to_owned());
    }
    let tag = wheel.split("-manylinux_").nth(1);
    let numbers = tag.and_then(|tag| tag.split_once('_'));
    numbers
        .and_then(|(major, rest)| Some(format!("{major}.{}", rest.split_once('_')?.0)))
        .with_context(|| format!("{wheel} names no glibc"))
}

fn enter(table: &mut Table, at: usize, headers: String, case: String, end: End) {
    let rows = &mut table.rows;
    let known = rows
        .iter()
        .position(|row| row.headers == headers && row.case == case);
    let row = known.unwrap_or_else(|| {
        rows.push(Row {
            headers,
            case,
            ends: vec![None; table.jaxlibs.len()],
        });
        rows.len() - 1
    });
    rows[row].ends[at] = Some(end);
}
