//! What is made once for each context.

use std::sync::{Arc, PoisonError, RwLock};

use super::context::CudaContext;
use crate::error::Result;

/// Something made once for each context: a loaded module, a handle of cuBLAS or cuDNN. It may lie in
/// a handler's state or in a `static`.
///
/// ```no_run
/// use std::sync::Mutex;
/// use xla_ffi::cuda::{PerContext, Stream};
/// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::{Error, Result}};
///
/// /// A handle of a library, which is bound to the context that it was made in.
/// struct Blas(*mut std::ffi::c_void);
/// unsafe impl Send for Blas {}
///
/// struct Matmul {
///     // A lock: setting the handle's stream and calling the library belong together.
///     blas: PerContext<Mutex<Blas>>,
/// }
///
/// #[xla_ffi::stateful(platforms = ["cuda"])]
/// impl Matmul {
///     fn instantiate() -> Result<Self> {
///         Ok(Self { blas: PerContext::new() })
///     }
///
///     fn execute(&self, a: DeviceBuffer<f32, 2>, b: DeviceBuffer<f32, 2>, c: DeviceOut<f32, 2>, stream: Stream) -> Result<()> {
///         let context = stream.context()?;
///         let blas = self.blas.get_or_make(context, || {
///             let _current = context.make_current()?;
///             // … cublasCreate …
///             # let handle = std::ptr::null_mut();
///             Ok(Mutex::new(Blas(handle)))
///         })?;
///         let handle = blas.lock().map_err(|_| Error::internal("a call before this one panicked"))?;
///         // … cublasSetStream(handle.0, stream.as_raw()), cublasSgemm(…) …
///         # let _ = (&handle.0, a, b, c);
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug)]
pub struct PerContext<T> {
    made: RwLock<Vec<(CudaContext, Arc<T>)>>,
}

impl<T> PerContext<T> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            made: RwLock::new(Vec::new()),
        }
    }

    /// What was made for `context`; `make` makes it the first time. Other threads that ask for the
    /// same meanwhile wait.
    ///
    /// # Errors
    /// What `make` answers; the next call tries again.
    pub fn get_or_make(
        &self,
        context: CudaContext,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        if let Some(known) = self.look(context, Arc::clone) {
            return Ok(known);
        }
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = made.iter().find(|(known, _)| *known == context) {
            return Ok(known.clone());
        }
        let new = Arc::new(make()?);
        made.push((context, new.clone()));
        Ok(new)
    }

    /// Looks at what was made, if it was.
    #[inline]
    pub(super) fn look<R>(
        &self,
        context: CudaContext,
        look: impl FnOnce(&Arc<T>) -> R,
    ) -> Option<R> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let found = made.iter().find(|(known, _)| *known == context);
        found.map(|(_, made)| look(made))
    }
}

impl<T> Default for PerContext<T> {
    fn default() -> Self {
        Self::new()
    }
}
