//! A call of a legacy target: passes the operands in the form that the target expects, and reads the target's status.

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

/// The form in which a target receives tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TupleForm {
    /// The documented form on CPU: one pointer per operand and one pointer for the result. The pointer of a tuple
    /// refers to an array of pointers to its elements. Nested tuples are nested arrays.
    CpuRoots,
    /// The form of current XLA on CPU: one pointer per leaf of the operands. For a tuple result, an array with one
    /// pointer per leaf.
    CpuLeaves,
    /// The form of current XLA on devices: one pointer per leaf in pre-order, first of the operands, then of the
    /// result.
    DeviceLeaves,
    /// The form that XLA first documented for devices: one pointer per *node* in pre-order, a tuple before its
    /// elements. The buffer of a tuple is an array of its elements' addresses. For the result, the target must write
    /// this array. With `null_inputs`, only the roots of operands have a pointer; their other nodes are null.
    DeviceNodes {
        /// Whether the pointers of nodes inside tuple operands are null.
        null_inputs: bool,
    },
}

impl TupleForm {
    /// Returns the tuple form that current XLA uses for a signature.
    #[must_use]
    pub fn default_for(signature: Signature) -> Self {
        match signature {
            signature if signature.is_cpu() => Self::CpuLeaves,
            _ => Self::DeviceLeaves,
        }
    }

    /// Returns true if targets of this signature can receive tuples in this form.
    #[must_use]
    pub fn fits(self, signature: Signature) -> bool {
        let cpu = matches!(self, Self::CpuRoots | Self::CpuLeaves);
        cpu == signature.is_cpu()
    }
}

/// An array of pointers in a separate allocation, as targets receive tuples.
type Table = Box<[*mut c_void]>;

/// The memory that a call needs until the device has run the call.
#[derive(Default)]
struct CallMemory {
    tables: Vec<Table>,
    /// For each tuple node of the result: the index of its array in `tables`, and the pointers that the target must
    /// write to the array.
    roots: Vec<(usize, Vec<*mut c_void>)>,
    opaque: Vec<u8>,
}

// SAFETY: only the stream uses the tables until it has run the call; afterwards only the owner uses them.
unsafe impl Send for CallMemory {}

impl CallMemory {
    /// Adds an array of pointers and returns its address.
    fn add(&mut self, table: Vec<*mut c_void>) -> *mut c_void {
        self.tables.push(table.into());
        self.tables
            .last_mut()
            .map_or(std::ptr::null_mut(), |table| table.as_mut_ptr().cast())
    }

    /// Converts a tree to nested arrays, and returns the address of the outermost array.
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

    /// Appends the addresses of all nodes of an operand to `list`, and returns the address of the root.
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

    /// Appends the addresses of all nodes of the result to `list`, and returns the address of the root. The target
    /// must write the arrays of tuples.
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

