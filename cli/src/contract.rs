//! Result shapes from a manifest: by the shape contract, or by the argument that a result aliases.

use xla_ffi_contract::{Contract, Misfit};
use xla_ffi_doctor::manifest::{Handler, Kind, Operand};
use xla_ffi_runtime::{DType, Shape};

/// The results' shapes for these arguments, or why they cannot be told.
pub(crate) fn infer(handler: &Handler, args: &[Shape]) -> Result<Vec<Shape>, String> {
    if handler.rets.iter().any(|ret| ret.optional || ret.variadic) {
        return Err("the handler has optional or variadic results".into());
    }
    let named = |ret: &Operand| {
        let index = handler.args.iter().position(|arg| arg.name == ret.name)?;
        args.get(index)
    };
    let dims = match &handler.shape {
        Some(text) => Some(by_contract(text, args)?),
        None => None,
    };
    let mut shapes = vec![];
    for (index, ret) in handler.rets.iter().enumerate() {
        if ret.kind == Kind::Token {
            shapes.push(Shape::token());
            continue;
        }
        if ret.inout
            && let Some(shape) = named(ret)
        {
            shapes.push(shape.clone());
            continue;
        }
        let dims = dims
            .as_ref()
            .and_then(|dims| dims.get(index))
            .ok_or("its manifest has no shape contract")?;
        let dtype = dtype_of(ret, args)
            .ok_or_else(|| format!("result '{}' may have several element types", ret.name))?;
        shapes.push(Shape::new(dtype, dims.clone()).map_err(|error| error.message().to_owned())?);
    }
    Ok(shapes)
}

/// The only type that a result accepts, else the one that all arguments have.
fn dtype_of(ret: &Operand, args: &[Shape]) -> Option<DType> {
    if let Some([only]) = ret.dtypes.as_deref() {
        return DType::from_name(only);
    }
    let mut arrays = args
        .iter()
        .map(Shape::dtype)
        .filter(|dtype| *dtype != DType::Token);
    let first = arrays.next()?;
    let accepted = ret
        .dtypes
        .as_ref()
        .is_none_or(|list| list.iter().any(|d| d == first.c_name()));
    (accepted && arrays.all(|dtype| dtype == first)).then_some(first)
}

fn by_contract(text: &str, args: &[Shape]) -> Result<Vec<Vec<i64>>, String> {
    let contract =
        Contract::parse(text).map_err(|why| format!("its contract '{text}' is none: {why}"))?;
    let dims: Vec<&[i64]> = args.iter().map(Shape::dims).collect();
    contract.infer(&dims).map_err(|misfit| match misfit {
        Misfit::TooMany => format!("its contract '{text}' has fewer arguments than are given"),
        Misfit::TooFew => format!("its contract '{text}' has more arguments than are given"),
        Misfit::Argument { index, entry } => format!(
            "argument {index} is {}, the contract '{text}' wants '{entry}' there",
            args[index]
        ),
        Misfit::Unknown(word) => format!("its contract '{text}' does not say what '{word}' is"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_told_in_words() {
        let why = |text: &str, args: &[&[i64]]| {
            let args: Vec<_> = args
                .iter()
                .map(|dims| Shape::new(DType::F32, *dims).unwrap())
                .collect();
            by_contract(text, &args).unwrap_err()
        };
        let wanted = "argument 1 is f32[3], the contract 'n, n -> n' wants 'n' there";
        assert_eq!(why("n, n -> n", &[&[2], &[3]]), wanted);
        assert!(why("n -> m", &[&[2]]).contains("'m'"));
        assert!(why("n -> n", &[&[2], &[2]]).contains("fewer"));
        assert!(why("n, m -> n", &[&[2]]).contains("more"));
        assert!(why("nothing", &[]).contains("is none"));
    }
}
