//! What the tests read that is not in the checkout.

use crate::cache;
use crate::tally::Log;
use crate::venv::{self, Venv};
use crate::{cuda, uv};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;
use xla_ffi_sys::JAXLIBS;

/// What the tests read that is not in the checkout.
#[derive(Debug, Default)]
pub(super) struct Material {
    pub(super) venv: Option<Venv>,
    /// Where it lies, as the tests ask for it.
    variables: Vec<(&'static str, PathBuf)>,
}

/// The packages that `jax.export` imports.
const EXPORT: &str = "XLA_FFI_EXPORT_PACKAGES";

impl Material {
    /// Fetches what the plain tests need, or `all`. What is in the cache needs no network.
    pub(super) fn fetch(all: bool, log: &mut Log) -> Result<Self> {
        let venv = venv::newest()?;
        log.push_str(&format!("JAX tests use {venv}\n"));
        uv::headers(JAXLIBS.last().context("no jaxlib is listed")?)?;
        let mut variables = vec![
            ("XLA_FFI_JAXLIB_HEADERS", cache::root()?.join("include")),
            ("LIBCLANG_PATH", uv::libclang()?),
            ("XLA_FFI_PYTHON", venv.python.clone()),
        ];
        // What the index may lack for this machine. The tests that use it are skipped, with a reason.
        let mut optional = |variable, found: Result<PathBuf>| match found {
            Ok(path) => variables.push((variable, path)),
            Err(error) => log.push_str(&format!("no {variable}: {error:#}\n")),
        };
        optional(EXPORT, uv::beside(&venv, &uv::FOR_EXPORT, "absl"));
        if all {
            let before = xla_ffi_abi::declared::Edition::BEFORE_R0.last_jaxlib;
            let witnesses = xla_ffi_abi::declared::witnesses(&JAXLIBS);
            for version in before.into_iter().chain(witnesses) {
                uv::headers(version)?;
            }
            optional("XLA_FFI_NVCC", cuda::nvcc());
            optional("XLA_FFI_PJRT_PLUGIN", uv::pjrt_plugin());
            optional("XLA_FFI_ZIG", uv::zig());
            optional("XLA_FFI_GO", uv::go());
            let checkers = uv::beside(&venv, &uv::CHECKERS, "mypy");
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

    /// Names what a driver on an older jaxlib needs.
    pub(super) fn for_older(&self, command: &mut Command) {
        command.envs(
            self.variables
                .iter()
                .filter(|(name, _)| *name == EXPORT)
                .cloned(),
        );
    }

    /// Names it in a command's environment.
    pub(super) fn name_in(&self, command: &mut Command) {
        command.envs(self.variables.iter().cloned());
    }
}

/// The search path with CMake from the index, where the machine has none.
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
