//! Call frames, which hosts pass to handlers: stage, arguments, results and attributes, in the layout of a revision.

pub(crate) mod attribute_parser;
pub(crate) mod encoded;
pub(crate) mod print;

use self::encoded::{Encoded, list};
use crate::value::{Attributes, Shape, Tensor};
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use xla_ffi_sys::{Error, ErrorCode, Result};
use xla_ffi_sys::{
    Revision, XLA_FFI_Api, XLA_FFI_ArgType, XLA_FFI_Args, XLA_FFI_Buffer, XLA_FFI_CallFrame,
    XLA_FFI_ExecutionStage, XLA_FFI_InvokeContext, XLA_FFI_RetType, XLA_FFI_Rets,
};

/// A stage of a handler's execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Stage {
    /// Runs once, when the executable is created. The stage receives all attributes and no operands.
    Instantiate = XLA_FFI_ExecutionStage::INSTANTIATE.0 as u8,
    /// Runs before an execution, to request resources.
    Prepare = XLA_FFI_ExecutionStage::PREPARE.0 as u8,
    /// Runs before an execution, after the resources that prepare requested are available.
    Initialize = XLA_FFI_ExecutionStage::INITIALIZE.0 as u8,
    /// Runs the custom call.
    Execute = XLA_FFI_ExecutionStage::EXECUTE.0 as u8,
    /// Records the commands of the call into a command buffer (from r9).
    Record = XLA_FFI_ExecutionStage::RECORD.0 as u8,
}

impl Stage {
    /// All stages, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Instantiate,
        Self::Prepare,
        Self::Initialize,
        Self::Execute,
        Self::Record,
    ];

    /// Returns the stage with this number in the ABI, or `None` for unknown numbers.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.raw().0 == raw)
    }

    /// Returns the number of the stage in the ABI.
    #[must_use]
    pub fn raw(self) -> XLA_FFI_ExecutionStage {
        XLA_FFI_ExecutionStage(self as u32)
    }

    /// Returns the stage's name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.raw().lower_name().unwrap_or_default()
    }

    /// Returns the stage with this lower-case name, or `None` for unknown names.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The contents of the guard after the part of the frame that the revision defines.
const PATTERN: usize = 0xA5A5_5A5A_C3C3_3C3C;

/// The arguments or the results of a frame. The dimensions of the buffers point into the shapes, which do not move.
#[derive(Debug)]
struct Side {
    buffers: Vec<XLA_FFI_Buffer>,
    types: Vec<XLA_FFI_ArgType>,
    pointers: Vec<*mut c_void>,
    shapes: Vec<Shape>,
}

impl Side {
    fn new(
        revision: Revision,
        what: &str,
        shapes: Vec<Shape>,
        data: impl Iterator<Item = *mut c_void>,
    ) -> Result<Self> {
        let mut buffers = Vec::with_capacity(shapes.len());
        for (index, (shape, data)) in shapes.iter().zip(data).enumerate() {
            let dtype = shape.dtype();
            if dtype.since() > revision {
                return Err(Error::new(
                    ErrorCode::Unimplemented,
                    format!(
                        "{what} {index} is {shape}: {dtype} requires {} (jaxlib {}) or later, this is \
                         {revision} (jaxlib {})",
                        dtype.since(),
                        dtype.since().first_jaxlib(),
                        revision.first_jaxlib()
                    ),
                ));
            }
            buffers.push(XLA_FFI_Buffer {
                struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                dtype: dtype.raw_on(revision),
                data,
                rank: shape.dims().len() as i64,
                dims: shape.dims().as_ptr().cast_mut(),
            });
        }
        let first: *mut XLA_FFI_Buffer = buffers.as_mut_ptr();
        let count = buffers.len();
        Ok(Self {
            pointers: (0..count)
                .map(|index| first.wrapping_add(index).cast())
                .collect(),
            types: vec![XLA_FFI_ArgType::BUFFER; count],
            buffers,
            shapes,
        })
    }

    /// Returns the data pointers of the operands.
    fn data(&self) -> Vec<*mut c_void> {
        self.buffers.iter().map(|buffer| buffer.data).collect()
    }

    /// Returns the shapes and the data pointers of the operands.
    fn operands(&self) -> Vec<(Shape, *mut c_void)> {
        self.shapes.iter().cloned().zip(self.data()).collect()
    }

