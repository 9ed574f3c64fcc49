//! Expands `legacy!`, which defines targets of the original conventions.

mod signature;

use self::signature::{Convention, Nodes, Shape, Tuples};
use crate::export::is_reserved;
use crate::literal::refuse;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, LitBool, LitInt, LitStr, Path, Token, Visibility, bracketed, parenthesized};

enum Layout {
    Fixed(Vec<Shape>, Vec<Shape>),
    /// The path of the function that decodes the opaque bytes, with the author's `unsafe`.
    FromOpaque(Token![unsafe], Path),
}

struct Target {
    attributes: Vec<Attribute>,
    vis: Visibility,
    name: Ident,
    /// The author's `unsafe`, which promises that a bare function has the declared convention.
    unsafety: Option<Token![unsafe]>,
    convention: Convention,
    function: Path,
    platforms: Vec<LitStr>,
    opaque: Option<LitStr>,
    layout: Option<Layout>,
    tuples: Tuples,
}

impl Parse for Target {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        let unsafety = input.parse()?;
        let convention_name: Ident = input.parse()?;
        let convention = Convention::parse(&convention_name)?;
        let function;
        parenthesized!(function in input);
        let function = function.parse()?;
        let (mut platforms, mut opaque, mut layout) = (vec![], None, None);
        let mut tuples = Tuples::default();
        while input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
            let key: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match key.to_string().as_str() {
                "platforms" => {
                    let list;
                    bracketed!(list in input);
                    let list = Punctuated::<LitStr, Token![,]>::parse_terminated(&list)?;
                    platforms = list.into_iter().collect();
                }
                "opaque" => opaque = Some(input.parse()?),
                "tuples" => tuples.form = Some(input.parse()?),
                "structure" => tuples.structure = Some(input.parse()?),
                "pool" => tuples.pool = Some(input.parse()?),
                "shapes" => {
                    let Some(unsafety) = input.parse::<Option<Token![unsafe]>>()? else {
                        return Err(input.error(
                            "write `shapes = unsafe FUNCTION`: if the function returns wrong sizes, the handler \
                             accesses memory out of bounds",
                        ));
                    };
                    layout = Some(Layout::FromOpaque(unsafety, input.parse()?));
                }
                _ => {
                    let why = "expected `platforms = [\"…\"]`, `opaque = \"ATTRIBUTE\"`, \
                         `shapes = unsafe FUNCTION`, `structure = \"(_, _) -> _\"`, \
                         `tuples = \"leaves\"` or `\"roots\"`, or `pool = STAGING`";
                    return refuse(key, why);
                }
            }
        }
        if input.peek(Token![:]) {
            let colon: Token![:] = input.parse()?;
            if layout.is_some() || tuples.structure.is_some() {
                let why =
                    "the shapes are declared twice: remove these, or `shapes` and `structure`";
                return refuse(colon, why);
            }
            let args = Nodes::parse(input)?;
            input.parse::<Token![->]>()?;
            let rets = Nodes::parse(input)?;
            if args.has_tuples() || rets.has_tuples() {
                if rets.count != 1 {
                    let why = "a call with tuples has one result: put the shapes after `->` in parentheses";
                    return refuse(&name, why);
                }
                let structure = format!("{} -> {}", args.structure, rets.structure);
                tuples.structure = Some(LitStr::new(&structure, name.span()));
            }
            layout = Some(Layout::Fixed(args.leaves, rets.leaves));
        }
        let this = Self {
            attributes,
            vis,
            name,
            unsafety,
            convention,
            function,
            platforms,
            opaque,
            layout,
            tuples,
        };
        this.check(&convention_name)?;
        Ok(this)
    }
}

