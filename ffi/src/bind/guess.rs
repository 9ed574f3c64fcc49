//! Values that were decoded before all of their checks were made: see [`Doubt`](crate::call::doubt::Doubt).

use crate::bind::Bind;
use crate::bind::region::Region;
use crate::call::doubt::Sure;
use crate::call::frame::Frame;
use crate::declare::at::At;

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

    /// The value, which nobody had a doubt about.
    #[inline(always)]
    pub(crate) fn known(self) -> T {
        self.0
    }
}

impl<'f, T: Bind<'f>> Guess<T> {
    /// For the macros: the memory that the value reaches.
    #[inline(always)]
    pub fn region_at(&self, frame: &Frame<'f>, at: &At) -> Region {
        self.0.region_at(frame, at)
    }
}
