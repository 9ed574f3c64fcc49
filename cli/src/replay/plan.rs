//! Chooses the recorded calls that a replay repeats.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xla_ffi_record::{Call, Recorded, file};

/// The name of a handler and the symbols of its stages. The symbols are needed because a program may record several
/// handlers under one name.
pub(super) type Symbols = (String, BTreeMap<String, String>);

/// A recorded call, and the path of its file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) call: Call,
}

/// A recorded call to repeat. The flag is true if the outcome of the call is reported.
pub(super) type PlannedCall = (Entry, bool);

/// The calls that a replay repeats.
pub(super) struct Plan {
    pub(super) due: Vec<PlannedCall>,
    /// The errors about recordings that cannot be read.
    pub(super) damaged: Vec<anyhow::Error>,
    /// Whether the call in an unreadable file may have changed a state.
    pub(super) incomplete: bool,
    /// The handlers whose prepare or initialize stage is in the recording.
    pub(super) staged: BTreeSet<Symbols>,
}

fn read(path: &Path) -> Result<Recorded> {
    Recorded::read(path).with_context(|| path.display().to_string())
}

/// Returns the recorded calls of a folder in their order, and the errors of files that cannot be read.
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

/// Returns the calls to repeat. If `from` is a single call with state, the earlier calls with the same state are
/// included but not reported.
pub(super) fn chosen(from: &Path, library: &Path) -> Result<Plan> {
    if from.is_dir() {
        let (entries, damaged) = folder(from)?;
        // If no file is readable, the first error is returned instead of an empty plan.
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
                "{}: the call uses the state of call {instance}, whose file is missing or damaged",
                from.display()
            );
        }
    }
    plan.due.push((last, true));
    Ok(plan)
}

/// Returns the handlers whose prepare or initialize stage is in the recording. Other handlers run without these stages,
/// as in XLA on the CPU.
fn staged(entries: &[Entry]) -> BTreeSet<Symbols> {
    let of_stage = |entry: &&Entry| matches!(entry.call.stage.as_str(), "prepare" | "initialize");
    let staged = entries.iter().filter(of_stage);
    staged.map(|entry| symbols(&entry.call)).collect()
}

pub(super) fn symbols(call: &Call) -> Symbols {
    (call.handler.clone(), call.stages.clone())
}

/// Returns the recorded calls of the library `library`. If the recording does not contain this file, returns the calls
/// of a library with the same file name. If the recording contains only one library, returns all calls.
fn calls_of(from: &Path, entries: Vec<Entry>, library: &Path) -> Result<Vec<Entry>> {
    let from = from.display();
    let processes: BTreeSet<u32> = entries.iter().map(|entry| entry.call.process).collect();
    // Paths are resolved, because one file may have several paths through links.
    let mut recorded: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for entry in &entries {
        let path = Path::new(&entry.call.library);
        recorded.insert(canonical_path(path), path.to_owned());
    }
    match (recorded.len(), processes.len()) {
        (0, _) => bail!(
            "{from} holds no recorded call (no .{} file): pass the folder of one process",
            file::EXTENSION
        ),
        (_, 2..) => {
            bail!("{from} holds the calls of several processes: pass the folder of one process")
        }
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
            "{from} holds calls of several libraries, {} with the name of {}: {recorded:?}; pass the path of one of these \
             libraries, or replay a single file",
            named.len(),
            library.display(),
            recorded = recorded.values()
        ),
    };
    let of_it = |entry: &Entry| canonical_path(Path::new(&entry.call.library)) == chosen;
    Ok(entries.into_iter().filter(of_it).collect())
}

/// Returns the path of a file with links resolved. If the file does not exist, returns the path unchanged.
fn canonical_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
