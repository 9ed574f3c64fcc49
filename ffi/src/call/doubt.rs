//! Operands that are decoded at once and judged together.
//!
//! Whether an operand has too many elements, and whether they lie where they can be used, is left open while it is
//! decoded: each adds to a [`Doubt`], which is looked at once, when all have been decoded. Only where something is left
//! in it is each operand decoded again with every check made there and then. Almost every call ends without doubt.

use crate::call::frame::Frame;
use crate::call::raw_buffer::RawBuffer;
use crate::declare::at::At;

/// What keeps the operands that have been decoded so far from being all right.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Doubt {
    /// Bits of the numbers that were multiplied.
    factors: u64,
    /// Bits of numbers of elements, and of addresses, turned so that the bits which alignment wants to be zero come first.
    rest: u64,
    // Invariant: so many arguments and results, from the first one on, are there and are buffers.
    buffers: (usize, usize),
}

/// That there was no [`Doubt`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Sure(());

impl Doubt {
    /// Factors below this have a product of 64 bits.
    const FACTORS: u32 = 31;
    /// Numbers of elements below this have a number of bytes that can be addressed, and so have addresses that are
    /// multiples of what their type wants: of 16 at most, in both cases.
    const REST: u32 = 58;

    /// For the macros: none as yet.
    #[must_use]
    #[inline(always)]
    pub fn none() -> Self {
        Self {
            factors: 0,
            rest: 0,
            buffers: (0, 0),
        }
    }

    /// For the macros: whether the operands of a call, as many at least, are all buffers, so that none is asked by
    /// itself.
    #[must_use]
    #[inline(always)]
    pub fn are_buffers<const ARGS: usize, const RETS: usize>(&mut self, frame: &Frame<'_>) -> bool {
        let all = frame.has_buffers::<ARGS, RETS>();
        if all {
            self.buffers = (ARGS, RETS);
        }
        all
    }

    /// The argument that is decoded.
    #[inline(always)]
    pub(crate) fn arg<'f>(&self, frame: &Frame<'f>, at: &At) -> Option<RawBuffer<'f>> {
        // SAFETY: the invariant.
        unsafe { frame.arg_buffer(at.arg, at.arg < self.buffers.0) }
    }

    /// The result that is decoded.
    #[inline(always)]
    pub(crate) fn ret<'f>(&self, frame: &Frame<'f>, at: &At) -> Option<RawBuffer<'f>> {
        // SAFETY: the invariant.
        unsafe { frame.ret_buffer(at.ret, at.ret < self.buffers.1) }
    }

    /// For the macros: whether there is none.
    #[must_use]
    #[inline(always)]
    pub fn resolve(self) -> Option<Sure> {
        ((self.factors >> Self::FACTORS) | (self.rest >> Self::REST) == 0).then_some(Sure(()))
    }

    /// The product of dimensions of elements at `data`, of at most 16 bytes each, where no doubt is left: then they can
    /// be counted, and `data` is aligned and not null.
    #[inline(always)]
    pub(crate) fn count<T>(&mut self, dims: &[i64], data: *mut T) -> usize {
        let mut len = 1_u64;
        for (index, &dim) in dims.iter().enumerate() {
            if index > 0 {
                self.factors |= len | dim as u64;
            }
            len = len.wrapping_mul(dim as u64);
        }
        // Low bits that are set become high ones, and null wraps around.
        let turned = (data as u64).rotate_right(align_of::<T>().trailing_zeros());
        self.rest |= len | turned.wrapping_sub(1);
        pin(&mut self.factors);
        pin(&mut self.rest);
        len as usize
    }
}

/// Has a number be ready here. A compiler would else put off what adds to it until it is asked for, and keep all that it
/// is made of, for many operands, until then.
#[inline(always)]
fn pin(number: &mut u64) {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!(
            "/* {0} */",
            inout(reg) * number,
            options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = number;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether no doubt is left about `dims` at `address`, and the number of elements.
    fn counted<T>(dims: &[i64], address: usize) -> (bool, usize) {
        let mut doubt = Doubt::none();
        let len = doubt.count::<T>(dims, std::ptr::without_provenance_mut(address));
        (doubt.resolve().is_some(), len)
    }

    fn sure_addresses<T>() {
        for address in (0..256)
            .chain((1 << 47)..(1 << 47) + 256)
            .chain(usize::MAX - 255..usize::MAX)
        {
            let usable = address != 0 && address % align_of::<T>() == 0;
            let (sure, _) = counted::<T>(&[4], address);
            assert!(!sure || usable, "{address:#x}");
            // Addresses that no program has may be doubted.
            assert!(sure || !usable || address >> 58 != 0, "{address:#x}");
        }
    }

    #[test]
    fn sure_addresses_are_aligned_and_not_null() {
        #[repr(align(16))]
        struct Sixteen;
        sure_addresses::<u8>();
        sure_addresses::<u16>();
        sure_addresses::<f32>();
        sure_addresses::<f64>();
        sure_addresses::<Sixteen>();
    }

    #[test]
    fn sure_numbers_are_those_of_all_checks() {
        let sizes = [
            -1,
            0,
            1,
            2,
            3,
            7,
            1 << 20,
            1 << 28,
            (1 << 31) - 1,
            1 << 31,
            1 << 40,
            i64::MAX,
            i64::MIN,
        ];
        let mut sure = 0;
        let mut check = |dims: &[i64]| {
            let (is_sure, len) = counted::<f32>(dims, 64);
            if is_sure {
                sure += 1;
                let exact = dims.iter().map(|&dim| i128::from(dim)).product::<i128>();
                assert!(dims.iter().all(|&dim| dim >= 0), "{dims:?}");
                assert_eq!(exact, len as i128, "{dims:?}");
                assert!(exact < 1 << 58, "{dims:?}");
            }
        };
        check(&[]);
        for a in sizes {
            check(&[a]);
            for b in sizes {
                check(&[a, b]);
                for c in sizes {
                    check(&[a, b, c]);
                    check(&[a, b, c, a]);
                }
            }
        }
        assert!(sure > 500, "{sure}");
        // What is common is not doubted.
        for dims in [
            &[1024, 1024][..],
            &[1 << 30, 4],
            &[8, 3, 224, 224],
            &[0, 4],
            &[1 << 40],
        ] {
            assert!(counted::<f32>(dims, 64).0, "{dims:?}");
        }
    }
}
