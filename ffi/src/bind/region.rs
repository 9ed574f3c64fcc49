//! Ranges of host memory, and whether they share a byte.

/// A range of addresses in host memory; empty ones overlap nothing.
///
/// ```
/// use xla_ffi::Region;
///
/// let elements = [0_u8; 16];
/// let (low, high) = (Region::new(&elements[0], 8), Region::new(&elements[8], 8));
/// assert!(!low.overlaps(high));
/// assert!(low.overlaps(Region::new(&elements[7], 1)));
/// assert!(!Region::EMPTY.overlaps(low));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Region {
    // Invariant: `start` is below `end`, or the region is EMPTY.
    start: usize,
    end: usize,
}

impl Region {
    /// Nothing. It ends before it starts, so that no comparison finds it to overlap anything.
    pub const EMPTY: Self = Self {
        start: usize::MAX,
        end: 0,
    };

    /// `bytes` bytes from `start`, which do not wrap around.
    #[must_use]
    #[inline(always)]
    pub fn new(start: *const u8, bytes: usize) -> Self {
        let start = start as usize;
        if bytes == 0 {
            return Self::EMPTY;
        }
        Self {
            start,
            end: start.wrapping_add(bytes),
        }
    }

    /// Whether the two share a byte.
    #[must_use]
    #[inline(always)]
    pub fn overlaps(self, other: Self) -> bool {
        // `&` keeps this without branches: there is one comparison for each pair of operands.
        (self.start < other.end) & (other.start < self.end)
    }
}

/// Whether no result shares memory with an argument or another result.
#[inline(always)]
pub(crate) fn disjoint<const A: usize, const R: usize>(
    args: &[Region; A],
    rets: &[Region; R],
) -> bool {
    let mut overlap = false;
    let mut r = 0;
    while r < R {
        let mut a = 0;
        while a < A {
            overlap |= rets[r].overlaps(args[a]);
            a += 1;
        }
        let mut other = 0;
        while other < r {
            overlap |= rets[r].overlaps(rets[other]);
            other += 1;
        }
        r += 1;
    }
    !overlap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: usize, end: usize) -> Region {
        Region::new(std::ptr::without_provenance(start), end - start)
    }

    #[test]
    fn regions_overlap_when_they_share_a_byte() {
        let a = region(16, 32);
        assert!(a.overlaps(region(31, 40)));
        assert!(a.overlaps(region(0, 17)));
        assert!(a.overlaps(region(20, 21)));
        assert!(!a.overlaps(region(32, 40)));
        assert!(!a.overlaps(region(0, 16)));
        assert!(!a.overlaps(region(20, 20)));
        assert!(!region(20, 20).overlaps(a));
        assert!(!region(0, 0).overlaps(region(0, 0)));
        assert!(!Region::EMPTY.overlaps(region(0, usize::MAX)));
    }

    #[test]
    fn results_may_not_overlap_each_other() {
        let (a, b) = (region(0, 8), region(8, 16));
        assert!(disjoint(&[a], &[b]));
        assert!(!disjoint(&[a], &[b, region(12, 20)]));
        assert!(!disjoint(&[a, b], &[region(15, 16)]));
        assert!(disjoint(&[a, a], &[b]));
    }
}
