//! Infers result shapes from a manifest: from the shape contract, or from the argument that shares its memory with the
//! result.

use xla_ffi_contract::Contract;
use xla_ffi_doctor::manifest::{Attribute, Handler, Kind, Operand};
use xla_ffi_runtime::{Attribute as Value, Attributes, DType, Shape};

/// Returns the shapes of the results for given arguments and attributes. An error text contains a remedy.
pub(crate) fn infer(
    handler: &Handler,
    args: &[Shape],
    attrs: &Attributes,
) -> Result<Vec<Shape>, String> {
    if let Some(why) = count_mismatch(&handler.args, args.len()) {
        return Err(format!("{} (execute): {why}", handler.name));
    }
    let wrong = wrong_argument(&handler.args, args);
    if let Some(why) = wrong.or_else(|| wrong_attribute(&handler.attrs, attrs)) {
        return Err(format!("{} (execute): {why}", handler.name));
    }
    let broken = |why: String| format!("{} (execute): {why}", handler.name);
    let unknown = |why| {
        broken(format!(
            "cannot infer result shapes: {why}; pass --ret SPEC for each"
        ))
    };
    let dims = match &handler.shape {
        Some(text) => {
            let contract = Contract::parse(text)
                .map_err(|why| unknown(format!("the shape contract '{text}' is invalid: {why}")))?;
            Some(by_contract(&contract, args, &integers(&handler.attrs, attrs)).map_err(broken)?)
        }
        None => None,
    };
    by_operand(handler, args, dims).map_err(unknown)
}

/// Returns an error text if there are too few or too many arguments.
fn count_mismatch(declared: &[Operand], given: usize) -> Option<String> {
    let variadic = declared.iter().any(|arg| arg.variadic);
    let required = declared.iter().filter(|arg| !arg.optional && !arg.variadic);
    let required = required.count();
    if required <= given && (variadic || given <= declared.len()) {
        return None;
    }
    let count = match declared.len() {
        _ if variadic => format!("at least {required}"),
        most if most == required => format!("{required}"),
        most => format!("{required} to {most}"),
    };
    let last = if variadic { required } else { declared.len() };
    let plural = if last == 1 { "" } else { "s" };
    let names: Vec<_> = declared.iter().map(|arg| arg.name.as_str()).collect();
    let names = match names.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let how = if given < required {
        "pass one --arg SPEC per argument"
    } else {
        "remove the other --arg options"
    };
    Some(format!(
        "expected {count} argument{plural}{names}, got {given}; {how}"
    ))
}

/// Returns an error text for the first argument that does not match its declaration.
fn wrong_argument(declared: &[Operand], given: &[Shape]) -> Option<String> {
    let variadic = declared.last().filter(|last| last.variadic);
    given.iter().enumerate().find_map(|(index, shape)| {
        let arg = declared.get(index).or(variadic)?;
        let dtypes = match arg.kind {
            Kind::Token => Some(vec!["TOKEN".to_owned()]),
            _ => arg.dtypes.clone(),
        };
        let dtype = shape.dtype();
        let has_dtype = match &dtypes {
            Some(dtypes) => dtypes.iter().any(|name| name == dtype.c_name()),
            None => dtype != DType::Token,
        };
        let rank = arg.rank.filter(|rank| *rank as usize != shape.dims().len());
        if has_dtype && rank.is_none() {
            return None;
        }
        let types = dtypes.map_or("ANY".into(), |dtypes| dtypes.join("|"));
        let dims = |rank| format!("[{}]", vec!["?"; rank as usize].join(", "));
        let expected = types + &arg.rank.map(dims).unwrap_or_default();
        let (name, found) = (&arg.name, dtype.c_name());
        Some(format!(
            "argument `{name}`: expected {expected}, got {found}{:?}",
            shape.dims()
        ))
    })
}

/// Returns an error text for the first attribute that is missing or does not have its declared type.
fn wrong_attribute(declared: &[Attribute], given: &Attributes) -> Option<String> {
    declared.iter().find_map(|attr| {
        let (name, ty) = (&attr.name, &attr.ty);
        let value = match &attr.from {
            None => given.get(name),
            Some(dictionary) => match given.get(dictionary) {
                Some(Value::Dict(fields)) => fields.get(name),
                _ => None,
            },
        };
        match value {
            None if attr.optional => None,
            None => Some(format!(
                "missing attribute `{name}` ({ty}); pass it with --attrs"
            )),
            Some(value) if is_of_type(value, attr) => None,
            Some(value) => {
                let mut shown = Attributes::new();
                shown = shown.with(name.as_str(), value.clone());
                Some(format!("attribute `{name}`: expected {ty}, got {shown}"))
            }
        }
    })
}

