//! Tensors: arrays in host memory that, like XLA's memory, is 64-byte aligned. A guard follows each array.

use super::memory::{ALIGNMENT, LEAST_ALIGNMENT, Memory};
use super::{DType, Element, Shape};
use crate::device::DeviceAllocator;
use std::any::Any;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};

/// A dense row-major array in host memory. Clones share the bytes. Only a tensor without clones can be written.
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
    /// Returns an array of the given shape, initialised with zeros.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the memory cannot be allocated.
    #[inline]
    pub fn zeros(shape: Shape) -> Result<Self> {
        match Memory::zeroed(shape.bytes()) {
            Ok(memory) => Ok(Self { shape, memory }),
            Err(error) => Err(error.within(format_args!("{shape} is too large"))),
        }
    }

    /// Returns an array with a copy of the given bytes. Elements of less than a byte are packed, the first in the low
    /// bits.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the number of bytes does not match the shape.
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

    /// Returns an array with a copy of the given elements.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the number of elements does not match the dimensions.
    pub fn from_slice<T: Element>(dims: impl Into<Vec<i64>>, elements: &[T]) -> Result<Self> {
        let shape = Shape::new(DType::of::<T>(), dims)?;
        if elements.len() != shape.elements() {
            return Err(Error::invalid_argument(format!(
                "{shape} has {} elements, {} were given",
                shape.elements(),
                elements.len()
            )));
        }
        // SAFETY: `Element` types are plain numbers without padding, so all their bytes are initialised.
        let bytes = unsafe {
            std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
        };
        Self::from_bytes(shape, bytes)
    }

    /// Returns an array with the elements of a vector, without a copy. The vector is dropped with the last clone of
    /// the array. Small vectors may be copied, because some allocators do not align them to 16 bytes.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the number of elements does not match the dimensions.
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
        // SAFETY: the memory belongs to `owner`, has the required alignment, and is freed only by `owner`.
        unsafe { Self::lent(shape, start, Box::new(owner), false) }
    }

    /// Returns an array in the caller's memory, without a copy. `owner` is dropped with the last clone of the array.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the memory is not 16-byte aligned, which XLA's CPU client requires, or if `data`
    /// is null and the array has elements.
    ///
    /// # Safety
    /// Until `owner` is dropped, the shape's number of bytes at `data` must be readable and writable, and no other
    /// code may access them.
    pub unsafe fn from_raw(
        shape: Shape,
        data: *mut c_void,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::from_raw_with(shape, data, owner, false) }
    }

    /// Returns an array in the caller's memory, like [`Tensor::from_raw`]. The memory may be read-only.
    ///
    /// # Safety
    /// The requirements of [`Tensor::from_raw`] apply. If `read_only` is set, the memory need not be writable, and no
    /// code may write it.
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
        // SAFETY: guaranteed by the caller.
        unsafe { Self::lent(shape, start, Box::new(owner), read_only) }
    }

    /// Returns an array of zeros in memory of the program's allocator. The allocator frees the memory when the last
    /// clone of the array is dropped.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the allocator fails; `INVALID_ARGUMENT` if its memory is not 16-byte aligned.
    ///
    /// # Safety
    /// The allocator must return host memory of the requested size. No other code may use the memory until it is
    /// freed.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use xla_ffi_runtime::{DType, DeviceAllocator, HostAllocator, Shape, Tensor};
    ///
    /// let mine = Arc::new(HostAllocator::default());
    /// let allocator: Arc<dyn DeviceAllocator> = mine.clone();
    /// // SAFETY: the allocator returns host memory.
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
        // SAFETY: guaranteed by the caller.
        unsafe { data.cast::<u8>().write_bytes(0, size) };
        // SAFETY: the allocator returned the memory, and `owner` frees it.
        unsafe { Self::from_raw(shape, data, owner) }
    }

    /// Returns an array in an owner's memory, without a check of the alignment.
    ///
    /// # Safety
    /// The requirements of [`Tensor::from_raw`] apply. The memory must also be aligned to 16 bytes.
    unsafe fn lent(
        shape: Shape,
        start: NonNull<u8>,
        owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    ) -> Result<Self> {
        let bytes = shape.bytes();
        // SAFETY: guaranteed by the caller.
        let memory = unsafe { Memory::lent(start, bytes, owner, read_only) };
        Ok(Self { shape, memory })
    }

    /// Returns the shape of the array.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the bytes of the elements.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// Returns the bytes for writing, or `None` if a clone shares the bytes or if they are read-only memory of a
    /// different library.
    #[must_use]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.memory.bytes_mut()
    }

    /// Returns the elements, or `None` if the element type is not `T`.
    #[must_use]
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if DType::of::<T>() != self.shape.dtype() {
            return None;
        }
        let start = self.memory.start().as_ptr().cast::<T>();
        // SAFETY: the memory is at least 16-byte aligned, every bit pattern is an element, and the shape
        // determines the length.
        Some(unsafe { std::slice::from_raw_parts(start, self.shape.elements()) })
    }

    /// Returns the elements for writing, or `None` if the element type is not `T`, a clone shares the elements, or
    /// they are read-only.
    #[must_use]
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        if DType::of::<T>() != self.shape.dtype() {
            return None;
        }
        let elements = self.shape.elements();
        let start = self.bytes_mut()?.as_mut_ptr().cast::<T>();
        // SAFETY: the memory is at least 16-byte aligned, every bit pattern is an element, and no clone shares the
        // memory.
        Some(unsafe { std::slice::from_raw_parts_mut(start, elements) })
    }

    /// Returns a copy of the elements, or `None` if the element type is not `T`.
    #[must_use]
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        self.as_slice().map(<[T]>::to_vec)
    }

    /// Returns true if both tensors are clones that share their memory.
    pub(crate) fn shares_memory_with(&self, other: &Self) -> bool {
        self.memory.is_same(&other.memory)
    }

    /// Returns the pointer that a host writes to `XLA_FFI_Buffer.data`: null for arrays without elements.
    #[doc(hidden)]
    #[must_use]
    pub fn data(&self) -> *mut c_void {
        if self.shape.elements() == 0 {
            return std::ptr::null_mut();
        }
        self.memory.start().as_ptr().cast()
    }

    /// Returns a finding if the guard after the array was written. `what` is the array's name in the finding.
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

