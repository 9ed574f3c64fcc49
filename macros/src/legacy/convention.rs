//! How a target is called.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// How a target is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Convention {
    Cpu,
    CpuStatus,
    CpuUnified,
    Gpu,
    GpuStatus,
}

impl Convention {
    pub(super) fn parse(name: &Ident) -> syn::Result<Self> {
        Ok(match name.to_string().as_str() {
            "cpu" => Self::Cpu,
            "cpu_status" => Self::CpuStatus,
            "gpu" => Self::Gpu,
            "cpu_unified" => Self::CpuUnified,
            "gpu_status" => Self::GpuStatus,
            other => {
                return Err(syn::Error::new_spanned(
                    name,
                    format!(
                        "unknown convention `{other}`: expected `cpu`, `cpu_status`, `cpu_unified`, `gpu` \
                         or `gpu_status`"
                    ),
                ));
            }
        })
    }

    pub(super) fn is_cpu(self) -> bool {
        !matches!(self, Self::Gpu | Self::GpuStatus)
    }

    pub(super) fn has_status(self) -> bool {
        !matches!(self, Self::Cpu | Self::Gpu)
    }

    pub(super) fn has_opaque(self) -> bool {
        !matches!(self, Self::Cpu | Self::CpuStatus)
    }

    pub(super) fn variant(self) -> Ident {
        let name = match self {
            Self::Cpu => "Cpu",
            Self::CpuStatus => "CpuStatus",
            Self::Gpu => "Gpu",
            Self::CpuUnified => "CpuUnified",
            Self::GpuStatus => "GpuStatus",
        };
        Ident::new(name, Span::call_site())
    }

    /// Names and types of the C function's parameters.
    pub(super) fn parameters(self) -> Vec<(Ident, TokenStream)> {
        let parameter = |name: &str, ty| (Ident::new(name, Span::mixed_site()), ty);
        let status = || {
            let ty = quote!(*mut ::xla_ffi::__private::sys::XlaCustomCallStatus);
            parameter("__status", ty)
        };
        let mut all = if self.is_cpu() {
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
        if self.has_opaque() {
            all.push(parameter("__opaque", quote!(*const ::core::ffi::c_char)));
            all.push(parameter("__opaque_len", quote!(usize)));
        }
        if self.has_status() {
            all.push(status());
        }
        all
    }
}