/// Returns true if the value is valid for the attribute, according to the handler's declaration of the attribute.
fn is_of_type(value: &Value, attr: &Attribute) -> bool {
    let is_integer = |ty: &str| ty.starts_with(['i', 'u']);
    let same = |ty: &str, dtype: DType| match dtype {
        DType::Pred => ty == "bool",
        dtype => ty == dtype.name().replace('s', "i"),
    };
    match (value, attr.ty.as_str()) {
        (_, "any") => true,
        (Value::Str(_), ty) => ty == "str",
        (Value::Dict(_), ty) => ty == "dict",
        (Value::Scalar(dtype, _), ty) if !attr.narrow => same(ty, *dtype),
        (Value::Scalar(..), ty) if is_integer(ty) => value.integer().is_some(),
        (Value::Scalar(..), ty) => !matches!(ty, "str" | "dict") && !ty.starts_with('['),
        (Value::Array(array), ty) => {
            let element = ty.strip_prefix('[').and_then(|ty| ty.strip_suffix(']'));
            element.is_some_and(|element| attr.narrow || same(element, array.dtype()))
        }
        _ => true,
    }
}

/// Returns the index of the argument whose memory the result at `index` shares; `None` if the result shares no memory.
/// `given` is the number of arguments.
pub(crate) fn changed_in_place(handler: &Handler, index: usize, given: usize) -> Option<usize> {
    let last = handler.rets.len().checked_sub(1)?;
    let ret = &handler.rets[index.min(last)];
    let further = index.saturating_sub(last);
    if !ret.inout || (further > 0 && !ret.variadic) {
        return None;
    }
    let arg = handler.args.iter().position(|arg| arg.name == ret.name)?;
    if further > 0 && !handler.args[arg].variadic {
        return None;
    }
    Some(arg + further).filter(|arg| *arg < given)
}

/// Returns the shapes of the results. For each result, `dims` contains the dimensions that the shape contract
/// determines.
fn by_operand(
    handler: &Handler,
    args: &[Shape],
    dims: Option<Vec<Option<Vec<i64>>>>,
) -> Result<Vec<Shape>, String> {
    if handler
        .rets
        .iter()
        .any(|ret| ret.optional || (ret.variadic && !ret.inout))
    {
        return Err("the handler has optional or variadic results".into());
    }
    let mut shapes = vec![];
    for (index, ret) in handler.rets.iter().enumerate() {
        if ret.kind == Kind::Token {
            shapes.push(Shape::token());
            continue;
        }
        if ret.inout {
            // A variadic result occurs once for each argument that the variadic operand of the same name receives.
            let end = if ret.variadic { usize::MAX } else { index + 1 };
            let shared = (index..end).map_while(|at| changed_in_place(handler, at, args.len()));
            shapes.extend(shared.map(|arg| args[arg].clone()));
            if ret.variadic || shapes.len() > index {
                continue;
            }
        }
        let dims = dims.as_ref().ok_or("the handler has no shape contract")?;
        let dims = dims.get(index).and_then(Option::as_ref).ok_or_else(|| {
            let text = handler.shape.as_deref().unwrap_or_default();
            format!(
                "the shape contract '{text}' does not determine result `{}`",
                ret.name
            )
        })?;
        let dtype = dtype_of(ret, args)
            .ok_or_else(|| format!("result `{}` can have several element types", ret.name))?;
        shapes.push(Shape::new(dtype, dims.clone()).map_err(|error| error.message().to_owned())?);
    }
    Ok(shapes)
}

/// Returns the element type of a result: the result's only declared type, or the common type of all arguments.
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

/// Returns the names and values of the handler's integer attributes. Omitted attributes have their default values.
fn integers<'a>(declared: &'a [Attribute], given: &Attributes) -> Vec<(&'a str, i128)> {
    let value = |attr: &Attribute| match given.get(&attr.name) {
        Some(value) => value.integer(),
        None => {
            let default = attr.default.as_i64().map(i128::from);
            default.or(attr.default.as_u64().map(i128::from))
        }
    };
    declared
        .iter()
        .filter(|attr| attr.from.is_none() && attr.ty.starts_with(['i', 'u']))
        .filter_map(|attr| Some((attr.name.as_str(), value(attr)?)))
        .collect()
}

