//! The doctor's findings as CI is told of them.

use super::Args;
use super::gate::{Decision, Item};
use crate::baseline;
use crate::report_format::{Rule, Told};
use xla_ffi_abi::catalogue::UNREADABLE;
use xla_ffi_doctor::{CATALOGUE, Weight};

/// Every number that the doctor gives.
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

/// An error that ended it all: SARIF and annotations have no place for one but a finding.
pub(super) fn unreadable(args: &Args, error: &anyhow::Error) -> Told {
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
    Told {
        id: UNREADABLE.id,
        level: "error",
        key: baseline::key(UNREADABLE.id, name, "library"),
        message,
        path,
        known: None,
    }
}

/// What CI is told.
pub(super) fn told(items: &[Item], decision: &Decision) -> Vec<Told> {
    let told = items.iter().map(|item| {
        let is = |other: &Item| other.key() == item.key() && other.finding == item.finding;
        let known = decision.known.iter().find(|(known, _)| is(known));
        Told {
            id: item.finding.problem.id(),
            level: level(item, decision.failing.iter().any(is)),
            message: message(item),
            path: item.path.clone(),
            key: item.key(),
            known: known.map(|(_, reason)| reason.clone()),
        }
    });
    told.collect()
}

/// What fails is an error whatever its weight.
fn level(item: &Item, fails: bool) -> &'static str {
    if fails {
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
