//! Builds the Rust libraries that run in JAX, and the tests' C and C++ libraries that are not examples.

use crate::cargo::{build_examples, cargo};
use crate::{tally, uv, venv};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder with the built Rust example libraries.
pub(crate) fn rust_folder(root: &Path) -> PathBuf {
    root.join("target/release/examples")
}

/// Builds the Rust example libraries in release mode.
pub(crate) fn build_rust(root: &Path) -> Result<()> {
    run(&mut build_examples(root), "cargo build of the examples")
}

/// Builds the command-line tool and returns its path.
pub(crate) fn build_cli(root: &Path) -> Result<PathBuf> {
    // A debug build is faster, because it shares most dependencies with this program and the tests.
    run(
        cargo(root).args(["build", "--package", "xla-ffi-cli"]),
        "cargo build of the CLI",
    )?;
    Ok(root.join("target/debug/xla-ffi"))
}

/// Returns the path of a Rust example library.
pub(crate) fn rust(root: &Path, name: &str) -> Result<PathBuf> {
    let path = rust_folder(root).join(file_name(name));
    if !path.is_file() {
        bail!(
            "{} was not built: is {name} a cdylib example of examples/Cargo.toml?",
            path.display()
        );
    }
    Ok(path)
}

/// Compiles a C source of this project with the headers in `include/`.
pub(crate) fn c(root: &Path, source: &str) -> Result<PathBuf> {
    let flags = ["-std=c99", "-O2", "-fvisibility=hidden"];
    library(root, source, Compiler::C, &flags, &root.join("include"))
}

/// Compiles the C++ conformance handlers with the headers of the newest listed jaxlib. With `-DTWIN`, compiles a second
/// library with the same names of handlers and types.
///
/// Warnings are disabled, because jaxlib's headers cause warnings.
pub(crate) fn upstream(root: &Path, define: Option<&str>) -> Result<PathBuf> {
    let newest = venv::listed().pop().context("no jaxlib is listed")?;
    let flags: Vec<&str> = ["-std=c++17", "-O2", "-w"]
        .into_iter()
        .chain(define)
        .collect();
    let source = "tests/fixtures/upstream/conformance.cc";
    library(root, source, Compiler::Cpp, &flags, &uv::headers(&newest)?)
}

fn library(
    root: &Path,
    source: &str,
    compiler: Compiler,
    flags: &[&str],
    include: &Path,
) -> Result<PathBuf> {
    let folder = root.join("target/xtask/c");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let twin = if flags.contains(&"-DTWIN") {
        "_twin"
    } else {
        ""
    };
    let out = folder.join(file_name(&(source.replace(['/', '.'], "_") + twin)));
    let mut command = compiler.command();
    command.args(flags).args(["-shared", "-fPIC", "-I"]);
    command.arg(include).arg(root.join(source)).arg("-o");
    command.arg(&out).args(["-pthread", "-lm"]);
    compile(&mut command, source, "C or C++")?;
    Ok(out)
}

/// Returns this system's file name of a library: `libNAME.so`, `libNAME.dylib` or `NAME.dll`.
pub(crate) fn file_name(name: &str) -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}{name}{DLL_SUFFIX}")
}

/// A compiler for C or C++ on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compiler {
    C,
    Cpp,
}

impl Compiler {
    /// Returns the compiler in the environment variable CC or CXX; by default, cc or c++.
    pub(crate) fn command(self) -> Command {
        let (variable, default) = match self {
            Self::C => ("CC", "cc"),
            Self::Cpp => ("CXX", "c++"),
        };
        Command::new(
            std::env::var_os(variable)
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| default.into()),
        )
    }
}

/// Runs a compiler. If the compiler fails, the error contains the compiler's messages.
pub(crate) fn compile(command: &mut Command, source: &str, language: &str) -> Result<()> {
    let output = command.output().with_context(|| {
        format!("no {language} compiler: install gcc or clang, or name one in CC and CXX")
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{source} does not compile:\n{said}"
    );
    Ok(())
}

/// Runs a command and reports the elapsed time.
pub(crate) fn run(command: &mut Command, what: &str) -> Result<()> {
    let start = std::time::Instant::now();
    let status = command
        .status()
        .with_context(|| format!("starting {what}"))?;
    if !status.success() {
        bail!("{what} failed");
    }
    tally::note(format_args!("{what}: {}", tally::seconds(start.elapsed())));
    Ok(())
}
