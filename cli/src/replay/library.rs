//! Which of a folder's calls are those of the library that is replayed.

use super::plan::Entry;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xla_ffi_record::file;

/// The calls of one library: those that were recorded of this very file, or else of one of its name, since what is replayed
/// may be another build. Where a single library was recorded, its name says nothing.
pub(super) fn calls_of(from: &Path, entries: Vec<Entry>, library: &Path) -> Result<Vec<Entry>> {
    let processes: BTreeSet<u32> = entries.iter().map(|entry| entry.call.process).collect();
    // A file may have been recorded under several names: links.
    let mut recorded: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for entry in &entries {
        let path = Path::new(&entry.call.library);
        recorded
            .entry(same(path))
            .or_default()
            .extend(file_name(path));
    }
    match (recorded.len(), processes.len()) {
        (0, _) => bail!(
            "{} holds no recorded call, no file that ends in .{}{}",
            crate::words::shown(from),
            file::EXTENSION,
            folders(from)
        ),
        (_, 2..) => bail!(
            "{} holds the calls of several processes",
            crate::words::shown(from)
        ),
        (1, 1) => return Ok(entries),
        _ => {}
    }
    let own = same(library);
    let wanted = file_name(library);
    let of_name = |(_, names): &(&PathBuf, &BTreeSet<String>)| {
        wanted.as_ref().is_some_and(|name| names.contains(name))
    };
    let named: Vec<&PathBuf> = recorded
        .iter()
        .filter(of_name)
        .map(|(path, _)| path)
        .collect();
    let chosen = match named.as_slice() {
        _ if recorded.contains_key(&own) => &own,
        [one] => one,
        [] => {
            let names: BTreeSet<_> = recorded.into_values().flatten().collect();
            let names: Vec<_> = names.into_iter().collect();
            bail!(
                "{} holds calls of {}, none of {}; name a single file to replay it all the same",
                crate::words::shown(from),
                names.join(", "),
                wanted.unwrap_or_default()
            );
        }
        several => {
            let paths: Vec<_> = several
                .iter()
                .map(|path| crate::words::shown(path))
                .collect();
            bail!(
                "{} holds calls of {} libraries that are called {}: {}; give the path of the one that is meant, or \
                 name a single file",
                crate::words::shown(from),
                several.len(),
                wanted.unwrap_or_default(),
                paths.join(", ")
            );
        }
    };
    let of_it = |entry: &Entry| same(Path::new(&entry.call.library)) == *chosen;
    Ok(entries.into_iter().filter(of_it).collect())
}

fn file_name(path: &Path) -> Option<String> {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
}

/// The same for all paths of one file; of a file that is not on this machine, its path.
fn same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// What folders a folder has, as a hint: a recording by environment variable makes one a process.
fn folders(path: &Path) -> String {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let folders: Vec<_> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    match folders.as_slice() {
        [] => String::new(),
        folders => format!("; its folders are {}", folders.join(", ")),
    }
}
