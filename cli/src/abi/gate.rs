//! The findings of `abi check` about one file, and the decision whether these findings fail the run.

use super::Threshold;
use crate::baseline::{self, Lists};
use crate::report_format::{self, Annotation};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use xla_ffi_abi::catalogue::{CATALOGUE, Rule};
use xla_ffi_abi::diff::Change;
use xla_ffi_abi::meaning::Severity;

/// Returns the catalogue entries of all findings of `abi check`.
pub(super) fn rules() -> Vec<report_format::Rule> {
    let rules = CATALOGUE.iter().map(|rule| report_format::Rule {
        id: rule.id,
        name: rule.name.to_owned(),
        meaning: rule.meaning,
        remedy: rule.remedy,
    });
    rules.collect()
}

/// A finding of `abi check` about a file.
#[derive(Clone, Debug)]
pub(super) struct Found {
    rule: &'static Rule,
    /// The subject of the finding as written in allow-lists, such as `XLA_FFI_Buffer.rank`.
    subject: String,
    message: String,
    /// The line of the declaration in the file, if the line is known.
    line: Option<u32>,
    /// Whether the finding fails the run unless a list allows the finding.
    fails: bool,
    /// The level of the finding in formats for CI if the finding does not fail the run.
    level: &'static str,
}

impl Found {
    /// Returns a finding that fails the run at every threshold.
    pub(super) fn failure(rule: &'static Rule, subject: &str, message: &str) -> Self {
        Self {
            rule,
            subject: subject.to_owned(),
            message: message.to_owned(),
            line: None,
            fails: true,
            level: "warning",
        }
    }

    /// Returns the finding for a change between a header and an edition.
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
            line: change.line,
            fails: fail_on.is_reached(std::slice::from_ref(change)),
            level: if worst.severity > Severity::None {
                "warning"
            } else {
                "note"
            },
        }
    }
}

/// The result of checking one file.
pub(super) struct Checked {
    path: PathBuf,
    found: Vec<Found>,
    /// The kind of result in one word, for JSON output.
    pub(super) kind: &'static str,
    /// The report about the file, as text.
    pub(super) text: String,
    /// Notes about the file that are written to standard error.
    pub(super) notes: Vec<String>,
    /// The findings in the form for CI formats, with the reasons why lists allow them.
    pub(super) annotations: Vec<Annotation>,
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
            annotations: Vec::new(),
            value,
        }
    }

    pub(super) fn notes(mut self, notes: Vec<String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Creates the annotations for CI from the findings. If a list allows a finding, adds the list's reason.
    pub(super) fn look_up(&mut self, lists: &mut Lists) {
        let name = self.path.file_name();
        let file = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        for found in &self.found {
            let id = found.rule.id;
            let known = match found.fails && self.is_judged() {
                true => lists.reason(id, &file, &found.subject),
                false => None,
            };
            let annotation = Annotation {
                id,
                level: match found.fails && known.is_none() {
                    true => "error",
                    false => found.level,
                },
                message: found.message.clone(),
                path: self.path.display().to_string(),
                line: found.line,
                key: baseline::key(id, &file, &found.subject),
                known,
            };
            self.notes.extend(
                annotation
                    .known
                    .iter()
                    .map(|reason| format!("allowed: {}: {reason}", annotation.key)),
            );
            self.annotations.push(annotation);
        }
    }

    /// Returns true if the file could be checked. Lists cannot allow the error that a file could not be checked.
    pub(super) fn is_judged(&self) -> bool {
        self.kind == "findings"
    }

    /// Returns true if a finding fails the run and no list allows it.
    pub(super) fn fails(&self) -> bool {
        let pairs = self.found.iter().zip(&self.annotations);
        pairs
            .into_iter()
            .any(|(found, annotation)| found.fails && annotation.known.is_none())
    }

    /// Returns the lines that a baseline contains for this file. The lines are all findings that fail the run,
    /// including findings that a list allows.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        let pairs = self.found.iter().zip(&self.annotations);
        pairs
            .filter(|(found, _)| found.fails && self.is_judged())
            .map(|(_, annotation)| annotation.key.clone())
    }

    /// Returns the result as JSON, including whether the findings fail the run.
    pub(super) fn to_json(&self) -> Value {
        let known = self.annotations.iter().filter_map(|annotation| {
            Some(json!({ "key": annotation.key, "reason": annotation.known.as_ref()? }))
        });
        let failing = self.found.iter().zip(&self.annotations);
        let failing =
            failing.filter(|(found, annotation)| found.fails && annotation.known.is_none());
        let mut value = self.value.clone();
        value["passed"] = (!self.fails()).into();
        value["failing"] = failing
            .map(|(_, annotation)| json!(annotation.key))
            .collect();
        value["known"] = known.collect();
        value
    }
}
