//! A handler's transformations: the handlers that compute the handler's derivatives, and how calls are batched.
//! `docs/manifest.md` describes the operands and results of these handlers.

use crate::literal::refuse;
use crate::literal::{name, string};
use crate::parameter::Parameter;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Expr, LitStr};

/// How `vmap` may batch calls.
pub(crate) enum Batch {
    /// One batching mode for all operands: `leading`, `sequential` or `none`.
    Word(&'static str),
    /// For each argument, whether it may have the additional leading dimension.
    Each(Vec<bool>),
    /// The name of the handler that computes a batch.
    Handler(LitStr),
}

/// A handler's options for derivatives and batching.
#[derive(Default)]
pub(crate) struct Transforms {
    pub(crate) vjp: Option<LitStr>,
    pub(crate) forward: Option<LitStr>,
    pub(crate) jvp: Option<LitStr>,
    pub(crate) transpose: Option<LitStr>,
    /// The position of the option `linear`, if it is set.
    pub(crate) linear: Option<Span>,
    pub(crate) residuals: Option<(Vec<LitStr>, Span)>,
    pub(crate) batch: Option<Batch>,
}

/// Parses the value of the option `batch = …`.
pub(crate) fn batch(expr: &Expr) -> syn::Result<Batch> {
    const WORDS: [&str; 3] = ["leading", "sequential", "none"];
    let expected = || {
        syn::Error::new_spanned(
            expr,
            "expected `\"leading\"`, `\"sequential\"`, `\"none\"`, or a list with `\"leading\"` or `\"shared\"` per argument; \
             to name a handler that takes whole batches, write `batch_with = \"…\"`",
        )
    };
    match expr {
        Expr::Array(list) => {
            let words = list.elems.iter().map(|word| match string(word)?.value() {
                word if word == "leading" => Ok(true),
                word if word == "shared" => Ok(false),
                _ => Err(expected()),
            });
            let words = words.collect::<syn::Result<_>>()?;
            Ok(Batch::Each(words))
        }
        _ => {
            let text = string(expr).map_err(|_| expected())?.value();
            let word = WORDS.iter().find(|word| **word == text);
            word.copied().map(Batch::Word).ok_or_else(expected)
        }
    }
}

/// Parses the value of the option `residuals = […]`.
pub(crate) fn residuals(expr: &Expr) -> syn::Result<(Vec<LitStr>, Span)> {
    match expr {
        Expr::Array(list) => {
            let names = list.elems.iter().map(name).collect::<syn::Result<_>>()?;
            Ok((names, list.bracket_token.span.join()))
        }
        other => refuse(
            other,
            "expected a list of parameter names, for instance `[\"x\", \"y\"]`",
        ),
    }
}

impl Transforms {
    /// Refuses combinations of options that have no meaning.
    pub(crate) fn check(&self) -> syn::Result<()> {
        let error = |span: Span, why: &str| Err(syn::Error::new(span, why));
        let span = |name: &Option<LitStr>| name.as_ref().map(LitStr::span);
        let ways = [span(&self.vjp), span(&self.jvp), self.linear];
        let mut ways = ways.into_iter().flatten();
        let (first, second) = (ways.next(), ways.next());
        if let Some(second) = second {
            return error(
                second,
                "write only one of `vjp`, `jvp` and `linear`: `vjp` is for reverse mode; `jvp` or `linear` with \
                 `transpose` are for both modes",
            );
        }
        if let (Some(transpose), true) = (
            span(&self.transpose),
            self.jvp.is_none() && self.linear.is_none(),
        ) {
            return error(
                transpose,
                "`transpose` needs `jvp` or `linear`, whose linear map it transposes; for reverse mode only, write `vjp`",
            );
        }
        if let (Some(forward), true) = (span(&self.forward), self.vjp.is_none()) {
            return error(
                forward,
                "`forward` needs `vjp`: it replaces this handler when a gradient is computed",
            );
        }
        if let (Some((_, residuals)), None) = (&self.residuals, first) {
            return error(
                *residuals,
                "`residuals` are operands of a derivative: add `vjp`, `jvp` or `linear`",
            );
        }
        Ok(())
    }

    /// Refuses names that are not operands of the handler, and lists of the wrong length. `params` are the parameters
    /// of the execute stage.
    pub(crate) fn check_names(&self, params: &[Parameter]) -> syn::Result<()> {
        let Some((residuals, _)) = &self.residuals else {
            return Ok(());
        };
        // With a forward handler, the residuals are results of that handler, so they need not be operands of this
        // handler.
        if self.forward.is_some() {
            return Ok(());
        }
        for name in residuals {
            if !params.iter().any(|param| param.name() == name.value()) {
                let known: Vec<String> = params.iter().map(Parameter::name).collect();
                let why = format!(
                    "the handler has no parameter `{}`; it has {}",
                    name.value(),
                    known.join(", ")
                );
                return refuse(name, why);
            }
        }
        Ok(())
    }

    /// Generates the fields `gradient` and `batch` of `HandlerInfo`.
    pub(crate) fn fields(&self) -> TokenStream {
        let option = |name: &Option<LitStr>| match name {
            Some(name) => quote!(::core::option::Option::Some(#name)),
            None => quote!(::core::option::Option::None),
        };
        let gradient = if self.vjp.is_some() || self.jvp.is_some() || self.linear.is_some() {
            let (vjp, forward) = (option(&self.vjp), option(&self.forward));
            let (jvp, transpose) = (option(&self.jvp), option(&self.transpose));
            let linear = self.linear.is_some();
            let residuals = match &self.residuals {
                Some((names, _)) => quote!(::core::option::Option::Some(&[#(#names),*])),
                None => quote!(::core::option::Option::None),
            };
            quote! {
                ::core::option::Option::Some(::xla_ffi::__private::Gradient {
                    vjp: #vjp,
                    forward: #forward,
                    jvp: #jvp,
                    transpose: #transpose,
                    linear: #linear,
                    residuals: #residuals,
                })
            }
        } else {
            quote!(::core::option::Option::None)
        };
        let batch = match &self.batch {
            None => quote!(Undeclared),
            Some(Batch::Word(word)) => quote!(Word(#word)),
            Some(Batch::Each(words)) => quote!(Each(&[#(#words),*])),
            Some(Batch::Handler(name)) => quote!(Handler(#name)),
        };
        quote! {
            gradient: #gradient,
            batch: ::xla_ffi::__private::Batch::#batch,
        }
    }
}
