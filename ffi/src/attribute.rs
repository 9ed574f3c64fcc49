//! Attributes: values that the caller sets when the program is built.

pub(crate) mod derive_attribute;
pub(crate) mod dictionary;

use std::borrow::Cow;

use crate::attribute::dictionary::Dictionary;
use crate::error::problems::Problems;
use crate::frame::Frame;
use crate::frame::element::{Element, Pred, Wide, name, put_numpy, widens};
use crate::frame::raw_attribute::{RawArray, RawAttr, RawScalar};
use crate::param::bind::{At, Bind};
use crate::param::{AttrType, Param};
#[cfg(unix)]
use std::ffi::CStr;
use xla_ffi_sys::XLA_FFI_DataType;

/// A type that an attribute can be decoded into.
///
/// Implement this trait to use your own type as a parameter of handlers. For structs and enumerations, derive the
/// trait with `#[derive(Attribute)]`.
///
/// Numbers, `bool`, `&str`, `String`, slices, arrays and vectors of numbers, [`Dictionary`], [`Pointer`] and
/// [`AttrValue`] implement this trait. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::{Attribute, prelude::*, bind::{AttrType, AttrValue}};
///
/// struct Degrees(f64);
///
/// impl<'f> Attribute<'f> for Degrees {
///     const TYPE: AttrType = <f64 as Attribute>::TYPE;
///
///     fn decode(value: AttrValue<'f>, narrow: bool) -> Option<Self> {
///         f64::decode(value, narrow).map(Degrees)
///     }
/// }
///
/// #[xla_ffi::handler]
/// fn rotate(angle: Degrees, mut y: Out<f64, 0>) -> Result<()> {
///     y.fill(angle.0.to_radians());
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let on = |attrs| embed::call::<rotate>(attrs)?.ret(Shape::new(DType::F64, [])?).run();
/// assert_eq!(on("{angle = 0.0}")?.rets[0].to_vec(), Some(vec![0.0]));
///
/// // What `explain` says by itself; a type that knows better says it in its own words.
/// let error = on("{angle = true}").unwrap_err();
/// assert!(error.message().contains("attribute `angle`: expected F64, got PRED"));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub trait Attribute<'f>: Sized {
    /// The attribute's type in the manifest.
    const TYPE: AttrType;

    /// The known entries if the attribute is a dictionary. The manifest contains the types of the entries.
    const MEMBERS: &'static [Param] = &[];

    /// Decodes a value. Returns `None` if the value has a different type. With `narrow`, values of wider types are
    /// also accepted if they fit.
    fn decode(value: AttrValue<'f>, narrow: bool) -> Option<Self>;

    /// Explains why `value` was not accepted. The text follows "attribute `name`: " in the error message.
    #[must_use]
    fn explain(value: AttrValue<'f>, _narrow: bool, _name: &str) -> String {
        expected(Self::TYPE, value)
    }
}

/// An attribute of any type, which the handler inspects itself. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::{DataType, prelude::*, bind::AttrValue};
///
/// #[xla_ffi::handler]
/// fn size(value: AttrValue, mut y: Out<u64, 0>) -> Result<()> {
///     let size = match (value.get::<&str>(), value.get::<&[i64]>()) {
///         (Some(text), _) => text.len(),
///         (_, Some(list)) => list.len(),
///         _ if value.dtype() == Some(DataType::F64) => 8,
///         _ => return Err(Error::invalid_argument(format!("got {}", value.describe()))),
///     };
///     y.fill(size as u64);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let on = |attrs| embed::call::<size>(attrs)?.ret(Shape::new(DType::U64, [])?).run();
/// assert_eq!(on("{value = \"four\"}")?.rets[0].to_vec(), Some(vec![4_u64]));
/// assert_eq!(on("{value = array<i64: 1, 2, 3>}")?.rets[0].to_vec(), Some(vec![3_u64]));
/// assert_eq!(on("{value = true}").unwrap_err().message(), "size (execute): got PRED");
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct AttrValue<'f>(pub(crate) RawAttr<'f>);

