//! Generates the exported symbols of one handler.

use crate::expand::{EXECUTE, STAGES};
use crate::literal::refuse;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{LitBool, LitInt, LitStr, Path};

/// `"NAME" [STAGES] "CRATE" OF INDEX "LIBRARY" ALIAS PATH`: the handler provides the first three parts, and
/// `library!` the other parts.
struct Export {
    name: LitStr,
    stages: Vec<u32>,
    /// The crate that defines the handler.
    origin: LitStr,
    /// The type with the constants of the library's entries, and the index of the handler's entry.
    of: Ident,
    index: LitInt,
    library: LitStr,
    alias: bool,
    path: Path,
}

impl Parse for Export {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        let list;
        syn::bracketed!(list in input);
        let mut stages = Vec::new();
        while !list.is_empty() {
            stages.push(list.parse::<LitInt>()?.base10_parse()?);
        }
        Ok(Self {
            name,
            stages,
            origin: input.parse()?,
            of: input.parse()?,
            index: input.parse()?,
            library: input.parse()?,
            alias: input.parse::<LitBool>()?.value,
            path: input.parse()?,
        })
    }
}

/// Converts a name to a part of a symbol: characters that C does not allow become underscores.
fn symbol(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == '_' || c.is_ascii_alphanumeric() {
                c
            } else {
                '_'
            }
        })
        .collect()
}

pub(crate) fn export(items: TokenStream) -> syn::Result<TokenStream> {
    let Export {
        name,
        stages,
        origin,
        of,
        index,
        library,
        alias,
        path,
    } = syn::parse2(items)?;
    let base = symbol(&name.value());
    if is_reserved(&base) {
        let why = format!(
            "the symbol `{base}` would replace a function of the C library: give the handler another name, \
             `#[xla_ffi::handler(name = \"my_{base}\")]`"
        );
        return refuse(&path, why);
    }
    let mut symbols = Vec::new();
    let mut functions = Vec::new();
    for stage in stages {
        let number = usize::try_from(stage).unwrap_or_default();
        let short = if stage == EXECUTE {
            base.clone()
        } else {
            format!("{base}_{}", STAGES[number])
        };
        let long = format!("{}__{short}", library.value());
        // The code is in a function that is not exported, which the exported functions reach with a direct jump.
        // Between exported functions, a jump would go through a table.
        let exported = |name: &str, ident: &Ident| {
            quote! {
                #[unsafe(export_name = #name)]
                unsafe extern "C" fn #ident(
                    __frame: *mut ::xla_ffi::__private::sys::XLA_FFI_CallFrame,
                ) -> *mut ::xla_ffi::__private::sys::XLA_FFI_Error {
                    // SAFETY: a host calls this function with a valid call frame.
                    unsafe { ::xla_ffi::__private::entry::<#path, #stage>(__frame) }
                }
            }
        };
        let long_entry = exported(
            &long,
            &format_ident!("long_{}", number, span = Span::mixed_site()),
        );
        let short_entry = alias.then(|| {
            exported(
                &short,
                &format_ident!("short_{}", number, span = Span::mixed_site()),
            )
        });
        functions.push(quote! {
            #long_entry
            #short_entry
        });
        symbols.push(long);
    }
    let listed = crate::expand::listed(&path, &origin);
    let handler = quote!(<#path as ::xla_ffi::__private::Handler>);
    Ok(quote! {
        const _: () = {
            #(#functions)*
            #listed
            impl #of<#index> {
                const LISTED: ::xla_ffi::__private::Listed =
                    (&#handler::INFO, #handler::ABOUT, &[#(#symbols),*]);
                const REGISTRABLE: ::xla_ffi::__private::Registrable =
                    (&#handler::INFO, #handler::ENTRIES);
            }
        };
    })
}

/// Expands `"NAME" [STAGES] "CRATE" PATH`: marks a handler as used although it is not listed.
pub(crate) fn used(items: TokenStream) -> syn::Result<TokenStream> {
    struct Used(LitStr, Path);
    impl Parse for Used {
        fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
            input.parse::<LitStr>()?;
            input.parse::<proc_macro2::Group>()?;
            Ok(Self(input.parse()?, input.parse()?))
        }
    }
    let Used(origin, path) = syn::parse2(items)?;
    Ok(crate::expand::listed(&path, &origin).unwrap_or_default())
}

/// The names of C functions, which handlers must not export. The head of `reserved.txt` describes the sources of the
/// names.
const CALLED: &str = include_str!("reserved.txt");

/// Returns true if the C library uses or reserves a symbol. ISO C reserves names that begin with two underscores, or
/// with an underscore and a capital letter (`__errno_location`, `_Unwind_Resume`).
pub(crate) fn is_reserved(symbol: &str) -> bool {
    if let Some(rest) = symbol.strip_prefix('_') {
        if rest.starts_with(|c: char| c == '_' || c.is_ascii_uppercase()) {
            return true;
        }
    }
    symbol == "main" || CALLED.lines().any(|name| name == symbol)
}
