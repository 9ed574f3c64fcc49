//! Expands `library!`.

use crate::literal::refuse;
use crate::parameter::ours;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitStr, Path, Token};

struct Library {
    name: Option<LitStr>,
    handlers: Vec<Entry>,
    /// The listed targets of the original custom calls.
    legacy: Vec<Entry>,
    /// Whether the library registers its handlers when it is loaded.
    on_load: bool,
}

/// An entry of `library!`: `PATH` or `legacy PATH`, optionally after `#[cfg(…)]`.
struct Entry {
    cfgs: Vec<Attribute>,
    legacy: bool,
    path: Path,
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let cfgs = input.call(Attribute::parse_outer)?;
        if let Some(other) = cfgs.iter().find(|attr| !attr.path().is_ident("cfg")) {
            return refuse(other, "the only attribute of an entry is `#[cfg(…)]`");
        }
        let behind = input.fork();
        let legacy = behind.parse::<Ident>().is_ok_and(|word| word == "legacy")
            && !behind.is_empty()
            && !behind.peek(Token![,])
            && !behind.peek(Token![::]);
        if legacy {
            input.parse::<Ident>()?;
        }
        if input.peek(LitStr) {
            return Err(input.error("list a handler by its path, without quotes"));
        }
        let path = input.parse()?;
        Ok(Self { cfgs, legacy, path })
    }
}

