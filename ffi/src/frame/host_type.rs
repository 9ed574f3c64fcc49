//! A library's types that hosts store: state and user data. Each copy of XLA numbers types independently, so a type has
//! one number per function table.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Error, Result};
use crate::frame::host::Host;
use xla_ffi_sys::XLA_FFI_UNKNOWN_TYPE_ID;

/// The registration of a type that hosts store, with a separate number for each copy of XLA.
///
/// The registration must be a `static` for exactly the type `T`. The derive macros create the `static`. Written by
/// hand, a registration has this form:
///
/// ```
/// use xla_ffi::{HostType, bind::Registration};
///
/// struct Plan(Vec<u64>);
///
/// impl HostType for Plan {
///     fn registration() -> &'static Registration<Self> {
///         static TYPE: Registration<Plan> = Registration::state("my_library::Plan");
///         &TYPE
///     }
/// }
///
/// /// An object of the program's, which it has registered with the host itself.
/// #[repr(C)]
/// struct Store(u64);
///
/// impl HostType for Store {
///     fn registration() -> &'static Registration<Self> {
///         // SAFETY: the program's objects of this number are one u64, and all its libraries know.
///         static TYPE: Registration<Store> =
///             unsafe { Registration::user_data_with_id("Store", 0x5704_0000_0001) };
///         &TYPE
///     }
/// }
///
/// /// One that the host finds by its name.
/// #[repr(C)]
/// struct Table([u64; 4]);
///
/// impl HostType for Table {
///     fn registration() -> &'static Registration<Self> {
///         // SAFETY: nothing else in the program is called so.
///         static TYPE: Registration<Table> = unsafe { Registration::user_data("my_program::Table.v1") };
///         &TYPE
///     }
/// }
///
/// assert_eq!(Plan::registration().name(), "my_library::Plan");
/// assert_eq!(Store::registration().name(), "Store");
/// assert_eq!(Table::registration().name(), "my_program::Table.v1");
/// ```
pub struct Registration<T> {
    known: KnownType,
    // Invariant: `known` has the deleter of T, and no host knows a different type by the same name or number. An
    // object that a host stores under this number is therefore a T.
    _type: PhantomData<fn(T) -> T>,
}

impl<T> std::fmt::Debug for Registration<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.known.fmt(f)
    }
}

impl<T: Send + Sync + 'static> Registration<T> {
    /// Creates the registration of a handler's state. `name` should include the library's name. A unique suffix is
    /// added, so the name cannot collide with other libraries or with a reloaded copy of the same library.
    #[must_use]
    pub const fn state(name: &'static str) -> Self {
        Self::new(name, Naming::Own)
    }

    /// Creates the registration of user data that only this image (program or shared library) knows. Used by the
    /// macros.
    ///
    /// A different image that was built from the same source may have a different layout, for example of nested
    /// fields. The registration cannot detect this.
    #[doc(hidden)]
    #[must_use]
    pub const fn own() -> Self {
        let naming = Naming::Image {
            name: OnceLock::new(),
            type_name: std::any::type_name::<T>,
        };
        Self::new("", naming)
    }

    /// Creates the registration of user data that is identified by exactly this name. The host assigns the number.
    /// All registrations of the name receive the same number.
    ///
    /// # Safety
    /// In every process that loads the library, this name identifies a single type. All code that passes objects under
    /// this name (Rust, C or C++, with any version and compiler) must use the layout of `T`. Use `#[repr(C)]`, and
    /// change the name when the layout changes.
    #[must_use]
    pub const unsafe fn user_data(name: &'static str) -> Self {
        Self::new(name, Naming::Shared)
    }

    /// Creates the registration of user data with a number that the program has chosen and registered. The name is used
    /// only in messages.
    ///
    /// # Safety
    /// The requirements of [`Registration::user_data`] apply to the number instead of the name. XLA assigns numbers
    /// from 1 on to other types and does not skip chosen numbers, so choose a number that XLA never reaches.
    ///
    /// # Panics
    /// If `id` is not greater than 0.
    #[must_use]
    #[track_caller]
    pub const unsafe fn user_data_with_id(name: &'static str, id: i64) -> Self {
        assert!(id > 0, "the id of a type must be greater than 0");
        Self::new(name, Naming::Number(id))
    }

    const fn new(name: &'static str, naming: Naming) -> Self {
        let register = match naming {
            Naming::Own => register_own,
            _ => register_shared,
        };
        Self {
            known: KnownType {
                name,
                naming,
                register,
                deleter: drop_box::<T>,
                ids: TypeIdsByHost::new(),
                place: OnceLock::new(),
            },
            _type: PhantomData,
        }
    }
}

