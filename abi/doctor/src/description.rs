//! Findings about invalid descriptions of handlers: unknown types, wrong shape contracts, and related handlers that are
//! missing or have the wrong operands.
//!
//! The compiler checks descriptions in Rust and C++, but not descriptions in C.

use crate::finding::{Confidence, Finding, Problem, Severity};
use crate::manifest::{Attribute, Handler, Kind, Manifest, Operand, is_dtype};
use crate::related_handlers::{self, Report, counted};
use serde_json::Value;
use xla_ffi_contract::{Clash, Contract, Declared, Entry};

pub(crate) fn findings(manifests: &[Manifest], findings: &mut Vec<Finding>) {
    for manifest in manifests {
        for handler in &manifest.handlers {
            let mut report = |what: String, why: String, fix: &str| {
                let (confidence, severity) = (Confidence::Proved, Severity::Fails);
                let finding = Finding::new(confidence, severity, Problem::Description, what, why);
                findings.push(finding.about_handler(&handler.name).fix(fix));
            };
            dtypes(handler, &mut report);
            defaults(handler, &mut report);
            ranges(&handler.attrs, &mut report);
            contract(handler, &mut report);
            related_handlers::judge(manifest, handler, &mut report);
        }
    }
}

fn dtypes(handler: &Handler, report: &mut Report<'_>) {
    let sides = [("argument", &handler.args), ("result", &handler.rets)];
    for (side, operands) in sides {
        for operand in operands {
            let named = operand.dtypes.iter().flatten();
            for dtype in named.filter(|name| !is_dtype(name)) {
                report(
                    format!(
                        "{side} `{}` has the unknown element type {dtype:?}",
                        operand.name
                    ),
                    "no revision has this element type; the loader refuses the library".to_owned(),
                    "use a name of XLA_FFI_DataType without the prefix: F32, BF16, S4, PRED, or ANY",
                );
            }
        }
    }
}

fn defaults(handler: &Handler, report: &mut Report<'_>) {
    for attribute in &handler.attrs {
        let (ty, default) = (attribute.ty.as_str(), &attribute.default);
        if !default.is_null() && !is_of_type(ty, default) {
            report(
                format!(
                    "attribute `{}`: expected a default of type {ty}, got {default}",
                    attribute.name
                ),
                "the loader refuses the library".to_owned(),
                "correct the default or the type",
            );
        }
    }
}

fn ranges(attributes: &[Attribute], report: &mut Report<'_>) {
    for attribute in attributes {
        let bounds = [("min", &attribute.min), ("max", &attribute.max)];
        let bounds = bounds.map(|(key, bound)| (key, bound.clone().map(Value::Number)));
        let ty = attribute.ty.as_str();
        let is_number = ty == "f32" || ty == "f64" || ty.starts_with(['i', 'u']);
        for (key, bound) in &bounds {
            let Some(bound) = bound else { continue };
            if !is_number || !is_of_type(ty, bound) {
                report(
                    format!(
                        "attribute `{}`: expected {key} of type {ty}, got {bound}",
                        attribute.name
                    ),
                    "no value can be compared with the bound".to_owned(),
                    "correct the bound, or remove it if the type is not an integer, f32 or f64",
                );
            }
        }
        let [(_, min), (_, max)] = &bounds;
        let default = (!attribute.default.is_null()).then(|| attribute.default.clone());
        for (low, high) in [(min, max), (min, &default), (&default, max)] {
            if let (Some(low), Some(high)) = (low, high) {
                if is_more(low, high) {
                    report(
                        format!(
                            "attribute `{}`: {low} is greater than {high}",
                            attribute.name
                        ),
                        "min, default and max must be in ascending order".to_owned(),
                        "correct min, max or the default",
                    );
                }
            }
        }
    }
}

/// Returns true if the JSON number `low` is greater than the JSON number `high`.
fn is_more(low: &Value, high: &Value) -> bool {
    match (as_i128(low), as_i128(high)) {
        (Some(low), Some(high)) => low > high,
        _ => low.as_f64() > high.as_f64() && high.is_number(),
    }
}

