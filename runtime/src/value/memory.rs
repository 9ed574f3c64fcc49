//! The memory of tensors: allocated here with an alignment and a guard after the bytes, or lent by an owner.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Alignment of every buffer that is allocated here, in bytes.
pub const ALIGNMENT: usize = 64;
/// Minimum alignment of lent memory, in bytes. XLA's CPU client accepts this alignment from its callers
/// without a copy, so handlers must support it anyway.
pub const LEAST_ALIGNMENT: usize = 16;
/// Size of the guard after every buffer, which handlers must not write, in bytes.
const GUARD: usize = 64;
/// Largest buffer that is allocated without an alignment, in bytes. Allocators serve small objects faster
/// than aligned ones.
const SMALL: usize = 4096;

/// The bytes of an array; clones share them.
#[derive(Clone)]
pub(crate) enum Memory {
    /// A small buffer in the same allocation as its reference count. Invariant: from the first multiple of
    /// [`ALIGNMENT`], `bytes` bytes and the guard after them are initialised.
    Small(Arc<[MaybeUninit<UnsafeCell<u8>>]>, Small),
    Large(Arc<Large>),
}

/// Description of a small buffer. It is at most as large as a `u32`, to keep [`Memory`] small.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    /// Size of the buffer; at most [`SMALL`].
    bytes: u16,
    pattern: u8,
}

/// Returns the byte for the next guard; it repeats after 125 guards.
///
/// A handler that copies past the end of an argument into the guard of a result copies a different pattern,
/// so the write is detected. Bytes that handlers often write, such as 0, 1 and 255, are never used.
pub(crate) fn next_pattern() -> u8 {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    0x81 + NEXT.fetch_add(1, Ordering::Relaxed) % 125
}

/// A buffer in a separate allocation from its reference count.
pub(crate) struct Large {
    start: NonNull<u8>,
    bytes: usize,
    origin: Origin,
}

enum Origin {
    /// Invariant: allocated with this layout, which covers `bytes` bytes from `start` and a guard with this
    /// pattern.
    Own(Layout, u8),
    /// Invariant: `bytes` bytes from `start` can be used as described here for as long as the owner lives.
    Lent {
        _owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    },
}

// SAFETY: plain bytes, owned or lent until this value is dropped; shared references only read them.
unsafe impl Send for Large {}
// SAFETY: as above.
unsafe impl Sync for Large {}
// SAFETY: as above.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    #[inline]
    pub(crate) fn zeroed(bytes: usize) -> Result<Self> {
        let pattern = next_pattern();
        let small = u16::try_from(bytes).ok().filter(|_| bytes <= SMALL);
        let memory = if let Some(small) = small {
            let room = Arc::new_uninit_slice(bytes + GUARD + ALIGNMENT);
            let memory = Self::Small(
                room,
                Small {
                    bytes: small,
                    pattern,
                },
            );
            // SAFETY: `bytes` is inside the allocation, which has no other references yet.
            unsafe { memory.start().write_bytes(0, bytes) };
            memory
        } else {
            Self::Large(Arc::new(Large::zeroed(bytes, pattern)?))
        };
        // SAFETY: `bytes` is inside the allocation, which has room for the guard after it.
        let guard = unsafe { memory.start().add(bytes) };
        // SAFETY: the guard is inside the allocation.
        unsafe { guard.write_bytes(pattern, GUARD) };
        Ok(memory)
    }

    /// Returns memory that an owner lends, read-only or writable.
    ///
    /// # Safety
    /// Until the owner is dropped, `bytes` bytes from `start` must be readable. Unless `read_only` is set,
    /// they must also be writable, and no other code may write them.
    pub(crate) unsafe fn lent(
        start: NonNull<u8>,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    ) -> Self {
        let origin = Origin::Lent {
            _owner: owner,
            read_only,
        };
        Self::Large(Arc::new(Large {
            start,
            bytes,
            origin,
        }))
    }

    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        match self {
            Self::Small(room, _) => {
                // Handlers write shared bytes through this pointer, which the cells allow.
                let room = NonNull::from(&**room).cast::<u8>();
                // SAFETY: the offset is smaller than the extra room that was allocated for the alignment.
                unsafe { room.add(room.align_offset(ALIGNMENT)) }
            }
            Self::Large(large) => large.start,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Small(_, small) => small.bytes.into(),
            Self::Large(large) => large.bytes,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the invariants of `Memory` and `Origin` guarantee that the bytes are valid and initialised.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// Returns true if the bytes must not be written.
    fn is_read_only(&self) -> bool {
        let Self::Large(large) = self else {
            return false;
        };
        matches!(
            large.origin,
            Origin::Lent {
                read_only: true,
                ..
            }
        )
    }

    /// Returns the bytes for writing, or `None` while a clone shares them or if they are read-only.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.is_read_only() {
            return None;
        }
        let alone = match self {
            Self::Small(room, _) => Arc::get_mut(room).is_some(),
            Self::Large(large) => Arc::get_mut(large).is_some(),
        };
        // SAFETY: as above, and there are no clones.
        alone.then(|| unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len()) })
    }

    /// Returns true if both are clones of the same memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Small(one, _), Self::Small(other, _)) => Arc::ptr_eq(one, other),
            (Self::Large(one), Self::Large(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns true if the guard is intact. Lent memory has no guard, so the result is always true.
    #[inline]
    pub(crate) fn guard_is_whole(&self) -> bool {
        let pattern = match self {
            Self::Small(_, small) => small.pattern,
            Self::Large(large) => match large.origin {
                Origin::Own(_, pattern) => pattern,
                Origin::Lent { .. } => return true,
            },
        };
        // SAFETY: the guard follows `bytes` inside the allocation.
        let start = unsafe { self.start().add(self.len()) };
        // SAFETY: the guard's bytes are initialised and inside the allocation.
        let guard = unsafe { std::slice::from_raw_parts(start.as_ptr(), GUARD) };
        *guard == [pattern; GUARD]
    }
}

impl Large {
    /// Allocates zeroed memory with room for the guard.
    #[cold]
    fn zeroed(bytes: usize, pattern: u8) -> Result<Self> {
        let refuse = || {
            Error::new(
                ErrorCode::ResourceExhausted,
                format!("{bytes} bytes of memory cannot be allocated on this machine"),
            )
        };
        if physical_memory().is_some_and(|limit| bytes > limit) {
            return Err(refuse());
        }
        let size = bytes.checked_add(GUARD).ok_or_else(refuse)?;
        let layout = Layout::from_size_align(size, ALIGNMENT).map_err(|_| refuse())?;
        // SAFETY: the size includes the guard, so it is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refuse)?;
        Ok(Self {
            start,
            bytes,
            origin: Origin::Own(layout, pattern),
        })
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        if let Origin::Own(layout, _) = self.origin {
            // SAFETY: allocated with this layout, and freed only here.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.len(), self.start())
    }
}

/// Returns the size of the machine's physical memory, in bytes.
pub(crate) fn physical_memory() -> Option<usize> {
    static BYTES: OnceLock<Option<usize>> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // SAFETY: `sysconf` only reads a number.
        let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
        // SAFETY: as above.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(pages)
            .ok()?
            .checked_mul(usize::try_from(page).ok()?)
    })
}
