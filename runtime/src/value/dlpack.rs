//! Tensors of other libraries, and for them, by DLPack: `DLTensor` and `DLManagedTensor` of `dlpack.h`, in host
//! memory and without a copy.

use super::tensor::is_aligned;
use crate::{DType, Error, Result, Shape, Tensor};
use std::ffi::c_void;
use std::ptr;

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// 1 is the CPU.
    pub device_type: i32,
    /// Its number.
    pub device_id: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// A `DLDataTypeCode`.
    pub code: u8,
    /// Of one lane.
    pub bits: u8,
    /// 1 for elements that are no vectors.
    pub lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// Where the memory begins.
    pub data: *mut c_void,
    /// Whose memory it is.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DLDataType,
    /// `ndim` dimensions.
    pub shape: *mut i64,
    /// `ndim` strides in elements; null for row-major arrays.
    pub strides: *mut i64,
    /// From `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`, as `__dlpack__` of Python's arrays gives and takes it.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The deleter's own.
    pub manager_ctx: *mut c_void,
    /// Called once by who was given the tensor, when he is done with it.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

const CPU: i32 = 1;

/// Element types by their code and bits; those that share bytes have no place in DLPack.
const DTYPES: [(DType, u8, u8); 23] = [
    (DType::S8, 0, 8),
    (DType::S16, 0, 16),
    (DType::S32, 0, 32),
    (DType::S64, 0, 64),
    (DType::U8, 1, 8),
    (DType::U16, 1, 16),
    (DType::U32, 1, 32),
    (DType::U64, 1, 64),
    (DType::F16, 2, 16),
    (DType::F32, 2, 32),
    (DType::F64, 2, 64),
    (DType::BF16, 4, 16),
    (DType::C64, 5, 64),
    (DType::C128, 5, 128),
    (DType::Pred, 6, 8),
    (DType::F8E3M4, 7, 8),
    (DType::F8E4M3, 8, 8),
    (DType::F8E4M3B11FNUZ, 9, 8),
    (DType::F8E4M3FN, 10, 8),
    (DType::F8E4M3FNUZ, 11, 8),
    (DType::F8E5M2, 12, 8),
    (DType::F8E5M2FNUZ, 13, 8),
    (DType::F8E8M0FNU, 14, 8),
];

/// Where an array lies that a `DLTensor` describes, and its shape.
///
/// # Errors
/// `INVALID_ARGUMENT` for another device than the CPU, for an element type or a number of dimensions that there
/// is not here, for strides that are not row-major, and for memory that does not begin at a multiple of 16 bytes.
///
/// # Safety
/// The tensor's lists have `ndim` entries.
pub unsafe fn describe(tensor: &DLTensor) -> Result<(Shape, *mut c_void)> {
    if tensor.device.device_type != CPU {
        return Err(Error::invalid(format!(
            "a DLPack tensor on device type {}: only those in host memory (1) are taken",
            tensor.device.device_type
        )));
    }
    let DLDataType { code, bits, lanes } = tensor.dtype;
    let known = DTYPES.iter();
    let dtype = known
        .copied()
        .find(|row| (row.1, row.2) == (code, bits) && lanes == 1)
        .ok_or_else(|| {
            Error::invalid(format!(
                "a DLPack tensor of type code {code} with {bits} bits in {lanes} lanes, which XLA does not \
                 have"
            ))
        })?
        .0;
    // Before the dimensions are read.
    let rank = usize::try_from(tensor.ndim)
        .ok()
        .filter(|rank| *rank <= Shape::MAX_RANK)
        .ok_or_else(|| {
            Error::invalid(format!(
                "a DLPack tensor of {} dimensions: there are 0 to {}",
                tensor.ndim,
                Shape::MAX_RANK
            ))
        })?;
    if rank > 0 && tensor.shape.is_null() {
        return Err(Error::invalid(
            "a DLPack tensor whose shape is a null pointer",
        ));
    }
    let list = |start: *const i64| -> &[i64] {
        if rank == 0 {
            return &[];
        }
        // SAFETY: as promised by the caller.
        unsafe { std::slice::from_raw_parts(start, rank) }
    };
    let shape = Shape::new(dtype, list(tensor.shape))?;
    if !tensor.strides.is_null() && shape.elements() > 0 {
        let mut expected = 1;
        for (dim, stride) in shape.dims().iter().zip(list(tensor.strides)).rev() {
            if *dim != 1 && *stride != expected {
                return Err(Error::invalid(format!(
                    "a DLPack tensor {shape} with strides {:?}: make it row-major (contiguous) first",
                    list(tensor.strides)
                )));
            }
            expected *= dim;
        }
    }
    let offset = usize::try_from(tensor.byte_offset)
        .map_err(|_| Error::invalid("a DLPack tensor whose offset is no address"))?;
    let data = tensor.data.wrapping_byte_add(offset);
    if shape.bytes() > 0 && (tensor.data.is_null() || !is_aligned(data)) {
        return Err(Error::invalid(format!(
            "a DLPack tensor {shape} at {data:p}: memory of others begins at a multiple of 16 bytes"
        )));
    }
    Ok((shape, data))
}

/// Somebody else's tensor until it is dropped.
struct Foreign(*mut DLManagedTensor);

// SAFETY: the contract of `from_dlpack`: the deleter may be called on any thread.
unsafe impl Send for Foreign {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: the tensor is ours since `from_dlpack`, and given back once.
        if let Some(deleter) = unsafe { (*self.0).deleter } {
            // SAFETY: as above.
            unsafe { deleter(self.0) };
        }
    }
}

/// What lies behind a tensor that was given away.
struct Exported {
    managed: DLManagedTensor,
    dims: Vec<i64>,
    _tensor: Tensor,
}