// SAFETY: the host does not write attributes during a call, so threads can share them.
unsafe impl Send for AttrValue<'_> {}
// SAFETY: the host does not write attributes during a call, so threads can share them.
unsafe impl Sync for AttrValue<'_> {}

impl<'f> AttrValue<'f> {
    /// Returns the bytes of a string or of an array of any type. Used by `xla-ffi-legacy`.
    #[doc(hidden)]
    #[must_use]
    pub fn as_bytes(self) -> Option<&'f [u8]> {
        self.0.string().or_else(|| self.0.array()?.bytes())
    }

    /// Returns the value as a `T`, or `None` if the value has a different type.
    #[must_use]
    pub fn get<T: Attribute<'f>>(self) -> Option<T> {
        T::decode(self, false)
    }

    /// Returns the element type of a scalar or an array, and `None` for strings and dictionaries.
    #[must_use]
    pub fn dtype(self) -> Option<XLA_FFI_DataType> {
        self.0
            .scalar()
            .map(|scalar| scalar.dtype())
            .or_else(|| self.0.array().map(|array| array.dtype()))
    }

    /// Describes the type of the value for error messages: `F64`, `S64[3]`, `a string`.
    #[must_use]
    pub fn describe(self) -> String {
        if let Some(scalar) = self.0.scalar() {
            name(scalar.dtype()).into_owned()
        } else if let Some(array) = self.0.array() {
            let mut text = name(array.dtype()).into_owned();
            crate::error::problems::dims(&mut text, &[array.len() as i64]);
            text
        } else if self.0.string().is_some() {
            "a string".to_owned()
        } else if self.0.dictionary().is_some() {
            "a dictionary".to_owned()
        } else {
            "a null pointer".to_owned()
        }
    }
}

impl std::fmt::Debug for AttrValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Calls a generic function with the Rust type of `$dtype`, or evaluates to `None` if that type is not numeric.
macro_rules! of_numbers {
    ($dtype:expr, $function:ident($source:expr)) => {{
        use XLA_FFI_DataType as D;
        match $dtype {
            D::S8 => $function::<i8>($source),
            D::S16 => $function::<i16>($source),
            D::S32 => $function::<i32>($source),
            D::S64 => $function::<i64>($source),
            D::U8 => $function::<u8>($source),
            D::U16 => $function::<u16>($source),
            D::U32 => $function::<u32>($source),
            D::U64 => $function::<u64>($source),
            D::F32 => $function::<f32>($source),
            D::F64 => $function::<f64>($source),
            _ => None,
        }
    }};
}

impl AttrValue<'_> {
    /// Returns the value of a numeric scalar, or `None` for other attributes.
    pub(crate) fn number(self) -> Option<Wide> {
        let scalar = self.0.scalar()?;
        of_numbers!(scalar.dtype(), wide(scalar))
    }
}

/// Writes the name of an expected attribute type.
pub(crate) fn put_type(text: &mut String, ty: AttrType) {
    match ty {
        AttrType::Scalar(dtype) => text.push_str(&name(dtype)),
        AttrType::Array(dtype) => crate::error::problems::put(text, &[&name(dtype), "[?]"]),
        AttrType::String => text.push_str("a string"),
        AttrType::Dictionary => text.push_str("a dictionary"),
        AttrType::Any => text.push_str("another value"),
    }
}

