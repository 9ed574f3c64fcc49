//! Tensors of other libraries, and for them, by DLPack: `DLTensor`, `DLManagedTensor` and
//! `DLManagedTensorVersioned` of `dlpack.h`, in host memory and without a copy.
//!
//! The fields are public because the C header has them so: these layouts are DLPack's to change, not ours.

mod exchange;

use super::tensor::is_aligned;
use crate::value::{DType, Shape};
use std::ffi::c_void;
use xla_ffi_sys::{Error, Result};

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

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Another one means another layout.
    pub major: u32,
    /// A greater one means more values for what there is.
    pub minor: u32,
}

/// `DLManagedTensorVersioned`, as `__dlpack__(max_version=(1, 0))` of Python's arrays gives and takes it.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// What it is laid out by.
    pub version: DLPackVersion,
    /// The deleter's own.
    pub manager_ctx: *mut c_void,
    /// Called once by who was given the tensor, when he is done with it.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// [`READ_ONLY`] and others.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// `DLPACK_FLAG_BITMASK_READ_ONLY`: who was given the tensor must not write it.
pub const READ_ONLY: u64 = 1;

const CPU: i32 = 1;
/// The major version that [`DLManagedTensorVersioned`] is the layout of.
const MAJOR: u32 = 1;

/// Element types by their code and bits. Those that share bytes stay here: DLPack says how they are packed since
/// 1.1 alone.
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
    // Before the dimensions are read.
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
        // SAFETY: as promised by the caller.
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

/// As [`describe`], for a tensor whose version is looked at first. Whether it is read-only comes with it.
///
/// # Errors
/// As [`describe`], and `INVALID_ARGUMENT` for a major version other than 1: nothing behind the version is read.
///
/// # Safety
/// A `DLManagedTensorVersioned` of the version that it says.
pub unsafe fn describe_versioned(
    managed: *const DLManagedTensorVersioned,
) -> Result<(Shape, *mut c_void, bool)> {
    // SAFETY: as promised by the caller: tensors of all versions begin with it.
    let version = unsafe { (*managed).version };
    let DLPackVersion { major, minor } = version;
    if major != MAJOR {
        return Err(Error::invalid_argument(format!(
            "a DLPack tensor of version {major}.{minor}: only {MAJOR}.x is known here"
        )));
    }
    // SAFETY: as promised by the caller, the layout of this major version.
    let managed = unsafe { &*managed };
    // SAFETY: as promised by the caller.
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
            // SAFETY: as many dimensions as it says, or refused before they are read.
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
