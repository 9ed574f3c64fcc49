//! What is said of tuples.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{LitStr, Path};

/// What is said of tuples.
#[derive(Default)]
pub(super) struct Tuples {
    /// `"leaves"` or `"roots"`.
    pub(super) form: Option<LitStr>,
    pub(super) structure: Option<LitStr>,
    /// The pool that writes the result's, on devices.
    pub(super) pool: Option<Path>,
}

impl Tuples {
    pub(super) fn is_by_roots(&self) -> bool {
        matches!(&self.form, Some(form) if form.value() == "roots")
    }

    /// Constant expressions: what the target's functions get.
    pub(super) fn tokens(&self) -> TokenStream {
        let Some(structure) = &self.structure else {
            return quote!(::core::option::Option::None);
        };
        let form = if self.is_by_roots() {
            quote!(Nodes)
        } else {
            quote!(Leaves)
        };
        quote! {
            {
                const STRUCTURE: &::core::primitive::str = #structure;
                const _: () = ::core::assert!(
                    ::xla_ffi_legacy::__private::is_structure(STRUCTURE),
                    "a structure has `_` for a leaf, brackets for a tuple, commas, and `->` before the result"
                );
                ::core::option::Option::Some(::xla_ffi_legacy::__private::Tuples {
                    structure: STRUCTURE,
                    form: ::xla_ffi_legacy::Form::#form,
                })
            }
        }
    }
}
