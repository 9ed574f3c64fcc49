//! Ranges of host memory, and whether they share a byte.

use std::sync::atomic::{AtomicU64, Ordering};

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
    // Invariant: `start` is not above `end`.
    start: usize,
    end: usize,
}

impl Region {
    /// Nothing.
    pub const EMPTY: Self = Self {
        start: usize::MAX,
        end: usize::MAX,
    };

    /// `bytes` bytes from `start`, which do not wrap around.
    #[must_use]
    #[inline(always)]
    pub fn new(start: *const u8, bytes: usize) -> Self {
        let start = start as usize;
        Self {
            start,
            end: start.wrapping_add(bytes),
        }
    }

    pub(crate) fn start(self) -> usize {
        self.start
    }

    pub(crate) fn end(self) -> usize {
        self.end
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether the two share a byte.
    #[must_use]
    #[inline(always)]
    pub fn overlaps(self, other: Self) -> bool {
        // `&` keeps this without branches: there is one comparison for each pair of operands.
        (self.start < other.end)
            & (other.start < self.end)
            & (self.start < self.end)
            & (other.start < other.end)
    }
}

/// The regions of operands; the arguments' come before the results'. Starts and ends lie apart, where finding one takes
/// no multiplication.
#[doc(hidden)]
#[derive(Debug)]
pub struct Regions<const N: usize> {
    start: [usize; N],
    end: [usize; N],
}

impl<const N: usize> Regions<N> {
    /// All empty.
    #[must_use]
    #[inline(always)]
    pub fn empty() -> Self {
        Self {
            start: [Region::EMPTY.start; N],
            end: [Region::EMPTY.end; N],
        }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, region: Region) {
        self.start[index] = region.start;
        self.end[index] = region.end;
    }

    #[inline(always)]
    fn get(&self, index: usize) -> Region {
        Region {
            start: self.start[index],
            end: self.end[index],
        }
    }

    /// Whether no region from `args` on, a result's, shares memory with one before it.
    #[inline(always)]
    fn is_disjoint(&self, args: usize) -> bool {
        let mut overlap = false;
        let mut ret = args;
        while ret < N {
            let mut other = 0;
            while other < ret {
                overlap |= self.get(ret).overlaps(self.get(other));
                other += 1;
            }
            ret += 1;
        }
        !overlap
    }
}

/// In which order up to 16 operands of a handler lay in memory when it was last called: four bits each, the lowest one
/// in the lowest bits. It is a guess about the next call, whose operands mostly lie as before, and proven by going
/// along them once. One word, so that what is read is always some order of all of them.
#[doc(hidden)]
#[derive(Debug)]
pub struct Order(AtomicU64);

impl Order {
    /// Operands that an order can have.
    const MOST: usize = 16;

    /// That in which they are declared.
    #[must_use]
    pub const fn declared() -> Self {
        Self(AtomicU64::new(0xfedc_ba98_7654_3210))
    }

    /// Whether in this order each region ends before the next one starts.
    #[inline(always)]
    fn is_apart<const N: usize>(&self, regions: &Regions<N>) -> bool {
        let mut order = self.0.load(Ordering::Relaxed);
        let mut end = 0;
        let mut place = 0;
        while place < N {
            let index = (order & 15) as usize % N.next_power_of_two();
            if regions.start[index] < end {
                return false;
            }
            end = regions.end[index];
            order >>= 4;
            place += 1;
        }
        true
    }

    /// Leaves the order of these regions as the next guess.
    #[cold]
    #[inline(never)]
    fn guess(&self, start: &[usize], end: &[usize]) {
        let mut sorted = [0_u8; Self::MOST];
        let sorted = &mut sorted[..start.len()];
        let key = |index: u8| (start[usize::from(index)], end[usize::from(index)]);
        for (place, index) in (0..).zip(0..sorted.len()) {
            let mut at = index;
            while at > 0 && key(place) < key(sorted[at - 1]) {
                sorted[at] = sorted[at - 1];
                at -= 1;
            }
            sorted[at] = place;
        }
        let order = sorted.iter().rev();
        let order = order.fold(0, |order, &index| order << 4 | u64::from(index));
        self.0.store(order, Ordering::Relaxed);
    }

    /// The way to go where the guess is wrong or operands share memory: compares each result with all operands before
    /// it, and leaves a better guess.
    #[cold]
    #[inline(never)]
    fn compare<const ARGS: usize, const N: usize>(&self, regions: &Regions<N>) -> bool {
        let is_disjoint = regions.is_disjoint(ARGS);
        if is_disjoint {
            self.guess(&regions.start, &regions.end);
        }
        is_disjoint
    }
}

/// Whether no result shares memory with an argument or another result: of `N` regions `ARGS` are arguments'.
#[inline(always)]
pub(crate) fn apart<const ARGS: usize, const N: usize>(
    regions: &Regions<N>,
    order: &Order,
) -> bool {
    // Few pairs cost less than an order.
    let is_ordered = const {
        let rets = N - ARGS;
        rets * ARGS + rets * rets.saturating_sub(1) / 2 > 6 && N <= Order::MOST
    };
    if is_ordered {
        order.is_apart(regions) || order.compare::<ARGS, N>(regions)
    } else {
        regions.is_disjoint(ARGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: usize, end: usize) -> Region {
        Region::new(std::ptr::without_provenance(start), end - start)
    }

    fn all<const N: usize>(regions: [Region; N]) -> Regions<N> {
        let mut all = Regions::empty();
        for (index, region) in regions.into_iter().enumerate() {
            all.set(index, region);
        }
        all
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
        let order = Order::declared();
        assert!(apart::<1, 2>(&all([a, b]), &order));
        assert!(!apart::<1, 3>(&all([a, b, region(12, 20)]), &order));
        assert!(!apart::<2, 3>(&all([a, b, region(15, 16)]), &order));
        assert!(apart::<2, 3>(&all([a, a, b]), &order));
    }

    #[test]
    fn an_order_is_a_guess_alone() {
        // Whatever was guessed before, the answer is that of the comparison of all pairs.
        let mut random = 1_u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 33) as usize % end
        };
        let order = Order::declared();
        let (mut found, mut guessed) = ([0; 2], 0);
        for _ in 0..20_000 {
            let regions: Regions<8> = all(std::array::from_fn(|_| match below(8) {
                0 => Region::EMPTY,
                _ => {
                    let start = 1 + below(300);
                    region(start, start + below(12))
                }
            }));
            let expected = regions.is_disjoint(3);
            assert_eq!(apart::<3, 8>(&regions, &order), expected, "{regions:?}");
            found[usize::from(expected)] += 1;
            guessed += usize::from(order.is_apart(&regions));
        }
        assert!(found.iter().all(|&count| count > 1000), "{found:?}");
        // After a call that was good, its order is what is guessed.
        assert!(guessed > 1000, "{guessed}");
    }
}
