//! Arrays that come from other libraries and go to them, with who frees them.

use super::{
    CPU, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    DTYPES, MAJOR, READ_ONLY, describe, describe_versioned,
};
use crate::value::Tensor;
use std::ffi::c_void;
use std::ptr;
use xla_ffi_sys::{Error, Result};

/// What both kinds of tensors with a deleter have.
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

/// Somebody else's tensor until it is dropped.
struct Foreign<M: Managed>(*mut M);

// SAFETY: the contract of `from_dlpack`: the deleter may be called on any thread.
unsafe impl<M: Managed> Send for Foreign<M> {}
// SAFETY: nothing is done through a shared reference.
unsafe impl<M: Managed> Sync for Foreign<M> {}

impl<M: Managed> Drop for Foreign<M> {
    fn drop(&mut self) {
        // SAFETY: the tensor is ours since `from_dlpack`, and given back once.
        if let Some(deleter) = unsafe { (*self.0).deleter() } {
            // SAFETY: as above.
            unsafe { deleter(self.0) };
        }
    }
}

/// What lies behind a tensor that was given away.
struct Exported<M> {
    managed: M,
    dims: Vec<i64>,
    strides: Vec<i64>,
    _tensor: Tensor,
}

unsafe extern "C" fn drop_exported<M: Managed>(managed: *mut M) {
    // SAFETY: the deleter of an `Exported`, called once with it.
    let exported = unsafe { *(*managed).context() };
    // SAFETY: as above: boxed by `export`.
    drop(unsafe { Box::from_raw(exported.cast::<Exported<M>>()) });
}

/// Strides of a row-major array, in elements.
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
    // SAFETY: made a line above.
    unsafe { *(*exported).managed.context() = exported.cast() };
    // SAFETY: as above.
    Ok(unsafe { &raw mut (*exported).managed })
}

impl Tensor {
    /// Another library's array, without a copy: its deleter is called with the last clone.
    ///
    /// # Errors
    /// As [`describe`]; the deleter is called then, too.
    ///
    /// # Safety
    /// A tensor of `dlpack.h` that is no longer the caller's, of as many bytes as it says, which nobody else
    /// writes; its deleter may be called on any thread. Who writes the tensor here writes the other library's.
    pub unsafe fn from_dlpack(managed: *mut DLManagedTensor) -> Result<Self> {
        if managed.is_null() {
            return Err(Error::invalid_argument(
                "the DLPack tensor is a null pointer",
            ));
        }
        let owner = Foreign(managed);
        // SAFETY: as promised by the caller.
        let tensor = unsafe { &(*managed).dl_tensor };
        // SAFETY: as promised by the caller.
        let (shape, data) = unsafe { describe(tensor) }?;
        // SAFETY: as promised by the caller.
        unsafe { Self::from_raw(shape, data, owner) }
    }

    /// As [`Tensor::from_dlpack`], of the form that has a version and flags. An array that is read-only there is
    /// here: [`Tensor::bytes_mut`] and [`Tensor::as_mut_slice`] give nothing, and a result that is to lie in
    /// its memory is refused, or copied where it is an alias.
    ///
    /// # Errors
    /// As [`describe_versioned`]; the deleter is called then, too.
    ///
    /// # Safety
    /// As [`Tensor::from_dlpack`].
    pub unsafe fn from_dlpack_versioned(managed: *mut DLManagedTensorVersioned) -> Result<Self> {
        if managed.is_null() {
            return Err(Error::invalid_argument(
                "the DLPack tensor is a null pointer",
            ));
        }
        let owner = Foreign(managed);
        // SAFETY: as promised by the caller.
        let (shape, data, read_only) = unsafe { describe_versioned(managed) }?;
        // SAFETY: as promised by the caller.
        unsafe { Self::from_raw_with(shape, data, owner, read_only) }
    }