/// Explains a type mismatch: the expected type, the actual type, and a Python conversion if there is a conversion
/// that keeps the value.
#[cold]
fn expected(ty: AttrType, value: AttrValue<'_>) -> String {
    let mut text = String::from("expected ");
    put_type(&mut text, ty);
    if ty == AttrType::String && value.0.string().is_some() {
        text.push_str(" in UTF-8");
    }
    crate::error::problems::put(&mut text, &[", got ", &value.describe()]);
    match (ty, value.number(), value.0.array()) {
        (AttrType::Scalar(dtype), Some(number), _) => {
            let whole = match number {
                Wide::Float(float) if float as i128 as f64 == float => Wide::Int(float as i128),
                _ => number,
            };
            if of_numbers!(dtype, fits((number, whole))) == Some(false) {
                does_not_fit(&mut text, number);
            } else if dtype != XLA_FFI_DataType::PRED && put_numpy(&mut text, "; pass ", dtype) {
                text.push_str("(value)");
            }
        }
        (AttrType::Array(dtype), _, Some(array))
            if widens(array.dtype(), dtype)
                && put_numpy(&mut text, "; pass np.asarray(value, ", dtype) =>
        {
            text.push(')');
        }
        _ => {}
    }
    text
}

fn does_not_fit(text: &mut String, number: Wide) {
    text.push_str("; ");
    push_number(text, number);
    text.push_str(" does not fit");
}

/// Returns true if the element type `T` can represent the number. Rounding of floats is ignored.
fn fits<T: Element>((number, whole): (Wide, Wide)) -> Option<bool> {
    Some(T::narrowed(number).is_some() || T::narrowed(whole).is_some())
}

/// Writes a number as 64-bit, because formatting 128-bit integers would add code to every library.
pub(crate) fn push_number(text: &mut String, number: Wide) {
    match number {
        Wide::Int(int) if int < 0 => crate::error::problems::number(text, int as i64),
        Wide::Int(int) => text.push_str(&(int as u64).to_string()),
        Wide::Float(float) => push_float(text, float),
    }
}

/// Writes a float with nine digits, by C's `snprintf`. The exact formatting of `core` would make a library of one
/// handler a tenth larger.
#[cfg(unix)]
fn push_float(text: &mut String, float: f64) {
    let mut shown = [0_u8; 32];
    let place = shown.as_mut_ptr().cast();
    // SAFETY: the format consumes one double, and `snprintf` writes at most `shown.len()` bytes, including the NUL.
    unsafe { libc::snprintf(place, shown.len(), c"%.9g".as_ptr(), float) };
    if let Ok(shown) = CStr::from_bytes_until_nul(&shown) {
        text.push_str(&shown.to_string_lossy());
    }
}

#[cfg(not(unix))]
fn push_float(text: &mut String, float: f64) {
    text.push_str(&float.to_string());
}

// SAFETY: an attribute does not access operands.

unsafe impl<'f, A: Attribute<'f>> Bind<'f> for A {
    const PARAM: Param = Param::attribute(A::TYPE).with_members(A::MEMBERS);

    #[inline(always)]
    fn bind(frame: &Frame<'f>, at: &At) -> Option<Self> {
        let value = AttrValue(frame.attrs().get(at.param.name, at.attr)?);
        if !at.param.range.contains(Some(value)) {
            return None;
        }
        A::decode(value, at.param.narrow)
    }

    #[cold]
    fn explain(frame: &Frame<'f>, at: &At, problems: &mut Problems<'_>) {
        explain_attr::<A>(frame, at, problems);
    }
}

/// Reports the problem of one attribute.
#[cold]
pub(crate) fn explain_attr<'f, A: Attribute<'f>>(
    frame: &Frame<'f>,
    at: &At,
    problems: &mut Problems<'_>,
) {
    let name = at.param.name;
    let Some(value) = frame.attrs().get(name, at.attr).map(AttrValue) else {
        return problems.missing("attribute", &at.param);
    };
    if A::decode(value, at.param.narrow).is_none() {
        let why = A::explain(value, at.param.narrow, name);
        problems.push(format!("attribute `{name}`: {why}"));
    } else {
        at.param.range.explain(value, name, problems);
    }
}

fn wide<T: Element + Into<Wide>>(scalar: RawScalar<'_>) -> Option<Wide> {
    scalar.get::<T>().map(Into::into)
}

fn all_wide<T: Element + Into<Wide>>(array: RawArray<'_>) -> Option<Vec<Wide>> {
    Some(array.copied::<T>()?.into_iter().map(Into::into).collect())
}

