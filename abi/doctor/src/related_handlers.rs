//! Findings about missing related handlers and about their wrong operands. Related handlers compute derivatives or
//! batches. The loader makes the same checks (`python/xla_ffi/_related_handlers.py`).

use crate::manifest::{Attribute, Batch, Gradient, Handler, Kind, Manifest, Operand};

/// A callback that receives the text of a problem, its reason and its remedy.
pub(crate) type Report<'a> = dyn FnMut(String, String, &str) + 'a;

/// The operands that a related handler must have, with the types and ranks of the main handler's operands.
struct Wanted<'a> {
    args: Vec<&'a Operand>,
    rets: Vec<&'a Operand>,
    /// The number of dimensions that the related handler's operands have in addition to those of the main handler's
    /// operands.
    deeper: u32,
}

pub(crate) fn judge(manifest: &Manifest, handler: &Handler, report: &mut Report<'_>) {
    if let Some(Batch::Handler { handler: name }) = &handler.batch {
        if let Some(other) = find_handler(manifest, "batch", name, report) {
            let wanted = Wanted {
                args: handler.args.iter().collect(),
                rets: handler.rets.iter().collect(),
                deeper: 1,
            };
            check_fit("batch", handler, other, &wanted, true, report);
        }
    }
    if let Some(gradient) = &handler.gradient {
        judge_gradient(manifest, handler, gradient, report);
    }
}

fn find_handler<'a>(
    manifest: &'a Manifest,
    key: &str,
    name: &str,
    report: &mut Report<'_>,
) -> Option<&'a Handler> {
    let found = manifest.handlers.iter().find(|other| other.name == name);
    if found.is_none() {
        let names: Vec<_> = manifest.handlers.iter().map(|h| h.name.as_str()).collect();
        report(
            format!("its {key} handler '{name}' is not in the manifest"),
            format!(
                "library {} has the handlers {}; the loader refuses the library",
                manifest.library,
                names.join(", ")
            ),
            "describe the handler in the same library, under this name",
        );
    }
    found
}

fn judge_gradient(
    manifest: &Manifest,
    handler: &Handler,
    gradient: &Gradient,
    report: &mut Report<'_>,
) {
    let found: Vec<_> = gradient
        .handlers()
        .map(|(key, name)| (key, find_handler(manifest, key, name, report)))
        .collect();
    let forward = found.iter().find(|(key, _)| *key == "forward");
    // If the forward handler's results are unknown, the operands of the other handlers cannot be checked.
    let forward = match forward {
        None => None,
        Some((_, None)) => return,
        Some((_, Some(forward))) => Some(*forward),
    };
    let (args, rets) = (&handler.args, &handler.rets);
    let more = forward.map_or(&[][..], |forward| {
        forward.rets.get(rets.len()..).unwrap_or_default()
    });
    for (side, operands) in [("argument", args), ("result", rets)] {
        if !operands.iter().any(may_vary) {
            return report(
                format!("declares a gradient, but has no {side} of a float or complex type"),
                "the loader refuses the library".to_owned(),
                "remove the gradient, or declare the operands' element types",
            );
        }
    }
    let Some(saved) = residuals(handler, gradient, more, report) else {
        return;
    };
    let (linear_args, linear_rets) = (varying(args), varying(rets));
    let certain = args.iter().chain(rets).all(is_certain);
    for (key, other) in found {
        let Some(other) = other else { continue };
        let (args, rets): (Vec<&Operand>, Vec<&Operand>) = match key {
            "forward" => (args.iter().collect(), rets.iter().chain(more).collect()),
            "jvp" => (both(&saved, &linear_args), linear_rets.clone()),
            _ => (both(&saved, &linear_rets), linear_args.clone()),
        };
        let wanted = Wanted {
            args,
            rets,
            deeper: 0,
        };
        check_fit(
            key,
            handler,
            other,
            &wanted,
            certain || key == "forward",
            report,
        );
    }
}

/// Returns the operands that the handlers for derivatives receive first. If an operand in the manifest's list does not
/// exist, reports a problem and returns `None`.
fn residuals<'a>(
    handler: &'a Handler,
    gradient: &Gradient,
    more: &'a [Operand],
    report: &mut Report<'_>,
) -> Option<Vec<&'a Operand>> {
    let Some(names) = &gradient.residuals else {
        let args = handler.args.iter();
        let saved = args.filter(|arg| !gradient.linear || !may_vary(arg));
        return Some(saved.collect());
    };
    // Arguments are first in this list, because a name that an argument and a result share refers to the argument.
    let operands: Vec<_> = handler
        .args
        .iter()
        .chain(&handler.rets)
        .chain(more)
        .collect();
    let mut saved = Some(vec![]);
    for name in names {
        match operands.iter().find(|operand| operand.name == *name) {
            Some(operand) => saved.iter_mut().for_each(|saved| saved.push(*operand)),
            None => {
                saved = None;
                let known: Vec<_> = operands.iter().map(|o| o.name.as_str()).collect();
                report(
                    format!("its residual '{name}' is not an operand"),
                    format!(
                        "its operands are {}; the loader refuses the library",
                        known.join(", ")
                    ),
                    "list residuals by the names of arguments and results",
                );
            }
        }
    }
    saved
}

