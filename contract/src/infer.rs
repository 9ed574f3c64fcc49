//! The shapes of results that follow from the shapes of arguments.

use crate::{Contract, Dim, Entry};

/// Why the shapes of the results do not follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// More arguments than the contract has entries.
    TooMany,
    /// The contract has entries for which there is no argument.
    TooFew,
    /// The argument with this number is not as its entry says.
    Argument {
        /// Its number.
        index: usize,
        /// The text of the entry.
        entry: String,
    },
    /// No argument says what a word of a result stands for.
    Unknown(String),
}

/// What the words of a contract stand for, as far as arguments have told.
struct Sizes {
    named: Vec<Option<i64>>,
    ellipsis: Option<Vec<i64>>,
}

impl Contract {
    /// The dimensions of the results for arguments with these dimensions; those of a token are
    /// ignored.
    ///
    /// ```
    /// use xla_ffi_contract::{Contract, Misfit};
    ///
    /// let matmul = Contract::parse("b n k, b k m -> b n m").unwrap();
    /// assert_eq!(matmul.infer(&[&[1, 2, 3], &[1, 3, 4]]), Ok(vec![vec![1, 2, 4]]));
    /// let misfit = matmul.infer(&[&[1, 2, 3], &[1, 5, 4]]);
    /// assert_eq!(misfit, Err(Misfit::Argument { index: 1, entry: "b k m".into() }));
    /// ```
    ///
    /// # Errors
    /// The arguments do not fit, or a result has sizes that they do not tell.
    pub fn infer(&self, args: &[&[i64]]) -> Result<Vec<Vec<i64>>, Misfit> {
        let mut sizes = Sizes {
            named: vec![None; self.names.len()],
            ellipsis: None,
        };
        let mut given = args.iter().enumerate();
        for entry in &self.args {
            loop {
                match given.next() {
                    Some((index, dims)) if !sizes.learn(entry, dims) => {
                        let entry = entry.text.clone();
                        return Err(Misfit::Argument { index, entry });
                    }
                    Some(_) => {}
                    None if entry.repeats || entry.optional => break,
                    None => return Err(Misfit::TooFew),
                }
                if !entry.repeats {
                    break;
                }
            }
        }
        if given.next().is_some() {
            return Err(Misfit::TooMany);
        }
        self.rets
            .iter()
            .map(|entry| self.result(&sizes, entry))
            .collect()
    }

    fn result(&self, sizes: &Sizes, entry: &Entry) -> Result<Vec<i64>, Misfit> {
        let unknown = |word: &str| Misfit::Unknown(word.to_owned());
        let mut shape = Vec::new();
        for dim in &entry.dims {
            match dim {
                Dim::Size(size) => shape.push(i64::from(*size)),
                Dim::Any => return Err(unknown("_")),
                Dim::Name(index) => {
                    shape.push(sizes.named[*index].ok_or_else(|| unknown(&self.names[*index]))?);
                }
                Dim::Ellipsis => {
                    let dims = sizes.ellipsis.as_ref().ok_or_else(|| unknown("..."))?;
                    shape.extend(dims);
                }
            }
        }
        Ok(shape)
    }
}

impl Sizes {
    /// Whether `dims` are as the entry says; remembers what its words stand for.
    fn learn(&mut self, entry: &Entry, dims: &[i64]) -> bool {
        if entry.token {
            return true;
        }
        let fixed = entry.dims.len() - usize::from(entry.has_ellipsis());
        let Some(spare) = dims.len().checked_sub(fixed) else {
            return false;
        };
        if spare > 0 && !entry.has_ellipsis() {
            return false;
        }
        let mut dims = dims;
        entry.dims.iter().all(|dim| {
            let count = if *dim == Dim::Ellipsis { spare } else { 1 };
            let (here, rest) = dims.split_at(count);
            dims = rest;
            match dim {
                Dim::Any => true,
                Dim::Size(size) => here == [i64::from(*size)],
                Dim::Name(index) => here == [*self.named[*index].get_or_insert(here[0])],
                Dim::Ellipsis => here == *self.ellipsis.get_or_insert_with(|| here.to_vec()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(text: &str, args: &[&[i64]]) -> Result<Vec<Vec<i64>>, Misfit> {
        Contract::parse(text).unwrap().infer(args)
    }

    #[test]
    fn shapes_follow() {
        for (text, args, expected) in [
            (
                "... n -> ... n",
                vec![&[2_i64, 3, 4][..]],
                vec![vec![2, 3, 4]],
            ),
            ("n, m -> m", vec![&[128], &[2048]], vec![vec![2048]]),
            ("(), _ -> 3, ()", vec![&[], &[9]], vec![vec![3], vec![]]),
            ("n* -> n", vec![&[2], &[2]], vec![vec![2]]),
            ("n, m? -> n", vec![&[2]], vec![vec![2]]),
            (
                "a ... b -> b ... a",
                vec![&[1, 2, 3, 4]],
                vec![vec![4, 2, 3, 1]],
            ),
            (
                "token, n -> token, n",
                vec![&[], &[5]],
                vec![vec![], vec![5]],
            ),
        ] {
            assert_eq!(infer(text, &args), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let argument = |index, entry: &str| {
            let entry = entry.to_owned();
            Err(Misfit::Argument { index, entry })
        };
        assert_eq!(infer("n, n -> n", &[&[2], &[3]]), argument(1, "n"));
        assert_eq!(infer("... n -> n", &[&[]]), argument(0, "... n"));
        assert_eq!(infer("..., ... -> 1", &[&[1], &[2]]), argument(1, "..."));
        assert_eq!(infer("3 -> 3", &[&[2]]), argument(0, "3"));
        assert_eq!(infer("n* -> n", &[&[2], &[3]]), argument(1, "n*"));
        assert_eq!(infer("n -> m", &[&[2]]), Err(Misfit::Unknown("m".into())));
        assert_eq!(
            infer("n -> ...", &[&[2]]),
            Err(Misfit::Unknown("...".into()))
        );
        assert_eq!(infer("n -> n", &[&[2], &[2]]), Err(Misfit::TooMany));
        assert_eq!(infer("n, m -> n", &[&[2]]), Err(Misfit::TooFew));
    }
}
