//! The checks, each a function of the subject that runs in a process of its own.

use super::subject::{Subject, bytes};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use xla_ffi_runtime::dtype::Class;
use xla_ffi_runtime::scalar_codec::Number;
use xla_ffi_runtime::{DType, Displaced, Error, ErrorCode, Revision, Shape, Tensor, Unwritten};

/// What a check has found.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Verdict {
    Ok(String),
    Fail(String),
    /// Something to know that is no failure.
    Annotation(String),
    Skipped(String),
}

impl Verdict {
    /// The word for it, and why.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Ok(why) => ("ok", why),
            Self::Fail(why) => ("FAIL", why),
            Self::Annotation(why) => ("told", why),
            Self::Skipped(why) => ("skipped", why),
        }
    }
}

/// A check.
pub(super) type Check = fn(&Subject) -> Verdict;

/// All of them, in the order in which they run.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("runs", |subject| or_failure(runs(subject))),
    ("written", |subject| or_failure(written(subject))),
    ("operands", |subject| or_failure(operands(subject))),
    ("repeats", |subject| if_deterministic(subject, repeats)),
    ("threads", |subject| if_deterministic(subject, threads)),
    ("rows", |subject| if_deterministic(subject, rows)),
    ("revisions", |subject| or_failure(revisions(subject))),
    ("misaligned", |subject| or_failure(misaligned(subject))),
    ("zero-sized", |subject| or_failure(sizes(subject, &[0]))),
    ("odd sizes", |subject| {
        or_failure(sizes(subject, &[1, 3, 7, 17, 33]))
    }),
    ("wrong types", |subject| or_failure(wrong_types(subject))),
    ("wrong ranks", |subject| or_failure(wrong_ranks(subject))),
];

/// What stops a check is its failure.
fn or_failure(verdict: Result<Verdict>) -> Verdict {
    verdict.unwrap_or_else(|error| Verdict::Fail(crate::output::error_text(&error)))
}

/// A check that compares what calls give.
fn if_deterministic(subject: &Subject, check: fn(&Subject) -> Result<Verdict>) -> Verdict {
    match is_deterministic(subject) {
        true => or_failure(check(subject)),
        false => Verdict::Skipped("the manifest says nondeterministic".into()),
    }
}

fn is_deterministic(subject: &Subject) -> bool {
    let manifest = subject.manifest.as_ref();
    !manifest.is_some_and(|manifest| {
        manifest
            .traits
            .iter()
            .any(|name| name == "nondeterministic")
    })
}

fn has_state(subject: &Subject) -> bool {
    subject
        .manifest
        .as_ref()
        .is_some_and(|manifest| manifest.state.is_some())
}

fn runs(subject: &Subject) -> Result<Verdict> {
    let outcome = subject.prepare()?.call().run()?;
    let rets: Vec<_> = outcome
        .rets
        .iter()
        .map(|ret| ret.shape().to_string())
        .collect();
    Ok(Verdict::Ok(if rets.is_empty() {
        "no results".into()
    } else {
        rets.join(", ")
    }))
}

/// Every byte of every result, on memory that holds something else each time.
fn written(subject: &Subject) -> Result<Verdict> {
    let run = || {
        subject
            .prepare()?
            .call()
            .unwritten(Unwritten::Refused)
            .run()
            .map_err(anyhow::Error::from)
    };
    let (first, second) = (run()?, run()?);
    if is_deterministic(subject) {
        if let Some(why) = differ(&bytes(&first.rets), &second.rets) {
            return Ok(Verdict::Fail(format!(
                "on memory that held something else {why}: bytes that the handler does not write, or chance"
            )));
        }
    }
    Ok(Verdict::Ok("every byte, twice".into()))
}

