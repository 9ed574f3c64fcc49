//! Checks the content of manifests that have already been parsed.

use super::format::{Attribute, Batch, Gradient, Handler, Layout, Operand};
use serde_json::json;
use xla_ffi_sys::XLA_FFI_DataType;

pub(super) fn check_handler(handler: &Handler) -> Result<(), String> {
    if handler.name.is_empty() {
        return Err("\"name\" is empty".to_owned());
    }
    for (stage, symbol) in handler.stages.iter() {
        check_symbol(symbol).map_err(|what| format!("stage {stage} {what}"))?;
    }
    if handler.floor.strip_prefix('r').is_none_or(|digits| {
        !(1..4).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit())
    }) {
        return Err(format!(
            "\"floor\" is {:?}; expected a revision such as \"r1\"",
            handler.floor
        ));
    }
    for attribute in &handler.attrs {
        check_type(&attribute.ty)
            .map_err(|what| format!("attribute {:?}: {what}", attribute.name))?;
    }
    let place = |attribute: &Attribute| (attribute.from.clone(), attribute.name.clone());
    let mut places: Vec<_> = handler.attrs.iter().map(place).collect();
    places.sort_unstable();
    if let Some(pair) = places.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("attribute {:?} is described twice", pair[0].1));
    }
    check_fields(&handler.attrs)?;
    for side in [&handler.args, &handler.rets] {
        let before = side.split_last().map_or(&side[..0], |(_, before)| before);
        if let Some(operand) = before.iter().find(|operand| operand.variadic) {
            return Err(format!(
                "operand {:?} is variadic, but is not the last",
                operand.name
            ));
        }
    }
    if let Some(gradient) = &handler.gradient {
        check_gradient(gradient).map_err(|what| format!("its gradient {what}"))?;
    }
    check_batch(handler)?;
    for operand in handler.args.iter().chain(&handler.rets) {
        check_layout(operand).map_err(|what| format!("operand {:?}: {what}", operand.name))?;
    }
    for ret in &handler.rets {
        if ret.inout && !handler.args.iter().any(|arg| arg.name == ret.name) {
            return Err(format!(
                "result {:?} is inout, but no argument has that name",
                ret.name
            ));
        }
    }
    Ok(())
}

/// Checks attributes that are fields of a dictionary. If the manifest also lists the dictionary, its type must be
/// `dict`.
fn check_fields(attributes: &[Attribute]) -> Result<(), String> {
    for field in attributes {
        let mut listed = attributes.iter().filter(|attribute| {
            attribute.from.is_none() && field.from.as_ref() == Some(&attribute.name)
        });
        if let Some(other) = listed.find(|attribute| attribute.ty != "dict") {
            return Err(format!(
                "attribute {:?} is in {:?}, which is of type {} and no dictionary",
                field.name, other.name, other.ty
            ));
        }
    }
    Ok(())
}

fn check_gradient(gradient: &Gradient) -> Result<(), &'static str> {
    let ways = [
        gradient.vjp.is_some(),
        gradient.jvp.is_some(),
        gradient.linear,
    ];
    if ways.into_iter().filter(|way| *way).count() != 1 {
        return Err("has to have one of \"vjp\", \"jvp\" and \"linear\"");
    }
    if gradient.vjp.is_some() && gradient.transpose.is_some() {
        return Err("has a \"transpose\", which belongs to \"jvp\" or \"linear\", not to \"vjp\"");
    }
    if gradient.forward.is_some() && gradient.vjp.is_none() {
        return Err("has a \"forward\", which belongs to \"vjp\"");
    }
    Ok(())
}

fn check_batch(handler: &Handler) -> Result<(), String> {
    let known = match &handler.batch {
        None | Some(Batch::Handler { .. }) => true,
        Some(Batch::Word(word)) => matches!(word.as_str(), "leading" | "sequential" | "none"),
        Some(Batch::Each(words)) => {
            words.len() == handler.args.len()
                && words
                    .iter()
                    .all(|word| matches!(word.as_str(), "leading" | "shared"))
        }
    };
    if known {
        return Ok(());
    }
    Err(format!(
        "\"batch\" is {}; expected \"leading\", \"sequential\", \"none\", a list with \"leading\" or \"shared\" \
         for each argument, or {{\"handler\": NAME}}",
        json!(handler.batch)
    ))
}

fn check_layout(operand: &Operand) -> Result<(), String> {
    let known = match &operand.layout {
        Layout::Word(word) => matches!(word.as_str(), "row" | "column"),
        Layout::Order(axes) => {
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..axes.len())
                && operand.rank.is_none_or(|rank| rank as usize == axes.len())
        }
    };
    if known {
        return Ok(());
    }
    Err(format!(
        "\"layout\" is {}; expected \"row\", \"column\" or the dimensions from the slowest to the fastest",
        json!(operand.layout)
    ))
}

pub(super) fn check_symbol(symbol: &str) -> Result<(), String> {
    if symbol.is_empty() {
        return Err("names no symbol".to_owned());
    }
    Ok(())
}

/// Returns true if at least one revision has an element type with this C name.
pub(crate) fn is_dtype(name: &str) -> bool {
    let values = XLA_FFI_DataType::ENUM.values.iter();
    values
        .filter_map(|known| XLA_FFI_DataType(known.value).name())
        .any(|known| known == name)
}

fn check_type(ty: &str) -> Result<(), String> {
    const SCALARS: [&str; 13] = [
        "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "c64", "c128",
    ];
    let element = ty
        .strip_prefix('[')
        .map_or(Some(ty), |rest| rest.strip_suffix(']'));
    let known = element.is_some_and(|element| SCALARS.contains(&element))
        || matches!(ty, "str" | "dict" | "any");
    if known {
        Ok(())
    } else {
        Err(format!(
            "type {ty:?} is not known; expected bool, i8 … u64, f32, f64, c64, c128, [T] of \
             these, str, dict or any"
        ))
    }
}
