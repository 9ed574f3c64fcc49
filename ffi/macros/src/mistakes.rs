//! Mistakes that a function shows by itself. The compiler's errors for them would name traits that nobody writes.

use crate::parameter::Parameter;
use quote::ToTokens;
use syn::punctuated::Iter;
use syn::visit_mut::{VisitMut, visit_expr_for_loop_mut, visit_expr_mut};
use syn::{
    Block, Error, Expr, ExprForLoop, GenericArgument, Ident, PatIdent, PathArguments, Result, Stmt,
    Type,
};

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

/// Finds where the body uses elements of a result, unless a variable hides it.
struct Results {
    names: Vec<Ident>,
    used: Option<Expr>,
}

impl Results {
    fn has(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Path(path) if self.names.iter().any(|name| path.path.is_ident(name)))
    }
}

impl VisitMut for Results {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        const OF_SLICES: [&str; 4] = ["as_slice", "as_mut_slice", "iter", "iter_mut"];
        let is_use = match expr {
            Expr::Index(index) => self.has(&index.expr),
            Expr::MethodCall(call) => {
                OF_SLICES.iter().any(|name| call.method == name) && self.has(&call.receiver)
            }
            _ => false,
        };
        if is_use {
            self.used.get_or_insert_with(|| expr.clone());
        }
        visit_expr_mut(self, expr);
    }

    fn visit_expr_for_loop_mut(&mut self, each: &mut ExprForLoop) {
        // Before the pattern hides a name.
        self.visit_expr_mut(&mut each.expr);
        visit_expr_for_loop_mut(self, each);
    }

    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        self.names.retain(|name| *name != pat.ident);
    }
}

/// Refuses `y[i] = …`, because a result has no elements before it is written, and `y.fill(…)` as the value of the body.
pub(crate) fn refuse_body(params: &[Parameter], body: &mut Block) -> Result<()> {
    let is_result = |param: &&Parameter| first_type(&param.ty, &["Out"]).is_some();
    let names = params.iter().filter(is_result);
    let names = names.map(|param| param.ident.clone()).collect();
    let mut results = Results { names, used: None };
    results.visit_block_mut(body);
    if let Some(used) = results.used {
        let why = "a result has no elements to read or assign: instead of `y[i] = …`, write `y.write_with(|i| …)`, or use \
                   the slice that `y.fill(…)` returns";
        return Err(Error::new_spanned(used, why));
    }
    match body.stmts.last() {
        Some(Stmt::Expr(Expr::MethodCall(call), None))
            if results.has(&call.receiver)
                && (call.method == "write_with" || call.method == "fill") =>
        {
            let why = "this is the value of the body, but a handler returns `Result<()>`: add `;` and then `Ok(())`";
            Err(Error::new_spanned(call, why))
        }
        _ => Ok(()),
    }
}
