//! Sizes that are computed from others.

use std::fmt;

/// A size that a result computes: `times * name / over + plus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computed {
    /// As it is written.
    pub text: String,
    /// The number of its name among [`Contract::names`](crate::Contract::names).
    pub name: usize,
    /// What the named size is multiplied by; not 0.
    pub times: u32,
    /// What the product is divided by; not 0.
    pub over: u32,
    /// What is added to the quotient.
    pub plus: i64,
}

/// Why a computed size is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSize {
    /// The division has a remainder.
    Inexact,
    /// It is less than 0.
    Negative,
    /// It, or what is divided, is more than an `i64` holds.
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
    /// The size, where the name stands for `size`.
    ///
    /// # Errors
    /// Why there is none.
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

/// The parts of a computed size, as they are written.
pub(crate) struct Parts<'a> {
    pub(crate) times: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) over: Option<&'a str>,
    /// With its sign.
    pub(crate) plus: Option<(char, &'a str)>,
}

impl<'a> Parts<'a> {
    /// `None` for a word without an operator.
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
