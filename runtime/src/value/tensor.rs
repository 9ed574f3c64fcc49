//! Host arrays: memory as XLA hands it to handlers, 64-byte aligned, with a guard behind it.

use super::memory::{ALIGNMENT, LEAST_ALIGNMENT, Memory};
use super::{DType, Element, Shape};
use crate::device::DeviceAllocator;
use std::any::Any;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};

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
    memory: Memory,
}

impl Tensor {
    /// An array of zeros.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when the memory cannot be allocated.
    #[inline]
    pub fn zeros(shape: Shape) -> Result<Self> {
        match Memory::zeroed(shape.bytes()) {
            Ok(memory) => Ok(Self { shape, memory }),
            Err(error) => Err(error.within(format_args!("{shape} is too large"))),
        }
    }

    /// An array with these bytes, packed as XLA packs them.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when the number of bytes is not that of the shape.
    pub fn from_bytes(shape: Shape, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != shape.bytes() {
            return Err(Error::invalid_argument(format!(
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
        let shape = Shape::new(DType::of::<T>(), dims)?;
        if elements.len() != shape.elements() {
            return Err(Error::invalid_argument(format!(
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

    /// An array of these elements, without a copy: the vector is dropped with the last clone. Vectors
    /// that do not begin at a multiple of 16 bytes, as small ones of some allocators, are copied.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when their number is not that of the dimensions.
    ///
    /// ```
    /// use xla_ffi_runtime::Tensor;
    ///
    /// let large = vec![0.5_f32; 1 << 20];
    /// let start = large.as_ptr();
    /// let tensor = Tensor::from_vec([1 << 10, 1 << 10], large)?;
    /// assert_eq!(tensor.as_slice::<f32>().map(<[f32]>::as_ptr), Some(start));
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    pub fn from_vec<T: Element>(dims: impl Into<Vec<i64>>, elements: Vec<T>) -> Result<Self> {
        let shape = Shape::new(DType::of::<T>(), dims)?;
        if elements.len() != shape.elements() || !is_aligned(elements.as_ptr().cast()) {
            return Self::from_slice(shape.dims(), &elements);
        }
        let owner = Vector::new(elements);
        let start = owner.start.cast();
        // SAFETY: the owner's elements, aligned as was asked, which it alone frees.
        unsafe { Self::lent(shape, start, Box::new(owner), false) }
    }

    /// An array in the caller's memory, without a copy; `owner` is dropped with the last clone.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for memory that does not begin at a multiple of 16 bytes, as XLA's CPU client
    /// wants it, or a null pointer to elements.
    ///
    /// # Safety
    /// As many bytes as the shape has may be read and written there, by nobody else, as long as `owner`
    /// lives.
    pub unsafe fn from_raw(
        shape: Shape,
        data: *mut c_void,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        // SAFETY: as promised by the caller.
        unsafe { Self::from_raw_with(shape, data, owner, false) }
    }

    /// # Safety
    /// As [`Tensor::from_raw`], but that nobody writes there where it is read-only.
    pub(super) unsafe fn from_raw_with(
        shape: Shape,
        data: *mut c_void,
        owner: impl Any + Send + Sync,
        read_only: bool,
    ) -> Result<Self> {
        let start = match NonNull::new(data.cast::<u8>()) {
            None if shape.bytes() == 0 => return Self::zeros(shape),
            None => {
                return Err(Error::invalid_argument(format!(
                    "{shape} at a null pointer"
                )));
            }
            Some(start) => start,
        };
        if !is_aligned(data) {
            return Err(Error::invalid_argument(format!(
                "{shape} at {data:p}: memory of the caller's begins at a multiple of \
                 {LEAST_ALIGNMENT} bytes"
            )));
        }
        // SAFETY: as promised by the caller.
        unsafe { Self::lent(shape, start, Box::new(owner), read_only) }
    }

    /// Zeros in memory of the program's own allocator, to which it goes back with the last clone.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when the allocator gives none, `INVALID_ARGUMENT` when what it gives does not begin
    /// at a multiple of 16 bytes.
    ///
    /// # Safety
    /// The allocator gives host memory of the size that it is asked for, to nobody else until it is freed.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use xla_ffi_runtime::{DType, DeviceAllocator, HostAllocator, Shape, Tensor};
    ///
    /// let mine = Arc::new(HostAllocator::default());
    /// let allocator: Arc<dyn DeviceAllocator> = mine.clone();
    /// // SAFETY: it is the host's memory.
    /// let y = unsafe { Tensor::zeros_of(Shape::new(DType::F32, [1000])?, &allocator) }?;
    /// assert_eq!((y.as_slice::<f32>().map(|y| y[999]), mine.living()), (Some(0.0), 1));
    /// drop(y);
    /// assert_eq!(mine.living(), 0);
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    pub unsafe fn zeros_of(shape: Shape, allocator: &Arc<dyn DeviceAllocator>) -> Result<Self> {
        let size = shape.bytes();
        if size == 0 {
            return Self::zeros(shape);
        }
        let data = allocator.allocate(size, ALIGNMENT).ok_or_else(|| {
            Error::new(
                ErrorCode::ResourceExhausted,
                format!("the allocator gives no {size} bytes for {shape}"),
            )
        })?;
        let owner = Allocated {
            allocator: allocator.clone(),
            data: data as usize,
            size,
        };
        // SAFETY: as promised by the caller.
        unsafe { data.cast::<u8>().write_bytes(0, size) };
        // SAFETY: as above, and the owner frees it.
        unsafe { Self::from_raw(shape, data, owner) }
    }

    /// # Safety
    /// As [`Tensor::from_raw`], for aligned memory.
    unsafe fn lent(
        shape: Shape,
        start: NonNull<u8>,
        owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    ) -> Result<Self> {
        let bytes = shape.bytes();
        // SAFETY: as promised by the caller.
        let memory = unsafe { Memory::lent(start, bytes, owner, read_only) };
        Ok(Self { shape, memory })
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// The bytes, for writing; `None` while a clone shares them, or where they are another library's to write.
    #[must_use]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.memory.bytes_mut()
    }

    /// The elements; `None` when the element type is another one.
    #[must_use]
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if DType::of::<T>() != self.shape.dtype() {
            return None;
        }
        let start = self.memory.start().as_ptr().cast::<T>();
        // SAFETY: aligned to 16 at least, all bit patterns are elements, the shape says how many.
        Some(unsafe { std::slice::from_raw_parts(start, self.shape.elements()) })
    }

    /// The elements, for writing; `None` when the element type is another one, or a clone shares them.
    #[must_use]
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        if DType::of::<T>() != self.shape.dtype() {
            return None;
        }
        let elements = self.shape.elements();
        let start = self.bytes_mut()?.as_mut_ptr().cast::<T>();
        // SAFETY: as for `as_slice`, and nobody else has the memory.
        Some(unsafe { std::slice::from_raw_parts_mut(start, elements) })
    }

    /// The elements, copied out; `None` when the element type is another one.
    #[must_use]
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        self.as_slice().map(<[T]>::to_vec)
    }

    /// Whether both have the same bytes in memory.
    pub(crate) fn shares_memory_with(&self, other: &Self) -> bool {
        self.memory.is_same(&other.memory)
    }

    /// What a host writes into `XLA_FFI_Buffer.data`: null for arrays without elements.
    #[doc(hidden)]
    #[must_use]
    pub fn data(&self) -> *mut c_void {
        if self.shape.elements() == 0 {
            return std::ptr::null_mut();
        }
        self.memory.start().as_ptr().cast()
    }

    /// A finding if bytes behind the array were written; `what` names it there.
    #[must_use]
    pub fn check_guard(&self, what: impl std::fmt::Display) -> Option<Finding> {
        (!self.memory.guard_is_whole()).then(|| {
            Finding::new(
                Hazard::BufferOverrun,
                format!("the bytes after {what} ({}) were written", self.shape),
            )
        })
    }
}

/// Memory of a program's allocator.
struct Allocated {
    allocator: Arc<dyn DeviceAllocator>,
    data: usize,
    size: usize,
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: what the allocator gave, freed once.
        unsafe { self.allocator.free(self.data as *mut c_void, self.size) };
    }
}

pub(super) fn is_aligned(data: *const c_void) -> bool {
    data as usize % LEAST_ALIGNMENT == 0
}

/// A vector in parts: its elements are reached by a pointer alone.
struct Vector<T: Element> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
}

// SAFETY: owned elements, which are plain numbers.
unsafe impl<T: Element> Send for Vector<T> {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl<T: Element> Sync for Vector<T> {}

impl<T: Element> Vector<T> {
    fn new(elements: Vec<T>) -> Self {
        let mut elements = ManuallyDrop::new(elements);
        let (len, capacity) = (elements.len(), elements.capacity());
        // SAFETY: a vector's pointer is never null.
        let start = unsafe { NonNull::new_unchecked(elements.as_mut_ptr()) };
        Self {
            start,
            len,
            capacity,
        }
    }
}

impl<T: Element> Drop for Vector<T> {
    fn drop(&mut self) {
        // SAFETY: the parts of a vector, put together once.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, self.capacity) });
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

    /// A loop over too many elements of two arrays copies what lies behind one behind the other.
    #[test]
    fn the_guard_of_another_array_is_told() {
        for size in [3, 4096, 4097, 10_000] {
            let make = || Tensor::zeros(Shape::new(DType::U8, [size]).unwrap()).unwrap();
            let (from, to) = (make(), make());
            for count in [1, 5, 64] {
                let bytes = usize::try_from(size).unwrap();
                let behind = |tensor: &Tensor| tensor.data().cast::<u8>().wrapping_add(bytes);
                let mut old = [0; 64];
                // SAFETY: the guard belongs to the allocation.
                unsafe { old.as_mut_ptr().copy_from(behind(&to), 64) };
                // SAFETY: both guards belong to their allocations, which are two.
                unsafe { behind(&to).copy_from(behind(&from), count) };
                assert!(to.check_guard("to").is_some(), "{size}, {count}");
                // SAFETY: as above.
                unsafe { behind(&to).copy_from(old.as_ptr(), 64) };
                assert!(to.check_guard("to").is_none() && from.check_guard("from").is_none());
            }
        }
    }

    #[test]
    fn memory_of_the_callers_is_used_in_place_and_given_back() {
        let owner = Arc::new(());
        let mut words = [0_u128; 4];
        let data: *mut c_void = words.as_mut_ptr().cast();
        let shape = Shape::new(DType::F32, [4, 3]).unwrap();
        // SAFETY: 64 bytes, which outlive the tensor.
        let tensor = unsafe { Tensor::from_raw(shape.clone(), data, owner.clone()) };
        let mut tensor = tensor.unwrap();
        assert_eq!(tensor.data(), data);
        tensor.as_mut_slice::<f32>().unwrap()[11] = 2.5;
        assert_eq!(tensor.as_slice::<f32>().unwrap()[11], 2.5);
        assert!(tensor.as_slice::<i32>().is_none() && tensor.check_guard("x").is_none());
        assert_eq!(Arc::strong_count(&owner), 2);
        let clone = tensor.clone();
        assert!(tensor.as_mut_slice::<f32>().is_none());
        drop((tensor, clone));
        assert_eq!(Arc::strong_count(&owner), 1);
        let odd = data.wrapping_byte_add(8);
        // SAFETY: refused before it is looked at.
        let error = unsafe { Tensor::from_raw(shape.clone(), odd, ()) }.unwrap_err();
        assert!(error.message().contains("a multiple of 16"), "{error}");
        // SAFETY: as above.
        let null = unsafe { Tensor::from_raw(shape, std::ptr::null_mut(), ()) };
        assert!(null.unwrap_err().message().contains("null pointer"));
        assert!(Tensor::from_vec([3], vec![1_i32, 2]).is_err());
    }
}