fn operands(subject: &Subject) -> Result<Verdict> {
    let prepared = subject.prepare()?;
    let before = bytes(prepared.arguments());
    prepared.call().run()?;
    for (index, (before, after)) in before.iter().zip(prepared.arguments()).enumerate() {
        if before != after.bytes() && !prepared.is_alias(index) {
            return Ok(Verdict::Fail(format!(
                "the handler changes its operand {}",
                subject.argument(index)
            )));
        }
    }
    Ok(Verdict::Ok("as they were".into()))
}

fn repeats(subject: &Subject) -> Result<Verdict> {
    // Within one process, since that is where state that is not the call site's would lie.
    let first = bytes(&subject.prepare()?.call().run()?.rets);
    for turn in 2..=4 {
        let again = subject.prepare()?.call().run()?;
        if let Some(why) = differ(&first, &again.rets) {
            return Ok(Verdict::Fail(format!("call {turn} of the same: {why}")));
        }
    }
    Ok(Verdict::Ok("the same 4 times".into()))
}

fn threads(subject: &Subject) -> Result<Verdict> {
    if has_state(subject) {
        return Ok(Verdict::Skipped("it has state".into()));
    }
    let prepared = subject.prepare()?;
    if (0..prepared.arguments().len()).any(|index| prepared.is_alias(index)) {
        return Ok(Verdict::Skipped("it changes operands in place".into()));
    }
    let wanted = bytes(&prepared.call().run()?.rets);
    let some = || -> Result<Option<String>> {
        for _ in 0..20 {
            if let Some(why) = differ(&wanted, &prepared.call().run()?.rets) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    };
    let found = std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, some);
        let threads: Vec<_> = match (0..4).map(start).collect::<std::io::Result<_>>() {
            Ok(threads) => threads,
            Err(error) => {
                return Err(anyhow::Error::from(error).context("no thread to call it from"));
            }
        };
        let came = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Ok(Some("a panic".into()))));
        came.collect::<Result<Vec<_>>>()
    })?;
    Ok(match found.into_iter().flatten().next() {
        Some(why) => Verdict::Fail(format!("from 4 threads at once {why}")),
        None => Verdict::Ok("the same from 4 threads".into()),
    })
}

/// How many rows the check of rows has.
const ROWS: usize = 4;

/// Several rows in one call, as vmap makes it, against each of them alone.
fn rows(subject: &Subject) -> Result<Verdict> {
    let leading = match subject.leading() {
        Ok(leading) => leading,
        Err(why) => return Ok(Verdict::Skipped(why)),
    };
    let given = subject.prepare()?;
    let outcome = given.call().run()?;
    let shapes: Vec<_> = outcome.rets.iter().map(|ret| ret.shape().clone()).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15;
    let mut batch: Vec<Vec<Tensor>> = vec![];
    for row in 0..ROWS {
        let args = given.arguments().iter().zip(&leading);
        let args = args.map(|(arg, leads)| match leads {
            true => drawn(arg, row, &mut random),
            false => Ok(arg.clone()),
        });
        batch.push(args.collect::<Result<_>>()?);
    }
    if (1..ROWS).all(|row| bytes(&batch[row]) == bytes(&batch[0])) {
        return Ok(Verdict::Skipped(
            "all values of its operands are the same: give others with --arg".into(),
        ));
    }
    let mut alone = vec![];
    for args in &batch {
        match subject.call(args.clone(), shapes.clone()) {
            Ok(rets) => alone.push(rets),
            Err(why) => {
                let why = crate::output::error_text(&why);
                return Ok(Verdict::Skipped(format!(
                    "the handler refuses other values of its operands: {why}"
                )));
            }
        }
    }
    let stacked = leading.iter().enumerate().map(|(index, leads)| {
        let rows: Vec<_> = batch.iter().map(|args| &args[index]).collect();
        match leads {
            true => Tensor::from_fn(with_rows(rows[0].shape())?, |at| {
                let size = rows[0].shape().elements();
                element(rows[at / size], at % size)
            })
            .map_err(anyhow::Error::from),
            false => Ok(rows[0].clone()),
        }
    });
    let stacked = stacked.collect::<Result<Vec<_>>>()?;
    let wide = shapes.iter().map(with_rows).collect::<Result<Vec<_>>>()?;
    let together = subject.call(stacked, wide)?;
    for (index, (ret, shape)) in together.iter().zip(&shapes).enumerate() {
        let size = shape.elements();
        for at in 0..size * ROWS {
            let (row, place) = (at / size, at % size);
            let (got, wanted) = (element(ret, at), element(&alone[row][index], place));
            if !is_close(shape.dtype(), got, wanted) {
                let name = &given.ret_names[index];
                let text = |tensor: &Tensor, at| tensor.text(at).unwrap_or_default();
                let (got, wanted) = (text(ret, at), text(&alone[row][index], place));
                return Ok(Verdict::Fail(format!(
                    "{name}: element {place} of row {row} is {got} among {ROWS} rows, and {wanted} alone: the \
                     handler's rows depend on one another"
                )));
            }
        }
    }
    Ok(Verdict::Ok(format!("{ROWS} rows as each alone")))
}

