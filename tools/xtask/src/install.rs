//! `cargo xtask install` installs the headers with their CMake and pkg-config files.
//!
//! Options also install the embedded runtime, as a static and as a shared library, and the tools.

use crate::cargo::cargo;
use crate::libraries::file_name;
use crate::{folders, tally, version};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Command line of `install`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Prefix to install to: headers in DIR/include, CMake and pkg-config files in DIR/lib.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Also install the embedded runtime, built for release: DIR/lib/libxla_ffi_runtime.a and .so (.dylib).
    #[arg(long)]
    runtime: bool,
    /// Also install the runtime, the program in DIR/bin/xla-ffi, and the recorder in DIR/lib.
    #[arg(long)]
    tools: bool,
}

/// The packages of the tools. All are built together, so that their common dependencies are compiled once.
///
/// In a common build, the runtime also has the feature `cuda` of the program. The shared library omits the code for
/// CUDA, but the static library contains it.
pub(crate) const TOOLS: [&str; 3] = ["xla-ffi-runtime-c", "xla-ffi-record", "xla-ffi-cli"];

/// The files that are generated from the templates `include/cmake/NAME.in`. CMake files are installed in
/// `lib/cmake/xla_ffi`, and pkg-config files in `lib/pkgconfig`.
const TEMPLATES: [&str; 3] = [
    "xla_ffi-config.cmake",
    "xla_ffi-config-version.cmake",
    "xla_ffi.pc",
];

/// The templates whose files are installed only with the runtime.
const RUNTIME_TEMPLATES: [&str; 4] = [
    "xla_ffi-runtime.cmake",
    "xla_ffi_runtime.pc",
    "xla_ffi_internal.pc",
    "xla_ffi_internal_absl.pc",
];

/// The name of the shared library. The constant after it is the number in the SONAME (`runtime/c/build.rs`).
const RUNTIME: &str = "xla_ffi_runtime";
const NUMBER: &str = "0";

/// Returns this system's file name of a shared library with a number: `libNAME.so.0` or `libNAME.0.dylib`.
fn numbered(name: &str, number: &str) -> String {
    match cfg!(target_os = "macos") {
        true => file_name(&format!("{name}.{number}")),
        false => format!("{}.{number}", file_name(name)),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let built = match (args.tools, args.runtime) {
        (true, _) => Some(build(&root, &TOOLS)?),
        (false, true) => Some(build(&root, &["xla-ffi-runtime-c"])?),
        (false, false) => None,
    };
    place(&root, &args.prefix, built.as_deref(), args.tools)
}

/// Installs the files in a prefix. `built` is the build folder of the runtime, if the runtime is installed.
pub(crate) fn place(root: &Path, prefix: &Path, built: Option<&Path>, tools: bool) -> Result<()> {
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
    let version = version::current(root)?;
    let mut templates = TEMPLATES.to_vec();
    if let Some(built) = built {
        templates.extend(RUNTIME_TEMPLATES);
        runtime(built, &prefix.join("lib"), &version)?;
    }
    if let Some(built) = built.filter(|_| tools) {
        let recorder = file_name("xla_ffi_record");
        for (from, folder) in [("xla-ffi", "bin"), (recorder.as_str(), "lib")] {
            let to = prefix.join(folder).join(from);
            fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            fs::copy(built.join(from), &to).with_context(|| to.display().to_string())?;
        }
    }
    let soname = numbered(RUNTIME, NUMBER);
    // The name that the shared library contains for loaders: an install name on macOS, and a SONAME on other systems.
    let recorded = match cfg!(target_os = "macos") {
        true => format!("@rpath/{soname}"),
        false => soname.clone(),
    };
    let gc_sections = match cfg!(target_os = "macos") {
        true => "-Wl,-dead_strip",
        false => "-Wl,--gc-sections",
    };
    for name in &templates {
        let folder = match name.ends_with(".pc") {
            true => "lib/pkgconfig",
            false => "lib/cmake/xla_ffi",
        };
        let from = root.join("include/cmake").join(format!("{name}.in"));
        let text = fs::read_to_string(&from).with_context(|| from.display().to_string())?;
        let text = text
            .replace("@VERSION@", &version)
            .replace("@SHARED@", &soname)
            .replace("@SONAME@", &recorded)
            .replace("@GC_SECTIONS@", gc_sections);
        write(&prefix.join(folder).join(name), text.as_bytes())?;
    }
    tally::note(format_args!(
        "{} headers, {} package files and {} under {}",
        files.len(),
        templates.len(),
        match built {
            Some(_) => "the runtime",
            None => "no runtime (--runtime)",
        },
        prefix.display()
    ));
    Ok(())
}

/// Builds packages for release and returns the folder with the results.
fn build(root: &Path, packages: &[&str]) -> Result<PathBuf> {
    let target = root.join("target");
    let built = cargo(root)
        .args(["build", "--quiet", "--release", "--target-dir"])
        .arg(&target)
        .args(packages.iter().flat_map(|package| ["-p", package]))
        .status()?;
    ensure!(built.success(), "{} does not build", packages.join(" and "));
    Ok(target.join("release"))
}

/// Installs the static and the shared library of the runtime in the folder `lib`.
fn runtime(built: &Path, lib: &Path, version: &str) -> Result<()> {
    ensure!(
        cfg!(unix),
        "the runtime is for POSIX systems: Windows has none"
    );
    let (shared, soname) = (file_name(RUNTIME), numbered(RUNTIME, NUMBER));
    let (archive, real) = (format!("lib{RUNTIME}.a"), numbered(RUNTIME, version));
    for (from, to) in [(&archive, &archive), (&shared, &real)] {
        let from = built.join(from);
        let library = fs::read(&from).with_context(|| from.display().to_string())?;
        write(&lib.join(to), &library)?;
    }
    for (name, target) in [(&soname, &real), (&shared, &soname)] {
        let link = lib.join(name);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).with_context(|| link.display().to_string())?;
        }
        std::os::unix::fs::symlink(target, &link).with_context(|| link.display().to_string())?;
    }
    Ok(())
}

/// Finds the headers in a folder, as sorted paths relative to `root`.
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

/// Writes a file, and creates the folders that contain the file.
fn write(path: &Path, text: &[u8]) -> Result<()> {
    let told = || path.display().to_string();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(told)?;
    }
    // Deleting the file first is safe for running programs, which keep the deleted library mapped.
    let _ = fs::remove_file(path);
    fs::write(path, text).with_context(told)
}
