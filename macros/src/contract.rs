//! Shape contracts. The grammar is told in `xla_ffi::shape`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::LitStr;
use xla_ffi_contract::{Dim, Entry};

/// An entry as `xla_ffi` compares it with a parameter.
fn written(entry: &Entry) -> TokenStream {
    let ellipsis = entry.has_ellipsis();
    let dims = entry.dims.len() - usize::from(ellipsis);
    let (repeats, optional, token) = (entry.repeats, entry.optional, entry.token);
    quote! {
        ::xla_ffi::__private::Written {
            dims: #dims,
            ellipsis: #ellipsis,
            repeats: #repeats,
            optional: #optional,
            token: #token,
        }
    }
}

/// A contract and the literal that it is read from.
pub(crate) struct Contract {
    text: LitStr,
    grammar: xla_ffi_contract::Contract,
}

/// An expression: whether `dims` fit the entry, given what the names already stand for.
fn fits(entry: &Entry, known: &[Ident]) -> TokenStream {
    let sizes: Vec<Ident> = (0..entry.dims.len())
        .map(|index| format_ident!("__dim{index}", span = Span::mixed_site()))
        .collect();
    let dims = || entry.dims.iter().zip(&sizes);
    let patterns = dims().map(|(dim, size)| match dim {
        Dim::Any => quote!(_),
        Dim::Ellipsis => quote!(#size @ ..),
        Dim::Name(_) | Dim::Size(_) => quote!(#size),
    });
    let checks = dims().filter_map(|(dim, size)| {
        Some(match dim {
            Dim::Any => return None,
            Dim::Size(expected) => {
                let expected = i64::from(*expected);
                quote!((*#size == #expected))
            }
            Dim::Name(index) => {
                let known = &known[*index];
                quote!(::xla_ffi::__private::same_size(&mut #known, *#size))
            }
            Dim::Ellipsis => {
                quote!(::xla_ffi::__private::same_dims(&mut __ellipsis, #size))
            }
        })
    });
    quote! {
        match dims {
            [#(#patterns),*] => true #(& #checks)*,
            #[allow(unreachable_patterns, reason = "a contract may take every shape")]
            _ => false,
        }
    }
}

impl Contract {
    pub(crate) fn parse(text: &LitStr) -> syn::Result<Self> {
        let grammar = xla_ffi_contract::Contract::parse(&text.value())
            .map_err(|why| syn::Error::new_spanned(text, why))?;
        Ok(Self {
            text: text.clone(),
            grammar,
        })
    }

    pub(crate) fn text(&self) -> &LitStr {
        &self.text
    }

    /// Tells at compile time when the contract has another number of entries than the handler has
    /// operands, or when an entry does not fit its parameter.
    pub(crate) fn fits_params(&self, params: &TokenStream) -> TokenStream {
        let (args, rets) = (self.grammar.args.len(), self.grammar.rets.len());
        let text = self.text.value();
        let message = format!(
            "the shape contract `{text}` has {args} arguments and {rets} results, the handler another \
             number"
        );
        let span = self.text.span();
        let sides = [(true, &self.grammar.args), (false, &self.grammar.rets)];
        let entries = sides.into_iter().flat_map(|(is_arg, entries)| {
            entries.iter().enumerate().map(move |(index, entry)| {
                let written = written(entry);
                let side = if is_arg { "argument" } else { "result" };
                let message = format!(
                    "the entry `{}` of the shape contract does not fit {side} {index}: as many \
                     dimensions as its rank, `?` on optional operands and on no others, `*` on \
                     remaining ones, `token` on tokens",
                    entry.text
                );
                quote_spanned! {span=>
                    const _: () = assert!(#written.fits(#params, #is_arg, #index), #message);
                }
            })
        });
        quote_spanned! {span=>
            const _: () = assert!(
                ::xla_ffi::__private::operands(#params, true) == #args
                    && ::xla_ffi::__private::operands(#params, false) == #rets,
                #message
            );
            #(#entries)*
        }
    }

    /// Statements that run `refuse` when the operands of `frame` break the contract: one comparison
    /// for each dimension, without tables or loops where none are needed.
    pub(crate) fn comparisons(&self, refuse: &TokenStream) -> TokenStream {
        let known: Vec<Ident> = (0..self.grammar.names.len())
            .map(|index| format_ident!("__size{index}", span = Span::mixed_site()))
            .collect();
        let side = |entries: &[Entry], dims: &TokenStream, count: &TokenStream| -> TokenStream {
            let checks = entries.iter().enumerate().map(|(index, entry)| {
                let fits = fits(entry, &known);
                if entry.repeats {
                    quote! {
                        for index in #index..frame.#count() {
                            if let ::core::option::Option::Some(dims) = #dims(frame, index) {
                                __good &= #fits;
                            }
                        }
                    }
                } else {
                    quote! {
                        if let ::core::option::Option::Some(dims) = #dims(frame, #index) {
                            __good &= #fits;
                        }
                    }
                }
            });
            quote!(#(#checks)*)
        };
        let args = side(
            &self.grammar.args,
            &quote!(::xla_ffi::__private::arg_dims),
            &quote!(arg_count),
        );
        let rets = side(
            &self.grammar.rets,
            &quote!(::xla_ffi::__private::ret_dims),
            &quote!(ret_count),
        );
        let ellipsis = self
            .grammar
            .args
            .iter()
            .chain(&self.grammar.rets)
            .any(Entry::has_ellipsis)
            .then(|| quote!(let mut __ellipsis = ::core::option::Option::None;));
        quote! {
            #(let mut #known = ::core::option::Option::None;)*
            #ellipsis
            let mut __good = true;
            #args
            #rets
            if !__good {
                #refuse
            }
        }
    }

    pub(crate) fn tokens(&self) -> TokenStream {
        let text = &self.text;
        let names = &self.grammar.names;
        let entries = |entries: &[Entry]| {
            let entries = entries.iter().map(|entry| {
                let repeats = entry.repeats;
                let dims = entry.dims.iter().map(|dim| match dim {
                    Dim::Name(index) => quote!(::xla_ffi::__private::Dim::Name(#index)),
                    Dim::Size(size) => {
                        let size = *size as usize;
                        quote!(::xla_ffi::__private::Dim::Size(#size))
                    }
                    Dim::Any => quote!(::xla_ffi::__private::Dim::Any),
                    Dim::Ellipsis => quote!(::xla_ffi::__private::Dim::Ellipsis),
                });
                quote!(::xla_ffi::__private::Entry { dims: &[#(#dims),*], repeats: #repeats })
            });
            quote!(&[#(#entries),*])
        };
        let args = entries(&self.grammar.args);
        let rets = entries(&self.grammar.rets);
        quote! {
            ::xla_ffi::__private::Contract {
                text: #text,
                names: &[#(#names),*],
                args: #args,
                rets: #rets,
            }
        }
    }
}
