//! The rules for programs, which the builder checks.

use super::custom_call::Config;
use super::diagnostic::Rule;
use super::{ApiVersion, CustomCall, ValueShape};
use std::collections::BTreeMap;
use xla_ffi_runtime::__programs::Indices;
use xla_ffi_runtime::{DType, Tree};

type Broken = Vec<(Rule, String)>;

/// Returns the mistakes of a call whose operands have these shapes. `None` is an operand whose shape is unknown
/// because of a mistake.
pub(super) fn custom_call(call: &CustomCall, operands: &[Option<ValueShape>]) -> Broken {
    let mut broken = vec![];
    if call.target.is_empty() || call.target.contains('\0') {
        let message = format!(
            "{:?} is not a target: a name of one or more characters without NUL is expected",
            call.target
        );
        broken.push((Rule::Target, message));
    }
    if let Config::Attributes(_) = call.config {
        if call.api_version != ApiVersion::TypedFfi {
            let message = format!(
                "{} takes an opaque, got attributes; use API_VERSION_TYPED_FFI for a typed handler",
                call.api_version
            );
            broken.push((Rule::AttributesWithLegacy, message));
        }
    }
    if let Some(literal) = &call.literal {
        if literal.shape().dtype() == DType::Token {
            let message = "a literal is an array, this is a token".to_owned();
            broken.push((Rule::Constant, message));
        }
    }
    layouts(call, operands, &mut broken);
    aliases(call, operands, &mut broken);
    broken
}

fn layouts(call: &CustomCall, operands: &[Option<ValueShape>], broken: &mut Broken) {
    let Some(layouts) = &call.operand_layouts else {
        if !call.shape.is_row_major() {
            let message = format!(
                "the result is laid out as {}, but operands have no layouts; without them everything is row-major",
                call.shape
            );
            broken.push((Rule::ResultLayout, message));
        }
        return;
    };
    if layouts.len() != operands.len() {
        let message = format!(
            "got layouts of {} operands, expected {}",
            layouts.len(),
            operands.len()
        );
        broken.push((Rule::LayoutCount, message));
    }
    for (number, (layout, operand)) in layouts.iter().zip(operands).enumerate() {
        if let Some(operand) = operand {
            if !layout.is_compatible(operand) {
                let message =
                    format!("operand {number} is {operand}, its layout is given as {layout}");
                broken.push((Rule::LayoutShape, message));
            }
        }
    }
}

fn aliases(call: &CustomCall, operands: &[Option<ValueShape>], broken: &mut Broken) {
    for (number, alias) in call.aliases.iter().enumerate() {
        let output = Indices(&alias.output);
        let source = format!(
            "{} of operand {}",
            Indices(&alias.operand_index),
            alias.operand
        );
        for earlier in &call.aliases[..number] {
            if earlier.output == alias.output {
                let message = format!("output {output} is aliased twice");
                broken.push((Rule::AliasTwice, message));
            }
            if (earlier.operand, &earlier.operand_index) == (alias.operand, &alias.operand_index) {
                let message = format!("two outputs alias {source}");
                broken.push((Rule::AliasTwice, message));
            }
        }
        let result = match call.shape.get(&alias.output) {
            Some(Tree::Leaf(leaf)) => Some(leaf),
            found => {
                let message = no_array(&format!("output {output}"), &call.shape, found);
                broken.push((Rule::AliasIndex, message));
                None
            }
        };
        let Some(operand) = operands.get(alias.operand) else {
            let message = format!(
                "output {output} aliases operand {}, there are {}",
                alias.operand,
                operands.len()
            );
            broken.push((Rule::AliasOperand, message));
            continue;
        };
        let Some(operand) = operand else { continue };
        // A target without layouts receives row-major operands, whatever the layout of their shapes is.
        let row_major = operand.row_major();
        let operand = match &call.operand_layouts {
            None => &row_major,
            Some(_) => call.laid_out(alias.operand, operand),
        };
        match (result, operand.get(&alias.operand_index)) {
            (Some(result), Some(Tree::Leaf(leaf))) => {
                if result != leaf {
                    let message = format!(
                        "output {output} is {result} and aliases {source}, which is {leaf}"
                    );
                    broken.push((Rule::AliasShape, message));
                }
            }
            (_, Some(Tree::Leaf(_))) => {}
            (_, found) => {
                broken.push((Rule::AliasIndex, no_array(&source, operand, found)));
            }
        }
    }
}

fn no_array(what: &str, shape: &ValueShape, found: Option<&ValueShape>) -> String {
    match found {
        Some(found) => format!("an alias is between arrays, {what} is {found}"),
        None => format!("an alias names {what}, which {shape} does not have"),
    }
}

/// Returns mistakes for parameters that are not numbered 0, 1, 2 and so on.
pub(super) fn parameters<'a>(
    parameters: impl Iterator<Item = (usize, &'a str)>,
    mut tell: impl FnMut(&str, Rule, String),
) {
    let mut known = BTreeMap::new();
    let mut count = 0;
    for (number, name) in parameters {
        count += 1;
        if let Some(first) = known.insert(number, name) {
            let message = format!("parameter {number} is '{first}' already");
            tell(name, Rule::ParameterTwice, message);
        }
    }
    // Only the first gap is reported, because the messages for later parameters would be the same.
    let gap = known.keys().enumerate().find(|(at, number)| at != *number);
    if let Some((missing, number)) = gap {
        let message = format!(
            "this is parameter {number}, but there is no parameter {missing}; number all {count} from 0"
        );
        tell(known[number], Rule::ParameterGap, message);
    }
}
