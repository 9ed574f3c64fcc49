//! What the header needs from the text of ffi-sys: structs and docstrings. Everything else comes
//! from its reflection data.
//!
//! cbindgen sees neither structs nor enumerations that macros make, so this module also writes a
//! *shadow*: the same declarations without macros, for cbindgen alone.

use anyhow::{Context, Result, bail};
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;
use std::path::Path;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Item, Meta};

/// One declaration of ffi-sys, in the order of the source.
pub(super) enum Declaration {
    /// A struct with fields.
    Struct(String),
    /// A type that only the host knows.
    Opaque(String),
    /// A C enumeration.
    Enum(String),
}

impl Declaration {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Struct(name) | Self::Opaque(name) | Self::Enum(name) => name,
        }
    }
}

/// A file of ffi-sys.
pub(super) struct Source {
    /// Its declarations, layouts of older revisions left out.
    pub(super) declarations: Vec<Declaration>,
    /// Docstrings of type aliases and struct fields (`STRUCT.FIELD`).
    pub(super) docs: BTreeMap<String, Vec<String>>,
    shadow: TokenStream,
}

impl Source {
    /// Reads one file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let file = syn::parse_file(&text).with_context(|| format!("{}", path.display()))?;
        let mut source = Self {
            declarations: Vec::new(),
            docs: BTreeMap::new(),
            shadow: TokenStream::new(),
        };
        for item in file.items {
            source
                .item(item)
                .with_context(|| format!("{}", path.display()))?;
        }
        Ok(source)
    }

    /// The declarations without macros, as Rust source.
    pub(super) fn shadow(&self) -> String {
        self.shadow.to_string()
    }

    fn item(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Struct(mut item) => {
                let name = item.ident.to_string();
                if !has_repr(&item.attrs, "C") || is_old_layout(&name) {
                    return Ok(());
                }
                clean(&mut item.attrs);
                for field in &mut item.fields {
                    clean(&mut field.attrs);
                    if let Some(ident) = &field.ident {
                        self.docs
                            .insert(format!("{name}.{ident}"), docs(&field.attrs));
                    }
                }
                self.declarations.push(Declaration::Struct(name));
                item.to_tokens(&mut self.shadow);
            }
            Item::Macro(item) if item.mac.path.is_ident("opaque") => {
                let Opaque { mut attrs, name } = item.mac.parse_body()?;
                clean(&mut attrs);
                self.declarations
                    .push(Declaration::Opaque(name.to_string()));
                // Without `repr(C)` cbindgen takes a struct for an incomplete type.
                quote!(#(#attrs)* pub struct #name { hidden: () }).to_tokens(&mut self.shadow);
            }
            Item::Macro(item) if item.mac.path.is_ident("enumeration") => {
                let Enumeration {
                    mut attrs,
                    name,
                    prefix,
                    values,
                } = item.mac.parse_body()?;
                clean(&mut attrs);
                let variants = values.into_iter().map(|mut value| {
                    clean(&mut value.attrs);
                    let (attrs, number) = (value.attrs, value.number);
                    let name = quote::format_ident!("{prefix}{}", value.name);
                    quote!(#(#attrs)* #name = #number)
                });
                quote!(#(#attrs)* #[repr(C)] pub enum #name { #(#variants),* })
                    .to_tokens(&mut self.shadow);
                self.declarations.push(Declaration::Enum(name.to_string()));
            }
            Item::Impl(item) => self.bits(&item)?,
            Item::Type(mut item) => {
                clean(&mut item.attrs);
                let is_plain = !item.ty.to_token_stream().to_string().contains("fn");
                self.docs.insert(item.ident.to_string(), docs(&item.attrs));
                if is_plain {
                    item.to_tokens(&mut self.shadow);
                }
            }
            Item::Const(mut item) => {
                clean(&mut item.attrs);
                self.docs.insert(item.ident.to_string(), docs(&item.attrs));
            }
            _ => {}
        }
        Ok(())
    }

    /// `XLA_FFI_Handler_TraitsBits` is written out by hand because its enumerators have no common
    /// prefix with a C name that Rust could use.
    fn bits(&mut self, item: &syn::ItemImpl) -> Result<()> {
        let name = item.self_ty.to_token_stream().to_string();
        let Some(layout) = xla_ffi_sys::ENUMS
            .iter()
            .find(|layout| layout.name == name && name.ends_with("Bits"))
        else {
            return Ok(());
        };
        let mut variants = Vec::new();
        for member in &item.items {
            let syn::ImplItem::Const(member) = member else {
                continue;
            };
            let mut attrs = member.attrs.clone();
            clean(&mut attrs);
            let suffix = format!("_{}", member.ident);
            if let Some(value) = layout.values.iter().find(|v| v.name.ends_with(&suffix)) {
                let name = quote::format_ident!("{}", value.name);
                let number = Literal::u32_unsuffixed(value.value);
                variants.push(quote!(#(#attrs)* #name = #number));
            }
        }
        if variants.len() != layout.values.len() {
            bail!("{name}: the constants and ENUM disagree");
        }
        let ident = quote::format_ident!("{name}");
        let doc = " Bits of XLA_FFI_Handler_Traits.";
        quote!(#[doc = #doc] #[repr(C)] pub enum #ident { #(#variants),* })
            .to_tokens(&mut self.shadow);
        self.declarations.push(Declaration::Enum(name));
        Ok(())
    }
}

struct Opaque {
    attrs: Vec<Attribute>,
    name: Ident,
}

impl Parse for Opaque {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        Ok(Self {
            attrs: input.call(Attribute::parse_outer)?,
            name: input.parse()?,
        })
    }
}

struct Enumeration {
    attrs: Vec<Attribute>,
    name: Ident,
    prefix: String,
    values: Vec<Value>,
}

struct Value {
    attrs: Vec<Attribute>,
    name: Ident,
    number: Literal,
}

impl Parse for Enumeration {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let name = input.parse()?;
        input.parse::<syn::Token![,]>()?;
        let prefix = input.parse::<syn::LitStr>()?.value();
        let body;
        syn::braced!(body in input);
        let mut values = Vec::new();
        while !body.is_empty() {
            let attrs = body.call(Attribute::parse_outer)?;
            let name = body.parse()?;
            body.parse::<syn::Token![=]>()?;
            let number = body.parse()?;
            // `since "…"` is for the reflection data.
            while !body.is_empty() && !body.peek(syn::Token![,]) {
                body.parse::<TokenTree>()?;
            }
            if !body.is_empty() {
                body.parse::<syn::Token![,]>()?;
            }
            values.push(Value {
                attrs,
                name,
                number,
            });
        }
        Ok(Self {
            attrs,
            name,
            prefix,
            values,
        })
    }
}

/// Whether a struct is the layout of an older revision: its name ends in `_R` and a number.
pub(super) fn is_old_layout(name: &str) -> bool {
    name.rsplit_once("_R").is_some_and(|(_, revision)| {
        !revision.is_empty() && revision.bytes().all(|b| b.is_ascii_digit())
    })
}

fn has_repr(attrs: &[Attribute], repr: &str) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("repr")
            && attr
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string() == repr)
    })
}

