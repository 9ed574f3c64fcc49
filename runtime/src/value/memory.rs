//! The bytes behind a tensor: allocated here, aligned and followed by a guard, or lent by an owner.

use crate::{Code, Error, Result};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Alignment of every buffer that is allocated here.
pub const ALIGNMENT: usize = 64;
/// Alignment of memory that is lent: what XLA's CPU client takes of its callers without a copy, so
/// that handlers have to live with it anyway.
pub const LEAST_ALIGNMENT: usize = 16;
/// Bytes behind every buffer that no handler may write.
const GUARD: usize = 64;
const PATTERN: u8 = 0xA5;
/// Up to here memory comes from where small objects come from, which is quicker than asking for an
/// alignment.
const SMALL: usize = 4096;

/// Bytes of an array.
pub(crate) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    origin: Origin,
}

enum Origin {
    /// Invariant: allocated with the layout, which covers `bytes` from `start` on and the guard.
    Own(NonNull<u8>, Layout),
    /// Invariant: `bytes` from `start` on may be read and written as long as the owner lives.
    Lent { _owner: Box<dyn Any + Send + Sync> },
}

// SAFETY: plain bytes, owned or lent for as long as this lives; shared access only reads them.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn zeroed(bytes: usize) -> Result<Self> {
        let refuse = || {
            Error::new(
                Code::ResourceExhausted,
                format!("{bytes} bytes of memory cannot be allocated on this machine"),
            )
        };
        if physical_memory().is_some_and(|limit| bytes > limit) {
            return Err(refuse());
        }
        let small = bytes <= SMALL;
        let (room, align) = if small {
            (GUARD + ALIGNMENT, LEAST_ALIGNMENT)
        } else {
            (GUARD, ALIGNMENT)
        };
        let size = bytes.checked_add(room).ok_or_else(refuse)?;
        let layout = Layout::from_size_align(size, align).map_err(|_| refuse())?;
        let allocated = if small {
            // SAFETY: the size is at least that of the guard, so not 0.
            unsafe { alloc(layout) }
        } else {
            // SAFETY: as above.
            unsafe { alloc_zeroed(layout) }
        };
        let allocated = NonNull::new(allocated).ok_or_else(refuse)?;
        // SAFETY: less than the room that was asked for besides.
        let start = unsafe { allocated.add(allocated.align_offset(ALIGNMENT)) };
        if small {
            // SAFETY: `bytes` is inside the allocation.
            unsafe { start.write_bytes(0, bytes) };
        }
        // SAFETY: `bytes` is inside the allocation.
        let guard = unsafe { start.add(bytes) };
        // SAFETY: the guard's bytes are inside the allocation, too.
        unsafe { guard.write_bytes(PATTERN, GUARD) };
        Ok(Self {
            start,
            bytes,
            origin: Origin::Own(allocated, layout),
        })
    }

    /// Memory that an owner lends.
    ///
    /// # Safety
    /// `bytes` from `start` on may be read and written, by nobody else, as long as the owner lives.
    pub(crate) unsafe fn lent(
        start: NonNull<u8>,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let origin = Origin::Lent { _owner: owner };
        Self {
            start,
            bytes,
            origin,
        }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the invariants of `Origin`; all of it is initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Whether the bytes behind are as they were; nobody knows of memory that is lent.
    pub(crate) fn guard_is_whole(&self) -> bool {
        if matches!(self.origin, Origin::Lent { .. }) {
            return true;
        }
        // SAFETY: the guard lies behind `bytes` inside the allocation.
        let start = unsafe { self.start.add(self.bytes) };
        // SAFETY: the guard's bytes are initialised and inside the allocation.
        let guard = unsafe { std::slice::from_raw_parts(start.as_ptr(), GUARD) };
        *guard == [PATTERN; GUARD]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Origin::Own(allocated, layout) = self.origin {
            // SAFETY: allocated with this layout and freed once.
            unsafe { dealloc(allocated.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.bytes, self.start)
    }
}

/// Bytes of memory that the machine has.
pub(crate) fn physical_memory() -> Option<usize> {
    static BYTES: OnceLock<Option<usize>> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // SAFETY: sysconf reads a number.
        let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
        // SAFETY: sysconf reads a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(pages)
            .ok()?
            .checked_mul(usize::try_from(page).ok()?)
    })
}
