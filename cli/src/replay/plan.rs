//! Which recorded calls are made again, and what is known of those around them.

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
    pub(super) path: PathBuf,
    pub(super) call: Call,
}

/// A call that is to be made again, and whether its outcome is told.
pub(super) type PlannedCall = (Entry, bool);

/// What is to be replayed.
pub(super) struct Plan {
    pub(super) due: Vec<PlannedCall>,
    /// Why files of the folder cannot be read.
    pub(super) damaged: Vec<anyhow::Error>,
    /// Whether files could not be read that may be of calls which changed a state.
    pub(super) incomplete: bool,
    /// The handlers whose host ran the stages before execute.
    pub(super) staged: BTreeSet<Symbols>,
}

fn read(path: &Path) -> Result<Recorded> {
    Recorded::read(path).with_context(|| path.display().to_string())
}

/// The recorded calls of a folder, in order, and why others cannot be read.
fn folder(path: &Path) -> Result<(Vec<Entry>, Vec<anyhow::Error>)> {
    let (mut entries, mut damaged) = (vec![], vec![]);
    let shown = || path.display().to_string();
    for entry in std::fs::read_dir(path).with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        if path
            .extension()
            .is_some_and(|ending| ending == file::EXTENSION)
        {
            match xla_ffi_record::head(&path).with_context(|| path.display().to_string()) {
                Ok(call) => entries.push(Entry { path, call }),
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
            bail!("{}", crate::output::error_text(error));
        }
        let entries = calls_of(from, entries, library)?;
        return Ok(Plan {
            staged: staged(&entries),
            due: entries.into_iter().map(|entry| (entry, true)).collect(),
            incomplete: !damaged.is_empty(),
            damaged,
        });
    }
    let recorded = read(from)?;
    let last = Entry {
        path: from.to_owned(),
        call: recorded.call,
    };
    let beside = from.parent();
    let beside = beside.filter(|parent| !parent.as_os_str().is_empty());
    let (mut others, damaged) = folder(beside.unwrap_or(Path::new(".")))?;
    others.retain(|entry| entry.call.process == last.call.process);
    let mut plan = Plan {
        due: vec![],
        damaged: vec![],
        incomplete: !damaged.is_empty(),
        staged: staged(&others),
    };
    if let Some(instance) = recorded.state.and_then(|state| state.instance) {
        others.retain(|entry| {
            let (call, last) = (&entry.call, &last.call);
            call.number < last.number
                && call.handler == last.handler
                && call.library == last.library
        });
        for entry in others {
            let number = entry.call.number;
            match read(&entry.path) {
                Err(_) => plan.incomplete = true,
                Ok(recorded) => {
                    let uses = recorded.state.and_then(|state| state.instance);
                    if number == instance || uses == Some(instance) {
                        plan.due.push((entry, false));
                    }
                }
            }
        }
        let is_it = |(entry, _): &PlannedCall| entry.call.number == instance;
        if !plan.due.iter().any(is_it) {
            bail!(
                "{}: the state that it uses was left by call {instance}, whose file is not beside it, or damaged",
                from.display()
            );
        }
    }
    plan.due.push((last, true));
    Ok(plan)
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

/// The calls of one library: those that were recorded of this very file, or else of one of its name, since what is replayed
/// may be another build. Where a single library was recorded, its name says nothing.
fn calls_of(from: &Path, entries: Vec<Entry>, library: &Path) -> Result<Vec<Entry>> {
    let from = from.display();
    let processes: BTreeSet<u32> = entries.iter().map(|entry| entry.call.process).collect();
    // A file may have been recorded under several names: links.
    let mut recorded: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for entry in &entries {
        let path = Path::new(&entry.call.library);
        recorded.insert(canonical_path(path), path.to_owned());
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
    let own = canonical_path(library);
    let named = |path: &&Path| path.file_name() == library.file_name();
    let named: Vec<&Path> = recorded
        .values()
        .map(PathBuf::as_path)
        .filter(named)
        .collect();
    let chosen = match named.as_slice() {
        _ if recorded.contains_key(&own) => own,
        [one] => canonical_path(one),
        _ => bail!(
            "{from} holds calls of several libraries, {} of them called as {}: {recorded:?}; name the one that is meant \
             by its path, or a single file to replay it all the same",
            named.len(),
            library.display(),
            recorded = recorded.values()
        ),
    };
    let of_it = |entry: &Entry| canonical_path(Path::new(&entry.call.library)) == chosen;
    Ok(entries.into_iter().filter(of_it).collect())
}

/// The same for all paths of one file; of a file that is not on this machine, its path.
fn canonical_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
