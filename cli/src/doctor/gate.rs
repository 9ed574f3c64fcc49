//! The gate: which findings stop a release. Known ones stay quiet: those on the list of what is allowed, each
//! with its reason, and those of the baseline.

use super::Judged;
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use xla_ffi_doctor::{Finding, Level, Loads, Problem, Subject, Weight};

/// From which weight on a finding fails the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Threshold {
    /// What is proved to fail.
    Fails,
    /// Every risk too.
    Risk,
}

/// One thing that the gate looks at: a finding, on all jaxlibs that were asked about or on some.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The library's file name.
    pub(crate) library: String,
    /// The library as it was given.
    pub(crate) path: String,
    pub(crate) finding: Finding,
    /// The jaxlibs on which it holds; empty for all.
    pub(crate) jaxlibs: Vec<String>,
    /// Whether it says that something was not judged.
    pub(crate) open: bool,
}

impl Item {
    /// `XF204 libmine.so/my_op`, by which lists know it.
    pub(crate) fn key(&self) -> String {
        let subject = match &self.finding.subject {
            Subject::Library => "library".to_owned(),
            Subject::Machine => "machine".to_owned(),
            Subject::Handler(name) => name.clone(),
        };
        format!("{} {}/{subject}", self.finding.problem.id(), self.library)
    }

    /// Whether it fails at this threshold.
    fn fails(&self, threshold: Threshold, strict: bool) -> bool {
        if self.open {
            return strict;
        }
        match threshold {
            Threshold::Fails => self.finding.is_proved_failure(),
            Threshold::Risk => self.finding.weight <= Weight::Risk,
        }
    }
}

/// Everything that the gate looks at in one library.
pub(crate) fn items(judged: &Judged, asked: bool) -> Vec<Item> {
    let item = |finding: &Finding, jaxlibs: Vec<String>, open: bool| Item {
        library: judged.name(),
        path: judged.path.display().to_string(),
        finding: finding.clone(),
        jaxlibs,
        open,
    };
    let mut items: Vec<Item> = judged
        .examination
        .findings
        .iter()
        // A verdict says on which jaxlibs.
        .filter(|finding| finding.problem != Problem::Breaks)
        .map(|finding| {
            let nothing_judged =
                finding.problem == Problem::UnknownHandlers && judged.candidates.is_empty();
            item(
                finding,
                Vec::new(),
                finding.problem == Problem::NotRun || nothing_judged,
            )
        })
        .collect();
    let broken = judged
        .examination
        .findings
        .iter()
        .any(|finding| finding.is_proved_failure() && finding.problem != Problem::Breaks);
    let mut told: Vec<(Finding, Vec<String>, bool)> = Vec::new();
    let mut tell = |finding: Finding, jaxlib: &str, open: bool| match told
        .iter_mut()
        .find(|(known, ..)| *known == finding)
    {
        Some((_, jaxlibs, _)) => jaxlibs.push(jaxlib.to_owned()),
        None => told.push((finding, vec![jaxlib.to_owned()], open)),
    };
    for verdict in &judged.verdicts {
        let about = |level, weight, problem, what: &str| {
            Finding::new(level, weight, problem, what, verdict.why.clone())
                .about_handler(&verdict.handler)
        };
        match verdict.loads {
            Loads::Yes if verdict.level == Level::Proved => {}
            // What is wrong with the library as a whole has been said once.
            Loads::No if broken => {}
            Loads::No if verdict.declared && !asked => {}
            Loads::No => {
                let (level, weight) = match verdict.level {
                    Level::Proved => (Level::Proved, Weight::Fails),
                    level => (level, Weight::Risk),
                };
                tell(
                    about(level, weight, Problem::Refused, "it does not work"),
                    &verdict.jaxlib,
                    false,
                );
            }
            Loads::Yes | Loads::Unknown => {
                let finding = about(
                    Level::Unknown,
                    Weight::Note,
                    Problem::NotKnown,
                    "it was not proved that it loads",
                );
                tell(finding, &verdict.jaxlib, true);
            }
        }
        for risk in &verdict.risks {
            tell(risk.clone(), &verdict.jaxlib, false);
        }
    }
    items.extend(
        told.iter()
            .map(|(finding, jaxlibs, open)| item(finding, jaxlibs.clone(), *open)),
    );
    items
}

