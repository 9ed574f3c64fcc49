//! Trees: a leaf or a tuple of trees, nested to any depth, as the shapes of a program are.
//!
//! Nothing here recurses: a tree that somebody nests a million deep is copied, compared, printed
//! and dropped on a stack of any size.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A leaf or a tuple.
///
/// ```
/// use xla_ffi_runtime::Tree;
///
/// let tree = Tree::tuple([Tree::Leaf(1), Tree::tuple([Tree::Leaf(2), Tree::Leaf(3)])]);
/// assert_eq!(tree.leaves().copied().collect::<Vec<_>>(), [1, 2, 3]);
/// assert_eq!(tree.nodes().count(), 5);
/// assert_eq!(tree.map(|n| n * 10).to_string(), "(10, (20, 30))");
/// ```
pub enum Tree<T> {
    /// What is not a tuple.
    Leaf(T),
    /// A tuple of trees; it may be empty.
    Tuple(Elements<T>),
}

/// The elements of a tuple: a slice of trees.
///
/// ```
/// use xla_ffi_runtime::Tree;
///
/// let Tree::Tuple(elements) = Tree::tuple([Tree::Leaf(1), Tree::Leaf(2)]) else { unreachable!() };
/// assert_eq!(elements.len(), 2);
/// assert_eq!(elements.into_vec()[1], Tree::Leaf(2));
/// ```
pub struct Elements<T>(Vec<Tree<T>>);

impl<T> Elements<T> {
    /// The elements by value.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<Tree<T>> {
        std::mem::take(&mut self.0)
    }
}

impl<T> std::ops::Deref for Elements<T> {
    type Target = [Tree<T>];

    fn deref(&self) -> &[Tree<T>] {
        &self.0
    }
}

impl<T> Drop for Elements<T> {
    fn drop(&mut self) {
        if self.0.iter().all(|element| !element.is_tuple()) {
            return;
        }
        let mut left = std::mem::take(&mut self.0);
        while let Some(tree) = left.pop() {
            if let Tree::Tuple(mut elements) = tree {
                left.append(&mut elements.0);
            }
        }
    }
}

impl<T> Tree<T> {
    /// A tuple.
    pub fn tuple(elements: impl IntoIterator<Item = Self>) -> Self {
        Self::Tuple(Elements(elements.into_iter().collect()))
    }

    /// The value of a leaf; `None` for a tuple.
    #[must_use]
    pub fn leaf(&self) -> Option<&T> {
        match self {
            Self::Leaf(leaf) => Some(leaf),
            Self::Tuple(_) => None,
        }
    }

    /// The elements of a tuple; `None` for a leaf.
    #[must_use]
    pub fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Leaf(_) => None,
            Self::Tuple(elements) => Some(elements),
        }
    }

    /// Whether this is a tuple.
    #[must_use]
    pub fn is_tuple(&self) -> bool {
        matches!(self, Self::Tuple(_))
    }

    /// The subtree at the end of a path of tuple indices; the empty path is the tree itself.
    #[must_use]
    pub fn get(&self, path: &[usize]) -> Option<&Self> {
        path.iter()
            .try_fold(self, |tree, &index| tree.elements()?.get(index))
    }

    /// All leaves, in pre-order.
    pub fn leaves(&self) -> impl Iterator<Item = &T> {
        self.nodes().filter_map(Self::leaf)
    }

    /// All nodes, tuples and leaves, in pre-order: a tuple before its elements.
    #[must_use]
    pub fn nodes(&self) -> Nodes<'_, T> {
        Nodes { left: vec![self] }
    }

    /// All leaves by value, in pre-order.
    #[must_use]
    pub fn into_leaves(self) -> Vec<T> {
        let (mut left, mut leaves) = (vec![self], vec![]);
        while let Some(tree) = left.pop() {
            match tree {
                Self::Leaf(leaf) => leaves.push(leaf),
                Self::Tuple(elements) => left.extend(elements.into_vec().into_iter().rev()),
            }
        }
        leaves
    }

    /// How deep tuples nest; 0 for a leaf.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut left = vec![(self, 0)];
        while let Some((tree, depth)) = left.pop() {
            deepest = deepest.max(depth);
            if let Self::Tuple(elements) = tree {
                deepest = deepest.max(depth + 1);
                left.extend(elements.iter().map(|element| (element, depth + 1)));
            }
        }
        deepest
    }

    /// A tree of the same structure whose leaves `f` made of this one's, in pre-order.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Tree<U> {
        let mapped = self.try_map(|leaf| Ok::<U, std::convert::Infallible>(f(leaf)));
        let Ok(tree) = mapped;
        tree
    }

    /// As [`Tree::map`] with a function that may fail.
    ///
    /// # Errors
    /// The first of `f`.
    pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Tree<U>, E> {
        // The tuples around the current node: the elements to come, and those that are made.
        let mut open: Vec<(std::slice::Iter<'_, Self>, Vec<Tree<U>>)> = vec![];
        let mut node = self;
        loop {
            let mut made = match node {
                Self::Leaf(leaf) => Tree::Leaf(f(leaf)?),
                Self::Tuple(elements) => {
                    let mut rest = elements.iter();
                    if let Some(first) = rest.next() {
                        open.push((rest, Vec::with_capacity(elements.len())));
                        node = first;
                        continue;
                    }
                    Tree::tuple([])
                }
            };
            loop {
                let Some((mut rest, mut elements)) = open.pop() else {
                    return Ok(made);
                };
                elements.push(made);
                if let Some(next) = rest.next() {
                    open.push((rest, elements));
                    node = next;
                    break;
                }
                made = Tree::Tuple(Elements(elements));
            }
        }
    }

    /// Writes the tree as Python writes tuples, each leaf by `leaf`.
    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        leaf: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut open: Vec<std::slice::Iter<'_, Self>> = vec![];
        let mut node = self;
        loop {
            match node {
                Self::Leaf(value) => leaf(value, f)?,
                Self::Tuple(elements) => {
                    f.write_str("(")?;
                    let mut rest = elements.iter();
                    if let Some(first) = rest.next() {
                        open.push(rest);
                        node = first;
                        continue;
                    }
                    f.write_str(")")?;
                }
            }
            node = loop {
                let Some(rest) = open.last_mut() else {
                    return Ok(());
                };
                if let Some(next) = rest.next() {
                    f.write_str(", ")?;
                    break next;
                }
                f.write_str(")")?;
                open.pop();
            };
        }
    }

    /// Whether the two have the same structure, whatever their leaves.
    #[must_use]
    pub fn same_structure<U>(&self, other: &Tree<U>) -> bool {
        let (mut ours, mut theirs) = (self.nodes(), other.nodes());
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some(Self::Leaf(_)), Some(Tree::Leaf(_))) => {}
                (Some(Self::Tuple(a)), Some(Tree::Tuple(b))) if a.len() == b.len() => {}
                _ => return false,
            }
        }
    }

    /// A tree of this structure with leaves taken from `leaves` in pre-order; `None` when there are
    /// too few.
    pub fn filled<U>(&self, leaves: impl IntoIterator<Item = U>) -> Option<Tree<U>> {
        let mut leaves = leaves.into_iter();
        self.try_map(|_| leaves.next().ok_or(())).ok()
    }
}

