//! Whether a contract takes every call that another one takes, with the same results.

use crate::{Contract, Dim, Entry};
use std::collections::{BTreeMap, BTreeSet};

/// What one contract has where the other has a name or `...`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound {
    Name(usize),
    Size(u32),
    /// An attribute, by its name.
    Word(String),
    /// A name that neither arguments nor attributes tell, by itself.
    Untold(String),
    /// `_`: each is a size of its own.
    Free(usize),
    Ellipsis,
}

/// What the names and the `...` of the wider contract stand for in the narrower one.
struct Match<'a> {
    wide: &'a Contract,
    narrow: &'a Contract,
    /// The attributes of the wider contract's handler, and of the narrower one's.
    wide_attributes: &'a [&'a str],
    narrow_attributes: &'a [&'a str],
    names: BTreeMap<usize, Bound>,
    ellipsis: Option<Vec<Bound>>,
    /// The narrower contract's argument that is looked at.
    here: usize,
    /// Its arguments by which a name of the wider one, or the `...` (`None`), has got what it stands for.
    by: BTreeMap<Option<usize>, BTreeSet<usize>>,
    free: usize,
}

impl Contract {
    /// Whether every call that fits `other` fits this contract too and gets results of the same shapes, whatever
    /// sizes are called. `attributes` are names that stand for attributes' values in this one, `others` in `other`: one of both
    /// has the same value in both, and what an attribute tells is no size that arguments tell.
    ///
    /// ```
    /// use xla_ffi_contract::Contract;
    ///
    /// let covers = |wide: &str, narrow: &str| {
    ///     Contract::parse(wide).unwrap().covers(&Contract::parse(narrow).unwrap(), &["k"], &["k"])
    /// };
    /// assert!(covers("... m -> ... m", "n -> n") && !covers("n -> n", "... m -> ... m"));
    /// assert!(covers("n, m -> n", "n, n -> n") && !covers("n, n -> n", "n, m -> n"));
    /// assert!(covers("n -> 2*n k", "m -> 2*m k") && !covers("n -> 2*n", "n -> 3*n"));
    /// ```
    #[must_use]
    pub fn covers(&self, other: &Self, attributes: &[&str], others: &[&str]) -> bool {
        let mut matching = Match {
            wide: self,
            narrow: other,
            wide_attributes: attributes,
            narrow_attributes: others,
            names: BTreeMap::new(),
            ellipsis: None,
            here: 0,
            by: BTreeMap::new(),
            free: 0,
        };
        matching.arguments() && matching.results()
    }
}

