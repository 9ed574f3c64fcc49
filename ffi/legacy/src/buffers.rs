//! The list of buffers that a device target receives: the form with leaves and the form with nodes.

use std::ffi::c_void;

use super::structure::{Node, parse};
use xla_ffi::{Error, Result};

/// The form of a device target's list of buffers.
///
/// ```
/// use xla_ffi_legacy::{Buffers, Form};
///
/// let list = [1, 2, 3].map(std::ptr::without_provenance_mut);
/// // SAFETY: (x) -> y has two leaves and three nodes.
/// let [leaves, nodes] = unsafe {
///     [Form::Leaves, Form::Nodes].map(|form| Buffers::new(list.as_ptr(), "(_) -> _", form))
/// };
/// assert_eq!((leaves?.rets()[0], nodes?.rets()[0]), (list[1], list[2]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The list has an entry for each leaf, as in current XLA.
    Leaves,
    /// The list has an entry for each node of the shapes, tuples before their elements, as first documented. The
    /// entries of nodes inside operands may be null; their leaves are then read through the operand's root. The
    /// target writes the tuples of the result.
    Nodes,
}

/// A leaf of an operand: the operand itself, or an array in the operand's tuples.
///
/// ```
/// use std::ffi::c_void;
/// use xla_ffi_legacy::{Buffers, Form};
///
/// // A pair whose elements have no address in the list.
/// let (x, y) = (1.0_f32, 2.0_f32);
/// let mut pair = [&raw const x, &raw const y];
/// let root: *mut c_void = pair.as_mut_ptr().cast();
/// let list = [root, std::ptr::null_mut(), std::ptr::null_mut(), root];
/// // SAFETY: the list has every node.
/// let buffers = unsafe { Buffers::new(list.as_ptr(), "(_, _) -> _", Form::Nodes) }?;
/// let leaf = &buffers.args()[1];
/// assert_eq!((leaf.address(), leaf.root(), leaf.path()), (None, root, &[1][..]));
/// // SAFETY: the pair is there.
/// assert_eq!(unsafe { leaf.resolve() }.cast_const().cast(), &raw const y);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The leaf's address; null if the list of buffers lacks the address.
    address: *mut c_void,
    /// The address of the operand's root: the leaf's own address if the operand is not a tuple.
    root: *mut c_void,
    /// The path from the root to the leaf: an index for each tuple on the path.
    path: Vec<usize>,
}

impl Leaf {
    /// Returns the leaf's address, or `None` if the list of buffers lacks the address, so that it
    /// must be read through the root.
    #[must_use]
    pub fn address(&self) -> Option<*mut c_void> {
        (!self.address.is_null()).then_some(self.address)
    }

    /// Returns the address of the operand's root, in device memory.
    #[must_use]
    pub fn root(&self) -> *mut c_void {
        self.root
    }

    /// Returns the path from the root to the leaf: an index for each tuple on the path. A kernel can follow this
    /// path.
    #[must_use]
    pub fn path(&self) -> &[usize] {
        &self.path
    }

    /// Returns the leaf's address. If the list of buffers lacks the address, reads it through the
    /// root.
    ///
    /// # Safety
    /// The operand's tuples are readable: the caller runs on the device, or on the device's stream if host and device
    /// share memory.
    #[must_use]
    pub unsafe fn resolve(&self) -> *mut c_void {
        if !self.address.is_null() {
            return self.address;
        }
        let mut at = self.root;
        for index in &self.path {
            // In a list of leaves, operands have no roots, and a leaf of size zero may have no
            // address.
            if at.is_null() {
                break;
            }
            // SAFETY: a tuple is an array of its elements' addresses, and the path is valid for the shape of the
            // tuple.
            at = unsafe { at.cast::<*mut c_void>().wrapping_add(*index).read() };
        }
        at
    }
}

// SAFETY: the type holds only addresses. Dereferencing an address is unsafe and the user's responsibility.
unsafe impl Send for Leaf {}
// SAFETY: the type holds only addresses. Dereferencing an address is unsafe and the user's
// responsibility.
unsafe impl Sync for Leaf {}

/// A tuple of the result that the target must write: an array in device memory, and the elements to
/// write.
///
/// ```
/// use xla_ffi_legacy::{Buffers, Form};
///
/// // -> (a, (b)): the tuple, a, the inner tuple, b.
/// let list = [10, 1, 20, 2].map(std::ptr::without_provenance_mut);
/// // SAFETY: the list has every node.
/// let buffers = unsafe { Buffers::new(list.as_ptr(), "-> (_, (_))", Form::Nodes) }?;
/// let [outer, inner] = buffers.roots() else { unreachable!() };
/// assert_eq!((outer.table.cast(), &outer.elements[..]), (list[0], &[list[1], list[2]][..]));
/// assert_eq!((inner.table.cast(), &inner.elements[..]), (list[2], &[list[3]][..]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The tuple's array in device memory, which the target writes.
    pub table: *mut *mut c_void,
    /// The addresses of the tuple's elements.
    pub elements: Vec<*mut c_void>,
}

// SAFETY: the type holds only addresses. Dereferencing an address is unsafe and the user's responsibility.
unsafe impl Send for Root {}
// SAFETY: the type holds only addresses. Dereferencing an address is unsafe and the user's
// responsibility.
unsafe impl Sync for Root {}

