//! The bytes that an adapted function is given as `opaque`.

use xla_ffi::AttrType;
use xla_ffi::Element;
use xla_ffi::{AttrValue, Attribute};

/// Bytes that an adapted function gets as `opaque`, written by [`Describe`](super::Describe).
///
/// ```
/// use xla_ffi_legacy::Descriptor;
///
/// let mut opaque = Descriptor::new();
/// opaque.push(2_i32);
/// opaque.extend(b"ab");
/// assert_eq!(opaque.as_bytes(), b"\x02\0\0\0ab");
/// ```
#[derive(Debug, Default)]
pub struct Descriptor(Vec<u8>);

impl Descriptor {
    /// No bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends a number as it lies in memory.
    pub fn push<T: Element>(&mut self, value: T) {
        // SAFETY: elements have no padding; the bytes of a value.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) };
        self.extend(bytes);
    }

    /// What has been appended.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of an attribute: of a string, or of an array of any type.
#[derive(Clone, Copy, Debug)]
pub struct Opaque<'f>(&'f [u8]);

impl<'f> Opaque<'f> {
    /// No bytes.
    pub const EMPTY: Self = Self(&[]);

    /// The bytes.
    #[must_use]
    pub fn as_bytes(self) -> &'f [u8] {
        self.0
    }
}

impl<'f> Attribute<'f> for Opaque<'f> {
    const TYPE: AttrType = AttrType::Any;

    fn decode(value: AttrValue<'f>, _narrow: bool) -> Option<Self> {
        value.as_bytes().map(Self)
    }
}
