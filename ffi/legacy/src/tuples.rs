//! Finds the leaves of a target's operands and result in the tuples of a call.

use std::ffi::c_void;

use super::buffers::{Buffers, Form};
use super::staging::{Device, Staging};
use super::structure::{Node, parse};
use xla_ffi::{Error, Result};

/// The tuples of a target's operands and result, as declared in `legacy!`.
#[derive(Clone, Copy, Debug)]
pub struct Tuples {
    /// The structure of the operands and the result, such as `"(_, _), _ -> (_, (_))"`.
    pub structure: &'static str,
    /// The form of the tuples' pointers: the leaves, as in current XLA, or the nodes, as first documented. Nodes are
    /// passed as roots on the CPU, and as a complete list on devices.
    pub form: Form,
}

impl Tuples {
    /// Returns the word for the form in `legacy!`: `leaves` or `roots`.
    pub(crate) const fn word(&self) -> &'static str {
        match self.form {
            Form::Leaves => "leaves",
            Form::Nodes => "roots",
        }
    }

    /// Returns an error if shapes have a different number of leaves than the structure.
    pub(super) fn check(&self, args: usize, rets: usize) -> Result<()> {
        let leaves = |text: &str| text.matches('_').count();
        let (from, to) = self.structure.split_once("->").unwrap_or_default();
        let known = [leaves(from), leaves(to)];
        if known == [args, rets] {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "the structure \"{}\" has {} leaves of operands and {} of the result, the shapes are {args} and {rets}",
            self.structure, known[0], known[1]
        )))
    }
}

/// Finds the leaves of a call in host memory. Without `tuples`, several results are a list of leaves.
///
/// # Safety
/// `ins` has an entry for each operand or for each leaf of the operands, and `out` is the result, depending on the
/// form.
///
/// # Errors
/// `INVALID_ARGUMENT` if an array of a tuple is null or misaligned.
pub(super) unsafe fn on_host(
    tuples: Option<Tuples>,
    out: *mut c_void,
    ins: *mut *const c_void,
    args: usize,
    leaves: &mut [*mut c_void],
) -> Result<()> {
    let (of_args, of_rets) = leaves.split_at_mut(args);
    if let Some(Tuples {
        structure,
        form: Form::Nodes,
    }) = tuples
    {
        let (operands, result) = parse(structure).unwrap_or((vec![], Node::Leaf));
        let mut found = of_args.iter_mut();
        for (index, operand) in operands.iter().enumerate() {
            // SAFETY: the caller guarantees the entries of `ins`.
            let root = unsafe { ins.wrapping_add(index).read() };
            // SAFETY: the caller guarantees the entries of `ins`.
            unsafe { follow(operand, root.cast_mut(), Some(index), &mut found) }?;
        }
        // SAFETY: the caller guarantees that `out` is the result of this structure.
        return unsafe { follow(&result, out, None, &mut of_rets.iter_mut()) };
    }
    for (index, leaf) in of_args.iter_mut().enumerate() {
        // SAFETY: the caller guarantees the entries of `ins`.
        *leaf = unsafe { ins.wrapping_add(index).read() }.cast_mut();
    }
    // A tuple of one leaf is passed as an array, but a result that is a leaf is not.
    let is_leaf = match tuples {
        None => of_rets.len() == 1,
        Some(tuples) => !tuples.structure.trim_end().ends_with(')'),
    };
    if is_leaf {
        of_rets.iter_mut().for_each(|leaf| *leaf = out);
        return Ok(());
    }
    let table = array(out, of_rets.len(), None)?;
    for (index, leaf) in of_rets.iter_mut().enumerate() {
        // SAFETY: `table` is the result's array, with one address per leaf.
        *leaf = unsafe { table.wrapping_add(index).read() };
    }
    Ok(())
}

/// Returns the array of a tuple. Fails if the address is null or misaligned.
fn array(at: *mut c_void, size: usize, operand: Option<usize>) -> Result<*const *mut c_void> {
    let table = at.cast::<*mut c_void>();
    if size == 0 || (!table.is_null() && table.is_aligned()) {
        return Ok(table);
    }
    let whose = match operand {
        Some(index) => format!("operand {index}"),
        None => "the result".to_owned(),
    };
    Err(Error::invalid_argument(format!(
        "{whose} has a tuple of {size} elements, whose array would lie at {at:p}: no array of pointers lies there; a \
         program of an XLA that hands over leaves calls targets with `tuples = \"leaves\"`"
    )))
}

/// Finds the leaves of a node at `address`.
///
/// # Safety
/// Each tuple is an array of its elements' addresses.
unsafe fn follow(
    node: &Node,
    address: *mut c_void,
    operand: Option<usize>,
    leaves: &mut std::slice::IterMut<'_, *mut c_void>,
) -> Result<()> {
    let Node::Tuple(elements) = node else {
        if let Some(leaf) = leaves.next() {
            *leaf = address;
        }
        return Ok(());
    };
    let table = array(address, elements.len(), operand)?;
    for (index, element) in elements.iter().enumerate() {
        // SAFETY: the tuple has an element at this index.
        let at = unsafe { table.wrapping_add(index).read() };
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { follow(element, at, operand, leaves) }?;
    }
    Ok(())
}

/// The list of buffers of a device call, with every node.
pub(super) struct OnDevice<'a, D: Device> {
    pool: &'a Staging<D>,
    stream: *mut c_void,
    buffers: Buffers,
}

impl<'a, D: Device> OnDevice<'a, D> {
    /// # Safety
    /// The list has every node of the structure, and belongs to a call on `stream`.
    pub(super) unsafe fn new(
        pool: &'a Staging<D>,
        structure: &str,
        stream: *mut c_void,
        list: *const *mut c_void,
    ) -> Result<Self> {
        // SAFETY: the caller guarantees the entries of `list`.
        let buffers = unsafe { Buffers::new(list, structure, Form::Nodes) }?;
        Ok(Self {
            pool,
            stream,
            buffers,
        })
    }

    /// Finds the leaves of operands and result. If the list of buffers lacks the address of an operand's leaf, reads
    /// it through the root.
    pub(super) fn leaves(&self, leaves: &mut [*mut c_void]) -> Result<()> {
        for (index, root) in self.buffers.roots().iter().enumerate() {
            if root.table.is_null() && !root.elements.is_empty() {
                return Err(Error::invalid_argument(format!(
                    "tuple {index} of the result, of {} elements, has no memory for its array",
                    root.elements.len()
                )));
            }
        }
        for (place, leaf) in leaves.iter_mut().zip(self.buffers.args()) {
            // SAFETY: the stream belongs to the call, and the tuples have the declared structure.
            *place = unsafe { self.pool.device().resolve(self.stream, leaf) }?;
        }
        let found = self.buffers.args().len();
        for (place, leaf) in leaves.iter_mut().skip(found).zip(self.buffers.rets()) {
            *place = *leaf;
        }
        Ok(())
    }

    /// Enqueues on the stream the copies that write the result's tuples.
    pub(super) fn write(&self) -> Result<()> {
        // SAFETY: the tables belong to the program and are valid until the stream has finished the
        // work of the call.
        unsafe { self.pool.write(self.stream, self.buffers.roots()) }
    }
}
