//! Attributes that are dictionaries.

use crate::attribute::{AttrValue, Attribute};
use crate::error::{Error, Result};
use crate::frame::raw_attribute::RawAttrs;

/// A dictionary attribute, whose values are looked up by name. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn describe(options: Dictionary, mut n: Out<i64, 0>) -> Result<()> {
///     let depth: i64 = options.get("depth")?;
///     let width = options.get_optional::<i64>("width")?.unwrap_or(1);
///     let lists = options.iter().filter(|(_, value)| value.get::<&[i64]>().is_some()).count();
///     assert_eq!(lists > 0, options.contains("list"));
///     n.fill(100 * depth + 10 * width + lists as i64);
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let on = |attrs| embed::call::<describe>(attrs)?.ret(Shape::new(DType::S64, [])?).run();
/// let outcome = on("{options = {depth = 3 : i64, list = array<i64: 1, 2>}}")?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![311_i64]));
/// assert_eq!(on("{options = {}}").unwrap_err().message(), "describe (execute): no entry `depth`");
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Dictionary<'f> {
    raw: RawAttrs<'f>,
}

// SAFETY: the host does not write attributes during a call, so threads can share them.
unsafe impl Send for Dictionary<'_> {}
// SAFETY: the host does not write attributes during a call, so threads can share them.
unsafe impl Sync for Dictionary<'_> {}

impl<'f> Dictionary<'f> {
    pub(crate) fn new(raw: RawAttrs<'f>) -> Self {
        Self { raw }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the names and values, sorted by the bytes of the names. Invalid UTF-8 in a
    /// name is replaced.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = (std::borrow::Cow<'f, str>, AttrValue<'f>)> + use<'f> {
        let raw = self.raw;
        (0..raw.len()).map(move |index| {
            (
                String::from_utf8_lossy(raw.name(index)),
                AttrValue(raw.value(index)),
            )
        })
    }

    /// Returns true if the dictionary has an entry `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.raw.get(name, 0).is_some()
    }

    /// Returns the entry `name` as a `T`.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`](crate::ErrorCode::NotFound) if there is no such entry, and
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the entry has a
    /// different type.
    pub fn get<T: Attribute<'f>>(&self, name: &str) -> Result<T> {
        match self.get_optional(name)? {
            Some(value) => Ok(value),
            None => Err(Error::not_found(format!("no entry `{name}`"))),
        }
    }

    /// Returns the entry `name` as a `T`, or `None` if there is no such entry.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](crate::ErrorCode::InvalidArgument) if the entry has a
    /// different type.
    pub fn get_optional<T: Attribute<'f>>(&self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.raw.get(name, 0).map(AttrValue) else {
            return Ok(None);
        };
        T::decode(value, false).map(Some).ok_or_else(|| {
            Error::invalid_argument(format!(
                "entry `{name}`: {}",
                T::explain(value, false, name)
            ))
        })
    }

    /// Returns the entry `name`, which is probably at index `cursor`, and advances `cursor`. Used
    /// by `#[derive(Attribute)]`.
    #[doc(hidden)]
    #[inline(always)]
    pub fn next(&self, name: &str, cursor: &mut usize) -> Option<AttrValue<'f>> {
        let value = self.raw.get(name, *cursor).map(AttrValue);
        if value.is_some() {
            *cursor += 1;
        }
        value
    }
}

impl std::fmt::Debug for Dictionary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
