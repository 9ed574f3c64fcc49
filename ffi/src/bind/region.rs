//! Ranges of host memory, and whether they share a byte.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering, fence};

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

    /// Whether every byte of `other` is in it.
    pub(crate) fn contains(self, other: Self) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
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

/// The regions of operands; the arguments' come before the results'.
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

    /// For the macros: whether none starts at null.
    #[must_use]
    pub fn have_addresses(&self) -> bool {
        !self.start.contains(&0)
    }

    /// Whether no region from `args` on, a result's, shares memory with one before it.
    #[inline(always)]
    pub(crate) fn is_disjoint(&self, args: usize) -> bool {
        let region = |index: usize| Region {
            start: self.start[index],
            end: self.end[index],
        };
        let mut overlap = false;
        let mut ret = args;
        while ret < N {
            let mut other = 0;
            while other < ret {
                overlap |= region(ret).overlaps(region(other));
                other += 1;
            }
            ret += 1;
        }
        !overlap
    }
}

/// Operands that an order can have.
const MOST: usize = 64;

/// For the macros: whether operands, `args` arguments and `rets` results, are compared by an order. Few pairs cost less
/// when they are compared one by one.
#[doc(hidden)]
#[must_use]
pub const fn is_ordered(args: usize, rets: usize) -> bool {
    args + rets <= MOST && rets * args + rets * rets.saturating_sub(1) / 2 > 6
}

/// Where the regions of `N - 1` operands start, in the order of [`Regions`], and behind them one that nothing reaches.
#[doc(hidden)]
#[derive(Debug)]
pub struct Starts<const N: usize> {
    // Invariant: those of which `filed` says so have been written.
    start: [MaybeUninit<usize>; N],
    /// A bit each. The compiler knows, so that nothing has to be written beforehand.
    filed: u64,
}

impl<const N: usize> Starts<N> {
    /// The last one alone.
    #[must_use]
    #[inline(always)]
    pub fn none() -> Self {
        let mut start = [MaybeUninit::uninit(); N];
        start[N - 1].write(usize::MAX);
        Self { start, filed: 0 }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, region: Region) {
        self.start[index].write(region.start);
        self.filed |= 1 << (index % MOST);
    }

    /// All of them, if all have been filed.
    #[inline(always)]
    fn all(&self) -> Option<&[usize; N]> {
        if N - 1 > MOST || N < 2 || self.filed != u64::MAX >> (MOST + 1 - N) {
            return None;
        }
        // SAFETY: the invariant.
        Some(unsafe { &*(&raw const self.start).cast() })
    }
}

/// In which order `N - 1` operands of a handler lay in memory when it was last called. It is a guess about the next call,
/// whose operands mostly lie as before, and proven by one comparison for each: it ends before the next one starts.
#[doc(hidden)]
#[derive(Debug)]
pub struct Order<const N: usize> {
    /// Even, and another one with each order: what is read between two equal ones belongs together.
    version: AtomicU32,
    // Invariant: of each operand, the one that comes behind it, `N - 1` behind the last; the last one here is the first.
    next: [AtomicU32; N],
}

impl<const N: usize> Order<N> {
    /// That in which they are declared.
    #[must_use]
    pub const fn declared() -> Self {
        let mut next = [const { AtomicU32::new(0) }; N];
        let mut index = 0;
        while index + 1 < N {
            next[index] = AtomicU32::new(index as u32 + 1);
            index += 1;
        }
        Self {
            version: AtomicU32::new(0),
            next,
        }
    }

    /// For the macros: what [`Order::held`] is to be given.
    #[must_use]
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// For the macros: whether all that was asked since then was asked of one order.
    #[must_use]
    #[inline(always)]
    pub fn held(&self, version: u32) -> bool {
        fence(Ordering::Acquire);
        version % 2 == 0 && self.version.load(Ordering::Relaxed) == version
    }

    /// For the macros: whether the operand that comes first has an address. Where each leads to the next one, all have.
    #[must_use]
    #[inline(always)]
    pub fn has_address(&self, starts: &Starts<N>) -> bool {
        self.next_start(N - 1, starts) != Some(0)
    }

    /// Whether an operand ends before the one starts that comes behind it.
    #[inline(always)]
    pub(crate) fn leads(&self, index: usize, region: Region, starts: &Starts<N>) -> bool {
        self.next_start(index, starts)
            .is_some_and(|next| region.end <= next)
    }

