//! User data as the program that embeds the runtime makes it.

use std::sync::Arc;

use super::{Error, Runtime};
use crate::frame::host_type::UserType;

/// Objects that the program hands to its handlers, which take them as
/// [`UserData<T>`](crate::UserData): made for one runtime, before or after the handlers are registered
/// there. Clones are the same objects, which live until the last call that has them is over.
///
/// ```
/// use xla_ffi::{internal::{self, DType, Runtime, Shape}, prelude::*};
///
/// #[derive(xla_ffi::UserType)]
/// struct Seed(i64);
///
/// #[xla_ffi::handler]
/// fn seed(seed: UserData<Seed>, mut y: Out<i64, 0>) -> Result<()> {
///     y.fill(seed.0);
///     Ok(())
/// }
///
/// let runtime = Runtime::default();
/// let data = internal::UserData::new(&runtime).with(Seed(7))?;
/// let handler = runtime.handler("seed", internal::bundle::<seed>())?;
/// let call = handler.instantiate(&internal::Attributes::new())?.call();
/// let call = call.user_data(data.clone()).ret(Shape::new(DType::S64, [])?);
/// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![7_i64]));
/// assert_eq!(data.get::<Seed>().map(|seed| seed.0), Some(7));
/// # Ok::<(), internal::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UserData(Arc<xla_ffi_runtime::UserData>);

impl UserData {
    /// No objects yet, for calls of this runtime: those of another one refuse it.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self(Arc::new(xla_ffi_runtime::UserData::new(runtime)))
    }

    /// The same with one more object.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of one type, `FAILED_PRECONDITION` when there are clones
    /// already or the runtime is gone. The value is dropped.
    pub fn with<T: UserType>(mut self, value: T) -> Result<Self, Error> {
        let objects = Arc::get_mut(&mut self.0).ok_or_else(|| {
            Error::new(
                super::Code::FailedPrecondition,
                "user data that has clones does not change: add every object first",
            )
        })?;
        let known = T::host_type().erased();
        match known.chosen() {
            // SAFETY: the number stands for `T` alone, by the invariant of its `HostType`.
            Some(number) => unsafe { objects.insert_numbered(known.name(), number, value) },
            // SAFETY: the name stands for `T` alone, by the invariant of its `HostType`.
            None => unsafe { objects.insert(known.name(), value) },
        }?;
        Ok(self)
    }

    /// The object of this type.
    #[must_use]
    pub fn get<T: UserType>(&self) -> Option<&T> {
        self.0.get()
    }
}

impl From<UserData> for Arc<xla_ffi_runtime::UserData> {
    fn from(data: UserData) -> Self {
        data.0
    }
}