impl Match<'_> {
    fn arguments(&mut self) -> bool {
        let (wide, narrow) = (self.wide, self.narrow);
        let mut at = 0;
        for (index, entry) in narrow.args.iter().enumerate() {
            self.here = index;
            let Some(over) = wide.args.get(at) else {
                return false;
            };
            let fits = over.token == entry.token
                && (over.optional || over.repeats || !entry.optional)
                && (over.repeats || !entry.repeats);
            if !fits || !self.entry(over, entry) {
                return false;
            }
            // One that repeats stands for all operands that are left.
            at += usize::from(!over.repeats);
        }
        let mut left = wide.args[at..].iter();
        left.all(|entry| entry.optional || entry.repeats)
    }

    fn entry(&mut self, over: &Entry, entry: &Entry) -> bool {
        let dims: Vec<Bound> = entry.dims.iter().map(|dim| self.bound(dim)).collect();
        let at = over.dims.iter().position(|dim| *dim == Dim::Ellipsis);
        let Some(at) = at else {
            return over.dims.len() == dims.len()
                && over
                    .dims
                    .iter()
                    .zip(dims)
                    .all(|(dim, bound)| self.dim(dim, bound));
        };
        let behind = over.dims.len() - at - 1;
        if dims.len() < at + behind {
            return false;
        }
        let middle = dims[at..dims.len() - behind].to_vec();
        let ends = over.dims[..at].iter().zip(&dims[..at]);
        let ends = ends.chain(over.dims[at + 1..].iter().zip(&dims[dims.len() - behind..]));
        self.by.entry(None).or_default().insert(self.here);
        let mut fits = !middle.iter().any(|bound| self.differs(bound));
        for (dim, bound) in ends {
            fits &= self.dim(dim, bound.clone());
        }
        fits && *self.ellipsis.get_or_insert_with(|| middle.clone()) == middle
    }

    /// What a dimension of the narrower contract stands for.
    fn bound(&mut self, dim: &Dim) -> Bound {
        match dim {
            Dim::Name(name) => self.named(*name),
            Dim::Size(size) => Bound::Size(*size),
            Dim::Ellipsis => Bound::Ellipsis,
            // Arguments compute nothing.
            Dim::Any | Dim::Computed(_) => {
                self.free += 1;
                Bound::Free(self.free)
            }
        }
    }

    fn named(&self, name: usize) -> Bound {
        let word = &self.narrow.names[name];
        let has = |entry: &Entry| entry.dims.contains(&Dim::Name(name));
        if self.narrow_attributes.contains(&word.as_str()) {
            Bound::Word(word.clone())
        } else if self.narrow.args.iter().any(has) {
            Bound::Name(name)
        } else {
            Bound::Untold(word.clone())
        }
    }

    /// Whether a dimension of the wider contract takes what the narrower one has there.
    fn dim(&mut self, dim: &Dim, bound: Bound) -> bool {
        match dim {
            Dim::Any => bound != Bound::Ellipsis,
            Dim::Size(size) => bound == Bound::Size(*size),
            Dim::Name(name) => {
                let word = self.wide.names[*name].as_str();
                if self.wide_attributes.contains(&word) {
                    return bound == Bound::Word(word.to_owned());
                }
                self.by.entry(Some(*name)).or_default().insert(self.here);
                bound != Bound::Ellipsis
                    && !self.differs(&bound)
                    && *self.names.entry(*name).or_insert_with(|| bound.clone()) == bound
            }
            Dim::Ellipsis | Dim::Computed(_) => false,
        }
    }

    /// Whether it is another size in each of the operands that the entry stands for.
    fn differs(&self, bound: &Bound) -> bool {
        matches!(bound, Bound::Free(_)) && self.narrow.args[self.here].repeats
    }

    fn results(&self) -> bool {
        let (wide, narrow) = (&self.wide.rets, &self.narrow.rets);
        wide.len() == narrow.len()
            && wide.iter().zip(narrow).all(|(over, entry)| {
                (over.token, over.optional, over.repeats)
                    == (entry.token, entry.optional, entry.repeats)
                    && self.is_result(&over.dims, &entry.dims)
            })
    }

    /// Whether two results are the same once the names are replaced.
    fn is_result(&self, over: &[Dim], dims: &[Dim]) -> bool {
        let mut at = 0;
        for dim in over {
            let taken = match dim {
                Dim::Ellipsis => {
                    let stands_for = self.ellipsis.clone().unwrap_or(vec![Bound::Ellipsis]);
                    let theirs = dims.get(at..at + stands_for.len());
                    let same = theirs.is_some_and(|theirs| {
                        let mut pairs = theirs.iter().zip(&stands_for);
                        pairs.all(|(dim, bound)| self.result(dim).as_ref() == Some(bound))
                    });
                    (same && self.is_known_alike(None, &stands_for)).then_some(stands_for.len())
                }
                Dim::Name(name) => {
                    let theirs = dims.get(at).and_then(|dim| self.result(dim));
                    (theirs == Some(self.stands_for(*name)) && self.is_name_known_alike(*name))
                        .then_some(1)
                }
                Dim::Computed(over) => match dims.get(at) {
                    Some(Dim::Computed(dim)) => ((over.times, over.over, over.plus)
                        == (dim.times, dim.over, dim.plus)
                        && self.stands_for(over.name) == self.named(dim.name)
                        && self.is_name_known_alike(over.name))
                    .then_some(1),
                    _ => None,
                },
                Dim::Any | Dim::Size(_) => (dims.get(at) == Some(dim)).then_some(1),
            };
            let Some(taken) = taken else { return false };
            at += taken;
        }
        at == dims.len()
    }

    fn is_name_known_alike(&self, name: usize) -> bool {
        let bound = self.names.get(&name);
        bound.is_none_or(|bound| self.is_known_alike(Some(name), std::slice::from_ref(bound)))
    }

    /// Whether a name or the `...` of the wider contract is known in the calls in which what it stands for is: where an
    /// argument is absent, nothing is known of it.
    fn is_known_alike(&self, what: Option<usize>, stands_for: &[Bound]) -> bool {
        let Some(by) = self.by.get(&what) else {
            return true;
        };
        let args = &self.narrow.args;
        let is_sure = |index: &usize| !args[*index].optional && !args[*index].repeats;
        // Of what it stands for, something is unknown too where all of these are absent.
        let is_unknown = |bound: &Bound| {
            let dim = match bound {
                Bound::Name(name) => Dim::Name(*name),
                Bound::Ellipsis => Dim::Ellipsis,
                Bound::Size(_) | Bound::Word(_) | Bound::Untold(_) | Bound::Free(_) => {
                    return false;
                }
            };
            let mut has = args
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.dims.contains(&dim));
            has.all(|(index, _)| by.contains(&index))
        };
        by.iter().any(is_sure) || stands_for.iter().any(is_unknown)
    }

    fn stands_for(&self, name: usize) -> Bound {
        let word = &self.wide.names[name];
        if self.wide_attributes.contains(&word.as_str()) {
            return Bound::Word(word.clone());
        }
        let untold = || Bound::Untold(word.clone());
        self.names.get(&name).cloned().unwrap_or_else(untold)
    }

    fn result(&self, dim: &Dim) -> Option<Bound> {
        match dim {
            Dim::Name(name) => Some(self.named(*name)),
            Dim::Size(size) => Some(Bound::Size(*size)),
            Dim::Ellipsis => Some(Bound::Ellipsis),
            Dim::Any | Dim::Computed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Contract;

    #[test]
    fn wider_and_narrower_contracts() {
        let covers = |wide: &str, narrow: &str| {
            let [wide, narrow] = [wide, narrow].map(|text| Contract::parse(text).unwrap());
            wide.covers(&narrow, &["k"], &["k"])
        };
        let pairs = [
            // wider, narrower, whether they are equal
            ("b n k, b k m -> b n m", "a i k, a k o -> a i o", true),
            ("n -> n", "3 -> 3", false),
            ("_ -> _", "_ -> _", true),
            ("_ -> 1", "n -> 1", true),
            ("n, m -> n", "n, n -> n", false),
            ("... n -> ... n", "b n -> b n", false),
            ("... n -> ... n", "... 4 n -> ... 4 n", false),
            ("..., ... -> ...", "a b, a b -> a b", false),
            ("n, m? -> n", "n -> n", false),
            ("n* -> n", "n, n -> n", false),
            ("n, k -> n", "m, k -> m", true),
            // A size that has to be the attribute's is one of all sizes.
            ("n -> n", "k -> k", false),
            ("n -> n/2+1", "m -> m/2+1", true),
            ("n* -> n", "m* -> m", true),
            ("n, m? -> m+1", "k, n? -> n+1", false),
            ("...* -> ... 1", "... n* -> ... n 1", false),
            ("n? -> n", "3 -> 3", false),
            // `_` is another size in each operand.
            ("_* ->", "n* ->", false),
            ("...* ->", "n* ->", false),
            ("n* ->", "_ ->", false),
        ];
        for (wide, narrow, equal) in pairs {
            assert!(covers(wide, narrow), "{wide} | {narrow}");
            assert_eq!(covers(narrow, wide), equal, "{narrow} | {wide}");
        }
        let neither = [
            ("n -> n", "n -> n n"),
            ("n -> 2*n", "n -> n"),
            ("n -> n", "token -> token"),
            ("n -> n", "n, n -> n"),
            ("..., ... -> ...", "a, b -> a"),
            ("n, n -> n", "_, _ -> 1"),
            ("n m -> n", "n m -> m"),
            // Where there is no argument, the one has a result and the other none.
            ("n* -> n", "3* -> 3"),
            ("_, n? -> n", "m, m? -> m"),
            ("...? -> 2*k ...", "2? -> 2*k 2"),
            ("n? -> n", "k? -> k"),
            ("...* ->", "_* ->"),
        ];
        for (one, other) in neither {
            assert!(
                !covers(one, other) && !covers(other, one),
                "{one} | {other}"
            );
        }
    }

    /// A name that is an attribute's in one of both.
    #[test]
    fn names_of_attributes_that_came_and_went() {
        let covers = |wide: (&str, &[&str]), narrow: (&str, &[&str])| {
            let [one, other] = [wide.0, narrow.0].map(|text| Contract::parse(text).unwrap());
            one.covers(&other, wide.1, narrow.1)
        };
        for text in ["n -> n", "n k -> 2*n k", "... n, n -> ... n"] {
            let (free, told) = ((text, &[][..]), (text, &["n"][..]));
            assert!(covers(free, told), "{text}");
            assert!(!covers(told, free), "{text}");
            assert!(covers(told, told), "{text}");
        }
        assert!(covers(("m -> m", &["n"]), ("n -> n", &["n"])));
        // A result of which nothing is known is not what an attribute says.
        let (untold, told) = (("-> n", &[][..]), ("-> n", &["n"][..]));
        assert!(!covers(untold, told) && !covers(told, untold) && covers(untold, untold));
    }
}