/// An operand in one row: the first as it is, the last of a single value, the others drawn from its values; floats have
/// another scale in each.
fn drawn(arg: &Tensor, row: usize, random: &mut u64) -> Result<Tensor> {
    let size = arg.shape().elements();
    if row == 0 || size == 0 {
        return Ok(arg.clone());
    }
    let mut next = || {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        (*random >> 16) as usize % size
    };
    let single = next();
    let is_single = row == ROWS - 1 && size > 1;
    let scale = if is_single {
        1.0
    } else {
        0.5_f64.powi(row as i32)
    };
    let tensor = Tensor::from_fn(arg.shape().clone(), |_| {
        let value = element(arg, if is_single { single } else { next() });
        match value {
            Number::Float(value) => Number::Float(value * scale),
            Number::Complex(re, im) => Number::Complex(re * scale, im * scale),
            other => other,
        }
    });
    Ok(tensor?)
}

fn element(tensor: &Tensor, at: usize) -> Number {
    tensor.get(at).unwrap_or(Number::Bool(false))
}

fn with_rows(shape: &Shape) -> Result<Shape> {
    let dims = [&[ROWS as i64], shape.dims()].concat();
    Ok(Shape::new(shape.dtype(), dims)?)
}

/// As close as another order of operations may bring it.
fn is_close(dtype: DType, got: Number, wanted: Number) -> bool {
    let near = |a: f64, b: f64, bits: usize| {
        let digits = match bits {
            64 => 52,
            32 => 23,
            _ => 7,
        };
        let tolerance = 16.0 * 0.5_f64.powi(digits);
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs())
    };
    match (got, wanted) {
        (Number::Float(a), Number::Float(b)) => near(a, b, dtype.bits()),
        (Number::Complex(a, b), Number::Complex(c, d)) => {
            near(a, c, dtype.bits() / 2) && near(b, d, dtype.bits() / 2)
        }
        (got, wanted) => got == wanted,
    }
}

fn revisions(subject: &Subject) -> Result<Verdict> {
    let wanted = bytes(&subject.prepare()?.call().run()?.rets);
    let floor = subject
        .manifest
        .as_ref()
        .and_then(|manifest| manifest.floor_revision());
    let (mut refused, mut problems) = (vec![], vec![]);
    for revision in Revision::ALL {
        let came = subject
            .prepare_on(revision)
            .and_then(|prepared| Ok(prepared.call().run()?));
        match came {
            Ok(outcome) => {
                if is_deterministic(subject) {
                    if let Some(why) = differ(&wanted, &outcome.rets) {
                        problems.push(format!("{revision}: {why}"));
                    }
                }
            }
            Err(error) => {
                let absent = error.downcast_ref::<Error>().map(Error::code)
                    == Some(ErrorCode::Unimplemented);
                if absent || floor.is_some_and(|floor| revision < floor) || !subject.is_ours {
                    refused.push(revision.to_string());
                } else {
                    problems.push(format!("{revision}: {}", crate::output::error_text(&error)));
                }
            }
        }
    }
    if !problems.is_empty() {
        return Ok(Verdict::Fail(problems.join("\n")));
    }
    Ok(match refused.as_slice() {
        [] => Verdict::Ok(format!("the same on r0 to {}", Revision::NEWEST)),
        refused => Verdict::Annotation(format!(
            "the same on all but {}, which lack something",
            refused.join(", ")
        )),
    })
}

