//! Shape contracts. The grammar is told in `xla_ffi::shape`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::LitStr;

#[derive(Clone)]
enum Dim {
    Name(usize),
    Size(usize),
    Any,
    Ellipsis,
}

#[derive(Clone)]
struct Entry {
    text: String,
    dims: Vec<Dim>,
    repeats: bool,
    optional: bool,
    token: bool,
}

impl Entry {
    /// As `xla_ffi` compares it with a parameter.
    fn written(&self) -> TokenStream {
        let ellipsis = self.dims.iter().any(|dim| matches!(dim, Dim::Ellipsis));
        let dims = self.dims.len() - usize::from(ellipsis);
        let (repeats, optional, token) = (self.repeats, self.optional, self.token);
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
}

pub(crate) struct Contract {
    text: LitStr,
    names: Vec<String>,
    args: Vec<Entry>,
    rets: Vec<Entry>,
}

/// As many sizes as `xla_ffi::shape::MAX_NAMES` allows.
const MAX_NAMES: usize = 26;

impl Entry {
    /// An expression: whether `dims` fit the entry, given what the names already stand for.
    fn fits(&self, known: &[Ident]) -> TokenStream {
        let sizes: Vec<Ident> = (0..self.dims.len())
            .map(|index| format_ident!("__dim{index}", span = Span::mixed_site()))
            .collect();
        let dims = || self.dims.iter().zip(&sizes);
        let patterns = dims().map(|(dim, size)| match dim {
            Dim::Any => quote!(_),
            Dim::Ellipsis => quote!(#size @ ..),
            Dim::Name(_) | Dim::Size(_) => quote!(#size),
        });
        let checks = dims().filter_map(|(dim, size)| {
            Some(match dim {
                Dim::Any => return None,
                Dim::Size(expected) => {
                    let expected = *expected as i64;
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
}

impl Contract {
    pub(crate) fn parse(text: &LitStr) -> syn::Result<Self> {
        let value = text.value();
        let wrong = |why: String| syn::Error::new_spanned(text, why);
        let sides: Vec<&str> = value.split("->").collect();
        let [args, rets] = sides[..] else {
            return Err(wrong(format!(
                "a shape contract has one `->` between arguments and results, as in \
                 \"b n k, b k m -> b n m\"; this one has {}",
                sides.len() - 1
            )));
        };
        let mut contract = Self {
            text: text.clone(),
            names: Vec::new(),
            args: Vec::new(),
            rets: Vec::new(),
        };
        contract.args = contract.side(args).map_err(wrong)?;
        let wrong = |why: String| syn::Error::new_spanned(text, why);
        contract.rets = contract.side(rets).map_err(wrong)?;
        Ok(contract)
    }

    fn side(&mut self, text: &str) -> Result<Vec<Entry>, String> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let entries: Vec<Entry> = text
            .split(',')
            .map(|entry| self.entry(entry.trim()))
            .collect::<Result<_, _>>()?;
        if entries.iter().rev().skip(1).any(|entry| entry.repeats) {
            return Err("only the last entry of a side may repeat (`*`)".to_owned());
        }
        Ok(entries)
    }

    fn entry(&mut self, text: &str) -> Result<Entry, String> {
        let whole = text;
        let (text, repeats) = match text.strip_suffix('*') {
            Some(rest) => (rest.trim_end(), true),
            None => (text, false),
        };
        let (text, optional) = match text.strip_suffix('?') {
            Some(rest) => (rest.trim_end(), true),
            None => (text, false),
        };
        if optional && repeats {
            return Err(format!(
                "`{whole}`: any number of operands (`*`) includes none, so `?` says nothing"
            ));
        }
        let entry = |dims| Entry {
            text: whole.to_owned(),
            dims,
            repeats,
            optional,
            token: text == "token",
        };
        if text.is_empty() {
            return Err("an entry is empty; a scalar is `()`".to_owned());
        }
        if text == "()" || text == "token" {
            return Ok(entry(Vec::new()));
        }
        let dims: Vec<Dim> = text
            .split_whitespace()
            .map(|dim| self.dim(dim))
            .collect::<Result<_, _>>()?;
        let ellipses = dims
            .iter()
            .filter(|dim| matches!(dim, Dim::Ellipsis))
            .count();
        if ellipses > 1 {
            return Err(format!("`{text}` has more than one `...`"));
        }
        Ok(entry(dims))
    }

    fn dim(&mut self, text: &str) -> Result<Dim, String> {
        if text == "..." {
            return Ok(Dim::Ellipsis);
        }
        if text == "_" {
            return Ok(Dim::Any);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return text
                .parse::<u32>()
                .map(|size| Dim::Size(size as usize))
                .map_err(|_| format!("`{text}` is no size"));
        }
        let is_name = text
            .chars()
            .enumerate()
            .all(|(i, c)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()));
        if !is_name {
            return Err(format!(
                "`{text}` is no dimension; write a name, a number, `_` or `...`"
            ));
        }
        if let Some(index) = self.names.iter().position(|name| name == text) {
            return Ok(Dim::Name(index));
        }
        if self.names.len() == MAX_NAMES {
            return Err(format!("more than {MAX_NAMES} named sizes"));
        }
        self.names.push(text.to_owned());
        Ok(Dim::Name(self.names.len() - 1))
    }

    pub(crate) fn text(&self) -> &LitStr {
        &self.text
    }

    /// Tells at compile time when the contract has another number of entries than the handler has
    /// operands, or when an entry does not fit its parameter.
    pub(crate) fn fits_params(&self, params: &TokenStream) -> TokenStream {
        let (args, rets) = (self.args.len(), self.rets.len());
        let text = self.text.value();
        let message = format!(
            "the shape contract `{text}` has {args} arguments and {rets} results, the handler another \
             number"
        );
        let span = self.text.span();
        let sides = [(true, &self.args), (false, &self.rets)];
        let entries = sides.into_iter().flat_map(|(is_arg, entries)| {
            entries.iter().enumerate().map(move |(index, entry)| {
                let written = entry.written();
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
        let known: Vec<Ident> = (0..self.names.len())
            .map(|index| format_ident!("__size{index}", span = Span::mixed_site()))
            .collect();
        let side = |entries: &[Entry], dims: &TokenStream, count: &TokenStream| -> TokenStream {
            let checks = entries.iter().enumerate().map(|(index, entry)| {
                let fits = entry.fits(&known);
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
            &self.args,
            &quote!(::xla_ffi::__private::arg_dims),
            &quote!(arg_count),
        );
        let rets = side(
            &self.rets,
            &quote!(::xla_ffi::__private::ret_dims),
            &quote!(ret_count),
        );
        let ellipsis = self
            .args
            .iter()
            .chain(&self.rets)
            .any(|entry| entry.dims.iter().any(|dim| matches!(dim, Dim::Ellipsis)))
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
        let names = &self.names;
        let entries = |entries: &[Entry]| {
            let entries = entries.iter().map(|entry| {
                let repeats = entry.repeats;
                let dims = entry.dims.iter().map(|dim| match dim {
                    Dim::Name(index) => quote!(::xla_ffi::__private::Dim::Name(#index)),
                    Dim::Size(size) => quote!(::xla_ffi::__private::Dim::Size(#size)),
                    Dim::Any => quote!(::xla_ffi::__private::Dim::Any),
                    Dim::Ellipsis => quote!(::xla_ffi::__private::Dim::Ellipsis),
                });
                quote!(::xla_ffi::__private::Entry { dims: &[#(#dims),*], repeats: #repeats })
            });
            quote!(&[#(#entries),*])
        };
        let args = entries(&self.args);
        let rets = entries(&self.rets);
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
