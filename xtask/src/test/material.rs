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
    headers: Option<PathBuf>,
    libclang: Option<PathBuf>,
    pjrt_plugin: Option<PathBuf>,
    /// Its folder, where the machine has none.
    cmake: Option<PathBuf>,
    zig: Option<PathBuf>,
    go: Option<PathBuf>,
    pub(super) venv: Option<Venv>,
    /// One with the oldest listed jaxlib.
    oldest: Option<Venv>,
    /// Packages of type checkers for it.
    checkers: Option<PathBuf>,
    /// Packages that `jax.export` imports.
    for_export: Option<PathBuf>,
}

impl Material {
    /// Fetches what the plain tests need, or `all`. What is in the cache needs no network.
    pub(super) fn fetch(all: bool, log: &mut Log) -> Result<Self> {
        let venv = venv::newest()?;
        log.push_str(&format!("JAX tests use {venv}\n"));
        uv::headers(JAXLIBS.last().context("no jaxlib is listed")?)?;
        let plain = Self {
            headers: Some(cache::root()?.join("include")),
            libclang: Some(uv::libclang()?),
            for_export: optional(
                "packages for jax.export",
                uv::beside(&venv, &uv::FOR_EXPORT, "absl"),
                log,
            ),
            venv: Some(venv),
            ..Self::default()
        };
        let Some(venv) = plain.venv.as_ref().filter(|_| all) else {
            return Ok(plain);
        };
        let before = xla_ffi_abi::declared::Edition::BEFORE_R0.last_jaxlib;
        let witnesses = xla_ffi_abi::declared::witnesses(&JAXLIBS);
        for version in before.into_iter().chain(witnesses) {
            uv::headers(version)?;
        }
        optional("nvcc", cuda::nvcc(), log);
        Ok(Self {
            pjrt_plugin: optional("PJRT plugin", uv::pjrt_plugin(), log),
            cmake: cmake(log),
            zig: optional("zig", uv::zig(), log),
            go: optional("go", uv::go(), log),
            checkers: optional(
                "type checkers",
                uv::beside(venv, &uv::CHECKERS, "mypy"),
                log,
            ),
            oldest: optional("oldest jaxlib", venv::exactly(JAXLIBS[0]), log),
            ..plain
        })
    }

    /// Names what a driver on an older jaxlib needs.
    pub(super) fn for_older(&self, command: &mut Command) {
        if let Some(packages) = &self.for_export {
            command.env("XLA_FFI_EXPORT_PACKAGES", packages);
        }
    }

    /// Names it in a command's environment.
    pub(super) fn name_in(&self, command: &mut Command) {
        if let Some(headers) = &self.headers {
            command.env("XLA_FFI_JAXLIB_HEADERS", headers);
        }
        if let Some(libclang) = &self.libclang {
            command.env("LIBCLANG_PATH", libclang);
        }
        if let Some(plugin) = &self.pjrt_plugin {
            command.env("XLA_FFI_PJRT_PLUGIN", plugin);
        }
        if let Some(venv) = &self.venv {
            command.env("XLA_FFI_PYTHON", &venv.python);
        }
        if let Some(venv) = &self.oldest {
            command.env("XLA_FFI_OLDEST_PYTHON", &venv.python);
        }
        if let Some(zig) = &self.zig {
            command.env("XLA_FFI_ZIG", zig);
        }
        if let Some(go) = &self.go {
            command.env("XLA_FFI_GO", go);
        }
        if let Some(checkers) = &self.checkers {
            command.env("XLA_FFI_TYPE_CHECKERS", checkers);
        }
        self.for_older(command);
        if let Some(cmake) = &self.cmake {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::env::split_paths(&path).chain([cmake.clone()]);
            if let Ok(path) = std::env::join_paths(folders) {
                command.env("PATH", path);
            }
        }
    }
}

/// CMake from the index, where the machine has none.
fn cmake(log: &mut Log) -> Option<PathBuf> {
    let here = Command::new("cmake").arg("--version").output();
    if here.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let program = optional("cmake", uv::cmake(), log)?;
    program.parent().map(PathBuf::from)
}

/// What the index may lack for this machine. The tests that use it are skipped, with a reason.
fn optional<T>(name: &str, found: Result<T>, log: &mut Log) -> Option<T> {
    let missing = |error| log.push_str(&format!("no {name}: {error:#}\n"));
    found.map_err(missing).ok()
}
