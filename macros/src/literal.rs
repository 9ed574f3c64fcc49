//! Literals and keys of the options that attributes take.

use syn::{Expr, ExprLit, Lit, LitStr, Meta};

/// A string literal.
pub(crate) fn string(expr: &Expr) -> syn::Result<LitStr> {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text.clone()),
        other => Err(syn::Error::new_spanned(other, "expected a string literal")),
    }
}

/// A name that is told to others: of a handler, an attribute, a variant.
pub(crate) fn name(expr: &Expr) -> syn::Result<LitStr> {
    let text = string(expr)?;
    let value = text.value();
    if value.is_empty() || value.chars().any(char::is_control) {
        return Err(syn::Error::new_spanned(
            text,
            "a name has at least one character, and no control characters",
        ));
    }
    Ok(text)
}

/// The error for an option that was given before.
pub(crate) fn once(seen: &mut Vec<String>, meta: &Meta) -> syn::Result<String> {
    let key = meta
        .path()
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default();
    if seen.contains(&key) {
        return Err(syn::Error::new_spanned(
            meta,
            format!("the option `{key}` is given twice"),
        ));
    }
    seen.push(key.clone());
    Ok(key)
}
