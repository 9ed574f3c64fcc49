//! A call of a legacy target: passes the pointers in the form that the target expects, and reads its status.

use super::Target;
use super::status::{self, Status};
use crate::device::Stream;
use crate::host::Runtime;
use crate::host::calls::Progress;
use crate::host::legacy_targets::Signature;
use crate::process::guard;
use crate::value::Tree;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Instant;
use xla_ffi_sys::XlaCustomCallStatus;
use xla_ffi_sys::{Error, ErrorCode, Hazard, Result};

/// The form in which tuples are passed to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TupleForm {
    /// CPU, as documented: one pointer per operand and one for the result. A tuple's pointer refers to an array of
    /// its elements' pointers; nested tuples are nested arrays.
    CpuRoots,
    /// CPU, as in current XLA: one pointer per leaf of the operands; for a tuple result, an array of one pointer per
    /// leaf.
    CpuLeaves,
    /// Devices, as in current XLA: one pointer per leaf, operands then results, in pre-order.
    DeviceLeaves,
    /// Devices, as first documented: one pointer per *node*, in pre-order, with a tuple's before those of its
    /// elements. A tuple's buffer is an array of its elements' addresses; in the result, the target writes it. With
    /// `null_inputs`, the nodes below an operand's root are null.
    DeviceNodes {
        /// Whether the nodes inside tuple operands are null in the list.
        null_inputs: bool,
    },
}

impl TupleForm {
    /// Returns the form that current XLA uses for a signature.
    #[must_use]
    pub fn default_for(signature: Signature) -> Self {
        match signature {
            signature if signature.is_cpu() => Self::CpuLeaves,
            _ => Self::DeviceLeaves,
        }
    }

    /// Returns true if targets of this signature take tuples in this form.
    #[must_use]
    pub fn fits(self, signature: Signature) -> bool {
        let cpu = matches!(self, Self::CpuRoots | Self::CpuLeaves);
        cpu == signature.is_cpu()
    }
}

/// A separately allocated array of pointers, as targets see tuples.
type Table = Box<[*mut c_void]>;

/// Memory that a call needs until the device has run it.
#[derive(Default)]
struct CallMemory {
    tables: Vec<Table>,
    /// For each tuple node of the result: the index of its table in `tables`, and the pointers that the target has to
    /// write there.
    roots: Vec<(usize, Vec<*mut c_void>)>,
    opaque: Vec<u8>,
}

// SAFETY: the tables are used by the stream and, after the stream has been waited for, by the owner.
unsafe impl Send for CallMemory {}

impl CallMemory {
    /// Adds a table and returns its address.
    fn add(&mut self, table: Vec<*mut c_void>) -> *mut c_void {
        self.tables.push(table.into());
        self.tables
            .last_mut()
            .map_or(std::ptr::null_mut(), |table| table.as_mut_ptr().cast())
    }

    /// Converts a tree to nested arrays and returns the address of its root.
    fn nested(&mut self, tree: &Tree<*mut c_void>) -> *mut c_void {
        match tree {
            Tree::Leaf(pointer) => *pointer,
            Tree::Tuple(elements) => {
                let table = elements
                    .iter()
                    .map(|element| self.nested(element))
                    .collect();
                self.add(table)
            }
        }
    }

    /// Appends every node of an operand to the list of buffers and returns the address of its root.
    fn operand_nodes(
        &mut self,
        tree: &Tree<*mut c_void>,
        hidden: bool,
        null_inputs: bool,
        list: &mut Vec<*mut c_void>,
    ) -> *mut c_void {
        let place = list.len();
        list.push(std::ptr::null_mut());
        let address = match tree {
            Tree::Leaf(pointer) => *pointer,
            Tree::Tuple(elements) => {
                let table = elements
                    .iter()
                    .map(|element| self.operand_nodes(element, null_inputs, null_inputs, list))
                    .collect();
                self.add(table)
            }
        };
        if !hidden {
            list[place] = address;
        }
        address
    }

