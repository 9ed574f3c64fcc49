//! Types of a library that hosts carry: state and user data. Each XLA copy numbers them for
//! itself, so a type keeps one number for each function table it has met.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::error::Result;
use crate::host::Host;
use xla_ffi_sys::XLA_FFI_Api;

/// The number of a type in one XLA copy.
struct Known {
    api: *const XLA_FFI_Api,
    id: i64,
    older: *const Known,
    // Which stages have left state of this type there; see `KnownType::note_stored`.
    stored: AtomicU8,
}

/// A type that hosts carry, known to each XLA copy under a number of its own; made once, as a
/// `static`, for exactly the type `T`. The derive macros make it; by hand it looks like this:
///
/// ```
/// use xla_ffi::{HostType, State, UserType};
///
/// struct Plan(Vec<u64>);
///
/// impl State for Plan {
///     fn host_type() -> &'static HostType<Self> {
///         static TYPE: HostType<Plan> = HostType::state("my_library::Plan");
///         &TYPE
///     }
/// }
///
/// /// An object of the program's, which it has registered with the host itself.
/// struct Store;
///
/// impl UserType for Store {
///     fn host_type() -> &'static HostType<Self> {
///         static TYPE: HostType<Store> = HostType::user_data_with_id("Store", 7);
///         &TYPE
///     }
/// }
///
/// /// One that the host finds by its name.
/// struct Table;
///
/// impl UserType for Table {
///     fn host_type() -> &'static HostType<Self> {
///         static TYPE: HostType<Table> = HostType::user_data("my_library::Table");
///         &TYPE
///     }
/// }
///
/// assert_eq!(Plan::host_type().name(), "my_library::Plan");
/// assert_eq!(Store::host_type().name(), "Store");
/// assert_eq!(Table::host_type().name(), "my_library::Table");
/// ```
pub struct HostType<T> {
    known: KnownType,
    // Invariant: `known` has the deleter of T and no other type uses it.
    _type: PhantomData<fn(T) -> T>,
}

impl<T> std::fmt::Debug for HostType<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.known.fmt(f)
    }
}

impl<T: Send + Sync + 'static> HostType<T> {
    /// The type of a handler's state. `name` should carry the library's; it is made unique for
    /// each time that the library is loaded.
    #[must_use]
    pub const fn state(name: &'static str) -> Self {
        Self::new(name, true, 0)
    }

    /// A type of user data, known to the host under exactly this name and the number that the host
    /// gives it.
    #[must_use]
    pub const fn user_data(name: &'static str) -> Self {
        Self::new(name, false, 0)
    }

    /// A type of user data with a number, above 0, that the program which hands out the objects has
    /// chosen and registered itself. The name serves messages alone.
    #[must_use]
    pub const fn user_data_with_id(name: &'static str, id: i64) -> Self {
        assert!(id > 0, "the number of a type is above 0");
        Self::new(name, false, id)
    }

    const fn new(name: &'static str, private: bool, chosen: i64) -> Self {
        Self {
            known: KnownType {
                name,
                private,
                chosen,
                deleter: drop_box::<T>,
                copies: AtomicPtr::new(std::ptr::null_mut()),
                registration: Mutex::new(()),
            },
            _type: PhantomData,
        }
    }
}

impl<T> HostType<T> {
    /// The name under which hosts know it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.known.name
    }

    /// For the macros: the same without its Rust type.
    #[doc(hidden)]
    #[must_use]
    pub const fn erased(&self) -> &KnownType {
        &self.known
    }
}

/// What hosts have to know of a type.
#[doc(hidden)]
pub struct KnownType {
    name: &'static str,
    /// Whether the name is made unique in the process, so that a library that is loaded twice
    /// registers two types.
    private: bool,
    /// The number that the program has chosen; 0 where the host chooses.
    chosen: i64,
    deleter: unsafe extern "C" fn(*mut c_void),
    // The XLA copies that know the type, the newest first. Invariant: null, or an entry that is
    // never written or freed again.
    copies: AtomicPtr<Known>,
    registration: Mutex<()>,
}

