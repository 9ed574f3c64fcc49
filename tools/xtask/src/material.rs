//! External files that the tests use, and `cargo xtask fetch`, which downloads them to the cache.

use crate::tally::Log;
use crate::venv::{self, Venv};
use crate::{folders, uv};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;
use xla_ffi_sys::JAXLIBS;

/// The external files that the tests use, after they were downloaded.
#[derive(Debug, Default)]
pub(crate) struct Material {
    pub(crate) venv: Option<Venv>,
    /// Environment variables whose values are the paths of the files.
    variables: Vec<(&'static str, PathBuf)>,
}

/// The environment variable with the folder of the packages that `jax.export` imports.
const EXPORT: &str = "XLA_FFI_EXPORT_PACKAGES";

impl Material {
    /// Downloads the files for the plain tests, or for all tests. Files in the cache require no network access.
    pub(crate) fn fetch(all: bool, log: &mut Log) -> Result<Self> {
        let venv = venv::newest()?;
        log.push_str(&format!("JAX tests use {venv}\n"));
        uv::headers(JAXLIBS.last().context("no jaxlib is listed")?)?;
        let mut variables = vec![
            ("XLA_FFI_JAXLIB_HEADERS", folders::cache()?.join("include")),
            ("LIBCLANG_PATH", uv::libclang()?),
            ("XLA_FFI_PYTHON", venv.python.clone()),
        ];
        // The package index may lack packages for this machine. Tests that use these packages are skipped with a
        // reason.
        let mut optional = |variable, found: Result<PathBuf>| match found {
            Ok(path) => variables.push((variable, path)),
            Err(error) => log.push_str(&format!("no {variable}: {error:#}\n")),
        };
        optional(EXPORT, venv.packages(&uv::FOR_EXPORT, "absl"));
        if all {
            let before = xla_ffi_abi::declared::Edition::BEFORE_R0.last_jaxlib;
            let witnesses = xla_ffi_abi::declared::witnesses(&JAXLIBS);
            for version in before.into_iter().chain(witnesses) {
                uv::headers(version)?;
            }
            optional("XLA_FFI_NVCC", uv::nvcc());
            optional("XLA_FFI_PJRT_PLUGIN", uv::pjrt_plugin());
            optional("XLA_FFI_ZIG", uv::zig());
            optional("XLA_FFI_GO", uv::go());
            let checkers = venv.packages(&uv::CHECKERS, "mypy");
            optional("XLA_FFI_TYPE_CHECKERS", checkers);
            let oldest = venv::exactly(JAXLIBS[0]);
            optional("XLA_FFI_OLDEST_PYTHON", oldest.map(|venv| venv.python));
            if let Some(path) = with_cmake() {
                optional("PATH", path);
            }
        }
        Ok(Self {
            venv: Some(venv),
            variables,
        })
    }

    /// Sets the environment variables for a driver that runs on an older jaxlib.
    pub(crate) fn for_older(&self, command: &mut Command) {
        command.envs(
            self.variables
                .iter()
                .filter(|(name, _)| *name == EXPORT)
                .cloned(),
        );
    }

    /// Sets the environment variables of all files for a command.
    pub(crate) fn name_in(&self, command: &mut Command) {
        command.envs(self.variables.iter().cloned());
    }
}

/// Returns the value of PATH with CMake from the package index; `None` if this machine has CMake.
fn with_cmake() -> Option<Result<PathBuf>> {
    let here = Command::new("cmake").arg("--version").output();
    if here.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    Some(uv::cmake().and_then(|program| {
        let folder = program.parent().map(PathBuf::from);
        let folders = std::env::split_paths(&path).chain(folder);
        Ok(std::env::join_paths(folders)?.into())
    }))
}

/// Command line of `fetch`.
#[derive(clap::Args)]
pub(crate) struct FetchArgs {
    /// Headers of these jaxlibs; `all` for the whole list.
    #[arg(long, value_name = "X.Y.Z")]
    headers: Vec<String>,
    /// Environments with these jaxlibs; `all` for the whole list, `newest` for the one that tests use.
    #[arg(long, value_name = "X.Y.Z")]
    venv: Vec<String>,
    /// libclang.
    #[arg(long)]
    libclang: bool,
    /// The PJRT plugin that tests run.
    #[arg(long)]
    pjrt: bool,
    /// nvcc, which compiles the GPU examples without a GPU.
    #[arg(long)]
    nvcc: bool,
}

/// Downloads headers, tools and Python environments to the cache, and prints the paths (`cargo xtask fetch`).
pub(crate) fn fetch(args: &FetchArgs) -> Result<()> {
    println!("cache: {}", folders::cache()?.display());
    for version in venv::expand(&args.headers)? {
        println!("headers {version}: {}", uv::headers(&version)?.display());
    }
    if args.libclang {
        println!("libclang: {}", uv::libclang()?.display());
    }
    if args.pjrt {
        println!("PJRT plugin: {}", uv::pjrt_plugin()?.display());
    }
    if args.nvcc {
        println!("nvcc: {}", uv::nvcc()?.display());
    }
    for version in venv::expand(&args.venv)? {
        let venv = match version.as_str() {
            "newest" => venv::newest()?,
            version => venv::exactly(version)?,
        };
        println!("{venv}: {}", venv.python.display());
    }
    Ok(())
}
