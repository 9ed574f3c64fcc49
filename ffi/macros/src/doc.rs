//! What authors write about their handlers, as the manifest tells it to callers.

use syn::{Attribute, Meta};

use crate::literal::{string, ungrouped};

/// The text of the documentation comments among `attrs`, a line each; empty where there are none.
pub(crate) fn text(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => string(&ungrouped(&pair.value)).ok(),
        _ => None,
    });
    let text = lines
        .map(|line| line.value())
        .collect::<Vec<_>>()
        .join("\n");
    // A comment's line begins with the blank behind `///`.
    let lines = text
        .split('\n')
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    let text = lines.collect::<Vec<_>>().join("\n");
    text.trim_matches('\n').to_owned()
}

/// The same, taken out of the list: comments may not stand on parameters.
pub(crate) fn take(attrs: &mut Vec<Attribute>) -> String {
    let text = text(attrs);
    attrs.retain(|attr| !attr.path().is_ident("doc"));
    text
}
