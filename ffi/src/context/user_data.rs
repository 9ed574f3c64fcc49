//! User data: objects that a program attaches to an execution, for its handlers.

use std::ops::Deref;

use super::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host_type::{HostType, KnownType};
use xla_ffi_sys::{Feature, Revision};

/// User data: an object that the program that embeds XLA passes to its handlers. The embedded
/// runtime and PJRT support user data; JAX does not. Available since r0 (jaxlib 0.4.31).
///
/// ```
/// use xla_ffi::prelude::*;
///
/// #[derive(xla_ffi::HostType)]
/// struct Store {
///     scale: f32,
/// }
///
/// #[xla_ffi::handler]
/// fn scaled(x: Buffer<f32>, store: UserData<Store>, mut y: Out<f32>) -> Result<()> {
///     y.write_iter(x.iter().map(|x| x * store.scale))
/// }
///
/// # use xla_ffi::embed::{self, DType, Runtime, Shape, Tensor};
/// // The program that embeds the host.
/// let runtime = Runtime::default();
/// let data = embed::UserData::new(&runtime).with(Store { scale: 3.0 })?;
/// let handler = runtime.handler("scaled", embed::bundle::<scaled>())?;
/// let call = handler
///     .instantiate(&embed::Attributes::new())?
///     .call()
///     .user_data(data)
///     .arg(Tensor::from_slice([1], &[2.0_f32])?)
///     .ret(Shape::new(DType::F32, [1])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![6.0_f32]));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct UserData<'f, T>(&'f T);

impl<T> Clone for UserData<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for UserData<'_, T> {}

impl<T> Deref for UserData<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl<'f, T: HostType> Context<'f> for UserData<'f, T> {
    const NAME: &'static str = "user_data";
    const SINCE: Revision = Feature::UserData.since();
    const TYPE: Option<fn() -> &'static KnownType> = Some(|| T::registration().erased());

    #[inline]
    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        Self::find(frame)?.ok_or_else(|| absent(T::registration().erased()))
    }

    #[inline]
    fn find(frame: &Frame<'f>) -> Result<Option<Self>> {
        let host = frame.host();
        let id = T::registration().erased().id(host)?;
        // SAFETY: the context belongs to the call frame.
        let data = match unsafe { host.user_data(frame.ctx(), id) } {
            Ok(data) => data,
            Err(error) if host.is_absent_error(&error, "not found in execution context") => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // SAFETY: the type's number identifies T (the invariant of `Registration`), and the host
        // keeps the object alive until the execution ends.
        let object = unsafe { data.cast::<T>().as_ref() };
        object
            .map(|object| Some(Self(object)))
            .ok_or_else(|| Error::internal("the context has a null object for this type"))
    }
}

#[cold]
fn absent(of: &KnownType) -> Error {
    Error::not_found(format!(
        "the program gave this call no user data of the type `{}`{}",
        of.name(),
        if of.is_of_image() {
            "; to take an object of another program or library, share the type: #[host_type(unsafe(name = \"…\"))]"
        } else {
            ""
        }
    ))
}

context!({T: HostType} UserData<'f, T>);
