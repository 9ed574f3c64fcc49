//! nvcc: the machine's own, or NVIDIA's wheels. It compiles; nothing here needs a GPU.

use crate::uv;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// nvcc: what `XLA_FFI_NVCC` names, that of `CUDA_HOME`, the first on `PATH`, or that of the wheels.
///
/// # Errors
/// The wheels are not available.
pub(crate) fn nvcc() -> Result<PathBuf> {
    match installed() {
        Some(nvcc) => Ok(nvcc),
        None => uv::nvcc(true)?.context("no nvcc"),
    }
}

/// The same, unless it would have to be fetched.
pub(crate) fn at_hand() -> Option<PathBuf> {
    installed().or_else(|| uv::nvcc(false).ok()?)
}

fn installed() -> Option<PathBuf> {
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

/// The folder of `libcudart_static.a`, for an nvcc that does not know it itself.
pub(crate) fn libraries(nvcc: &Path) -> Option<PathBuf> {
    let root = nvcc.parent()?.parent()?;
    ["lib64", "lib"]
        .map(|folder| root.join(folder))
        .into_iter()
        .find(|folder| folder.join("libcudart_static.a").is_file())
}
