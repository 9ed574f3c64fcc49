//! Extensions of the context.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Context, context};
use crate::frame::Frame;
use crate::error::{Error, Result};
use xla_ffi_sys::{Feature, Revision, XLA_FFI_Extension};

/// The extension of the context with number `ID`, 128 for recording and 129 for collectives.
/// Since r9 (jaxlib 0.11.1). A context without it refuses the call, unless the parameter is an
/// `Option`.
///
/// ```
/// use xla_ffi::{Extension, prelude::*};
///
/// #[xla_ffi::handler]
/// fn has_collectives(extension: Option<Extension<129>>, mut y: Out<i32, 0>) -> Result<()> {
///     y.fill(match extension {
///         // Which functions follow its head is said by the version.
///         Some(extension) if !extension.as_raw().is_null() => extension.version().1,
///         _ => -1,
///     });
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape};
/// # use xla_ffi_runtime::{Collectives, Revision};
/// let call = || internal::call::<has_collectives>("{}")?.ret(Shape::new(DType::S32, [])?).run();
/// assert_eq!(call()?.rets[0].to_vec(), Some(vec![-1]));
///
/// let collectives = Collectives::new(Revision::R10, |_| std::ptr::null_mut())?;
/// let call = internal::call::<has_collectives>("{}")?.collectives(collectives);
/// let outcome = call.ret(Shape::new(DType::S32, [])?).run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![2]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Extension<'f, const ID: i64> {
    raw: NonNull<XLA_FFI_Extension>,
    _call: PhantomData<&'f ()>,
}

impl<const ID: i64> Extension<'_, ID> {
    /// The head of the extension; what follows it depends on its version.
    #[must_use]
    pub fn as_raw(&self) -> *const XLA_FFI_Extension {
        self.raw.as_ptr()
    }

    /// Major and minor version.
    #[must_use]
    pub fn version(&self) -> (i32, i32) {
        // SAFETY: the host's extension lives as long as the call; its head never changes.
        let id = unsafe { (*self.raw.as_ptr()).id };
        (id.major_version, id.minor_version)
    }
}

impl<'f, const ID: i64> Context<'f> for Extension<'f, ID> {
    const NAME: &'static str = "extension";
    const SINCE: Revision = Feature::Extensions.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the frame's own context.
        let raw = unsafe { frame.host().extension(frame.ctx(), ID) }?;
        let raw = NonNull::new(raw.cast_mut())
            .ok_or_else(|| Error::not_found(format!("the context has no extension {ID}")))?;
        Ok(Self {
            raw,
            _call: PhantomData,
        })
    }
}

context!({const ID: i64} Extension<'f, ID>);