    /// Returns an error if the target did not write an array of a result's tuple.
    fn check_roots(&self) -> Result<()> {
        for (table, expected) in &self.roots {
            for (index, expected) in expected.iter().enumerate() {
                let place: *const *mut c_void = &raw const self.tables[*table][index];
                // SAFETY: `place` is an element of an existing table. The read is volatile because the compiler does
                // not know that the target writes the table.
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

/// A call of a target, before it starts.
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
    /// Returns a call with these operands and results, whose leaves are the addresses of buffers. The call has the
    /// tuple form of current XLA, no opaque bytes and no stream.
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

    /// Sets the opaque bytes, for targets of the device signatures and the unified signature. The target receives the
    /// bytes unchanged, followed by a NUL.
    #[must_use]
    pub fn opaque(mut self, opaque: &'a [u8]) -> Self {
        self.opaque = opaque;
        self
    }

    /// Sets the form in which the target receives tuples.
    #[must_use]
    pub fn form(mut self, form: TupleForm) -> Self {
        self.form = form;
        self
    }

    /// Sets the stream of the call. Device targets need a stream.
    #[must_use]
    pub fn stream(mut self, stream: Stream) -> Self {
        self.stream = Some(stream);
        self
    }

    /// Calls the target and waits for its work on the stream.
    ///
    /// # Safety
    /// The requirements of [`Invocation::launch`] apply. The buffers are not used after this function returns.
    ///
    /// # Errors
    /// The errors of [`Invocation::launch`] and [`Launched::wait`].
    pub unsafe fn run(self) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch() }?.wait()
    }

    /// Calls the target. Its work on the stream may still be running when this function returns. Panics and C++
    /// exceptions of the target are caught.
    ///
    /// # Safety
    /// Each leaf must refer to a buffer of the size that the target expects. Operands must be readable and results
    /// writable until [`Launched::wait`] returns or the returned value is dropped.
    ///
    /// # Errors
    /// The error that the target set in its status, as `INTERNAL`; [`Error::is_from_handler`] is true, and invalid
    /// UTF-8 is shown as `\xNN`. `INVALID_ARGUMENT` for a tuple form that the target's signature does not support,
    /// and for tuples nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH). `INVALID_ARGUMENT` for a device target
    /// without a stream. [`Hazard::Unwound`] if a panic or exception left the target. After every error, the stream
    /// has finished its work.
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
                // SAFETY: the registration guarantees that the address is a function of this signature.
                let function = unsafe { std::mem::transmute::<usize, Cpu>(address) };
                // SAFETY: the lists have the form that the target expects, and the caller guarantees the buffers.
                unsafe { function(out, list.cast()) };
            }
            Signature::CpuStatus => {
                // SAFETY: the registration guarantees that the address is a function of this signature.
                let function = unsafe { std::mem::transmute::<usize, CpuStatus>(address) };
                // SAFETY: the lists have the form that the target expects, and the caller guarantees the buffers.
                unsafe { function(out, list.cast(), told) };
            }
            Signature::Gpu => {
                // SAFETY: the registration guarantees that the address is a function of this signature.
                let function = unsafe { std::mem::transmute::<usize, Gpu>(address) };
                // SAFETY: the list has the form that the target expects, and the caller guarantees the buffers.
                unsafe { function(handle, list, opaque, opaque_len) };
            }
            Signature::CpuUnified => {
                // SAFETY: the registration guarantees that the address is a function of this signature.
                let function = unsafe { std::mem::transmute::<usize, CpuUnified>(address) };
                // SAFETY: the lists have the form that the target expects, and the caller guarantees the buffers.
                unsafe { function(out, list.cast(), opaque, opaque_len, told) };
            }
            Signature::GpuStatus => {
                // SAFETY: the registration guarantees that the address is a function of this signature.
                let function = unsafe { std::mem::transmute::<usize, GpuStatus>(address) };
                // SAFETY: the list has the form that the target expects, and the caller guarantees the buffers.
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

// The signatures of targets. Panics and C++ exceptions may unwind through them.
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

/// A target that was called, and whose work on the stream may still be running. Dropping the value waits for the
/// stream.
#[must_use = "the device may still be working on the buffers"]
pub struct Launched {
    name: String,
    stream: Option<Stream>,
    kept: CallMemory,
    /// The running call, which is dropped after the wait for the stream.
    running: Option<RunningCall>,
}

impl Launched {
    /// Waits for the stream, and checks the arrays of a tuple result that the target had to write.
    ///
    /// # Errors
    /// `INTERNAL` if an array does not contain the addresses of the tuple's elements. Also the errors of
    /// [`Stream::synchronize`], after which the stream may still use the buffers.
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

/// A call of a target, which runs until the value is dropped.
pub(super) struct RunningCall {
    runtime: Runtime,
    progress: Arc<Progress>,
    begun: Option<Instant>,
}

impl RunningCall {
    /// Adds a call of a target to the calls of a runtime.
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

    /// Counts the call when the target has returned, with the error code of its outcome; `None` counts a success.
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
