//! The checks of `xla-ffi check`. Each check is a function, and runs in a separate process.

use super::subject::{Subject, bytes};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use xla_ffi_runtime::dtype::Class;
use xla_ffi_runtime::scalar_codec::Number;
use xla_ffi_runtime::{DType, Displaced, Error, ErrorCode, Revision, Shape, Tensor, Unwritten};

/// The status of a check, with a text for the report.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Status {
    Passed(String),
    Failed(String),
    /// An observation that is not a failure, for the report.
    Note(String),
    Skipped(String),
}

impl Status {
    /// Returns the name of the status, and the text for the report.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Passed(why) => ("passed", why),
            Self::Failed(why) => ("failed", why),
            Self::Note(why) => ("note", why),
            Self::Skipped(why) => ("skipped", why),
        }
    }
}

/// A function that checks a handler and its call.
pub(super) type Check = fn(&Subject) -> Status;

/// All checks, in the order in which they run. The loader names the same checks (`python/xla_ffi/_check.py`).
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("runs", |subject| status_of(runs(subject))),
    ("written", |subject| status_of(written(subject))),
    ("operands", |subject| status_of(operands(subject))),
    ("repeats", |subject| if_deterministic(subject, repeats)),
    ("threads", |subject| if_deterministic(subject, threads)),
    ("vmap", |subject| if_deterministic(subject, vmap)),
    ("revisions", |subject| status_of(revisions(subject))),
    ("misaligned", |subject| status_of(misaligned(subject))),
    ("zero-sizes", |subject| status_of(sizes(subject, &[0]))),
    ("odd-sizes", |subject| {
        status_of(sizes(subject, &[1, 3, 7, 17, 33]))
    }),
    ("wrong-types", |subject| status_of(wrong_types(subject))),
    ("wrong-ranks", |subject| status_of(wrong_ranks(subject))),
];

/// Returns the status of a check, or a failure if the check returned an error.
fn status_of(status: Result<Status>) -> Status {
    status.unwrap_or_else(|error| Status::Failed(crate::output::error_text(&error)))
}

/// Runs a check that compares the results of several calls. The check is skipped if the handler is declared
/// nondeterministic.
fn if_deterministic(subject: &Subject, check: fn(&Subject) -> Result<Status>) -> Status {
    match is_deterministic(subject) {
        true => status_of(check(subject)),
        false => Status::Skipped("the manifest declares the handler nondeterministic".into()),
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

fn runs(subject: &Subject) -> Result<Status> {
    let outcome = subject.prepare()?.call().run()?;
    let rets: Vec<_> = outcome
        .rets
        .iter()
        .map(|ret| ret.shape().to_string())
        .collect();
    Ok(Status::Passed(if rets.is_empty() {
        "no results".into()
    } else {
        rets.join(", ")
    }))
}

/// Checks that the handler writes every byte of every result. Compares two calls whose result memory initially contains
/// different bytes.
fn written(subject: &Subject) -> Result<Status> {
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
            return Ok(Status::Failed(format!(
                "{why} in a second call with other bytes in the result memory: the handler leaves bytes unwritten or is \
                 nondeterministic"
            )));
        }
    }
    Ok(Status::Passed("every byte, in two calls".into()))
}

fn operands(subject: &Subject) -> Result<Status> {
    let prepared = subject.prepare()?;
    let before = bytes(prepared.arguments());
    prepared.call().run()?;
    for (index, (before, after)) in before.iter().zip(prepared.arguments()).enumerate() {
        if before != after.bytes() && !prepared.is_alias(index) {
            return Ok(Status::Failed(format!(
                "the handler changes its operand `{}`",
                subject.argument(index)
            )));
        }
    }
    Ok(Status::Passed("unchanged".into()))
}

fn repeats(subject: &Subject) -> Result<Status> {
    // Because all calls run in one process, the comparison detects state that persists between calls.
    let first = bytes(&subject.prepare()?.call().run()?.rets);
    for turn in 2..=4 {
        let again = subject.prepare()?.call().run()?;
        if let Some(why) = differ(&first, &again.rets) {
            return Ok(Status::Failed(format!(
                "{why} in call {turn} with the same operands"
            )));
        }
    }
    Ok(Status::Passed("the same results in 4 calls".into()))
}

