//! Shape contracts: texts that relate the shapes of a custom call's operands.
//!
//! In `"b n k, b k m -> b n m"`, operands are separated by commas and dimensions by blanks. A dimension is a name
//! (the same size wherever it occurs), a number, or `_` (any size). One dimension per operand may be `...`: any
//! number of dimensions, the same wherever `...` occurs. `()` is a scalar and `token` a token. `?` after an operand
//! means that the operand may be absent. `*` means that the entry describes all remaining operands.
//!
//! If a name is also the name of an integer attribute of the handler, the size is the attribute's value. A dimension
//! of a result may be computed from a name. It is written without blanks: `2*n`, `n/2`, `n+1`, `n-1`, or a
//! combination in this order, such as `3*n/2-1`. A division with a remainder is an error, and so is a negative size.
//!
//! The macros compile contracts into comparisons. The command line infers the results' shapes from the contract in a
//! manifest. Both use this parser. The Python package has a separate parser, `python/xla_ffi/_contract.py`.
//! `tests/python.rs` checks that both parsers return the same results and messages.
#![forbid(unsafe_code)]

mod computed;
mod entry;
mod infer;

pub use computed::{Computed, NoSize};
pub use entry::{Clash, Declared, Form};
pub use infer::Misfit;

use computed::Parts;

/// A dimension of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A named size, by its index in [`Contract::names`].
    Name(usize),
    /// A fixed size.
    Size(u32),
    /// `_`: any size.
    Any,
    /// `...`: any number of dimensions.
    Ellipsis,
    /// `2*n`, `n/2`, `n+1`: a size that is computed from a named size; only in results.
    Computed(Computed),
}

/// An operand of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The operand's entry as written in the contract.
    pub text: String,
    /// The operand's dimensions; empty for scalars and tokens.
    pub dims: Vec<Dim>,
    /// Whether the entry describes all remaining operands.
    pub repeats: bool,
    /// Whether the operand may be absent.
    pub optional: bool,
    /// Whether the operand is a token.
    pub token: bool,
}

/// A parsed contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The contract's text as written.
    pub text: String,
    /// The names of sizes, in the order in which they occur.
    pub names: Vec<String>,
    /// The entries of the arguments, in order.
    pub args: Vec<Entry>,
    /// The entries of the results, in order.
    pub rets: Vec<Entry>,
}

impl Entry {
    /// Returns true if the entry contains `...`.
    #[must_use]
    pub fn has_ellipsis(&self) -> bool {
        self.dims.contains(&Dim::Ellipsis)
    }
}

impl Contract {
    /// The largest number of different names in a contract.
    pub const MAX_NAMES: usize = 26;

