//! What is asked of a call: operands, results, and what it does besides calling its handler.
//!
//! Operands lie in memory as hosts of the revision pack them: before r5 elements that share a byte lie in it the other way
//! round.

use super::Call;
use crate::context::Parts;
use crate::value::{Shape, Tensor};
use std::time::Duration;
use xla_ffi_sys::Revision;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Which stages a call runs besides execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stages {
    /// Prepare and initialize where the handler has them, as GPU hosts do.
    #[default]
    All,
    /// Neither, as XLA does on CPU so far.
    Cpu,
}

/// What becomes of results that a handler says it wrote and did not ([`Call::unwritten`](crate::Call::unwritten)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unwritten {
    /// They are handed over as they are: zeros, in memory of the runtime's.
    #[default]
    Allowed,
    /// The call fails. Costs a pass over the results before the call and one behind.
    Refused,
}

/// What a call was asked to do besides calling its handler.
#[derive(Clone, Copy, Default)]
pub(super) struct Rules {
    pub(super) stages: Stages,
    /// The limit that the caller set, which may be none.
    pub(super) time_limit: Option<Option<Duration>>,
    pub(super) unwritten: Unwritten,
}

impl Rules {
    /// How long to wait for an asynchronous handler.
    pub(super) fn wait_limit(self) -> Option<Duration> {
        self.time_limit.unwrap_or(Some(Duration::from_secs(60)))
    }
}

/// One result of a call that is being put together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ret {
    /// Memory of its own.
    New(Shape),
    /// The memory of an argument.
    Alias(usize),
    /// Memory of the program's, as it is.
    In(Tensor),
}

impl From<Shape> for Ret {
    fn from(shape: Shape) -> Self {
        Self::New(shape)
    }
}

/// The bytes of a tensor in whose memory result `number` is to lie, refused where others would see them change.
fn bytes_to_write(tensor: &mut Tensor, number: usize) -> Result<&mut [u8]> {
    tensor.bytes_mut().ok_or_else(|| {
        Error::invalid_argument(format!(
            "result {number}: the tensor has clones or is read-only; pass one that can be written"
        ))
    })
}

/// What is asked of a call.
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
    /// The results' memory, aliases resolved: what is asked for is taken out of its list.
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
                    // What somebody else still holds must not change under his hands.
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

/// The operands' memory, as hosts of the revision pack it.
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
            // A result in an argument's memory stays there.
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

/// Whether hosts of the revision put the first of the elements that share a byte into its high bits.
pub(super) fn flips(revision: Revision) -> bool {
    revision < Revision::R5
}
