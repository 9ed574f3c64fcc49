//! The libraries that run in JAX: Rust ones from cargo, C and C++ ones compiled here.

use crate::test::{build_examples, cargo};
use crate::{jaxlibs, ui, wheel};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the Rust examples.
pub(crate) fn rust_folder(root: &Path) -> PathBuf {
    root.join("target/release/examples")
}

/// Folder of what this module compiles.
pub(crate) fn c_folder(root: &Path) -> PathBuf {
    root.join("target/xtask/c")
}

/// Builds the Rust examples.
pub(crate) fn build_rust(root: &Path) -> Result<()> {
    run(&mut build_examples(root), "cargo build of the examples")
}

/// Builds the command line tool and returns its path.
pub(crate) fn build_cli(root: &Path) -> Result<PathBuf> {
    // Not optimised: this program and the tests share most of what it takes.
    run(
        cargo(root).args(["build", "--package", "xla-ffi-cli"]),
        "cargo build of the CLI",
    )?;
    Ok(root.join("target/debug/xla-ffi"))
}

/// A Rust example library.
pub(crate) fn rust(root: &Path, name: &str) -> Result<PathBuf> {
    let path = rust_folder(root).join(format!("lib{name}.so"));
    if !path.is_file() {
        bail!(
            "{} was not built: is examples/{name}.rs a cdylib example?",
            path.display()
        );
    }
    Ok(path)
}

/// The examples that exist in both languages: name and C source.
pub(crate) const EXAMPLES: [(&str, &str); 2] = [
    ("tiled_add", "c_examples/01_tiled_add.c"),
    ("rms_norm", "c_examples/02_rms_norm.c"),
];

/// The examples as the JAX drivers take them.
pub(crate) struct Examples {
    /// Each as `LANGUAGE:EXAMPLE=LIBRARY`.
    pub(crate) arguments: Vec<String>,
    /// Which C twins could not be built, and why.
    pub(crate) missing: Vec<String>,
}

/// Every example in every language that can be built here. The Rust ones are built already.
pub(crate) fn examples(root: &Path) -> Result<Examples> {
    let mut examples = Examples {
        arguments: Vec::new(),
        missing: Vec::new(),
    };
    for (name, source) in EXAMPLES {
        let library = rust(root, name)?;
        let mut add = |language: &str, library: &Path| {
            let argument = format!("{language}:{name}={}", library.display());
            examples.arguments.push(argument);
        };
        add("rust", &library);
        match c(root, source) {
            Ok(library) => add("c", &library),
            Err(error) => examples.missing.push(format!("{source}: {error:#}")),
        }
    }
    Ok(examples)
}

/// Compiles a C source of ours against `include/`.
pub(crate) fn c(root: &Path, source: &str) -> Result<PathBuf> {
    let out = c_library(root, source)?;
    let mut command = compiler("CC", "cc");
    command.args(["-std=c99", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"]);
    command
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg("-o")
        .arg(&out)
        .args(["-pthread", "-lm"]);
    compile(&mut command, source, "C")?;
    Ok(out)
}

/// Compiles a C++ source of ours against `include/`.
pub(crate) fn cpp(root: &Path, source: &str) -> Result<PathBuf> {
    let out = c_library(root, source)?;
    let mut command = compiler("CXX", "c++");
    command.args([
        "-std=c++17",
        "-O2",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
    ]);
    command
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg("-o")
        .arg(&out)
        .arg("-pthread");
    compile(&mut command, source, "C++")?;
    Ok(out)
}

/// Compiles a C++ source against upstream's headers of the newest listed jaxlib.
pub(crate) fn upstream(root: &Path, source: &str) -> Result<PathBuf> {
    let out = c_library(root, source)?;
    let newest = jaxlibs::listed()?
        .pop()
        .context("jaxlibs.txt lists no version")?;
    let headers = wheel::headers(&newest)?;
    let mut command = compiler("CXX", "c++");
    // Upstream's headers are not written for our warnings.
    command
        .args(["-std=c++17", "-O2", "-w", "-shared", "-fPIC"])
        .arg("-I")
        .arg(headers);
    command
        .arg(root.join(source))
        .arg("-o")
        .arg(&out)
        .arg("-pthread");
    compile(&mut command, source, "C++")?;
    Ok(out)
}

fn c_library(root: &Path, source: &str) -> Result<PathBuf> {
    let folder = c_folder(root);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder.join(format!("lib{}.so", source.replace(['/', '.'], "_"))))
}

fn compiler(variable: &str, default: &str) -> Command {
    Command::new(
        std::env::var_os(variable)
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| default.into()),
    )
}

fn compile(command: &mut Command, source: &str, language: &str) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!(
                "no {language} compiler: {program:?} is not on PATH; install gcc or clang, or name one in CC and CXX"
            )
        }
        Err(error) => Err(error).with_context(|| format!("starting {program}")),
        Ok(output) if !output.status.success() => {
            bail!(
                "{source} does not compile:\n{}",
                String::from_utf8_lossy(&output.stderr)
            )
        }
        Ok(_) => Ok(()),
    }
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let start = std::time::Instant::now();
    let status = command
        .status()
        .with_context(|| format!("starting {what}"))?;
    if !status.success() {
        bail!("{what} failed");
    }
    ui::note(format_args!("{what}: {}", ui::seconds(start.elapsed())));
    Ok(())
}
