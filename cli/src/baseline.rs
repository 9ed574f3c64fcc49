//! Lists of known findings: allow-lists, in which each line has a reason, and baselines without reasons.

use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xla_ffi_abi::catalogue as abi;
use xla_ffi_doctor::CATALOGUE;

/// The numbers of findings that report an incomplete check. Lists cannot allow these findings.
const NOT_JUDGED: [&str; 5] = ["XF001", "XF002", "XF003", "XF331", "XF332"];

/// Options that name lists of known findings.
#[derive(clap::Args)]
pub(crate) struct Files {
    /// Allow the findings in this file, one per line with a reason: `XF107 libmine.so/library: REASON`
    /// [default: none].
    #[arg(long, value_name = "FILE", help_heading = "Exit status")]
    allow: Option<PathBuf>,
    /// Allow the findings in this file, which --write-baseline wrote; new findings fail [default: none].
    #[arg(long, value_name = "FILE", help_heading = "Exit status")]
    baseline: Option<PathBuf>,
    /// Write the findings that fail to this file, for --baseline, and allow them in this run [default: none].
    #[arg(long, value_name = "FILE", help_heading = "Exit status")]
    #[arg(conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
}

impl Files {
    /// Reads the lists that the options name.
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

    /// Returns true if this run writes a baseline. In such a run, findings do not affect the exit status.
    pub(crate) fn writes(&self) -> bool {
        self.write_baseline.is_some()
    }

    /// Writes a baseline if `--write-baseline` is given.
    pub(crate) fn write(&self, keys: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        let Some(path) = &self.write_baseline else {
            return Ok(());
        };
        let mut text = String::from(
            "# Findings of `xla-ffi` when this file was written. Findings that are not listed here fail.\n",
        );
        for key in keys.into_iter().collect::<BTreeSet<_>>() {
            text.push_str(&key);
            text.push('\n');
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The lists of known findings that the options name.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    allowed: Known,
    baseline: Known,
}

impl Lists {
    /// Returns the reason why a finding is allowed; `None` if no list contains it.
    pub(crate) fn reason(&mut self, id: &str, file: &str, subject: &str) -> Option<String> {
        let allowed = self.allowed.reason(id, file, subject);
        allowed.or_else(|| {
            let known = self.baseline.reason(id, file, subject);
            known.map(|_| "in the baseline".to_owned())
        })
    }

    /// Returns the lines of the lists that match no finding of this run.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &String> {
        self.allowed.unused().chain(self.baseline.unused())
    }
}

/// Returns the key of a finding in lists, such as `XF204 libmine.so/my_op`.
pub(crate) fn key(id: &str, file: &str, subject: &str) -> String {
    format!("{id} {file}/{subject}")
}

/// The contents of a list: one key per line. In allow-lists, a colon and a reason follow the key. In keys, `*` matches
/// any file or subject.
#[derive(Debug, Default)]
struct Known {
    lines: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

impl Known {
    /// Reads a list. If `reasons` is true, every line must have a reason.
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
                    "{shown}, line {}: {id} means that something was not judged, which cannot be allowed; remove the line",
                    at + 1
                );
            }
            let ids = CATALOGUE
                .iter()
                .map(|entry| entry.id)
                .chain(abi::CATALOGUE.iter().map(|rule| rule.id));
            if let Some((id, _)) = parts
                .filter(|(id, _)| id.starts_with("XF") && !ids.clone().any(|known| known == *id))
            {
                crate::refuse(format!(
                    "{shown}, line {}: no finding has the number {id}",
                    at + 1
                ));
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

    /// Returns the reason in the list for a finding; `None` if the list does not contain the finding. In baselines, the
    /// reason is empty.
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