impl Entry {
    /// Generates a call of the entry's macro, with the arguments that `macro_name` needs to export the entry as
    /// number `index`.
    fn export(
        &self,
        macro_name: &str,
        of: &str,
        index: usize,
        library: &str,
        alias: bool,
    ) -> TokenStream {
        let mut export = self.path.clone();
        if let Some(last) = export.segments.last_mut() {
            let what = if self.legacy {
                "legacy_target"
            } else {
                "handler"
            };
            last.ident = crate::expand::export_name(what, &last.ident);
        }
        let (macro_name, of) = (ours(macro_name), ours(of));
        let macro_name = match self.legacy {
            true => quote!(::xla_ffi_legacy::__private::#macro_name),
            false => quote!(::xla_ffi::__private::#macro_name),
        };
        let path = self.path.to_token_stream();
        quote!(#export! { [#macro_name] #of #index #library #alias #path })
    }
}

impl Parse for Library {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut name = None;
        if input.peek(Ident) && input.peek2(Token![=]) {
            let key: Ident = input.parse()?;
            if key != "name" {
                return refuse(key, "expected `name = \"…\";` or a list of handlers");
            }
            input.parse::<Token![=]>()?;
            name = Some(input.parse()?);
            input.parse::<Token![;]>()?;
        }
        let entries = Punctuated::<Entry, Token![,]>::parse_terminated(input)?;
        let mut entries: Vec<_> = entries.into_iter().collect();
        let before = entries.len();
        entries.retain(|entry| entry.legacy || !entry.path.is_ident("register_on_load"));
        let on_load = entries.len() < before;
        let (legacy, handlers): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.legacy);
        Ok(Self {
            name,
            handlers,
            legacy,
            on_load,
        })
    }
}

fn is_symbol(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

pub(crate) fn library(items: TokenStream) -> syn::Result<TokenStream> {
    let library: Library = syn::parse2(items)?;
    let name = match &library.name {
        Some(name) if !is_symbol(&name.value()) => {
            let why = "the name becomes part of symbols: use letters, digits and underscores, and no digit first";
            return refuse(name, why);
        }
        Some(name) => name.value(),
        None => crate::root::crate_name(),
    };
    if library.handlers.is_empty() && library.legacy.is_empty() {
        let why =
            "list the handlers of the library, for instance `library! { rms_norm, ops::Solver }`";
        return Err(syn::Error::new(proc_macro2::Span::call_site(), why));
    }
    // Only a `cdylib` may use symbol names that other libraries may also use.
    let alias = crate::root::crate_types() == ["cdylib"];
    let mut exports = Vec::new();
    for (index, entry) in library.handlers.iter().enumerate() {
        let cfgs = &entry.cfgs;
        let export = match crate::expand::named_otherwise(&entry.path) {
            Some(error) => error.to_compile_error(),
            None => entry.export("__export", "__Handler", index, &name, alias),
        };
        exports.push(quote!(#(#cfgs)* #export));
    }
    for (index, entry) in library.legacy.iter().enumerate() {
        let cfgs = &entry.cfgs;
        let export = entry.export("__export_legacy", "__Target", index, &name, alias);
        exports.push(quote!(#(#cfgs)* #export));
    }
    let legacy = &library.legacy;
    let legacy_list = (!legacy.is_empty()).then(|| legacy_list(&name, alias));
    // Each entry adds one element. If the `cfg` of an entry is false, the entry adds nothing.
    let list = |entries: &[Entry], of: TokenStream, constant: TokenStream| {
        let elements = entries.iter().enumerate().map(|(index, entry)| {
            let cfgs = &entry.cfgs;
            quote!(#(#cfgs)* #of::<#index>::#constant)
        });
        quote!(&[#(#elements),*])
    };
    let handlers = list(&library.handlers, quote!(__Handler), quote!(LISTED));
    let registrables = list(&library.handlers, quote!(__Handler), quote!(REGISTRABLE));
    let targets = list(legacy, quote!(__Target), quote!(TARGET));
    let register = format!("{name}__xla_ffi_register");
    let manifest = if alias {
        "xla_ffi_manifest".to_owned()
    } else {
        format!("{name}__xla_ffi_manifest")
    };
    let register_alias = alias.then(|| {
        quote! {
            #[unsafe(export_name = "xla_ffi_register")]
            unsafe extern "C" fn register_alias(
                __api: *const ::xla_ffi::__private::sys::XLA_FFI_Api,
                __platform: *const ::core::ffi::c_char,
            ) -> *mut ::xla_ffi::__private::sys::XLA_FFI_Error {
                // SAFETY: the caller upholds the contract of the wrapped function.
                unsafe { register(__api, __platform) }
            }
        }
    });
    let on_load = library.on_load.then(|| {
        quote! {
            extern "C" fn on_load() {
                const OWN: &::xla_ffi::__private::Library = &LIBRARY;
                ::xla_ffi::__private::register_on_load(register, OWN);
            }
            #[used]
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
            #[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
            #[cfg_attr(not(any(target_vendor = "apple", windows)), unsafe(link_section = ".init_array"))]
            static ON_LOAD: extern "C" fn() = on_load;
        }
    });
    Ok(quote! {
        const _: () = {
            // Each entry implements the constants of `__Handler` for the entry's number `N`, unless the entry causes
            // a compile error.
            struct __Handler<const N: usize>;
            struct __Target<const N: usize>;
            #[allow(unused_imports, reason = "for entries with an error")]
            use ::xla_ffi::__private::Missing as _;
            #(#exports)*
            const TARGETS: &[&::xla_ffi::__private::ListedTarget] = #targets;
            const LIBRARY: ::xla_ffi::__private::Library = ::xla_ffi::__private::Library {
                name: #name,
                register: #register,
                handlers: #handlers,
                legacy: TARGETS,
            };
            #[allow(long_running_const_eval, reason = "a large library takes its time")]
            const _: () = ::xla_ffi::__private::check(&LIBRARY);
            #[repr(C, align(16))]
            struct __Aligned<T>(T);
            #[used]
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__xla_ffi"))]
            #[cfg_attr(windows, unsafe(link_section = ".xla_ffi"))]
            #[cfg_attr(
                not(any(target_vendor = "apple", windows)),
                unsafe(link_section = ".xla_ffi_manifest")
            )]
            #[unsafe(export_name = #manifest)]
            #[allow(long_running_const_eval, reason = "the manifest of a large library takes its time")]
            static MANIFEST: __Aligned<[u8; ::xla_ffi::__private::size(&LIBRARY)]> =
                __Aligned(::xla_ffi::__private::manifest(&LIBRARY));

            /// Registers the library's handlers for a platform.
            #[unsafe(export_name = #register)]
            unsafe extern "C" fn register(
                __api: *const ::xla_ffi::__private::sys::XLA_FFI_Api,
                __platform: *const ::core::ffi::c_char,
            ) -> *mut ::xla_ffi::__private::sys::XLA_FFI_Error {
                const HANDLERS: &[::xla_ffi::__private::Registrable] = #registrables;
                // SAFETY: the caller passes a host's table, and a C string or null.
                unsafe { ::xla_ffi::__private::register(__api, __platform, #name, HANDLERS) }
            }
            #register_alias
            #legacy_list
            #on_load
        };
    })
}

/// Generates the exported functions that return the list of targets of the original custom calls.
fn legacy_list(library: &str, alias: bool) -> TokenStream {
    let mut symbols = vec![format!("{library}__xla_ffi_legacy_targets")];
    symbols.extend(alias.then(|| "xla_ffi_legacy_targets".to_owned()));
    let functions = symbols.iter().enumerate().map(|(index, symbol)| {
        let ident = quote::format_ident!("legacy_targets_{}", index);
        quote! {
            #[unsafe(export_name = #symbol)]
            extern "C" fn #ident() -> *const ::xla_ffi::__private::sys::XlaFfiLegacyTarget {
                ::xla_ffi_legacy::__private::targets(&ONCE, TARGETS)
            }
        }
    });
    quote! {
        static ONCE: ::std::sync::Once = ::std::sync::Once::new();
        #(#functions)*
    }
}
