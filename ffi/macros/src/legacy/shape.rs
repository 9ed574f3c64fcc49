//! Shapes of operands, in tuples or not.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{LitInt, Token, bracketed, parenthesized, token};

/// `f32[2, 3]`.
pub(super) struct Shape {
    pub(super) dtype: Ident,
    pub(super) dims: Vec<LitInt>,
}

impl Parse for Shape {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name: Ident = input.parse()?;
        let dims;
        bracketed!(dims in input);
        let dims = Punctuated::<LitInt, Token![,]>::parse_terminated(&dims)?;
        for dim in &dims {
            dim.base10_parse::<i64>()?;
        }
        let text = name.to_string();
        let dtype = match text.as_str() {
            "bool" | "pred" => "PRED".to_owned(),
            _ if text.starts_with('i') => text.replacen('i', "S", 1),
            _ => text.to_uppercase(),
        };
        Ok(Self {
            dtype: Ident::new(&dtype, name.span()),
            dims: dims.into_iter().collect(),
        })
    }
}

/// The operands or results of a target: the leaves, and how brackets make tuples of them.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) leaves: Vec<Shape>,
    /// `(_, _), _`.
    pub(super) structure: String,
    pub(super) count: usize,
}

impl Nodes {
    pub(super) fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut nodes = Self::default();
        while input.peek(syn::Ident) || input.peek(token::Paren) {
            if nodes.count > 0 {
                nodes.structure.push_str(", ");
            }
            nodes.count += 1;
            if input.peek(syn::Ident) {
                nodes.leaves.push(input.parse()?);
                nodes.structure.push('_');
            } else {
                let elements;
                parenthesized!(elements in input);
                let tuple = Self::parse(&elements)?;
                if !elements.is_empty() {
                    return Err(elements.error("expected a shape, `f32[2, 3]`, or a tuple of some"));
                }
                nodes.leaves.extend(tuple.leaves);
                nodes.structure += &format!("({})", tuple.structure);
            }
            if !input.peek(Token![,]) {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(nodes)
    }

    pub(super) fn has_tuples(&self) -> bool {
        self.structure.contains('(')
    }
}

impl Shape {
    pub(super) fn tokens(&self) -> TokenStream {
        let (dtype, dims) = (&self.dtype, &self.dims);
        quote!((::xla_ffi::DataType::#dtype, {
            const DIMS: &[i64] = &[#(#dims),*];
            DIMS
        }))
    }
}
