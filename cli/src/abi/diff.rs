//! `xla-ffi abi diff`.

use crate::output;
use anyhow::bail;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::diff::{self, Change};
use xla_ffi_abi::meaning::{self, Harm};
use xla_ffi_abi::snapshot;

/// Command line of `abi diff`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to compare with: a revision, an edition or a jaxlib version.
    #[arg(value_name = "REV", value_parser = super::edition)]
    old: Edition,
    /// What to compare.
    #[arg(value_name = "REV", value_parser = super::edition)]
    new: Edition,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.old.header != args.new.header {
        bail!(
            "{} is {}, {} is {}: two versions of one header can be compared",
            args.old.name(),
            args.old.header,
            args.new.name(),
            args.new.header
        );
    }
    let (old, new) = (
        snapshot::of_edition(args.old)?,
        snapshot::of_edition(args.new)?,
    );
    let changes = diff::changes(&old.abi, &new.abi);
    let facts = meaning::facts(args.old.revision, args.new.revision);
    if args.json {
        let facts: Vec<_> = facts
            .iter()
            .filter(|(owner, ..)| changes.iter().any(|change| change.owner == *owner))
            .map(|(owner, revision, fact)| {
                json!({ "struct": owner, "revision": revision.name(), "fact": fact })
            })
            .collect();
        return output::json(&json!({
            "old": args.old.name(),
            "new": args.new.name(),
            "changes": changes,
            "facts": facts,
        }));
    }
    let (old, new) = (args.old.name(), args.new.name());
    if changes.is_empty() {
        return output::text(&format!("{old} and {new} have the same layouts\n"));
    }
    let mut text = report(&changes, &old, &new);
    for (owner, revision, fact) in facts {
        if changes.iter().any(|change| change.owner == owner) {
            let _ = writeln!(text, "measured, {owner} from {revision}: {fact}");
        }
    }
    output::text(&text)
}

/// Changes in words, grouped by what they are about.
pub(super) fn report(changes: &[Change], old: &str, new: &str) -> String {
    let mut text = String::new();
    let mut owners: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in changes {
        owners.entry(&change.owner).or_default().push(change);
    }
    for (owner, changes) in owners {
        let _ = writeln!(text, "{owner}");
        let mut told: Vec<String> = Vec::new();
        for change in &changes {
            let what = change.member.as_deref().unwrap_or(owner);
            let _ = write!(text, "  {}: {what}", change.class);
            match (&change.was, &change.now) {
                (Some(was), Some(now)) => {
                    let _ = write!(text, ", was {was}, is {now}");
                }
                (Some(was), None) => {
                    let _ = write!(text, ", was {was}");
                }
                (None, Some(now)) => {
                    let _ = write!(text, ", is {now}");
                }
                (None, None) => {}
            }
            text.push_str(if change.follows { " (follows)\n" } else { "\n" });
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
                let line = format!("    {which}: {}: {}\n", meaning.harm, meaning.why);
                if !told.contains(&line) {
                    text.push_str(&line);
                    told.push(line);
                }
            }
        }
    }
    let count = |harm: Harm| {
        changes
            .iter()
            .filter(|change| {
                !change.follows
                    && change
                        .effect
                        .old_on_new
                        .harm
                        .max(change.effect.new_on_old.harm)
                        == harm
            })
            .count()
    };
    let _ = writeln!(
        text,
        "{} changes of their own: {} break, {} lack something, {} are harmless at run time; {} more follow from them",
        changes.iter().filter(|change| !change.follows).count(),
        count(Harm::Breaks),
        count(Harm::Lacks),
        count(Harm::None),
        changes.iter().filter(|change| change.follows).count()
    );
    text
}
