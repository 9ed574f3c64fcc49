//! The bytes behind a tensor: allocated here, aligned and followed by a guard, or lent by an owner.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Alignment of every buffer that is allocated here.
pub const ALIGNMENT: usize = 64;
/// Alignment of memory that is lent: what XLA's CPU client takes of its callers without a copy, so
/// that handlers have to live with it anyway.
pub const LEAST_ALIGNMENT: usize = 16;
/// Bytes behind every buffer that no handler may write.
const GUARD: usize = 64;
/// Up to here memory comes from where small objects come from, which is quicker than asking for an
/// alignment.
const SMALL: usize = 4096;

/// Bytes of an array; clones share them.
#[derive(Clone)]
pub(crate) enum Memory {
    /// Small ones in one allocation, behind the count of their owners. Invariant: `bytes` from the first
    /// multiple of [`ALIGNMENT`] on are initialised, and the guard behind them.
    Small(Arc<[MaybeUninit<UnsafeCell<u8>>]>, Small),
    Large(Arc<Large>),
}

/// What is known of small memory. It is as large as a number of bytes alone.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    /// No more than [`SMALL`].
    bytes: u16,
    pattern: u8,
}

/// What guards are filled with, another one each time, for 125 of them: a handler that copies beyond an argument
/// into what lies behind a result leaves a guard there, but not the one that was there. Never a byte that handlers
/// fill with, such as 0, 1 or 255.
pub(crate) fn next_pattern() -> u8 {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    0x81 + NEXT.fetch_add(1, Ordering::Relaxed) % 125
}

/// Bytes that lie apart from the count of their owners.
pub(crate) struct Large {
    start: NonNull<u8>,
    bytes: usize,
    origin: Origin,
}

enum Origin {
    /// Invariant: allocated with the layout, which covers `bytes` from `start` on and the guard, of that pattern.
    Own(Layout, u8),
    /// Invariant: `bytes` from `start` on may be used as it says, as long as the owner lives.
    Lent {
        _owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    },
}

// SAFETY: plain bytes, owned or lent for as long as this lives; shared access only reads them.
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
            // SAFETY: `bytes` is inside the allocation, which nobody else has.
            unsafe { memory.start().write_bytes(0, bytes) };
            memory
        } else {
            Self::Large(Arc::new(Large::zeroed(bytes, pattern)?))
        };
        // SAFETY: `bytes` is inside the allocation, with room for the guard behind.
        let guard = unsafe { memory.start().add(bytes) };
        // SAFETY: the guard's bytes are inside the allocation, too.
        unsafe { guard.write_bytes(pattern, GUARD) };
        Ok(memory)
    }

    /// Memory that an owner lends, for reading alone or for writing, too.
    ///
    /// # Safety
    /// `bytes` from `start` on may be read as long as the owner lives, and written, by nobody else, unless it is
    /// read-only.
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
                // Shared bytes are written through it, by handlers: cells allow that.
                let room = NonNull::from(&**room).cast::<u8>();
                // SAFETY: less than the room that was asked for besides.
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
        // SAFETY: the invariants of `Memory` and `Origin`; all of it is initialised.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// Whether nobody may write them.
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

    /// The bytes, for writing; `None` while a clone shares them, or where they are read-only.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if self.is_read_only() {
            return None;
        }
        let alone = match self {
            Self::Small(room, _) => Arc::get_mut(room).is_some(),
            Self::Large(large) => Arc::get_mut(large).is_some(),
        };
        // SAFETY: as above, and nobody else has them.
        alone.then(|| unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len()) })
    }

    /// Whether both are clones of one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Small(one, _), Self::Small(other, _)) => Arc::ptr_eq(one, other),
            (Self::Large(one), Self::Large(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether the bytes behind are as they were; nobody knows of memory that is lent.
    #[inline]
    pub(crate) fn guard_is_whole(&self) -> bool {
        let pattern = match self {
            Self::Small(_, small) => small.pattern,
            Self::Large(large) => match large.origin {
                Origin::Own(_, pattern) => pattern,
                Origin::Lent { .. } => return true,
            },
        };
        // SAFETY: the guard lies behind `bytes` inside the allocation.
        let start = unsafe { self.start().add(self.len()) };
        // SAFETY: the guard's bytes are initialised and inside the allocation.
        let guard = unsafe { std::slice::from_raw_parts(start.as_ptr(), GUARD) };
        *guard == [pattern; GUARD]
    }
}

impl Large {
    /// Zeros, and room for the guard behind.
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
        // SAFETY: the size is at least that of the guard, so not 0.
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
            // SAFETY: allocated with this layout and freed once.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.len(), self.start())
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
