//! `cargo xtask install`: the headers and what CMake and pkg-config need to find them.

use crate::{jaxlibs, ui};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to: headers go to DIR/include, CMake's and pkg-config's files to DIR/lib.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Files made from a template: source in `cmake/`, place under the prefix.
const TEMPLATES: [(&str, &str); 3] = [
    (
        "xla_ffi-config.cmake.in",
        "lib/cmake/xla_ffi/xla_ffi-config.cmake",
    ),
    (
        "xla_ffi-config-version.cmake.in",
        "lib/cmake/xla_ffi/xla_ffi-config-version.cmake",
    ),
    ("xla_ffi.pc.in", "lib/pkgconfig/xla_ffi.pc"),
];

/// From the folder of the CMake config to the headers, so that the prefix can be moved.
const INCLUDE_FROM_CMAKE: &str = "../../../include";

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = jaxlibs::root();
    let prefix = &args.prefix;
    if prefix.exists() && !prefix.is_dir() {
        bail!("{} is there and no folder", prefix.display());
    }
    let mut files = Vec::new();
    headers(&root.join("include"), Path::new(""), &mut files)?;
    for file in &files {
        let from = root.join("include").join(file);
        let to = prefix.join("include").join(file);
        let text = fs::read(&from).with_context(|| from.display().to_string())?;
        write(&to, &text)?;
    }
    let version = version(&root)?;
    for (template, place) in TEMPLATES {
        let from = root.join("cmake").join(template);
        let text = fs::read_to_string(&from).with_context(|| from.display().to_string())?;
        let text = text
            .replace("@VERSION@", &version)
            .replace("@INCLUDE_FROM_CMAKE@", INCLUDE_FROM_CMAKE);
        write(&prefix.join(place), text.as_bytes())?;
    }
    ui::note(format_args!(
        "{} headers and {} package files under {}",
        files.len(),
        TEMPLATES.len(),
        prefix.display()
    ));
    Ok(())
}

/// The version of the crates, from the workspace.
fn version(root: &Path) -> Result<String> {
    let path = root.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (_, package) = text
        .split_once("[workspace.package]")
        .context("Cargo.toml has no [workspace.package]")?;
    let line = package
        .lines()
        .find_map(|line| line.strip_prefix("version = "))
        .context("[workspace.package] has no version")?;
    Ok(line.trim().trim_matches('"').to_owned())
}

/// The headers below a folder, as paths relative to the first one, sorted.
fn headers(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let folder = root.join(below);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry.with_context(|| folder.display().to_string())?;
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            headers(root, &path, found)?;
        } else if path.extension().is_some_and(|is| is == "h") {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// Writes a file and the folders above it; a reader never sees half of it.
fn write(path: &Path, text: &[u8]) -> Result<()> {
    let told = || path.display().to_string();
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).with_context(told)?;
    let part = path.with_extension(format!("part{}", std::process::id()));
    fs::write(&part, text).with_context(told)?;
    fs::rename(&part, path).with_context(told)
}