fn by_contract(
    contract: &Contract,
    args: &[Shape],
    attrs: &[(&str, i128)],
) -> Result<Vec<Option<Vec<i64>>>, String> {
    let names: Vec<_> = (0..args.len()).map(|i| format!("argument {i}")).collect();
    let names = names.iter().map(String::as_str);
    let args: Vec<_> = names.zip(args.iter().map(Shape::dims)).collect();
    contract.infer(&args, attrs).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_argument() {
        let why = |text: &str, args: &[&[i64]]| {
            let args: Vec<_> = args
                .iter()
                .map(|dims| Shape::new(DType::F32, *dims).unwrap())
                .collect();
            let contract = Contract::parse(text).unwrap();
            by_contract(&contract, &args, &[("k", -1)]).unwrap_err()
        };
        let wanted = "argument 1: expected [n] with n = 2 from argument 0, got [3]; the contract is `n, n -> n`";
        assert_eq!(why("n, n -> n", &[&[2], &[3]]), wanted);
        assert!(why("n -> n", &[&[2], &[2]]).contains("1 argument, the call has 2"));
        assert!(why("n, m -> n", &[&[2]]).contains("2 arguments, the call has 1"));
        assert!(why("n -> k", &[&[2]]).contains("attribute `k`: expected a size, got -1"));
    }

    #[test]
    fn each_argument_changed_in_place_has_its_result() {
        let operand = |name: &str, more: &str| {
            format!(r#"{{"name": "{name}", "kind": "buffer", "dtypes": null, "rank": null{more}}}"#)
        };
        let (x, y) = (operand("x", ""), operand("y", r#", "inout": true"#));
        let text = format!(
            r#"{{"name": "h", "platforms": ["cpu"], "stages": {{"execute": "h"}}, "floor": "r0",
                "args": [{x}, {}, {}], "rets": [{y}, {}]}}"#,
            operand("y", ""),
            operand("zs", r#", "variadic": true"#),
            operand("zs", r#", "variadic": true, "inout": true"#)
        );
        let handler: Handler = serde_json::from_str(&text).unwrap();
        let shape = |dim| Shape::new(DType::F32, [dim]).unwrap();
        for count in 2..6 {
            let args: Vec<_> = (0..count).map(shape).collect();
            let results = infer(&handler, &args, &Attributes::new()).unwrap();
            assert_eq!(results, args[1..]);
            let given = args.len();
            let arguments: Vec<_> = (0..given)
                .map(|at| changed_in_place(&handler, at, given))
                .collect();
            let wanted = (1..given).map(Some).chain([None]);
            assert_eq!(arguments, wanted.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_invalid_operand_or_attribute_is_named() {
        let text = r#"{"name": "h", "platforms": ["cpu"], "stages": {"execute": "h"}, "floor": "r0",
            "shape": "n -> k",
            "args": [{"name": "x", "kind": "buffer", "dtypes": ["F32", "F64"], "rank": 1}],
            "rets": [{"name": "y", "kind": "buffer", "dtypes": null, "rank": 1}],
            "attrs": [{"name": "k", "type": "i64", "narrow": true}, {"name": "eps", "type": "f32"},
                {"name": "axes", "type": "[i64]", "optional": true}]}"#;
        let handler: Handler = serde_json::from_str(text).unwrap();
        let infer = |dtype, dims: &[i64], attrs: &str| {
            let args = [Shape::new(dtype, dims).unwrap()];
            infer(&handler, &args, &Attributes::parse(attrs).unwrap())
        };
        let fine = "{k = 3 : i32, eps = 1.0 : f32}";
        let shape = Shape::new(DType::F64, [3]).unwrap();
        assert_eq!(infer(DType::F64, &[2], fine), Ok(vec![shape]));
        for (dtype, dims, attrs, named) in [
            (
                DType::S32,
                &[2][..],
                fine,
                "argument `x`: expected F32|F64[?], got S32[2]",
            ),
            (
                DType::F32,
                &[2, 2],
                fine,
                "argument `x`: expected F32|F64[?], got F32[2, 2]",
            ),
            (
                DType::F32,
                &[2],
                "{eps = 1.0 : f32}",
                "missing attribute `k`",
            ),
            (
                DType::F32,
                &[2],
                "{k = 2.5 : f64, eps = 1.0 : f32}",
                "attribute `k`: expected i64",
            ),
            (
                DType::F32,
                &[2],
                "{k = 2, eps = 1.0 : f64}",
                "attribute `eps`: expected f32",
            ),
            (
                DType::F32,
                &[2],
                "{k = 2, eps = \"1\"}",
                "attribute `eps`: expected f32",
            ),
            (
                DType::F32,
                &[2],
                "{k = 2, eps = 1.0 : f32, axes = array<i32: 1>}",
                "attribute `axes`: expected [i64]",
            ),
        ] {
            let why = infer(dtype, dims, attrs).unwrap_err();
            assert!(why.contains(named), "{why}");
        }
    }
}