/// A list of keys: `XF204 libmine.so/my_op`, one a line, with a reason behind a colon where it is wanted.
/// `*` stands for any name.
#[derive(Debug, Default)]
pub(crate) struct Known {
    lines: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

impl Known {
    /// Reads a list; `reasons` says that every line needs one.
    pub(crate) fn read(path: &Path, reasons: bool) -> anyhow::Result<Self> {
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
            let is_key = key
                .split_once(' ')
                .is_some_and(|(id, subject)| id.starts_with("XF") && subject.contains('/'));
            if !is_key || (reasons && reason.is_empty()) {
                bail!(
                    "{shown}, line {}: expected `XF204 LIBRARY/HANDLER{}`, got {line:?}",
                    at + 1,
                    if reasons { ": REASON" } else { "" }
                );
            }
            known.lines.insert(key.to_owned(), reason.to_owned());
        }
        Ok(known)
    }

    /// The reason where the item is on the list.
    fn reason(&mut self, item: &Item) -> Option<String> {
        let key = item.key();
        let id = item.finding.problem.id();
        let subject = key
            .split_once('/')
            .map_or("", |(_, subject)| subject)
            .to_owned();
        let any_library = format!("{id} */{subject}");
        let any_subject = format!("{id} {}/*", item.library);
        for wanted in [key, any_library, any_subject, format!("{id} */*")] {
            if let Some(reason) = self.lines.get(&wanted) {
                self.used.insert(wanted);
                return Some(reason.clone());
            }
        }
        None
    }

    /// Lines that nothing needed: what they allowed is mended.
    pub(crate) fn unused(&self) -> Vec<&String> {
        self.lines
            .keys()
            .filter(|key| !self.used.contains(*key))
            .collect()
    }
}

/// What the gate says.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// What fails.
    pub(crate) failing: Vec<Item>,
    /// What would fail and is known: with the reason that the list gives.
    pub(crate) known: Vec<(Item, String)>,
    /// What was not judged and does not fail, since nobody said `--strict`.
    pub(crate) open: Vec<Item>,
}

impl Decision {
    pub(crate) fn of(
        items: &[Item],
        threshold: Threshold,
        strict: bool,
        allowed: &mut Known,
        baseline: &mut Known,
    ) -> Self {
        let mut decision = Self::default();
        for item in items {
            if !item.fails(threshold, strict) {
                if item.open {
                    decision.open.push(item.clone());
                }
            } else if let Some(reason) = allowed.reason(item) {
                decision.known.push((item.clone(), reason));
            } else if baseline.reason(item).is_some() {
                decision
                    .known
                    .push((item.clone(), "in the baseline".to_owned()));
            } else {
                decision.failing.push(item.clone());
            }
        }
        decision
    }

    /// Why the exit status is what it is: one word for programs.
    pub(crate) fn kind(&self) -> &'static str {
        match self.failing.as_slice() {
            [] => "ok",
            items if items.iter().all(|item| item.open) => "not-judged",
            _ => "findings",
        }
    }
}

/// The text of a baseline with everything that fails now.
pub(crate) fn baseline(decision: &Decision) -> String {
    let mut text = String::from(
        "# What `xla-ffi doctor` found when this file was written; what is new fails.\n",
    );
    let known = decision.known.iter().map(|(item, _)| item);
    let keys: BTreeSet<String> = decision
        .failing
        .iter()
        .chain(known)
        .map(Item::key)
        .collect();
    for key in keys {
        text.push_str(&key);
        text.push('\n');
    }
    text
}
