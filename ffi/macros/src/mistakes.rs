//! Detects mistakes that are visible in a handler's source. Without this module, the compiler's errors would name
//! traits that users do not write.

use crate::literal::refuse;
use crate::parameter::Parameter;
use quote::ToTokens;
use syn::visit_mut::{VisitMut, visit_expr_for_loop_mut, visit_expr_mut};
use syn::{
    Block, Expr, ExprForLoop, ExprMethodCall, GenericArgument, Ident, PatIdent, PathArguments,
    Result, Stmt, Type,
};

/// Operand types whose first type argument is the element type.
const OPERANDS: [&str; 5] = ["Buffer", "Out", "InOut", "DeviceBuffer", "DeviceOut"];

/// Parts of the context that are only valid during the call.
const CONTEXT: [&str; 5] = ["ThreadPool", "Stream", "Scratch", "CustomOptions", "Later"];

fn is_named(ty: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = ty else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}

/// Returns the first type argument of `ty` if the type's name is one of `names`.
fn argument<'a>(ty: &'a Type, names: &[&str]) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(list) = &path.path.segments.last()?.arguments else {
        return None;
    };
    let mut types = list.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.next().filter(|_| is_named(ty, names))
}

/// Refuses a type that the parameter or field `name` cannot have. `attr` is true if the parameter or field has
/// `#[attr(…)]`.
pub(crate) fn refuse_type(name: &Ident, ty: &Type, attr: bool) -> Result<()> {
    let inner = argument(ty, &["Option"]).unwrap_or(ty);
    let operand = argument(inner, &OPERANDS);
    let (elements, lifetime, is_operand) = match inner {
        Type::Array(array) => (Some(&*array.elem), None, false),
        Type::Reference(to) => match &*to.elem {
            _ if to.mutability.is_some() => (None, None, true),
            Type::Slice(slice) => (Some(&*slice.elem), to.lifetime.as_ref(), false),
            elem => (
                None,
                to.lifetime.as_ref(),
                argument(elem, &OPERANDS).is_some(),
            ),
        },
        _ => (operand.or_else(|| argument(inner, &["Vec"])), None, false),
    };
    let scalar = elements.unwrap_or(inner);
    let (at, why): (&dyn ToTokens, _) = if is_operand {
        (
            &inner,
            "cannot be a reference: write `Buffer<f32>` for an argument, `Out<f32>` for a result",
        )
    } else if let Some(lifetime) = lifetime.filter(|lifetime| lifetime.ident == "static") {
        (lifetime, "is valid only during the call: remove `'static`")
    } else if is_named(inner, &["RemainingArgs", "RemainingRets"]) && is_named(ty, &["Option"]) {
        (ty, "may be empty as it is: remove `Option`")
    } else if operand.is_some() && attr {
        (
            ty,
            "is an operand, and `#[attr(…)]` is for attributes: remove it",
        )
    } else if is_named(scalar, &["usize", "isize"]) {
        (
            scalar,
            "cannot be `usize` or `isize`, whose size depends on the machine: write `i64` or `u64`",
        )
    } else if elements.is_some() && is_named(scalar, &["bool"]) {
        (
            scalar,
            "cannot have elements of type `bool`: write `xla_ffi::Pred`",
        )
    } else {
        return Ok(());
    };
    refuse(at, format!("`{name}` {why}"))
}

/// Refuses a return type that is a value, because a handler writes its results to parameters.
pub(crate) fn refuse_output(ty: &Type) -> Result<()> {
    const VALUES: [&str; 7] = ["f32", "f64", "i32", "i64", "bool", "Vec", "Buffer"];
    let value = argument(ty, &["Result"]).unwrap_or(ty);
    let is_value = match value {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Array(_) | Type::Reference(_) | Type::ImplTrait(_) => true,
        _ => is_named(value, &VALUES),
    };
    if !is_value {
        return Ok(());
    }
    let why = "a handler returns `Result<()>`: write each result of the call as a parameter, `mut y: Out<f32>`";
    refuse(ty, why)
}

/// Refuses parameters that an async handler cannot keep.
pub(crate) fn refuse_late(param: &Parameter) -> Result<()> {
    let ty = argument(&param.ty, &["Option"]).unwrap_or(&param.ty);
    if !is_named(ty, &CONTEXT) {
        return Ok(());
    }
    let why = "an async handler cannot take what is valid only until the function returns: remove this or `async`";
    refuse(ty, format!("`{}`: {why}", param.ident))
}

/// Finds uses of a result's elements in the body of a handler, unless a variable shadows the
/// result.
struct Results {
    names: Vec<Ident>,
    used: Option<Expr>,
}

impl Results {
    /// Returns true if `call` is a call of one of `methods` on a result.
    fn calls(&self, call: &ExprMethodCall, methods: &[&str]) -> bool {
        methods.iter().any(|name| call.method == name) && self.has(&call.receiver)
    }

    fn has(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Path(path) if self.names.iter().any(|name| path.path.is_ident(name)))
    }
}

impl VisitMut for Results {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let is_use = match expr {
            Expr::Index(index) => self.has(&index.expr),
            Expr::MethodCall(call) => {
                self.calls(call, &["as_slice", "as_mut_slice", "iter", "iter_mut"])
            }
            _ => false,
        };
        if is_use {
            self.used.get_or_insert_with(|| expr.clone());
        }
        visit_expr_mut(self, expr);
    }

    fn visit_expr_for_loop_mut(&mut self, each: &mut ExprForLoop) {
        // The iterated expression is visited first, because the loop's pattern may shadow a name.
        self.visit_expr_mut(&mut each.expr);
        visit_expr_for_loop_mut(self, each);
    }

    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        self.names.retain(|name| *name != pat.ident);
    }
}

/// Refuses `y[i] = …`, because a result has no elements before it is written. Also refuses `y.fill(…)` as the value
/// of the body.
pub(crate) fn refuse_body(params: &[Parameter], body: &mut Block) -> Result<()> {
    let results = params
        .iter()
        .filter(|param| argument(&param.ty, &["Out"]).is_some());
    let names = results.map(|param| param.ident.clone()).collect();
    let mut results = Results { names, used: None };
    results.visit_block_mut(body);
    if let Some(used) = results.used {
        let why = "a result has no elements to read or assign: instead of `y[i] = …`, write `y.write_with(|i| …)`, or \
                   use the slice that `y.fill(…)` returns";
        return refuse(used, why);
    }
    let Some(Stmt::Expr(Expr::MethodCall(call), None)) = body.stmts.last() else {
        return Ok(());
    };
    if !results.calls(call, &["write_with", "fill"]) {
        return Ok(());
    }
    let why = "this is the value of the body, but a handler returns `Result<()>`: add `;` and then `Ok(())`";
    refuse(call, why)
}
