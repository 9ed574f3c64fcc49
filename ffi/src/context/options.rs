//! The options of one execution.

use std::ops::Deref;

use super::{Context, context};
use crate::attribute::dictionary::Dictionary;
use crate::frame::Frame;
use crate::error::Result;
use xla_ffi_sys::{Feature, Revision};

/// Options that the caller gives with each execution, as a dictionary; empty where there are none.
/// Since r10 (jaxlib 0.12.0).
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
/// # use xla_ffi::internal::{self, Attributes, DType, Shape};
/// let options = Attributes::new().with("verbosity", 2_i64);
/// let call = internal::call::<verbosity>("{}")?
///     .custom_options(&options)
///     .ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![2_i64]));
/// # Ok::<(), internal::Error>(())
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
        // SAFETY: the frame's own context, which lives as long as the frame.
        let raw = unsafe { frame.host().custom_options(frame.ctx()) }?;
        Ok(Self(Dictionary::new(raw)))
    }
}

context!(CustomOptions<'f>);
