//! Host arrays: memory as XLA hands it to handlers, 64-byte aligned, with a guard behind it.

use crate::{DType, Error, Finding, Hazard, Result, Shape};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// Alignment of every buffer.
pub const ALIGNMENT: usize = 64;
/// Bytes behind every buffer that no handler may write.
const GUARD: usize = 64;
const PATTERN: u8 = 0xA5;

/// Bytes that are aligned, owned, and followed by a guard.
#[derive(Debug)]
struct Memory {
    /// Invariant: allocated with `layout`, which covers `bytes` rounded up plus the guard.
    start: NonNull<u8>,
    bytes: usize,
    layout: Layout,
}

// SAFETY: the memory is owned and plain bytes; shared access only reads it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn zeroed(bytes: usize) -> Result<Self> {
        let refuse = || {
            Error::new(
                crate::Code::ResourceExhausted,
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
        // SAFETY: `bytes` is inside the allocation.
        let guard = unsafe { start.add(bytes) };
        // SAFETY: the guard's bytes are the rest of the allocation.
        unsafe { guard.write_bytes(PATTERN, GUARD) };
        Ok(Self {
            start,
            bytes,
            layout,
        })
    }

    fn guard_is_whole(&self) -> bool {
        // SAFETY: the guard lies behind `bytes` inside the allocation.
        let start = unsafe { self.start.add(self.bytes) };
        // SAFETY: the guard's bytes are initialised and inside the allocation.
        let guard = unsafe { std::slice::from_raw_parts(start.as_ptr(), GUARD) };
        guard.iter().all(|&byte| byte == PATTERN)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
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

/// A dense row-major array in host memory. Clones share the bytes; only a tensor with no clones can
/// be written.
///
/// ```
/// use xla_ffi_runtime::{DType, Shape, Tensor};
///
/// let mut x = Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?;
/// assert_eq!(x.shape(), &Shape::new(DType::F32, [2, 2])?);
/// assert_eq!(x.bytes().len(), 16);
/// if let Some(bytes) = x.bytes_mut() {
///     bytes[..4].copy_from_slice(&0.5_f32.to_ne_bytes());
/// }
/// assert_eq!(x.to_vec(), Some(vec![0.5_f32, 2.0, 3.0, 4.0]));
/// assert_eq!(x.to_vec::<f64>(), None, "it has elements of F32");
///
/// let zeros = Tensor::zeros(Shape::new(DType::S4, [3])?)?;
/// assert!(zeros.bytes().iter().all(|byte| *byte == 0));
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tensor {
    shape: Shape,
    memory: Arc<Memory>,
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose bytes are elements of an array.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    i8 => S8, i16 => S16, i32 => S32, i64 => S64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    half::f16 => F16, half::bf16 => BF16, f32 => F32, f64 => F64,
}

impl Tensor {
    /// An array of zeros.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when the memory cannot be allocated.
    pub fn zeros(shape: Shape) -> Result<Self> {
        let memory = Memory::zeroed(shape.bytes())
            .map_err(|error| error.within(format_args!("{shape} is too large")))?;
        Ok(Self {
            shape,
            memory: Arc::new(memory),
        })
    }

    /// An array with these bytes, packed as XLA packs them.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the number of bytes is not that of the shape.
    pub fn from_bytes(shape: Shape, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != shape.bytes() {
            return Err(Error::invalid(format!(
                "{shape} takes {} bytes, {} were given",
                shape.bytes(),
                bytes.len()
            )));
        }
        let mut tensor = Self::zeros(shape)?;
        if let Some(out) = tensor.bytes_mut() {
            out.copy_from_slice(bytes);
        }
        Ok(tensor)
    }

    /// An array with these elements.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when their number is not that of the dimensions.
    pub fn from_slice<T: Element>(dims: impl Into<Vec<i64>>, elements: &[T]) -> Result<Self> {
        let shape = Shape::new(T::DTYPE, dims)?;
        if elements.len() != shape.elements() {
            return Err(Error::invalid(format!(
                "{shape} has {} elements, {} were given",
                shape.elements(),
                elements.len()
            )));
        }
        // SAFETY: `Element` types are plain numbers without padding.
        let bytes = unsafe {
            std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
        };
        Self::from_bytes(shape, bytes)
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory holds `bytes` initialised bytes for as long as it lives.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr(), self.memory.bytes) }
    }

    /// The bytes, for writing; `None` while a clone shares them.
    #[must_use]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let memory = Arc::get_mut(&mut self.memory)?;
        // SAFETY: the memory holds `bytes` initialised bytes, and nobody else has it.
        Some(unsafe { std::slice::from_raw_parts_mut(memory.start.as_ptr(), memory.bytes) })
    }

    /// The elements, copied out; `None` when the element type is another one.
    #[must_use]
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        if T::DTYPE != self.shape.dtype() {
            return None;
        }
        let start = self.memory.start.as_ptr().cast::<T>();
        // SAFETY: aligned to 64, all bit patterns are elements, the shape says how many.
        Some(unsafe { std::slice::from_raw_parts(start, self.shape.elements()) }.to_vec())
    }

    /// Whether both have the same bytes in memory.
    pub(crate) fn shares_memory_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
    }

    /// What a host writes into `XLA_FFI_Buffer.data`: null for arrays without elements.
    pub(crate) fn data(&self) -> *mut std::ffi::c_void {
        if self.shape.elements() == 0 {
            return std::ptr::null_mut();
        }
        self.memory.start.as_ptr().cast()
    }

    /// A finding if bytes behind the array were written; `what` names it there.
    #[must_use]
    pub fn check_guard(&self, what: &str) -> Option<Finding> {
        (!self.memory.guard_is_whole()).then(|| {
            Finding::new(
                Hazard::BufferOverrun,
                format!("the bytes behind {what} ({}) were written", self.shape),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_guarded() {
        let mut tensor = Tensor::from_slice([3], &[1.0_f32, 2.0, 3.0]).unwrap();
        assert_eq!(tensor.data() as usize % ALIGNMENT, 0);
        assert_eq!(tensor.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(tensor.to_vec::<i32>(), None);
        assert!(tensor.check_guard("x").is_none());
        let behind = tensor.bytes_mut().unwrap().as_mut_ptr().wrapping_add(12);
        // SAFETY: the guard belongs to the allocation.
        unsafe { behind.write(1) };
        assert_eq!(
            tensor.check_guard("x").unwrap().hazard,
            Hazard::BufferOverrun
        );
    }

    #[test]
    fn clones_share_and_lock() {
        let mut tensor = Tensor::zeros(Shape::new(DType::U8, [4]).unwrap()).unwrap();
        let clone = tensor.clone();
        assert!(tensor.bytes_mut().is_none());
        drop(clone);
        assert!(tensor.bytes_mut().is_some());
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let shape = Shape::new(DType::U8, [1 << 60]).unwrap();
        assert_eq!(
            Tensor::zeros(shape).unwrap_err().code(),
            crate::Code::ResourceExhausted
        );
        assert!(Tensor::from_slice([2], &[1_i32]).is_err());
        assert!(
            Tensor::zeros(Shape::new(DType::F32, [0]).unwrap())
                .unwrap()
                .data()
                .is_null()
        );
    }
}
