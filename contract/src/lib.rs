//! Shape contracts: how the shapes of a custom call's operands hang together, as text.
//!
//! `"b n k, b k m -> b n m"`: operands are separated by commas, dimensions by blanks. A dimension is
//! a name (equal wherever it occurs), a number, `_` (any), or, once an operand, `...` (any number of
//! dimensions, the same ones wherever it occurs). `()` is a scalar and `token` a token; `?` behind an
//! operand says that it may be absent, `*` that it stands for all that are left.
//!
//! The macros compile contracts into comparisons; the command line infers the results' shapes from
//! the text in a manifest. Both read it here.
#![forbid(unsafe_code)]

mod infer;

pub use infer::Misfit;

/// A dimension of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// The size with this number among [`Contract::names`].
    Name(usize),
    /// This size.
    Size(u32),
    /// `_`: any size.
    Any,
    /// `...`: any number of dimensions.
    Ellipsis,
}

/// An operand of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As it is written.
    pub text: String,
    /// Its dimensions; none for scalars and tokens.
    pub dims: Vec<Dim>,
    /// Whether it stands for all operands that are left.
    pub repeats: bool,
    /// Whether it may be absent.
    pub optional: bool,
    /// Whether it is a token.
    pub token: bool,
}

/// A contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The names of sizes, in the order in which they occur.
    pub names: Vec<String>,
    /// The arguments.
    pub args: Vec<Entry>,
    /// The results.
    pub rets: Vec<Entry>,
}

impl Entry {
    /// Whether it holds `...`.
    #[must_use]
    pub fn has_ellipsis(&self) -> bool {
        self.dims.contains(&Dim::Ellipsis)
    }
}

impl Contract {
    /// As many different names as a contract may have.
    pub const MAX_NAMES: usize = 26;

    /// Reads the text of a contract.
    ///
    /// ```
    /// use xla_ffi_contract::{Contract, Dim};
    ///
    /// let contract = Contract::parse("... n, 3 -> ... n").unwrap();
    /// assert_eq!(contract.names, ["n"]);
    /// assert_eq!(contract.args[0].dims, [Dim::Ellipsis, Dim::Name(0)]);
    /// assert_eq!(contract.args[1].dims, [Dim::Size(3)]);
    /// assert!(Contract::parse("n").unwrap_err().contains("one `->`"));
    /// ```
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let sides: Vec<&str> = text.split("->").collect();
        let [args, rets] = sides[..] else {
            return Err(format!(
                "a shape contract has one `->` between arguments and results, as in \
                 \"b n k, b k m -> b n m\"; this one has {}",
                sides.len() - 1
            ));
        };
        let mut contract = Self {
            names: Vec::new(),
            args: Vec::new(),
            rets: Vec::new(),
        };
        contract.args = contract.side(args)?;
        contract.rets = contract.side(rets)?;
        Ok(contract)
    }

    fn side(&mut self, text: &str) -> Result<Vec<Entry>, String> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let entries: Vec<Entry> = text
            .split(',')
            .map(|entry| self.entry(entry.trim()))
            .collect::<Result<_, _>>()?;
        if entries.iter().rev().skip(1).any(|entry| entry.repeats) {
            return Err("only the last entry of a side may repeat (`*`)".to_owned());
        }
        Ok(entries)
    }

    fn entry(&mut self, whole: &str) -> Result<Entry, String> {
        let (text, repeats) = match whole.strip_suffix('*') {
            Some(rest) => (rest.trim_end(), true),
            None => (whole, false),
        };
        let (text, optional) = match text.strip_suffix('?') {
            Some(rest) => (rest.trim_end(), true),
            None => (text, false),
        };
        if optional && repeats {
            return Err(format!(
                "`{whole}`: any number of operands (`*`) includes none, so `?` says nothing"
            ));
        }
        let mut entry = Entry {
            text: whole.to_owned(),
            dims: Vec::new(),
            repeats,
            optional,
            token: text == "token",
        };
        if text.is_empty() {
            return Err("an entry is empty; a scalar is `()`".to_owned());
        }
        if text == "()" || text == "token" {
            return Ok(entry);
        }
        entry.dims = text
            .split_whitespace()
            .map(|dim| self.dim(dim))
            .collect::<Result<_, _>>()?;
        let ellipses = entry.dims.iter().filter(|dim| **dim == Dim::Ellipsis);
        if ellipses.count() > 1 {
            return Err(format!("`{text}` has more than one `...`"));
        }
        Ok(entry)
    }

    fn dim(&mut self, text: &str) -> Result<Dim, String> {
        if text == "..." {
            return Ok(Dim::Ellipsis);
        }
        if text == "_" {
            return Ok(Dim::Any);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let size = text.parse().map_err(|_| format!("`{text}` is no size"))?;
            return Ok(Dim::Size(size));
        }
        let is_name = text
            .chars()
            .enumerate()
            .all(|(i, c)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()));
        if !is_name {
            return Err(format!(
                "`{text}` is no dimension; write a name, a number, `_` or `...`"
            ));
        }
        if let Some(index) = self.names.iter().position(|name| name == text) {
            return Ok(Dim::Name(index));
        }
        if self.names.len() == Self::MAX_NAMES {
            return Err(format!("more than {} named sizes", Self::MAX_NAMES));
        }
        self.names.push(text.to_owned());
        Ok(Dim::Name(self.names.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_told() {
        let error = |text: &str| Contract::parse(text).unwrap_err();
        assert!(error("n -> n -> n").contains("this one has 2"));
        assert!(error("n,, m -> n").contains("empty"));
        assert!(error("n* , m -> n").contains("last entry"));
        assert!(error("n?* -> n").contains("says nothing"));
        assert!(error("... n ... -> n").contains("more than one"));
        assert!(error("n-1 -> n").contains("no dimension"));
        assert!(error("99999999999 -> n").contains("no size"));
        let many: Vec<String> = (0..27).map(|i| format!("n{i}")).collect();
        assert!(error(&format!("{} -> n0", many.join(" "))).contains("more than 26"));
    }

    #[test]
    fn marks_and_words() {
        let contract = Contract::parse("token, () , n? -> _ *").unwrap();
        let [token, scalar, optional] = &contract.args[..] else {
            panic!("three arguments");
        };
        assert!(token.token && token.dims.is_empty());
        assert!(!scalar.token && scalar.dims.is_empty());
        assert!(optional.optional && optional.text == "n?");
        assert!(contract.rets[0].repeats);
        assert_eq!(contract.rets[0].dims, [Dim::Any]);
        assert!(Contract::parse(" -> ").unwrap().args.is_empty());
    }
}
