//! Parses the options of `#[handler]` and `#[stateful]`.

use crate::contract::Contract;
use crate::literal::refuse;
use crate::literal::{metas, name, once, string, unknown};
use crate::transforms;
use crate::transforms::{Batch, Transforms};
use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::{Expr, ExprArray, LitStr, Meta};

/// The number of the newest revision of the ABI.
pub(crate) const NEWEST_REVISION: u8 = 10;

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) shape: Option<Contract>,
    pub(crate) platforms: Vec<LitStr>,
    pub(crate) open_attrs: bool,
    pub(crate) command_buffer_compatible: bool,
    pub(crate) floor: u8,
    pub(crate) nondeterministic: bool,
    pub(crate) transforms: Transforms,
}

fn strings(expr: &Expr) -> syn::Result<Vec<LitStr>> {
    match expr {
        Expr::Array(ExprArray { elems, .. }) => elems.iter().map(string).collect(),
        other => refuse(
            other,
            "expected a list of strings, for instance `[\"cpu\"]`",
        ),
    }
}

fn floor(expr: &Expr) -> syn::Result<u8> {
    let text = string(expr)?;
    let number = text.value().strip_prefix('r').and_then(|n| n.parse().ok());
    number
        .filter(|revision| *revision <= NEWEST_REVISION)
        .ok_or_else(|| {
            let expected = format!("expected a revision, \"r0\" to \"r{NEWEST_REVISION}\"");
            syn::Error::new_spanned(&text, expected)
        })
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let metas = metas(tokens)?;
        let mut options = Self::default();
        let mut seen = Vec::new();
        for meta in metas {
            let key = once(&mut seen, &meta)?;
            match (key.as_str(), &meta) {
                ("name", Meta::NameValue(pair)) => options.name = Some(name(&pair.value)?),
                ("shape", Meta::NameValue(pair)) => {
                    options.shape = Some(Contract::parse(&string(&pair.value)?)?);
                }
                ("platforms", Meta::NameValue(pair)) => {
                    options.platforms = strings(&pair.value)?;
                    if options.platforms.is_empty() {
                        let why = "name at least one platform, for instance `[\"cpu\"]`";
                        return refuse(&pair.value, why);
                    }
                }
                ("floor", Meta::NameValue(pair)) => options.floor = floor(&pair.value)?,
                ("vjp", Meta::NameValue(pair)) => {
                    options.transforms.vjp = Some(name(&pair.value)?);
                }
                ("forward", Meta::NameValue(pair)) => {
                    options.transforms.forward = Some(name(&pair.value)?);
                }
                ("jvp", Meta::NameValue(pair)) => {
                    options.transforms.jvp = Some(name(&pair.value)?);
                }
                ("transpose", Meta::NameValue(pair)) => {
                    options.transforms.transpose = Some(name(&pair.value)?);
                }
                ("linear", Meta::Path(path)) => options.transforms.linear = Some(path.span()),
                ("residuals", Meta::NameValue(pair)) => {
                    options.transforms.residuals = Some(transforms::residuals(&pair.value)?);
                }
                ("batch" | "batch_with", _) if options.transforms.batch.is_some() => {
                    return refuse(meta, "write only one of `batch` and `batch_with`");
                }
                ("batch", Meta::NameValue(pair)) => {
                    options.transforms.batch = Some(transforms::batch(&pair.value)?);
                }
                ("batch_with", Meta::NameValue(pair)) => {
                    options.transforms.batch = Some(Batch::Handler(name(&pair.value)?));
                }
                ("nondeterministic", Meta::Path(_)) => options.nondeterministic = true,
                ("open_attrs", Meta::Path(_)) => options.open_attrs = true,
                ("command_buffer_compatible", Meta::Path(_)) => {
                    options.command_buffer_compatible = true;
                }
                _ => {
                    const OPTIONS: &str = "name = \"…\", shape = \"…\", platforms = [\"…\"], floor = \"r…\", \
                         vjp = \"…\", forward = \"…\", jvp = \"…\", transpose = \"…\", linear, \
                         residuals = [\"…\"], batch = …, batch_with = \"…\", nondeterministic, open_attrs, \
                         command_buffer_compatible";
                    return Err(unknown(&meta, &key, OPTIONS));
                }
            }
        }
        options.transforms.check()?;
        Ok(options)
    }
}
