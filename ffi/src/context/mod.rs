//! Parameter types for the parts of a call's context.

mod cancellation;
mod collectives;
mod extension;
mod ids;
pub(crate) mod launch;
mod parallel;
#[cfg(feature = "rayon")]
mod rayon_pool;
mod record;
mod scratch;
mod state;
pub(crate) mod stream;
mod thread_pool;
mod user_data;

pub use cancellation::Cancellation;
pub use collectives::{
    Collectives, DeviceCommunicator, DeviceCommunicatorRequirements, Group, MemoryRegion, Window,
};
pub use extension::{CustomOptions, Extension, RawCall};
pub use ids::{DeviceOrdinal, RunId};
pub use record::{Command, KernelSource, Recorder};
pub use scratch::{Scratch, ScratchBuffer};
pub(crate) use state::store_state;
pub use state::{Initialize, Instantiate, Prepare, State, load_state};
pub use stream::Stream;
pub use thread_pool::ThreadPool;
pub use user_data::UserData;

use crate::error::Result;
use crate::frame::Frame;
use xla_ffi_sys::Revision;

/// A type that is decoded from a part of the call's context.
pub(crate) trait Context<'f>: Sized {
    /// The name of the context part in the manifest.
    const NAME: &'static str;
    /// The oldest revision that supports the context part.
    const SINCE: Revision;
    /// The user type that must be registered with the host before the call, if any.
    const TYPE: Option<fn() -> &'static crate::frame::host_type::KnownType> = None;

    /// Gets the part of the context from the host.
    fn from_frame(frame: &Frame<'f>) -> Result<Self>;

    /// Gets the part of the context, or `None` if it is absent. An error rejects the call, even if
    /// the parameter is an `Option`.
    #[inline]
    fn find(frame: &Frame<'f>) -> Result<Option<Self>> {
        Ok(Self::from_frame(frame).ok())
    }
}

macro_rules! context {
    ($({$($generics:tt)*})? $ty:ty) => {
        // SAFETY: a part of the context does not access operands.
        unsafe impl<'f $(, $($generics)*)?> crate::param::bind::Bind<'f> for $ty {
            const PARAM: crate::param::Param = crate::param::Param::context(
                <Self as crate::context::Context<'f>>::NAME,
                <Self as crate::context::Context<'f>>::SINCE,
            )
            .of_type(<Self as crate::context::Context<'f>>::TYPE);

            #[inline(always)]
            fn bind(frame: &crate::frame::Frame<'f>, _at: &crate::param::bind::At) -> Option<Self> {
                <Self as crate::context::Context<'f>>::from_frame(frame).ok()
            }

            fn explain(
                frame: &crate::frame::Frame<'f>,
                at: &crate::param::bind::At,
                problems: &mut crate::error::problems::Problems<'_>,
            ) {
                if let Err(error) = <Self as crate::context::Context<'f>>::from_frame(frame) {
                    problems.context(&format!("`{}`", at.param.name), &error);
                }
            }

            #[inline(always)]
            fn find(frame: &crate::frame::Frame<'f>, _at: &crate::param::bind::At) -> Option<Option<Self>> {
                <Self as crate::context::Context<'f>>::find(frame).ok()
            }
        }
    };
}
pub(crate) use context;

crate::future::outlives::impl_outlives_call! {
    {} RunId;
    {} DeviceOrdinal;
    {} Cancellation;
    {T} UserData<'_, T>;
    {T, S} State<'_, T, S>;
}