    /// Where the operand starts that comes behind one, if all have been filed.
    #[inline(always)]
    fn next_start(&self, index: usize, starts: &Starts<N>) -> Option<usize> {
        let starts = starts.all()?;
        let next = self.next[index].load(Ordering::Relaxed) as usize;
        // SAFETY: below `N`, by the invariant.
        Some(unsafe { *starts.get_unchecked(next) })
    }

    /// For the macros: the way to go where the guess is wrong or arguments share memory: sorts the operands, of which
    /// `args` are arguments, and leaves their order as the next guess. Whether no result shares memory with another
    /// operand.
    #[must_use]
    pub fn sort<const COUNT: usize>(&self, args: usize, regions: &Regions<COUNT>) -> bool {
        sort(
            &self.version,
            &self.next,
            args,
            &regions.start,
            &regions.end,
        )
    }
}

/// [`Order::sort`].
#[cold]
#[inline(never)]
fn sort(
    version: &AtomicU32,
    next: &[AtomicU32],
    args: usize,
    start: &[usize],
    end: &[usize],
) -> bool {
    let count = start.len();
    let key = |index: u8| (start[usize::from(index)], end[usize::from(index)]);
    // The known order is mostly near. Another thread may change it meanwhile: then it is none, and is not used.
    let mut sorted = [0_u8; MOST];
    let sorted = &mut sorted[..count];
    let (mut seen, mut index) = (0_u64, count);
    for place in &mut *sorted {
        index = next[index].load(Ordering::Relaxed) as usize;
        *place = index as u8;
        seen |= 1 << (index % MOST);
    }
    if seen.count_ones() as usize != count || sorted.contains(&(count as u8)) {
        (0..)
            .zip(&mut *sorted)
            .for_each(|(index, place)| *place = index);
    }
    for place in 1..count {
        let index = sorted[place];
        let mut at = place;
        while at > 0 && key(index) < key(sorted[at - 1]) {
            sorted[at] = sorted[at - 1];
            at -= 1;
        }
        sorted[at] = index;
    }
    remember(version, next, sorted);
    // How far arguments and results reach that start no later than the operand at hand.
    let (mut arg, mut ret) = (0, 0);
    for &index in &*sorted {
        let (start, end) = key(index);
        if start == end {
            continue;
        }
        if usize::from(index) < args {
            if start < ret {
                return false;
            }
            arg = arg.max(end);
        } else {
            if start < ret.max(arg) {
                return false;
            }
            ret = end;
        }
    }
    true
}

