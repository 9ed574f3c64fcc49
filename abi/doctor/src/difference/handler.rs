//! Compares the handlers in the manifests of two builds.

use super::{About, List, Step, attribute_names, operands};
use crate::finding::Subject;
use crate::manifest::{Batch, Gradient, Handler, Manifest, State};
use std::collections::BTreeMap;
use xla_ffi_contract::Contract;

/// Compares the handlers in the old and the new manifest of one library.
pub(super) fn all(old: Option<&Manifest>, new: Option<&Manifest>, list: &mut List) {
    let by_name = |manifest: Option<&'_ Manifest>| -> BTreeMap<String, Handler> {
        let handlers = manifest.iter().flat_map(|manifest| &manifest.handlers);
        handlers
            .map(|handler| (handler.name.clone(), handler.clone()))
            .collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    for (name, was) in &old {
        let mut about = list.about(Subject::Handler(name.clone()));
        match new.get(name) {
            Some(now) => compare(was, now, &mut about),
            None => about.removed(Step::Major, "handler", name, "calls of it fail"),
        }
    }
    for name in new.keys().filter(|name| !old.contains_key(*name)) {
        let mut about = list.about(Subject::Handler(name.clone()));
        about.added(Step::Minor, "handler", name, "it can be called");
    }
}

fn compare(was: &Handler, now: &Handler, about: &mut About<'_>) {
    about.offers(
        "platforms",
        &platforms(&was.platforms),
        &platforms(&now.platforms),
        ("calls there fail", "it can be called there"),
    );
    stages(was, now, about);
    if was.described && now.described {
        operands::arguments(was, now, about);
        operands::results(was, now, about);
        operands::attributes(was, now, about);
        about.toggled(
            "other attributes",
            (was.open_attrs, now.open_attrs),
            (
                "calls with unlisted attributes are refused",
                "unlisted attributes are ignored",
            ),
        );
        shape(was, now, about);
    } else {
        about.toggled(
            "described operands",
            (was.described, now.described),
            (
                "callers must pass the signature",
                "callers need not pass the signature, and wrong calls are refused early",
            ),
        );
    }
    gradient(was.gradient.as_ref(), now.gradient.as_ref(), about);
    batch(was.batch.as_ref(), now.batch.as_ref(), about);
    about.demands(
        "context",
        &was.context,
        &now.context,
        (
            "hosts without it accept calls",
            "hosts without it refuse calls",
        ),
    );
    traits(was, now, about);
    state(was.state.as_ref(), now.state.as_ref(), about);
    let word = |is_async: bool| match is_async {
        true => "after the function returns",
        false => "before the function returns",
    };
    let why = "results are equal; hosts wait for the call differently";
    about.compared(
        Step::Patch,
        "completion",
        word(was.is_async),
        word(now.is_async),
        why,
    );
    floor(was, now, about);
}

/// Returns platform names in lower case, with `cpu` for `host`, because XLA accepts all spellings.
pub(super) fn platforms(names: &[String]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    for name in names.iter_mut().filter(|name| *name == "host") {
        *name = "cpu".to_owned();
    }
    names
}

fn stages(was: &Handler, now: &Handler, about: &mut About<'_>) {
    let old: BTreeMap<&str, &str> = was.stages.iter().collect();
    let new: BTreeMap<&str, &str> = now.stages.iter().collect();
    let why = "registrations by symbol are incomplete or fail; loaders that read the manifest are not affected";
    for (stage, symbol) in &old {
        let what = format!("{stage} stage");
        match new.get(stage) {
            Some(other) => about.compared(Step::Major, &what, symbol, other, why),
            None => about.removed(Step::Major, &what, symbol, why),
        }
    }
    for (stage, symbol) in new.iter().filter(|(stage, _)| !old.contains_key(*stage)) {
        about.added(Step::Major, &format!("{stage} stage"), symbol, why);
    }
}

fn shape(was: &Handler, now: &Handler, about: &mut About<'_>) {
    let what = "shape contract";
    let (old, new) = match (&was.shape, &now.shape) {
        (None, None) => return,
        (Some(old), None) => {
            let why = "result shapes are no longer inferred, so callers must pass them";
            return about.removed(Step::Major, what, old, why);
        }
        (None, Some(new)) => {
            let why = "calls with other shapes are refused";
            return about.added(Step::Major, what, new, why);
        }
        (Some(old), Some(new)) => (old, new),
    };
    let (Ok(before), Ok(after)) = (Contract::parse(old), Contract::parse(new)) else {
        if old != new {
            let why = "one of the contracts is invalid";
            about.changed(Step::Major, what, old, new, why);
        }
        return;
    };
    let (names, others) = (attribute_names(was), attribute_names(now));
    if before.is_same_as(&after, &names, &others) {
        return;
    }
    let why = if old == new {
        let mut sizes = after.names.iter().map(String::as_str);
        let is_one = |name: &&str| names.contains(name) != others.contains(name);
        let name = sizes.find(is_one).unwrap_or_default();
        format!("the attribute `{name}` determines a size in one build only")
    } else {
        "calls may be refused, or results may have other shapes".to_owned()
    };
    about.changed(Step::Major, what, old, new, &why);
}

