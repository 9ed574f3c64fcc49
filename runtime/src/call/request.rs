//! The request for a call: operands, results, and the rules of the call.
//!
//! Operands are packed as the revision's hosts pack them: before r5, elements that share a byte are in the opposite
//! order.

use super::Call;
use crate::context::Parts;
use crate::value::{Shape, Tensor};
use std::time::Duration;
use xla_ffi_sys::Revision;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// The stages that a call runs in addition to execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stages {
    /// The call runs the prepare and initialize stages if the handler has them, as on GPU hosts.
    #[default]
    All,
    /// The call runs only execute, as XLA on CPU does up to the newest known revision.
    Cpu,
}

/// Whether a call fails if its handler succeeds without writing a result
/// ([`Call::unwritten`](crate::Call::unwritten)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unwritten {
    /// Unwritten results are returned unchanged. Results in memory of the runtime contain zeros.
    #[default]
    Allowed,
    /// The call fails. The check costs one pass over the results before the call and one pass after the call.
    Refused,
}

/// The time limit of a call, and its treatment of unwritten results.
#[derive(Clone, Copy, Default)]
pub(super) struct Rules {
    pub(super) stages: Stages,
    /// The time limit that the caller set; the inner `None` means no limit.
    pub(super) time_limit: Option<Option<Duration>>,
    pub(super) unwritten: Unwritten,
}

impl Rules {
    /// Returns the time limit of a wait for an asynchronous handler; `None` waits forever.
    pub(super) fn wait_limit(self) -> Option<Duration> {
        self.time_limit.unwrap_or(Some(Duration::from_secs(60)))
    }
}

/// A result of a call under construction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ret {
    /// The result gets new memory of this shape.
    New(Shape),
    /// The result uses the memory of the argument with this index.
    Alias(usize),
    /// The result uses the memory of this tensor, with the tensor's current elements.
    In(Tensor),
}

impl From<Shape> for Ret {
    fn from(shape: Shape) -> Self {
        Self::New(shape)
    }
}

/// Returns the bytes of the tensor for result `number`, or an error if a different tensor shares the bytes.
fn bytes_to_write(tensor: &mut Tensor, number: usize) -> Result<&mut [u8]> {
    tensor.bytes_mut().ok_or_else(|| {
        Error::invalid_argument(format!(
            "result {number}: the tensor has clones or is read-only; pass one that can be written"
        ))
    })
}

/// The operands and the rules of a call.
#[derive(Clone)]
pub(crate) struct Request {
    pub(super) parts: Parts,
    pub(super) args: Vec<Tensor>,
    pub(super) rets: Vec<Ret>,
    pub(super) rules: Rules,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            parts: Parts::new(),
            args: vec![],
            rets: vec![],
            rules: Rules::default(),
        }
    }
}

impl Call {
    /// Moves the requested results from `rets` to `results`, each with its memory. A result that aliases an argument
    /// gets the argument's memory.
    #[doc(hidden)]
    pub fn operands(
        args: &mut [Tensor],
        rets: &mut Vec<Ret>,
        results: &mut Vec<Tensor>,
    ) -> Result<()> {
        let mut aliased = vec![];
        results.reserve_exact(rets.len());
        for (number, ret) in rets.drain(..).enumerate() {
            results.push(match ret {
                Ret::New(shape) => Tensor::zeros(shape)?,
                Ret::In(mut tensor) => {
                    bytes_to_write(&mut tensor, number)?;
                    tensor
                }
                Ret::Alias(index) => {
                    let count = args.len();
                    let missing = || {
                        Error::invalid_argument(format!(
                            "result {number} aliases argument {index}, but there are {count}"
                        ))
                    };
                    aliased.resize(count, false);
                    let taken = aliased.get_mut(index).ok_or_else(missing)?;
                    if std::mem::replace(taken, true) {
                        return Err(Error::invalid_argument(format!(
                            "two results alias argument {index}"
                        )));
                    }
                    // An argument whose memory other tensors share is copied, because the handler writes to it.
                    if args[index].bytes_mut().is_none() {
                        let shared = args[index].clone();
                        args[index] = Tensor::from_bytes(shared.shape().clone(), shared.bytes())?;
                    }
                    args[index].clone()
                }
            });
        }
        Ok(())
    }
}

/// Prepares the memory of the operands, packed as the revision's hosts pack it, and moves the requested results to
/// `rets`.
pub(super) fn operands(
    args: &mut [Tensor],
    asked: &mut Vec<Ret>,
    revision: Revision,
    rets: &mut Vec<Tensor>,
) -> Result<()> {
    if flips(revision) {
        for (number, ret) in asked.iter().enumerate() {
            if matches!(ret, Ret::In(tensor) if tensor.shape().dtype().is_packed()) {
                return Err(packed_otherwise(number, revision));
            }
        }
    }
    Call::operands(args, asked, rets)?;
    if flips(revision) {
        for ret in rets.iter_mut() {
            // A result in an argument's memory must share the memory with the argument after the conversion.
            let shared_with = args.iter_mut().find(|arg| arg.shares_memory_with(ret));
            *ret = ret.with_flipped_packing()?;
            if let Some(arg) = shared_with {
                *arg = ret.clone();
            }
        }
        for arg in args {
            if !rets.iter().any(|ret| ret.shares_memory_with(arg)) {
                *arg = arg.with_flipped_packing()?;
            }
        }
    }
    Ok(())
}

#[cold]
fn packed_otherwise(number: usize, revision: Revision) -> Error {
    Error::new(
        ErrorCode::Unimplemented,
        format!(
            "result {number}: hosts of {revision} pack elements of less than a byte in the other order; take it as a new result"
        ),
    )
}

/// Returns true if hosts of the revision pack the first element of a byte into the high bits.
pub(super) fn flips(revision: Revision) -> bool {
    revision < Revision::R5
}
