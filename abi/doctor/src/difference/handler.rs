//! What the manifests of two builds say of a handler.

use super::{About, List, Step, attribute_names, operands};
use crate::finding::Subject;
use crate::manifest::{Batch, Gradient, Handler, Manifest, State};
use std::collections::BTreeMap;
use xla_ffi_contract::Contract;

/// Compares the handlers of one library.
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
            None => about.removed(Step::Major, "handler", name, "calls of it find no target"),
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
        ("calls there find no target", "it can be called there"),
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
                "calls that give attributes beside the listed ones are refused",
                "attributes that are not listed are ignored",
            ),
        );
        shape(was, now, about);
    } else {
        about.toggled(
            "operands described",
            (was.described, now.described),
            (
                "callers have to give the signature",
                "callers need not give the signature; calls that do not fit it are refused before they are made",
            ),
        );
    }
    gradient(was.gradient.as_ref(), now.gradient.as_ref(), about);
    batch(was.batch.as_ref(), now.batch.as_ref(), about);
    about.demands(
        "taken from its context",
        &was.context,
        &now.context,
        (
            "hosts without it take calls",
            "hosts without it refuse calls",
        ),
    );
    traits(was, now, about);
    state(was.state.as_ref(), now.state.as_ref(), about);
    if was.is_async != now.is_async {
        let word = |is: bool| {
            if is {
                "after it returned"
            } else {
                "before it returns"
            }
        };
        let why = "results are the same; hosts that wait otherwise notice it";
        about.changed(
            Step::Patch,
            "completes",
            word(was.is_async),
            word(now.is_async),
            why,
        );
    }
    floor(was, now, about);
}

/// The platforms of a list, each by one of its names: XLA takes `Host` for `cpu`, and does not ask for capitals.
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
    let why = "who registers it by symbols registers too little or what is not there; loaders that read the \
               manifest notice nothing";
    for (stage, symbol) in &old {
        let what = format!("{stage} stage");
        match new.get(stage) {
            Some(other) if other == symbol => {}
            Some(other) => about.changed(Step::Major, &what, symbol, other, why),
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
            let why =
                "result shapes do not follow from the arguments any more: callers have to say them";
            return about.removed(Step::Major, what, old, why);
        }
        (None, Some(new)) => {
            let why = "calls whose shapes do not fit it are refused";
            return about.added(Step::Major, what, new, why);
        }
        (Some(old), Some(new)) => (old, new),
    };
    let (Ok(before), Ok(after)) = (Contract::parse(old), Contract::parse(new)) else {
        if old != new {
            let why = "one of them does not parse, so that nothing is known of it";
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
        format!("the attribute '{name}' is the size of that name in one build and not in the other")
    } else {
        "shapes that were taken may be refused, or results may have other shapes".to_owned()
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
        // One that is named counts for more.
        linear.into_iter().chain(named).collect()
    };
    if let (Some(was), Some(now)) = (was, now) {
        if was.residuals != now.residuals {
            let word = |names: &Option<Vec<String>>| match names {
                None => "all arguments".to_owned(),
                Some(names) => names.join(", "),
            };
            let (was, now) = (word(&was.residuals), word(&now.residuals));
            let why = "who calls the handlers of the derivatives by hand gives them other operands";
            about.changed(Step::Patch, "gradient, residuals", &was, &now, why);
        }
    }
    let (old, new) = (rules(was), rules(now));
    for (rule, by) in &old {
        let what = format!("gradient, {rule}");
        match new.get(rule) {
            Some(other) if other == by => {}
            Some(other) => {
                about.changed(Step::Patch, &what, by, other, "another handler computes it")
            }
            // What is called in place of the handler is no rule that a caller asks for.
            None if *rule == "forward" => {
                about.removed(
                    Step::Patch,
                    &what,
                    by,
                    "gradients start from the handler itself",
                );
            }
            None => about.removed(
                Step::Major,
                &what,
                by,
                "derivatives that used it are refused",
            ),
        }
    }
    for (rule, by) in new.iter().filter(|(rule, _)| !old.contains_key(*rule)) {
        let what = format!("gradient, {rule}");
        about.added(
            Step::Minor,
            &what,
            by,
            "derivatives that need it can be taken",
        );
    }
}

fn batch(was: Option<&Batch>, now: Option<&Batch>, about: &mut About<'_>) {
    if was == now {
        return;
    }
    let word = |batch: Option<&Batch>| match batch {
        None => "as the contract says".to_owned(),
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
            "batched calls are made otherwise, with the same results",
        ),
    };
    about.changed(step, "batching", &word(was), &word(now), why);
}

fn traits(was: &Handler, now: &Handler, about: &mut About<'_>) {
    let why = |name: &str, came: bool| match (name, came) {
        ("nondeterministic", true) => (Step::Major, "equal calls may give different results"),
        ("nondeterministic", false) => (Step::Minor, "equal calls give equal results"),
        ("host_only", true) => (Step::Major, "it does not run on a device's stream any more"),
        ("host_only", false) => (Step::Minor, "it may run on a device's stream"),
        (_, true) => (Step::Minor, "hosts may use it"),
        (_, false) => (Step::Patch, "hosts do without it"),
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
        let why = "who registers it by symbols registers another type for its state; loaders that read the \
                   manifest notice nothing";
        about.push(
            Step::Major,
            "type of its state",
            was.as_deref(),
            now.as_deref(),
            why,
        );
    }
}

fn floor(was: &Handler, now: &Handler, about: &mut About<'_>) {
    if was.floor == now.floor {
        return;
    }
    let number = |floor: &str| {
        floor
            .trim_start_matches('r')
            .parse::<u64>()
            .unwrap_or(u64::MAX)
    };
    let (step, why) = if number(&now.floor) > number(&was.floor) {
        (
            Step::Major,
            "it does not do all of its work on older jaxlibs any more",
        )
    } else {
        (Step::Minor, "it works on older jaxlibs")
    };
    about.changed(step, "oldest revision", &was.floor, &now.floor, why);
}
