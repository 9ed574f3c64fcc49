//! `#[derive(State)]` and `#[derive(UserType)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{DeriveInput, LitInt, LitStr};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    State,
    UserType,
}

/// The implementation by which hosts know a type as `name`.
pub(crate) fn host_type(
    ty: &TokenStream,
    name: &TokenStream,
    kind: Kind,
    id: Option<&LitInt>,
) -> TokenStream {
    let (implemented, constructor) = match (kind, id) {
        (Kind::State, _) => (quote!(::xla_ffi::State), quote!(state(#name))),
        (Kind::UserType, None) => (quote!(::xla_ffi::UserType), quote!(user_data(#name))),
        (Kind::UserType, Some(id)) => (
            quote!(::xla_ffi::UserType),
            quote!(user_data_with_id(#name, #id)),
        ),
    };
    quote! {
        impl #implemented for #ty {
            fn host_type() -> &'static ::xla_ffi::HostType<Self> {
                static TYPE: ::xla_ffi::HostType<#ty> = ::xla_ffi::HostType::#constructor;
                &TYPE
            }
        }
    }
}

pub(crate) fn derive(item: TokenStream, kind: Kind) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    if !input.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(
            &input.generics,
            "hosts know this as one type, so it cannot be generic",
        ));
    }
    let ident = &input.ident;
    let mut name: Option<LitStr> = None;
    let mut id: Option<LitInt> = None;
    for attr in input
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("user_type"))
    {
        attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                name = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("id") {
                id = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("expected #[user_type(name = \"…\", id = 7)]"));
            }
            Ok(())
        })?;
    }
    let text = ident.unraw().to_string();
    let name = match name {
        Some(name) => quote!(#name),
        None => quote!(::core::concat!(::core::module_path!(), "::", #text)),
    };
    if let Some(id) = &id
        && id.base10_parse::<i64>().ok().is_none_or(|id| id < 1)
    {
        return Err(syn::Error::new_spanned(
            id,
            "the number of a type is above 0 and fits an i64",
        ));
    }
    Ok(host_type(&quote!(#ident), &name, kind, id.as_ref()))
}
