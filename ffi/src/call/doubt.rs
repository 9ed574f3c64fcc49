//! Operands that are decoded at once and judged together.
//!
//! Whether an operand has too many elements, and whether they lie where they can be used, is left open while it is
//! decoded: each adds to a [`Doubt`], which is looked at once, when all have been decoded. Only where something is left
//! in it is each operand decoded again with every check made there and then. Almost every call ends without doubt.

use crate::call::frame::Frame;
use crate::call::raw_buffer::RawBuffer;
use crate::declare::at::At;
use xla_ffi_sys::XLA_FFI_DataType;

/// What keeps the operands that have been decoded so far from being all right.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Doubt {
    /// Whether they are so few that doing more for each of them is quicker than doing more once.
    few: bool,
    /// Whether an order of the operands is asked for, too, which tells whether one of them lies nowhere.
    ordered: bool,
    /// Bits of the numbers that were multiplied.
    factors: u64,
    /// Bits of the numbers of elements.
    counts: u64,
    /// Bits of the addresses of elements that want an alignment of `1 << index` bytes.
    addresses: [u64; ALIGNMENTS],
    /// Bits that all addresses have.
    common: u64,
    // Invariant: so many arguments and results, from the first one on, are there and are buffers.
    buffers: (usize, usize),
    dtype: Repeated,
    rank: Repeated,
}

/// Alignments that elements can have: 1 to 16 bytes.
const ALIGNMENTS: usize = 5;

/// A number that operand after operand is compared with, in a register from the second time on: processors take the
/// comparison of memory with a register and the branch behind it for one instruction, and that with a constant for two.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    /// What the compiler knows.
    known: u64,
    // Invariant: equal to `known`.
    held: Option<u64>,
}

impl Repeated {
    /// No operand was compared with it.
    const NONE: Self = Self {
        known: u64::MAX,
        held: None,
    };

    /// `number`.
    #[inline(always)]
    fn number(&mut self, number: u64) -> u64 {
        if self.known == number {
            *self.held.get_or_insert_with(|| pinned(number))
        } else {
            *self = Self {
                known: number,
                held: None,
            };
            number
        }
    }
}

/// That there was no [`Doubt`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Sure(());

impl Doubt {
    /// Factors of so many bits have a product of 64 bits.
    const FACTORS: u32 = 31;
    /// Numbers of elements of so many bits have a number of bytes that can be addressed, since none has more than 16.
    /// Addresses are held to it, too: what ends behind one is no wrapped number.
    const BITS: u32 = 58;