fn threads(subject: &Subject) -> Result<Status> {
    if has_state(subject) {
        return Ok(Status::Skipped("the handler has state".into()));
    }
    let prepared = subject.prepare()?;
    if (0..prepared.arguments().len()).any(|index| prepared.is_alias(index)) {
        return Ok(Status::Skipped(
            "the handler changes operands in place".into(),
        ));
    }
    let wanted = bytes(&prepared.call().run()?.rets);
    let calls = || -> Result<Option<String>> {
        for _ in 0..20 {
            if let Some(why) = differ(&wanted, &prepared.call().run()?.rets) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    };
    let found = std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, calls);
        let threads: Vec<_> = match (0..4).map(start).collect::<std::io::Result<_>>() {
            Ok(threads) => threads,
            Err(error) => {
                return Err(anyhow::Error::from(error)
                    .context("cannot start a thread to call the handler from"));
            }
        };
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Ok(Some("a panic".into()))));
        ended.collect::<Result<Vec<_>>>()
    })?;
    Ok(match found.into_iter().flatten().next() {
        Some(why) => Status::Failed(format!("{why} in calls from 4 threads at once")),
        None => Status::Passed("the same results from 4 threads".into()),
    })
}

/// The number of rows in the batched call that the check [`vmap`] makes.
const ROWS: usize = 4;

/// Checks that a single call with several rows, as `vmap` makes it, has the same results as one call per row.
fn vmap(subject: &Subject) -> Result<Status> {
    let leading = match subject.leading() {
        Ok(leading) => leading,
        Err(why) => return Ok(Status::Skipped(why)),
    };
    let given = subject.prepare()?;
    let outcome = given.call().run()?;
    let shapes: Vec<_> = outcome.rets.iter().map(|ret| ret.shape().clone()).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15;
    let mut batch: Vec<Vec<Tensor>> = vec![];
    for row in 0..ROWS {
        let args = given.arguments().iter().zip(&leading).enumerate();
        let args = args.map(
            |(index, (arg, leads))| match *leads && !subject.keeps(index) {
                true => drawn(arg, row, &mut random),
                false => Ok(arg.clone()),
            },
        );
        batch.push(args.collect::<Result<_>>()?);
    }
    if (1..ROWS).all(|row| bytes(&batch[row]) == bytes(&batch[0])) {
        return Ok(Status::Skipped(
            "all values of the operands are equal: pass different values with --arg".into(),
        ));
    }
    let mut alone = vec![];
    for args in &batch {
        match subject.call(args.clone(), shapes.clone()) {
            Ok(rets) => alone.push(rets),
            Err(why) => {
                let why = crate::output::error_text(&why);
                return Ok(Status::Skipped(format!(
                    "the handler refuses other operand values: {why}; name operands whose values must not change with --keep"
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
                return Ok(Status::Failed(format!(
                    "result `{name}`: element {place} of row {row} is {got} in a batch of {ROWS} rows and {wanted} alone: \
                     the handler mixes rows"
                )));
            }
        }
    }
    Ok(Status::Passed(format!(
        "{ROWS} rows in one call equal a call per row"
    )))
}

/// Returns an operand's values for one row of a batch. Row 0 contains the given values, the last row repeats a single
/// value, and other rows are random selections. Floats have a different scale in each row.
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

/// Returns true if the difference between two values can result from rounding in a different order.
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

fn revisions(subject: &Subject) -> Result<Status> {
    let wanted = bytes(&subject.prepare()?.call().run()?.rets);
    let floor = subject
        .manifest
        .as_ref()
        .and_then(|manifest| manifest.floor_revision());
    let (mut refused, mut problems) = (vec![], vec![]);
    for revision in Revision::ALL {
        let outcome = subject
            .prepare_on(revision)
            .and_then(|prepared| Ok(prepared.call().run()?));
        match outcome {
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
        return Ok(Status::Failed(problems.join("\n")));
    }
    Ok(match refused.as_slice() {
        [] => Status::Passed(format!("the same results on r0 to {}", Revision::NEWEST)),
        refused => Status::Note(format!(
            "the same results on all revisions except {}, which the handler refuses",
            refused.join(", ")
        )),
    })
}

fn misaligned(subject: &Subject) -> Result<Status> {
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
    if (0..prepared.arguments().len()).any(|index| prepared.is_alias(index)) {
        return Ok(Status::Skipped(
            "the handler changes operands in place".into(),
        ));
    }
    let (count, mut accepted) = (displaced.len(), vec![]);
    if count == 0 {
        return Ok(Status::Skipped(
            "every operand has elements of one byte".into(),
        ));
    }
    for (at, name) in displaced {
        if prepared.call().run_displaced(at).is_ok() {
            accepted.push(format!("accepts `{name}` one byte past an aligned address"));
        }
    }
    Ok(match (accepted.is_empty(), subject.is_ours) {
        (true, _) => Status::Passed(format!("{count} refused")),
        (false, true) => Status::Failed(accepted.join("\n")),
        (false, false) => Status::Note(accepted.join("\n")),
    })
}

/// Checks calls in which one size of the shape contract is changed. Each call must return an error, or the same results
/// when it is repeated.
fn sizes(subject: &Subject, sizes: &[i64]) -> Result<Status> {
    let (mut calls, mut refused) = (0, 0);
    for size in sizes {
        let Some(resized) = subject.resized(*size)? else {
            return Ok(Status::Skipped(subject.why_not_resized().into()));
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
                        return Ok(Status::Failed(format!("{name} = {size}: {error}")));
                    }
                    refused += 1;
                    continue;
                }
            };
            if is_deterministic(subject) {
                if let Some(why) = differ(&bytes(&first.rets), &run()?.rets) {
                    return Ok(Status::Failed(format!(
                        "{name} = {size}: {why} in a second call"
                    )));
                }
            }
        }
    }
    Ok(match calls {
        0 => Status::Skipped("the shape contract fixes every dimension".into()),
        _ => Status::Passed(format!(
            "{calls} calls: {} with results, {refused} refused",
            calls - refused
        )),
    })
}

/// Checks that the handler refuses each operand with a different element type of the same size.
fn wrong_types(subject: &Subject) -> Result<Status> {
    let Some(manifest) = &subject.manifest else {
        return Ok(Status::Skipped(
            "without a manifest the operands' element types are unknown".into(),
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
                    "accepts {other} for `{}`, declared {}",
                    subject.argument(index),
                    accepted.join("|")
                ),
            ));
        }
    }
    wrong(subject, others, "the handler accepts every element type")
}

