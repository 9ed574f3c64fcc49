//! Expands `#[derive(HostType)]` and `#[derive(Bind)]`.

use crate::literal::refuse;
use crate::parameter::{ours, place};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{DeriveInput, LitInt, LitStr, Type};

/// Generates the implementation that registers a state type with hosts as `name`.
pub(crate) fn state(ty: &TokenStream, name: &TokenStream) -> TokenStream {
    implementation(ty, &quote!(::xla_ffi::bind::Registration::state(#name)))
}

fn implementation(ty: &TokenStream, made: &TokenStream) -> TokenStream {
    quote! {
        impl ::xla_ffi::HostType for #ty {
            fn registration() -> &'static ::xla_ffi::bind::Registration<Self> {
                static TYPE: ::xla_ffi::bind::Registration<#ty> = #made;
                &TYPE
            }
        }
    }
}

/// The name that libraries share a type by, and the type's number if the program chose one.
#[derive(Default)]
struct Shared {
    /// The position of the author's `unsafe`, for errors of `forbid(unsafe_code)`.
    span: Option<Span>,
    name: Option<LitStr>,
    id: Option<LitInt>,
}

const EXPECTED: &str = "expected `#[host_type(unsafe(name = \"…\"))]` or \
                        `#[host_type(unsafe(name = \"…\", id = 4242))]`";

impl Shared {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if meta.path.is_ident("name") || meta.path.is_ident("id") {
            return Err(meta.error(
                "every library that uses this name or number must mean the same type: promise it with \
                 `#[host_type(unsafe(name = \"…\"))]`, or remove the name and use the type in one library only",
            ));
        }
        if !meta.path.is_ident("unsafe") {
            return Err(meta.error(EXPECTED));
        }
        self.span = Some(meta.path.span());
        meta.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                self.name = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("id") {
                self.id = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error(EXPECTED));
            }
            Ok(())
        })
    }
}

pub(crate) fn host_type(item: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    if !input.generics.params.is_empty() {
        let why = "this type cannot be generic: hosts know it as one type";
        return refuse(&input.generics, why);
    }
    let ident = &input.ident;
    let text = ident.unraw().to_string();
    let path = quote!(::core::concat!(::core::module_path!(), "::", #text));
    let mut shared = Shared::default();
    for attr in input
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("host_type"))
    {
        attr.parse_nested_meta(|meta| shared.read(&meta))?;
    }
    let made = match (shared.span, &shared.name, &shared.id) {
        (None, ..) => quote!(::xla_ffi::bind::Registration::own()),
        // The block has the user's span, so that `forbid(unsafe_code)` applies to it.
        (Some(span), Some(name), None) => {
            // SAFETY: the author promises this by writing `unsafe`.
            quote_spanned!(span=> unsafe { ::xla_ffi::bind::Registration::user_data(#name) })
        }
        (Some(span), name, Some(id)) => {
            let name = name.as_ref().map_or(path, |name| quote!(#name));
            // SAFETY: the author promises this by writing `unsafe`.
            quote_spanned!(span=> unsafe { ::xla_ffi::bind::Registration::user_data_with_id(#name, #id) })
        }
        (Some(span), None, None) => return Err(syn::Error::new(span, EXPECTED)),
    };
    Ok(implementation(&quote!(#ident), &made))
}

pub(crate) fn bind(item: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let mut from: Option<Type> = None;
    for attr in input
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("bind"))
    {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("from") {
                return Err(meta.error("expected `#[bind(from = TYPE)]`, for instance `#[bind(from = Buffer<'f, f32, 2>)]`"));
            }
            from = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    let ident = &input.ident;
    let Some(from) = from else {
        let why = "name the parameter that it is made from, for instance `#[bind(from = Buffer<'f, f32, 2>)]`, \
                   and implement `TryFrom` for it";
        return refuse(ident, why);
    };
    let (lifetime, type_generics) = crate::attribute::generics(&input)?;
    let span = place(&from);
    let (frame, at) = (ours("__frame"), ours("__at"));
    let param = quote_spanned!(span=> <#from as ::xla_ffi::Bind<#lifetime>>::PARAM);
    let bind = quote_spanned!(span=> <#from as ::xla_ffi::Bind<#lifetime>>::bind(#frame, #at));
    let find = quote_spanned!(span=> <#from as ::xla_ffi::Bind<#lifetime>>::find(#frame, #at));
    let made = quote_spanned!(span=> <Self as ::core::convert::TryFrom<#from>>::try_from);
    Ok(quote! {
        // SAFETY: the source parameter's type upholds the contract of `Bind`, and the source is
        // only read.
        unsafe impl<#lifetime> ::xla_ffi::Bind<#lifetime> for #ident #type_generics {
            const PARAM: ::xla_ffi::bind::Param = ::xla_ffi::__private::readable(#param);

            #[inline]
            fn bind(
                __frame: &::xla_ffi::bind::Frame<#lifetime>,
                __at: &::xla_ffi::bind::At,
            ) -> ::core::option::Option<Self> {
                #bind.and_then(|__from| #made(__from).ok())
            }

            fn explain(
                __frame: &::xla_ffi::bind::Frame<#lifetime>,
                __at: &::xla_ffi::bind::At,
                __problems: &mut ::xla_ffi::bind::Problems<'_>,
            ) {
                ::xla_ffi::__private::explain_made::<#from, Self>(__frame, __at, __problems);
            }

            fn find(
                __frame: &::xla_ffi::bind::Frame<#lifetime>,
                __at: &::xla_ffi::bind::At,
            ) -> ::core::option::Option<::core::option::Option<Self>> {
                let ::core::option::Option::Some(__from) = #find? else {
                    return ::core::option::Option::Some(::core::option::Option::None);
                };
                #made(__from).ok().map(::core::option::Option::Some)
            }
        }

        // SAFETY: safe code creates the value from a parameter that outlives the call.
        unsafe impl<#lifetime> ::xla_ffi::bind::OutlivesCall for #ident #type_generics
        where
            ::xla_ffi::__private::MadeFrom<#lifetime, #from>: ::xla_ffi::bind::OutlivesCall,
        {
        }
    })
}
