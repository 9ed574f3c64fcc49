//! The doctor's report as text. Findings that differ only in their handlers or jaxlibs are combined.

use super::ExaminedLibrary;
use std::fmt::Write;
use xla_ffi_doctor::{Finding, Loads, Severity, Subject};

/// Returns the report about one library.
pub(super) fn report(judged: &ExaminedLibrary) -> String {
    let ExaminedLibrary {
        path,
        wheel,
        examination,
        candidates,
        verdicts,
        ..
    } = judged;
    let mut text = format!("{}\n", path.display());
    for manifest in &examination.manifests {
        let count = manifest.handlers.len();
        let plural = if count == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "  library {} made with xla-ffi {}, {count} handler{plural}",
            manifest.library, manifest.sdk,
        );
    }
    text.push_str("\nfindings\n");
    let mut findings = examination.findings.clone();
    // The wheel's report contains the failures and risks of the wheel's libraries, so this report omits them.
    if wheel.is_some() {
        findings.retain(|finding| finding.severity == Severity::Note);
    }
    // Findings that differ only in their handlers are written once.
    for same in grouped(&findings, are_alike) {
        let subjects: Vec<&Subject> = same.iter().map(|finding| &finding.subject).collect();
        write_about(&mut text, same[0], &subjects);
    }
    if candidates.is_empty() {
        text.push_str("\nno handlers found\n");
        return text;
    }
    text.push_str("\njaxlib     revision  handler: verdict\n");
    let lines = grouped(verdicts, |one, other| {
        one.jaxlib == other.jaxlib
            && one.loads == other.loads
            && one.confidence == other.confidence
            && same_words(&one.why, &one.handler, &other.why, &other.handler)
            && one.risks.is_empty() == other.risks.is_empty()
    });
    for line in &lines {
        let verdict = line[0];
        let loads = match verdict.loads {
            Loads::Yes if verdict.risks.is_empty() => "loads",
            Loads::Yes => "loads, with risks",
            Loads::No => "does not work",
            Loads::Unknown => "unknown",
        };
        let handlers: Vec<&str> = line.iter().map(|v| v.handler.as_str()).collect();
        let handlers = match handlers.as_slice() {
            all if all.len() == candidates.len() && all.len() > 2 => {
                format!("all {} handlers", all.len())
            }
            some => list(some),
        };
        let _ = writeln!(
            text,
            "{:<10} {:<9} {handlers}: {loads} ({}: {})",
            verdict.jaxlib,
            verdict.revision,
            verdict.confidence,
            without_name(&verdict.why, &verdict.handler)
        );
    }
    let reported = verdicts.iter().flat_map(|verdict| {
        let risks = verdict.risks.iter();
        risks.map(|risk| (risk, verdict.jaxlib.as_str()))
    });
    let reported: Vec<(&Finding, &str)> = reported.collect();
    // First combines the jaxlibs with the same risk, then the handlers with the same risk on the same jaxlibs.
    let risks: Vec<(&Finding, Vec<&str>)> = grouped(&reported, |one, other| one.0 == other.0)
        .into_iter()
        .map(|same| (same[0].0, same.iter().map(|(_, jaxlib)| *jaxlib).collect()))
        .collect();
    if !risks.is_empty() {
        text.push_str("\nrisks\n");
    }
    for same in grouped(&risks, |one, other| {
        one.1 == other.1 && are_alike(one.0, other.0)
    }) {
        let subjects: Vec<&Subject> = same.iter().map(|(risk, _)| &risk.subject).collect();
        write_about(&mut text, same[0].0, &subjects);
        let _ = writeln!(text, "      on jaxlib {}", same[0].1.join(", "));
    }
    text
}

/// Groups items for which `same` returns true. The groups are in the order of their first items.
pub(super) fn grouped<T>(all: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = vec![];
    for one in all {
        match groups.iter_mut().find(|group| same(group[0], one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Returns true if two findings differ only in the handler that they report.
pub(super) fn are_alike(one: &Finding, other: &Finding) -> bool {
    let name = |finding: &Finding| match &finding.subject {
        Subject::Handler(name) => Some(name.clone()),
        _ => None,
    };
    let (Some(name), Some(others)) = (name(one), name(other)) else {
        return one == other;
    };
    (one.confidence, one.severity, one.problem, &one.fix)
        == (other.confidence, other.severity, other.problem, &other.fix)
        && same_words(&one.what, &name, &other.what, &others)
        && same_words(&one.why, &name, &other.why, &others)
}

/// Returns true if two texts are equal apart from the names of their handlers, `name` and `others`.
fn same_words(one: &str, name: &str, other: &str, others: &str) -> bool {
    let plain =
        |text: &str, name: &str| without_name(text, name).replace(&format!("'{name}'"), "''");
    plain(one, name) == plain(other, others)
}

/// Removes the handler's name from phrases such as "the handler 'name'". A symbol that has the handler's name is not
/// removed.
pub(super) fn without_name(text: &str, handler: &str) -> String {
    let quoted = format!("'{handler}'");
    text.replace(&format!("the handler {quoted}"), "the handler")
        .replace(&format!("handler {quoted}"), "the handler")
        .replace(&format!("metadata of {quoted}"), "its metadata")
}

/// Returns the names as text. A long list is shortened, and ends with the number of all names.
pub(super) fn list(names: &[&str]) -> String {
    if names.len() > 6 {
        format!("{}, … ({} in all)", names[..4].join(", "), names.len())
    } else {
        names.join(", ")
    }
}

fn write_about(text: &mut String, finding: &Finding, subjects: &[&Subject]) {
    let about: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    let about: Vec<&str> = about.iter().map(String::as_str).collect();
    write_finding(text, "", finding, &about);
}

/// Writes one finding about the subjects in `about`, with its reason and remedy.
pub(super) fn write_finding(text: &mut String, mark: &str, finding: &Finding, about: &[&str]) {
    let words = |words: &str| match &finding.subject {
        Subject::Handler(name) => without_name(words, name),
        _ => words.to_owned(),
    };
    let _ = writeln!(
        text,
        "  {mark}{} {} {}: {}: {}\n      why: {}",
        finding.problem.id(),
        finding.confidence,
        finding.severity,
        list(about),
        words(&finding.what),
        words(&finding.why).replace('\n', "\n           ")
    );
    if let Some(fix) = &finding.fix {
        let _ = writeln!(text, "      fix: {fix}");
    }
}
