//! Trees: a leaf or a tuple of trees, nested to any depth, as the shapes of a program are.

use std::fmt;

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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tree<T> {
    /// What is not a tuple.
    Leaf(T),
    /// A tuple of trees; it may be empty.
    Tuple(Vec<Self>),
}

impl<T> Tree<T> {
    /// A tuple.
    pub fn tuple(elements: impl IntoIterator<Item = Self>) -> Self {
        Self::Tuple(elements.into_iter().collect())
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
                Self::Tuple(elements) => left.extend(elements.into_iter().rev()),
            }
        }
        leaves
    }

    /// A tree of the same structure whose leaves `f` made of this one's, in pre-order.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Tree<U> {
        self.map_with(&mut f)
    }

    fn map_with<U>(&self, f: &mut impl FnMut(&T) -> U) -> Tree<U> {
        match self {
            Self::Leaf(leaf) => Tree::Leaf(f(leaf)),
            Self::Tuple(elements) => {
                Tree::Tuple(elements.iter().map(|tree| tree.map_with(f)).collect())
            }
        }
    }

    /// As [`Tree::map`] with a function that may fail.
    ///
    /// # Errors
    /// The first of `f`.
    pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Tree<U>, E> {
        self.try_map_with(&mut f)
    }

    fn try_map_with<U, E>(&self, f: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Tree<U>, E> {
        Ok(match self {
            Self::Leaf(leaf) => Tree::Leaf(f(leaf)?),
            Self::Tuple(elements) => Tree::Tuple(
                elements
                    .iter()
                    .map(|tree| tree.try_map_with(f))
                    .collect::<Result<_, E>>()?,
            ),
        })
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

impl<T: fmt::Display> fmt::Display for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(leaf) => leaf.fmt(f),
            Self::Tuple(elements) => {
                f.write_str("(")?;
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    element.fmt(f)?;
                }
                f.write_str(")")
            }
        }
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
}
