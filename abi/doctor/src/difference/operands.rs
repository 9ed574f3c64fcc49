//! Compares the operands, results and attributes of a handler in two builds. Operands are matched by position,
//! attributes by name.

use super::{About, Step};
use crate::manifest::{Attribute, Handler, Kind, Layout, Operand};
use serde_json::Number;

pub(super) fn arguments(was: &Handler, now: &Handler, about: &mut About<'_>) {
    places("argument", &was.args, &now.args, about);
}

pub(super) fn results(was: &Handler, now: &Handler, about: &mut About<'_>) {
    places("result", &was.rets, &now.rets, about);
}

fn places(side: &str, old: &[Operand], new: &[Operand], about: &mut About<'_>) {
    for (was, now) in old.iter().zip(new) {
        let mut part = about.part(&format!("{side} {}", was.name));
        operand(side == "result", was, now, &mut part);
    }
    moved(side, old, new, about);
    for was in old.iter().skip(new.len()) {
        let why = "calls with it are refused";
        about.removed(Step::Major, side, &was.name, why);
    }
    for now in new.iter().skip(old.len()) {
        let may_be_missing = now.optional || now.variadic;
        let (step, why) = match may_be_missing {
            true => (Step::Minor, "calls may pass it"),
            false => (Step::Major, "calls without it are refused"),
        };
        about.added(step, side, &now.name, why);
    }
}

/// Adds differences for operands that have a different position in the new build.
fn moved(side: &str, old: &[Operand], new: &[Operand], about: &mut About<'_>) {
    let place = |all: &[Operand], name: &str| all.iter().position(|operand| operand.name == name);
    for (at, was) in old.iter().enumerate() {
        let now = place(new, &was.name).filter(|now| *now != at);
        let now = now.filter(|_| place(old, &was.name) == Some(at));
        if let Some(now) = now {
            let why = "operands are passed by position, so calls pass the wrong operands";
            let mut part = about.part(&format!("{side} {}", was.name));
            part.changed(Step::Major, "position", at, now, why);
        }
    }
}

fn operand(is_result: bool, was: &Operand, now: &Operand, about: &mut About<'_>) {
    let why = "messages and stub files use the name; operands are passed by position";
    about.compared(Step::Patch, "name", &was.name, &now.name, why);
    if was.kind != now.kind {
        let word = |kind: Kind| match kind {
            Kind::Buffer => "array",
            Kind::Token => "token",
        };
        let why = "existing calls are refused";
        return about.changed(Step::Major, "kind", word(was.kind), word(now.kind), why);
    }
    dtypes(is_result, was, now, about);
    let word = |rank: Option<u32>| rank.map_or("any".to_owned(), |rank| rank.to_string());
    let (step, why) = match now.rank {
        Some(_) => (Step::Major, "calls with other ranks are refused"),
        None => (Step::Minor, "calls with any rank are accepted"),
    };
    about.compared(step, "rank", word(was.rank), word(now.rank), why);
    let widens = "more calls are accepted";
    let narrows = ("calls without it are refused", widens);
    about.toggled("optional", (was.optional, now.optional), narrows);
    let narrows = ("calls with several operands are refused", widens);
    about.toggled("variadic", (was.variadic, now.variadic), narrows);
    let word = |is: bool| if is { "yes" } else { "no" };
    let why = "programs state which results alias arguments, so compiled programs do not fit";
    about.compared(
        Step::Major,
        "alias of its argument",
        word(was.inout),
        word(now.inout),
        why,
    );
    let layout = |layout: &Layout| match layout {
        Layout::Word(word) => word.clone(),
        Layout::Order(axes) => format!("{axes:?}"),
    };
    let why = "exported programs, and callers that state layouts, use the old order";
    about.compared(
        Step::Major,
        "layout",
        layout(&was.layout),
        layout(&now.layout),
        why,
    );
}

fn dtypes(is_result: bool, was: &Operand, now: &Operand, about: &mut About<'_>) {
    let what = "element types";
    let narrows = "calls with these are refused";
    let widens = "calls with these are accepted";
    match (&was.dtypes, &now.dtypes) {
        (None, None) => {}
        (None, Some(now)) => {
            let why = "calls with other types are refused";
            about.changed(Step::Major, what, "any", lower(now), why);
        }
        (Some(was), None) => {
            let why = "calls with any type are accepted";
            about.changed(Step::Minor, what, lower(was), "any", why);
        }
        (Some(old), Some(new)) => about.offers(what, &small(old), &small(new), (narrows, widens)),
    }
    // If the manifest allows only one element type for a result, callers need not specify the type.
    let is_sure = |one: &Operand| one.dtypes.as_ref().is_some_and(|all| all.len() == 1);
    if is_result && is_sure(was) && !is_sure(now) {
        let why = "calls without explicit result types are refused or get other types";
        let (old, new) = (was.dtypes.as_deref(), now.dtypes.as_deref());
        let word = |dtypes: Option<&[String]>| dtypes.map_or("any".to_owned(), lower);
        about.changed(
            Step::Major,
            "inferred element type",
            word(old),
            word(new),
            why,
        );
    }
}

