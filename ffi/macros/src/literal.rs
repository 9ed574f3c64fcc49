//! Parses literals and doc comments that authors write.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Token};

/// Returns a compile error that points at the tokens `at`.
pub(crate) fn refuse<T>(at: impl ToTokens, why: impl Display) -> syn::Result<T> {
    Err(syn::Error::new_spanned(at, why))
}

/// Parses the options in the brackets of an attribute.
pub(crate) fn metas(tokens: TokenStream) -> syn::Result<Punctuated<Meta, Token![,]>> {
    let metas = Punctuated::parse_terminated.parse2(tokens);
    let mut metas = metas.map_err(|error| {
        let why = format!("{error}; write options as `name = …`, with commas between them");
        syn::Error::new(error.span(), why)
    })?;
    for meta in &mut metas {
        if let Meta::NameValue(pair) = meta {
            pair.value = ungrouped(&pair.value);
        }
    }
    Ok(metas)
}

/// Removes the invisible groups that `macro_rules` puts around substituted expressions.
pub(crate) fn ungrouped(expr: &Expr) -> Expr {
    match expr {
        Expr::Group(group) => ungrouped(&group.expr),
        Expr::Array(list) => {
            let mut list = list.clone();
            for element in &mut list.elems {
                *element = ungrouped(element);
            }
            Expr::Array(list)
        }
        Expr::Unary(unary) => {
            let mut unary = unary.clone();
            // Only groups around literals are removed. Other groups act as parentheses.
            if let literal @ Expr::Lit(_) = ungrouped(&unary.expr) {
                *unary.expr = literal;
            }
            Expr::Unary(unary)
        }
        other => other.clone(),
    }
}

/// Returns the string literal that an expression consists of.
pub(crate) fn string(expr: &Expr) -> syn::Result<LitStr> {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text.clone()),
        other => refuse(other, "expected a string literal, in quotes"),
    }
}

/// Parses the public name of a handler, an attribute or a variant.
pub(crate) fn name(expr: &Expr) -> syn::Result<LitStr> {
    let text = string(expr)?;
    let value = text.value();
    if value.is_empty() || value.chars().any(char::is_control) {
        return refuse(text, "a name must not be empty or have control characters");
    }
    Ok(text)
}

/// Returns the error for an option that is not in `options`, or has the wrong form.
pub(crate) fn unknown(meta: &Meta, key: &str, options: &str) -> syn::Error {
    let mut known = options.split(", ");
    let why = match known.find(|option| option.split(' ').next() == Some(key)) {
        Some(option) => format!("write this option as `{option}`"),
        None => format!("no option is called `{key}`; there are: {options}"),
    };
    syn::Error::new_spanned(meta, why)
}

/// Returns an option's key, or the error for an option that occurs twice.
pub(crate) fn once(seen: &mut Vec<String>, meta: &Meta) -> syn::Result<String> {
    let key = meta
        .path()
        .get_ident()
        .map(ToString::to_string)
        .unwrap_or_default();
    if seen.contains(&key) {
        return refuse(meta, format!("the option `{key}` is given twice"));
    }
    seen.push(key.clone());
    Ok(key)
}

/// Returns the text of the doc comments in `attrs`, one line per comment; empty if there are no doc
/// comments.
pub(crate) fn doc_text(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => string(&ungrouped(&pair.value)).ok(),
        _ => None,
    });
    let text = lines
        .map(|line| line.value())
        .collect::<Vec<_>>()
        .join("\n");
    // Each comment line begins with the blank after `///`.
    let lines = text
        .split('\n')
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    let text = lines.collect::<Vec<_>>().join("\n");
    text.trim_matches('\n').to_owned()
}

/// Returns the text of the doc comments and removes the comments, because parameters may not have
/// any.
pub(crate) fn take_doc(attrs: &mut Vec<Attribute>) -> String {
    let text = doc_text(attrs);
    attrs.retain(|attr| !attr.path().is_ident("doc"));
    text
}