/// Returns true if a JSON value is valid for an attribute of type `ty`.
fn is_of_type(ty: &str, value: &Value) -> bool {
    if let Some(element) = ty.strip_prefix('[') {
        let element = element.trim_end_matches(']');
        let items = value.as_array();
        return items.is_some_and(|items| items.iter().all(|item| is_of_type(element, item)));
    }
    match ty {
        "any" => true,
        "bool" => value.is_boolean(),
        "str" => value.is_string(),
        "dict" => value.is_object(),
        "f32" => value
            .as_f64()
            .is_some_and(|value| (value as f32).is_finite()),
        _ if ty.starts_with(['i', 'u']) => as_i128(value).is_some_and(|number| {
            let bits = ty[1..].parse().unwrap_or(0);
            match ty.starts_with('i') {
                true => (-(1_i128 << (bits - 1))..1 << (bits - 1)).contains(&number),
                false => (0..1_i128 << bits).contains(&number),
            }
        }),
        _ => value.is_number(),
    }
}

fn as_i128(value: &Value) -> Option<i128> {
    let negative = value.as_i64().map(i128::from);
    negative.or(value.as_u64().map(i128::from))
}

fn contract(handler: &Handler, report: &mut Report<'_>) {
    let Some(text) = &handler.shape else { return };
    let contract = match Contract::parse(text) {
        Ok(contract) => contract,
        Err(why) => {
            let what = format!("has the invalid shape contract {text:?}");
            return report(
                what,
                why,
                "correct the contract (docs/manifest.md has the grammar)",
            );
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
            report(
                format!(
                    "the shape contract {text:?} has {}, but the handler has {}",
                    counted(entries.len(), side),
                    operands.len()
                ),
                "no call fits both".to_owned(),
                "write one entry per operand: `()` for a scalar, `token` for a token, `n*` for the remaining operands",
            );
            continue;
        }
        for (entry, operand) in entries.iter().zip(operands) {
            if let Some(why) = misfit(entry, operand) {
                report(
                    format!(
                        "the entry `{}` of the shape contract {text:?} does not fit {side} `{}`",
                        entry.text, operand.name
                    ),
                    why,
                    "write one name per dimension, `?` for an optional operand, `*` for the remaining operands, `token` for a token",
                );
            }
        }
    }
}

/// Returns the reason why the shape contract's entry for an operand does not fit the operand's declaration; `None` if
/// the entry fits.
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
    let count = |optional: bool, repeats: bool| match (optional, repeats) {
        (_, true) => "any number of operands",
        (true, false) => "an optional operand",
        (false, false) => "one operand",
    };
    Some(match entry.form().clash(declared)? {
        Clash::Token => "only one of them is a token".to_owned(),
        Clash::Presence => format!(
            "the entry is for {}, but the handler declares {}",
            count(entry.optional, entry.repeats),
            count(operand.optional, operand.variadic)
        ),
        Clash::Rank => format!("its rank is {}", operand.rank.unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_the_type_and_have_the_default() {
        let found = |attribute: &str| {
            let attribute = format!(r#"{{"name":"n","optional":true,{attribute}}}"#);
            let attribute: Attribute = serde_json::from_str(&attribute).unwrap();
            let mut count = 0;
            ranges(&[attribute], &mut |_, _, _| count += 1);
            count
        };
        for fine in [
            r#""type":"i64","min":1,"max":9,"default":1"#,
            r#""type":"f32","min":0.5"#,
            r#""type":"u64","min":0,"max":18446744073709551615"#,
        ] {
            assert_eq!(found(fine), 0, "{fine}");
        }
        for wrong in [
            r#""type":"i64","min":0.5"#,
            r#""type":"str","min":1"#,
            r#""type":"u8","min":-1"#,
            r#""type":"i64","min":2,"max":1"#,
            r#""type":"f64","min":2,"default":1.5"#,
            r#""type":"i64","min":0,"max":9,"default":10"#,
        ] {
            assert_eq!(found(wrong), 1, "{wrong}");
        }
    }
}
