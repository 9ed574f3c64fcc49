//! Devices as handlers see them: a stream, and an allocator for scratch memory.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// A platform's stream, which handlers see as a pointer (`CUstream` for instance).
#[derive(Clone)]
pub struct Stream {
    handle: usize,
    _owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl Stream {
    /// A stream that somebody else keeps alive for as long as calls use it.
    #[must_use]
    pub fn borrowed(handle: *mut c_void) -> Self {
        Self {
            handle: handle as usize,
            _owner: None,
        }
    }

    /// A stream that lives as long as its owner.
    pub fn owned(handle: *mut c_void, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            handle: handle as usize,
            _owner: Some(owner),
        }
    }

    /// What handlers are given.
    #[must_use]
    pub fn handle(&self) -> *mut c_void {
        self.handle as *mut c_void
    }
}

/// Where scratch memory comes from. What a handler does not free is freed after the call.
pub trait DeviceAllocator: Send + Sync {
    /// `size` bytes (not 0), aligned to a power of two; `None` when they cannot be had.
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void>;
    /// Frees what `allocate` gave.
    fn free(&self, data: *mut c_void, size: usize);
}

/// Scratch memory on the host.
#[derive(Default)]
pub struct HostAllocator {
    layouts: Mutex<BTreeMap<usize, std::alloc::Layout>>,
}

impl HostAllocator {
    /// How many allocations have not been freed.
    #[must_use]
    pub fn living(&self) -> usize {
        self.layouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

impl DeviceAllocator for HostAllocator {
    fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void> {
        if size == 0 {
            return None;
        }
        let layout = std::alloc::Layout::from_size_align(size, alignment.max(64)).ok()?;
        // SAFETY: the size is not 0.
        let data = unsafe { std::alloc::alloc(layout) };
        if data.is_null() {
            return None;
        }
        self.layouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(data as usize, layout);
        Some(data.cast())
    }

    fn free(&self, data: *mut c_void, _size: usize) {
        let layout = self
            .layouts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&(data as usize));
        if let Some(layout) = layout {
            // SAFETY: allocated with this layout and taken out of the map once.
            unsafe { std::alloc::dealloc(data.cast(), layout) };
        }
    }
}
