//! Types of a library that hosts carry: state and user data. Each XLA copy numbers them for
//! itself, so a type keeps one number for each function table it has met.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

use crate::error::{Error, Result};
use crate::host::Host;
use xla_ffi_sys::XLA_FFI_Api;

/// XLA copies that one process may hold.
const COPIES: usize = 16;

/// A type that hosts carry, known to each XLA copy under a number of its own.
pub struct HostType {
    name: &'static str,
    /// Whether the name is made unique in the process, so that a library that is loaded twice
    /// registers two types.
    private: bool,
    deleter: unsafe extern "C" fn(*mut c_void),
    // Invariant: an entry whose `api` is not null has its `id`; entries are filled in order.
    copies: [(AtomicPtr<XLA_FFI_Api>, AtomicI64); COPIES],
    registration: Mutex<()>,
}

impl std::fmt::Debug for HostType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostType")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Destroys a boxed `T`.
unsafe extern "C" fn drop_box<T>(object: *mut c_void) {
    let dropped = std::panic::catch_unwind(|| {
        // SAFETY: hosts call the deleter once, with the object that was handed over.
        drop(unsafe { Box::from_raw(object.cast::<T>()) });
    });
    if dropped.is_err() {
        eprintln!(
            "xla-ffi: the destructor of {} panicked",
            std::any::type_name::<T>()
        );
    }
}

impl HostType {
    const fn new<T: Send + Sync + 'static>(name: &'static str, private: bool) -> Self {
        Self {
            name,
            private,
            deleter: drop_box::<T>,
            copies: [const { (AtomicPtr::new(std::ptr::null_mut()), AtomicI64::new(0)) }; COPIES],
            registration: Mutex::new(()),
        }
    }

    /// The type of a handler's state. `name` should carry the library's; it is made unique for
    /// each time that the library is loaded.
    #[must_use]
    pub const fn state<T: Send + Sync + 'static>(name: &'static str) -> Self {
        Self::new::<T>(name, true)
    }

    /// A type of user data, known to the host under exactly this name.
    #[must_use]
    pub const fn user_data<T: Send + Sync + 'static>(name: &'static str) -> Self {
        Self::new::<T>(name, false)
    }

    pub(crate) fn deleter(&self) -> unsafe extern "C" fn(*mut c_void) {
        self.deleter
    }

    #[inline]
    fn known(&self, host: Host) -> Option<i64> {
        self.copies
            .iter()
            .find(|(api, _)| std::ptr::eq(api.load(Ordering::Acquire), host.api()))
            .map(|(_, id)| id.load(Ordering::Relaxed))
    }

    /// The type's number in `host`, registered if this is the first time.
    pub(crate) fn id(&self, host: Host) -> Result<i64> {
        match self.known(host) {
            Some(id) => Ok(id),
            None => self.register(host),
        }
    }

    #[cold]
    fn register(&self, host: Host) -> Result<i64> {
        let _one_at_a_time = self
            .registration
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(id) = self.known(host) {
            return Ok(id);
        }
        let Some((api, slot)) = self
            .copies
            .iter()
            .find(|(api, _)| api.load(Ordering::Relaxed).is_null())
        else {
            return Err(Error::resource_exhausted(format!(
                "type `{}`: more than {COPIES} copies of XLA in one process",
                self.name
            )));
        };
        let unique;
        let name = if self.private {
            unique = format!("{}@{:x}", self.name, std::ptr::from_ref(self) as usize);
            unique.as_str()
        } else {
            self.name
        };
        let id = host.register_type(name, self.deleter)?;
        slot.store(id, Ordering::Relaxed);
        api.store(host.api().cast_mut(), Ordering::Release);
        Ok(id)
    }
}

/// The state of a stateful handler; `#[stateful]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of a handler",
    note = "put `#[xla_ffi::stateful]` on an `impl {Self}` block"
)]
pub trait State: Send + Sync + Sized + 'static {
    /// How hosts know the type.
    fn host_type() -> &'static HostType;
}

/// A type whose objects the host's owner hands to handlers as user data; `#[derive(UserType)]`
/// implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of user data",
    note = "derive it: `#[derive(xla_ffi::UserType)]`"
)]
pub trait UserType: Send + Sync + Sized + 'static {
    /// How hosts know the type.
    fn host_type() -> &'static HostType;
}
