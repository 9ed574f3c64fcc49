//! `cargo xtask dist` builds the packages that users install in `target/dist`, with checksums.
//!
//! The packages are the crates, and the Python packages `xla-ffi` and `xla-ffi-tools` as wheels and source
//! distributions.

use crate::cargo::{Package, cargo, metadata};
use crate::python::{self, Python};
use crate::{folders, install, tally, uv, version};
use anyhow::{Context, Result, ensure};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Command line of `dist`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build only the crates, which require no tools from an index.
    #[arg(long, conflicts_with = "arch")]
    crates: bool,
    /// Processor for the wheel of the tools: x86_64 or aarch64. Default: the processor of this machine. A different
    /// processor requires its g++ (ARCH-linux-gnu-g++) and Rust standard library.
    #[arg(long, value_parser = ["x86_64", "aarch64"])]
    arch: Option<String>,
}

/// The oldest glibc that the binaries in the wheel support. Rust's standard library supports no older glibc.
pub(crate) const GLIBC: &str = "2.17";

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let arch = args.arch.as_deref().unwrap_or(ARCH);
    let dist = make(&root, (!args.crates).then_some(arch))?;
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

/// Builds all packages from scratch: the crates, and the Python packages for the processor `arch`. Returns the folder
/// of the packages.
pub(crate) fn make(root: &Path, arch: Option<&str>) -> Result<PathBuf> {
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
    if let Some(arch) = arch {
        let built = build(root, arch)?;
        let prefix = root.join("target/dist-build/prefix");
        if prefix.exists() {
            fs::remove_dir_all(&prefix).with_context(|| prefix.display().to_string())?;
        }
        install::place(root, &prefix, Some(&built), true)?;
        // The debug information of Rust's standard library is removed from the static library. In programs and shared
        // libraries, the linker omits it.
        let strip = tool(arch, "strip");
        let mut command = Command::new(&strip);
        command.arg("--strip-debug");
        command.arg(prefix.join("lib/libxla_ffi_runtime.a"));
        python::output(&mut command, &strip)?;
        pack(root, &prefix, &dist, arch)?;
    }
    checksums(&dist)?;
    Ok(dist)
}

/// Packages the crates as for publication in a registry.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let metadata = metadata(root)?;
    let published: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.publish.is_none())
        .collect();
    // The crates contain the files of the working tree, even if they are not committed. The crates are not built,
    // because `cargo xtask ship` does this.
    let mut command = cargo(root);
    command.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    let target = root.join("target");
    command.arg("--target-dir").arg(&target);
    for package in &published {
        command.args(["--package", &package.name]);
    }
    ensure!(command.status()?.success(), "cargo package failed");
    let folder = target.join("package");
    Ok(published
        .iter()
        .map(|package| folder.join(format!("{}-{}.crate", package.name, package.version)))
        .collect())
}

/// Builds the contents of the wheel of the tools, for systems with [`GLIBC`] or newer. Returns the folder with the
/// contents.
fn build(root: &Path, arch: &str) -> Result<PathBuf> {
    ensure!(
        cfg!(target_os = "linux"),
        "the wheel of the tools is built on Linux"
    );
    let target = format!("{arch}-unknown-linux-gnu");
    let compiler = tool(arch, "g++");
    let zig = uv::zig()?;
    let zigbuild = uv::zigbuild()?;
    let folder = root.join("target/dist-build");
    // If zig compiled the guard against C++ exceptions, the guard would contain zig's C++ runtime. That runtime cannot
    // catch exceptions of handlers built by g++. Therefore g++ compiles the guard, which is linked to the system's
    // runtime.
    let libraries = folder.join("libstdc++").join(arch);
    fs::create_dir_all(&libraries).with_context(|| libraries.display().to_string())?;
    let link = libraries.join("libstdc++.so.6");
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(system_libstdcxx(&compiler)?, &link)?;
    let mut command = Command::new(&zigbuild);
    command
        .current_dir(root)
        .args(["zigbuild", "--release"])
        .args(["--target", &format!("{target}.{GLIBC}")])
        .arg("--target-dir")
        .arg(&folder)
        .args(install::TOOLS.iter().flat_map(|package| ["-p", package]))
        .env("CARGO", cargo(root).get_program())
        .env("CARGO_ZIGBUILD_ZIG_PATH", &zig)
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env(format!("CXX_{}", target.replace('-', "_")), &compiler)
        .env("CXXSTDLIB", "dylib:+verbatim=libstdc++.so.6")
        .env("RUSTFLAGS", format!("-L native={}", libraries.display()))
        .env_remove("CARGO_MANIFEST_DIR");
    python::output(&mut command, "cargo-zigbuild")?;
    Ok(folder.join(target).join("release"))
}

/// Returns the name of a GNU tool for the processor `arch`.
fn tool(arch: &str, name: &str) -> String {
    match arch == ARCH {
        true => name.to_owned(),
        false => format!("{arch}-linux-gnu-{name}"),
    }
}

/// Returns the path of the C++ runtime library of one of this system's compilers.
fn system_libstdcxx(compiler: &str) -> Result<PathBuf> {
    let mut ask = Command::new(compiler);
    let path = python::output(ask.arg("-print-file-name=libstdc++.so.6"), compiler)?;
    let path = PathBuf::from(path.trim());
    path.canonicalize()
        .with_context(|| format!("{compiler} has no libstdc++.so.6 ({})", path.display()))
}

/// Packs the wheels and the source distributions into the folder `dist`.
fn pack(root: &Path, prefix: &Path, dist: &Path, arch: &str) -> Result<()> {
    const PROGRAM: &str = "import sys, tools_backend as tools, build_backend as pure\n\
         print(pure.build_wheel(sys.argv[1]), pure.build_sdist(sys.argv[1]))\n\
         print(tools.build_wheel(sys.argv[1], {'prefix': sys.argv[2], 'platform': sys.argv[3]}))\n\
         print(tools.build_sdist(sys.argv[1]))";
    // The wheel has pip's platform tags for systems with glibc 2.17 or later.
    let platform = format!(
        "manylinux_{}_{arch}.manylinux2014_{arch}",
        GLIBC.replace('.', "_")
    );
    let mut pack = Python::command(&python::all()?[0].exe);
    pack.args(["-c", PROGRAM])
        .arg(dist)
        .arg(prefix)
        .arg(platform)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(root.join("python/tools"));
    python::output(&mut pack, "packing the Python packages").map(drop)
}

/// Writes the file SHA256SUMS, for `sha256sum --check`.
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
