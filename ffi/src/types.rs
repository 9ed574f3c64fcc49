//! Types of a library that hosts carry: state and user data. Each XLA copy numbers them for
//! itself, so a type keeps one number for each function table it has met.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::error::Result;
use crate::host::Host;
use xla_ffi_sys::XLA_FFI_Api;

/// The number of a type in one XLA copy.
struct Known {
    api: *const XLA_FFI_Api,
    id: i64,
    older: *const Known,
}

/// A type that hosts carry, known to each XLA copy under a number of its own.
pub struct HostType {
    name: &'static str,
    /// Whether the name is made unique in the process, so that a library that is loaded twice
    /// registers two types.
    private: bool,
    deleter: unsafe extern "C" fn(*mut c_void),
    // The XLA copies that know the type, the newest first. Invariant: null, or an entry that is
    // never written or freed again.
    copies: AtomicPtr<Known>,
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
            copies: AtomicPtr::new(std::ptr::null_mut()),
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
        let mut copy = self.copies.load(Ordering::Acquire).cast_const();
        // SAFETY: the invariant on `copies`, for the head and for each `older`.
        while let Some(entry) = unsafe { copy.as_ref() } {
            if std::ptr::eq(entry.api, host.api()) {
                return Some(entry.id);
            }
            copy = entry.older;
        }
        None
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
        let unique;
        let name = if self.private {
            unique = format!("{}@{:x}", self.name, std::ptr::from_ref(self) as usize);
            unique.as_str()
        } else {
            self.name
        };
        let id = host.register_type(name, self.deleter)?;
        // Kept for good, as the host's table is: one entry for each XLA copy in the process.
        let entry = Box::leak(Box::new(Known {
            api: host.api(),
            id,
            older: self.copies.load(Ordering::Relaxed),
        }));
        self.copies.store(entry, Ordering::Release);
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