    /// This array for another library, without a copy: it takes it over, and calls the deleter when it is done.
    /// The form for libraries that do not know [`DLManagedTensorVersioned`] yet.
    ///
    /// ```
    /// use xla_ffi_runtime::Tensor;
    ///
    /// let x = Tensor::from_slice([2, 2], &[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let given = x.into_dlpack()?;
    /// // SAFETY: made a line above.
    /// let back = unsafe { Tensor::from_dlpack(given) }?;
    /// assert_eq!(back.as_slice(), Some(&[1.0_f32, 2.0, 3.0, 4.0][..]));
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an element type that DLPack does not have, and for an array that cannot be written here,
    /// because it has clones or is read-only, which this form cannot say.
    pub fn into_dlpack(mut self) -> Result<*mut DLManagedTensor> {
        if self.bytes_mut().is_none() {
            return Err(Error::invalid_argument(
                "the array has clones or is read-only, which DLManagedTensor cannot express: use into_dlpack_versioned",
            ));
        }
        export(self, false)
    }

    /// As [`Tensor::into_dlpack`], in the form that has a version (1.0) and flags: an array that cannot be written
    /// here, because it has clones or is read-only, goes as read-only.
    ///
    /// ```
    /// use xla_ffi_runtime::{Tensor, dlpack::READ_ONLY};
    ///
    /// let x = Tensor::from_slice([2], &[1.0_f32, 2.0])?;
    /// let given = x.clone().into_dlpack_versioned()?;
    /// // SAFETY: made a line above.
    /// assert_eq!(unsafe { (*given).flags } & READ_ONLY, READ_ONLY, "x has it, too");
    /// // SAFETY: as above.
    /// let mut back = unsafe { Tensor::from_dlpack_versioned(given) }?;
    /// assert!(back.as_mut_slice::<f32>().is_none());
    /// # Ok::<(), xla_ffi_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an element type that DLPack does not have.
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
            // SAFETY: made a line above.
            let told = unsafe { (*given).dl_tensor };
            assert_eq!((told.dtype.code, told.dtype.bits), (*code, *bits));
            // SAFETY: as above.
            let back = unsafe { Tensor::from_dlpack(given) }.unwrap();
            assert_eq!((back.data(), back.shape().dims()), (start, &[3, 2][..]));
        }
        let x = Tensor::from_slice([1], &[1.0_f32]).unwrap();
        let error = x.clone().into_dlpack().unwrap_err();
        assert!(error.message().contains("the array has clones"), "{error}");
        assert_eq!(x.to_vec(), Some(vec![1.0_f32]));
        let packed = Tensor::zeros(Shape::new(DType::S4, [3]).unwrap()).unwrap();
        assert!(packed.into_dlpack().is_err());
        // SAFETY: null is looked for.
        assert!(unsafe { Tensor::from_dlpack(ptr::null_mut()) }.is_err());
    }

    #[test]
    fn versioned_arrays_say_whether_they_may_be_written() {
        let x = Tensor::from_slice([2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let start = x.data();
        let given = x.into_dlpack_versioned().unwrap();
        // SAFETY: made a line above, and not given back yet.
        let told = unsafe { &*given };
        let version = (told.version.major, told.version.minor);
        assert_eq!((version, told.flags), ((1, 0), 0));
        // SAFETY: as many as there are dimensions.
        let strides = unsafe { std::slice::from_raw_parts(told.dl_tensor.strides, 2) };
        assert_eq!(strides, [3, 1]);
        // SAFETY: as above.
        let mut back = unsafe { Tensor::from_dlpack_versioned(given) }.unwrap();
        assert!(back.data() == start && back.as_mut_slice::<f32>().is_some());
        let given = back.into_dlpack_versioned().unwrap();
        // SAFETY: as above; it is nobody else's.
        unsafe { (*given).flags = READ_ONLY };
        // SAFETY: as above.
        let mut back = unsafe { Tensor::from_dlpack_versioned(given) }.unwrap();
        assert!(back.as_mut_slice::<f32>().is_none() && back.bytes_mut().is_none());
        assert_eq!(back.as_slice::<f32>().unwrap()[5], 6.0);
        assert!(back.clone().into_dlpack().is_err());
        let given = back.into_dlpack_versioned().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { (*given).flags }, READ_ONLY);
        // SAFETY: as above.
        unsafe { (*given).version.major = 2 };
        // SAFETY: as above.
        let error = unsafe { Tensor::from_dlpack_versioned(given) }.unwrap_err();
        assert!(error.message().contains("version 2.0"), "{error}");
        // SAFETY: null is looked for.
        assert!(unsafe { Tensor::from_dlpack_versioned(ptr::null_mut()) }.is_err());
    }
}
