//! Numbers that one seed decides.

pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number that is not this one: mostly a small one.
    pub(crate) fn other(&mut self, than: u32, end: u32) -> u32 {
        loop {
            let any = self.next() as u32;
            let number = if any.is_multiple_of(4) {
                any
            } else {
                self.next() as u32 % end
            };
            if number != than {
                return number;
            }
        }
    }
}
