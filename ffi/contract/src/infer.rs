//! Infers the shapes of results from the shapes of arguments and from attributes.

use std::fmt;

use crate::{Contract, Dim, Entry};

/// A text that describes why operands do not fit a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit(String);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misfit {}

/// The value of a name or of `...`, and the operand or attribute that determines it.
struct Known<T> {
    value: T,
    from: String,
}

/// The values of a contract's names and of `...`, as far as attributes and arguments determine these values.
struct Sizes {
    named: Vec<Option<Known<i64>>>,
    ellipsis: Option<Known<Vec<i64>>>,
}

impl Contract {
    /// Returns the dimensions of the results, from the arguments' names and dimensions and the integer attributes
    /// `attrs`, including defaults. The dimensions of tokens, and attributes that the contract does not use, are
    /// ignored. A result is `None` if one of its sizes cannot be determined.
    ///
    /// ```
    /// use xla_ffi_contract::Contract;
    ///
    /// let matmul = Contract::parse("b n k, b k m -> b n m").unwrap();
    /// let shapes = matmul.infer(&[("x", &[1, 2, 3]), ("y", &[1, 3, 4])], &[]);
    /// assert_eq!(shapes, Ok(vec![Some(vec![1, 2, 4])]));
    /// let misfit = matmul.infer(&[("x", &[1, 2, 3]), ("y", &[1, 5, 4])], &[]).unwrap_err();
    /// assert_eq!(
    ///     misfit.to_string(),
    ///     "y: expected [b, k, m] with k = 3 from x, got [1, 5, 4]; the contract is `b n k, b k m -> b n m`"
    /// );
    ///
    /// let windows = Contract::parse("n -> n/2 k").unwrap();
    /// assert_eq!(windows.infer(&[("x", &[6])], &[("k", 5)]), Ok(vec![Some(vec![3, 5])]));
    /// ```
    ///
    /// # Errors
    /// A [`Misfit`] if the arguments do not fit the contract, or a size cannot be computed.
    pub fn infer(
        &self,
        args: &[(&str, &[i64])],
        attrs: &[(&str, i128)],
    ) -> Result<Vec<Option<Vec<i64>>>, Misfit> {
        let mut sizes = self.attributes(attrs)?;
        let mut given = args.iter();
        for entry in &self.args {
            loop {
                match given.next() {
                    Some((name, dims)) => sizes.learn(self, entry, name, dims)?,
                    None if entry.repeats || entry.optional => break,
                    None => return Err(self.miscounted(args.len())),
                }
                if !entry.repeats {
                    break;
                }
            }
        }
        if given.next().is_some() {
            return Err(self.miscounted(args.len()));
        }
        let results = self.rets.iter().enumerate();
        results
            .map(|(index, entry)| self.result(&sizes, index, entry))
            .collect()
    }

    fn miscounted(&self, given: usize) -> Misfit {
        Misfit(format!(
            "the contract `{}` has {} argument{}, the call has {given}",
            self.text,
            self.args.len(),
            if self.args.len() == 1 { "" } else { "s" }
        ))
    }

    /// Returns the sizes that attributes determine.
    fn attributes(&self, attrs: &[(&str, i128)]) -> Result<Sizes, Misfit> {
        let mut named = Vec::new();
        for name in &self.names {
            let given = attrs.iter().find(|(attr, _)| attr == name);
            named.push(match given {
                None => None,
                Some((_, value)) => {
                    let value = i64::try_from(*value).ok().filter(|size| *size >= 0);
                    let value = value.ok_or_else(|| {
                        Misfit(format!(
                            "attribute `{name}`: expected a size, got {}; the contract is `{}`",
                            given.map_or(0, |(_, value)| *value),
                            self.text
                        ))
                    })?;
                    let from = format!("attribute `{name}`");
                    Some(Known { value, from })
                }
            });
        }
        Ok(Sizes {
            named,
            ellipsis: None,
        })
    }

    fn result(
        &self,
        sizes: &Sizes,
        index: usize,
        entry: &Entry,
    ) -> Result<Option<Vec<i64>>, Misfit> {
        let mut shape = Vec::new();
        for dim in &entry.dims {
            let known = match dim {
                Dim::Size(size) => Some(i64::from(*size)),
                Dim::Any => None,
                Dim::Name(name) => sizes.named[*name].as_ref().map(|known| known.value),
                Dim::Computed(computed) => match &sizes.named[computed.name] {
                    None => None,
                    Some(known) => Some(computed.of(known.value).map_err(|why| {
                        Misfit(format!(
                            "result {index}: {} {why} for {} = {} from {}; the contract is `{}`",
                            computed.text,
                            self.names[computed.name],
                            known.value,
                            known.from,
                            self.text
                        ))
                    })?),
                },
                Dim::Ellipsis => match &sizes.ellipsis {
                    None => None,
                    Some(known) => {
                        shape.extend(&known.value);
                        continue;
                    }
                },
            };
            match known {
                Some(size) => shape.push(size),
                None => return Ok(None),
            }
        }
        Ok(Some(shape))
    }
}

impl Sizes {
    /// Stores the values of the entry's names and of `...`, if `dims` fit the entry.
    fn learn(
        &mut self,
        contract: &Contract,
        entry: &Entry,
        name: &str,
        dims: &[i64],
    ) -> Result<(), Misfit> {
        if entry.token {
            return Ok(());
        }
        let wrong = |why: &str| {
            let wanted = entry.dims.iter().map(|dim| match dim {
                Dim::Name(name) => contract.names[*name].clone(),
                Dim::Size(size) => size.to_string(),
                Dim::Any => "?".to_owned(),
                Dim::Ellipsis => "...".to_owned(),
                Dim::Computed(computed) => computed.text.clone(),
            });
            let (wanted, contract) = (wanted.collect::<Vec<_>>().join(", "), &contract.text);
            Misfit(format!(
                "{name}: expected [{wanted}]{why}, got {dims:?}; the contract is `{contract}`"
            ))
        };
        let ellipsis = entry.has_ellipsis();
        let fixed = entry.dims.len() - usize::from(ellipsis);
        if dims.len() < fixed || (dims.len() > fixed && !ellipsis) {
            return Err(wrong(""));
        }
        let from = || name.to_owned();
        let mut rest = dims;
        for dim in &entry.dims {
            let count = match dim {
                Dim::Ellipsis => dims.len() - fixed,
                _ => 1,
            };
            let (here, after) = rest.split_at(count);
            rest = after;
            match dim {
                Dim::Any => {}
                Dim::Size(size) if here == [i64::from(*size)] => {}
                Dim::Size(_) => return Err(wrong("")),
                Dim::Name(index) => {
                    let known = self.named[*index].get_or_insert_with(|| Known {
                        value: here[0],
                        from: from(),
                    });
                    if known.value != here[0] {
                        let (word, Known { value, from }) = (&contract.names[*index], known);
                        return Err(wrong(&format!(" with {word} = {value} from {from}")));
                    }
                }
                Dim::Ellipsis => {
                    let known = self.ellipsis.get_or_insert_with(|| Known {
                        value: here.to_vec(),
                        from: from(),
                    });
                    if known.value != here {
                        let Known { value, from } = known;
                        return Err(wrong(&format!(" with ... = {value:?} from {from}")));
                    }
                }
                // Computed dimensions in arguments do not occur, because the parser refuses them.
                Dim::Computed(_) => return Err(wrong("")),
            }
        }
        Ok(())
    }
}
