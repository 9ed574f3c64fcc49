//! A handler and the call that it is checked with: the command line's, or one made up from the manifest.

use crate::call::{CallArgs, Prepared};
use crate::target::{HandlerName, Target};
use anyhow::Result;
use std::collections::BTreeMap;
use xla_ffi_doctor::manifest::{self, Batch, Kind, Manifest};
use xla_ffi_runtime::dtype::Class;
use xla_ffi_runtime::spec::Spec;
use xla_ffi_runtime::{DType, Revision, Shape, Tensor};

/// Sizes that are given to the names of a contract, one after the other.
const SIZES: [i64; 6] = [5, 3, 4, 2, 7, 6];
/// What `...` stands for.
const BATCH: [i64; 2] = [2, 3];

/// One of a contract's names, and the arguments' shapes with another size for it.
pub(super) type Resized = (String, Vec<Shape>);

/// What is checked.
pub(super) struct Subject {
    args: CallArgs,
    pub(super) manifest: Option<manifest::Handler>,
    /// Whether the SDK made it: then it refuses what its manifest does not declare.
    pub(super) is_ours: bool,
    /// For each argument the names of its dimensions in the contract.
    names: Option<Vec<Vec<String>>>,
}

impl Subject {
    /// The subject, or why there is none: operands or attributes that cannot be made up.
    pub(super) fn new(
        args: &CallArgs,
        target: &Target,
        name: &HandlerName,
    ) -> Result<Result<Self, String>> {
        let chosen = target.choose(Some(name))?;
        let manifest = chosen.manifest.cloned();
        let is_ours = |of: &&Manifest| {
            let own = |handler: &manifest::Handler| Some(handler) == manifest.as_ref();
            of.handlers.iter().any(own)
        };
        let is_ours = target
            .manifests
            .iter()
            .find(is_ours)
            .is_some_and(|of| !of.sdk.is_empty());
        let mut args = args.clone();
        args.handler = Some(name.clone());
        if args.args.is_empty() {
            if let Some(manifest) = manifest
                .as_ref()
                .filter(|manifest| !manifest.args.is_empty())
            {
                match made_up(manifest) {
                    Ok(specs) => args.args = specs,
                    Err(why) => return Ok(Err(format!("{why}: give --arg SPEC for each operand"))),
                }
            }
        }
        let missing = manifest
            .iter()
            .flat_map(|manifest| &manifest.attrs)
            .find(|attr| {
                let given = args
                    .attrs
                    .as_ref()
                    .is_some_and(|attrs| attrs.get(&attr.name).is_some());
                !attr.optional && attr.from.is_none() && attr.default.is_null() && !given
            });
        if let Some(attr) = missing {
            return Ok(Err(format!(
                "its attribute '{}' has no default: give --attrs",
                attr.name
            )));
        }
        if let Err(why) = args.results(manifest.as_ref(), &args.arguments()?) {
            return Ok(Err(crate::output::error_text(&why)));
        }
        let shapes = shapes(&args)?;
        let names = manifest
            .as_ref()
            .and_then(|manifest| names(manifest.shape.as_deref()?, &shapes));
        Ok(Ok(Self {
            args,
            manifest,
            is_ours,
            names,
        }))
    }

    /// The call, in a runtime of its own.
    pub(super) fn prepare(&self) -> Result<Prepared> {
        Prepared::new(&self.args)
    }

    /// The same on a revision.
    pub(super) fn prepare_on(&self, revision: Revision) -> Result<Prepared> {
        let mut args = self.args.clone();
        args.revision = Some(revision);
        Prepared::new(&args)
    }

    /// The call with other arguments; the results stay, or follow from the contract if `rets` is none.
    pub(super) fn prepare_with(
        &self,
        shapes: &[Shape],
        rets: Option<Vec<Shape>>,
    ) -> Result<Prepared> {
        let mut args = self.args.clone();
        args.args = shapes.iter().map(spec).collect::<Result<_>>()?;
        args.rets = rets.unwrap_or_default();
        Prepared::new(&args)
    }

    pub(super) fn shapes(&self) -> Result<Vec<Shape>> {
        shapes(&self.args)
    }