impl<T> Registration<T> {
    /// Returns the name under which hosts know the type.
    #[must_use]
    pub fn name(&self) -> &str {
        self.known.name()
    }

    /// Returns the registration without its Rust type. Used by the macros.
    #[doc(hidden)]
    #[must_use]
    pub const fn erased(&self) -> &KnownType {
        &self.known
    }
}

/// The way in which hosts identify a type.
enum Naming {
    /// Hosts know the type by its name with a suffix that is unique in the process.
    Own,
    /// Hosts know the type by its name only, which other libraries may also use.
    Shared,
    /// Hosts know the type by the number that the program has chosen.
    Number(i64),
    /// Hosts know the type by a name that is unique to this image and created on first use.
    Image {
        name: OnceLock<String>,
        type_name: fn() -> &'static str,
    },
}

/// The data that is needed to register a type with hosts.
#[doc(hidden)]
pub struct KnownType {
    name: &'static str,
    naming: Naming,
    // `register_own` or `register_shared`. A handler's entry point does not refer to these functions, so a library
    // without types does not contain them.
    register: fn(&KnownType, Host) -> Result<i64>,
    deleter: unsafe extern "C" fn(*mut c_void),
    ids: TypeIdsByHost,
    // The address of this byte is unique in the process, because the box is in a static and never dropped. The address
    // of the static itself is not unique, because a different library can be loaded at the same address later.
    place: OnceLock<Box<u8>>,
}

impl std::fmt::Debug for KnownType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Drops a boxed `T`.
unsafe extern "C" fn drop_box<T>(object: *mut c_void) {
    let dropped = std::panic::catch_unwind(|| {
        // SAFETY: hosts call the deleter once, with the object that was passed to them.
        drop(unsafe { Box::from_raw(object.cast::<T>()) });
    });
    if let Err(panic) = dropped {
        let what = format!("the destructor of {}", std::any::type_name::<T>());
        let text = crate::error::panics::describe(&what, panic);
        crate::error::panics::warn(format_args!("{text}"));
    }
}

impl KnownType {
    pub(crate) fn deleter(&self) -> unsafe extern "C" fn(*mut c_void) {
        self.deleter
    }

    pub(crate) fn name(&self) -> &str {
        match &self.naming {
            Naming::Image { name, type_name } => {
                name.get_or_init(|| format!("{}@{:x}", type_name(), self.place()))
            }
            _ => self.name,
        }
    }

    /// Returns true if only this program or library knows the type.
    pub(crate) fn is_of_image(&self) -> bool {
        matches!(self.naming, Naming::Image { .. })
    }

    /// Returns the number that the program has chosen for the type.
    #[cfg(feature = "internal")]
    pub(crate) fn chosen(&self) -> Option<i64> {
        match self.naming {
            Naming::Number(chosen) => Some(chosen),
            _ => None,
        }
    }

    fn place(&self) -> usize {
        std::ptr::from_ref::<u8>(self.place.get_or_init(|| Box::new(0))).addr()
    }

    /// Returns the type's number in `host`, and registers the type if necessary.
    pub(crate) fn id(&self, host: Host) -> Result<i64> {
        if let Naming::Number(chosen) = self.naming {
            return Ok(chosen);
        }
        match self.ids.id(host) {
            Some(id) => Ok(id),
            None => (self.register)(self, host),
        }
    }

    /// Records that `stage` has stored state of this type with a host, in a call with or without a stream.
    pub(crate) fn note_stored(&self, host: Host, stage: u32, stream: bool) {
        self.ids.note(host, stored_bit(stage, stream));
    }

    /// Returns true if [`KnownType::note_stored`] was called with these arguments. jaxlib crashes if a CPU call
    /// requests the state of a stage that CPU hosts do not run.
    pub(crate) fn was_stored(&self, host: Host, stage: u32, stream: bool) -> bool {
        self.ids.notes(host) & stored_bit(stage, stream) != 0
    }

    /// Registers the type with `host` under the number that `ask` returns; see [`TypeIdsByHost::add`].
    fn register(&self, host: Host, ask: impl FnOnce() -> Result<i64>) -> Result<i64> {
        self.ids.add(host, || {
            ask().map_err(|error| {
                let (name, cause) = (self.name(), error.message());
                Error::new(
                    error.code(),
                    format!("this XLA does not take the type `{name}`: {cause}"),
                )
            })
        })
    }
}

/// Registers a type that no other library knows.
#[cold]
fn register_own(this: &KnownType, host: Host) -> Result<i64> {
    this.register(host, || {
        let unique = format!("{}@{:x}", this.name, this.place());
        host.register_type(&unique, XLA_FFI_UNKNOWN_TYPE_ID.type_id, this.deleter)
    })
}