    /// Appends every node of the result, whose tables the target writes, and returns the address of its root.
    fn result_nodes(
        &mut self,
        tree: &Tree<*mut c_void>,
        list: &mut Vec<*mut c_void>,
    ) -> *mut c_void {
        let place = list.len();
        list.push(std::ptr::null_mut());
        let address = match tree {
            Tree::Leaf(pointer) => *pointer,
            Tree::Tuple(elements) => {
                let expected: Vec<_> = elements
                    .iter()
                    .map(|element| self.result_nodes(element, list))
                    .collect();
                let table = self.add(vec![std::ptr::null_mut(); expected.len()]);
                self.roots.push((self.tables.len() - 1, expected));
                table
            }
        };
        list[place] = address;
        address
    }

    /// Reports tables that the target left unwritten.
    fn check_roots(&self) -> Result<()> {
        for (table, expected) in &self.roots {
            for (index, expected) in expected.iter().enumerate() {
                let place: *const *mut c_void = &raw const self.tables[*table][index];
                // SAFETY: an element of a live table. The device has finished, but the compiler does not know that
                // the target writes here.
                let got = unsafe { place.read_volatile() };
                if got != *expected {
                    return Err(Error::new(
                        ErrorCode::Internal,
                        format!(
                            "it did not write the result's tuple of {} elements: element {index} \
                             is {got:p}, its buffer is {expected:p}",
                            self.tables[*table].len()
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A call of a target that has not started.
#[derive(Clone, Debug)]
pub struct Invocation<'a> {
    target: &'a Target,
    operands: &'a [Tree<*mut c_void>],
    result: &'a Tree<*mut c_void>,
    opaque: &'a [u8],
    form: TupleForm,
    stream: Option<Stream>,
}

impl<'a> Invocation<'a> {
    /// Returns a call with these operands and results, whose leaves are the addresses of buffers. It uses the tuple
    /// form that current XLA uses for the target, without opaque bytes and without a stream.
    #[must_use]
    pub fn new(
        target: &'a Target,
        operands: &'a [Tree<*mut c_void>],
        result: &'a Tree<*mut c_void>,
    ) -> Self {
        Self {
            target,
            operands,
            result,
            opaque: &[],
            form: TupleForm::default_for(target.signature()),
            stream: None,
        }
    }

    /// Sets the opaque bytes for targets of the device's and the unified forms. They are passed unchanged, followed
    /// by a NUL.
    #[must_use]
    pub fn opaque(mut self, opaque: &'a [u8]) -> Self {
        self.opaque = opaque;
        self
    }

    /// Sets the form of tuples.
    #[must_use]
    pub fn form(mut self, form: TupleForm) -> Self {
        self.form = form;
        self
    }

    /// Sets the stream of a device target.
    #[must_use]
    pub fn stream(mut self, stream: Stream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Calls the target and waits for the stream.
    ///
    /// # Safety
    /// As for [`Invocation::launch`]; the buffers are not used after this returns.
    ///
    /// # Errors
    /// As for [`Invocation::launch`] and [`Launched::wait`].
    pub unsafe fn run(self) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch() }?.wait()
    }

    /// Calls the target; its work on the stream may still be running. Panics and C++ exceptions are contained.
    ///
    /// # Safety
    /// Each leaf must refer to a buffer of the size that the target expects. Operands must be readable and results
    /// writable until [`Launched::wait`] returns or the returned value is dropped.
    ///
    /// # Errors
    /// The target's status text (with invalid UTF-8 as `\xNN`), as `INTERNAL` and [`Error::is_from_handler`].
    /// `INVALID_ARGUMENT` for a form that the target's signature does not have, for tuples nested deeper than
    /// [`MAX_DEPTH`](crate::MAX_DEPTH), and for a device target without a stream. The hazard [`Hazard::Unwound`]. The
    /// stream has been waited for in all cases.
    pub unsafe fn launch(self) -> Result<Launched> {
        let signature = self.target.signature();
        self.check(signature)?;
        let name = self.target.name();
        let within = |error: Error| error.within(format_args!("legacy target '{name}'"));
        let running = RunningCall::new(self.target.runtime(), name).map_err(within)?;
        let mut kept = CallMemory::default();
        let mut list = vec![];
        let mut out = std::ptr::null_mut();
        match self.form {
            TupleForm::CpuRoots => {
                for operand in self.operands {
                    list.push(kept.nested(operand));
                }
                out = kept.nested(self.result);
            }
            TupleForm::CpuLeaves => {
                list.extend(self.operands.iter().flat_map(Tree::leaves));
                out = match self.result {
                    Tree::Leaf(pointer) => *pointer,
                    tuple @ Tree::Tuple(_) => kept.add(tuple.leaves().copied().collect()),
                };
            }
            TupleForm::DeviceLeaves => {
                list.extend(self.operands.iter().flat_map(Tree::leaves));
                list.extend(self.result.leaves());
            }
            TupleForm::DeviceNodes { null_inputs } => {
                for operand in self.operands {
                    let _root = kept.operand_nodes(operand, false, null_inputs, &mut list);
                }
                let _root = kept.result_nodes(self.result, &mut list);
            }
        }
        kept.opaque.extend_from_slice(self.opaque);
        kept.opaque.push(0);
        let status = Status::new();
        let stream = self.stream;
        let list = kept.add(list);
        let (list, address) = (list.cast::<*mut c_void>(), self.target.address());
        let handle = stream.as_ref().map_or(std::ptr::null_mut(), Stream::handle);
        let (opaque, opaque_len) = (kept.opaque.as_ptr().cast(), self.opaque.len());
        let told = status.as_ptr();
        let launched = Launched {
            name: self.target.name().to_owned(),
            stream,
            kept,
            running: Some(running),
        };
        let unwound = guard::contained(|| match signature {
            Signature::Cpu => {
                // SAFETY: the address is that of a function with this signature, as guaranteed at its registration.
                let function = unsafe { std::mem::transmute::<usize, Cpu>(address) };
                // SAFETY: the lists have the form that the target expects; the caller guarantees their buffers.
                unsafe { function(out, list.cast()) };
            }
            Signature::CpuStatus => {
                // SAFETY: as above.
                let function = unsafe { std::mem::transmute::<usize, CpuStatus>(address) };
                // SAFETY: as above.
                unsafe { function(out, list.cast(), told) };
            }
            Signature::Gpu => {
                // SAFETY: as above.
                let function = unsafe { std::mem::transmute::<usize, Gpu>(address) };
                // SAFETY: as above.
                unsafe { function(handle, list, opaque, opaque_len) };
            }
            Signature::CpuUnified => {
                // SAFETY: as above.
                let function = unsafe { std::mem::transmute::<usize, CpuUnified>(address) };
                // SAFETY: as above.
                unsafe { function(out, list.cast(), opaque, opaque_len, told) };
            }
            Signature::GpuStatus => {
                // SAFETY: as above.
                let function = unsafe { std::mem::transmute::<usize, GpuStatus>(address) };
                // SAFETY: as above.
                unsafe { function(handle, list, opaque, opaque_len, told) };
            }
        });
        let failure = status.finish();
        let failed = unwound.is_err() || failure.is_some();
        if let Some(running) = &launched.running {
            running.called(failed.then_some(ErrorCode::Internal));
        }
        if let Err(unwound) = unwound {
            return Err(
                Error::hazard(Hazard::Unwound, format!("{unwound} left the target"))
                    .within(format_args!("legacy target '{}'", launched.name)),
            );
        }
        match failure {
            None => Ok(launched),
            Some(message) => {
                Err(Error::new(ErrorCode::Internal, status::text(&message)).into_handlers())
            }
        }
    }

    fn check(&self, signature: Signature) -> Result<()> {
        let refuse = |why: String| {
            Err(Error::invalid_argument(format!(
                "legacy target '{}': {why}",
                self.target.name()
            )))
        };
        if !self.form.fits(signature) {
            return refuse(format!(
                "{signature} does not take tuples in the form {:?}",
                self.form
            ));
        }
        let mut trees = self.operands.iter().chain([self.result]);
        if let Some(tree) = trees.find(|tree| tree.depth() > crate::value::MAX_DEPTH) {
            return refuse(format!(
                "its tuples nest {} deep, {} is the limit",
                tree.depth(),
                crate::value::MAX_DEPTH
            ));
        }
        if self.stream.is_none() && self.target.platform() != "cpu" {
            return refuse(format!(
                "a target of platform '{}' needs a stream",
                self.target.platform()
            ));
        }
        Ok(())
    }
}

// The signatures of targets, which may unwind.
type Cpu = unsafe extern "C-unwind" fn(*mut c_void, *mut *const c_void);
type CpuStatus =
    unsafe extern "C-unwind" fn(*mut c_void, *mut *const c_void, *mut XlaCustomCallStatus);
type CpuUnified = unsafe extern "C-unwind" fn(
    *mut c_void,
    *mut *const c_void,
    *const c_char,
    usize,
    *mut XlaCustomCallStatus,
);
type Gpu = unsafe extern "C-unwind" fn(*mut c_void, *mut *mut c_void, *const c_char, usize);
type GpuStatus = unsafe extern "C-unwind" fn(
    *mut c_void,
    *mut *mut c_void,
    *const c_char,
    usize,
    *mut XlaCustomCallStatus,
);

/// A target that was called and whose stream may still be working. Dropping it waits.
#[must_use = "the device may still be working on the buffers"]
pub struct Launched {
    name: String,
    stream: Option<Stream>,
    kept: CallMemory,
    /// The running call, dropped after a wait for the stream.
    running: Option<RunningCall>,
}

impl Launched {
    /// Waits for the stream, and checks the roots of a tuple result that the target had to write.
    ///
    /// # Errors
    /// `INTERNAL` if a root does not contain the addresses of its elements. Errors of [`Stream::synchronize`], after
    /// which the stream still uses the buffers.
    pub fn wait(self) -> Result<()> {
        let waited = self.stream.as_ref().map_or(Ok(()), Stream::synchronize);
        waited
            .and_then(|()| self.kept.check_roots())
            .map_err(|error| error.within(format_args!("legacy target '{}'", self.name)))
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            let kept = std::mem::take(&mut self.kept);
            stream.synchronize_and_drop((kept, self.running.take()));
        }
    }
}

impl std::fmt::Debug for Launched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launched")
            .field("target", &self.name)
            .finish_non_exhaustive()
    }
}

/// A call of a target that runs until this is dropped.
pub(super) struct RunningCall {
    runtime: Runtime,
    progress: Arc<Progress>,
    begun: Option<Instant>,
}

impl RunningCall {
    /// Adds a call of a target to the runtime's calls.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` after a shutdown.
    pub(super) fn new(runtime: &Runtime, target: &str) -> Result<Self> {
        let calls = &runtime.shared().calls;
        let progress = calls.enter(&calls.tally(target));
        progress.begin();
        let running = Self {
            runtime: runtime.clone(),
            begun: calls.sample(&progress),
            progress,
        };
        let refused = calls.check();
        if let Err(error) = &refused {
            running.progress.count(Some(error.code()));
        }
        refused.map(|()| running)
    }

    /// Marks the target's return, with an error of this code or without.
    pub(super) fn called(&self, code: Option<ErrorCode>) {
        self.progress.count(code);
        if let Some(begun) = self.begun {
            let name = &self.progress.tally().name;
            self.runtime.shared().calls.tell(name, 0, begun, code);
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.progress.end(false);
        self.runtime.shared().calls.leave(&self.progress);
    }
}
