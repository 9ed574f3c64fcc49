//! Result shapes from a manifest: by the shape contract, or by the argument that a result aliases.

use std::collections::BTreeMap;
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

/// What a contract's names stand for.
#[derive(Default)]
struct Sizes<'a> {
    named: BTreeMap<&'a str, i64>,
    ellipsis: Option<Vec<i64>>,
}

fn by_contract(text: &str, args: &[Shape]) -> Result<Vec<Vec<i64>>, String> {
    let (left, right) = text
        .split_once("->")
        .ok_or_else(|| format!("its contract '{text}' has no '->'"))?;
    let mut sizes = Sizes::default();
    let mut shapes = args.iter().enumerate();
    for entry in entries(left) {
        let (entry, repeats, optional) = match (entry.strip_suffix('*'), entry.strip_suffix('?')) {
            (Some(entry), _) => (entry, true, false),
            (_, Some(entry)) => (entry, false, true),
            _ => (entry, false, false),
        };
        loop {
            match shapes.next() {
                Some((index, shape)) => sizes.learn(text, entry, index, shape)?,
                None if repeats || optional => break,
                None => {
                    return Err(format!(
                        "its contract '{text}' has more arguments than are given"
                    ));
                }
            }
            if !repeats {
                break;
            }
        }
    }
    if shapes.next().is_some() {
        return Err(format!(
            "its contract '{text}' has fewer arguments than are given"
        ));
    }
    entries(right)
        .map(|entry| sizes.build(text, entry))
        .collect()
}

fn entries(side: &str) -> impl Iterator<Item = &str> {
    side.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

impl<'a> Sizes<'a> {
    fn learn(
        &mut self,
        text: &str,
        entry: &'a str,
        index: usize,
        shape: &Shape,
    ) -> Result<(), String> {
        let wrong =
            || format!("argument {index} is {shape}, the contract '{text}' wants '{entry}' there");
        let words: Vec<_> = entry
            .split_whitespace()
            .filter(|word| *word != "()")
            .collect();
        let dims = shape.dims();
        if entry == "token" {
            return Ok(());
        }
        let ellipsis = words.iter().position(|word| *word == "...");
        let fixed = words.len() - usize::from(ellipsis.is_some());
        if dims.len() < fixed || (ellipsis.is_none() && dims.len() != fixed) {
            return Err(wrong());
        }
        let before = ellipsis.unwrap_or(words.len());
        let after = words.len() - before - usize::from(ellipsis.is_some());
        let middle = &dims[before..dims.len() - after];
        if ellipsis.is_some() {
            match &self.ellipsis {
                Some(known) if known != middle => return Err(wrong()),
                _ => self.ellipsis = Some(middle.to_vec()),
            }
        }
        let pairs = words[..before].iter().zip(&dims[..before]);
        let tail = words[words.len() - after..]
            .iter()
            .zip(&dims[dims.len() - after..]);
        for (word, dim) in pairs.chain(tail) {
            let fits = match word.parse::<i64>() {
                _ if *word == "_" => true,
                Ok(size) => size == *dim,
                Err(_) => *self.named.entry(word).or_insert(*dim) == *dim,
            };
            if !fits {
                return Err(wrong());
            }
        }
        Ok(())
    }

    fn build(&self, text: &str, entry: &str) -> Result<Vec<i64>, String> {
        let mut dims = vec![];
        for word in entry
            .split_whitespace()
            .filter(|word| !matches!(*word, "()" | "token"))
        {
            let unknown = || format!("its contract '{text}' does not say what '{word}' is");
            if word == "..." {
                dims.extend_from_slice(self.ellipsis.as_deref().ok_or_else(unknown)?);
            } else if let Ok(size) = word.parse() {
                dims.push(size);
            } else {
                dims.push(*self.named.get(word).ok_or_else(unknown)?);
            }
        }
        Ok(dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(text: &str, args: &[&[i64]]) -> Result<Vec<Vec<i64>>, String> {
        let args: Vec<_> = args
            .iter()
            .map(|dims| Shape::new(DType::F32, *dims).unwrap())
            .collect();
        by_contract(text, &args)
    }

    #[test]
    fn shapes_follow() {
        assert_eq!(
            dims("... n -> ... n", &[&[2, 3, 4]]),
            Ok(vec![vec![2, 3, 4]])
        );
        assert_eq!(
            dims("b n k, b k m -> b n m", &[&[1, 2, 3], &[1, 3, 4]]),
            Ok(vec![vec![1, 2, 4]])
        );
        assert_eq!(dims("n, m -> m", &[&[128], &[2048]]), Ok(vec![vec![2048]]));
        assert_eq!(
            dims("() , _ -> 3, ()", &[&[], &[9]]),
            Ok(vec![vec![3], vec![]])
        );
        assert_eq!(dims("n* -> n", &[&[2], &[2]]), Ok(vec![vec![2]]));
        assert_eq!(dims("n, m? -> n", &[&[2]]), Ok(vec![vec![2]]));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        assert!(
            dims("n, n -> n", &[&[2], &[3]])
                .unwrap_err()
                .contains("argument 1")
        );
        assert!(dims("n -> m", &[&[2]]).unwrap_err().contains("'m'"));
        assert!(dims("n -> n", &[&[2], &[2]]).unwrap_err().contains("fewer"));
        assert!(dims("n, m -> n", &[&[2]]).unwrap_err().contains("more"));
        assert!(dims("... n -> n", &[&[]]).is_err());
        assert!(dims("3 -> 3", &[&[2]]).is_err());
        assert!(dims("nothing", &[]).is_err());
    }
}