impl<T> From<T> for Tree<T> {
    fn from(leaf: T) -> Self {
        Self::Leaf(leaf)
    }
}

impl<T: Clone> Clone for Tree<T> {
    fn clone(&self) -> Self {
        self.map(T::clone)
    }
}

impl<T: PartialEq> PartialEq for Tree<T> {
    fn eq(&self, other: &Self) -> bool {
        self.same_structure(other) && self.leaves().eq(other.leaves())
    }
}

impl<T: Eq> Eq for Tree<T> {}

impl<T: Hash> Hash for Tree<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for node in self.nodes() {
            match node {
                Self::Leaf(leaf) => (usize::MAX, leaf).hash(state),
                Self::Tuple(elements) => elements.len().hash(state),
            }
        }
    }
}

impl<T: fmt::Display> fmt::Display for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, T::fmt)
    }
}

impl<T: fmt::Debug> fmt::Debug for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, T::fmt)
    }
}

impl<T: fmt::Debug> fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The nodes of a tree in pre-order; see [`Tree::nodes`].
#[derive(Clone, Debug)]
pub struct Nodes<'a, T> {
    left: Vec<&'a Tree<T>>,
}

impl<'a, T> Iterator for Nodes<'a, T> {
    type Item = &'a Tree<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let tree = self.left.pop()?;
        if let Tree::Tuple(elements) = tree {
            self.left.extend(elements.iter().rev());
        }
        Some(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested() -> Tree<u8> {
        Tree::tuple([
            Tree::tuple([]),
            Tree::tuple([Tree::Leaf(1), Tree::tuple([Tree::Leaf(2)])]),
            Tree::Leaf(3),
        ])
    }

    #[test]
    fn order_paths_and_structure() {
        let tree = nested();
        assert_eq!(tree.leaves().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(tree.clone().into_leaves(), [1, 2, 3]);
        let kinds: String = tree
            .nodes()
            .map(|node| if node.is_tuple() { 't' } else { 'l' })
            .collect();
        assert_eq!(kinds, "tttltll");
        assert_eq!(tree.get(&[1, 1, 0]), Some(&Tree::Leaf(2)));
        assert_eq!(tree.get(&[1, 1, 0, 0]), None);
        assert_eq!(tree.get(&[3]), None);
        assert_eq!(tree.to_string(), "((), (1, (2)), 3)");
        assert!(tree.same_structure(&tree.map(|n| n.to_string())));
        assert!(!tree.same_structure(&Tree::Leaf(0)));
        // As many leaves in the same order, nested another way.
        assert!(!tree.same_structure(&Tree::tuple([1, 2, 3].map(Tree::Leaf))));
        assert_eq!(tree.filled(4..), Some(tree.map(|n| i32::from(*n) + 3)));
        assert_eq!(tree.filled([1, 2]), None);
        assert_eq!(tree.try_map(|n| (*n < 3).then_some(*n).ok_or(*n)), Err(3));
    }

    #[test]
    fn depth_takes_no_stack() {
        let deep = |bottom| (0..200_000).fold(Tree::Leaf(bottom), |tree, _| Tree::tuple([tree]));
        let (one, two) = (deep(1), deep(2));
        assert_eq!(one.clone(), one);
        assert_ne!(one, two);
        assert!(one.same_structure(&two));
        let text = one.to_string();
        assert_eq!(text.len(), 400_001);
        assert_eq!(text, format!("{one:?}"));
        let hash = |tree: &Tree<u8>| {
            let mut hasher = std::hash::DefaultHasher::new();
            tree.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&one), hash(&one.map(|n| *n)));
        assert_ne!(hash(&one), hash(&two));
        assert_eq!(two.into_leaves(), [2]);
    }
}
