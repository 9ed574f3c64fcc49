//! Result sizes that a contract computes from named sizes, such as `2*n`.

use std::fmt;

/// A computed size of a result: `times * name / over + plus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computed {
    /// The computed size as written in the contract.
    pub text: String,
    /// The index of the named size in [`Contract::names`](crate::Contract::names).
    pub name: usize,
    /// The factor of the named size; not 0.
    pub times: u32,
    /// The divisor of the product; not 0.
    pub over: u32,
    /// The number that is added to the quotient.
    pub plus: i64,
}

/// The reason why a size cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSize {
    /// The division in the computed size has a remainder.
    Inexact,
    /// The computed size is less than 0.
    Negative,
    /// The computed size, or its dividend, does not fit in an `i64`.
    TooLarge,
}

impl fmt::Display for NoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inexact => "leaves a remainder",
            Self::Negative => "is negative",
            Self::TooLarge => "is too large",
        })
    }
}

impl Computed {
    /// Returns the computed size if the named size is `size`.
    ///
    /// # Errors
    /// [`NoSize`] if the division has a remainder, or if the size is negative or too large.
    pub fn of(&self, size: i64) -> Result<i64, NoSize> {
        let product = size
            .checked_mul(i64::from(self.times))
            .ok_or(NoSize::TooLarge)?;
        let over = i64::from(self.over);
        if product % over != 0 {
            return Err(NoSize::Inexact);
        }
        match (product / over).checked_add(self.plus) {
            None => Err(NoSize::TooLarge),
            Some(sum) if sum < 0 => Err(NoSize::Negative),
            Some(sum) => Ok(sum),
        }
    }
}

/// The parts of a computed size such as `3*n/2-1`, as written.
pub(crate) struct Parts<'a> {
    pub(crate) times: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) over: Option<&'a str>,
    /// The added or subtracted number, with its sign.
    pub(crate) plus: Option<(char, &'a str)>,
}

impl<'a> Parts<'a> {
    /// Splits the text of a dimension into parts. Returns `None` if the text has no operator.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        if !text.contains(['+', '-', '*', '/']) {
            return None;
        }
        let (rest, plus) = match text.find(['+', '-']) {
            Some(at) => {
                let (rest, signed) = text.split_at(at);
                let (sign, number) = signed.split_at(1);
                (rest, sign.chars().next().map(|sign| (sign, number)))
            }
            None => (text, None),
        };
        let (rest, over) = match rest.split_once('/') {
            Some((rest, over)) => (rest, Some(over)),
            None => (rest, None),
        };
        let (times, name) = match rest.split_once('*') {
            Some((times, name)) => (Some(times), name),
            None => (None, rest),
        };
        Some(Self {
            times,
            name,
            over,
            plus,
        })
    }
}