fn misaligned(subject: &Subject) -> Result<Verdict> {
    let prepared = subject.prepare()?;
    let wide = |shape: &Shape| shape.dtype().bits() > 8 && shape.bytes() > 0;
    let args = prepared.arguments().iter().enumerate();
    let args = args.filter(|(_, arg)| wide(arg.shape()));
    let mut displaced: Vec<_> = args
        .map(|(index, _)| (Displaced::Argument(index), subject.argument(index)))
        .collect();
    let outcome = prepared.call().run()?;
    let rets = outcome.rets.iter().zip(&prepared.ret_names).enumerate();
    let rets = rets.filter(|(_, (ret, _))| wide(ret.shape()));
    displaced.extend(rets.map(|(index, (_, name))| (Displaced::Result(index), name.clone())));
    let displaced = displaced
        .into_iter()
        .map(|(at, name)| (at, format!("{name}, a byte behind an aligned address,")));
    refuses(subject, displaced.collect())
}

/// Whether the handler refuses operands that lie where they should not.
fn refuses(subject: &Subject, displaced: Vec<(Displaced, String)>) -> Result<Verdict> {
    let prepared = subject.prepare()?;
    if (0..prepared.arguments().len()).any(|index| prepared.is_alias(index)) {
        return Ok(Verdict::Skipped("it changes operands in place".into()));
    }
    let (count, mut taken) = (displaced.len(), vec![]);
    if count == 0 {
        return Ok(Verdict::Skipped(
            "no operands for which there is such a place".into(),
        ));
    }
    for (at, what) in displaced {
        if prepared.call().run_displaced(at).is_ok() {
            taken.push(format!("{what} is taken as if nothing were"));
        }
    }
    Ok(match (taken.is_empty(), subject.is_ours) {
        (true, _) => Verdict::Ok(format!("{count} refused")),
        (false, true) => Verdict::Fail(taken.join("\n")),
        (false, false) => Verdict::Annotation(taken.join("\n")),
    })
}

/// Results or an error, the same twice, for other sizes of each of the contract's names.
fn sizes(subject: &Subject, sizes: &[i64]) -> Result<Verdict> {
    let (mut calls, mut refused) = (0, 0);
    for size in sizes {
        let Some(resized) = subject.resized(*size)? else {
            return Ok(Verdict::Skipped(subject.why_not_resized().into()));
        };
        for (name, shapes) in resized {
            calls += 1;
            let run = || {
                subject
                    .prepare_with(&shapes, None)?
                    .call()
                    .unwritten(Unwritten::Refused)
                    .run()
                    .map_err(anyhow::Error::from)
            };
            let first = match run() {
                Ok(outcome) => outcome,
                Err(error) => {
                    let found = error.downcast_ref::<Error>();
                    let is_bad = |error: &&Error| {
                        !error.findings().is_empty() || error.code() == ErrorCode::Internal
                    };
                    if let Some(error) = found.filter(is_bad) {
                        return Ok(Verdict::Fail(format!("{name} = {size}: {error}")));
                    }
                    refused += 1;
                    continue;
                }
            };
            if is_deterministic(subject) {
                if let Some(why) = differ(&bytes(&first.rets), &run()?.rets) {
                    return Ok(Verdict::Fail(format!("{name} = {size}, once more: {why}")));
                }
            }
        }
    }
    Ok(match calls {
        0 => Verdict::Skipped("no dimension is free".into()),
        _ => Verdict::Ok(format!("{calls} calls, {refused} refused")),
    })
}

