//! Calls with an operand at a misaligned address. No host makes such calls, and handlers must refuse them.

use super::request::flips;
use super::{Call, Outcome, Ret};
use crate::frame::CallFrame;
use crate::value::{DType, Shape, Tensor};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// The operand of a call that is placed at a misaligned address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Displaced {
    /// The argument with this index is one byte after an aligned address.
    Argument(usize),
    /// The result with this index is one byte after an aligned address.
    Result(usize),
}

/// Memory for an operand, with room for one byte before the operand.
struct Place {
    shape: Shape,
    room: Tensor,
    offset: usize,
}

impl Place {
    fn new(shape: &Shape, is_displaced: bool) -> Result<Self> {
        let room = i64::try_from(shape.bytes() + 1).unwrap_or(i64::MAX);
        Ok(Self {
            shape: shape.clone(),
            room: Tensor::zeros(Shape::new(DType::U8, [room])?)?,
            offset: is_displaced.into(),
        })
    }

    fn operand(&self) -> (Shape, *mut c_void) {
        let data = self.room.data().wrapping_byte_add(self.offset);
        (self.shape.clone(), data)
    }
}

impl Call {
    /// Runs the call with one misaligned operand. All operands are in host memory, and the call owns the results'
    /// memory.
    ///
    /// # Errors
    /// The errors of [`Call::run`], and errors for an index that is out of range and for results in given memory
    /// ([`Call::ret_alias`], [`Call::ret_in`]). `FAILED_PRECONDITION` if called on the thread of the call's stream.
    pub fn run_displaced(self, displaced: Displaced) -> Result<Outcome> {
        let revision = self.executable.handler().shared.revision;
        let packed = |tensor: &Tensor| match flips(revision) {
            true => tensor.with_flipped_packing(),
            false => Ok(tensor.clone()),
        };
        let mut args = vec![];
        for (index, arg) in self.request.args.iter().enumerate() {
            let mut place = Place::new(arg.shape(), displaced == Displaced::Argument(index))?;
            let (arg, offset) = (packed(arg)?, place.offset);
            if let Some(room) = place.room.bytes_mut() {
                room[offset..][..arg.bytes().len()].copy_from_slice(arg.bytes());
            }
            args.push(place);
        }
        let mut rets = vec![];
        for (index, ret) in self.request.rets.iter().enumerate() {
            let Ret::New(shape) = ret else {
                return Err(Error::invalid_argument(
                    "a displaced result needs other memory",
                ));
            };
            rets.push(Place::new(shape, displaced == Displaced::Result(index))?);
        }
        if args.iter().chain(&rets).all(|place| place.offset == 0) {
            let why = "a displaced operand does not exist";
            return Err(Error::new(ErrorCode::OutOfRange, why));
        }
        let operands = |places: &[Place]| places.iter().map(Place::operand).collect::<Vec<_>>();
        let frame = CallFrame::new(revision, &operands(&args), &operands(&rets))?;
        // The memory is leaked if the handler or work on its stream may still write it.
        let places = ManuallyDrop::new((args, rets));
        // SAFETY: `places` contains the memory of all operands and is only dropped after the execution has ended.
        let mut call = unsafe { self.prepare_on(frame) }?;
        let ran = call.invoke();
        if call.is_open() {
            // The call is still open after its time limit, so its results are not read.
            return ran.map(|()| Outcome { rets: vec![] });
        }
        call.synchronize()?;
        drop(call);
        let (_, rets) = ManuallyDrop::into_inner(places);
        ran?;
        let written = |place: &Place| {
            let bytes = &place.room.bytes()[place.offset..][..place.shape.bytes()];
            packed(&Tensor::from_bytes(place.shape.clone(), bytes)?)
        };
        Ok(Outcome {
            rets: rets.iter().map(written).collect::<Result<_>>()?,
        })
    }
}