    /// Returns true if the tensors have the same shapes as the operands.
    fn fits(&self, tensors: &[Tensor]) -> bool {
        self.shapes.iter().eq(tensors.iter().map(Tensor::shape))
    }

    /// Returns the start address, the end address and the index of each operand that is not empty.
    fn regions(&self, data: &[*mut c_void]) -> impl Iterator<Item = (usize, usize, usize)> {
        let operands = self.shapes.iter().zip(data).enumerate();
        operands
            .map(|(index, (shape, data))| {
                let start = *data as usize;
                (start, start.saturating_add(shape.bytes()), index)
            })
            .filter(|(start, end, _)| *start != 0 && start < end)
    }

    fn update(&mut self, what: &str, data: &[*mut c_void]) -> Result<()> {
        if data.len() != self.buffers.len() {
            return Err(Error::invalid_argument(format!(
                "the frame has {} {what}s, {} pointers are given",
                self.buffers.len(),
                data.len()
            )));
        }
        for (buffer, data) in self.buffers.iter_mut().zip(data) {
            buffer.data = *data;
        }
        Ok(())
    }
}

/// The part of a call frame that is the same for all stages and contexts: operands and attributes.
///
/// Copies share the attributes. Data pointers can be replaced without a new frame.
#[derive(Debug)]
pub struct CallFrame {
    revision: Revision,
    args: Side,
    rets: Side,
    attributes: Arc<Encoded>,
}

// SAFETY: the frame owns the memory to which its pointers refer, except the operands' data. It never dereferences
// data pointers; code that runs a handler on the frame guarantees that they are valid.
unsafe impl Send for CallFrame {}
// SAFETY: a shared reference allows no changes.
unsafe impl Sync for CallFrame {}

impl CallFrame {
    /// Returns a frame in the layout of `revision`, with the shapes and the data pointers of the arguments and
    /// results.
    ///
    /// [`Call::prepare_on`](crate::Call::prepare_on) sets the attributes of the frame to those of the executable.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for an element type that the hosts of the revision do not support.
    pub fn new(
        revision: Revision,
        args: &[(Shape, *mut c_void)],
        rets: &[(Shape, *mut c_void)],
    ) -> Result<Self> {
        let none = Encoded::new(&Attributes::new(), revision);
        let side = |what, operands: &[(Shape, *mut c_void)]| {
            let shapes = operands.iter().map(|(shape, _)| shape.clone()).collect();
            Side::new(
                revision,
                what,
                shapes,
                operands.iter().map(|(_, data)| *data),
            )
        };
        Ok(Self {
            revision,
            args: side("argument", args)?,
            rets: side("result", rets)?,
            attributes: none,
        })
    }

    /// Returns the frame with the given attributes, for a direct call of a handler's function.
    #[must_use]
    pub fn attributes(self, attributes: &Attributes) -> Self {
        let encoded = Encoded::new(attributes, self.revision);
        self.with_attributes(encoded)
    }

    /// Returns a frame for the given tensors. The frame is valid while the tensors exist.
    pub(crate) fn of_tensors(
        revision: Revision,
        args: &[Tensor],
        rets: &[Tensor],
        attributes: Arc<Encoded>,
    ) -> Result<Self> {
        let side = |what, tensors: &[Tensor]| {
            let shapes = tensors
                .iter()
                .map(|tensor| tensor.shape().clone())
                .collect();
            Side::new(revision, what, shapes, tensors.iter().map(Tensor::data))
        };
        Ok(Self {
            revision,
            args: side("argument", args)?,
            rets: side("result", rets)?,
            attributes,
        })
    }

    /// Returns true if the tensors have the shapes of the frame's operands.
    pub(crate) fn fits(&self, args: &[Tensor], rets: &[Tensor]) -> bool {
        self.args.fits(args) && self.rets.fits(rets)
    }

    /// Replaces the data pointers by those of tensors with the same shapes. The frame is valid while the tensors
    /// exist.
    pub(crate) fn point_at(&mut self, args: &[Tensor], rets: &[Tensor]) {
        for (side, tensors) in [(&mut self.args, args), (&mut self.rets, rets)] {
            for (buffer, tensor) in side.buffers.iter_mut().zip(tensors) {
                buffer.data = tensor.data();
            }
        }
    }

