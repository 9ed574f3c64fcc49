//! Which recorded calls are made again, and what is known of those around them.

use super::library;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xla_ffi_record::{Call, Recorded, file};

/// A handler's name and the symbols of its stages: of several handlers that a program recorded under one name each has
/// its own.
pub(super) type Symbols = (String, BTreeMap<String, String>);

/// A recorded call's file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// As it is told.
    pub(super) path: PathBuf,
    /// The same from every folder: handlers go to others.
    pub(super) file: PathBuf,
    pub(super) call: Call,
}

impl Entry {
    fn new(path: PathBuf, call: Call) -> Result<Self> {
        let file = std::path::absolute(&path).with_context(|| crate::words::shown(&path))?;
        Ok(Self { path, file, call })
    }
}

/// A call that is to be made again, and whether its outcome is told.
pub(super) type Due = (Entry, bool);

/// What is to be replayed.
pub(super) struct Plan {
    pub(super) due: Vec<Due>,
    /// Why files of the folder cannot be read.
    pub(super) damaged: Vec<anyhow::Error>,
    /// The numbers of the calls whose files are there.
    pub(super) present: BTreeSet<u64>,
    /// The handlers whose host ran the stages before execute.
    pub(super) staged: BTreeSet<Symbols>,
}

fn read(path: &Path) -> Result<Recorded> {
    Recorded::read(path).with_context(|| crate::words::shown(path))
}

/// The recorded calls of a folder, in order, and why others cannot be read.
fn folder(path: &Path) -> Result<(Vec<Entry>, Vec<anyhow::Error>)> {
    let (mut entries, mut damaged) = (vec![], vec![]);
    let shown = || crate::words::shown(path);
    for entry in std::fs::read_dir(path).with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        if path
            .extension()
            .is_some_and(|ending| ending == file::EXTENSION)
        {
            match xla_ffi_record::head(&path).with_context(|| crate::words::shown(&path)) {
                Ok(call) => entries.push(Entry::new(path, call)?),
                Err(error) => damaged.push(error),
            }
        }
    }
    entries.sort_by_key(|entry| (entry.call.process, entry.call.number));
    damaged.sort_by_key(ToString::to_string);
    Ok((entries, damaged))
}

/// What is to be replayed, and of which calls the outcome is told: a single call needs those before it that
/// changed its state.
pub(super) fn chosen(from: &Path, library: &Path) -> Result<Plan> {
    if from.is_dir() {
        let (entries, damaged) = folder(from)?;
        // Where none can be read, that is what to say.
        if let (true, [error, ..]) = (entries.is_empty(), damaged.as_slice()) {
            bail!("{}", crate::words::error_text(error));
        }
        let present = numbers(&entries);
        let entries = library::calls_of(from, entries, library)?;
        return Ok(Plan {
            staged: staged(&entries),
            due: entries.into_iter().map(|entry| (entry, true)).collect(),
            damaged,
            present,
        });
    }
    let recorded = read(from)?;
    let last = Entry::new(from.to_owned(), recorded.call.clone())?;
    let Some(instance) = recorded.state.and_then(|state| state.instance) else {
        return Ok(Plan {
            present: BTreeSet::from([last.call.number]),
            staged: beside(from, &last)
                .map(|others| staged(&others))
                .unwrap_or_default(),
            due: vec![(last, true)],
            damaged: vec![],
        });
    };
    let mut entries = vec![];
    let others = beside(from, &last)?;
    let mut present = numbers(&others);
    let staged = staged(&others);
    for entry in others {
        let call = &entry.call;
        if call.number >= last.call.number
            || call.handler != last.call.handler
            || call.library != last.call.library
        {
            continue;
        }
        let Ok(recorded) = read(&entry.path) else {
            present.remove(&call.number);
            continue;
        };
        let uses = recorded.state.and_then(|state| state.instance);
        if call.number == instance || uses == Some(instance) {
            entries.push((entry, false));
        }
    }
    if !entries
        .iter()
        .any(|(entry, _)| entry.call.number == instance)
    {
        bail!(
            "{}: the state that it uses was left by call {instance}, whose file is not beside it, or damaged",
            crate::words::shown(from)
        );
    }
    entries.push((last, true));
    Ok(Plan {
        due: entries,
        damaged: vec![],
        present,
        staged,
    })
}

/// The calls of a call's process whose files are beside its own. Those that cannot be read are none of this call's, or
/// what it needs is found to be missing.
fn beside(from: &Path, last: &Entry) -> Result<Vec<Entry>> {
    let beside = from
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let (mut others, _) = folder(beside.unwrap_or(Path::new(".")))?;
    others.retain(|entry| entry.call.process == last.call.process);
    Ok(others)
}

/// The handlers of which a stage before execute is recorded: their host runs those, as XLA does not on CPU.
fn staged(entries: &[Entry]) -> BTreeSet<Symbols> {
    let of_stage = |entry: &&Entry| matches!(entry.call.stage.as_str(), "prepare" | "initialize");
    let staged = entries.iter().filter(of_stage);
    staged.map(|entry| symbols(&entry.call)).collect()
}

pub(super) fn symbols(call: &Call) -> Symbols {
    (call.handler.clone(), call.stages.clone())
}

fn numbers<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> BTreeSet<u64> {
    entries.into_iter().map(|entry| entry.call.number).collect()
}
