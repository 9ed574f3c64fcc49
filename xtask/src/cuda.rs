//! nvcc: the machine's own, or NVIDIA's wheels put together in the cache. It compiles; nothing here
//! needs a GPU.

use crate::cache::Cache;
use crate::python;
use crate::wheel::{self, Dependencies};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// What nvcc is made of. One release: PTX of a newer one is refused by older drivers.
const WHEELS: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-runtime==13.0.96",
];

/// The release that the wheels make, and the folder's name in the cache.
const RELEASE: &str = "cuda-13.0.88";

/// nvcc: what `XLA_FFI_NVCC` names, that of `CUDA_HOME`, the first on `PATH`, or the wheels'.
///
/// # Errors
/// The wheels are not available.
pub(crate) fn nvcc() -> Result<PathBuf> {
    match installed() {
        Some(nvcc) => Ok(nvcc),
        None => fetched(),
    }
}

/// The same, unless it would have to be fetched.
pub(crate) fn at_hand() -> Option<PathBuf> {
    installed().or_else(|| {
        let place = place(&Cache::open().ok()?);
        wheel::whole(&place).then(|| program(&place))
    })
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

fn place(cache: &Cache) -> PathBuf {
    cache.path("tools").join(RELEASE)
}

fn program(place: &Path) -> PathBuf {
    place.join("nvidia/cu13/bin/nvcc")
}

/// The folder that `libcudart_static.a` lies in, for an nvcc that does not know it itself.
pub(crate) fn libraries(nvcc: &Path) -> Option<PathBuf> {
    let root = nvcc.parent()?.parent()?;
    ["lib64", "lib"]
        .map(|folder| root.join(folder))
        .into_iter()
        .find(|folder| folder.join("libcudart_static.a").is_file())
}

fn fetched() -> Result<PathBuf> {
    let cache = Cache::open()?;
    let place = place(&cache);
    if wheel::whole(&place) {
        return Ok(program(&place));
    }
    let _lock = cache.lock(RELEASE)?;
    if wheel::whole(&place) {
        return Ok(program(&place));
    }
    let pythons = python::all()?;
    let python = pythons.first().context("no Python")?;
    let scratch = cache.scratch()?;
    let made = scratch.path().join("made");
    for requirement in WHEELS {
        let (name, version) = requirement.split_once("==").unwrap_or((requirement, ""));
        let file = format!("{}-{version}-", name.replace('-', "_"));
        let wheel = match wheel::cached(&cache, |known| known.starts_with(&file))? {
            Some(wheel) => wheel,
            None => {
                let asked = [requirement.to_owned()];
                wheel::fetch(&cache, python, &asked, Dependencies::Without)?
                    .pop()
                    .context("pip fetched nothing")?
            }
        };
        wheel::extract(&cache, &wheel, &made, |name| name.starts_with("nvidia/"))?;
    }
    for folder in ["bin", "nvvm/bin"] {
        make_programs(&made.join("nvidia/cu13").join(folder))?;
    }
    if !program(&made).is_file() {
        bail!("the wheels of nvcc hold no nvidia/cu13/bin/nvcc: {WHEELS:?}");
    }
    wheel::stamp(&cache, &made)?;
    cache.publish(&made, &place)?;
    Ok(program(&place))
}

/// Wheels do not say which files are programs.
fn make_programs(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_file() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}