    /// Returns true if the frame already has the given data pointers. Extra pointers of the frame are ignored.
    pub(crate) fn leads_to(&self, args: &[*mut c_void], rets: &[*mut c_void]) -> bool {
        let is_at = |(buffer, data): (&XLA_FFI_Buffer, &*mut c_void)| buffer.data == *data;
        self.args.buffers.iter().zip(args).all(is_at)
            && self.rets.buffers.iter().zip(rets).all(is_at)
    }

    /// Returns an error if a result shares memory with a different operand, except a result that has exactly the
    /// memory of an argument. No host passes overlapping operands, and handlers detect aliases only by equal start
    /// addresses.
    pub(crate) fn check_overlap(&self) -> Result<()> {
        self.check_overlap_at(&self.args.data(), &self.rets.data())
    }

    /// Checks the overlap like [`CallFrame::check_overlap`], for operands at the given addresses.
    pub(crate) fn check_overlap_at(
        &self,
        args: &[*mut c_void],
        rets: &[*mut c_void],
    ) -> Result<()> {
        let args = self.args.regions(args).map(|region| (region, false));
        let rets = self.rets.regions(rets).map(|region| (region, true));
        let mut operands: smallvec::SmallVec<[_; 16]> = args.chain(rets).collect();
        operands.sort_unstable();
        // The operand and the result with the largest end address, among those that start before the current operand.
        let mut last = ((0, 0, 0), false);
        let mut last_ret = last;
        for operand in operands {
            let ((start, end, index), is_ret) = operand;
            for (before, before_is_ret) in [last, last_ret] {
                let is_alias = (before.0, before.1) == (start, end) && is_ret != before_is_ret;
                if before.1 > start && (is_ret || before_is_ret) && !is_alias {
                    let name = |is_ret| if is_ret { "result" } else { "argument" };
                    return Err(Error::invalid_argument(format!(
                        "{} {index} overlaps {} {}: operands must not overlap, except a result with exactly one argument",
                        name(is_ret),
                        name(before_is_ret),
                        before.2
                    )));
                }
            }
            if end > last.0.1 {
                last = operand;
            }
            if is_ret && end > last_ret.0.1 {
                last_ret = operand;
            }
        }
        Ok(())
    }

    /// Replaces the data pointers of the operands.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the number of pointers differs from the number of operands.
    pub fn update(&mut self, args: &[*mut c_void], rets: &[*mut c_void]) -> Result<()> {
        if rets.len() != self.rets.buffers.len() {
            return self.rets.update("result", rets);
        }
        self.args.update("argument", args)?;
        self.rets.update("result", rets)
    }

    /// Returns a copy of the frame with the given data pointers. The copy shares the attributes and may outlive this
    /// frame.
    ///
    /// # Errors
    /// The errors of [`CallFrame::update`].
    pub fn copy_with(&self, args: &[*mut c_void], rets: &[*mut c_void]) -> Result<Self> {
        let side = |what, side: &Side| {
            let data = side.buffers.iter().map(|buffer| buffer.data);
            Side::new(self.revision, what, side.shapes.clone(), data)
        };
        let mut copy = Self {
            revision: self.revision,
            args: side("argument", &self.args)?,
            rets: side("result", &self.rets)?,
            attributes: self.attributes.clone(),
        };
        copy.update(args, rets)?;
        Ok(copy)
    }

    /// Returns the frame with the given attributes.
    pub(crate) fn with_attributes(mut self, attributes: Arc<Encoded>) -> Self {
        self.attributes = attributes;
        self
    }

    /// Returns the shapes and the data pointers of the arguments.
    pub(crate) fn args(&self) -> Vec<(Shape, *mut c_void)> {
        self.args.operands()
    }

    /// Returns the shapes and the data pointers of the results.
    pub(crate) fn rets(&self) -> Vec<(Shape, *mut c_void)> {
        self.rets.operands()
    }

    pub(crate) fn arg_buffers(&self) -> &[XLA_FFI_Buffer] {
        &self.args.buffers
    }

    pub(crate) fn ret_buffers(&self) -> &[XLA_FFI_Buffer] {
        &self.rets.buffers
    }

    pub(crate) fn raw_attributes(&self) -> *const xla_ffi_sys::XLA_FFI_Attrs {
        self.attributes.raw()
    }