    /// Parses the text of a contract.
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
    /// A text that describes the mistake in the contract.
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
            text: text.to_owned(),
            names: Vec::new(),
            args: Vec::new(),
            rets: Vec::new(),
        };
        contract.args = contract.side(args, false)?;
        contract.rets = contract.side(rets, true)?;
        Ok(contract)
    }

    /// Returns true if both contracts have the same meaning, apart from the names of sizes. `attributes` are the
    /// names of attributes in `self`, and `others` the names of attributes in `other`.
    ///
    /// ```
    /// use xla_ffi_contract::Contract;
    ///
    /// let same = |a: &str, b: &str| {
    ///     Contract::parse(a).unwrap().is_same_as(&Contract::parse(b).unwrap(), &["k"], &["k"])
    /// };
    /// assert!(same("n k -> 2*n", "m k -> 2*m"));
    /// assert!(!same("n k -> n", "n m -> n") && !same("n -> n", "n -> 1") && !same("n, m -> n", "n, n -> n"));
    /// ```
    #[must_use]
    pub fn is_same_as(&self, other: &Self, attributes: &[&str], others: &[&str]) -> bool {
        let form = |entries: &[Entry]| -> Vec<_> {
            let dims = |entry: &Entry| {
                let mut dims = entry.dims.clone();
                for dim in &mut dims {
                    if let Dim::Computed(computed) = dim {
                        computed.text.clear();
                    }
                }
                dims
            };
            let entries = entries.iter();
            let form =
                entries.map(|entry| (entry.repeats, entry.optional, entry.token, dims(entry)));
            form.collect()
        };
        // Only the names of attributes have a meaning outside the contract.
        let given = |names: &[String], attributes: &[&str]| -> Vec<_> {
            let names = names
                .iter()
                .map(|name| attributes.contains(&name.as_str()).then(|| name.clone()));
            names.collect()
        };
        form(&self.args) == form(&other.args)
            && form(&self.rets) == form(&other.rets)
            && given(&self.names, attributes) == given(&other.names, others)
    }

    /// Returns true if the arguments may not determine the named size, although the results need it. This is the case
    /// if no argument has the name. It is also the case if only optional arguments have the name and a result
    /// computes with it. The name must then be the name of an attribute.
    ///
    /// ```
    /// use xla_ffi_contract::Contract;
    ///
    /// let contract = Contract::parse("n, m? -> 2*n k, m").unwrap();
    /// let names = contract.names.iter().map(String::as_str);
    /// let needed: Vec<_> = names.zip(0..).filter(|(_, name)| contract.needs_attribute(*name)).collect();
    /// assert_eq!(needed, [("k", 2)]);
    /// assert!(Contract::parse("n, m? -> n m+1").unwrap().needs_attribute(1));
    /// ```
    #[must_use]
    pub fn needs_attribute(&self, name: usize) -> bool {
        let has = |entry: &&Entry| entry.dims.contains(&Dim::Name(name));
        let mut having = self.args.iter().filter(has).peekable();
        let nowhere = having.peek().is_none();
        let sure = having.any(|entry| !entry.optional && !entry.repeats);
        let mut dims = self.rets.iter().flat_map(|entry| &entry.dims);
        let computed =
            dims.any(|dim| matches!(dim, Dim::Computed(computed) if computed.name == name));
        nowhere || (computed && !sure)
    }

    fn side(&mut self, text: &str, computes: bool) -> Result<Vec<Entry>, String> {
        if text.trim_matches(is_blank).is_empty() {
            return Ok(Vec::new());
        }
        let entries: Vec<Entry> = text
            .split(',')
            .map(|entry| self.entry(entry.trim_matches(is_blank), computes))
            .collect::<Result<_, _>>()?;
        if entries.iter().rev().skip(1).any(|entry| entry.repeats) {
            return Err("only the last entry of a side may repeat (`*`)".to_owned());
        }
        Ok(entries)
    }

    fn entry(&mut self, whole: &str, computes: bool) -> Result<Entry, String> {
        let (text, repeats) = match whole.strip_suffix('*') {
            Some(rest) => (rest.trim_end_matches(is_blank), true),
            None => (whole, false),
        };
        let (text, optional) = match text.strip_suffix('?') {
            Some(rest) => (rest.trim_end_matches(is_blank), true),
            None => (text, false),
        };
        if optional && repeats {
            return Err(format!(
                "`{whole}`: `*` already includes no operands; remove the `?`"
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
            .split(is_blank)
            .filter(|dim| !dim.is_empty())
            .map(|dim| self.dim(dim, computes))
            .collect::<Result<_, _>>()?;
        let ellipses = entry.dims.iter().filter(|dim| **dim == Dim::Ellipsis);
        if ellipses.count() > 1 {
            return Err(format!("`{text}` has more than one `...`"));
        }
        Ok(entry)
    }

    fn dim(&mut self, text: &str, computes: bool) -> Result<Dim, String> {
        if text == "..." {
            return Ok(Dim::Ellipsis);
        }
        if text == "_" {
            return Ok(Dim::Any);
        }
        if let Some(number) = number(text)? {
            return Ok(Dim::Size(number));
        }
        let Some(parts) = Parts::of(text) else {
            return Ok(Dim::Name(self.name(text, text)?));
        };
        // The name is parsed first, because a text such as `2*` has no name and is an error of a
        // different kind.
        let name = self.name(parts.name, text)?;
        let part = |part: Option<&str>, none: u32| match part {
            None => Ok(none),
            Some(part) => number(part)?.ok_or_else(|| no_dimension(text)),
        };
        let (times, over) = (part(parts.times, 1)?, part(parts.over, 1)?);
        if times == 0 || over == 0 {
            return Err(format!("`{text}` multiplies or divides by 0"));
        }
        let plus = i64::from(part(parts.plus.map(|(_, number)| number), 0)?);
        let minus = matches!(parts.plus, Some(('-', _)));
        if !computes {
            return Err(format!(
                "`{text}` is in an argument, but only results can compute a size"
            ));
        }
        Ok(Dim::Computed(Computed {
            text: text.to_owned(),
            name,
            times,
            over,
            plus: if minus { -plus } else { plus },
        }))
    }

    /// Returns the index of a name that occurs in `dim`.
    fn name(&mut self, name: &str, dim: &str) -> Result<usize, String> {
        let is_name = !name.is_empty()
            && name != "_"
            && name
                .chars()
                .enumerate()
                .all(|(i, c)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()));
        if !is_name {
            return Err(no_dimension(dim));
        }
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return Ok(index);
        }
        if self.names.len() == Self::MAX_NAMES {
            return Err(format!("more than {} named sizes", Self::MAX_NAMES));
        }
        self.names.push(name.to_owned());
        Ok(self.names.len() - 1)
    }
}

