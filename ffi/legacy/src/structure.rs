//! The structure of tuples that operands and results form for a function of the original
//! conventions.

use std::ffi::c_void;

/// Returns true if a text is the structure of operands and a result. `_` is a leaf, and brackets form a tuple. Commas
/// separate elements, and `->` precedes the result.
#[must_use]
pub const fn is_structure(text: &str) -> bool {
    let text = text.as_bytes();
    let mut at = blank(text, 0);
    let mut first = true;
    while at < text.len() && text[at] != b'-' {
        if !first {
            if text[at] != b',' {
                return false;
            }
            at = blank(text, at + 1);
        }
        first = false;
        let Some(behind) = node(text, at) else {
            return false;
        };
        at = blank(text, behind);
    }
    if at + 1 >= text.len() || text[at + 1] != b'>' {
        return false;
    }
    match node(text, blank(text, at + 2)) {
        Some(behind) => blank(text, behind) == text.len(),
        None => false,
    }
}

/// Returns the position of the first character from `at` on that is not blank.
const fn blank(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] == b' ' {
        at += 1;
    }
    at
}

/// Returns the position after the node that starts at `at`, or `None` if the text at `at` is not a
/// node.
const fn node(text: &[u8], at: usize) -> Option<usize> {
    if at >= text.len() {
        return None;
    }
    if text[at] == b'_' {
        return Some(at + 1);
    }
    if text[at] != b'(' {
        return None;
    }
    let mut at = blank(text, at + 1);
    if at < text.len() && text[at] == b')' {
        return Some(at + 1);
    }
    loop {
        let Some(behind) = node(text, at) else {
            return None;
        };
        at = blank(text, behind);
        if at >= text.len() {
            return None;
        }
        match text[at] {
            b')' => return Some(at + 1),
            b',' => at = blank(text, at + 1),
            _ => return None,
        }
    }
}

/// A node of a shape: a leaf or a tuple.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf,
    Tuple(Vec<Self>),
}

/// Parses the operands and the result of a structure. Returns `None` if the text is not a
/// structure.
pub(super) fn parse(text: &str) -> Option<(Vec<Node>, Node)> {
    if !is_structure(text) {
        return None;
    }
    let mut open: Vec<Vec<Node>> = vec![vec![]];
    let mut operands = vec![];
    for byte in text.bytes() {
        match byte {
            b'_' => open.last_mut()?.push(Node::Leaf),
            b'(' => open.push(vec![]),
            b')' => {
                let tuple = Node::Tuple(open.pop()?);
                open.last_mut()?.push(tuple);
            }
            b'-' => operands = std::mem::take(&mut open[0]),
            _ => {}
        }
    }
    Some((operands, open.pop()?.pop()?))
}

/// Builds the pointers of one call from the addresses of the call's leaves.
pub(super) struct Builder<Leaf> {
    /// The elements of all tuples; [`Node::slots`] returns their number.
    pub(super) slots: Vec<*mut c_void>,
    pub(super) used: usize,
    /// The address of every node, in pre-order.
    pub(super) list: Vec<*mut c_void>,
    /// The function that returns a leaf's address, given the leaf's index.
    pub(super) leaf: Leaf,
    pub(super) leaves: usize,
    /// The address at which the function reads the first slot: in `slots`, or in device memory.
    pub(super) base: *mut *mut c_void,
}

impl Node {
    /// Returns the number of elements in all tuples of the node.
    pub(super) fn slots(&self) -> usize {
        match self {
            Self::Leaf => 0,
            Self::Tuple(elements) => {
                elements.len() + elements.iter().map(Self::slots).sum::<usize>()
            }
        }
    }
}

impl<Leaf: Fn(usize) -> Option<*mut c_void>> Builder<Leaf> {
    /// Adds a node to the list and returns the node's address. Returns `None` if there are too few
    /// leaves.
    pub(super) fn node(&mut self, node: &Node) -> Option<*mut c_void> {
        let place = self.list.len();
        self.list.push(std::ptr::null_mut());
        let address = match node {
            Node::Leaf => {
                self.leaves += 1;
                (self.leaf)(self.leaves - 1)?
            }
            Node::Tuple(elements) => {
                let first = self.used;
                self.used += elements.len();
                for (index, element) in elements.iter().enumerate() {
                    self.slots[first + index] = self.node(element)?;
                }
                self.base.wrapping_add(first).cast()
            }
        };
        self.list[place] = address;
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_told_from_other_texts() {
        for text in ["-> _", "_, _->_", "((_, ()), _) , _ -> (_, ((_)))"] {
            assert!(is_structure(text), "{text}");
        }
        for text in [
            "",
            "_ _ -> _",
            "(_ -> _",
            "_) -> _",
            "_ ->",
            "(_,) -> _",
            "x -> _",
        ] {
            assert!(!is_structure(text), "{text}");
        }
    }
}