#[cold]
fn narrow<T: Element>(value: AttrValue<'_>) -> Option<T> {
    T::narrowed(value.number()?)
}

/// Returns the elements of a numeric array, or `None` for other attributes.
#[cold]
fn wide_elements(value: AttrValue<'_>) -> Option<Vec<Wide>> {
    let array = value.0.array()?;
    of_numbers!(array.dtype(), all_wide(array))
}

#[cold]
fn narrow_elements<T: Element>(value: AttrValue<'_>) -> Option<Vec<T>> {
    wide_elements(value)?.into_iter().map(T::narrowed).collect()
}

/// Explains why an array was not accepted.
#[cold]
fn explain_array<T: Element>(value: AttrValue<'_>, narrow: bool) -> String {
    let mut text = expected(AttrType::Array(T::DTYPE), value);
    let wide = wide_elements(value).filter(|_| narrow).unwrap_or_default();
    if let Some(index) = wide.iter().position(|wide| T::narrowed(*wide).is_none()) {
        text.push_str("; element ");
        crate::error::problems::number(&mut text, index as i64);
        text.push_str(" does not fit");
    }
    text
}

macro_rules! scalars {
    ($($ty:ty)*) => {
        $(
            impl<'f> Attribute<'f> for $ty {
                const TYPE: AttrType = AttrType::Scalar(<$ty as Element>::DTYPE);

                #[inline(always)]
                fn decode(value: AttrValue<'f>, narrowing: bool) -> Option<Self> {
                    let exact = value.0.scalar().and_then(|scalar| scalar.get::<Self>());
                    if exact.is_none() && narrowing {
                        return narrow(value);
                    }
                    exact
                }
            }
        )*
    };
}

scalars!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

#[cfg(feature = "complex")]
macro_rules! complex_scalars {
    ($($ty:ty)*) => {
        $(
            impl<'f> Attribute<'f> for num_complex::Complex<$ty> {
                const TYPE: AttrType = AttrType::Scalar(<Self as Element>::DTYPE);

                #[inline(always)]
                fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
                    value.0.scalar()?.get()
                }
            }
        )*
    };
}

#[cfg(feature = "complex")]
complex_scalars!(f32 f64);

impl<'f> Attribute<'f> for bool {
    const TYPE: AttrType = AttrType::Scalar(XLA_FFI_DataType::PRED);

    #[inline(always)]
    fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
        value.0.scalar()?.get::<Pred>().map(Pred::get)
    }
}

impl<'f> Attribute<'f> for &'f str {
    const TYPE: AttrType = AttrType::String;

    #[inline(always)]
    fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
        std::str::from_utf8(value.0.string()?).ok()
    }
}

impl<'f> Attribute<'f> for String {
    const TYPE: AttrType = AttrType::String;

    fn decode(value: AttrValue<'f>, narrow: bool) -> Option<Self> {
        <&str>::decode(value, narrow).map(str::to_owned)
    }
}

impl<'f> Attribute<'f> for Cow<'f, str> {
    const TYPE: AttrType = AttrType::String;

    fn decode(value: AttrValue<'f>, narrow: bool) -> Option<Self> {
        <&str>::decode(value, narrow).map(Cow::Borrowed)
    }
}

impl<'f, T: Element> Attribute<'f> for &'f [T] {
    const TYPE: AttrType = AttrType::Array(T::DTYPE);

    #[inline(always)]
    fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
        value.0.array()?.get()
    }

    fn explain(value: AttrValue<'f>, narrow: bool, _name: &str) -> String {
        let array = value.0.array().filter(|array| array.dtype() == T::DTYPE);
        match array {
            Some(array) if array.data().is_null() => null_array(array.len()),
            Some(array) => format!(
                "its elements are at {:p}, which is not a multiple of {}; take them as a `Vec`",
                array.data(),
                align_of::<T>()
            ),
            None if narrow => {
                expected(Self::TYPE, value) + "; elements are narrowed into a `Vec` only"
            }
            None => expected(Self::TYPE, value),
        }
    }
}

