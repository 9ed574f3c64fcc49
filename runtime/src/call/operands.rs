//! The operands of a call as its host packs them: before r5 elements that share a byte lie in it the other way round.

use super::{Call, Ret};
use crate::{Code, Error, Result, Tensor};
use xla_ffi_sys::Revision;

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
        Code::Unimplemented,
        format!(
            "result {number} is to lie in a tensor whose elements share bytes, and hosts of {revision} pack those the \
             other way round: take it as a new result"
        ),
    )
}

/// Whether hosts of the revision put the first of the elements that share a byte into its high bits.
pub(super) fn flips(revision: Revision) -> bool {
    revision < Revision::R5
}
