//! `xla-ffi abi diff`: lists the changes between two ABIs.

use super::Threshold;
use super::input::{Input, Reading};
use crate::output;
use crate::report_format::TextOrJson;
use anyhow::bail;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use xla_ffi_abi::diff::{self, Change};
use xla_ffi_abi::meaning::{self, Severity};

/// Command line of `abi diff`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// ABI before the change: a revision (r9), an edition (r2-0.4.34), a jaxlib version (0.9.1), a header or a snapshot file.
    #[arg(value_name = "OLD")]
    old: Input,
    /// ABI after the change, in the same forms as OLD.
    #[arg(value_name = "NEW")]
    new: Input,
    #[command(flatten)]
    reading: Reading,
    /// Fail if a change has at least this severity [default: never fail].
    #[arg(long, help_heading = "Exit status", value_enum)]
    #[arg(value_name = "SEVERITY")]
    fail_on: Option<Threshold>,
    #[command(flatten)]
    pub(super) output: TextOrJson,
}

/// The value of `schema` in the JSON output.
pub(super) const SCHEMA: &str = "xla-ffi-abi-diff-1";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.reading.wants_a_header([&args.old, &args.new]);
    let (old, old_places) = args.old.layouts(&args.reading)?;
    let (new, new_places) = args.new.layouts(&args.reading)?;
    let (old_name, new_name) = (args.old.name(), args.new.name());
    if old.header() != new.header() {
        bail!(
            "{old_name} is {}, but {new_name} is {}: compare two versions of the same header",
            old.header(),
            new.header()
        );
    }
    let mut changes = diff::changes(&old, &new);
    // The measured facts are about revisions, so headers and snapshot files have none.
    let facts = match (&args.old, &args.new) {
        (Input::Edition(old), Input::Edition(new)) => meaning::facts(old.revision, new.revision),
        _ => Vec::new(),
    };
    let facts: Vec<_> = facts
        .into_iter()
        .filter(|(owner, ..)| changes.iter().any(|change| change.owner == *owner))
        .collect();
    match args.new.is_header() {
        true => new_places.apply(&mut changes),
        false => old_places.apply(&mut changes),
    }
    let fails = args.fail_on.is_some_and(|least| least.is_reached(&changes));
    let code = u8::from(fails);
    if args.output.is_json() {
        let facts: Vec<_> = facts
            .iter()
            .map(|(owner, revision, fact)| {
                json!({ "struct": owner, "revision": revision.name(), "fact": fact })
            })
            .collect();
        output::json(&json!({
            "schema": SCHEMA,
            "exit": { "code": code, "kind": if fails { "findings" } else { "ok" } },
            "old": old_name,
            "new": new_name,
            "changes": changes,
            "facts": facts,
        }))?;
    } else if changes.is_empty() {
        output::text(&format!(
            "{old_name} and {new_name} have the same layouts\n"
        ))?;
    } else {
        let mut text = report(&changes, &old_name, &new_name);
        for (owner, revision, fact) in facts {
            let _ = writeln!(text, "measured, {owner} from {revision}: {fact}");
        }
        output::text(&text)?;
    }
    if fails {
        output::message(format_args!(
            "error: {} and {} have changes of the severity of --fail-on or higher",
            old_name, new_name
        ));
    }
    Ok(ExitCode::from(code))
}

/// Returns the changes as text, grouped by struct or other declaration.
pub(super) fn report(changes: &[Change], old: &str, new: &str) -> String {
    let mut text = String::new();
    let mut owners: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in changes {
        owners.entry(&change.owner).or_default().push(change);
    }
    for (owner, changes) in owners {
        let _ = writeln!(text, "{owner}");
        let mut written: Vec<String> = Vec::new();
        for change in &changes {
            let what = change.member.as_deref().unwrap_or(owner);
            let number = match change.follows {
                true => String::new(), // lists do not contain implied changes
                false => format!("{} ", change.class.rule().id),
            };
            let _ = write!(text, "  {number}{}", change.describe(what));
            text.push_str(if change.follows { " (implied)\n" } else { "\n" });
            if change.follows {
                continue;
            }
            let effect = &change.effect;
            let mut lines = vec![
                (
                    format!("built on {old}, loaded on {new}"),
                    &effect.old_on_new,
                ),
                (
                    format!("built on {new}, loaded on {old}"),
                    &effect.new_on_old,
                ),
            ];
            if effect.old_on_new == effect.new_on_old {
                lines = vec![("either way".to_owned(), &effect.old_on_new)];
            }
            for (which, meaning) in lines {
                let line = format!("    {which}: {}: {}\n", meaning.severity, meaning.why);
                if !written.contains(&line) {
                    text.push_str(&line);
                    written.push(line);
                }
            }
        }
    }
    let own = changes.iter().filter(|change| !change.follows);
    let count = |severity: Severity| {
        let same = own.clone();
        same.filter(|change| change.effect.severity() == severity)
            .count()
    };
    let own = own.clone().count();
    let changes_noun = if own == 1 { "change" } else { "changes" };
    let _ = writeln!(
        text,
        "{own} {changes_noun}: {} break calls, {} make something unavailable, {} are harmless at run time; {} more are implied",
        count(Severity::Breaks),
        count(Severity::Lacks),
        count(Severity::None),
        changes.len() - own
    );
    text
}
