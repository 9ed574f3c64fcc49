//! The handler that is checked, and the call for the checks. The operands are those on the command line, or are
//! generated from the manifest.

use crate::call::{CallArgs, Prepared};
use crate::target::{HandlerName, Target};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use xla_ffi_doctor::manifest::{self, Batch, Kind, Manifest};
use xla_ffi_runtime::dtype::Class;
use xla_ffi_runtime::spec::Spec;
use xla_ffi_runtime::{DType, Revision, Shape, Tensor};

/// The sizes of dimensions that a shape contract names, in the order of the names.
const SIZES: [i64; 6] = [5, 3, 4, 2, 7, 6];
/// The sizes of the dimensions that match `...` in a shape contract.
const BATCH: [i64; 2] = [2, 3];

/// A name in the shape contract, and the shapes of all arguments if the dimensions with this name have a different
/// size.
pub(super) type Resized = (String, Vec<Shape>);

/// The handler that is checked, and its call.
pub(super) struct Subject {
    args: CallArgs,
    pub(super) manifest: Option<manifest::Handler>,
    /// Whether the library was built with this SDK, so that its handlers must refuse undeclared operands.
    pub(super) is_ours: bool,
    /// The names of each argument's dimensions, from the shape contract.
    names: Option<Vec<Vec<String>>>,
    /// The names of operands whose values the checks must not change, from `--keep`.
    keep: Vec<String>,
}

impl Subject {
    /// Returns the handler and a call for the checks. The inner error is the reason why no call can be generated.
    pub(super) fn new(
        args: &CallArgs,
        keep: &[String],
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
                match generated(manifest) {
                    Ok(specs) => args.args = specs,
                    Err(why) => return Ok(Err(format!("{why}: pass --arg SPEC for each operand"))),
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
                "attribute `{}` has no default: pass it with --attrs",
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
        let subject = Self {
            args,
            manifest,
            is_ours,
            names,
            keep: keep.to_vec(),
        };
        let declared = subject
            .manifest
            .as_ref()
            .map_or(0, |manifest| manifest.args.len());
        let arguments: Vec<_> = (0..declared.max(shapes.len()))
            .map(|i| subject.argument(i))
            .collect();
        if let Some(unknown) = keep.iter().find(|name| !arguments.contains(name)) {
            bail!(
                "--keep: expected one of {}, got {unknown}",
                arguments.join(", ")
            );
        }
        Ok(Ok(subject))
    }

    /// Prepares the call on a new embedded runtime.
    pub(super) fn prepare(&self) -> Result<Prepared> {
        Prepared::new(&self.args)
    }

    /// Prepares the call on a new embedded runtime of the given revision.
    pub(super) fn prepare_on(&self, revision: Revision) -> Result<Prepared> {
        let mut args = self.args.clone();
        args.revision = Some(revision);
        Prepared::new(&args)
    }

    /// Prepares a call whose arguments have the given shapes. If `rets` is `None`, the result shapes are inferred from
    /// the shape contract.
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

    /// Calls the handler with different arguments, and returns the results of the call.
    pub(super) fn call(&self, args: Vec<Tensor>, rets: Vec<Shape>) -> Result<Vec<Tensor>> {
        let shapes: Vec<_> = args.iter().map(|arg| arg.shape().clone()).collect();
        let prepared = self.prepare_with(&shapes, Some(rets))?;
        Ok(prepared.with_arguments(args).call().run()?.rets)
    }

    /// Returns whether `vmap` adds a leading dimension to each argument, according to the loader's rules. The error is
    /// the reason why no batched call can be made.
    pub(super) fn leading(&self) -> Result<Vec<bool>, String> {
        let Some(manifest) = self.manifest.as_ref().filter(|handler| handler.described) else {
            return Err("without a manifest the batch dimensions are unknown".into());
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
                    return Err("some entries of the shape contract do not start with `...`".into());
                }
                vec![true; count]
            }
            Some(Batch::Word(word)) if word == "leading" => vec![true; count],
            Some(Batch::Each(words)) => words.iter().map(|word| word == "leading").collect(),
            Some(Batch::Word(word)) => {
                return Err(format!("the manifest declares batch = \"{word}\""));
            }
            Some(_) => return Err("a different handler computes its batches".into()),
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
            false => Err("no operand is batched".into()),
        }
    }

    /// Returns the reason why [`resized`](Self::resized) returns `None`.
    pub(super) fn why_not_resized(&self) -> &'static str {
        match &self.manifest {
            _ if !self.args.rets.is_empty() => "--ret fixes the sizes of the results",
            None => "without a manifest the shape contract is unknown",
            Some(manifest) if manifest.shape.is_none() => "the handler has no shape contract",
            Some(_) => "the shape contract has optional or repeated operands",
        }
    }

    /// Returns true if `--keep` names this argument, so that its values must not be changed.
    pub(super) fn keeps(&self, index: usize) -> bool {
        self.keep.contains(&self.argument(index))
    }

    /// Returns the name of the argument at the index `index`.
    pub(super) fn argument(&self, index: usize) -> String {
        let args = self.manifest.as_ref().map(|manifest| &manifest.args);
        let named = args.and_then(|args| args.get(index.min(args.len().wrapping_sub(1))));
        named.map_or_else(|| format!("argument {index}"), |arg| arg.name.clone())
    }

    /// Returns one set of argument shapes per name in the shape contract. In each set, the dimensions with that name
    /// have the size `size`. Returns `None` if sizes cannot be changed.
    pub(super) fn resized(&self, size: i64) -> Result<Option<Vec<Resized>>> {
        // If the command line sets the result shapes, these would not fit the changed sizes.
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

/// Returns an operand with values that most handlers accept. Integers are 1, which is in most allowed ranges.
fn spec(shape: &Shape) -> Result<Spec> {
    let value = match shape.dtype().class() {
        Class::Float | Class::Complex => "random",
        Class::Token => return Ok(Spec::parse("token")?),
        _ => "ones",
    };
    Ok(Spec::parse(&format!("{shape}={value}"))?)
}

/// Returns the dimensions in each argument's entry of a shape contract, as written; `None` if an argument is optional
/// or repeated.
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

/// Returns the contract's name of each dimension of each argument; `None` if the contract does not fit `shapes`.
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

/// Generates arguments that fit the handler's description in the manifest.
fn generated(handler: &manifest::Handler) -> Result<Vec<Spec>, String> {
    let contract = handler.shape.as_deref().and_then(words);
    if handler.args.iter().any(|arg| arg.optional || arg.variadic) {
        return Err("the handler has optional or variadic operands".into());
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
        let dtype =
            dtype.ok_or_else(|| format!("argument `{}` has no known element type", arg.name))?;
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
            None => return Err("the handler has no shape contract".into()),
        }
        specs.push(Shape::new(dtype, dims).map_err(|error| error.to_string())?);
    }
    specs
        .iter()
        .map(|shape| spec(shape).map_err(|error| error.to_string()))
        .collect()
}

/// Returns a copy of each array's bytes.
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
