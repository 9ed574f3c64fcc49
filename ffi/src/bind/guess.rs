//! Values that were decoded before all of their checks were made: see [`Doubt`](crate::call::doubt::Doubt).

use crate::call::doubt::Sure;

/// A value that is as good as [`Bind::bind`] would have made it if no doubt is left.
#[doc(hidden)]
#[derive(Debug)]
pub struct Guess<T>(T);

impl<T> Guess<T> {
    #[inline(always)]
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    /// For the macros: the value.
    #[inline(always)]
    pub fn sure(self, _: &Sure) -> T {
        self.0
    }

    /// The value, of which is asked no more than where it lies.
    #[inline(always)]
    pub(crate) fn unsure(&self) -> &T {
        &self.0
    }

    /// The value, which nobody had a doubt about.
    #[inline(always)]
    pub(crate) fn known(self) -> T {
        self.0
    }
}