impl std::fmt::Debug for KnownType {
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
    if let Err(panic) = dropped {
        let what = format!("the destructor of {}", std::any::type_name::<T>());
        eprintln!("xla-ffi: {}", crate::panics::describe(&what, panic));
    }
}

impl KnownType {
    pub(crate) fn deleter(&self) -> unsafe extern "C" fn(*mut c_void) {
        self.deleter
    }

    #[inline]
    fn known(&self, host: Host) -> Option<&'static Known> {
        let mut copy = self.copies.load(Ordering::Acquire).cast_const();
        // SAFETY: the invariant on `copies`, for the head and for each `older`.
        while let Some(entry) = unsafe { copy.as_ref() } {
            if std::ptr::eq(entry.api, host.api()) {
                return Some(entry);
            }
            copy = entry.older;
        }
        None
    }

    /// The type's number in `host`, registered if this is the first time.
    pub(crate) fn id(&self, host: Host) -> Result<i64> {
        if self.chosen != 0 {
            return Ok(self.chosen);
        }
        match self.known(host) {
            Some(known) => Ok(known.id),
            None => self.register(host),
        }
    }

    /// Notes that `stage` has left state of this type with a host, in a call with or without a
    /// stream.
    pub(crate) fn note_stored(&self, host: Host, stage: u32, stream: bool) {
        if let Some(known) = self.known(host) {
            known
                .stored
                .fetch_or(stored_bit(stage, stream), Ordering::Relaxed);
        }
    }

    /// Whether [`KnownType::note_stored`] was ever told so. jaxlib crashes when a CPU call asks for
    /// the state of a stage that CPU hosts do not run.
    pub(crate) fn was_stored(&self, host: Host, stage: u32, stream: bool) -> bool {
        self.known(host).is_some_and(|known| {
            known.stored.load(Ordering::Relaxed) & stored_bit(stage, stream) != 0
        })
    }

    #[cold]
    fn register(&self, host: Host) -> Result<i64> {
        let _one_at_a_time = self
            .registration
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = self.known(host) {
            return Ok(known.id);
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
            stored: AtomicU8::new(0),
        }));
        self.copies.store(entry, Ordering::Release);
        Ok(id)
    }
}

fn stored_bit(stage: u32, stream: bool) -> u8 {
    1 << (2 * (stage & 3) + u32::from(stream))
}

/// The state that a stage leaves for later ones. [`stateful`](macro@crate::stateful) implements it for
/// what the instantiate stage makes (since r1, jaxlib 0.4.33), `#[derive(State)]` for what prepare
/// and initialize leave (since r8, jaxlib 0.9.1).
///
/// ```
/// use xla_ffi::{State, prelude::*};
///
/// struct Scale(f32);
///
/// #[xla_ffi::stateful(name = "scale", shape = "... -> ...")]
/// impl Scale {
///     fn instantiate(a: f32) -> Result<Self> {
///         Ok(Self(a))
///     }
///
///     fn execute(&self, x: Buffer<f32>, mut y: Out<f32>) -> Result<()> {
///         y.write_iter(x.iter().map(|x| x * self.0))?;
///         Ok(())
///     }
/// }
///
/// assert!(Scale::host_type().name().ends_with("::scale"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of a handler",
    note = "put `#[xla_ffi::stateful]` on an `impl {Self}` block"
)]
pub trait State: Send + Sync + Sized + 'static {
    /// How hosts know the type.
    fn host_type() -> &'static HostType<Self>;
}

/// A type whose objects the host's owner hands to handlers as user data; `#[derive(UserType)]`
/// implements it. Since r0.
///
/// ```
/// use xla_ffi::UserType;
///
/// #[derive(UserType)]
/// #[user_type(name = "my_program::Store")]
/// struct Store {
///     scale: f32,
/// }
///
/// // The name by which the program registers the type with the host.
/// assert_eq!(Store::host_type().name(), "my_program::Store");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type of user data",
    note = "derive it: `#[derive(xla_ffi::UserType)]`"
)]
pub trait UserType: Send + Sync + Sized + 'static {
    /// How hosts know the type.
    fn host_type() -> &'static HostType<Self>;
}
