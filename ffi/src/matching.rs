//! Checks that a parameter's type and a shape contract cannot express: element types, ranks and
//! dimensions that depend on attributes or on each other. Each function returns an error that names
//! the operand.
//!
//! ```
//! use xla_ffi::{DataType, matching, prelude::*};
//!
//! #[xla_ffi::handler]
//! fn pool(x: AnyBuffer, y: AnyOut, window: i64) -> Result<()> {
//!     matching::dtype_in("x", x.dtype(), &[DataType::F32, DataType::F64])?;
//!     matching::same_dtype("y", y.dtype(), "x", x.dtype())?;
//!     let rank = matching::rank_in("x", x.dims(), &[2, 3])?;
//!     let length = matching::dim("x", x.dims(), rank - 1)?;
//!     let window = usize::try_from(window).unwrap_or(0).max(1);
//!     matching::dim_is("y", y.dims(), rank - 1, length / window)?;
//!     Ok(())
//! }
//!
//! # use xla_ffi::embed::{self, DType, Shape, Tensor};
//! let error = embed::call::<pool>("{window = 2 : i64}")?
//!     .arg(Tensor::from_slice([1, 4], &[1.0_f32, 2.0, 3.0, 4.0])?)
//!     .ret(Shape::new(DType::F32, [1, 3])?)
//!     .run()
//!     .unwrap_err();
//! assert_eq!(error.message(), "pool (execute): `y`: expected 2 along dimension 1, got 3 in [1, 3]");
//! # Ok::<(), xla_ffi::Error>(())
//! ```

use crate::error::{Error, Result};
use crate::frame::element::{DataTypes, name as dtype_name};
use xla_ffi_sys::XLA_FFI_DataType;

#[cold]
fn wrong(text: String) -> Error {
    Error::invalid_argument(text)
}

/// Checks that the element type is one of `allowed`.
///
/// ```
/// use xla_ffi::{DataType, matching::dtype_in};
///
/// let floats = [DataType::F32, DataType::F64];
/// assert!(dtype_in("x", DataType::F32, &floats).is_ok());
/// let error = dtype_in("x", DataType::S32, &floats).unwrap_err();
/// assert_eq!(error.message(), "`x`: expected F32 or F64, got S32");
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the element type is not in
/// `allowed`.
pub fn dtype_in(name: &str, dtype: XLA_FFI_DataType, allowed: &[XLA_FFI_DataType]) -> Result<()> {
    if allowed.contains(&dtype) {
        return Ok(());
    }
    Err(wrong(format!(
        "`{name}`: expected {}, got {}",
        DataTypes::of(allowed),
        dtype_name(dtype)
    )))
}

/// Checks that two operands have the same element type.
///
/// ```
/// use xla_ffi::{DataType, matching::same_dtype};
///
/// assert!(same_dtype("y", DataType::F32, "x", DataType::F32).is_ok());
/// let error = same_dtype("y", DataType::F64, "x", DataType::F32).unwrap_err();
/// assert_eq!(error.message(), "`y`: expected F32, the element type of `x`, got F64");
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the types differ.
pub fn same_dtype(
    name: &str,
    dtype: XLA_FFI_DataType,
    other: &str,
    other_dtype: XLA_FFI_DataType,
) -> Result<()> {
    if dtype == other_dtype {
        return Ok(());
    }
    Err(wrong(format!(
        "`{name}`: expected {}, the element type of `{other}`, got {}",
        dtype_name(other_dtype),
        dtype_name(dtype)
    )))
}

/// Checks that the rank is one of `allowed`, and returns the rank.
///
/// ```
/// use xla_ffi::matching::rank_in;
///
/// assert_eq!(rank_in("x", &[2, 3], &[1, 2]), Ok(2));
/// let error = rank_in("x", &[2, 3, 4], &[1, 2]).unwrap_err();
/// assert_eq!(error.message(), "`x`: expected rank 1 or 2, got rank 3 [2, 3, 4]");
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the rank is not in
/// `allowed`.
pub fn rank_in(name: &str, dims: &[usize], allowed: &[usize]) -> Result<usize> {
    if allowed.contains(&dims.len()) {
        return Ok(dims.len());
    }
    let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
    Err(wrong(format!(
        "`{name}`: expected rank {}, got rank {} {dims:?}",
        allowed.join(" or "),
        dims.len()
    )))
}

/// Returns the size of dimension `axis` of an operand.
///
/// ```
/// use xla_ffi::matching::dim;
///
/// assert_eq!(dim("x", &[2, 3], 1), Ok(3));
/// let error = dim("x", &[2, 3], 2).unwrap_err();
/// assert_eq!(error.message(), "`x`: has no dimension 2, its shape is [2, 3]");
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the operand has no
/// dimension `axis`.
pub fn dim(name: &str, dims: &[usize], axis: usize) -> Result<usize> {
    dims.get(axis).copied().ok_or_else(|| {
        wrong(format!(
            "`{name}`: has no dimension {axis}, its shape is {dims:?}"
        ))
    })
}

/// Checks that dimension `axis` of an operand has size `size`.
///
/// ```
/// use xla_ffi::matching::dim_is;
///
/// assert!(dim_is("x", &[2, 3], 1, 3).is_ok());
/// let error = dim_is("x", &[2, 3], 1, 4).unwrap_err();
/// assert_eq!(error.message(), "`x`: expected 4 along dimension 1, got 3 in [2, 3]");
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the size differs or the operand has no
/// dimension `axis`.
pub fn dim_is(name: &str, dims: &[usize], axis: usize, size: usize) -> Result<()> {
    let got = dim(name, dims, axis)?;
    if got == size {
        return Ok(());
    }
    Err(wrong(format!(
        "`{name}`: expected {size} along dimension {axis}, got {got} in {dims:?}"
    )))
}

/// Checks that two operands have the same shape.
///
/// ```
/// use xla_ffi::matching::same_shape;
///
/// assert!(same_shape("y", &[2, 3], "x", &[2, 3]).is_ok());
/// let error = same_shape("y", &[3], "x", &[2, 3]).unwrap_err();
/// assert_eq!(error.message(), "`y`: expected shape [2, 3], that of `x`, got [3]");
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the shapes differ.
pub fn same_shape(name: &str, dims: &[usize], other: &str, other_dims: &[usize]) -> Result<()> {
    if dims == other_dims {
        return Ok(());
    }
    Err(wrong(format!(
        "`{name}`: expected shape {other_dims:?}, that of `{other}`, got {dims:?}"
    )))
}

/// Checks that an operand has the dimensions `expected`, for shapes that a contract cannot express.
///
/// ```
/// use xla_ffi::{matching::shape_is, prelude::*};
///
/// #[xla_ffi::handler]
/// fn halves(x: Buffer<f32, 1>, mut y: Out<f32, 1>) -> Result<()> {
///     shape_is("y", y.dims(), &[x.len() / 2])?;
///     y.copy_from(&x[..x.len() / 2])
/// }
///
/// let error = shape_is("y", &[3], &[2]).unwrap_err();
/// assert_eq!(error.message(), "`y`: expected shape [2], got [3]");
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the dimensions differ.
pub fn shape_is(name: &str, dims: &[usize], expected: &[usize]) -> Result<()> {
    if dims == expected {
        return Ok(());
    }
    Err(wrong(format!(
        "`{name}`: expected shape {expected:?}, got {dims:?}"
    )))
}