/// Checks that the handler refuses each operand if the operand has an additional dimension.
fn wrong_ranks(subject: &Subject) -> Result<Status> {
    let Some(manifest) = &subject.manifest else {
        return Ok(Status::Skipped(
            "without a manifest the operands' ranks are unknown".into(),
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
                    "accepts rank {} for `{}`, declared rank {rank}",
                    rank + 1,
                    subject.argument(index),
                ),
            ));
        }
    }
    wrong(subject, others, "the handler accepts every rank")
}

fn wrong(subject: &Subject, others: Vec<(Vec<Shape>, String)>, none: &str) -> Result<Status> {
    let outcome = subject.prepare()?.call().run()?;
    let rets: Vec<_> = outcome.rets.iter().map(|ret| ret.shape().clone()).collect();
    let count = others.len();
    let mut accepted = vec![];
    for (shapes, what) in others {
        let prepared = subject.prepare_with(&shapes, Some(rets.clone()));
        // If an operand shares memory with a result of a different type, preparing the call fails, which counts as a
        // refusal.
        let outcome = prepared.and_then(|prepared| Ok(prepared.call().run()?));
        if outcome.is_ok() {
            accepted.push(what);
        }
    }
    Ok(match (count, accepted.is_empty()) {
        (0, _) => Status::Skipped(none.into()),
        (_, true) => Status::Passed(format!("{count} refused")),
        (_, false) => Status::Failed(accepted.join("\n")),
    })
}

/// Describes the first difference between the results of two calls; `None` if they are equal.
fn differ(wanted: &[Vec<u8>], rets: &[Tensor]) -> Option<String> {
    let (index, (wanted, ret)) = wanted
        .iter()
        .zip(rets)
        .enumerate()
        .find(|(_, (wanted, ret))| wanted.as_slice() != ret.bytes())?;
    let byte = wanted.iter().zip(ret.bytes()).position(|(a, b)| a != b)?;
    let bits = ret.shape().dtype().bits().max(1);
    Some(format!(
        "result {index} ({}) differs at element {}",
        ret.shape(),
        byte * 8 / bits
    ))
}