/// Leaves an order as the next guess, unless another thread is at it.
fn remember(version: &AtomicU32, next: &[AtomicU32], sorted: &[u8]) {
    let even = version.load(Ordering::Relaxed);
    let odd = even.wrapping_add(1);
    if even % 2 != 0
        || version
            .compare_exchange(even, odd, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    // Who reads one of the following sees that it is being changed.
    fence(Ordering::Release);
    let mut before = sorted.len();
    for &index in sorted {
        next[before].store(index.into(), Ordering::Relaxed);
        before = index.into();
    }
    next[before].store(sorted.len() as u32, Ordering::Relaxed);
    version.store(odd.wrapping_add(1), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: usize, end: usize) -> Region {
        Region::new(std::ptr::without_provenance(start), end - start)
    }

    fn all<const N: usize>(regions: &[Region]) -> Regions<N> {
        let mut all = Regions::empty();
        for (index, region) in regions.iter().enumerate() {
            all.set(index, *region);
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
        fn is_apart<const N: usize, const MORE: usize>(args: usize, given: &[Region]) -> bool {
            let regions: Regions<N> = all(given);
            let sorted = Order::<MORE>::declared().sort(args, &regions);
            assert_eq!(regions.is_disjoint(args), sorted, "{given:?}");
            sorted
        }
        let (a, b) = (region(8, 16), region(16, 24));
        assert!(is_apart::<2, 3>(1, &[a, b]));
        assert!(!is_apart::<3, 4>(1, &[a, b, region(20, 28)]));
        assert!(!is_apart::<3, 4>(2, &[a, b, region(23, 24)]));
        assert!(is_apart::<3, 4>(2, &[a, a, b]));
    }

    /// What the macros make of an order: whether it is a proof.
    fn is_proof<const N: usize>(order: &Order<N>, given: &[Region]) -> bool {
        let mut starts = Starts::none();
        for (index, region) in given.iter().enumerate() {
            starts.set(index, *region);
        }
        let version = order.version();
        let leads = |(index, region): (usize, &Region)| order.leads(index, *region, &starts);
        order.has_address(&starts) && given.iter().enumerate().all(leads) && order.held(version)
    }

    #[test]
    fn an_order_is_a_guess_alone() {
        // Whatever was guessed before, the answer is that of the comparison of all pairs.
        let mut random = 1_u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 33) as usize % end
        };
        let order = Order::<9>::declared();
        let (mut found, mut proven) = ([0; 2], 0);
        for _ in 0..20_000 {
            let given: [Region; 8] = std::array::from_fn(|_| match below(8) {
                0 => Region::EMPTY,
                _ => {
                    let start = 1 + below(300);
                    region(start, start + below(12))
                }
            });
            let regions: Regions<8> = all(&given);
            let expected = regions.is_disjoint(3);
            assert!(!is_proof(&order, &given) || expected, "{given:?}");
            assert_eq!(order.sort(3, &regions), expected, "{given:?}");
            found[usize::from(expected)] += 1;
            // After a call that was good, its order is what is guessed.
            proven += usize::from(is_proof(&order, &given));
        }
        assert!(found.iter().all(|&count| count > 1000), "{found:?}");
        assert!(proven > 1000, "{proven}");
    }

    #[test]
    fn a_region_has_what_lies_in_it_whole() {
        let own = region(16, 32);
        for (start, end) in [(16, 32), (20, 24), (16, 20), (28, 32), (90, 90)] {
            assert!(own.contains(region(start, end)), "{start}..{end}");
        }
        for (start, end) in [(16, 33), (12, 20), (28, 36), (32, 36), (8, 16), (0, 64)] {
            assert!(!own.contains(region(start, end)), "{start}..{end}");
        }
    }

    #[test]
    fn what_lies_at_null_is_no_proof() {
        let order = Order::<4>::declared();
        for given in [
            [region(0, 8), region(8, 16), region(16, 24)],
            [region(8, 16), region(0, 0), region(16, 24)],
            [region(8, 16), region(16, 24), region(0, 0)],
        ] {
            let regions = all::<3>(&given);
            assert!(
                order.sort(1, &regions) && !regions.have_addresses(),
                "{given:?}"
            );
            assert!(!is_proof(&order, &given), "{given:?}");
        }
        let given = [Region::EMPTY, region(16, 16), region(8, 16)];
        let regions = all::<3>(&given);
        assert!(order.sort(1, &regions) && regions.have_addresses());
        assert!(is_proof(&order, &given));
    }

    #[test]
    fn an_operand_that_was_not_told_of_is_no_proof() {
        let order = Order::<4>::declared();
        let mut starts = Starts::none();
        starts.set(0, region(0, 8));
        starts.set(2, region(16, 24));
        assert!(!order.leads(0, region(0, 8), &starts));
        starts.set(1, region(8, 16));
        assert!(order.leads(0, region(0, 8), &starts));
    }

    #[test]
    fn many_operands_have_an_order() {
        let order = Order::<65>::declared();
        let place = |index: usize| 16 + 16 * (index * 7 % 64);
        let mut given: Vec<Region> = (0..64)
            .map(|index| region(place(index), place(index) + 16))
            .collect();
        assert!(!is_proof(&order, &given));
        assert!(order.sort::<64>(8, &all(&given)));
        assert!(is_proof(&order, &given));
        // Two arguments in one place are no proof, and no mistake; a result and an argument are.
        given[1] = given[2];
        assert!(!is_proof(&order, &given) && order.sort::<64>(8, &all(&given)));
        given[9] = given[2];
        assert!(!is_proof(&order, &given) && !order.sort::<64>(8, &all(&given)));
    }

    #[test]
    fn threads_read_whole_orders() {
        // Two threads remember opposite orders, while a third checks regions of which two overlap.
        let order = &Order::<10>::declared();
        let up: Vec<Region> = (1..10).map(|at| region(16 * at, 16 * at + 16)).collect();
        let down: Vec<Region> = up.iter().rev().copied().collect();
        let mut bad = up.clone();
        bad[7] = region(16 * 4 + 8, 16 * 4 + 10);
        let run = |given: &[Region], expected: bool| {
            let regions: Regions<9> = all(given);
            for _ in 0..20_000 {
                let is_apart = is_proof(order, given) || order.sort(2, &regions);
                assert_eq!(is_apart, expected);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| run(&up, true));
            scope.spawn(|| run(&down, true));
            scope.spawn(|| run(&bad, false));
        });
    }
}
