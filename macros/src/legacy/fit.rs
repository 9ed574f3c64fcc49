//! Whether the handler takes what a target says of its calls.

use super::{Layout, Shape, Target};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::LitStr;
use syn::ext::IdentExt;

impl Target {
    /// Constants that fail where the handler refuses every call, as far as the target says what calls are.
    pub(super) fn fits(&self) -> TokenStream {
        let Some(layout) = &self.layout else {
            return TokenStream::new();
        };
        let (handler, name) = (&self.function, self.name.unraw());
        // 3 is the stage that the original conventions have.
        let params = quote!(<#handler as ::xla_ffi::__private::Stage<3>>::PARAMS);
        let fit = quote!(::xla_ffi::__private::legacy);
        let opaque = self.opaque.as_ref().map_or_else(String::new, LitStr::value);
        let declares = self.opaque.as_ref().map(|attribute| {
            let why = format!(
                "the target `{name}` gives its opaque bytes as `{opaque}`, and the handler has no such attribute"
            );
            quote_spanned! {attribute.span()=>
                const _: () = ::core::assert!(
                    #fit::declares(&<#handler as ::xla_ffi::__private::Handler>::INFO, #attribute), #why
                );
            }
        });
        let span = self.name.span();
        let why = format!(
            "the handler of the target `{name}` needs an attribute that its calls do not have: the original conventions have \
             one, the opaque bytes, `opaque = \"…\"` in the unified form and on devices; others need a default"
        );
        let attributes = quote_spanned! {span=>
            const _: () = ::core::assert!(#fit::has_attributes(#params, #opaque), #why);
        };
        let Layout::Fixed(args, rets) = layout else {
            return quote!(#declares #attributes);
        };
        let sides = [("argument", args, true), ("result", rets, false)].map(|(noun, shapes, is_arg)| {
            let count = shapes.len();
            let why = format!("the target `{name}` has {count} {noun}{}, its handler another number", plural(count));
            let operands = shapes.iter().enumerate().map(|(index, shape)| {
                let (dtype, rank) = (&shape.dtype, shape.dims.len());
                let why = format!(
                    "{noun} {index} of the target `{name}` is {}, which its handler does not take there",
                    text(shape)
                );
                quote_spanned! {dtype.span()=>
                    const _: () = ::core::assert!(
                        #fit::operand_fits(#params, #is_arg, #index, ::xla_ffi::DataType::#dtype, #rank), #why
                    );
                }
            });
            quote_spanned! {span=>
                const _: () = ::core::assert!(#fit::count_fits(#params, #is_arg, #count), #why);
                #(#operands)*
            }
        });
        quote!(#declares #attributes #(#sides)*)
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A shape as messages have it: an array of F32 with 2 dimensions.
fn text(shape: &Shape) -> String {
    let rank = shape.dims.len();
    format!(
        "an array of {} with {rank} dimension{}",
        shape.dtype,
        plural(rank)
    )
}
