//! What a manifest says of a handler and cannot be: types that are none, a contract for other operands, handlers that
//! are not there. Rust's and C++'s manifests are judged when they are compiled; C's text is its author's.

use crate::finding::{Finding, Level, Problem, Weight};
use crate::manifest::{Batch, Gradient, Handler, Kind, Manifest, Operand};
use xla_ffi_contract::{Contract, Entry};
use xla_ffi_sys::XLA_FFI_DataType;

pub(crate) fn findings(manifests: &[Manifest], findings: &mut Vec<Finding>) {
    for manifest in manifests {
        for handler in &manifest.handlers {
            let mut told = |what: String, why: String, fix: &str| {
                let (level, weight) = (Level::Proved, Weight::Fails);
                let finding = Finding::new(level, weight, Problem::Description, what, why);
                findings.push(finding.about_handler(&handler.name).fix(fix));
            };
            dtypes(handler, &mut told);
            contract(handler, &mut told);
            others(manifest, handler, &mut told);
        }
    }
}

type Told<'a> = dyn FnMut(String, String, &str) + 'a;

fn dtypes(handler: &Handler, told: &mut Told<'_>) {
    let sides = [("argument", &handler.args), ("result", &handler.rets)];
    for (side, operands) in sides {
        for operand in operands {
            let named = operand.dtypes.iter().flatten();
            for dtype in named.filter(|name| !is_dtype(name)) {
                told(
                    format!(
                        "its {side} '{}' has the unknown dtype {dtype:?}",
                        operand.name
                    ),
                    "no revision has an element type of that name; the loader refuses the library"
                        .to_owned(),
                    "dtypes are spelled as in XLA_FFI_DataType, without the prefix: F32, BF16, S4, PRED; any is ANY",
                );
            }
        }
    }
}

fn is_dtype(name: &str) -> bool {
    let values = XLA_FFI_DataType::ENUM.values.iter();
    values
        .filter_map(|known| XLA_FFI_DataType(known.value).name())
        .any(|known| known == name)
}

fn contract(handler: &Handler, told: &mut Told<'_>) {
    let Some(text) = &handler.shape else { return };
    let contract = match Contract::parse(text) {
        Ok(contract) => contract,
        Err(why) => {
            let what = format!("its shape contract {text:?} cannot be read");
            return told(what, why, "docs/manifest.md has what a contract may say");
        }
    };
    if !handler.described {
        return;
    }
    let sides = [
        ("argument", &contract.args, &handler.args),
        ("result", &contract.rets, &handler.rets),
    ];
    for (side, entries, operands) in sides {
        if entries.len() != operands.len() {
            told(
                format!(
                    "its shape contract {text:?} has {}, and the handler {}",
                    counted(entries.len(), side),
                    operands.len()
                ),
                "each operand has one entry, so that no call fits both".to_owned(),
                "write one entry for each operand: `()` for a scalar, `token` for a token, `n*` for all that are left",
            );
            continue;
        }
        for (entry, operand) in entries.iter().zip(operands) {
            if let Some(why) = misfit(entry, operand) {
                told(
                    format!(
                        "the entry `{}` of its shape contract {text:?} does not fit its {side} '{}'",
                        entry.text, operand.name
                    ),
                    why,
                    "write as many dimensions as the rank, `?` where the operand may be absent, `*` where it stands for \
                     all that are left, `token` for a token",
                );
            }
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Why no call, or not every call that the operand allows, fits the entry.
fn misfit(entry: &Entry, operand: &Operand) -> Option<String> {
    let dims = entry.dims.len() - usize::from(entry.has_ellipsis());
    let only_token = operand.dtypes.as_deref() == Some(&["TOKEN".to_owned()]);
    let is_token = operand.kind == Kind::Token || only_token;
    if entry.token != is_token {
        return Some("one of them alone is a token".to_owned());
    }
    if entry.repeats != operand.variadic || entry.optional != operand.optional {
        let say = |optional: bool, variadic: bool| match (optional, variadic) {
            (_, true) => "any number of operands",
            (true, false) => "one that may be absent",
            (false, false) => "one operand",
        };
        return Some(format!(
            "the entry is for {}, the handler declares {}",
            say(entry.optional, entry.repeats),
            say(operand.optional, operand.variadic)
        ));
    }
    let rank = operand.rank? as usize;
    let fits = dims == rank || (entry.has_ellipsis() && dims <= rank);
    (!fits && !is_token).then(|| format!("its rank is {rank}"))
}

fn others(manifest: &Manifest, handler: &Handler, told: &mut Told<'_>) {
    let names: Vec<_> = manifest.handlers.iter().map(|h| h.name.as_str()).collect();
    let mut named: Vec<(&str, &str)> = Vec::new();
    if let Some(gradient) = &handler.gradient {
        named.extend(gradient.handlers());
    }
    if let Some(Batch::Handler { handler }) = &handler.batch {
        named.push(("batch", handler));
    }
    for (key, name) in named {
        if !names.contains(&name) {
            told(
                format!("its {key} is the handler '{name}', which its manifest does not have"),
                format!(
                    "the library {} has {}; the loader refuses it",
                    manifest.library,
                    names.join(", ")
                ),
                "describe that handler in the same library, under the name that is called here",
            );
        }
    }
    if let Some(gradient) = &handler.gradient {
        residuals(manifest, handler, gradient, told);
    }
}

fn residuals(manifest: &Manifest, handler: &Handler, gradient: &Gradient, told: &mut Told<'_>) {
    let forward = gradient.forward.as_ref().map(|name| {
        let mut handlers = manifest.handlers.iter();
        handlers.find(|other| other.name == *name)
    });
    let more = match forward {
        None => [].iter(),
        // Which results it has is not known: that it is missing has been told.
        Some(None) => return,
        Some(Some(forward)) => forward.rets.iter(),
    };
    let operands = handler.args.iter().chain(&handler.rets).chain(more);
    let operands: Vec<_> = operands.map(|operand| operand.name.as_str()).collect();
    for name in gradient.residuals.iter().flatten() {
        if !operands.contains(&name.as_str()) {
            told(
                format!("its residual '{name}' is none of its operands"),
                format!(
                    "they are {}; the loader refuses the library",
                    operands.join(", ")
                ),
                "residuals are arguments and results, by name",
            );
        }
    }
}
