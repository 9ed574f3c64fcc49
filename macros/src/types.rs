//! `#[derive(State)]` and `#[derive(UserType)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, LitStr};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    State,
    UserType,
}

/// The implementation by which hosts know a type as `name`.
pub(crate) fn host_type(ty: &TokenStream, name: &TokenStream, kind: Kind) -> TokenStream {
    let (implemented, constructor) = match kind {
        Kind::State => (quote!(::xla_ffi::State), quote!(state)),
        Kind::UserType => (quote!(::xla_ffi::UserType), quote!(user_data)),
    };
    quote! {
        impl #implemented for #ty {
            fn host_type() -> &'static ::xla_ffi::HostType {
                static TYPE: ::xla_ffi::HostType = ::xla_ffi::HostType::#constructor::<#ty>(#name);
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
    for attr in input
        .attrs
        .iter()
        .filter(|attr| attr.path().is_ident("user_type"))
    {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("expected #[user_type(name = \"…\")]"));
            }
            name = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    let text = ident.to_string();
    let name = match name {
        Some(name) => quote!(#name),
        None => quote!(::core::concat!(::core::module_path!(), "::", #text)),
    };
    Ok(host_type(&quote!(#ident), &name, kind))
}
