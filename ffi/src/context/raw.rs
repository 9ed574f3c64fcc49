//! The bare call, for what this crate does not wrap.

use std::marker::PhantomData;

use super::{Context, context};
use crate::frame::Frame;
use crate::frame::host::Host;
use crate::error::Result;
use xla_ffi_sys::{Revision, XLA_FFI_Api, XLA_FFI_InvokeContext};

/// The host's function table and the call's context, for functions that this crate does not wrap.
/// Since r0.
///
/// How long the table is depends on the host: ask [`Host::has`] before taking a function out of it.
///
/// ```
/// use xla_ffi::{RawCall, prelude::*};
///
/// #[xla_ffi::handler]
/// fn version(call: RawCall, mut minor: Out<i32, 0>) -> Result<()> {
///     let (_, number) = call.host().version();
///     minor.fill(number);
///     assert!(!call.api().is_null() && !call.context().is_null());
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Shape};
/// let call = internal::call::<version>("{}")?.ret(Shape::new(DType::S32, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![5]));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawCall<'f> {
    host: Host,
    ctx: *mut XLA_FFI_InvokeContext,
    _call: PhantomData<&'f ()>,
}

impl RawCall<'_> {
    /// The host.
    #[must_use]
    pub fn host(self) -> Host {
        self.host
    }

    /// The host's function table, which lives as long as the host.
    #[must_use]
    pub fn api(self) -> *const XLA_FFI_Api {
        self.host.api()
    }

    /// The context of the call, which ends with the call.
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
