//! Expands `#[handler]` and `#[stateful]`.

use crate::expand;
use crate::expand::{EXECUTE, INSTANTIATE, STAGES, Stage};
use crate::literal::refuse;
use crate::options::Options;
use crate::parameter::refuse_cfg;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{ImplItem, Item, ItemFn, ItemImpl, Type};

pub(crate) fn stateful(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let mut block: ItemImpl = syn::parse2(item)
        .map_err(|error| syn::Error::new(error.span(), "expected an `impl` block with stages"))?;
    if let Some((_, path, _)) = &block.trait_ {
        let why = "put the stages in an `impl` block of the type itself, not of a trait";
        return refuse(path, why);
    }
    while let Type::Group(group) = &*block.self_ty {
        block.self_ty = group.elem.clone();
    }
    let owner = (*block.self_ty).clone();
    let ident = match &owner {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    };
    let Some(ident) = ident.map(|segment| segment.ident.clone()) else {
        let why = "expected `impl NAME`, where NAME is a type of this crate";
        return refuse(owner, why);
    };
    Ok(expand::or_failed(&ident, expanded(options, block, &ident)))
}

fn expanded(options: TokenStream, mut block: ItemImpl, ident: &Ident) -> syn::Result<TokenStream> {
    let options = Options::parse(options)?;
    let owner = (*block.self_ty).clone();
    if !block.generics.params.is_empty() {
        let why = "a handler cannot be generic: write one type per handler";
        return refuse(&block.generics, why);
    }
    let mut stages = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(function) = item else {
            continue;
        };
        let name = function.sig.ident.clone();
        let Some(number) = STAGES.iter().position(|stage| name == stage) else {
            continue;
        };
        refuse_cfg(&function.attrs, "a stage")?;
        let stage = Stage::read(
            &mut function.sig,
            u32::try_from(number).unwrap_or(EXECUTE),
            quote!(#owner),
            quote!(<#owner>::#name),
        )?;
        if let Some(receiver) = function.sig.receiver() {
            if receiver.reference.is_none() || receiver.mutability.is_some() {
                let why = "calls share the state, some of them at the same time: take `&self`, and use a lock or \
                           an atomic for what changes";
                return refuse(receiver, why);
            }
        }
        if stage.number == INSTANTIATE && stage.takes_self {
            let why = "`instantiate` makes the state: remove `self` and return `Result<Self>`";
            return refuse(&function.sig.inputs, why);
        }
        if stage.is_async && stage.number != EXECUTE {
            let why = "only `execute` can be async: remove `async` from this stage";
            return Err(syn::Error::new(stage.span, why));
        }
        crate::mistakes::refuse_body(&stage.params, &mut function.block)?;
        if stage.is_async {
            expand::desugar_body(&mut function.sig, &mut function.block);
        }
        expand::inline(&mut function.attrs);
        stages.push(stage);
    }
    if !stages.iter().any(|stage| stage.number == EXECUTE) {
        let why = "the `execute` stage is missing: add `fn execute(&self, …) -> Result<()>`";
        return refuse(&block.self_ty, why);
    }
    let makes_state = stages.iter().any(|stage| stage.number == INSTANTIATE);
    if let Some(stage) = stages.iter().find(|stage| stage.takes_self && !makes_state) {
        let why = "nothing makes the state for `self`: add `fn instantiate(…) -> Result<Self>`";
        return Err(syn::Error::new(stage.span, why));
    }
    let takes_self = stages.iter().any(|stage| stage.takes_self);
    for stage in &mut stages {
        stage.assert_makes_state = takes_self && stage.number == INSTANTIATE;
    }
    stages.sort_by_key(|stage| stage.number);
    let name = options
        .name
        .as_ref()
        .map_or_else(|| ident.unraw().to_string(), syn::LitStr::value);
    let tokens = quote!(#owner);
    let implementations = stages.iter().map(|stage| stage.implementation(&options));
    let (state, state_type) = if makes_state {
        let known_as = quote!(::core::concat!(::core::module_path!(), "::", #name));
        let state = quote! {
            ::xla_ffi::__private::StateInfo {
                name: #known_as,
                host_type: || <#owner as ::xla_ffi::HostType>::registration().erased(),
            }
        };
        let implementation = crate::derives::state(&tokens, &known_as);
        (Some(state), Some(implementation))
    } else {
        (None, None)
    };
    let doc = crate::literal::doc_text(&block.attrs);
    let handler = expand::handler(&tokens, &name, &doc, &options, &stages, state.as_ref())?;
    let export = expand::export_macro(ident, &name, &stages);
    Ok(quote! {
        #block
        #handler
        #state_type
        #(#implementations)*
        #export
    })
}

pub(crate) fn handler(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    match syn::parse2(item)? {
        Item::Fn(function) => {
            if let Some(receiver) = function.sig.receiver() {
                let why = "a handler is a function without `self`; for state, write `#[xla_ffi::stateful]` on the `impl` block";
                return refuse(receiver, why);
            }
            let ident = function.sig.ident.clone();
            Ok(expand::or_failed(
                &ident,
                expanded_function(options, function),
            ))
        }
        Item::Impl(item) => refuse(
            item.self_ty,
            "write `#[xla_ffi::stateful]` for an `impl` block; `#[xla_ffi::handler]` is for functions",
        ),
        other => refuse(
            other,
            "expected a function; for a type with stages, write `#[xla_ffi::stateful]` on its `impl` block",
        ),
    }
}

fn expanded_function(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let options = Options::parse(options)?;
    let ident = function.sig.ident.clone();
    let name = options
        .name
        .as_ref()
        .map_or_else(|| ident.unraw().to_string(), syn::LitStr::value);
    let owner = quote!(#ident);
    let stage = Stage::read(&mut function.sig, EXECUTE, owner.clone(), quote!(#ident))?;
    crate::mistakes::refuse_body(&stage.params, &mut function.block)?;
    if stage.is_async {
        expand::desugar_body(&mut function.sig, &mut function.block);
    }
    expand::inline(&mut function.attrs);
    let implementation = stage.implementation(&options);
    let stages = [stage];
    let doc = crate::literal::doc_text(&function.attrs);
    let handler = expand::handler(&owner, &name, &doc, &options, &stages, None)?;
    let export = expand::export_macro(&ident, &name, &stages);
    let vis = &function.vis;
    // A struct with braces exists only in the type namespace, so it can have the function's name.
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
