//! Wheels as folders: unpacked once, and whole or not there.

use crate::cache::Cache;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// File in an unpacked wheel that says how much it held when it was whole.
const WHOLE: &str = ".whole";

/// Whether a wheel is a whole zip archive. Truncation loses the directory at its end.
pub(crate) fn readable(wheel: &Path) -> bool {
    File::open(wheel).is_ok_and(|file| zip::ZipArchive::new(file).is_ok())
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
