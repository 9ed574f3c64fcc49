//! How a target is called.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// How a target is called.
#[derive(Clone, Copy)]
pub(super) struct Convention {
    /// Of `Function`.
    variant: &'static str,
    pub(super) is_cpu: bool,
    pub(super) has_opaque: bool,
    pub(super) has_status: bool,
}

/// The name in `legacy!`, that of the variant, and what it has: a CPU's form, opaque bytes, a status.
const ALL: [(&str, &str, [bool; 3]); 5] = [
    ("cpu", "Cpu", [true, false, false]),
    ("cpu_status", "CpuStatus", [true, false, true]),
    ("cpu_unified", "CpuUnified", [true, true, true]),
    ("gpu", "Gpu", [false, true, false]),
    ("gpu_status", "GpuStatus", [false, true, true]),
];

impl Convention {
    /// By either of its names.
    pub(super) fn named(wanted: &str) -> Option<Self> {
        let mut all = ALL.iter();
        let found = all.find(|(name, variant, _)| [*name, *variant].contains(&wanted));
        found.map(|&(_, variant, [is_cpu, has_opaque, has_status])| Self {
            variant,
            is_cpu,
            has_opaque,
            has_status,
        })
    }

    pub(super) fn parse(name: &Ident) -> syn::Result<Self> {
        Self::named(&name.to_string()).ok_or_else(|| {
            let why = "expected `cpu`, `cpu_status`, `cpu_unified`, `gpu` or `gpu_status`";
            syn::Error::new_spanned(name, why)
        })
    }

    /// The variant of `Function`.
    pub(super) fn variant(self) -> Ident {
        Ident::new(self.variant, Span::call_site())
    }

    /// Names and types of the C function's parameters.
    pub(super) fn parameters(self) -> Vec<(Ident, TokenStream)> {
        let parameter = |name: &str, ty| (Ident::new(name, Span::mixed_site()), ty);
        let mut all = if self.is_cpu {
            vec![
                parameter("__out", quote!(*mut ::core::ffi::c_void)),
                parameter("__ins", quote!(*mut *const ::core::ffi::c_void)),
            ]
        } else {
            vec![
                parameter("__stream", quote!(*mut ::core::ffi::c_void)),
                parameter("__buffers", quote!(*mut *mut ::core::ffi::c_void)),
            ]
        };
        if self.has_opaque {
            all.push(parameter("__opaque", quote!(*const ::core::ffi::c_char)));
            all.push(parameter("__opaque_len", quote!(usize)));
        }
        if self.has_status {
            let ty = quote!(*mut ::xla_ffi::__private::sys::XlaCustomCallStatus);
            all.push(parameter("__status", ty));
        }
        all
    }
}
