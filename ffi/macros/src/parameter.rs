//! Parameters of a stage and the `#[attr(…)]` options on them.

use crate::literal::refuse;
use crate::literal::ungrouped;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprLit, ExprUnary, FnArg, Lit, LitStr, Meta, Pat, Type, UnOp};

/// The options in `#[attr(…)]` on a parameter or a field.
#[derive(Default)]
pub(crate) struct AttrOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) default: Option<Expr>,
    pub(crate) narrow: bool,
    pub(crate) flatten: bool,
    min: Option<String>,
    max: Option<String>,
    pub(crate) present: bool,
}

impl AttrOptions {
    /// Reads the `#[attr]` attributes and removes them from the list.
    pub(crate) fn read_out(attrs: &mut Vec<syn::Attribute>) -> syn::Result<Self> {
        let options = Self::read(attrs)?;
        attrs.retain(|attr| !attr.path().is_ident("attr"));
        Ok(options)
    }

    /// Parses the `#[attr]` attributes of the list.
    pub(crate) fn read(attrs: &[syn::Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("attr")) {
            options.present = true;
            if matches!(attr.meta, Meta::Path(_)) {
                continue;
            }
            for meta in crate::literal::metas(attr.meta.require_list()?.tokens.clone())? {
                options.add(&crate::literal::once(&mut seen, &meta)?, &meta)?;
            }
            if options.has_empty_range() {
                let why = "`min` must be at most `max`, and the default between them";
                return refuse(attr, why);
            }
        }
        Ok(options)
    }

    fn add(&mut self, key: &str, meta: &Meta) -> syn::Result<()> {
        match (key, meta) {
            ("default", Meta::NameValue(pair)) => self.default = Some(pair.value.clone()),
            ("default", Meta::Path(path)) => {
                let span = path.span();
                let default = quote_spanned!(span=> ::core::default::Default::default());
                self.default = Some(syn::parse2(default)?);
            }
            ("name", Meta::NameValue(pair)) => {
                self.name = Some(crate::literal::name(&pair.value)?);
            }
            ("min", Meta::NameValue(pair)) => self.min = Some(bound(&pair.value)?),
            ("max", Meta::NameValue(pair)) => self.max = Some(bound(&pair.value)?),
            ("narrow", Meta::Path(_)) => self.narrow = true,
            ("flatten", Meta::Path(_)) => self.flatten = true,
            _ => {
                const OPTIONS: &str =
                    "default = …, name = \"…\", narrow, min = …, max = …, flatten";
                return Err(crate::literal::unknown(meta, key, OPTIONS));
            }
        }
        let others =
            self.default.is_some() || self.name.is_some() || self.narrow || self.has_range();
        if self.flatten && others {
            let why = "`flatten` takes no other option: put them on the fields of the struct";
            return refuse(meta, why);
        }
        Ok(())
    }

    pub(crate) fn has_range(&self) -> bool {
        self.min.is_some() || self.max.is_some()
    }

    /// Returns true if the attribute's range is empty or excludes the literal default.
    fn has_empty_range(&self) -> bool {
        let number = |json: Option<String>| json?.parse::<f64>().ok();
        let (min, max) = (number(self.min.clone()), number(self.max.clone()));
        let default = number(self.default.as_ref().and_then(json));
        let is_more = |low: Option<f64>, high| low.zip(high).is_some_and(|(low, high)| low > high);
        is_more(min, max) || is_more(min, default) || is_more(default, max)
    }

