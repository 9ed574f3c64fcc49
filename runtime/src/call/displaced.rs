//! Calls whose operands lie where no host would put them: what handlers have to refuse.
//!
//! The operands lie in one block of memory that the call owns, each within it with all its bytes, so that a
//! handler that takes them as they are harms nobody else.

use super::ret::bytes_to_write;
use super::{Call, Outcome, Ret};
use crate::frame::call_frame::CallFrame;
use crate::value::memory::ALIGNMENT;
use crate::{Code, Error, Result, Shape, Tensor};
use std::ffi::c_void;
use std::mem::ManuallyDrop;

/// Where the operands of a call lie, in place of where they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Displaced {
    /// An argument, by its index, a byte behind an aligned address.
    Argument(usize),
    /// A result, by its index, a byte behind an aligned address.
    Result(usize),
}

impl Call {
    /// Runs the call with operands that lie where they should not, in host memory. Results in an argument's
    /// memory ([`Call::ret_alias`]) are not for this.
    ///
    /// # Errors
    /// As [`Call::run`]; an index of an operand that there is not, and results in an argument's memory;
    /// `FAILED_PRECONDITION` on the stream's own thread.
    pub fn run_displaced(mut self, displaced: Displaced) -> Result<Outcome> {
        let flips = super::operands::flips(self.executable.handler().shared.revision);
        let packed = |tensor: Tensor| match flips {
            true => tensor.with_flipped_packing(),
            false => Ok(tensor),
        };
        let args = std::mem::take(&mut self.request.args)
            .into_iter()
            .map(packed);
        let args = args.collect::<Result<Vec<_>>>()?;
        let mut asked = std::mem::take(&mut self.request.rets);
        let shapes = asked.iter_mut().enumerate().map(|(number, ret)| match ret {
            Ret::New(shape) => Ok(shape.clone()),
            Ret::In(tensor) => {
                bytes_to_write(tensor, number)?;
                Ok(tensor.shape().clone())
            }
            Ret::Alias(_) => Err(Error::invalid("a result lies in an argument's memory")),
        });
        let shapes: Vec<Shape> = shapes.collect::<Result<_>>()?;
        let all: Vec<&Shape> = args.iter().map(Tensor::shape).chain(&shapes).collect();
        let too_large = || {
            Error::new(
                Code::ResourceExhausted,
                "the operands are too large for a block",
            )
        };
        let (mut places, end) = aligned(&all).ok_or_else(too_large)?;
        let moved = match displaced {
            Displaced::Argument(index) => (index < args.len()).then_some(index),
            Displaced::Result(index) => (index < shapes.len()).then_some(args.len() + index),
        };
        let moved = moved.ok_or_else(|| {
            Error::new(
                Code::OutOfRange,
                "an operand is displaced that there is not",
            )
        })?;
        // Behind everything else there is room for the largest of them.
        places[moved] = end + 1;
        let largest = all.iter().map(|shape| shape.bytes()).max().unwrap_or(0);
        // Bytes of any operand may be read; the block begins where the runtime's own arrays would.
        let size = largest
            .checked_add(ALIGNMENT)
            .and_then(|room| {
                room.checked_mul(2)?
                    .checked_add(end)?
                    .checked_add(ALIGNMENT)
            })
            .filter(|size| *size <= isize::MAX as usize);
        let mut block = vec![];
        let size = size.ok_or_else(too_large)?;
        block.try_reserve_exact(size).map_err(|_| too_large())?;
        block.resize(size, 0_u8);
        let begin = block.as_ptr().align_offset(ALIGNMENT);
        for (arg, place) in args.iter().zip(&places) {
            block[begin + place..][..arg.bytes().len()].copy_from_slice(arg.bytes());
        }
        for (ret, place) in asked.iter().zip(&places[args.len()..]) {
            if let Ret::In(tensor) = ret {
                let tensor = packed(tensor.clone())?;
                block[begin + place..][..tensor.bytes().len()].copy_from_slice(tensor.bytes());
            }
        }
        let first = block.as_mut_ptr();
        let operand = |(shape, place): (&&Shape, &usize)| {
            let data: *mut c_void = first.wrapping_add(begin + place).cast();
            ((*shape).clone(), data)
        };
        let operands: Vec<_> = all.iter().zip(&places).map(operand).collect();
        let (own_args, own_rets) = operands.split_at(args.len());
        let revision = self.executable.handler().shared.revision;
        let frame = CallFrame::new(revision, own_args, own_rets)?;
        let block = ManuallyDrop::new(block);
        // SAFETY: all operands lie within the block, which lives until the execution is over.
        let mut call = unsafe { self.prepare_on(frame) }?;
        let outcome = call.invoke();
        if call.is_open() {
            // The handler may still write: the block stays for good.
            return Err(outcome
                .err()
                .unwrap_or_else(|| Error::invalid("the call is open")));
        }
        // So does it where its stream cannot be waited for, which may have work on it.
        if let Err(error) = call.synchronize() {
            return Err(outcome.err().unwrap_or(error));
        }
        drop(call);
        let block = ManuallyDrop::into_inner(block);
        outcome?;
        let mut rets = vec![];
        for (number, (ret, place)) in asked.into_iter().zip(&places[args.len()..]).enumerate() {
            let shape = &shapes[number];
            let bytes = &block[begin + place..][..shape.bytes()];
            let written = packed(Tensor::from_bytes(shape.clone(), bytes)?)?;
            rets.push(match ret {
                // Where the program asked for it after all.
                Ret::In(mut tensor) => {
                    bytes_to_write(&mut tensor, number)?.copy_from_slice(written.bytes());
                    tensor
                }
                Ret::New(_) | Ret::Alias(_) => written,
            });
        }
        Ok(Outcome { rets })
    }
}

/// A place for each operand behind the one before, and where they end, if memory has such places.
fn aligned(shapes: &[&Shape]) -> Option<(Vec<usize>, usize)> {
    let mut end = 0_usize;
    let mut places = vec![];
    for shape in shapes {
        places.push(end);
        let room = shape.bytes().checked_next_multiple_of(ALIGNMENT)?;
        end = end.checked_add(room.checked_add(ALIGNMENT)?)?;
    }
    Some((places, end))
}
