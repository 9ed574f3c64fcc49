//! Imports tensors from other libraries and exports tensors to them, with deleters.

use super::{
    CPU, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    DTYPES, MAJOR, READ_ONLY, describe, describe_versioned,
};
use crate::value::Tensor;
use std::ffi::c_void;
use std::ptr;
use xla_ffi_sys::{Error, Result};

/// The operations of both `DLManagedTensor` and `DLManagedTensorVersioned`.
trait Managed: Sized {
    fn new(tensor: DLTensor, context: *mut c_void, read_only: bool) -> Self;
    fn tensor(&mut self) -> &mut DLTensor;
    fn context(&mut self) -> &mut *mut c_void;
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

impl Managed for DLManagedTensor {
    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, _: bool) -> Self {
        Self {
            dl_tensor,
            manager_ctx,
            deleter: Some(drop_exported::<Self>),
        }
    }

    fn tensor(&mut self) -> &mut DLTensor {
        &mut self.dl_tensor
    }

    fn context(&mut self) -> &mut *mut c_void {
        &mut self.manager_ctx
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

impl Managed for DLManagedTensorVersioned {
    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, read_only: bool) -> Self {
        Self {
            version: DLPackVersion {
                major: MAJOR,
                minor: 0,
            },
            manager_ctx,
            deleter: Some(drop_exported::<Self>),
            flags: if read_only { READ_ONLY } else { 0 },
            dl_tensor,
        }
    }

    fn tensor(&mut self) -> &mut DLTensor {
        &mut self.dl_tensor
    }

    fn context(&mut self) -> &mut *mut c_void {
        &mut self.manager_ctx
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

/// A tensor of a different library. Dropping the value calls the tensor's deleter.
struct Foreign<M: Managed>(*mut M);

// SAFETY: `from_dlpack` requires that the deleter can be called on any thread.
unsafe impl<M: Managed> Send for Foreign<M> {}
// SAFETY: the tensor cannot be accessed through a shared reference.
unsafe impl<M: Managed> Sync for Foreign<M> {}

impl<M: Managed> Drop for Foreign<M> {
    fn drop(&mut self) {
        // SAFETY: `from_dlpack` took ownership of the tensor, and only this function returns it to its library.
        if let Some(deleter) = unsafe { (*self.0).deleter() } {
            // SAFETY: the tensor is deleted once, because only `drop` calls its deleter.
            unsafe { deleter(self.0) };
        }
    }
}

/// The owner of an exported tensor, which the tensor's deleter frees.
struct Exported<M> {
    managed: M,
    dims: Vec<i64>,
    strides: Vec<i64>,
    _tensor: Tensor,
}

unsafe extern "C" fn drop_exported<M: Managed>(managed: *mut M) {
    // SAFETY: the function is the deleter of an `Exported`. Consumers call it once, with their tensor.
    let exported = unsafe { *(*managed).context() };
    // SAFETY: `export` created the pointer from a box, and the deleter runs once.
    drop(unsafe { Box::from_raw(exported.cast::<Exported<M>>()) });
}

/// Returns the strides of a row-major array, in elements.
fn strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1_i64; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(dims[axis].max(1));
    }
    strides
}

fn export<M: Managed>(tensor: Tensor, read_only: bool) -> Result<*mut M> {
    let dtype = tensor.shape().dtype();
    let row = DTYPES.iter().find(|row| row.0 == dtype).ok_or_else(|| {
        Error::invalid_argument(format!("DLPack has no elements of type {}", dtype.name()))
    })?;
    let dims = tensor.shape().dims().to_vec();
    let described = DLTensor {
        data: tensor.data(),
        device: DLDevice {
            device_type: CPU,
            device_id: 0,
        },
        ndim: i32::try_from(dims.len()).unwrap_or(0),
        dtype: DLDataType {
            code: row.1,
            bits: row.2,
            lanes: 1,
        },
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let mut exported = Box::new(Exported {
        managed: M::new(described, ptr::null_mut(), read_only),
        strides: strides(&dims),
        dims,
        _tensor: tensor,
    });
    let (shape, strides) = (exported.dims.as_mut_ptr(), exported.strides.as_mut_ptr());
    let described = exported.managed.tensor();
    (described.shape, described.strides) = (shape, strides);
    let exported = Box::into_raw(exported);
    // SAFETY: `exported` points to a new box.
    unsafe { *(*exported).managed.context() = exported.cast() };
    // SAFETY: `exported` points to a new box.
    Ok(unsafe { &raw mut (*exported).managed })
}

impl Tensor {
    /// Returns the array of a different library, without a copy. The array's deleter is called when the last clone is
    /// dropped.
    ///
    /// # Errors
    /// The errors of [`describe`], after calling the deleter.
    ///
    /// # Safety
    /// `managed` must be a valid tensor of `dlpack.h`, whose ownership the caller passes to this function. Its memory
    /// must have the described size, and no other code may write it. The deleter must be callable on any thread.
    /// Writes to the returned tensor change the array of the library.
    pub unsafe fn from_dlpack(managed: *mut DLManagedTensor) -> Result<Self> {
        if managed.is_null() {
            return Err(Error::invalid_argument(
                "the DLPack tensor is a null pointer",
            ));
        }
        let owner = Foreign(managed);
        // SAFETY: guaranteed by the caller.
        let tensor = unsafe { &(*managed).dl_tensor };
        // SAFETY: guaranteed by the caller.
        let (shape, data) = unsafe { describe(tensor) }?;
        // SAFETY: guaranteed by the caller.
        unsafe { Self::from_raw(shape, data, owner) }
    }

    /// Returns the array of a different library like [`Tensor::from_dlpack`], from a tensor with a version and flags.
    ///
    /// For a read-only array, [`Tensor::bytes_mut`] and [`Tensor::as_mut_slice`] return `None`. Calls reject a result
    /// in a read-only array, and copy a read-only argument that a result aliases.
    ///
    /// # Errors
    /// The errors of [`describe_versioned`], after calling the deleter.
    ///
    /// # Safety
    /// The requirements of [`Tensor::from_dlpack`] apply.
    pub unsafe fn from_dlpack_versioned(managed: *mut DLManagedTensorVersioned) -> Result<Self> {
        if managed.is_null() {
            return Err(Error::invalid_argument(
                "the DLPack tensor is a null pointer",
            ));
        }
        let owner = Foreign(managed);
        // SAFETY: guaranteed by the caller.
        let (shape, data, read_only) = unsafe { describe_versioned(managed) }?;
        // SAFETY: guaranteed by the caller.
        unsafe { Self::from_raw_with(shape, data, owner, read_only) }
    }

    /// Exports this array to a different library, without a copy. The library becomes the owner, and calls the
    /// deleter when it no longer uses the array. Use [`Tensor::into_dlpack_versioned`] for libraries that support
    /// [`DLManagedTensorVersioned`].
    ///
    /// ```
    /// use xla_ffi_runtime::Tensor;
    ///
    /// let x = Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let given = x.into_dlpack()?;
    /// // SAFETY: `into_dlpack` returned the tensor, and it is imported once.
    /// let back = unsafe { Tensor::from_dlpack(given) }?;
    /// assert_eq!(back.as_slice(), Some(&[1.0_f32, 2.0, 3.0, 4.0][..]));
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an element type that DLPack lacks. `INVALID_ARGUMENT` for an array that has clones or
    /// is read-only, because [`DLManagedTensor`] has no read-only flag.
    pub fn into_dlpack(mut self) -> Result<*mut DLManagedTensor> {
        if self.bytes_mut().is_none() {
            return Err(Error::invalid_argument(
                "the array has clones or is read-only, which DLManagedTensor cannot express: use into_dlpack_versioned",
            ));
        }
        export(self, false)
    }

    /// Exports this array like [`Tensor::into_dlpack`], as a tensor with a version (1.0) and flags. An array that has
    /// clones or is read-only is exported as read-only.
    ///
    /// ```
    /// use xla_ffi_runtime::{Tensor, dlpack::READ_ONLY};
    ///
    /// let x = Tensor::from_slice([2], &[1.0_f32, 2.0])?;
    /// let given = x.clone().into_dlpack_versioned()?;
    /// // SAFETY: `into_dlpack_versioned` returned the tensor.
    /// assert_eq!(unsafe { (*given).flags } & READ_ONLY, READ_ONLY, "x has it, too");
    /// // SAFETY: `into_dlpack_versioned` returned the tensor, and it is imported once.
    /// let mut back = unsafe { Tensor::from_dlpack_versioned(given) }?;
    /// assert!(back.as_mut_slice::<f32>().is_none());
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an element type that DLPack lacks.
    pub fn into_dlpack_versioned(mut self) -> Result<*mut DLManagedTensorVersioned> {
        let read_only = self.bytes_mut().is_none();
        export(self, read_only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{DType, Shape};

    #[test]
    fn arrays_go_out_and_come_back_in_place() {
        for (dtype, code, bits) in &DTYPES {
            let x = Tensor::zeros(Shape::new(*dtype, [3, 2]).unwrap()).unwrap();
            let start = x.data();
            let given = x.into_dlpack().unwrap();
            // SAFETY: `into_dlpack` returned the tensor.
            let told = unsafe { (*given).dl_tensor };
            assert_eq!((told.dtype.code, told.dtype.bits), (*code, *bits));
            // SAFETY: `into_dlpack` returned the tensor, and it is imported once.
            let back = unsafe { Tensor::from_dlpack(given) }.unwrap();
            assert_eq!((back.data(), back.shape().dims()), (start, &[3, 2][..]));
        }
        let x = Tensor::from_slice([1], &[1.0_f32]).unwrap();
        let error = x.clone().into_dlpack().unwrap_err();
        assert!(error.message().contains("the array has clones"), "{error}");
        assert_eq!(x.to_vec(), Some(vec![1.0_f32]));
        let packed = Tensor::zeros(Shape::new(DType::S4, [3]).unwrap()).unwrap();
        assert!(packed.into_dlpack().is_err());
        // SAFETY: `from_dlpack` returns an error for null.
        assert!(unsafe { Tensor::from_dlpack(ptr::null_mut()) }.is_err());
    }

    #[test]
    fn versioned_arrays_say_whether_they_may_be_written() {
        let x = Tensor::from_slice([2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let start = x.data();
        let given = x.into_dlpack_versioned().unwrap();
        // SAFETY: `into_dlpack_versioned` returned the tensor, which is not imported yet.
        let told = unsafe { &*given };
        let version = (told.version.major, told.version.minor);
        assert_eq!((version, told.flags), ((1, 0), 0));
        // SAFETY: the tensor has one stride per dimension.
        let strides = unsafe { std::slice::from_raw_parts(told.dl_tensor.strides, 2) };
        assert_eq!(strides, [3, 1]);
        // SAFETY: `into_dlpack_versioned` returned the tensor, and it is imported once.
        let mut back = unsafe { Tensor::from_dlpack_versioned(given) }.unwrap();
        assert!(back.data() == start && back.as_mut_slice::<f32>().is_some());
        let given = back.into_dlpack_versioned().unwrap();
        // SAFETY: `into_dlpack_versioned` returned the tensor, and no other code uses it.
        unsafe { (*given).flags = READ_ONLY };
        // SAFETY: `into_dlpack_versioned` returned the tensor, and it is imported once.
        let mut back = unsafe { Tensor::from_dlpack_versioned(given) }.unwrap();
        assert!(back.as_mut_slice::<f32>().is_none() && back.bytes_mut().is_none());
        assert_eq!(back.as_slice::<f32>().unwrap()[5], 6.0);
        assert!(back.clone().into_dlpack().is_err());
        let given = back.into_dlpack_versioned().unwrap();
        // SAFETY: `into_dlpack_versioned` returned the tensor, which is not imported yet.
        assert_eq!(unsafe { (*given).flags }, READ_ONLY);
        // SAFETY: `into_dlpack_versioned` returned the tensor, and no other code uses it.
        unsafe { (*given).version.major = 2 };
        // SAFETY: the tensor is valid; a wrong major version is rejected before other fields are read.
        let error = unsafe { Tensor::from_dlpack_versioned(given) }.unwrap_err();
        assert!(error.message().contains("version 2.0"), "{error}");
        // SAFETY: null pointers are rejected.
        assert!(unsafe { Tensor::from_dlpack_versioned(ptr::null_mut()) }.is_err());
    }
}
