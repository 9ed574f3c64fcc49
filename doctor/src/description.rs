//! What a manifest says of a handler and cannot be: types that are none, a contract for other operands, other handlers
//! that are not there or do not fit. Rust's and C++'s manifests are judged when they are compiled; C's text is its author's.

use crate::finding::{Finding, Level, Problem, Weight};
use crate::manifest::{Handler, Kind, Manifest, Operand};
use crate::relations::{self, Told, counted};
use xla_ffi_contract::{Clash, Contract, Declared, Entry};
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
            relations::judge(manifest, handler, &mut told);
        }
    }
}

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

/// Why no call, or not every call that the operand allows, fits the entry.
fn misfit(entry: &Entry, operand: &Operand) -> Option<String> {
    let token = match (operand.kind, operand.dtypes.as_deref()) {
        (Kind::Token, _) => Some(true),
        (_, None) => None,
        (_, Some(dtypes)) => Some(dtypes == ["TOKEN"]),
    };
    let declared = Declared {
        rank: operand.rank.map(|rank| rank as usize),
        repeats: operand.variadic,
        optional: operand.optional,
        token,
    };
    let say = |optional: bool, repeats: bool| match (optional, repeats) {
        (_, true) => "any number of operands",
        (true, false) => "one that may be absent",
        (false, false) => "one operand",
    };
    Some(match entry.form().clash(declared)? {
        Clash::Token => "one of them alone is a token".to_owned(),
        Clash::Presence => format!(
            "the entry is for {}, the handler declares {}",
            say(entry.optional, entry.repeats),
            say(operand.optional, operand.variadic)
        ),
        Clash::Rank => format!("its rank is {}", operand.rank.unwrap_or_default()),
    })
}
