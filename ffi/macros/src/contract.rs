//! Generates the checks of shape contracts. `xla_ffi::shape` describes the grammar.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::LitStr;
use xla_ffi_contract::{Computed, Dim, Entry, Form};

/// Generates an entry's form, which `xla_ffi` compares with a parameter's declaration.
fn form(entry: &Entry) -> TokenStream {
    let Form {
        dims,
        ellipsis,
        repeats,
        optional,
        token,
    } = entry.form();
    quote! {
        ::xla_ffi::__private::Form {
            dims: #dims,
            ellipsis: #ellipsis,
            repeats: #repeats,
            optional: #optional,
            token: #token,
        }
    }
}

fn computed(computed: &Computed) -> TokenStream {
    let Computed {
        text, name, plus, ..
    } = computed;
    let (times, over) = (i64::from(computed.times), i64::from(computed.over));
    quote! {
        ::xla_ffi::__private::Computed {
            text: #text,
            name: #name,
            times: #times,
            over: #over,
            plus: #plus,
        }
    }
}

/// A parsed contract and the string literal that contains the contract.
pub(crate) struct Contract {
    text: LitStr,
    grammar: xla_ffi_contract::Contract,
}

/// Generates an expression that is true if `dims` fit the entry, given the values of the names in
/// `known`.
fn fits(entry: &Entry, known: &[Ident]) -> TokenStream {
    let sizes: Vec<Ident> = (0..entry.dims.len())
        .map(|index| format_ident!("__dim{index}", span = Span::mixed_site()))
        .collect();
    let dims = || entry.dims.iter().zip(&sizes);
    let patterns = dims().map(|(dim, size)| match dim {
        Dim::Any => quote!(_),
        Dim::Ellipsis => quote!(#size @ ..),
        Dim::Name(_) | Dim::Size(_) | Dim::Computed(_) => quote!(#size),
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
            Dim::Computed(computed) => {
                let (known, computed) = (&known[computed.name], self::computed(computed));
                quote!(::xla_ffi::__private::computes(const { #computed }, #known, *#size))
            }
        })
    });
    quote! {
        match __dims {
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

    /// Generates compile-time checks: the numbers of entries and operands must agree, each entry must fit its
    /// parameter, and an argument or an attribute must determine each named size.
    pub(crate) fn fits_params(&self, params: &TokenStream, info: &TokenStream) -> TokenStream {
        let (args, rets) = (self.grammar.args.len(), self.grammar.rets.len());
        let text = self.text.value();
        let span = self.text.span();
        let sides = [(true, &self.grammar.args), (false, &self.grammar.rets)];
        let entries = sides.into_iter().flat_map(|(is_arg, entries)| {
            entries.iter().enumerate().map(move |(index, entry)| {
                let form = form(entry);
                let text = &entry.text;
                quote_spanned! {span=>
                    const _: () = ::xla_ffi::__private::entry_fits(#form, #text, #params, #is_arg, #index);
                }
            })
        });
        let names = self.grammar.names.iter().enumerate().map(|(index, name)| {
            let absent = format!(
                "the shape contract `{text}` takes the size `{name}` from an attribute that may be absent: make it \
                 required, or give it a literal default, for instance `#[attr(default = 1)]`"
            );
            let untold = format!(
                "the shape contract `{text}` does not determine the size `{name}`: use it in a required argument, \
                 add an integer attribute `{name}`, or write `_` for any size"
            );
            let needed = self.grammar.needs_attribute(index).then(|| {
                quote_spanned! {span=>
                    const _: () = ::core::assert!(::xla_ffi::__private::given(&#info, #name).is_some(), #untold);
                }
            });
            quote_spanned! {span=>
                const _: () = ::core::assert!(::xla_ffi::__private::always_given(&#info, #name), #absent);
                #needed
            }
        });
        quote_spanned! {span=>
            const _: () = ::xla_ffi::__private::counts_fit(#params, #text, #args, #rets);
            #(#entries)*
            #(#names)*
        }
    }

    /// Generates statements that run `refuse` if the operands of `frame` violate the contract. There is one
    /// comparison per dimension; tables and loops are only generated if necessary.
    pub(crate) fn comparisons(&self, info: &TokenStream, refuse: &TokenStream) -> TokenStream {
        let known: Vec<Ident> = (0..self.grammar.names.len())
            .map(|index| format_ident!("__size{index}", span = Span::mixed_site()))
            .collect();
        let side = |entries: &[Entry], dims: &TokenStream, count: &TokenStream| -> TokenStream {
            let checks = entries.iter().enumerate().map(|(index, entry)| {
                let fits = fits(entry, &known);
                if entry.repeats {
                    quote! {
                        for __index in #index..__frame.#count() {
                            if let ::core::option::Option::Some(__dims) = #dims(__frame, __index) {
                                __good &= #fits;
                            }
                        }
                    }
                } else {
                    quote! {
                        if let ::core::option::Option::Some(__dims) = #dims(__frame, #index) {
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
        // For names that are not attributes, the compiler removes this code.
        let sizes = self.grammar.names.iter().enumerate().map(|(index, name)| {
            let known = &known[index];
            let entries = self.grammar.args.iter().chain(&self.grammar.rets);
            let mut dims = entries.flat_map(|entry| &entry.dims);
            let learnt = dims
                .any(|dim| *dim == Dim::Name(index))
                .then(|| quote!(mut));
            quote! {
                let #learnt #known = ::xla_ffi::__private::size_given(
                    __frame,
                    const { ::xla_ffi::__private::given(&#info, #name) },
                    &mut __good,
                );
            }
        });
        quote! {
            let mut __good = true;
            #(#sizes)*
            #ellipsis
            #args
            #rets
            if !__good {
                #refuse
            }
        }
    }

    pub(crate) fn tokens(&self, info: &TokenStream) -> TokenStream {
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
                    Dim::Computed(computed) => {
                        let computed = self::computed(computed);
                        quote!(::xla_ffi::__private::Dim::Computed(#computed))
                    }
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
                given: &[#(::xla_ffi::__private::given(&#info, #names)),*],
                args: #args,
                rets: #rets,
            }
        }
    }
}