    /// Generates the range as a constant of `xla_ffi`.
    pub(crate) fn range(&self) -> TokenStream {
        let bound = |json: &Option<String>| match json {
            Some(json) => {
                let value = match (json.parse::<i128>(), json.parse::<f64>()) {
                    (Ok(whole), _) => quote!(Int(#whole)),
                    (_, float) => {
                        let float = float.unwrap_or(f64::NAN);
                        quote!(Float(#float))
                    }
                };
                quote!(::core::option::Option::Some(::xla_ffi::__private::Bound {
                    json: #json,
                    value: ::xla_ffi::__private::Wide::#value,
                }))
            }
            None => quote!(::core::option::Option::None),
        };
        let (min, max) = (bound(&self.min), bound(&self.max));
        quote!(::xla_ffi::__private::Range { min: #min, max: #max })
    }

    /// Returns the name of the attribute of a parameter or field.
    pub(crate) fn name_of(&self, ident: &Ident) -> String {
        match &self.name {
            Some(name) => name.value(),
            None => ident.unraw().to_string(),
        }
    }

    /// Generates the `Param` constant `param` with the `#[attr(…)]` options applied.
    pub(crate) fn modify(&self, mut param: TokenStream) -> TokenStream {
        if self.narrow {
            param = quote!(#param.narrowed());
        }
        if self.has_range() {
            let range = self.range();
            param = quote!(#param.within(#range));
        }
        match self.default.as_ref().map(json) {
            Some(Some(json)) => quote!(#param.with_default(::core::option::Option::Some(#json))),
            Some(None) => quote!(#param.with_default(::core::option::Option::None)),
            None => param,
        }
    }
}

/// Returns the JSON of the literal in `min = …` or `max = …`.
fn bound(expr: &Expr) -> syn::Result<String> {
    let number = json(expr).filter(|json| json.parse::<f64>().is_ok());
    number.ok_or_else(|| {
        syn::Error::new_spanned(expr, "expected a literal number, for instance `min = 1`")
    })
}

/// Returns the JSON of a literal; `None` for other expressions.
fn json(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => match &**expr {
            Expr::Lit(ExprLit {
                lit: Lit::Int(_) | Lit::Float(_),
                ..
            }) => json(expr).map(|number| format!("-{number}")),
            _ => None,
        },
        Expr::Lit(ExprLit { lit, .. }) => match lit {
            Lit::Int(number) => Some(number.base10_digits().to_owned()),
            Lit::Float(number) => {
                let value: f64 = number.base10_digits().parse().ok()?;
                value.is_finite().then(|| format!("{value:e}"))
            }
            Lit::Bool(value) => Some(value.value.to_string()),
            Lit::Str(text) => Some(quoted(&text.value())),
            _ => None,
        },
        _ => None,
    }
}

fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if (c as u32) < 0x20 => json.push_str(&format!("\\u{:04x}", c as u32)),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

/// One parameter of a stage.
pub(crate) struct Parameter {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) options: AttrOptions,
    /// The text of the parameter's doc comment.
    doc: String,
    /// The declared order of the operand's elements in memory.
    layout: Option<Layout>,
}

/// The option `#[operand(layout = …)]` of a parameter.
struct Layout {
    tokens: TokenStream,
    span: Span,
}

impl Layout {
    /// Reads the `#[operand]` attributes and removes them from the list.
    fn read_out(attrs: &mut Vec<syn::Attribute>) -> syn::Result<Option<Self>> {
        let mut layout = None;
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("operand")) {
            attr.parse_nested_meta(|meta| {
                if !meta.path.is_ident("layout") {
                    return Err(meta.error("expected `#[operand(layout = …)]`"));
                }
                if layout.is_some() {
                    return Err(meta.error("the option `layout` is given twice"));
                }
                layout = Some(Self::parse(&ungrouped(&meta.value()?.parse()?))?);
                Ok(())
            })?;
        }
        attrs.retain(|attr| !attr.path().is_ident("operand"));
        Ok(layout)
    }

    fn parse(expr: &Expr) -> syn::Result<Self> {
        let expected = || {
            syn::Error::new_spanned(
                expr,
                "expected `\"row\"`, `\"column\"`, or the dimensions from the slowest to the fastest, for instance `[1, 0]`",
            )
        };
        let span = expr.span();
        let tokens = match expr {
            Expr::Lit(ExprLit {
                lit: Lit::Str(word),
                ..
            }) => match word.value().as_str() {
                "row" => quote!(::xla_ffi::bind::Layout::Row),
                "column" => quote!(::xla_ffi::bind::Layout::Column),
                _ => return Err(expected()),
            },
            Expr::Array(list) => {
                let axes = list.elems.iter().map(|axis| match axis {
                    Expr::Lit(ExprLit {
                        lit: Lit::Int(axis),
                        ..
                    }) => axis.base10_parse::<usize>(),
                    _ => Err(expected()),
                });
                let axes = axes.collect::<syn::Result<Vec<_>>>()?;
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..axes.len()) {
                    return Err(expected());
                }
                quote!(::xla_ffi::bind::Layout::Order(&[#(#axes),*]))
            }
            _ => return Err(expected()),
        };
        Ok(Self { tokens, span })
    }
}

/// A visitor that removes named lifetimes, because each call has a different lifetime.
struct Elide;

impl VisitMut for Elide {
    fn visit_lifetime_mut(&mut self, lifetime: &mut syn::Lifetime) {
        if lifetime.ident != "static" {
            lifetime.ident = Ident::new("_", lifetime.ident.span());
        }
    }
}

impl Parameter {
    /// Reads a parameter and removes its `#[attr]` attributes.
    pub(crate) fn read(arg: &mut FnArg) -> syn::Result<Self> {
        let FnArg::Typed(arg) = arg else {
            let why = "a handler is a function without `self`; for state, write `#[xla_ffi::stateful]` on the `impl` block";
            return refuse(arg, why);
        };
        let Pat::Ident(pat) = &*arg.pat else {
            let why = "name this parameter: callers see the name in messages and in the manifest";
            return refuse(&arg.pat, why);
        };
        if let Type::ImplTrait(ty) = &*arg.ty {
            let why = "a parameter cannot be `impl Trait`: name its type, for instance `f64` or `Buffer<f32>`";
            return refuse(ty, why);
        }
        refuse_cfg(&arg.attrs, "a parameter")?;
        let doc = crate::literal::take_doc(&mut arg.attrs);
        let layout = Layout::read_out(&mut arg.attrs)?;
        let options = AttrOptions::read_out(&mut arg.attrs)?;
        crate::mistakes::refuse_type(&pat.ident, &arg.ty, options.present)?;
        let mut ty = (*arg.ty).clone();
        Elide.visit_type_mut(&mut ty);
        Ok(Self {
            ident: pat.ident.clone(),
            ty,
            options,
            doc,
            layout,
        })
    }

    /// Returns the parameter's name in messages, in the manifest and, for attributes, in the call.
    pub(crate) fn name(&self) -> String {
        let name = self.options.name_of(&self.ident);
        if self.options.name.is_some() {
            return name;
        }
        // A leading underscore only marks the parameter as unused, and is not part of the public
        // name.
        match name.trim_start_matches('_') {
            "" => name,
            bare => bare.to_owned(),
        }
    }

    /// Returns the type that implements `Bind`: a wrapper if `flatten` is set, otherwise the parameter's
    /// type.
    fn bound(&self) -> TokenStream {
        let ty = &self.ty;
        if self.options.flatten {
            quote_spanned!(place(ty)=> ::xla_ffi::__private::Flat<#ty>)
        } else {
            quote!(#ty)
        }
    }

    /// Generates the parameter's declaration, a `Param` constant.
    pub(crate) fn constant(&self) -> TokenStream {
        let name = self.name();
        let bound = self.bound();
        let constant = quote_spanned! {place(&self.ty)=>
            <#bound as ::xla_ffi::Bind<'_>>::PARAM
        };
        let mut named = quote!(#constant.named(#name));
        if !self.doc.is_empty() {
            let doc = &self.doc;
            named = quote!(#named.documented(#doc));
        }
        if let Some(layout) = &self.layout {
            let order = &layout.tokens;
            named = quote!(#named.laid_out(#order));
        }
        self.options.modify(named)
    }

    /// Generates items that cause a compile error if parameter number `index` of `params` is not
    /// allowed.
    pub(crate) fn checks(&self, params: &TokenStream, index: usize, stage: u32) -> TokenStream {
        let attr = self.options.present && !self.options.flatten;
        let layout = self.layout.as_ref().map(
            |layout| quote_spanned!(layout.span=> const _: () = ::xla_ffi::bind::Param::check_layout(&#params[#index]);),
        );
        let check = quote_spanned! {place(&self.ty)=>
            const _: () = ::xla_ffi::__private::check_param(#params, #index, #stage, #attr);
        };
        quote!(#check #layout)
    }

    /// Generates an expression of type `Option<T>` that decodes the parameter. `at` is the position
    /// of the parameter.
    pub(crate) fn decode(&self, at: &TokenStream) -> TokenStream {
        let ty = &self.ty;
        let bound = self.bound();
        if let Some(default) = &self.options.default {
            let frame = ours("__frame");
            return quote_spanned! {place(ty)=>
                ::xla_ffi::__private::or_default::<#ty>(#frame, #at, {
                    // The default expression must not be able to use the call frame.
                    let #frame = ::xla_ffi::__private::Hidden;
                    let _ = #frame;
                    || #default
                })
            };
        }
        let frame = ours("__frame");
        let bind = quote_spanned!(place(ty)=> <#bound as ::xla_ffi::Bind<'_>>::bind(#frame, #at));
        if self.options.flatten {
            quote!(#bind.map(|__flat| __flat.0))
        } else {
            bind
        }
    }

    /// Generates a statement that reports the problem of the parameter.
    pub(crate) fn explain(&self, at: &TokenStream) -> TokenStream {
        let ty = &self.ty;
        let bound = self.bound();
        let (frame, problems) = (ours("__frame"), ours("__problems"));
        let explain = quote_spanned! {place(ty)=>
            <#bound as ::xla_ffi::Bind<'_>>::explain(#frame, #at, #problems)
        };
        if self.options.default.is_some() {
            quote! {
                if ::xla_ffi::__private::has_attr(__frame, #at) {
                    #explain
                }
            }
        } else {
            quote!(#explain;)
        }
    }
}

/// Refuses `cfg` on parts of an item, named by `what`, because attribute macros run before `cfg` is evaluated.
pub(crate) fn refuse_cfg(attrs: &[syn::Attribute], what: &str) -> syn::Result<()> {
    let Some(attr) = attrs.iter().find(|attr| attr.path().is_ident("cfg")) else {
        return Ok(());
    };
    refuse(
        attr,
        format!("{what} cannot have a `#[cfg]`: write one handler per case, each with its own"),
    )
}

/// Returns the position of a type, for compiler messages.
pub(crate) fn place(ty: &syn::Type) -> proc_macro2::Span {
    ty.span()
}

/// Returns an identifier of the code that is generated around a parameter. The identifier is resolved at the macro's
/// call site, because the parameter's type may come from a different macro, which lacks these names.
pub(crate) fn ours(name: &str) -> Ident {
    Ident::new(name, proc_macro2::Span::call_site())
}