/// A device target's list of buffers.
///
/// ```
/// use std::ffi::c_void;
/// use xla_ffi_legacy::{Buffers, Form};
///
/// // ((x, y)) -> z, each node: the tuple, x and y without an address, z.
/// let (x, y, mut z) = (1.0_f32, 2.0_f32, 0.0_f32);
/// let mut pair = [&raw const x, &raw const y];
/// let null = std::ptr::null_mut();
/// let mut list = [pair.as_mut_ptr().cast(), null, null, (&raw mut z).cast::<c_void>()];
/// // SAFETY: the list has the given form.
/// let buffers = unsafe { Buffers::new(list.as_mut_ptr(), "(_, _) -> _", Form::Nodes) }?;
/// let [x, y] = &buffers.args()[..] else { unreachable!() };
/// assert_eq!((x.address(), y.path()), (None, &[1][..]));
/// // SAFETY: the tuple is there.
/// let y = unsafe { y.resolve() };
/// // SAFETY: an f32 each.
/// unsafe { *buffers.rets()[0].cast::<f32>() = *y.cast::<f32>() };
/// assert_eq!(z, 2.0);
/// assert!(buffers.roots().is_empty(), "the result is not a tuple");
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffers {
    args: Vec<Leaf>,
    rets: Vec<*mut c_void>,
    roots: Vec<Root>,
}

// SAFETY: the type holds only addresses. Dereferencing an address is unsafe and the user's responsibility.
unsafe impl Send for Buffers {}
// SAFETY: the type holds only addresses. Dereferencing an address is unsafe and the user's
// responsibility.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// Reads a list of buffers. `structure` is the structure of the call, such as `"(_, (_)), _ ->
    /// (_, _)"`.
    ///
    /// # Safety
    /// The list has an entry for each leaf or node (depending on `form`) of the structure.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `structure` is not a structure.
    pub unsafe fn new(list: *const *mut c_void, structure: &str, form: Form) -> Result<Self> {
        let (operands, result) = parse(structure).ok_or_else(|| {
            Error::invalid_argument(format!(
                "\"{structure}\" is not a structure, which has '_' for a leaf, brackets for a tuple, commas, and '->' \
                 before the result"
            ))
        })?;
        let mut reader = Reader {
            list,
            at: 0,
            form,
            args: vec![],
            rets: vec![],
            roots: vec![],
        };
        for operand in &operands {
            // SAFETY: the caller upholds this function's safety contract.
            unsafe { reader.operand(operand, None, &mut vec![]) };
        }
        // SAFETY: the caller upholds this function's safety contract.
        let _root = unsafe { reader.result(&result) };
        Ok(Self {
            args: reader.args,
            rets: reader.rets,
            roots: reader.roots,
        })
    }

    /// Returns the leaves of the operands, in pre-order.
    #[must_use]
    pub fn args(&self) -> &[Leaf] {
        &self.args
    }

    /// Returns the leaves of the result, in pre-order.
    #[must_use]
    pub fn rets(&self) -> &[*mut c_void] {
        &self.rets
    }

    /// Returns the tuples of the result that the target must write, for example with
    /// [`Staging`](super::Staging). The slice is empty if the list has only leaves.
    #[must_use]
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }
}

struct Reader {
    list: *const *mut c_void,
    at: usize,
    form: Form,
    args: Vec<Leaf>,
    rets: Vec<*mut c_void>,
    roots: Vec<Root>,
}

impl Reader {
    /// # Safety
    /// The list has an entry at position `at`.
    unsafe fn next(&mut self) -> *mut c_void {
        self.at += 1;
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { self.list.wrapping_add(self.at - 1).read() }
    }

    /// # Safety
    /// The list has the entries of the node, from position `at` on.
    unsafe fn operand(&mut self, node: &Node, root: Option<*mut c_void>, path: &mut Vec<usize>) {
        match node {
            Node::Leaf => {
                // SAFETY: the caller upholds this function's safety contract.
                let address = unsafe { self.next() };
                self.args.push(Leaf {
                    address,
                    root: root.unwrap_or(address),
                    path: path.clone(),
                });
            }
            Node::Tuple(elements) => {
                let mut root = root;
                if self.form == Form::Nodes {
                    // SAFETY: the caller upholds this function's safety contract.
                    let own = unsafe { self.next() };
                    root = root.or(Some(own));
                }
                for (index, element) in elements.iter().enumerate() {
                    path.push(index);
                    // SAFETY: the caller upholds this function's safety contract.
                    unsafe { self.operand(element, root, path) };
                    path.pop();
                }
            }
        }
    }

    /// # Safety
    /// The list has the entries of the node, from position `at` on.
    unsafe fn result(&mut self, node: &Node) -> *mut c_void {
        match node {
            Node::Leaf => {
                // SAFETY: the caller upholds this function's safety contract.
                let address = unsafe { self.next() };
                self.rets.push(address);
                address
            }
            Node::Tuple(elements) => {
                let table = match self.form {
                    // SAFETY: the caller upholds this function's safety contract.
                    Form::Nodes => unsafe { self.next() },
                    Form::Leaves => std::ptr::null_mut(),
                };
                let place = self.roots.len();
                if self.form == Form::Nodes {
                    self.roots.push(Root {
                        table: table.cast(),
                        elements: vec![],
                    });
                }
                let addresses: Vec<_> = elements
                    .iter()
                    // SAFETY: the caller upholds this function's safety contract.
                    .map(|element| unsafe { self.result(element) })
                    .collect();
                if let Some(root) = self.roots.get_mut(place) {
                    root.elements = addresses;
                }
                table
            }
        }
    }
}