    /// The results of a call with other arrays, all of which the caller knows the shapes of.
    pub(super) fn call(&self, args: Vec<Tensor>, rets: Vec<Shape>) -> Result<Vec<Tensor>> {
        let shapes: Vec<_> = args.iter().map(|arg| arg.shape().clone()).collect();
        let prepared = self.prepare_with(&shapes, Some(rets))?;
        Ok(prepared.with_arguments(args).call().run()?.rets)
    }

    /// For each argument whether a call for several rows has one more leading dimension in it, as the loader batches it;
    /// else why there is no such call.
    pub(super) fn leading(&self) -> Result<Vec<bool>, String> {
        let Some(manifest) = self.manifest.as_ref().filter(|handler| handler.described) else {
            return Err("without a manifest nobody knows which dimensions are rows".into());
        };
        let count = self.args.args.len();
        let leading = match &manifest.batch {
            None => {
                let leads =
                    |side: &str| side.split(',').all(|entry| entry.trim().starts_with("..."));
                let contract = manifest
                    .shape
                    .as_deref()
                    .and_then(|text| text.split_once("->"));
                let ranks = manifest.args.iter().chain(&manifest.rets);
                if !contract.is_some_and(|(args, rets)| leads(args) && leads(rets))
                    || ranks.into_iter().any(|operand| operand.rank.is_some())
                {
                    return Err(
                        "its operands do not all begin with '...': no dimensions are rows".into(),
                    );
                }
                vec![true; count]
            }
            Some(Batch::Word(word)) if word == "leading" => vec![true; count],
            Some(Batch::Each(words)) => words.iter().map(|word| word == "leading").collect(),
            Some(Batch::Word(word)) => return Err(format!("the manifest says batch = \"{word}\"")),
            Some(_) => return Err("it is batched by another handler".into()),
        };
        let tokens = self
            .args
            .args
            .iter()
            .map(|arg| arg.shape().dtype() == DType::Token);
        let leading: Vec<bool> = leading
            .iter()
            .zip(tokens)
            .map(|(leads, token)| *leads && !token)
            .collect();
        match leading.len() == count && leading.contains(&true) {
            true => Ok(leading),
            false => Err("no operands have rows".into()),
        }
    }

    /// Why there are no other sizes.
    pub(super) fn why_not_resized(&self) -> &'static str {
        match &self.manifest {
            _ if !self.args.rets.is_empty() => "--ret says the results' sizes",
            None => "without a manifest no shape contract is known",
            Some(manifest) if manifest.shape.is_none() => "it has no shape contract",
            Some(_) => "its shape contract has optional or repeated operands",
        }
    }

    /// The name of an argument.
    pub(super) fn argument(&self, index: usize) -> String {
        let args = self.manifest.as_ref().map(|manifest| &manifest.args);
        let named = args.and_then(|args| args.get(index.min(args.len().wrapping_sub(1))));
        named.map_or_else(|| format!("argument {index}"), |arg| arg.name.clone())
    }

    /// The arguments' shapes for other sizes of one of the contract's names, for each of them.
    pub(super) fn resized(&self, size: i64) -> Result<Option<Vec<Resized>>> {
        // Results that the command line gives would not fit.
        let Some(all) = self.names.as_ref().filter(|_| self.args.rets.is_empty()) else {
            return Ok(None);
        };
        let mut free: Vec<&String> = all.iter().flatten().filter(|name| is_free(name)).collect();
        free.sort();
        free.dedup();
        let shapes = self.shapes()?;
        let mut resized = vec![];
        for name in free {
            let of = |(shape, names): (&Shape, &Vec<String>)| {
                let dims = shape.dims().iter().zip(names);
                let dims: Vec<i64> = dims
                    .map(|(dim, own)| if own == name { size } else { *dim })
                    .collect();
                Shape::new(shape.dtype(), dims)
            };
            let shapes: Result<_, _> = shapes.iter().zip(all).map(of).collect();
            resized.push((name.clone(), shapes?));
        }
        Ok(Some(resized))
    }
}

fn shapes(args: &CallArgs) -> Result<Vec<Shape>> {
    let tensors = args.arguments()?;
    Ok(tensors
        .iter()
        .map(|tensor| tensor.shape().clone())
        .collect())
}

fn is_free(name: &str) -> bool {
    name != "_" && name.parse::<i64>().is_err()
}