fn small(dtypes: &[String]) -> Vec<String> {
    dtypes.iter().map(|dtype| dtype.to_lowercase()).collect()
}

fn lower(dtypes: &[String]) -> String {
    small(dtypes).join(", ")
}

pub(super) fn attributes(was: &Handler, now: &Handler, about: &mut About<'_>) {
    let key = |attribute: &Attribute| (attribute.from.clone(), attribute.name.clone());
    let find = |all: &[Attribute], wanted: &Attribute| {
        let found = all.iter().find(|attribute| key(attribute) == key(wanted));
        found.cloned()
    };
    for old in &was.attrs {
        match find(&now.attrs, old) {
            Some(new) => {
                let mut part = about.part(&format!("attribute {}", shown(old)));
                attribute(old, &new, &mut part);
            }
            None => {
                let why = match now.open_attrs {
                    true => "it is ignored",
                    false => "calls with it are refused",
                };
                about.removed(Step::Major, "attribute", &shown(old), why);
            }
        }
    }
    let is_new = |new: &&Attribute| find(&was.attrs, new).is_none();
    for new in now.attrs.iter().filter(is_new) {
        let (step, why) = match new.optional {
            true => (Step::Minor, "calls may pass it"),
            false => (Step::Major, "calls without it are refused"),
        };
        about.added(step, "attribute", &shown(new), why);
    }
}

fn shown(attribute: &Attribute) -> String {
    match &attribute.from {
        Some(from) => format!("{from}.{}", attribute.name),
        None => attribute.name.clone(),
    }
}

/// Returns true if two default values have the same bits. For example, the floats `1` and `1.0` do, but `0.0` and
/// `-0.0` do not.
fn is_same_default(was: &Attribute, now: &Attribute) -> bool {
    let of_floats = |attribute: &Attribute| matches!(attribute.ty.as_str(), "f32" | "f64");
    match (was.default.as_f64(), now.default.as_f64()) {
        (Some(old), Some(new)) if of_floats(was) && of_floats(now) => {
            let bits = |value: f64| match was.ty.as_str() {
                "f32" => u64::from((value as f32).to_bits()),
                _ => value.to_bits(),
            };
            bits(old) == bits(new)
        }
        _ => was.default == now.default,
    }
}

fn attribute(was: &Attribute, now: &Attribute, about: &mut About<'_>) {
    let converted = "calls with the old type are refused, or their value is converted";
    let (step, why) = match now.ty.as_str() {
        "any" => (Step::Minor, "values of any type are accepted"),
        _ => (Step::Major, converted),
    };
    about.compared(step, "type", &was.ty, &now.ty, why);
    let whys = ("calls without it are refused", "calls may omit it");
    about.toggled("optional", (was.optional, now.optional), whys);
    if was.optional && now.optional && !is_same_default(was, now) {
        let why = "calls that omit it give different results";
        about.changed(Step::Major, "default", &was.default, &now.default, why);
    }
    let bounds = [
        ("min", &was.min, &now.min, 1.0),
        ("max", &was.max, &now.max, -1.0),
    ];
    for (what, was, now, sign) in bounds.into_iter().filter(|(_, was, now, _)| was != now) {
        let least = |bound: &Option<Number>| {
            let number = bound.as_ref().and_then(Number::as_f64);
            number.map_or(f64::NEG_INFINITY, |number| sign * number)
        };
        let (step, why) = match least(now) < least(was) {
            true => (Step::Minor, "more values are accepted"),
            false => (Step::Major, "calls with other values are refused"),
        };
        let text =
            |bound: &Option<Number>| bound.as_ref().map_or("none".to_owned(), Number::to_string);
        about.changed(step, what, text(was), text(now), why);
    }
    let whys = (
        "calls with wider types are refused",
        "calls may pass wider types",
    );
    about.toggled("wider types accepted", (was.narrow, now.narrow), whys);
}