fn both<'a>(first: &[&'a Operand], second: &[&'a Operand]) -> Vec<&'a Operand> {
    first.iter().chain(second).copied().collect()
}

fn varying(operands: &[Operand]) -> Vec<&Operand> {
    operands.iter().filter(|one| may_vary(one)).collect()
}

fn is_float(dtype: &str) -> bool {
    ["F", "BF", "C"].iter().any(|kind| dtype.starts_with(kind))
}

/// Returns true if an operand may have a float or complex type, so that derivatives of the operand may exist.
fn may_vary(operand: &Operand) -> bool {
    let dtypes = operand.dtypes.as_ref();
    operand.kind != Kind::Token
        && dtypes.is_none_or(|dtypes| dtypes.iter().any(|name| is_float(name)))
}

/// Returns true if the declaration determines whether an operand has a tangent.
fn is_certain(operand: &Operand) -> bool {
    if operand.variadic || operand.optional {
        return false;
    }
    let mut kinds = operand.dtypes.iter().flatten().map(|name| is_float(name));
    let first = kinds.next();
    operand.kind == Kind::Token || first.is_some_and(|first| kinds.all(|other| other == first))
}

/// Reports a problem if the related handler `other`, which the manifest names under `key`, does not have the required
/// operands.
fn check_fit(
    key: &str,
    handler: &Handler,
    other: &Handler,
    wanted: &Wanted<'_>,
    has_known_operands: bool,
    report: &mut Report<'_>,
) {
    let deeper = wanted.deeper;
    let operands = || {
        mismatch(&wanted.args, &other.args, "argument", deeper)
            .or_else(|| mismatch(&wanted.rets, &other.rets, "result", deeper))
    };
    let attribute = missing(handler, other);
    let problem = attribute.or_else(|| has_known_operands.then(operands).flatten());
    if let Some(problem) = problem {
        report(
            format!("its {key} handler '{}' does not fit: {problem}", other.name),
            "the loader refuses the library".to_owned(),
            "correct its operands as in docs/gradients.md; a handler for batches has the same operands with one more \
             dimension",
        );
    }
}

/// Returns the first reason why the given operands do not fit the required operands; `None` if they fit. Names are not
/// compared.
fn mismatch(wanted: &[&Operand], given: &[Operand], noun: &str, deeper: u32) -> Option<String> {
    let mut all = wanted.iter().copied().chain(given);
    if all.any(|operand| operand.variadic || operand.optional) {
        return None;
    }
    if wanted.len() != given.len() {
        let names: Vec<_> = wanted.iter().map(|operand| operand.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        return Some(format!(
            "expected {} ({names}), got {}",
            counted(wanted.len(), noun),
            given.len()
        ));
    }
    wanted.iter().zip(given).find_map(|(want, have)| {
        let (name, due) = (&have.name, &want.name);
        if (want.kind == Kind::Token) != (have.kind == Kind::Token) {
            return Some(format!(
                "{noun} `{name}` corresponds to `{due}`, but only one of them is a token"
            ));
        }
        if let (Some(wants), Some(has)) = (&want.dtypes, &have.dtypes) {
            if !wants.iter().any(|dtype| has.contains(dtype)) {
                let (has, wants) = (has.join("|"), wants.join("|"));
                return Some(format!(
                    "{noun} `{name}`: expected {wants}, as `{due}`, got {has}"
                ));
            }
        }
        // Tokens have no dimensions, so they do not get a dimension for the batch.
        let deeper = if want.kind == Kind::Token { 0 } else { deeper };
        match (want.rank, have.rank) {
            (Some(wants), Some(has)) if wants.saturating_add(deeper) != has => Some(format!(
                "{noun} `{name}`: expected rank {}, as `{due}`, got rank {has}",
                wants.saturating_add(deeper)
            )),
            _ => None,
        }
    })
}

/// Returns an error text if the related handler `other` requires an attribute that calls of `handler` do not have.
fn missing(handler: &Handler, other: &Handler) -> Option<String> {
    // If the manifest does not list a dictionary as an attribute, the attributes that are its fields declare it.
    let place = |attr: &Attribute| attr.from.clone().unwrap_or_else(|| attr.name.clone());
    let is_listed = |name: &str| {
        let mut attrs = other.attrs.iter();
        attrs.any(|attr| attr.from.is_none() && attr.name == name)
    };
    let is_mine = |name: &str| handler.attrs.iter().any(|attr| place(attr) == name);
    let needed = other
        .attrs
        .iter()
        .filter(|attr| !attr.optional && attr.from.as_deref().is_none_or(|from| !is_listed(from)))
        .map(place)
        .find(|name| !is_mine(name));
    let needed = needed.filter(|_| !handler.open_attrs)?;
    Some(format!(
        "it needs the attribute `{needed}`, which the call does not have"
    ))
}

pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
