//! Parameters for extensions of the ABI, custom options, and the raw call.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::{Context, context};
use crate::attribute::dictionary::Dictionary;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host::Host;
use xla_ffi_sys::{Feature, Revision, XLA_FFI_Api, XLA_FFI_Extension, XLA_FFI_InvokeContext};

/// The extension number `ID` of the call's context: 128 is the record extension, 129 the
/// collectives extension.
///
/// Available since r9 (jaxlib 0.11.1). A call without the extension is rejected, unless the
/// parameter is an `Option`.
///
/// ```
/// use xla_ffi::{prelude::*, ext::Extension};
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
/// # use xla_ffi::embed::{self, DType, Shape};
/// # use xla_ffi_runtime::{Collectives, Revision};
/// let call = || embed::call::<has_collectives>("{}")?.ret(Shape::new(DType::S32, [])?).run();
/// assert_eq!(call()?.rets[0].to_vec(), Some(vec![-1]));
///
/// let collectives = Collectives::new(Revision::R10, |_| std::ptr::null_mut())?;
/// let call = embed::call::<has_collectives>("{}")?.collectives(collectives);
/// let outcome = call.ret(Shape::new(DType::S32, [])?).run()?;
/// assert_eq!(outcome.rets[0].to_vec(), Some(vec![2]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Extension<'f, const ID: i64> {
    raw: NonNull<XLA_FFI_Extension>,
    _call: PhantomData<&'f ()>,
}

impl<const ID: i64> Extension<'_, ID> {
    /// Returns the head of the extension. The fields after the head depend on the extension's
    /// version.
    #[must_use]
    pub fn as_raw(&self) -> *const XLA_FFI_Extension {
        self.raw.as_ptr()
    }

    /// Returns the extension's major and minor version.
    #[must_use]
    pub fn version(&self) -> (i32, i32) {
        // SAFETY: the host keeps the extension alive during the call, and its head has the same
        // layout in all versions.
        let id = unsafe { (*self.raw.as_ptr()).id };
        (id.major_version, id.minor_version)
    }
}

impl<'f, const ID: i64> Context<'f> for Extension<'f, ID> {
    const NAME: &'static str = "extension";
    const SINCE: Revision = Feature::Extensions.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the context belongs to the call frame.
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

/// The custom options that the caller passes with each execution: a dictionary, which may be empty.
///
/// Available since r10 (jaxlib 0.12.0).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[xla_ffi::handler]
/// fn verbosity(options: Option<CustomOptions>, mut y: Out<i64, 0>) -> Result<()> {
///     let level = options.map(|options| options.get_optional("verbosity")).transpose()?;
///     y.fill(level.flatten().unwrap_or(0));
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, Attributes, DType, Shape};
/// let options = Attributes::new().with("verbosity", 2_i64);
/// let call = embed::call::<verbosity>("{}")?
///     .custom_options(&options)
///     .ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2_i64]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CustomOptions<'f>(Dictionary<'f>);

impl<'f> Deref for CustomOptions<'f> {
    type Target = Dictionary<'f>;

    fn deref(&self) -> &Dictionary<'f> {
        &self.0
    }
}

impl<'f> Context<'f> for CustomOptions<'f> {
    const NAME: &'static str = "custom_options";
    const SINCE: Revision = Feature::CustomOptions.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        // SAFETY: the context belongs to the frame and lives as long as the frame.
        let raw = unsafe { frame.host().custom_options(frame.ctx()) }?;
        Ok(Self(Dictionary::new(raw)))
    }
}

context!(CustomOptions<'f>);

/// The host's function table and the call's context, for functions that this crate does not wrap.
///
/// Available since r0 (jaxlib 0.4.31). The length of the table depends on the host. Before you read
/// a function from the table, check [`Host::has`].
///
/// ```
/// use xla_ffi::{prelude::*, ext::RawCall};
///
/// #[xla_ffi::handler]
/// fn version(call: RawCall, mut minor: Out<i32, 0>) -> Result<()> {
///     let (_, number) = call.host().version();
///     minor.fill(number);
///     assert!(!call.api().is_null() && !call.context().is_null());
///     Ok(())
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// let call = embed::call::<version>("{}")?.ret(Shape::new(DType::S32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawCall<'f> {
    host: Host,
    ctx: *mut XLA_FFI_InvokeContext,
    _call: PhantomData<&'f ()>,
}

impl RawCall<'_> {
    /// Returns the host of the call.
    #[must_use]
    pub fn host(self) -> Host {
        self.host
    }

    /// Returns the host's function table, which lives as long as the host.
    #[must_use]
    pub fn api(self) -> *const XLA_FFI_Api {
        self.host.api()
    }

    /// Returns the context of the call, which is valid until the call ends.
    #[must_use]
    pub fn context(self) -> *mut XLA_FFI_InvokeContext {
        self.ctx
    }
}

impl<'f> Context<'f> for RawCall<'f> {
    const NAME: &'static str = "raw";
    const SINCE: Revision = Revision::R0;

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        Ok(Self {
            host: frame.host(),
            ctx: frame.ctx(),
            _call: PhantomData,
        })
    }
}

context!(RawCall<'f>);
