//! The signature of a target: its convention, the shapes of its operands and their tuples.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{LitInt, LitStr, Path, Token, bracketed, parenthesized, token};

/// An operand's shape in `legacy!`, such as `f32[2, 3]`.
pub(super) struct Shape {
    pub(super) dtype: Ident,
    pub(super) dims: Vec<LitInt>,
}

impl Parse for Shape {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name: Ident = input.parse()?;
        let dims;
        bracketed!(dims in input);
        let dims = Punctuated::<LitInt, Token![,]>::parse_terminated(&dims)?;
        for dim in &dims {
            dim.base10_parse::<i64>()?;
        }
        let text = name.to_string();
        let dtype = match text.as_str() {
            "bool" | "pred" => "PRED".to_owned(),
            _ if text.starts_with('i') => text.replacen('i', "S", 1),
            _ => text.to_uppercase(),
        };
        Ok(Self {
            dtype: Ident::new(&dtype, name.span()),
            dims: dims.into_iter().collect(),
        })
    }
}

/// The operands or results of a target: the leaves, and the tuples that brackets form of the
/// leaves.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) leaves: Vec<Shape>,
    /// The structure of the tuples, such as `(_, _), _`.
    pub(super) structure: String,
    pub(super) count: usize,
}

impl Nodes {
    pub(super) fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut nodes = Self::default();
        while input.peek(syn::Ident) || input.peek(token::Paren) {
            if nodes.count > 0 {
                nodes.structure.push_str(", ");
            }
            nodes.count += 1;
            if input.peek(syn::Ident) {
                nodes.leaves.push(input.parse()?);
                nodes.structure.push('_');
            } else {
                let elements;
                parenthesized!(elements in input);
                let tuple = Self::parse(&elements)?;
                if !elements.is_empty() {
                    return Err(elements.error("expected a shape, `f32[2, 3]`, or a tuple of some"));
                }
                nodes.leaves.extend(tuple.leaves);
                nodes.structure += &format!("({})", tuple.structure);
            }
            if !input.peek(Token![,]) {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(nodes)
    }

    pub(super) fn has_tuples(&self) -> bool {
        self.structure.contains('(')
    }
}

impl Shape {
    pub(super) fn tokens(&self) -> TokenStream {
        let (dtype, dims) = (&self.dtype, &self.dims);
        quote!((::xla_ffi::DataType::#dtype, {
            const DIMS: &[i64] = &[#(#dims),*];
            DIMS
        }))
    }
}

/// SAFETY: a handler in safe code accesses memory only as the target's layout declares.
#[derive(Clone, Copy)]
pub(super) struct Convention {
    /// The name of the variant of `xla_ffi_legacy::Function`.
    variant: &'static str,
    pub(super) is_cpu: bool,
    pub(super) has_opaque: bool,
    pub(super) has_status: bool,
}

/// For each convention: the name in `legacy!`, the variant's name, and whether the convention has
/// the CPU form, opaque bytes and a status.
const ALL: [(&str, &str, [bool; 3]); 5] = [
    ("cpu", "Cpu", [true, false, false]),
    ("cpu_status", "CpuStatus", [true, false, true]),
    ("cpu_unified", "CpuUnified", [true, true, true]),
    ("gpu", "Gpu", [false, true, false]),
    ("gpu_status", "GpuStatus", [false, true, true]),
];

impl Convention {
    /// Returns the convention whose name in `legacy!` or as a variant is `wanted`.
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

    /// Returns the identifier of the variant of `xla_ffi_legacy::Function`.
    pub(super) fn variant(self) -> Ident {
        Ident::new(self.variant, Span::call_site())
    }

    /// Returns the names and types of the C function's parameters.
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

/// The options of a target in `legacy!` for tuples.
#[derive(Default)]
pub(super) struct Tuples {
    /// The form of the tuples: `"leaves"` or `"roots"`.
    pub(super) form: Option<LitStr>,
    pub(super) structure: Option<LitStr>,
    /// The pool that writes the tuples of the result on devices.
    pub(super) pool: Option<Path>,
}

impl Tuples {
    pub(super) fn is_by_roots(&self) -> bool {
        matches!(&self.form, Some(form) if form.value() == "roots")
    }

    /// Generates constant expressions for the arguments of the target's functions.
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
                    "expected a structure, for instance `(_, _) -> _`: `_` is a leaf, parentheses are a tuple"
                );
                ::core::option::Option::Some(::xla_ffi_legacy::__private::Tuples {
                    structure: STRUCTURE,
                    form: ::xla_ffi_legacy::Form::#form,
                })
            }
        }
    }
}