    /// Returns true if the frame has arguments or results.
    pub(crate) fn has_operands(&self) -> bool {
        !self.args.buffers.is_empty() || !self.rets.buffers.is_empty()
    }

    /// Returns an error if the frame's revision differs from that of the runtime.
    pub(crate) fn check_revision(&self, revision: Revision) -> Result<()> {
        if self.revision == revision {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "the frame is laid out for {}, the runtime speaks {revision}",
            self.revision
        )))
    }

    /// Returns the revision whose layout the frame has.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the complete call frame for a handler. It is valid while `self` exists.
    pub(crate) fn raw(
        &mut self,
        api: *const XLA_FFI_Api,
        ctx: *mut XLA_FFI_InvokeContext,
        stage: Stage,
    ) -> RawFrame {
        // SAFETY: the attributes exist as long as the frame, and do not change.
        let attrs = unsafe { self.attributes.raw().read() };
        let frame = XLA_FFI_CallFrame {
            struct_size: XLA_FFI_CallFrame::STRUCT_SIZE,
            extension_start: ptr::null_mut(),
            api,
            ctx,
            stage: stage.raw(),
            args: XLA_FFI_Args {
                struct_size: XLA_FFI_Args::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                size: self.args.buffers.len() as i64,
                types: list(&mut self.args.types),
                args: list(&mut self.args.pointers),
            },
            rets: XLA_FFI_Rets {
                struct_size: XLA_FFI_Rets::STRUCT_SIZE,
                extension_start: ptr::null_mut(),
                size: self.rets.buffers.len() as i64,
                types: list(&mut self.rets.types).cast::<XLA_FFI_RetType>(),
                rets: list(&mut self.rets.pointers),
            },
            attrs,
            future: ptr::null_mut(),
        };
        RawFrame::new(self.revision, frame)
    }
}

/// A call frame in memory, with a guard after the part that the revision defines.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawFrame {
    frame: XLA_FFI_CallFrame,
    guard: [usize; 4],
}

impl RawFrame {
    pub(crate) fn new(revision: Revision, frame: XLA_FFI_CallFrame) -> Self {
        let mut raw = Self {
            frame,
            guard: [PATTERN; 4],
        };
        raw.reset(revision);
        raw
    }

    /// Prepares the frame for a call. r0 and r1 have no field `future`, so the guard starts at that field.
    #[inline]
    pub(crate) fn reset(&mut self, revision: Revision) {
        self.frame.future = if revision < Revision::R2 {
            PATTERN as *mut _
        } else {
            ptr::null_mut()
        };
    }

    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut XLA_FFI_CallFrame {
        ptr::from_mut(self).cast()
    }

    /// Returns the future that the handler stored in the frame, or null.
    #[inline]
    pub(crate) fn future(&self, revision: Revision) -> *mut xla_ffi_sys::XLA_FFI_Future {
        if revision < Revision::R2 {
            ptr::null_mut()
        } else {
            self.frame.future
        }
    }

    /// Returns true if the handler did not write the guard after the frame.
    #[inline]
    pub(crate) fn is_whole(&self, revision: Revision) -> bool {
        let future = revision >= Revision::R2 || self.frame.future as usize == PATTERN;
        future && self.guard == [PATTERN; 4]
    }

    /// Restores the guard after a handler wrote it.
    pub(crate) fn repair_guard(&mut self) {
        self.guard = [PATTERN; 4];
    }
}

// SAFETY: the pointers are only dereferenced by the handler that the frame is passed to.
unsafe impl Send for RawFrame {}
// SAFETY: a shared reference allows no changes, and no method dereferences the pointers.
unsafe impl Sync for RawFrame {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_begins_at_future_on_r0_and_r1() {
        for revision in Revision::ALL {
            let mut frame = CallFrame::new(revision, &[], &[]).unwrap();
            let mut raw = frame.raw(ptr::null(), ptr::null_mut(), Stage::Execute);
            assert!(raw.is_whole(revision) && raw.future(revision).is_null());
            raw.frame.future = 0x10 as *mut _;
            assert_eq!(raw.is_whole(revision), revision >= Revision::R2);
            raw.reset(revision);
            raw.guard[0] = 1;
            assert!(!raw.is_whole(revision));
        }
    }
}