#[cold]
fn null_array(len: usize) -> String {
    format!("an array of {len} elements has a null data pointer")
}

impl<'f, T: Element> Attribute<'f> for Vec<T> {
    const TYPE: AttrType = AttrType::Array(T::DTYPE);

    fn decode(value: AttrValue<'f>, narrowing: bool) -> Option<Self> {
        // The elements of an aligned array, which most arrays are, can be copied at once.
        match <&[T]>::decode(value, narrowing) {
            Some(elements) => Some(elements.to_vec()),
            None => match value.0.array()?.copied() {
                None if narrowing => narrow_elements(value),
                copied => copied,
            },
        }
    }

    fn explain(value: AttrValue<'f>, narrowing: bool, _name: &str) -> String {
        match value.0.array() {
            Some(array) if array.dtype() == T::DTYPE => null_array(array.len()),
            _ => explain_array::<T>(value, narrowing),
        }
    }
}

impl<'f, T: Element, const N: usize> Attribute<'f> for [T; N] {
    const TYPE: AttrType = AttrType::Array(T::DTYPE);

    #[inline(always)]
    fn decode(value: AttrValue<'f>, narrow: bool) -> Option<Self> {
        match <&[T]>::decode(value, narrow) {
            Some(elements) => elements.try_into().ok(),
            None => Vec::decode(value, narrow)?.try_into().ok(),
        }
    }

    fn explain(value: AttrValue<'f>, narrow: bool, name: &str) -> String {
        match value.0.array() {
            Some(array) if <Vec<T>>::decode(value, narrow).is_some() => {
                format!("expected {N} elements, got {}", array.len())
            }
            _ => <Vec<T> as Attribute>::explain(value, narrow, name),
        }
    }
}

impl<'f> Attribute<'f> for Dictionary<'f> {
    const TYPE: AttrType = AttrType::Dictionary;

    #[inline(always)]
    fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
        value.0.dictionary().map(Dictionary::new)
    }
}

impl<'f> Attribute<'f> for AttrValue<'f> {
    const TYPE: AttrType = AttrType::Any;

    #[inline(always)]
    fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
        Some(value)
    }
}

/// An address that the caller passed as an integer attribute. Available since r0 (jaxlib 0.4.31).
///
/// The address is not checked. Dereferencing the address is `unsafe`, and the handler is responsible for its
/// validity.
///
/// ```
/// use xla_ffi::{prelude::*, ext::Pointer};
///
/// #[xla_ffi::handler]
/// fn read(address: Pointer<f64>, mut y: Out<f64, 0>) -> Result<()> {
///     let address = address.as_ptr();
///     if address.is_null() {
///         return Err(Error::invalid_argument("`address` is null"));
///     }
///     // SAFETY: the caller vouches for it.
///     y.fill(unsafe { address.read_unaligned() });
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// static NUMBER: f64 = 2.5;
/// let address = (&raw const NUMBER).expose_provenance();
/// let call = embed::call::<read>(&format!("{{address = {address} : i64}}"))?
///     .ret(Shape::new(DType::F64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2.5]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct Pointer<T>(*mut T);

impl<T> Clone for Pointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pointer<T> {}

impl<T> std::fmt::Debug for Pointer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Pointer<T> {
    /// Returns the address, which may be null.
    #[must_use]
    pub fn as_ptr(self) -> *mut T {
        self.0
    }
}

impl<'f, T> Attribute<'f> for Pointer<T> {
    const TYPE: AttrType = AttrType::Scalar(XLA_FFI_DataType::S64);

    #[inline(always)]
    fn decode(value: AttrValue<'f>, narrow: bool) -> Option<Self> {
        i64::decode(value, narrow)
            .map(|address| Self(std::ptr::with_exposed_provenance_mut(address as usize)))
    }
}