/// Each operand as another type of the same size.
fn wrong_types(subject: &Subject) -> Result<Verdict> {
    let Some(manifest) = &subject.manifest else {
        return Ok(Verdict::Skipped(
            "without a manifest nobody knows which types are right".into(),
        ));
    };
    let shapes = subject.shapes()?;
    let mut others = vec![];
    for (index, shape) in shapes.iter().enumerate() {
        let declared = manifest
            .args
            .get(index.min(manifest.args.len().saturating_sub(1)));
        let Some(accepted) = declared.and_then(|arg| arg.dtypes.as_ref()) else {
            continue;
        };
        let other = DType::all().find(|other| {
            other.bits() == shape.dtype().bits()
                && other.class() != Class::Token
                && !accepted.iter().any(|name| name == other.c_name())
        });
        if let Some(other) = other {
            let mut wrong = shapes.clone();
            wrong[index] = Shape::new(other, shape.dims())?;
            others.push((
                wrong,
                format!(
                    "{} of {other} is taken for {}",
                    subject.argument(index),
                    accepted.join("|")
                ),
            ));
        }
    }
    wrong(subject, others, "every type is accepted")
}

/// Each operand with a dimension more.
fn wrong_ranks(subject: &Subject) -> Result<Verdict> {
    let Some(manifest) = &subject.manifest else {
        return Ok(Verdict::Skipped(
            "without a manifest nobody knows which ranks are right".into(),
        ));
    };
    let shapes = subject.shapes()?;
    let contract = manifest.shape.as_deref().unwrap_or("...");
    let mut others = vec![];
    for (index, shape) in shapes.iter().enumerate() {
        let declared = manifest
            .args
            .get(index.min(manifest.args.len().saturating_sub(1)));
        let fixed = declared.is_some_and(|arg| arg.rank.is_some());
        if (fixed || !contract.contains("...")) && shape.dtype() != DType::Token {
            let mut wrong = shapes.clone();
            wrong[index] = Shape::new(shape.dtype(), [&[1], shape.dims()].concat())?;
            let rank = shape.dims().len();
            others.push((
                wrong,
                format!(
                    "{} of rank {} is taken for one of rank {rank}",
                    subject.argument(index),
                    rank + 1
                ),
            ));
        }
    }
    wrong(subject, others, "no rank is fixed")
}

fn wrong(subject: &Subject, others: Vec<(Vec<Shape>, String)>, none: &str) -> Result<Verdict> {
    let outcome = subject.prepare()?.call().run()?;
    let rets: Vec<_> = outcome.rets.iter().map(|ret| ret.shape().clone()).collect();
    let count = others.len();
    let mut taken = vec![];
    for (shapes, what) in others {
        let prepared = subject.prepare_with(&shapes, Some(rets.clone()));
        // What shares memory cannot have another type: the command line itself refuses.
        let came = prepared.and_then(|prepared| Ok(prepared.call().run()?));
        if came.is_ok() {
            taken.push(what);
        }
    }
    Ok(match (count, taken.is_empty()) {
        (0, _) => Verdict::Skipped(none.into()),
        (_, true) => Verdict::Ok(format!("{count} refused")),
        (_, false) => Verdict::Fail(taken.join("\n")),
    })
}

/// How results differ from others, in words.
fn differ(wanted: &[Vec<u8>], rets: &[Tensor]) -> Option<String> {
    let (index, (wanted, ret)) = wanted
        .iter()
        .zip(rets)
        .enumerate()
        .find(|(_, (wanted, ret))| wanted.as_slice() != ret.bytes())?;
    let byte = wanted.iter().zip(ret.bytes()).position(|(a, b)| a != b)?;
    let bits = ret.shape().dtype().bits().max(1);
    Some(format!(
        "result {index} ({}) differs, first in element {}",
        ret.shape(),
        byte * 8 / bits
    ))
}
