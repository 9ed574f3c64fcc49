//! Which of a folder's calls are those of the library that is replayed.

use super::plan::Entry;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xla_ffi_record::file;

/// The calls of one library: those that were recorded of this very file, or else of one of its name, since what is replayed
/// may be another build. Where a single library was recorded, its name says nothing.
pub(super) fn calls_of(from: &Path, entries: Vec<Entry>, library: &Path) -> Result<Vec<Entry>> {
    let from = from.display();
    let processes: BTreeSet<u32> = entries.iter().map(|entry| entry.call.process).collect();
    // A file may have been recorded under several names: links.
    let mut recorded: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for entry in &entries {
        let path = Path::new(&entry.call.library);
        recorded.insert(same(path), path.to_owned());
    }
    match (recorded.len(), processes.len()) {
        (0, _) => bail!(
            "{from} holds no recorded call, no file that ends in .{}; each process has a folder",
            file::EXTENSION
        ),
        (_, 2..) => bail!("{from} holds the calls of several processes"),
        (1, 1) => return Ok(entries),
        _ => {}
    }
    let own = same(library);
    let named = |path: &&Path| path.file_name() == library.file_name();
    let named: Vec<&Path> = recorded
        .values()
        .map(PathBuf::as_path)
        .filter(named)
        .collect();
    let chosen = match named.as_slice() {
        _ if recorded.contains_key(&own) => own,
        [one] => same(one),
        _ => bail!(
            "{from} holds calls of several libraries, {} of them called as {}: {recorded:?}; name the one that is meant \
             by its path, or a single file to replay it all the same",
            named.len(),
            library.display(),
            recorded = recorded.values()
        ),
    };
    let of_it = |entry: &Entry| same(Path::new(&entry.call.library)) == chosen;
    Ok(entries.into_iter().filter(of_it).collect())
}

/// The same for all paths of one file; of a file that is not on this machine, its path.
fn same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