fn no_dimension(text: &str) -> String {
    format!(
        "`{text}` is not a dimension; write a name, a number, `_` or `...`, in results also `2*n`, `n/2`, \
         `n+1`, `n-1`"
    )
}

/// Parses a number. Returns `None` if the text is not all digits.
fn number(text: &str) -> Result<Option<u32>, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let number = text
        .parse()
        .map_err(|_| format!("`{text}` is too large for a size"))?;
    Ok(Some(number))
}

/// Returns true for ASCII white space. Other white space does not separate words, because the parsers of all
/// languages must agree.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        let error = |text: &str| Contract::parse(text).unwrap_err();
        assert!(error("n -> n -> n").contains("this one has 2"));
        assert!(error("n,, m -> n").contains("empty"));
        assert!(error("n* , m -> n").contains("last entry"));
        assert!(error("n?* -> n").contains("remove the `?`"));
        assert!(error("... n ... -> n").contains("more than one"));
        assert!(error("n-1 -> n").contains("only results"));
        for word in [
            "n+", "n*2", "2* n", "2*3", "n+m", "n/2/2", "n+1*2", "-1", "+", "_+1", "3n", "é",
        ] {
            assert!(
                error(&format!("n -> {word}")).contains("not a dimension"),
                "{word}"
            );
        }
        assert!(error("n -> 0*n").contains("by 0") && error("n -> n/0").contains("by 0"));
        assert!(error("n -> n+99999999999").contains("too large"));
        assert!(error("99999999999 -> n").contains("too large"));
        let many: Vec<String> = (0..27).map(|i| format!("n{i}")).collect();
        assert!(error(&format!("{} -> n0", many.join(" "))).contains("more than 26"));
    }

    #[test]
    fn computed_sizes() {
        let contract = Contract::parse("n -> 3*n/2-1 k, n+1*").unwrap();
        assert_eq!(contract.names, ["n", "k"]);
        let computed = |text: &str, times, over, plus| {
            let text = text.to_owned();
            let name = 0;
            Dim::Computed(Computed {
                text,
                name,
                times,
                over,
                plus,
            })
        };
        assert_eq!(
            contract.rets[0].dims,
            [computed("3*n/2-1", 3, 2, -1), Dim::Name(1)]
        );
        assert_eq!(contract.rets[1].dims, [computed("n+1", 1, 1, 1)]);
        assert!(contract.rets[1].repeats);
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