impl Target {
    fn check(&self, convention: &Ident) -> syn::Result<()> {
        let Tuples {
            form,
            structure,
            pool,
        } = &self.tuples;
        let is_bare = self.unsafety.is_some();
        let from_opaque = matches!(self.layout, Some(Layout::FromOpaque(..)));
        let is_known = |form: &LitStr| ["leaves", "roots"].contains(&form.value().as_str());
        let wants_pool = self.tuples.is_by_roots() && !self.convention.is_cpu;
        let refusals = [
            (
                is_bare && (self.layout.is_some() || self.opaque.is_some()),
                "a function on raw pointers has no shapes and no attributes: remove them",
            ),
            (
                self.layout.is_none() && structure.is_some(),
                "`structure` needs `shapes = unsafe FUNCTION`; to make tuples of declared shapes, put them in parentheses",
            ),
            (
                !is_bare && self.layout.is_none(),
                "calls of this convention carry no shapes: add `: f32[128], f32[2048] -> f32[2048]` or \
                 `shapes = unsafe FUNCTION`; for a function on raw pointers, write `unsafe` before the convention",
            ),
            (
                !self.convention.has_opaque && (self.opaque.is_some() || from_opaque),
                "this convention has no opaque bytes: use `cpu_unified`, `gpu` or `gpu_status`",
            ),
            (
                form.is_none() && structure.is_some(),
                "add the form of the tuples: `tuples = \"leaves\"` (one pointer per leaf, as today's XLA passes them) or \
                 `tuples = \"roots\"` (arrays of pointers, as originally documented)",
            ),
            (
                form.as_ref().is_some_and(|form| !is_known(form)),
                "expected `tuples = \"leaves\"` or `\"roots\"`",
            ),
            (
                form.is_some() && structure.is_none(),
                "no tuples are declared: put shapes in parentheses, `: (f32[2], f32[3]) -> (f32[2], f32[3])`, or add \
                 `structure = \"(_, _) -> (_, _)\"`",
            ),
            (
                pool.is_none() && wants_pool,
                "a device target with `tuples = \"roots\"` copies pointers to the device: add `pool = STAGING`, the name of a \
                 `static STAGING: Staging<…>`",
            ),
            (
                pool.is_some() && !wants_pool,
                "`pool` is for device targets with `tuples = \"roots\"`: remove it",
            ),
        ];
        match refusals.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => refuse(convention, why),
            None => Ok(()),
        }
    }

    fn expand(&self) -> TokenStream {
        let Self {
            attributes,
            vis,
            name,
            function,
            ..
        } = self;
        let text = name.unraw().to_string();
        let variant = self.convention.variant();
        let (names, types): (Vec<_>, Vec<_>) = self.convention.parameters().into_iter().unzip();
        let platforms: Vec<String> = if !self.platforms.is_empty() {
            self.platforms.iter().map(LitStr::value).collect()
        } else if !self.convention.is_cpu {
            vec!["CUDA".to_owned()]
        } else {
            vec!["Host".to_owned()]
        };
        let layout = match &self.layout {
            None => None,
            Some(Layout::Fixed(args, rets)) => {
                let args = args.iter().map(Shape::tokens);
                let rets = rets.iter().map(Shape::tokens);
                Some(
                    quote!(::xla_ffi_legacy::__private::Layout::Fixed(&[#(#args),*], &[#(#rets),*])),
                )
            }
            // The block has the user's span, so that `forbid(unsafe_code)` applies to it.
            Some(Layout::FromOpaque(unsafety, function)) => {
                let span = unsafety.span;
                // SAFETY: the author promises this by writing `unsafe`.
                Some(quote_spanned!(span=> unsafe {
                    ::xla_ffi_legacy::__private::Layout::from_opaque(#function)
                }))
            }
        };
        let call = match &layout {
            None => quote!(#function(#(#names),*)),
            Some(_) => {
                let attribute = self.opaque.as_ref().map_or_else(String::new, LitStr::value);
                let (entry, pool) = match (self.convention.is_cpu, &self.tuples.pool) {
                    (true, _) => (quote!(call_cpu::<#function>), None),
                    (false, None) => (quote!(call_device::<#function>), None),
                    (false, Some(pool)) => (
                        quote!(call_device_roots::<#function, _>),
                        Some(quote!(&#pool,)),
                    ),
                };
                let operands = &names[..2];
                let (opaque, opaque_len) = if self.convention.has_opaque {
                    let (opaque, len) = (&names[2], &names[3]);
                    (quote!(#opaque), quote!(#len))
                } else {
                    (quote!(::core::ptr::null()), quote!(0))
                };
                let status = match names.last() {
                    Some(status) if self.convention.has_status => quote!(#status),
                    _ => quote!(::core::ptr::null_mut()),
                };
                quote! {
                    ::xla_ffi_legacy::__private::#entry(
                        ::xla_ffi_legacy::__private::Call {
                            name: #text,
                            layout: __XLA_FFI_LAYOUT,
                            tuples: __XLA_FFI_TUPLES,
                            attribute: #attribute,
                            opaque: #opaque,
                            opaque_len: #opaque_len,
                            status: #status,
                        },
                        #pool #(#operands),*
                    )
                }
            }
        };
        let (info, tuples_info) = match &layout {
            Some(_) => (
                quote!(::core::option::Option::Some(__XLA_FFI_LAYOUT)),
                quote!(__XLA_FFI_TUPLES),
            ),
            None => {
                let none = quote!(::core::option::Option::None);
                (none.clone(), none)
            }
        };
        let call = match &self.unsafety {
            Some(unsafety) => promise(unsafety, &call),
            // SAFETY: in safe code, the target accesses memory exactly as its layout declares.
            None => quote!(unsafe { #call }),
        };
        let tuples = self.tuples.tokens();
        let layout = layout.map(|layout| {
            quote! {
                const __XLA_FFI_LAYOUT: ::xla_ffi_legacy::__private::Layout = #layout;
                const __XLA_FFI_TUPLES: ::core::option::Option<::xla_ffi_legacy::__private::Tuples> = #tuples;
            }
        });
        let handler = layout
            .is_some()
            .then(|| crate::expand::use_handler(function))
            .flatten();
        let convention = variant.to_string();
        let export_name = crate::expand::export_name("legacy_target", name);
        let export = crate::expand::export_as(&export_name, &quote!(#text #convention));
        quote! {
            #(#attributes)*
            #[allow(non_camel_case_types, reason = "targets are named like functions")]
            #[allow(dead_code, reason = "for `library!`, which need not name every item")]
            #vis struct #name {}
            const _: () = {
                #layout
                #[allow(
                    unused_unsafe,
                    clippy::undocumented_unsafe_blocks,
                    reason = "the program calls the target as it is declared"
                )]
                unsafe extern "C" fn __entry(#(#names: #types),*) {
                    #call;
                }
                impl ::xla_ffi_legacy::__private::LegacyTarget for #name {
                    const INFO: ::xla_ffi_legacy::__private::TargetInfo =
                        ::xla_ffi_legacy::__private::TargetInfo {
                            name: #text,
                            platforms: &[#(#platforms),*],
                            function: ::xla_ffi_legacy::Function::#variant(__entry),
                            layout: #info,
                            tuples: #tuples_info,
                        };
                }
            };
            #handler
            #export
        }
    }
}

/// Generates an expression in an `unsafe` block with the span of the author's `unsafe`, so that `forbid(unsafe_code)`
/// applies to it.
fn promise(unsafety: &Token![unsafe], expression: &TokenStream) -> TokenStream {
    // SAFETY: the author promises this by writing `unsafe`.
    quote_spanned!(unsafety.span=> unsafe { #expression })
}

/// Expands `unsafe EXPRESSION` to an expression in an `unsafe` block, as [`promise`] does.
pub(crate) fn promised(items: TokenStream) -> syn::Result<TokenStream> {
    struct Promised(Token![unsafe], TokenStream);
    impl Parse for Promised {
        fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
            Ok(Self(input.parse()?, input.parse()?))
        }
    }
    let Promised(unsafety, expression) = syn::parse2(items)?;
    Ok(promise(&unsafety, &expression))
}

pub(crate) fn legacy(items: TokenStream) -> syn::Result<TokenStream> {
    struct Targets(Vec<Target>);
    impl Parse for Targets {
        fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
            let targets = Punctuated::<Target, Token![;]>::parse_terminated(input)?;
            Ok(Self(targets.into_iter().collect()))
        }
    }
    let targets: Targets = syn::parse2(items)?;
    let targets = targets.0.iter().map(Target::expand);
    Ok(quote!(#(#targets)*))
}

/// Generates the exported symbols of one target from `"NAME" "CONVENTION" OF INDEX "LIBRARY" ALIAS PATH`.
pub(crate) fn export(items: TokenStream) -> syn::Result<TokenStream> {
    struct Export(LitStr, LitStr, Ident, LitInt, LitStr, bool, Path);
    impl Parse for Export {
        fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
            Ok(Self(
                input.parse()?,
                input.parse()?,
                input.parse()?,
                input.parse()?,
                input.parse()?,
                input.parse::<LitBool>()?.value,
                input.parse()?,
            ))
        }
    }
    let Export(name, convention, of, index, library, alias, path) = syn::parse2(items)?;
    let name = name.value();
    if is_reserved(&name) {
        let why = format!(
            "the symbol `{name}` would replace a function of the C library: give the target another name"
        );
        return refuse(&path, why);
    }
    let Some(convention) = Convention::named(&convention.value()) else {
        return refuse(convention, "no convention");
    };
    let variant = convention.variant();
    let (names, types): (Vec<_>, Vec<_>) = convention.parameters().into_iter().unzip();
    let mut symbols = vec![format!("{}__{name}", library.value())];
    symbols.extend(alias.then_some(name));
    let functions = symbols.iter().enumerate().map(|(index, symbol)| {
        let ident = format_ident!("symbol_{}", index, span = Span::mixed_site());
        quote! {
            #[unsafe(export_name = #symbol)]
            unsafe extern "C" fn #ident(#(#names: #types),*) {
                let __function = <#path as ::xla_ffi_legacy::__private::LegacyTarget>::INFO.function;
                if let ::xla_ffi_legacy::Function::#variant(__function) = __function {
                    // SAFETY: the caller upholds the contract of the wrapped function.
                    unsafe { __function(#(#names),*) };
                }
            }
        }
    });
    Ok(quote! {
        const _: () = {
            #(#functions)*
            impl #of<#index> {
                const TARGET: &'static ::xla_ffi::__private::ListedTarget =
                    &<#path as ::xla_ffi_legacy::__private::LegacyTarget>::INFO.listed();
            }
        };
    })
}
