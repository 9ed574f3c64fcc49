//! Trees whose nodes are leaves or tuples, like the shapes of a program's values.

use std::fmt;

/// A leaf or a tuple of trees. Methods are recursive, so the stack size limits the depth. Shapes of programs are
/// nested at most [`MAX_DEPTH`](crate::MAX_DEPTH) levels deep.
///
/// ```
/// use xla_ffi_runtime::Tree;
///
/// let tree = Tree::tuple([Tree::Leaf(1), Tree::tuple([Tree::Leaf(2), Tree::Leaf(3)])]);
/// assert_eq!(tree.leaves().copied().collect::<Vec<_>>(), [1, 2, 3]);
/// assert_eq!(tree.nodes().count(), 5);
/// assert_eq!(tree.map(|n| n * 10).to_string(), "(10, (20, 30))");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Tree<T> {
    /// A value that is not a tuple.
    Leaf(T),
    /// A tuple of trees. It may be empty.
    Tuple(Vec<Tree<T>>),
}

impl<T> Tree<T> {
    /// Returns a tuple of the given trees.
    pub fn tuple(elements: impl IntoIterator<Item = Self>) -> Self {
        Self::Tuple(elements.into_iter().collect())
    }

    /// Returns the value of a leaf, or `None` for a tuple.
    #[must_use]
    pub fn leaf(&self) -> Option<&T> {
        match self {
            Self::Leaf(leaf) => Some(leaf),
            Self::Tuple(_) => None,
        }
    }

    /// Returns the elements of a tuple, or `None` for a leaf.
    #[must_use]
    pub fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Leaf(_) => None,
            Self::Tuple(elements) => Some(elements),
        }
    }

    /// Returns true if this tree is a tuple.
    #[must_use]
    pub fn is_tuple(&self) -> bool {
        matches!(self, Self::Tuple(_))
    }

    /// Returns the subtree at a path of tuple indices. For an empty path, returns this tree.
    #[must_use]
    pub fn get(&self, path: &[usize]) -> Option<&Self> {
        path.iter()
            .try_fold(self, |tree, &index| tree.elements()?.get(index))
    }

    /// Returns an iterator over all leaves, in pre-order.
    pub fn leaves(&self) -> impl Iterator<Item = &T> {
        self.nodes().filter_map(Self::leaf)
    }

    /// Returns an iterator over all nodes, which are tuples and leaves, in pre-order: each tuple before its elements.
    pub fn nodes(&self) -> impl Iterator<Item = &Self> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let tree = left.pop()?;
            left.extend(tree.elements().unwrap_or_default().iter().rev());
            Some(tree)
        })
    }

    /// Returns all leaves by value, in pre-order.
    #[must_use]
    pub fn into_leaves(self) -> Vec<T> {
        match self {
            Self::Leaf(leaf) => vec![leaf],
            Self::Tuple(elements) => elements.into_iter().flat_map(Self::into_leaves).collect(),
        }
    }

    /// Returns the nesting depth of tuples; 0 for a leaf.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Tuple(elements) => 1 + elements.iter().map(Self::depth).max().unwrap_or(0),
        }
    }

    /// Returns a tree of the same structure, whose leaves are the results of `f` in pre-order.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Tree<U> {
        let mapped = self.try_map(|leaf| Ok::<U, std::convert::Infallible>(f(leaf)));
        let Ok(tree) = mapped;
        tree
    }

    /// Returns a tree like [`Tree::map`], for a function `f` that may fail.
    ///
    /// # Errors
    /// The first error of `f`.
    pub fn try_map<U, E>(&self, mut f: impl FnMut(&T) -> Result<U, E>) -> Result<Tree<U>, E> {
        fn of<T, U, E>(
            tree: &Tree<T>,
            f: &mut impl FnMut(&T) -> Result<U, E>,
        ) -> Result<Tree<U>, E> {
            match tree {
                Tree::Leaf(leaf) => f(leaf).map(Tree::Leaf),
                Tree::Tuple(all) => all
                    .iter()
                    .map(|tree| of(tree, f))
                    .collect::<Result<_, _>>()
                    .map(Tree::Tuple),
            }
        }
        of(self, &mut f)
    }

    /// Returns true if both trees have the same structure. Their leaves may differ.
    #[must_use]
    pub fn same_structure<U>(&self, other: &Tree<U>) -> bool {
        match (self, other) {
            (Self::Leaf(_), Tree::Leaf(_)) => true,
            (Self::Tuple(a), Tree::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_structure(b))
            }
            _ => false,
        }
    }

    /// Returns a tree of this structure with the leaves from `leaves`, in pre-order. Returns `None` if `leaves` has
    /// too few leaves.
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
    /// Formats the tree like nested Python tuples.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(leaf) => leaf.fmt(f),
            Self::Tuple(elements) => {
                let all: Vec<_> = elements.iter().map(ToString::to_string).collect();
                write!(f, "({})", all.join(", "))
            }
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.map(|leaf| format!("{leaf:?}")), f)
    }
}
