//! The findings in the forms that CI reads: SARIF, and GitHub's annotations.

use super::gate::{Decision, Item};
use serde_json::{Value, json};
use xla_ffi_doctor::{CATALOGUE, Weight};

/// The level of a finding in SARIF and on GitHub: what fails is an error whatever its weight.
fn level(item: &Item, decision: &Decision) -> &'static str {
    let is = |other: &Item| other.key() == item.key() && other.finding == item.finding;
    if decision.failing.iter().any(is) {
        "error"
    } else if item.open || item.finding.weight <= Weight::Risk {
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
        .map_or_else(String::new, |fix| format!(". To do: {fix}"));
    format!(
        "{}: {}{place}: {}{fix}",
        finding.subject, finding.what, finding.why
    )
}

/// SARIF 2.1.0: one run, every finding a result, known ones suppressed with their reason.
pub(super) fn sarif(items: &[Item], decision: &Decision) -> Value {
    let rules: Vec<Value> = CATALOGUE
        .iter()
        .map(|entry| {
            json!({
                "id": entry.id,
                "name": format!("{:?}", entry.problem),
                "shortDescription": { "text": entry.meaning },
                "help": { "text": entry.remedy },
            })
        })
        .collect();
    let results: Vec<Value> = items
        .iter()
        .map(|item| {
            let reason = decision
                .known
                .iter()
                .find(|(known, _)| known.key() == item.key() && known.finding == item.finding);
            let mut result = json!({
                "ruleId": item.finding.problem.id(),
                "level": level(item, decision),
                "message": { "text": message(item) },
                "locations": [{
                    "physicalLocation": { "artifactLocation": { "uri": item.path } },
                }],
                "partialFingerprints": { "key/v1": item.key() },
            });
            if let Some((_, reason)) = reason {
                result["suppressions"] = json!([{ "kind": "external", "justification": reason }]);
            }
            result
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "xla-ffi doctor",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "results": results,
        }],
    })
}

/// Workflow commands: one line a finding, notes left away.
pub(super) fn github(items: &[Item], decision: &Decision) -> String {
    // What the commands take for their own.
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let mut text = String::new();
    for item in items {
        let level = level(item, decision);
        let is_known = decision
            .known
            .iter()
            .any(|(known, _)| known.key() == item.key());
        if level == "note" || is_known {
            continue;
        }
        text.push_str(&format!(
            "::{level} file={},title={}::{}\n",
            property(&item.path),
            property(item.finding.problem.id()),
            data(&message(item))
        ));
    }
    text
}
