//! `cargo xtask dist`: the packages that users install, in `target/dist`: the crates, the Python packages `xla-ffi`
//! and `xla-ffi-tools` as wheels and source distributions, and their checksums.

use crate::cargo::{Package, cargo, metadata};
use crate::python::{self, Python};
use crate::{folders, install, tally, uv, version};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The crates alone, which need no tools from an index.
    #[arg(long)]
    crates: bool,
}

/// The oldest glibc that the wheel's binaries run on, which is the oldest of Rust's standard library too.
pub(crate) const GLIBC: &str = "2.17";
/// What pip calls systems with that glibc.
const PLATFORM: &str = "manylinux_2_17_x86_64.manylinux2014_x86_64";
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let dist = make(&root, args.crates)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&dist).with_context(|| dist.display().to_string())? {
        let entry = entry?;
        files.push((entry.file_name(), entry.metadata()?.len()));
    }
    files.sort();
    for (name, bytes) in files {
        tally::note(format_args!("{:>10}  {}", bytes, name.display()));
    }
    Ok(())
}

/// Makes the packages anew; gives the folder.
pub(crate) fn make(root: &Path, crates_alone: bool) -> Result<PathBuf> {
    version::check(root, &version::current(root)?)?;
    let dist = root.join("target/dist");
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| dist.display().to_string())?;
    }
    fs::create_dir_all(&dist).with_context(|| dist.display().to_string())?;
    for file in crates(root)? {
        let name = file.file_name().context("a package has a name")?;
        fs::copy(&file, dist.join(name)).with_context(|| file.display().to_string())?;
    }
    if !crates_alone {
        let built = build(root)?;
        let prefix = root.join("target/dist-build/prefix");
        if prefix.exists() {
            fs::remove_dir_all(&prefix).with_context(|| prefix.display().to_string())?;
        }
        install::place(root, &prefix, Some(&built), true)?;
        pack(root, &prefix, &dist)?;
    }
    checksums(&dist)?;
    Ok(dist)
}

/// The crates as an index would have them.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let metadata = metadata(root)?;
    let published: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.publish.is_none())
        .collect();
    // What is packed is what lies here, committed or not. It is built where it is tried: by `cargo xtask ship`.
    let mut command = cargo(root);
    command.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    for package in &published {
        command.args(["--package", &package.name]);
    }
    ensure!(command.status()?.success(), "cargo package failed");
    let folder = root.join("target/package");
    Ok(published
        .iter()
        .map(|package| folder.join(format!("{}-{}.crate", package.name, package.version)))
        .collect())
}

/// Builds what the wheel of the tools contains, for systems as old as [`GLIBC`]; gives the folder.
fn build(root: &Path) -> Result<PathBuf> {
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "the wheel is built on Linux on x86-64"
    );
    let zig = uv::zig()?;
    let zigbuild = uv::zigbuild()?;
    let folder = root.join("target/dist-build");
    // zig would give the guard against C++ exceptions a C++ runtime of its own, which does not know the
    // exceptions of handlers that g++ built: the guard is compiled by g++ and linked to the system's.
    let libraries = folder.join("libstdc++");
    fs::create_dir_all(&libraries).with_context(|| libraries.display().to_string())?;
    let link = libraries.join("libstdc++.so.6");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(system_libstdcxx()?, &link)?;
    for packages in install::TOOLS {
        let mut command = Command::new(&zigbuild);
        command
            .current_dir(root)
            .args(["zigbuild", "--release"])
            .args(["--target", &format!("{TARGET}.{GLIBC}")])
            .arg("--target-dir")
            .arg(&folder)
            .args(packages.iter().flat_map(|package| ["-p", package]))
            .env("CARGO", cargo(root).get_program())
            .env("CARGO_ZIGBUILD_ZIG_PATH", &zig)
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
            .env(format!("CXX_{}", TARGET.replace('-', "_")), "g++")
            .env("CXXSTDLIB", "dylib:+verbatim=libstdc++.so.6")
            .env("RUSTFLAGS", format!("-L native={}", libraries.display()))
            .env_remove("CARGO_MANIFEST_DIR");
        python::output(&mut command, "cargo-zigbuild")?;
    }
    Ok(folder.join(TARGET).join("release"))
}

/// The C++ runtime of this system's g++.
fn system_libstdcxx() -> Result<PathBuf> {
    let mut ask = Command::new("g++");
    let path = python::output(ask.arg("-print-file-name=libstdc++.so.6"), "g++")?;
    let path = PathBuf::from(path.trim());
    path.canonicalize()
        .with_context(|| format!("g++ has no libstdc++.so.6 ({})", path.display()))
}

/// Packs the wheels and the source distributions.
fn pack(root: &Path, prefix: &Path, dist: &Path) -> Result<()> {
    const PROGRAM: &str = "import sys, tools_backend as tools, build_backend as pure\n\
         print(pure.build_wheel(sys.argv[1]), pure.build_sdist(sys.argv[1]))\n\
         print(tools.build_wheel(sys.argv[1], {'prefix': sys.argv[2], 'platform': sys.argv[3]}))\n\
         print(tools.build_sdist(sys.argv[1]))";
    let mut pack = Python::command(&python::all()?[0].exe);
    pack.args(["-c", PROGRAM])
        .arg(dist)
        .arg(prefix)
        .arg(PLATFORM)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(root.join("python/tools"));
    python::output(&mut pack, "packing the Python packages").map(drop)
}

/// Writes SHA256SUMS, which `sha256sum --check` reads.
fn checksums(dist: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(dist)?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    names.sort();
    let mut sums = Command::new("sha256sum");
    let sums = python::output(sums.args(&names).current_dir(dist), "sha256sum")?;
    fs::write(dist.join("SHA256SUMS"), sums)?;
    Ok(())
}