/// Registers a type that other libraries may have registered before.
#[cold]
fn register_shared(this: &KnownType, host: Host) -> Result<i64> {
    this.register(host, || host.share_type(this.name(), this.deleter))
}

fn stored_bit(stage: u32, stream: bool) -> u8 {
    1 << (2 * (stage & 3) + u32::from(stream))
}

/// A type that hosts store: state that a stage creates for later stages, or user data that the program passes to
/// handlers.
///
/// Implement the trait with `#[derive(HostType)]`. [`stateful`](macro@crate::stateful) implements the trait for the
/// state of the instantiate stage. Availability:
/// - User data: since r0 (jaxlib 0.4.31).
/// - State of the instantiate stage: since r1 (jaxlib 0.4.33).
/// - State of the prepare and initialize stages: since r8 (jaxlib 0.9.1).
///
/// ```
/// use xla_ffi::{HostType, prelude::*};
///
/// #[derive(HostType)]
/// struct Store {
///     scale: f32,
/// }
///
/// #[derive(HostType)]
/// #[host_type(unsafe(name = "my_program::Rates.v1"))]
/// #[repr(C)]
/// struct Rates([f64; 4]);
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
///         y.write_iter(x.iter().map(|x| x * self.0))
///     }
/// }
///
/// // The names by which the program asks the host for the numbers of the types.
/// assert!(Store::registration().name().starts_with(std::any::type_name::<Store>()));
/// assert_eq!(Rates::registration().name(), "my_program::Rates.v1");
/// assert!(Scale::registration().name().ends_with("::scale"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither state nor user data",
    note = "write `#[derive(xla_ffi::HostType)]` on it; `#[xla_ffi::stateful]` does this for the type of its `impl` block"
)]
pub trait HostType: Send + Sync + Sized + 'static {
    /// Returns the registration of the type.
    fn registration() -> &'static Registration<Self>;
}

/// A type's number in one copy of XLA, and the notes about the type in that copy.
struct Known {
    id: i64,
    notes: AtomicU8,
}

impl Known {
    fn new(id: i64) -> Self {
        Self {
            id,
            notes: AtomicU8::new(0),
        }
    }
}

/// The copies of XLA that know a type, with the type's number in each copy.
pub(crate) struct TypeIdsByHost {
    /// The first host, which can be read without a lock. Most processes have only one host.
    first: OnceLock<(Host, Known)>,
    /// The hosts after the first host, by the addresses of their tables.
    others: Mutex<BTreeMap<usize, Known>>,
}

impl TypeIdsByHost {
    pub(crate) const fn new() -> Self {
        Self {
            first: OnceLock::new(),
            others: Mutex::new(BTreeMap::new()),
        }
    }

    fn others(&self) -> MutexGuard<'_, BTreeMap<usize, Known>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn with<R>(&self, host: Host, look: impl FnOnce(&Known) -> R) -> Option<R> {
        match self.first.get() {
            Some((first, known)) if *first == host => Some(look(known)),
            _ => self.others().get(&host.api().addr()).map(look),
        }
    }

    /// Returns the type's number in a copy of XLA, or `None` if the type is not registered in that
    /// copy.
    #[inline]
    pub(crate) fn id(&self, host: Host) -> Option<i64> {
        self.with(host, |known| known.id)
    }

    /// Returns the type's number in a copy of XLA. If the type has no number yet, calls `ask` and stores the number
    /// that `ask` returns.
    #[inline(never)]
    pub(crate) fn add(&self, host: Host, ask: impl FnOnce() -> Result<i64>) -> Result<i64> {
        let mut others = self.others();
        let api = host.api().addr();
        match (self.first.get(), others.get(&api)) {
            (Some((first, known)), _) if *first == host => return Ok(known.id),
            (_, Some(known)) => return Ok(known.id),
            _ => {}
        }
        let id = ask()?;
        if self.first.set((host, Known::new(id))).is_err() {
            others.insert(api, Known::new(id));
        }
        Ok(id)
    }

    /// Sets note bits for a copy of XLA. [`TypeIdsByHost::notes`] returns the bits.
    pub(crate) fn note(&self, host: Host, bits: u8) {
        self.with(host, |known| known.notes.fetch_or(bits, Ordering::Relaxed));
    }

    /// Returns all note bits that were set for a copy of XLA.
    pub(crate) fn notes(&self, host: Host) -> u8 {
        self.with(host, |known| known.notes.load(Ordering::Relaxed))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::stored_bit;

    #[test]
    fn each_stage_has_its_own_bits() {
        let stages = (0..4).flat_map(|stage| [false, true].map(|stream| stored_bit(stage, stream)));
        assert_eq!(stages.fold(0, |set, bit| set | bit), 0xff);
    }
}
