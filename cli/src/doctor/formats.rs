//! The doctor's output as JSON, SARIF and GitHub annotations.

use super::gate::{Decision, Item};
use super::{Args, ExaminedLibrary, SCHEMA};
use crate::baseline;
use crate::report_format::{Annotation, Rule};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use xla_ffi_abi::catalogue::UNREADABLE;
use xla_ffi_doctor::{CATALOGUE, Severity};

/// Returns the catalogue entries of all findings of the doctor.
pub(super) fn rules() -> Vec<Rule> {
    let rules = CATALOGUE.iter().map(|entry| Rule {
        id: entry.id,
        name: format!("{:?}", entry.problem),
        meaning: entry.meaning,
        remedy: entry.remedy,
    });
    let unreadable = Rule {
        id: UNREADABLE.id,
        name: UNREADABLE.name.to_owned(),
        meaning: UNREADABLE.meaning,
        remedy: UNREADABLE.remedy,
    };
    rules.chain([unreadable]).collect()
}

/// Returns a finding that reports an error, because SARIF and GitHub annotations contain only findings.
pub(super) fn unreadable(args: &Args, error: &anyhow::Error) -> Annotation {
    let message = crate::output::error_text(error);
    let paths = args
        .libraries
        .iter()
        .chain(&args.wheel)
        .map(|path| path.display().to_string());
    let is_named = |path: &String| message.contains(path.as_str());
    let path = paths
        .clone()
        .find(is_named)
        .or_else(|| paths.clone().next());
    let path = path.unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    Annotation {
        id: UNREADABLE.id,
        level: "error",
        key: baseline::key(UNREADABLE.id, name, "library"),
        message,
        path,
        line: None,
        known: None,
    }
}

/// Returns the findings as annotations for CI, the most severe level first.
pub(super) fn for_ci(items: &[Item], decision: &Decision) -> Vec<Annotation> {
    let annotations = items.iter().map(|item| {
        let is = |other: &Item| other.key() == item.key() && other.finding == item.finding;
        let known = decision.known.iter().find(|(known, _)| is(known));
        Annotation {
            id: item.finding.problem.id(),
            level: level(item, decision.failing.iter().any(is)),
            message: message(item),
            path: item.path.clone(),
            key: item.key(),
            line: None,
            known: known.map(|(_, reason)| reason.clone()),
        }
    });
    let mut annotations: Vec<Annotation> = annotations.collect();
    // The order is by level instead of severity, because a finding about an incomplete check is always a warning.
    annotations.sort_by_key(|one| {
        ["error", "warning", "note"]
            .iter()
            .position(|level| one.level == *level)
    });
    annotations
}

/// Returns the level of a finding for CI. Findings that fail the run are errors.
fn level(item: &Item, fails: bool) -> &'static str {
    if fails {
        "error"
    } else if item.open || item.finding.severity <= Severity::Risk {
        "warning"
    } else {
        "note"
    }
}

fn message(item: &Item) -> String {
    let finding = &item.finding;
    let place = match item.jaxlibs.as_slice() {
        [] => String::new(),
        jaxlibs => format!(" (jaxlib {})", jaxlibs.join(", ")),
    };
    let fix = finding
        .fix
        .as_ref()
        .map_or_else(String::new, |fix| format!(". Fix: {fix}"));
    format!(
        "{}: {}{place}: {}{fix}",
        finding.subject, finding.what, finding.why
    )
}

/// Returns the JSON output of the doctor.
pub(super) fn to_json(judged: &[ExaminedLibrary], decision: &Decision, code: u8) -> Value {
    let libraries: Vec<Value> = judged
        .iter()
        .map(|ExaminedLibrary { path, examination, candidates, verdicts, .. }| {
            json!({
                "library": path.display().to_string(),
                "machine": examination.facts.machine,
                "other_parts": examination.facts.others,
                "soname": examination.facts.soname,
                "needs": examination.facts.needs,
                "glibc": examination.facts.floor("GLIBC_"),
                "libstdcxx": examination.facts.floor("GLIBCXX_"),
                "macos": examination.facts.apple.as_ref().and_then(|apple| apple.oldest.as_ref()),
                "manifests": examination.manifests.iter().map(|manifest| {
                    json!({ "library": manifest.library, "sdk": manifest.sdk })
                }).collect::<Vec<_>>(),
                "compiled_with": examination.compiled_with.iter().map(|r| r.name()).collect::<Vec<_>>(),
                "findings": examination.findings,
                "handlers": candidates.iter().map(|subject| json!({
                    "name": subject.name,
                    "stages": subject.stages.iter().cloned().collect::<BTreeMap<_, _>>(),
                    "floor": subject.floor.map(|floor| floor.name()),
                    "answers": subject.answers,
                })).collect::<Vec<_>>(),
                "jaxlibs": verdicts,
            })
        })
        .collect();
    let keys = |items: &[Item]| -> Vec<Value> {
        let of = |item: &Item| {
            json!({
                "key": item.key(),
                "what": item.finding.what,
                "why": item.finding.why,
                "jaxlibs": item.jaxlibs,
            })
        };
        items.iter().map(of).collect()
    };
    // With `--write-baseline`, the exit status is 0 even if findings would fail other runs.
    let kind = if code == 0 { "ok" } else { decision.kind() };
    json!({
        "schema": SCHEMA,
        "exit": { "code": code, "kind": kind },
        "gate": {
            "failing": keys(&decision.failing),
            "not_judged": keys(&decision.open),
            "known": decision.known.iter().map(|(item, reason)| {
                json!({ "key": item.key(), "reason": reason })
            }).collect::<Vec<_>>(),
        },
        "libraries": libraries,
    })
}
