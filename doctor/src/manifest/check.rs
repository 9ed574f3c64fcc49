//! What parses as a manifest and says something that cannot be.

use super::format::{Attribute, Batch, Gradient, Handler, Kind, Layout, Operand};
use serde_json::json;
use xla_ffi_contract::Contract;
use xla_ffi_sys::XLA_FFI_DataType;

/// More dimensions than any array has; who makes room for what a manifest says keeps to it.
const MOST_DIMENSIONS: u32 = 1024;

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
                "operand {:?} is variadic and takes all that are left, but one stands behind it",
                operand.name
            ));
        }
    }
    if let Some(gradient) = &handler.gradient {
        check_gradient(gradient).map_err(|what| format!("its gradient {what}"))?;
    }
    check_batch(handler)?;
    for operand in handler.args.iter().chain(&handler.rets) {
        if let Some(rank) = operand.rank.filter(|rank| *rank > MOST_DIMENSIONS) {
            return Err(format!(
                "operand {:?} has {rank} dimensions; at most {MOST_DIMENSIONS} are taken",
                operand.name
            ));
        }
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

/// What has fields is a dictionary; where it is not listed, they say so.
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

/// Whether a handler says that an argument of its has a further leading dimension in batches.
fn leads(handler: &Handler, index: usize) -> bool {
    match &handler.batch {
        Some(Batch::Word(word)) => word == "leading",
        Some(Batch::Each(words)) => words.get(index).is_some_and(|word| word == "leading"),
        _ => false,
    }
}

/// What a handler says of its batches is what its contract takes; a contract that is none is told elsewhere.
fn check_batch_by_contract(handler: &Handler) -> Result<(), String> {
    let contract = handler.shape.as_deref().map(Contract::parse);
    let Some(Ok(contract)) = contract else {
        return Ok(());
    };
    let entry = match &handler.batch {
        Some(Batch::Word(word)) if word == "leading" => contract.not_leading(|_| true),
        Some(Batch::Each(words)) if !words.is_empty() => {
            contract.not_leading(|index| leads(handler, index))
        }
        _ => None,
    };
    if let Some(entry) = entry {
        return Err(format!(
            "its \"batch\" has a further leading dimension, which the entry {:?} of its \"shape\" does not take: it \
             begins with \"...\", or calls are batched otherwise",
            entry.text
        ));
    }
    let entry = match &handler.batch {
        Some(Batch::Each(_)) => contract.left_behind(|index| leads(handler, index)),
        _ => None,
    };
    entry.map_or(Ok(()), |entry| {
        Err(format!(
            "its \"batch\" says \"shared\" of the entry {:?} of its \"shape\", whose \"...\" has a dimension more in \
             the operands that are \"leading\": it has no \"...\", or is \"leading\" too, or calls are batched otherwise",
            entry.text
        ))
    })
}

/// What is of one rank takes no further dimension.
fn check_batch_by_ranks(handler: &Handler) -> Result<(), String> {
    let args = handler.args.iter().enumerate();
    let mut leading = args
        .filter(|(index, arg)| leads(handler, *index) && arg.kind != Kind::Token)
        .map(|(_, arg)| arg)
        .peekable();
    let rets = handler.rets.iter().filter(|_| leading.peek().is_some());
    let rets: Vec<_> = rets.filter(|ret| ret.kind != Kind::Token).collect();
    let fixed = leading.chain(rets).find(|operand| operand.rank.is_some());
    fixed.map_or(Ok(()), |operand| {
        Err(format!(
            "its \"batch\" has a further leading dimension in {:?}, which is declared with rank {}: it is of any rank, or \
             calls are batched otherwise",
            operand.name,
            operand.rank.unwrap_or_default()
        ))
    })
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
        check_batch_by_contract(handler)?;
        return check_batch_by_ranks(handler);
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

/// A loader looks symbols up by name: a name that no linker writes is a mistake or a trap.
pub(super) fn check_symbol(symbol: &str) -> Result<(), String> {
    let fits = !symbol.is_empty()
        && symbol.len() < 4096
        && symbol
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'));
    if fits {
        Ok(())
    } else {
        Err(format!("names no symbol: {symbol:?}"))
    }
}

/// Whether any revision has an element type of that C name.
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
