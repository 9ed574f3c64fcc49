//! What authors write about their handlers, as the manifest tells it to callers.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use crate::literal::ungrouped;

/// The text of the documentation comments among `attrs`, a line each; empty where there are none.
pub(crate) fn text(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match ungrouped(&pair.value) {
            Expr::Lit(ExprLit {
                lit: Lit::Str(line),
                ..
            }) => Some(line.value()),
            _ => None,
        },
        _ => None,
    });
    // A comment's line begins with the blank behind `///`.
    let lines: Vec<String> = lines
        .flat_map(|text| text.split('\n').map(str::to_owned).collect::<Vec<_>>())
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// The same, taken out of the list: comments may not stand on parameters.
pub(crate) fn take(attrs: &mut Vec<Attribute>) -> String {
    let text = text(attrs);
    attrs.retain(|attr| !attr.path().is_ident("doc"));
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_are_joined_without_their_blank() {
        let item: syn::ItemFn = syn::parse_quote! {
            /// One.
            ///
            ///   Two, indented.
            #[inline]
            fn f() {}
        };
        assert_eq!(super::text(&item.attrs), "One.\n\n  Two, indented.");
    }
}
