//! `#[derive(Bind)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{DeriveInput, Type};

use crate::parameter::{ours, place};

pub(crate) fn derive(item: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let mut from: Option<Type> = None;
    for attr in input
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("bind"))
    {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("from") {
                return Err(meta.error("expected #[bind(from = TYPE)]"));
            }
            from = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    let ident = &input.ident;
    let Some(from) = from else {
        return Err(syn::Error::new_spanned(
            ident,
            "say what it is made from: #[bind(from = Buffer<'f, f32, 2>)], and implement `TryFrom` for \
             that",
        ));
    };
    let (lifetime, type_generics) = crate::attribute::generics(&input)?;
    let span = place(&from);
    let (frame, at) = (ours("__frame"), ours("__at"));
    let param = quote_spanned!(span=> <#from as ::xla_ffi::Bind<#lifetime>>::PARAM);
    let bind = quote_spanned!(span=> <#from as ::xla_ffi::Bind<#lifetime>>::bind(#frame, #at));
    let find = quote_spanned!(span=> <#from as ::xla_ffi::Bind<#lifetime>>::find(#frame, #at));
    let made = quote_spanned!(span=> <Self as ::core::convert::TryFrom<#from>>::try_from);
    Ok(quote! {
        // SAFETY: what it is made from keeps the promise, and is only read.
        unsafe impl<#lifetime> ::xla_ffi::Bind<#lifetime> for #ident #type_generics {
            const PARAM: ::xla_ffi::Param = ::xla_ffi::__private::readable(#param);

            #[inline]
            fn bind(
                __frame: &::xla_ffi::Frame<#lifetime>,
                __at: &::xla_ffi::At,
            ) -> ::core::option::Option<Self> {
                #bind.and_then(|__from| #made(__from).ok())
            }

            fn explain(
                __frame: &::xla_ffi::Frame<#lifetime>,
                __at: &::xla_ffi::At,
                __problems: &mut ::xla_ffi::Problems<'_>,
            ) {
                ::xla_ffi::__private::explain_made::<#from, Self>(__frame, __at, __problems);
            }

            fn find(
                __frame: &::xla_ffi::Frame<#lifetime>,
                __at: &::xla_ffi::At,
            ) -> ::core::option::Option<::core::option::Option<Self>> {
                let ::core::option::Option::Some(__from) = #find? else {
                    return ::core::option::Option::Some(::core::option::Option::None);
                };
                #made(__from).ok().map(::core::option::Option::Some)
            }
        }

        // SAFETY: it is made, in safe code, of what may be kept.
        unsafe impl<#lifetime> ::xla_ffi::OutlivesCall for #ident #type_generics
        where
            ::xla_ffi::__private::Made<#lifetime, #from>: ::xla_ffi::OutlivesCall,
        {
        }
    })
}
