//! Mistakes that a function shows by itself. The compiler's errors for them would name traits that nobody writes.

use crate::parameter::Parameter;
use quote::ToTokens;
use syn::punctuated::Iter;
use syn::visit_mut::{VisitMut, visit_expr_index_mut};
use syn::{Block, Error, ExprIndex, GenericArgument, Ident, PatIdent, PathArguments, Result, Type};

/// Operands whose first type argument is their element type.
const OPERANDS: [&str; 5] = ["Buffer", "Out", "InOut", "DeviceBuffer", "DeviceOut"];

fn is_named(ty: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = ty else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// The arguments of a type that has one of these names.
fn arguments<'a>(ty: &'a Type, names: &[&str]) -> Option<Iter<'a, GenericArgument>> {
    match ty {
        Type::Path(path) if is_named(ty, names) => match &path.path.segments.last()?.arguments {
            PathArguments::AngleBracketed(list) => Some(list.args.iter()),
            _ => None,
        },
        _ => None,
    }
}

fn first_type<'a>(ty: &'a Type, names: &[&str]) -> Option<&'a Type> {
    arguments(ty, names)?.find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Refuses a type that no parameter or field `name` can have. `attr`: it has `#[attr(…)]`.
pub(crate) fn refuse_type(name: &Ident, ty: &Type, attr: bool) -> Result<()> {
    let inner = first_type(ty, &["Option"]).unwrap_or(ty);
    let operand = first_type(inner, &OPERANDS);
    let (mut lifetime, mut elements) = (None, operand.or_else(|| first_type(inner, &["Vec"])));
    let mut refused = None;
    match inner {
        Type::Array(array) => elements = Some(&array.elem),
        Type::Reference(reference) => {
            lifetime = reference.lifetime.as_ref();
            match &*reference.elem {
                _ if reference.mutability.is_some() => {
                    refused = Some("cannot be `&mut`: write `Out<f32>` for a result of the call");
                }
                Type::Slice(slice) => elements = Some(&slice.elem),
                elem if first_type(elem, &OPERANDS).is_some() => {
                    refused = Some("cannot be a reference: remove the `&`");
                }
                _ => {}
            }
        }
        _ => {
            lifetime = arguments(inner, &OPERANDS).and_then(|mut list| {
                list.find_map(|argument| match argument {
                    GenericArgument::Lifetime(lifetime) => Some(lifetime),
                    _ => None,
                })
            });
        }
    }
    let number = elements.unwrap_or(inner);
    let (at, why) = if let Some(why) = refused {
        (inner.to_token_stream(), why)
    } else if let Some(lifetime) = lifetime.filter(|lifetime| lifetime.ident == "static") {
        let why = "ends with the call: remove `'static`";
        (lifetime.to_token_stream(), why)
    } else if is_named(inner, &["RemainingArgs", "RemainingRets"]) && is_named(ty, &["Option"]) {
        (
            ty.to_token_stream(),
            "may be empty as it is: remove `Option`",
        )
    } else if operand.is_some() && attr {
        let why = "is an operand, and `#[attr(…)]` is for attributes: remove it";
        (inner.to_token_stream(), why)
    } else if is_named(number, &["usize", "isize"]) {
        let why =
            "cannot be `usize` or `isize`, whose size depends on the machine: write `i64` or `u64`";
        (number.to_token_stream(), why)
    } else if elements.is_some() && is_named(number, &["bool"]) {
        let why = "cannot have elements of type `bool`: write `xla_ffi::Pred`";
        (number.to_token_stream(), why)
    } else {
        return Ok(());
    };
    Err(Error::new_spanned(at, format!("`{name}` {why}")))
}

/// Refuses a return type that can only be meant as a result of the call.
pub(crate) fn refuse_output(ty: &Type) -> Result<()> {
    const VALUES: [&str; 9] = [
        "f32", "f64", "i32", "i64", "u32", "u64", "bool", "Vec", "Buffer",
    ];
    let value = first_type(ty, &["Result"]).unwrap_or(ty);
    let is_value = match value {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Array(_) | Type::Reference(_) | Type::ImplTrait(_) => true,
        _ => is_named(value, &VALUES),
    };
    if is_value {
        let why = "a handler returns `Result<()>`: write each result of the call as a parameter, `mut y: Out<f32>`";
        return Err(Error::new_spanned(ty, why));
    }
    Ok(())
}

/// Refuses what an async handler cannot keep.
pub(crate) fn refuse_late(param: &Parameter) -> Result<()> {
    let ty = first_type(&param.ty, &["Option"]).unwrap_or(&param.ty);
    if is_named(
        ty,
        &["ThreadPool", "Stream", "Scratch", "CustomOptions", "Later"],
    ) {
        let why = "an async handler cannot have this parameter, which ends before the body does: remove it or `async`";
        return Err(Error::new_spanned(ty, format!("`{}`: {why}", param.ident)));
    }
    Ok(())
}

/// Finds `y[i]` where `y` is a result, and not a variable that hides it.
struct Indexed(Vec<Ident>, Option<ExprIndex>);

impl VisitMut for Indexed {
    fn visit_expr_index_mut(&mut self, index: &mut ExprIndex) {
        let is_result = |path: &syn::Path| self.0.iter().any(|result| path.is_ident(result));
        if matches!(&*index.expr, syn::Expr::Path(base) if is_result(&base.path)) {
            self.1.get_or_insert_with(|| index.clone());
        }
        visit_expr_index_mut(self, index);
    }

    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        self.0.retain(|result| *result != pat.ident);
    }
}

/// Refuses `y[i] = …`: a result has no elements before it is written.
pub(crate) fn refuse_indexing(params: &[Parameter], body: &mut Block) -> Result<()> {
    let is_result = |param: &&Parameter| first_type(&param.ty, &["Out"]).is_some();
    let results = params.iter().filter(is_result);
    let results = results.map(|param| param.ident.clone()).collect();
    let mut indexed = Indexed(results, None);
    indexed.visit_block_mut(body);
    let Indexed(_, Some(index)) = indexed else {
        return Ok(());
    };
    let y = index.expr.to_token_stream();
    let why = format!(
        "a result cannot be indexed: write `{y}.write_with(|i| …)` instead of `{y}[i] = …`, or index the slice that \
         `{y}.fill(…)` returns"
    );
    Err(Error::new_spanned(index, why))
}
