//! The answer for programs.

use super::gate::{Decision, Item};
use super::{Judged, SCHEMA};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The answer for programs.
pub(super) fn to_json(judged: &[Judged], decision: &Decision, code: u8) -> Value {
    let libraries: Vec<Value> = judged
        .iter()
        .map(|Judged { path, examination, candidates, verdicts, .. }| {
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
    // A baseline takes what fails, and the answer is the exit status's.
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