    /// For the macros: none as yet.
    #[must_use]
    #[inline(always)]
    pub fn none(operands: usize, ordered: bool) -> Self {
        Self {
            few: operands <= 4,
            ordered,
            factors: 0,
            counts: 0,
            addresses: [0; ALIGNMENTS],
            common: u64::MAX,
            buffers: (0, 0),
            dtype: Repeated::NONE,
            rank: Repeated::NONE,
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

    /// An element type, to be compared with.
    #[inline(always)]
    pub(crate) fn dtype(&mut self, dtype: XLA_FFI_DataType) -> XLA_FFI_DataType {
        if self.few {
            return dtype;
        }
        XLA_FFI_DataType(self.dtype.number(dtype.0.into()) as u32)
    }

    /// A rank, to be compared with.
    #[inline(always)]
    pub(crate) fn rank(&mut self, rank: usize) -> i64 {
        if self.few {
            return rank as i64;
        }
        self.rank.number(rank as u64) as i64
    }

    /// For the macros: whether there is any, wherever operands lie.
    #[must_use]
    #[inline(always)]
    pub fn is_left(&self) -> bool {
        let factors = if self.ordered {
            // Their product is then held to `BITS`, too, and need not be looked at.
            Self::BITS / 2
        } else {
            Self::FACTORS
        };
        let mut left = (self.factors >> factors) | (self.counts >> Self::BITS);
        for (index, bits) in self.addresses.iter().enumerate() {
            left |= (bits & ((1 << index) - 1)) | (bits >> Self::BITS);
        }
        (left != 0) | (self.common == 0)
    }

    /// For the macros: whether there is none. Where an order is asked for, operands have to be `placed`: to lie in one, and
    /// the first one not at null.
    #[must_use]
    #[inline(always)]
    pub fn resolve(self, placed: bool) -> Option<Sure> {
        (!self.is_left() && (placed || !self.ordered)).then_some(Sure(()))
    }

    /// The product of dimensions of elements at `data`, of at most 16 bytes each, where no doubt is left: then they can
    /// be counted, and `data` is aligned and not null.
    #[inline(always)]
    pub(crate) fn count<T>(&mut self, dims: &[i64], data: *mut T) -> usize {
        let mut len = 1_u64;
        for (index, &dim) in dims.iter().enumerate() {
            if index > 0 {
                add(&mut self.factors, len);
                add(&mut self.factors, dim as u64);
            }
            len = len.wrapping_mul(dim as u64);
        }
        let address = data as u64;
        if self.few {
            // Low bits that are set become high ones, and null wraps around.
            let turned = address.rotate_right(align_of::<T>().trailing_zeros());
            add(&mut self.counts, len | turned.wrapping_sub(1));
            return len as usize;
        }
        add(
            &mut self.addresses[align_of::<T>().trailing_zeros() as usize],
            address,
        );
        if !self.ordered {
            // Two addresses that have no bit in common are rare, and no mistake.
            self.common = pinned(self.common & address);
        }
        if !self.ordered || dims.len() < 2 {
            add(&mut self.counts, len);
        } else {
            len = pinned(len);
        }
        len as usize
    }
}

/// Adds the bits of a number to those of others, here.
#[inline(always)]
fn add(bits: &mut u64, number: u64) {
    *bits = pinned(*bits | number);
}

/// Has a number be ready here. A compiler would else put off what adds to it until it is asked for, and keep all that it
/// is made of, for many operands, until then. What number it is, it no longer knows.
#[inline(always)]
fn pinned(mut number: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!(
            "/* {0} */",
            inout(reg) number,
            options(nomem, nostack, preserves_flags)
        );
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of operands, and whether they have an order.
    type Case = (usize, bool);
    const CASES: [Case; 3] = [(1, false), (8, false), (8, true)];

    /// Whether no doubt is left about `dims` at `address`, and the number of elements.
    fn counted<T>((operands, ordered): Case, dims: &[i64], address: usize) -> (bool, usize) {
        let mut doubt = Doubt::none(operands, ordered);
        let len = doubt.count::<T>(dims, std::ptr::without_provenance_mut(address));
        assert!(!ordered || doubt.resolve(false).is_none());
        (doubt.resolve(ordered).is_some(), len)
    }

    fn sure_addresses<T>(case: Case) {
        for address in (0..256)
            .chain((1 << 47)..(1 << 47) + 256)
            .chain(usize::MAX - 255..usize::MAX)
        {
            // That nothing lies at null is then the order's to tell.
            let usable = (address != 0 || case.1) && address % align_of::<T>() == 0;
            let (sure, _) = counted::<T>(case, &[4], address);
            assert!(!sure || usable, "{address:#x}");
            // Addresses that no program has may be doubted.
            assert!(sure || !usable || address >> 58 != 0, "{address:#x}");
        }
    }

    #[test]
    fn sure_addresses_are_aligned_and_not_null() {
        #[repr(align(16))]
        struct Sixteen;
        for case in CASES {
            sure_addresses::<u8>(case);
            sure_addresses::<u16>(case);
            sure_addresses::<f32>(case);
            sure_addresses::<f64>(case);
            sure_addresses::<Sixteen>(case);
        }
    }

    #[test]
    fn operands_are_judged_together() {
        let sure = |all: &[(&[i64], usize)]| {
            let mut doubt = Doubt::none(8, false);
            for &(dims, address) in all {
                let address = std::ptr::without_provenance_mut(address);
                doubt.count::<f32>(dims, address);
            }
            doubt.count::<u8>(&[3], std::ptr::without_provenance_mut(0x7f31));
            doubt.resolve(false).is_some()
        };
        assert!(sure(&[(&[2, 3], 0x7f00), (&[4], 0x7f10)]));
        assert!(!sure(&[(&[2, 3], 0x7f00), (&[4], 0)]));
        assert!(!sure(&[(&[2, 3], 0x7f02), (&[4], 0x7f10)]));
        assert!(!sure(&[(&[2, 3], 0x7f00), (&[-4], 0x7f10)]));
        // No bit in common: each is looked at by itself.
        assert!(!sure(&[(&[2, 3], 0x4000), (&[4], 0x3f10)]));
    }

    #[test]
    fn a_number_is_itself() {
        let mut repeated = Repeated::NONE;
        for number in [11, 11, 11, 0, 11, 0, 0, 11, 11] {
            assert_eq!(repeated.number(number), number);
        }
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
        let mut check_in = |case: Case, dims: &[i64]| {
            let (is_sure, len) = counted::<f32>(case, dims, 64);
            if is_sure {
                sure += 1;
                let exact = dims.iter().map(|&dim| i128::from(dim)).product::<i128>();
                assert!(dims.iter().all(|&dim| dim >= 0), "{dims:?}");
                assert_eq!(exact, len as i128, "{dims:?}");
                assert!(exact < 1 << 58, "{dims:?}");
            }
        };
        let mut check = |dims: &[i64]| {
            CASES.iter().for_each(|&case| check_in(case, dims));
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
            assert!(
                CASES[..2]
                    .iter()
                    .all(|&case| counted::<f32>(case, dims, 64).0),
                "{dims:?}"
            );
        }
    }
}