/// Values that a handler of any purpose takes: no integer out of a range that it may have.
fn spec(shape: &Shape) -> Result<Spec> {
    let value = match shape.dtype().class() {
        Class::Float | Class::Complex => "random",
        Class::Token => return Ok(Spec::parse("token")?),
        _ => "ones",
    };
    Ok(Spec::parse(&format!("{shape}={value}"))?)
}

/// The words of the arguments in a contract, one list each; `None` where an operand is optional or repeats.
fn words(contract: &str) -> Option<Vec<Vec<&str>>> {
    let args = contract.split("->").next()?;
    if args.contains(['?', '*']) {
        return None;
    }
    let words = args.split(',').map(|entry| {
        let words = entry.split_whitespace();
        words.filter(|word| *word != "()").collect()
    });
    Some(words.collect())
}

/// The name of each dimension of the arguments.
fn names(contract: &str, shapes: &[Shape]) -> Option<Vec<Vec<String>>> {
    let words = words(contract)?;
    if words.len() != shapes.len() {
        return None;
    }
    let named = |(words, shape): (Vec<&str>, &Shape)| {
        let rank = shape.dims().len();
        let mut names = vec![];
        for word in &words {
            let count = if *word == "..." {
                (rank + 1).checked_sub(words.len())?
            } else {
                1
            };
            names.extend(std::iter::repeat_n((*word).to_owned(), count));
        }
        (names.len() == rank).then_some(names)
    };
    words.into_iter().zip(shapes).map(named).collect()
}

/// Operands that fit a manifest.
fn made_up(handler: &manifest::Handler) -> Result<Vec<Spec>, String> {
    let contract = handler.shape.as_deref().and_then(words);
    if handler.args.iter().any(|arg| arg.optional || arg.variadic) {
        return Err("it has optional or variadic operands".into());
    }
    let mut sizes: BTreeMap<String, i64> = BTreeMap::new();
    let mut specs = vec![];
    for (index, arg) in handler.args.iter().enumerate() {
        if arg.kind == Kind::Token {
            specs.push(Shape::token());
            continue;
        }
        let dtype = match &arg.dtypes {
            None => Some(DType::F32),
            Some(names) => names.iter().find_map(|name| DType::from_name(name)),
        };
        let dtype = dtype.ok_or_else(|| format!("no type of '{}' is known", arg.name))?;
        let mut dims = vec![];
        match contract.as_ref().and_then(|contract| contract.get(index)) {
            Some(words) => {
                for word in words {
                    match word.parse() {
                        Ok(size) => dims.push(size),
                        Err(_) if *word == "..." => {
                            let rank = arg.rank.map_or(BATCH.len(), |rank| {
                                (rank as usize + 1).saturating_sub(words.len())
                            });
                            dims.extend(BATCH.iter().cycle().take(rank));
                        }
                        Err(_) => {
                            let next = SIZES[sizes.len() % SIZES.len()];
                            dims.push(*sizes.entry((*word).to_owned()).or_insert(next));
                        }
                    }
                }
            }
            None if arg.rank == Some(0) => {}
            None => return Err("it has no shape contract that tells what fits together".into()),
        }
        specs.push(Shape::new(dtype, dims).map_err(|error| error.to_string())?);
    }
    specs
        .iter()
        .map(|shape| spec(shape).map_err(|error| error.to_string()))
        .collect()
}

/// The bytes of arrays, one after the other.
pub(super) fn bytes(tensors: &[Tensor]) -> Vec<Vec<u8>> {
    tensors
        .iter()
        .map(|tensor| tensor.bytes().to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_have_names() {
        let shape = |dims: &[i64]| Shape::new(DType::F32, dims).unwrap();
        let of = |contract: &str, shapes: &[Shape]| names(contract, shapes);
        let batched = of("... n k, 3 -> ... n", &[shape(&[2, 2, 5, 4]), shape(&[3])]).unwrap();
        assert_eq!(batched, [vec!["...", "...", "n", "k"], vec!["3"]]);
        assert_eq!(
            of("() -> ()", &[shape(&[])]).unwrap(),
            [Vec::<String>::new()]
        );
        assert_eq!(of("n -> n", &[shape(&[2, 2])]), None);
        assert_eq!(of("n* -> n", &[shape(&[2])]), None);
    }
}