unsafe extern "C" fn drop_exported(managed: *mut DLManagedTensor) {
    // SAFETY: the deleter of an `Exported`, called once with it.
    let exported = unsafe { (*managed).manager_ctx };
    // SAFETY: as above: boxed by `into_dlpack`.
    drop(unsafe { Box::from_raw(exported.cast::<Exported>()) });
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
            return Err(Error::invalid("the DLPack tensor is a null pointer"));
        }
        let owner = Foreign(managed);
        // SAFETY: as promised by the caller.
        let tensor = unsafe { &(*managed).dl_tensor };
        // SAFETY: as promised by the caller.
        let (shape, data) = unsafe { describe(tensor) }?;
        // SAFETY: as promised by the caller.
        unsafe { Self::from_raw(shape, data, owner) }
    }

    /// This array for another library, without a copy: it takes it over, and calls the deleter when it is done.
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
    /// `INVALID_ARGUMENT` for an element type that DLPack does not have.
    pub fn into_dlpack(self) -> Result<*mut DLManagedTensor> {
        let dtype = self.shape().dtype();
        let row = DTYPES.iter().find(|row| row.0 == dtype).ok_or_else(|| {
            Error::invalid(format!("DLPack has no elements of type {}", dtype.name()))
        })?;
        let mut exported = Box::new(Exported {
            dims: self.shape().dims().to_vec(),
            managed: DLManagedTensor {
                dl_tensor: DLTensor {
                    data: self.data(),
                    device: DLDevice {
                        device_type: CPU,
                        device_id: 0,
                    },
                    ndim: i32::try_from(self.shape().dims().len()).unwrap_or(0),
                    dtype: DLDataType {
                        code: row.1,
                        bits: row.2,
                        lanes: 1,
                    },
                    shape: ptr::null_mut(),
                    strides: ptr::null_mut(),
                    byte_offset: 0,
                },
                manager_ctx: ptr::null_mut(),
                deleter: Some(drop_exported),
            },
            _tensor: self,
        });
        exported.managed.dl_tensor.shape = exported.dims.as_mut_ptr();
        let exported = Box::into_raw(exported);
        // SAFETY: made a line above.
        unsafe { (*exported).managed.manager_ctx = exported.cast() };
        // SAFETY: as above.
        Ok(unsafe { &raw mut (*exported).managed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dims: &mut [i64], data: *mut c_void) -> DLTensor {
        DLTensor {
            data,
            device: DLDevice {
                device_type: CPU,
                device_id: 0,
            },
            ndim: dims.len() as i32,
            dtype: DLDataType {
                code: 2,
                bits: 32,
                lanes: 1,
            },
            shape: dims.as_mut_ptr(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        }
    }

    #[test]
    fn what_is_no_array_of_this_memory_is_refused() {
        let mut words = [0_u128; 4];
        let data: *mut c_void = words.as_mut_ptr().cast();
        let mut dims = [2, 3];
        let good = tensor(&mut dims, data);
        let told = |tensor: &DLTensor| {
            // SAFETY: as many dimensions as it says, or refused before they are read.
            let described = unsafe { describe(tensor) };
            described.map(|(shape, at)| (shape.to_string(), at as usize - data as usize))
        };
        assert_eq!(told(&good).unwrap(), ("f32[2,3]".to_owned(), 0));
        let offset = DLTensor {
            byte_offset: 16,
            ..good
        };
        assert_eq!(told(&offset).unwrap().1, 16);
        let mut row_major = [3, 1];
        let mut transposed = [1, 2];
        let strided = |strides: &mut [i64; 2]| DLTensor {
            strides: strides.as_mut_ptr(),
            ..good
        };
        assert!(told(&strided(&mut row_major)).is_ok());
        let with = |change: fn(&mut DLTensor)| {
            let mut tensor = good;
            change(&mut tensor);
            tensor
        };
        for (tensor, words) in [
            (strided(&mut transposed), "make it row-major"),
            (with(|t| t.device.device_type = 2), "device type 2"),
            (with(|t| t.dtype.bits = 31), "31 bits"),
            (with(|t| t.dtype.lanes = 4), "4 lanes"),
            (with(|t| t.ndim = -1), "-1 dimensions"),
            (with(|t| t.ndim = i32::MAX), "0 to 1024"),
            (with(|t| t.shape = ptr::null_mut()), "shape is a null"),
            (with(|t| t.byte_offset = 4), "multiple of 16"),
            (with(|t| t.data = ptr::null_mut()), "multiple of 16"),
        ] {
            let error = told(&tensor).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
        dims[1] = -1;
        let negative = tensor(&mut dims, data);
        assert!(told(&negative).unwrap_err().message().contains("-1"));
    }

    #[test]
    fn arrays_go_out_and_come_back_in_place() {
        for (dtype, code, bits) in &DTYPES {
            let x = Tensor::zeros(Shape::new(*dtype, [3, 2]).unwrap()).unwrap();
            let (start, clone) = (x.data(), x.clone());
            let given = x.into_dlpack().unwrap();
            // SAFETY: made a line above.
            let told = unsafe { (*given).dl_tensor };
            assert_eq!((told.dtype.code, told.dtype.bits), (*code, *bits));
            // SAFETY: as above.
            let back = unsafe { Tensor::from_dlpack(given) }.unwrap();
            assert_eq!((back.data(), back.shape()), (start, clone.shape()));
            drop(back);
            let mut clone = clone;
            assert!(clone.bytes_mut().is_some(), "the deleter has let it go");
        }
        let packed = Tensor::zeros(Shape::new(DType::S4, [3]).unwrap()).unwrap();
        assert!(packed.into_dlpack().is_err());
        // SAFETY: null is looked for.
        assert!(unsafe { Tensor::from_dlpack(ptr::null_mut()) }.is_err());
    }
}
