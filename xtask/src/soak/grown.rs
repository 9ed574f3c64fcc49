//! What the fuzzer has found of a target, kept in `fuzz/grown` as few inputs: a run on another machine begins with them.

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archive of a target.
fn archive(root: &Path, target: &str) -> PathBuf {
    root.join("fuzz/grown").join(format!("{target}.tar.gz"))
}

/// Puts the inputs of a target's archive, where there is one, into an empty folder.
pub(super) fn unpack(root: &Path, target: &str, corpus: &Path) -> Result<()> {
    let path = archive(root, target);
    let began = std::fs::read_dir(corpus).is_ok_and(|mut inputs| inputs.next().is_some());
    if began || !path.exists() {
        return Ok(());
    }
    let why = || format!("unpacking {}", path.display());
    let file = File::open(&path).with_context(why)?;
    tar::Archive::new(GzDecoder::new(file))
        .unpack(corpus)
        .with_context(why)
}

/// Packs what is in `folder`; the same inputs give the same bytes.
fn pack(root: &Path, target: &str, folder: &Path) -> Result<usize> {
    let mut names = vec![];
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name());
    }
    names.sort();
    let path = archive(root, target);
    std::fs::create_dir_all(path.parent().context("a folder")?)?;
    let file = File::create(&path).with_context(|| format!("writing {}", path.display()))?;
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::best()));
    for name in &names {
        let bytes = std::fs::read(folder.join(name))?;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes.as_slice())?;
    }
    tar.into_inner()?.finish()?.sync_all()?;
    Ok(names.len())
}

/// Keeps of all inputs of a target those that together take each edge. `fuzzer` runs the target; it is given
/// the folders.
pub(super) fn keep(
    root: &Path,
    target: &str,
    mut fuzzer: Command,
    folders: &[PathBuf],
) -> Result<usize> {
    let few = root.join("target/soak").join(target).join("few");
    if few.exists() {
        std::fs::remove_dir_all(&few)?;
    }
    std::fs::create_dir_all(&few)?;
    // How often an edge is taken is no reason to keep an input.
    let merge = ["-set_cover_merge=1", "-use_counters=0"];
    let output = fuzzer.args(merge).arg(&few).args(folders).output();
    let output = output.context("starting the fuzzer")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    pack(root, target, &few)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_once() {
        let root = tempfile::tempdir().unwrap();
        let (few, corpus) = (root.path().join("few"), root.path().join("corpus"));
        for folder in [&few, &corpus] {
            std::fs::create_dir(folder).unwrap();
        }
        unpack(root.path(), "spec", &corpus).unwrap();
        assert_eq!(std::fs::read_dir(&corpus).unwrap().count(), 0);
        for (name, bytes) in [("b", &b"two"[..]), ("a", b"")] {
            std::fs::write(few.join(name), bytes).unwrap();
        }
        assert_eq!(pack(root.path(), "spec", &few).unwrap(), 2);
        let first = std::fs::read(archive(root.path(), "spec")).unwrap();
        pack(root.path(), "spec", &few).unwrap();
        assert_eq!(std::fs::read(archive(root.path(), "spec")).unwrap(), first);
        unpack(root.path(), "spec", &corpus).unwrap();
        assert_eq!(std::fs::read(corpus.join("b")).unwrap(), b"two");
        // A run that has begun goes on with its own.
        std::fs::remove_file(corpus.join("a")).unwrap();
        unpack(root.path(), "spec", &corpus).unwrap();
        assert!(!corpus.join("a").exists());
    }
}