/// Memory of a program's allocator. It is freed on drop.
struct Allocated {
    allocator: Arc<dyn DeviceAllocator>,
    data: usize,
    size: usize,
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: the allocator returned this memory, and only `drop` frees it.
        unsafe { self.allocator.free(self.data as *mut c_void, self.size) };
    }
}

pub(super) fn is_aligned(data: *const c_void) -> bool {
    data as usize % LEAST_ALIGNMENT == 0
}

/// The raw parts of a vector. Code accesses the elements only through the pointer.
struct Vector<T: Element> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
}

// SAFETY: the value owns its elements, which are plain numbers.
unsafe impl<T: Element> Send for Vector<T> {}
// SAFETY: the elements cannot be accessed through a shared reference.
unsafe impl<T: Element> Sync for Vector<T> {}

impl<T: Element> Vector<T> {
    fn new(elements: Vec<T>) -> Self {
        let mut elements = ManuallyDrop::new(elements);
        let (len, capacity) = (elements.len(), elements.capacity());
        // SAFETY: the pointer of a vector is never null.
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
        // SAFETY: the parts are those of a vector, and only `drop` reassembles them.
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
        // SAFETY: the guard is part of the allocation.
        unsafe { behind.write(1) };
        assert_eq!(
            tensor.check_guard("x").unwrap().hazard,
            Hazard::BufferOverrun
        );
    }

    /// A loop past the ends of two arrays copies the guard of one array into the guard of the other array.
    #[test]
    fn the_guard_of_another_array_is_told() {
        for size in [3, 4096, 4097, 10_000] {
            let make = || Tensor::zeros(Shape::new(DType::U8, [size]).unwrap()).unwrap();
            let (from, to) = (make(), make());
            for count in [1, 5, 64] {
                let bytes = usize::try_from(size).unwrap();
                let behind = |tensor: &Tensor| tensor.data().cast::<u8>().wrapping_add(bytes);
                let mut old = [0; 64];
                // SAFETY: the guard is part of the allocation.
                unsafe { old.as_mut_ptr().copy_from(behind(&to), 64) };
                // SAFETY: both guards are inside their allocations, which do not overlap.
                unsafe { behind(&to).copy_from(behind(&from), count) };
                assert!(to.check_guard("to").is_some(), "{size}, {count}");
                // SAFETY: the guard is part of the allocation.
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
        // SAFETY: `data` points to 64 bytes, which outlive the tensor.
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
        // SAFETY: `from_raw` rejects the address before it accesses the memory.
        let error = unsafe { Tensor::from_raw(shape.clone(), odd, ()) }.unwrap_err();
        assert!(error.message().contains("a multiple of 16"), "{error}");
        // SAFETY: `from_raw` rejects a null pointer.
        let null = unsafe { Tensor::from_raw(shape, std::ptr::null_mut(), ()) };
        assert!(null.unwrap_err().message().contains("null pointer"));
        assert!(Tensor::from_vec([3], vec![1_i32, 2]).is_err());
    }
}
