//! The memory of tensors: allocated with an alignment and a guard, or lent by an owner.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// The alignment in bytes of every buffer that this module allocates.
pub const ALIGNMENT: usize = 64;
/// The minimum alignment in bytes of lent memory. XLA's CPU client accepts memory with this alignment from its
/// callers without a copy, so handlers must support it.
pub const LEAST_ALIGNMENT: usize = 16;
/// The size in bytes of the guard after every buffer. Handlers must not write the guard.
const GUARD: usize = 64;
/// The largest buffer in bytes that is allocated as [`Memory::Small`]. Allocators are faster for small objects than
/// for aligned objects.
const SMALL: usize = 4096;

/// The bytes of an array. Clones share the bytes.
#[derive(Clone)]
pub(crate) enum Memory {
    /// A small buffer in the same allocation as its reference count. Invariant: from the first multiple of
    /// [`ALIGNMENT`], the buffer's `bytes` bytes and its guard are initialised.
    Small(Arc<[MaybeUninit<UnsafeCell<u8>>]>, Small),
    Large(Arc<Large>),
}

/// The size and the guard of a small buffer. The struct is at most as large as a `u32`, to keep [`Memory`] small.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    /// The size of the buffer in bytes; at most [`SMALL`].
    bytes: u16,
    pattern: u8,
}

/// Returns the byte with which the next guard is filled. The sequence repeats after 125 guards.
///
/// Adjacent buffers have guards with different bytes. A handler that copies past the end of an argument into the
/// guard of a result is therefore detected. Bytes that handlers often write, such as 0, 1 and 255, are never used.
pub(crate) fn next_pattern() -> u8 {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    0x81 + NEXT.fetch_add(1, Ordering::Relaxed) % 125
}

/// A buffer that is not in the same allocation as its reference count.
pub(crate) struct Large {
    start: NonNull<u8>,
    bytes: usize,
    origin: Origin,
}

enum Origin {
    /// Memory of this module. Invariant: it was allocated with this layout, which includes `bytes` bytes from `start`
    /// and a guard filled with this byte.
    Own(Layout, u8),
    /// Memory of an owner. Invariant: while the owner exists, `bytes` bytes from `start` are readable, and writable
    /// unless `read_only` is set.
    Lent {
        _owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    },
}

// SAFETY: the bytes are owned or lent until this value is dropped, and shared references only read them.
unsafe impl Send for Large {}
// SAFETY: the bytes are owned or lent until this value is dropped, and shared references only read them.
unsafe impl Sync for Large {}
// SAFETY: the bytes are owned or lent until this value is dropped, and shared references only read them.
unsafe impl Send for Memory {}
// SAFETY: the bytes are owned or lent until this value is dropped, and shared references only read them.
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
            // SAFETY: the first `bytes` bytes are inside the new allocation, to which no other reference exists.
            unsafe { memory.start().write_bytes(0, bytes) };
            memory
        } else {
            Self::Large(Arc::new(Large::zeroed(bytes, pattern)?))
        };
        // SAFETY: the allocation has `bytes` bytes and a guard after them.
        let guard = unsafe { memory.start().add(bytes) };
        // SAFETY: the guard is inside the allocation.
        unsafe { guard.write_bytes(pattern, GUARD) };
        Ok(memory)
    }

    /// Returns memory that belongs to an owner. It is read-only if `read_only` is set.
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
                // Handlers write the bytes through this pointer, which the type `UnsafeCell` allows.
                let room = NonNull::from(&**room).cast::<u8>();
                // SAFETY: the offset is smaller than the padding that was allocated for the alignment.
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
        // SAFETY: the invariants of `Memory` and `Origin` guarantee that the bytes are readable and initialised.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// Returns true if the memory is read-only.
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

    /// Returns the bytes for writing, or `None` if a clone shares the bytes or if they are read-only.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.is_read_only() {
            return None;
        }
        let alone = match self {
            Self::Small(room, _) => Arc::get_mut(room).is_some(),
            Self::Large(large) => Arc::get_mut(large).is_some(),
        };
        // SAFETY: the invariants of `Memory` and `Origin` guarantee that the bytes are writable and initialised. No
        // clone shares them.
        alone.then(|| unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len()) })
    }

    /// Returns true if both values are clones of the same memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Small(one, _), Self::Small(other, _)) => Arc::ptr_eq(one, other),
            (Self::Large(one), Self::Large(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns true if the guard is unchanged. For lent memory, which has no guard, the result is always true.
    #[inline]
    pub(crate) fn guard_is_whole(&self) -> bool {
        let pattern = match self {
            Self::Small(_, small) => small.pattern,
            Self::Large(large) => match large.origin {
                Origin::Own(_, pattern) => pattern,
                Origin::Lent { .. } => return true,
            },
        };
        // SAFETY: the allocation contains the guard after `bytes` bytes.
        let start = unsafe { self.start().add(self.len()) };
        // SAFETY: the guard's bytes are initialised and inside the allocation.
        let guard = unsafe { std::slice::from_raw_parts(start.as_ptr(), GUARD) };
        *guard == [pattern; GUARD]
    }
}

impl Large {
    /// Allocates zero-initialised memory with room for a guard.
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
            // SAFETY: the memory was allocated with this layout, and only `drop` frees it.
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
        // SAFETY: `sysconf` only reads a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(pages)
            .ok()?
            .checked_mul(usize::try_from(page).ok()?)
    })
}
