//! What the tests read that is not in the checkout.

use crate::cache;
use crate::tally::Log;
use crate::venv::{self, Venv};
use crate::{cuda, jaxlibs, uv};
use anyhow::Result;
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
    /// Packages that make a site of the book.
    pub(super) for_book: Option<PathBuf>,
}

impl Material {
    /// Fetches all of it; what is in the cache needs no network.
    pub(super) fn fetch(latest: bool, log: &mut Log) -> Result<Self> {
        let venv = if latest {
            venv::latest()?
        } else {
            venv::newest()?
        };
        log.line(format_args!("JAX tests use {venv}"));
        // Without it the kernels' tests are skipped, and say so.
        if let Err(error) = cuda::nvcc() {
            log.line(format_args!("no nvcc: {error:#}"));
        }
        let before = xla_ffi_abi::declared::Edition::BEFORE_R0.last_jaxlib;
        for version in before
            .into_iter()
            .chain(xla_ffi_abi::declared::witnesses(&JAXLIBS))
        {
            uv::headers(version)?;
        }
        Ok(Self {
            headers: Some(cache::root()?.join("include")),
            libclang: Some(uv::libclang()?),
            pjrt_plugin: pjrt_plugin(log)?,
            cmake: cmake(log),
            zig: optional("zig", uv::zig(), log),
            go: optional("go", uv::go(), log),
            checkers: optional("type checkers", uv::checkers(&venv), log),
            for_export: optional("packages for jax.export", uv::for_export(&venv), log),
            for_book: optional("mkdocs", uv::for_book(&venv), log),
            venv: Some(venv),
            oldest: oldest(log)?,
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

/// An environment with the oldest listed jaxlib; none where it has no wheel for this machine.
fn oldest(log: &mut Log) -> Result<Option<Venv>> {
    let oldest = jaxlibs::listed().into_iter().next();
    match oldest.map(|version| venv::exactly(&version)) {
        Some(Err(error)) if error.is::<uv::NoWheel>() => {
            log.line(format_args!("{error}"));
            Ok(None)
        }
        venv => venv.transpose(),
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

/// A tool from the index; without it its tests are skipped, and say so.
fn optional(name: &str, found: Result<PathBuf>, log: &mut Log) -> Option<PathBuf> {
    found
        .map_err(|error| log.line(format_args!("no {name}: {error:#}")))
        .ok()
}

/// The PJRT plugin; none where the index has none for this machine, which tests count as skips.
fn pjrt_plugin(log: &mut Log) -> Result<Option<PathBuf>> {
    match uv::pjrt_plugin() {
        Ok(plugin) => Ok(Some(plugin)),
        Err(error) if error.is::<uv::NoWheel>() => {
            log.line(format_args!("{error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
