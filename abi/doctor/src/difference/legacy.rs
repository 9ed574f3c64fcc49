//! Compares the targets of original custom calls in two builds. XLA passes only pointers to such targets, and checks no
//! types or sizes.

use super::handler::platforms;
use super::{About, List, Step};
use crate::finding::Subject;
use crate::manifest::{Manifest, Shape, Target};
use std::collections::BTreeMap;

/// Compares the targets in the old and the new manifest of one library.
pub(super) fn all(old: Option<&Manifest>, new: Option<&Manifest>, list: &mut List) {
    let by_name = |manifest: Option<&'_ Manifest>| -> BTreeMap<String, Target> {
        let targets = manifest.iter().flat_map(|manifest| &manifest.legacy);
        targets
            .map(|target| (target.name.clone(), target.clone()))
            .collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    for (name, was) in &old {
        let mut about = list.about(Subject::Legacy(name.clone()));
        match new.get(name) {
            Some(now) => compare(was, now, &mut about),
            None => about.removed(Step::Major, "target", name, "calls of it fail"),
        }
    }
    for name in new.keys().filter(|name| !old.contains_key(*name)) {
        let mut about = list.about(Subject::Legacy(name.clone()));
        about.added(Step::Minor, "target", name, "it can be called");
    }
}

fn compare(was: &Target, now: &Target, about: &mut About<'_>) {
    about.offers(
        "platforms",
        &platforms(&was.platforms),
        &platforms(&now.platforms),
        ("calls there fail", "it can be called there"),
    );
    let word =
        |target: &Target| format!("{} (API version {})", target.signature, target.api_version);
    let why = "compiled calls pass the parameters of the old signature, without a check";
    about.compared(Step::Major, "signature", word(was), word(now), why);
    let why = "registrations by symbol fail; hosts that read the library's list do not";
    about.compared(Step::Major, "symbol", &was.symbol, &now.symbol, why);
    let word = |target: &Target| match (&target.tuples, &target.structure) {
        (Some(form), Some(structure)) => format!("{structure} by {form}"),
        _ => "none".to_owned(),
    };
    let why = "calls pass pointers of the old structure, without a check";
    about.compared(Step::Major, "tuples", word(was), word(now), why);
    let described = |target: &Target| target.args.is_some() && target.rets.is_some();
    about.toggled(
        "described operands",
        (described(was), described(now)),
        (
            "loaders no longer check sizes",
            "loaders refuse calls with other sizes",
        ),
    );
    for (side, was, now) in [
        ("argument", &was.args, &now.args),
        ("result", &was.rets, &now.rets),
    ] {
        if let (Some(was), Some(now)) = (was, now) {
            shapes(side, was, now, about);
        }
    }
}

fn shapes(side: &str, was: &[Shape], now: &[Shape], about: &mut About<'_>) {
    let beyond = "the function reads or writes other sizes than existing calls pass";
    for (at, (was, now)) in was.iter().zip(now).enumerate() {
        about.compared(Step::Major, &format!("{side} {at}"), was, now, beyond);
    }
    for (at, was) in was.iter().enumerate().skip(now.len()) {
        let why = "loaders refuse calls with it, or its pointer is ignored";
        about.removed(Step::Major, &format!("{side} {at}"), &was.to_string(), why);
    }
    for (at, now) in now.iter().enumerate().skip(was.len()) {
        let why = "loaders refuse calls without it, or the function reads a missing pointer";
        about.added(Step::Major, &format!("{side} {at}"), &now.to_string(), why);
    }
}
