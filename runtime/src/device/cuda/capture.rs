//! Captures the work of a stream into a graph instead of running the work, as XLA does for a command buffer.

use super::{Context, CudaStream, check};
use cudarc::driver::sys;
use std::fmt;
use std::sync::Arc;
use xla_ffi_sys::{Error, ErrorCode, Result};

/// An operation of a graph, with the properties that are compared between captures.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operation {
    Kernel {
        function: usize,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
    },
    /// An operation of any other kind, with the driver's number of the kind.
    Other(u32),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel {
                function,
                grid,
                block,
                shared,
            } => write!(
                f,
                "kernel {function:#x} of {grid:?} blocks of {block:?} threads with {shared} bytes shared"
            ),
            Self::Other(kind) => write!(f, "operation of kind {kind} (CUgraphNodeType)"),
        }
    }
}

/// The operations of a capture, in the order in which the driver lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Captured(Vec<Operation>);

impl Captured {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Describes the first difference from `other`; returns `None` if both captures are equal.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let pairs = self.0.iter().zip(&other.0);
        if let Some((at, (one, another))) = pairs.enumerate().find(|(_, (a, b))| a != b) {
            return Some(format!(
                "operation {at} is one time {one}, the next time {another}"
            ));
        }
        let (one, another) = (self.0.len(), other.0.len());
        (one != another)
            .then(|| format!("one time {one} operations are launched, the next time {another}"))
    }
}

/// A graph of the driver. It is destroyed on drop.
struct Graph(sys::CUgraph);

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: a completed capture returned the graph, and only `drop` destroys it.
            let _ = unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

impl Graph {
    fn operations(&self) -> Result<Captured> {
        let mut count = 0;
        // SAFETY: the graph is valid. With a null list, the driver only writes the number of nodes.
        let counted = unsafe { sys::cuGraphGetNodes(self.0, std::ptr::null_mut(), &raw mut count) };
        check("cuGraphGetNodes", counted)?;
        let mut nodes = vec![std::ptr::null_mut(); count];
        if count > 0 {
            // SAFETY: the list has room for all nodes.
            let listed =
                unsafe { sys::cuGraphGetNodes(self.0, nodes.as_mut_ptr(), &raw mut count) };
            check("cuGraphGetNodes", listed)?;
            nodes.truncate(count);
        }
        nodes
            .into_iter()
            .map(operation)
            .collect::<Result<_>>()
            .map(Captured)
    }
}

fn operation(node: sys::CUgraphNode) -> Result<Operation> {
    // The kind is an integer, because newer drivers may return kinds that the enumeration lacks.
    let mut kind = 0_u32;
    // SAFETY: the node belongs to an existing graph, and the out-parameter has the size that the driver writes.
    let told = unsafe { sys::cuGraphNodeGetType(node, (&raw mut kind).cast()) };
    check("cuGraphNodeGetType", told)?;
    if kind != sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as u32 {
        return Ok(Operation::Other(kind));
    }
    // SAFETY: the struct consists of numbers and pointers, for which zero is valid.
    let mut found: sys::CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
    // SAFETY: the node is a kernel, and the out-parameter has the type that the driver writes.
    let told = unsafe { sys::cuGraphKernelNodeGetParams_v2(node, &raw mut found) };
    check("cuGraphKernelNodeGetParams", told)?;
    let function = if found.func.is_null() {
        found.kern as usize
    } else {
        found.func as usize
    };
    Ok(Operation::Kernel {
        function,
        grid: [found.gridDimX, found.gridDimY, found.gridDimZ],
        block: [found.blockDimX, found.blockDimY, found.blockDimZ],
        shared: found.sharedMemBytes,
    })
}

impl CudaStream {
    /// Captures the work that `body` puts on the stream, instead of running the work.
    ///
    /// # Errors
    /// Errors of `body` and of the driver; a `body` that waits for the stream invalidates the capture.
    pub(crate) fn capture(&self, body: impl FnOnce() -> Result<()>) -> Result<Captured> {
        let context: &Arc<Context> = &self.context;
        let _current = context.make_current()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream exists until `self` is dropped, and no capture is active on it.
        check("cuStreamBeginCapture", unsafe {
            sys::cuStreamBeginCapture_v2(self.raw, mode)
        })?;
        let ran = body();
        let mut graph = Graph(std::ptr::null_mut());
        // SAFETY: this function started the capture on this thread.
        let ended = unsafe { sys::cuStreamEndCapture(self.raw, &raw mut graph.0) };
        ran?;
        check("cuStreamEndCapture", ended)?;
        if graph.0.is_null() {
            return Err(Error::new(ErrorCode::Internal, "the capture gave no graph"));
        }
        graph.operations()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_operation() {
        let kernel = |blocks| Operation::Kernel {
            function: 16,
            grid: [blocks, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        let of = |operations: &[Operation]| Captured(operations.to_vec());
        let one = of(&[Operation::Other(2), kernel(3)]);
        assert_eq!(one.difference(&one.clone()), None);
        let said = one
            .difference(&of(&[Operation::Other(2), kernel(4)]))
            .unwrap();
        assert!(
            said.contains("operation 1")
                && said.contains("[3, 1, 1]")
                && said.contains("[4, 1, 1]"),
            "{said}"
        );
        let said = one.difference(&of(&[Operation::Other(2)])).unwrap();
        assert_eq!(said, "one time 2 operations are launched, the next time 1");
        assert!(of(&[]).is_empty());
    }
}
