//! The rule for which operands a contract's entry may describe. The macros (at compile time) and readers of manifests
//! share this rule.

use crate::Entry;

/// The properties of a contract's entry, apart from sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The number of dimensions, not counting `...`.
    pub dims: usize,
    /// Whether the entry contains `...`.
    pub ellipsis: bool,
    /// Whether the entry ends in `*`.
    pub repeats: bool,
    /// Whether the entry ends in `?`.
    pub optional: bool,
    /// Whether the entry is `token`.
    pub token: bool,
}

/// The properties that a handler declares for an operand and that the contract's entry must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The number of dimensions; `None` for any number.
    pub rank: Option<usize>,
    /// Whether the declaration covers all remaining operands.
    pub repeats: bool,
    /// Whether the operand may be absent from a call.
    pub optional: bool,
    /// Whether the operand is a token; `None` if the operand may have any type.
    pub token: Option<bool>,
}

/// A disagreement between an entry and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Only one of the entry and the operand is a token; the other is an array.
    Token,
    /// The entry and the operand differ in presence: required, optional, or all remaining operands.
    Presence,
    /// The entry and the operand differ in the number of dimensions.
    Rank,
}

impl Entry {
    /// Returns the entry's properties apart from sizes.
    #[must_use]
    pub fn form(&self) -> Form {
        let ellipsis = self.has_ellipsis();
        Form {
            dims: self.dims.len() - usize::from(ellipsis),
            ellipsis,
            repeats: self.repeats,
            optional: self.optional,
            token: self.token,
        }
    }
}

impl Form {
    /// Returns `None` if every call that the declaration allows can fit the entry, and the disagreement otherwise.
    ///
    /// ```
    /// use xla_ffi_contract::{Clash, Contract, Declared};
    ///
    /// let contract = Contract::parse("n ... m, token -> n").unwrap();
    /// let declared = Declared { rank: Some(2), repeats: false, optional: false, token: Some(false) };
    /// assert_eq!(contract.args[0].form().clash(declared), None);
    /// let vector = Declared { rank: Some(1), ..declared };
    /// assert_eq!(contract.args[0].form().clash(vector), Some(Clash::Rank));
    /// // An operand of any type may be a token.
    /// let any = Declared { rank: None, token: None, ..declared };
    /// assert_eq!(contract.args[1].form().clash(any), None);
    /// assert_eq!(contract.args[1].form().clash(declared), Some(Clash::Token));
    /// ```
    #[must_use]
    pub const fn clash(self, declared: Declared) -> Option<Clash> {
        match declared.token {
            Some(token) if token != self.token => return Some(Clash::Token),
            _ => {}
        }
        if self.repeats != declared.repeats || self.optional != declared.optional {
            return Some(Clash::Presence);
        }
        match declared.rank {
            Some(rank) if self.ellipsis && self.dims <= rank => None,
            Some(rank) if rank != self.dims => Some(Clash::Rank),
            _ => None,
        }
    }
}