fn gradient(was: Option<&Gradient>, now: Option<&Gradient>, about: &mut About<'_>) {
    let rules = |gradient: Option<&Gradient>| -> BTreeMap<&'static str, String> {
        let Some(gradient) = gradient else {
            return BTreeMap::new();
        };
        let linear = gradient.linear.then(|| ("jvp", "by itself".to_owned()));
        let named = gradient.handlers().map(|(rule, by)| (rule, by.to_owned()));
        // The handler that the manifest names as `jvp` takes precedence over the attribute `linear`.
        linear.into_iter().chain(named).collect()
    };
    if let (Some(was), Some(now)) = (was, now) {
        let word = |names: &Option<Vec<String>>| match names {
            None => "all arguments".to_owned(),
            Some(names) => names.join(", "),
        };
        let (was, now) = (word(&was.residuals), word(&now.residuals));
        let why = "direct calls of the derivatives' handlers need other operands";
        about.compared(Step::Patch, "gradient, residuals", was, now, why);
    }
    let (old, new) = (rules(was), rules(now));
    for (rule, by) in &old {
        let what = format!("gradient, {rule}");
        match new.get(rule) {
            Some(other) => {
                let why = "a different handler computes it";
                about.compared(Step::Patch, &what, by, other, why);
            }
            // Callers do not depend on the forward handler, because only the rule for gradients calls the forward
            // handler.
            None if *rule == "forward" => {
                about.removed(Step::Patch, &what, by, "gradients call the handler itself");
            }
            None => {
                let why = "derivatives that need it are refused";
                about.removed(Step::Major, &what, by, why);
            }
        }
    }
    for (rule, by) in new.iter().filter(|(rule, _)| !old.contains_key(*rule)) {
        let why = "derivatives that need it can be taken";
        about.added(Step::Minor, &format!("gradient, {rule}"), by, why);
    }
}

fn batch(was: Option<&Batch>, now: Option<&Batch>, about: &mut About<'_>) {
    if was == now {
        return;
    }
    let word = |batch: Option<&Batch>| match batch {
        None => "from the shape contract".to_owned(),
        Some(Batch::Word(word)) => word.clone(),
        Some(Batch::Each(words)) => words.join(", "),
        Some(Batch::Handler { handler }) => format!("by {handler}"),
    };
    let is_refused = |batch: Option<&Batch>| batch == Some(&Batch::Word("none".to_owned()));
    let (step, why) = match (is_refused(was), is_refused(now)) {
        (_, true) => (Step::Major, "calls under vmap are refused"),
        (true, _) => (Step::Minor, "calls may be batched"),
        _ => (
            Step::Patch,
            "batched calls are made differently, with equal results",
        ),
    };
    about.changed(step, "batching", word(was), word(now), why);
}

fn traits(was: &Handler, now: &Handler, about: &mut About<'_>) {
    let why = |name: &str, came: bool| match (name, came) {
        ("nondeterministic", true) => (Step::Major, "equal calls may give different results"),
        ("nondeterministic", false) => (Step::Minor, "equal calls give equal results"),
        ("host_only", true) => (Step::Major, "it no longer runs on device streams"),
        ("host_only", false) => (Step::Minor, "it can run on device streams"),
        (_, true) => (Step::Minor, "hosts may use the trait"),
        (_, false) => (Step::Patch, "hosts no longer use the trait"),
    };
    for name in was.traits.iter().filter(|name| !now.traits.contains(name)) {
        let (step, why) = why(name, false);
        about.removed(step, "trait", name, why);
    }
    for name in now.traits.iter().filter(|name| !was.traits.contains(name)) {
        let (step, why) = why(name, true);
        about.added(step, "trait", name, why);
    }
}

fn state(was: Option<&State>, now: Option<&State>, about: &mut About<'_>) {
    let name = |state: Option<&State>| state.map(|state| state.ty.clone());
    let (was, now) = (name(was), name(now));
    if was != now {
        let why = "registrations by symbol need a different state type; loaders that read the manifest are not affected";
        let (was, now) = (was.as_deref(), now.as_deref());
        about.add(Step::Major, "state type", was, now, why);
    }
}

fn floor(was: &Handler, now: &Handler, about: &mut About<'_>) {
    let number = |floor: &str| floor.trim_start_matches('r').parse().unwrap_or(u64::MAX);
    let (step, why) = match number(&now.floor) > number(&was.floor) {
        true => (Step::Major, "calls on older jaxlibs fail or lack features"),
        false => (Step::Minor, "it works on older jaxlibs"),
    };
    about.compared(step, "oldest revision", &was.floor, &now.floor, why);
}
