//! Handlers that are registered when the program starts.

/// Registers a handler that is linked into the program, for
/// [`Runtime::register_static`](super::Runtime::register_static): its name and platform for custom
/// calls, and the function or the type with its stages.
///
/// ```
/// use xla_ffi::{internal::{self, Runtime}, prelude::*};
///
/// #[xla_ffi::handler(shape = "... -> ...")]
/// fn twice(x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
///     y.write_with(|i| 2.0 * x[i]);
///     Ok(())
/// }
/// internal::register_handler!("my_server.twice", "Host", twice);
///
/// # fn main() -> Result<(), internal::Error> {
/// let runtime = Runtime::default();
/// runtime.register_static()?;
/// assert!(runtime.find("my_server.twice", "Host").is_ok());
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use crate::__register_handler as register_handler;

#[doc(hidden)]
#[macro_export]
macro_rules! __register_handler {
    ($name:expr, $platform:expr, $handler:ty $(,)?) => {
        $crate::internal::__statics::submit! {
            $crate::internal::StaticHandler::new(
                $name,
                $platform,
                $crate::internal::bundle::<$handler>,
                $crate::internal::Traits::NONE,
            )
        }
    };
}
