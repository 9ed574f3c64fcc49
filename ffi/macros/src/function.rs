//! `#[handler]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Item, ItemFn};

use crate::expand::{self, EXECUTE, Stage};
use crate::options::Options;

pub(crate) fn handler(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    match syn::parse2(item)? {
        Item::Fn(function) => {
            if let Some(receiver) = function.sig.receiver() {
                return Err(syn::Error::new_spanned(
                    receiver,
                    "a handler is a free function; for state write `#[xla_ffi::stateful] impl Type`",
                ));
            }
            let ident = function.sig.ident.clone();
            Ok(expand::or_failed(&ident, expanded(options, function)))
        }
        Item::Impl(item) => Err(syn::Error::new_spanned(
            item.self_ty,
            "an impl block with stages wants `#[xla_ffi::stateful]`",
        )),
        other => Err(syn::Error::new_spanned(other, "a handler is a function")),
    }
}

fn expanded(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let options = Options::parse(options)?;
    let ident = function.sig.ident.clone();
    let name = options
        .name
        .as_ref()
        .map_or_else(|| ident.unraw().to_string(), syn::LitStr::value);
    let owner = quote!(#ident);
    let stage = Stage::read(&mut function.sig, EXECUTE, owner.clone(), quote!(#ident))?;
    if stage.is_async {
        expand::desugar_body(&mut function.sig, &mut function.block);
    }
    expand::inline(&mut function.attrs);
    let implementation = stage.implementation(&options);
    let stages = [stage];
    let doc = crate::doc::text(&function.attrs);
    let handler = expand::handler(&owner, &name, &doc, &options, &stages, None)?;
    let export = expand::export_macro(&ident, &name, &stages);
    let vis = &function.vis;
    // A struct with braces lives among the types, so it can share the function's name.
    Ok(quote! {
        #function
        #[doc(hidden)]
        #[allow(
            non_camel_case_types,
            dead_code,
            reason = "it stands for the function where types are asked for, if they are"
        )]
        #vis struct #ident {}
        #handler
        #implementation
        #export
    })
}
