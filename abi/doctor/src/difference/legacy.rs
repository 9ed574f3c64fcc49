//! What the manifests of two builds say of targets of the original custom calls. XLA hands these pointers alone:
//! nobody checks what differs when a call is made.

use super::handler::platforms;
use super::{About, List, Step};
use crate::finding::Subject;
use crate::manifest::{Manifest, Shape, Target};
use std::collections::BTreeMap;

/// Compares the targets of one library.
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
            None => about.removed(Step::Major, "target", name, "calls of it find no target"),
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
        ("calls there find no target", "it can be called there"),
    );
    if was.signature != now.signature {
        let word =
            |target: &Target| format!("{} (API version {})", target.signature, target.api_version);
        let why = "a call says the API version under which it was compiled: the function gets other parameters than it \
                   takes, and nobody checks that";
        about.changed(Step::Major, "signature", &word(was), &word(now), why);
    }
    if was.symbol != now.symbol {
        let why = "who registers it by its symbol finds nothing; hosts that walk the library's list notice nothing";
        about.changed(Step::Major, "symbol", &was.symbol, &now.symbol, why);
    }
    if (&was.tuples, &was.structure) != (&now.tuples, &now.structure) {
        let word = |target: &Target| match (&target.tuples, &target.structure) {
            (Some(form), Some(structure)) => format!("{structure} by {form}"),
            _ => "none".to_owned(),
        };
        let why = "calls hand over other pointers than it takes, which nobody checks";
        about.changed(Step::Major, "tuples", &word(was), &word(now), why);
    }
    let described = |target: &Target| target.args.is_some() && target.rets.is_some();
    about.toggled(
        "operands described",
        (described(was), described(now)),
        (
            "loaders cannot check sizes any more before they call it",
            "calls of other sizes are refused before they are made",
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
    let beyond = "the function reads or writes as many bytes as it is made for: calls that fitted give it fewer or more";
    for (at, (was, now)) in was.iter().zip(now).enumerate() {
        if was != now {
            let what = format!("{side} {at}");
            about.changed(
                Step::Major,
                &what,
                &was.to_string(),
                &now.to_string(),
                beyond,
            );
        }
    }
    for (at, was) in was.iter().enumerate().skip(now.len()) {
        let why =
            "calls that have it are refused by loaders, or hand over a pointer that nobody takes";
        about.removed(Step::Major, &format!("{side} {at}"), &was.to_string(), why);
    }
    for (at, now) in now.iter().enumerate().skip(was.len()) {
        let why = "calls without it are refused by loaders, or make the function read a pointer that nobody gave";
        about.added(Step::Major, &format!("{side} {at}"), &now.to_string(), why);
    }
}
