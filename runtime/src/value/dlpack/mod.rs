//! Exchanges tensors with other libraries, in host memory and without copies: `DLTensor`, `DLManagedTensor` and
//! `DLManagedTensorVersioned` of `dlpack.h`.
//!
//! The fields are public as in the C header, because DLPack defines these layouts.

mod exchange;

use super::tensor::is_aligned;
use crate::value::{DType, Shape};
use std::ffi::c_void;
use xla_ffi_sys::{Error, Result};

/// `DLDevice`: the device of a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// The kind of the device; 1 is the CPU.
    pub device_type: i32,
    /// The number of the device.
    pub device_id: i32,
}

/// `DLDataType`: the element type of a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// The type code, a `DLDataTypeCode`.
    pub code: u8,
    /// The number of bits per lane.
    pub bits: u8,
    /// The number of lanes; 1 for elements that are not vectors.
    pub lanes: u16,
}

/// `DLTensor`: a tensor without an owner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The start of the memory.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The element type.
    pub dtype: DLDataType,
    /// The dimensions, an array of `ndim` entries.
    pub shape: *mut i64,
    /// The strides in elements, an array of `ndim` entries; null for row-major arrays.
    pub strides: *mut i64,
    /// The offset of the first element from `data`, in bytes.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor with a deleter, as returned by `__dlpack__` of Python arrays.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor's memory, shape and element type.
    pub dl_tensor: DLTensor,
    /// The producer's data for the deleter.
    pub manager_ctx: *mut c_void,
    /// The deleter. The consumer calls it once, when it no longer uses the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLPackVersion`: the version of the layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// The major version. Major versions have different layouts.
    pub major: u32,
    /// The minor version. Newer minor versions only add values to existing fields.
    pub minor: u32,
}

/// `DLManagedTensorVersioned`: a tensor with a version, as returned by `__dlpack__(max_version=(1, 0))` of Python
/// arrays.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of the layout.
    pub version: DLPackVersion,
    /// The producer's data for the deleter.
    pub manager_ctx: *mut c_void,
    /// The deleter. The consumer calls it once, when it no longer uses the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// The flags of the tensor, for example [`READ_ONLY`].
    pub flags: u64,
    /// The tensor's memory, shape and element type.
    pub dl_tensor: DLTensor,
}

/// `DLPACK_FLAG_BITMASK_READ_ONLY`: the consumer must not write the tensor.
pub const READ_ONLY: u64 = 1;

const CPU: i32 = 1;
/// The major version that has the layout of [`DLManagedTensorVersioned`].
const MAJOR: u32 = 1;

/// The element types with their DLPack codes and bits. Packed types are not exchanged, because DLPack defines their
/// packing only since version 1.1.
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

/// Returns the shape and the memory of the array that a `DLTensor` describes.
///
/// # Errors
/// `INVALID_ARGUMENT` for a device other than the CPU, or an unsupported element type or number of dimensions.
/// `INVALID_ARGUMENT` for strides that are not row-major, or memory that is not 16-byte aligned.
///
/// # Safety
/// `shape` must have `ndim` entries, and so must `strides` unless it is null.
pub unsafe fn describe(tensor: &DLTensor) -> Result<(Shape, *mut c_void)> {
    if tensor.device.device_type != CPU {
        return Err(Error::invalid_argument(format!(
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
            Error::invalid_argument(format!(
                "a DLPack tensor of type code {code} with {bits} bits in {lanes} lanes, which XLA does not \
                 have"
            ))
        })?
        .0;
    // The rank is checked before the dimensions are read.
    let rank = usize::try_from(tensor.ndim)
        .ok()
        .filter(|rank| *rank <= Shape::MAX_RANK)
        .ok_or_else(|| {
            Error::invalid_argument(format!(
                "a DLPack tensor of {} dimensions: there are 0 to {}",
                tensor.ndim,
                Shape::MAX_RANK
            ))
        })?;
    if rank > 0 && tensor.shape.is_null() {
        return Err(Error::invalid_argument(
            "a DLPack tensor whose shape is a null pointer",
        ));
    }
    let list = |start: *const i64| -> &[i64] {
        if rank == 0 {
            return &[];
        }
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts(start, rank) }
    };
    let shape = Shape::new(dtype, list(tensor.shape))?;
    if !tensor.strides.is_null() && shape.elements() > 0 {
        let mut expected = 1;
        for (dim, stride) in shape.dims().iter().zip(list(tensor.strides)).rev() {
            if *dim != 1 && *stride != expected {
                return Err(Error::invalid_argument(format!(
                    "a DLPack tensor {shape} with strides {:?}: make it row-major (contiguous) first",
                    list(tensor.strides)
                )));
            }
            expected *= dim;
        }
    }
    let offset = usize::try_from(tensor.byte_offset).ok();
    if offset
        .and_then(|offset| tensor.data.addr().checked_add(offset))
        .is_none()
    {
        return Err(Error::invalid_argument(
            "a DLPack tensor whose offset leads to no address",
        ));
    }
    let data = tensor.data.wrapping_byte_add(offset.unwrap_or_default());
    if shape.bytes() > 0 && (tensor.data.is_null() || !is_aligned(data)) {
        return Err(Error::invalid_argument(format!(
            "a DLPack tensor {shape} at {data:p}: memory of others begins at a multiple of 16 bytes"
        )));
    }
    Ok((shape, data))
}

/// Returns the shape and the memory like [`describe`], and true if the tensor is read-only.
///
/// # Errors
/// The errors of [`describe`], and `INVALID_ARGUMENT` for a major version other than 1. For such a version, no other
/// field is read.
///
/// # Safety
/// `managed` must point to a valid `DLManagedTensorVersioned` of the version in its field `version`.
pub unsafe fn describe_versioned(
    managed: *const DLManagedTensorVersioned,
) -> Result<(Shape, *mut c_void, bool)> {
    // SAFETY: guaranteed by the caller. Tensors of all versions start with the version.
    let version = unsafe { (*managed).version };
    let DLPackVersion { major, minor } = version;
    if major != MAJOR {
        return Err(Error::invalid_argument(format!(
            "a DLPack tensor of version {major}.{minor}: only {MAJOR}.x is known here"
        )));
    }
    // SAFETY: guaranteed by the caller. The major version is 1, which has this layout.
    let managed = unsafe { &*managed };
    // SAFETY: guaranteed by the caller.
    let (shape, data) = unsafe { describe(&managed.dl_tensor) }?;
    Ok((shape, data, managed.flags & READ_ONLY != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

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
            // SAFETY: the tensor has `ndim` dimensions, or `describe` rejects it before it reads them.
            let described = unsafe { describe(tensor) };
            described.map(|(shape, at)| (shape.to_string(), at as usize - data as usize))
        };
        assert_eq!(told(&good).unwrap(), ("f32[2,3]".to_owned(), 0));
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
            (with(|t| t.byte_offset = u64::MAX - 15), "no address"),
            (with(|t| t.data = ptr::null_mut()), "multiple of 16"),
        ] {
            let error = told(&tensor).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
    }
}
