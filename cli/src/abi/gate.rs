//! What `abi check` found about a file, and whether it stops a release: known findings do not.

use super::Threshold;
use crate::baseline::{self, Lists};
use crate::report_format::{self, Annotation};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use xla_ffi_abi::catalogue::{CATALOGUE, Rule};
use xla_ffi_abi::diff::Change;
use xla_ffi_abi::meaning::Severity;

/// Every number that `abi check` gives.
pub(super) fn rules() -> Vec<report_format::Rule> {
    let rules = CATALOGUE.iter().map(|rule| report_format::Rule {
        id: rule.id,
        name: rule.name.to_owned(),
        meaning: rule.meaning,
        remedy: rule.remedy,
    });
    rules.collect()
}

/// One thing that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    rule: &'static Rule,
    /// What it is about, as lists name it: `XLA_FFI_Buffer.rank`.
    subject: String,
    message: String,
    /// Whether it fails where nobody knows it.
    fails: bool,
    /// What CI calls it where it does not fail.
    level: &'static str,
}

impl Found {
    /// Something that fails whatever the threshold.
    pub(super) fn failure(rule: &'static Rule, subject: &str, message: &str) -> Self {
        Self {
            rule,
            subject: subject.to_owned(),
            message: message.to_owned(),
            fails: true,
            level: "warning",
        }
    }

    /// A change of a header.
    pub(super) fn change(change: &Change, title: &str, edition: &str, fail_on: Threshold) -> Self {
        let effect = &change.effect;
        let worst = match effect.old_on_new.severity >= effect.new_on_old.severity {
            true => &effect.old_on_new,
            false => &effect.new_on_old,
        };
        Self {
            rule: change.class.rule(),
            subject: change.path(),
            message: format!(
                "{title} is not {edition}: {change}: {}: {}",
                worst.severity, worst.why
            ),
            fails: fail_on.is_reached(std::slice::from_ref(change)),
            level: if worst.severity > Severity::None {
                "warning"
            } else {
                "note"
            },
        }
    }
}

/// What became of one file.
pub(super) struct Checked {
    path: PathBuf,
    found: Vec<Found>,
    /// What it is where it fails: one word for programs.
    pub(super) kind: &'static str,
    /// What is said of it.
    pub(super) text: String,
    /// What is told beside it.
    pub(super) notes: Vec<String>,
    /// What CI is told.
    pub(super) told: Vec<Annotation>,
    value: Value,
}

impl Checked {
    pub(super) fn new(path: &Path, found: Vec<Found>, text: String, value: Value) -> Self {
        Self {
            path: path.to_owned(),
            found,
            kind: "findings",
            text,
            notes: Vec::new(),
            told: Vec::new(),
            value,
        }
    }

    pub(super) fn notes(mut self, notes: Vec<String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Looks up what is known.
    pub(super) fn look_up(&mut self, lists: &mut Lists) {
        let name = self.path.file_name();
        let file = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        for found in &self.found {
            let id = found.rule.id;
            let known = match found.fails && self.is_judged() {
                true => lists.reason(id, &file, &found.subject),
                false => None,
            };
            let told = Annotation {
                id,
                level: match found.fails && known.is_none() {
                    true => "error",
                    false => found.level,
                },
                message: found.message.clone(),
                path: self.path.display().to_string(),
                key: baseline::key(id, &file, &found.subject),
                known,
            };
            self.notes.extend(
                told.known
                    .iter()
                    .map(|reason| format!("known: {}: {reason}", told.key)),
            );
            self.told.push(told);
        }
    }

    /// Whether there is an answer: what was not judged cannot be known either.
    pub(super) fn is_judged(&self) -> bool {
        self.kind == "findings"
    }

    /// Whether anything fails that is not known.
    pub(super) fn fails(&self) -> bool {
        let told = self.found.iter().zip(&self.told);
        told.into_iter()
            .any(|(found, told)| found.fails && told.known.is_none())
    }

    /// What fails now, known or not: the lines of a baseline.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        let told = self.found.iter().zip(&self.told);
        told.filter(|(found, _)| found.fails && self.is_judged())
            .map(|(_, told)| told.key.clone())
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Value {
        let known = self
            .told
            .iter()
            .filter_map(|told| Some(json!({ "key": told.key, "reason": told.known.as_ref()? })));
        let failing = self.found.iter().zip(&self.told);
        let failing = failing.filter(|(found, told)| found.fails && told.known.is_none());
        let mut value = self.value.clone();
        value["passed"] = (!self.fails()).into();
        value["failing"] = failing.map(|(_, told)| json!(told.key)).collect();
        value["known"] = known.collect();
        value
    }
}
