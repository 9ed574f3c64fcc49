//! Findings that are known: lists of what is allowed, each line with its reason, and baselines.

use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Numbers that say that something was not judged: a list that names one would make green what nobody looked at.
const NOT_JUDGED: [&str; 5] = ["XF001", "XF002", "XF003", "XF331", "XF332"];

/// Where the lists stand.
#[derive(clap::Args)]
pub(crate) struct Files {
    /// A file of findings that are allowed, each with its reason: `XF107 libmine.so/library: why`.
    #[arg(long, value_name = "FILE")]
    allow: Option<PathBuf>,
    /// A file of findings that were there before: what is not in it fails.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write what fails now to this file, for --baseline, and succeed.
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
}

impl Files {
    /// Reads them.
    pub(crate) fn read(&self) -> anyhow::Result<Lists> {
        let read = |path: &Option<PathBuf>, reasons: bool| {
            let path = path.as_deref();
            path.map_or_else(|| Ok(Known::default()), |path| Known::read(path, reasons))
        };
        Ok(Lists {
            allowed: read(&self.allow, true)?,
            baseline: read(&self.baseline, false)?,
        })
    }

    /// Whether a baseline is to be written: nothing fails then.
    pub(crate) fn writes(&self) -> bool {
        self.write_baseline.is_some()
    }

    /// Writes a baseline where one is wanted.
    pub(crate) fn write(&self, keys: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        let Some(path) = &self.write_baseline else {
            return Ok(());
        };
        let mut text =
            String::from("# What `xla-ffi` found when this file was written; what is new fails.\n");
        for key in keys.into_iter().collect::<BTreeSet<_>>() {
            text.push_str(&key);
            text.push('\n');
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    allowed: Known,
    baseline: Known,
}

impl Lists {
    /// Why a finding is known, if it is.
    pub(crate) fn reason(&mut self, id: &str, file: &str, subject: &str) -> Option<String> {
        let allowed = self.allowed.reason(id, file, subject);
        allowed.or_else(|| {
            let known = self.baseline.reason(id, file, subject);
            known.map(|_| "in the baseline".to_owned())
        })
    }

    /// Lines that nothing needed: what they allowed is mended.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &String> {
        self.allowed.unused().chain(self.baseline.unused())
    }
}

/// The line by which lists know a finding: `XF204 libmine.so/my_op`.
pub(crate) fn key(id: &str, file: &str, subject: &str) -> String {
    format!("{id} {file}/{subject}")
}

/// A list of keys, one a line, with a reason behind a colon where it is wanted. `*` stands for any name.
#[derive(Debug, Default)]
struct Known {
    lines: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

impl Known {
    /// Reads a list; `reasons` says that every line needs one.
    fn read(path: &Path, reasons: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let mut known = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, reason) = match line.split_once(": ") {
                Some((key, reason)) => (key.trim(), reason.trim()),
                None => (line, ""),
            };
            let parts = key.split_once(' ');
            if let Some((id, _)) = parts.filter(|(id, _)| NOT_JUDGED.contains(id)) {
                bail!(
                    "{shown}, line {}: {id} says that something was not judged, and no list excuses that: judge it, or \
                     ask about less (--jaxlib)",
                    at + 1
                );
            }
            let is_key =
                parts.is_some_and(|(id, subject)| id.starts_with("XF") && subject.contains('/'));
            if !is_key || (reasons && reason.is_empty()) {
                bail!(
                    "{shown}, line {}: expected `XF204 FILE/SUBJECT{}`, got {line:?}",
                    at + 1,
                    if reasons { ": REASON" } else { "" }
                );
            }
            known.lines.insert(key.to_owned(), reason.to_owned());
        }
        Ok(known)
    }

    /// The reason where the finding is on the list.
    fn reason(&mut self, id: &str, file: &str, subject: &str) -> Option<String> {
        for (file, subject) in [(file, subject), ("*", subject), (file, "*"), ("*", "*")] {
            let wanted = format!("{id} {file}/{subject}");
            if let Some(reason) = self.lines.get(&wanted) {
                self.used.insert(wanted);
                return Some(reason.clone());
            }
        }
        None
    }

    fn unused(&self) -> impl Iterator<Item = &String> {
        self.lines.keys().filter(|key| !self.used.contains(*key))
    }
}