/// Keeps docstrings, in a form for C readers, and `repr`.
fn clean(attrs: &mut Vec<Attribute>) {
    attrs.retain(|attr| attr.path().is_ident("doc") || attr.path().is_ident("repr"));
    for attr in attrs {
        if let Meta::NameValue(pair) = &mut attr.meta
            && let syn::Expr::Lit(literal) = &mut pair.value
            && let syn::Lit::Str(text) = &mut literal.lit
        {
            *text = syn::LitStr::new(&plain(&text.value()), text.span());
        }
    }
}

/// A docstring line without Rust's links: `[X](crate::X)` becomes X.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find("[`") {
        out.push_str(&rest[..start]);
        rest = &rest[start + 2..];
        let Some(end) = rest.find("`]") else {
            break;
        };
        out.push_str(&rest[..end]);
        rest = &rest[end + 2..];
        if rest.starts_with("(crate::")
            && let Some(end) = rest.find(')')
        {
            rest = &rest[end + 1..];
        }
    }
    out.push_str(rest);
    out.replace('`', "").replace('–', "-")
}

fn docs(attrs: &[Attribute]) -> Vec<String> {
    attrs
        .iter()
        .filter_map(|attr| match &attr.meta {
            Meta::NameValue(pair) => match &pair.value {
                syn::Expr::Lit(syn::ExprLit {
                    lit: syn::Lit::Str(text),
                    ..
                }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        })
        .collect()
}
