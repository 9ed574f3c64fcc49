//! User data: objects that a program passes to handlers. Handlers find an object by its type.

use crate::host::state_object::StateObject;
use crate::host::{Runtime, Shared};
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Weak};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Objects for handlers, for [`Call::user_data`](crate::Call::user_data). All objects have types of one runtime.
///
/// For Rust handlers, `xla_ffi::internal::UserData` is a safe interface. In this lower-level type, names identify the
/// types of objects.
///
/// ```
/// use xla_ffi_runtime::{Runtime, UserData};
///
/// let runtime = Runtime::default();
/// let mut data = UserData::new(&runtime);
/// // SAFETY: all users of this name read the object as a u64.
/// unsafe { data.insert("my_program::Seed", 7_u64) }?;
/// assert_eq!(data.get::<u64>(), Some(&7));
/// // If a handler registers the type later, the type keeps this number.
/// assert!(runtime.type_id("my_program::Seed").is_ok());
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
pub struct UserData {
    runtime: Weak<Shared>,
    entries: BTreeMap<i64, StateObject>,
}

impl UserData {
    /// Returns user data without objects. Only calls of this runtime accept the user data, because each runtime has
    /// its own type numbers.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self {
            runtime: Arc::downgrade(runtime.shared()),
            entries: BTreeMap::new(),
        }
    }

    /// Returns true if the user data contains no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the object of Rust type `T`, if the user data contains a `T`.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.entries.values().find_map(StateObject::value)
    }

    fn runtime(&self) -> Result<Arc<Shared>> {
        self.runtime.upgrade().ok_or_else(|| {
            Error::new(
                ErrorCode::FailedPrecondition,
                "the runtime of this user data is gone",
            )
        })
    }

    /// Returns an error if the user data was created for a different runtime.
    pub(crate) fn check(&self, shared: &Arc<Shared>) -> Result<()> {
        if std::ptr::eq(self.runtime.as_ptr(), Arc::as_ptr(shared)) {
            return Ok(());
        }
        Err(Error::invalid_argument(
            "the user data is another runtime's, whose types have other numbers: make it for the \
             runtime of the handler that is called",
        ))
    }

    fn is_free(&self, id: i64) -> Result<()> {
        if self.entries.contains_key(&id) {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                format!("there is user data of type id {id} already"),
            ));
        }
        Ok(())
    }

    /// Adds a Rust value as the object of the type called `name`. Registers the type if the name is new.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of a type; the value is dropped.
    ///
    /// # Safety
    /// All users of the name, including libraries, must read the object as a `T`.
    pub unsafe fn insert<T: Any + Send + Sync>(&mut self, name: &str, value: T) -> Result<()> {
        let shared = self.runtime()?;
        let id = shared.types.get_or_reserve(name)?;
        shared.types.check_size(name, id, size_of::<T>())?;
        self.insert_value(id, value)
    }

    /// Adds a Rust value like [`UserData::insert`], for a type whose number the program has chosen.
    ///
    /// # Errors
    /// The errors of [`UserData::insert`], and `INTERNAL` if the name has a different number.
    ///
    /// # Safety
    /// All users of the number, including libraries, must read the object as a `T`.
    pub unsafe fn insert_numbered<T: Any + Send + Sync>(
        &mut self,
        name: &str,
        type_id: i64,
        value: T,
    ) -> Result<()> {
        let id = self.runtime()?.types.reserve(name, type_id)?;
        self.insert_value(id, value)
    }

    fn insert_value<T: Any + Send + Sync>(&mut self, id: i64, value: T) -> Result<()> {
        self.is_free(id)?;
        let object = StateObject::of(id, value, self.runtime.clone());
        self.entries.insert(id, object);
        Ok(())
    }

    /// Adds an object of the type called `name`. Registers the type if the name is new. `size` is the object's size
    /// in bytes, or 0 if unknown. `deleter` destroys the object when the user data is no longer used. Without a
    /// deleter, the caller keeps ownership.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of a type, `INVALID_ARGUMENT` if objects of this name have a different
    /// size. After an error, the caller keeps ownership of the object.
    ///
    /// # Safety
    /// All users of the name must read the object as its actual type. The object must be usable from any thread.
    /// Without a deleter, the object must outlive all calls with this user data.
    pub unsafe fn insert_raw(
        &mut self,
        name: &str,
        size: usize,
        object: *mut c_void,
        deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> Result<()> {
        if object.is_null() {
            return Err(Error::invalid_argument("the object is a null pointer"));
        }
        if isize::try_from(size).is_err() {
            return Err(Error::invalid_argument(format!(
                "no object has {size} bytes"
            )));
        }
        let shared = self.runtime()?;
        let id = shared.types.get_or_reserve(name)?;
        if size > 0 {
            shared.types.check_size(name, id, size)?;
        }
        self.is_free(id)?;
        let object = StateObject::new(id, object, deleter, self.runtime.clone());
        self.entries.insert(id, object);
        Ok(())
    }

    /// Adds an object of the type that a library registered under this number. The type's deleter destroys the object
    /// when the user data is no longer used.
    ///
    /// # Errors
    /// `INTERNAL` for an unknown type, `ALREADY_EXISTS` for a second object of a type. After an error, the caller
    /// keeps ownership of the object.
    ///
    /// # Safety
    /// `object` must be of the type with this number, and usable from any thread. Its ownership moves to the user
    /// data.
    pub unsafe fn insert_owned(&mut self, type_id: i64, object: *mut c_void) -> Result<()> {
        let info = self.runtime()?.types.info(type_id)?;
        self.is_free(type_id)?;
        let object = StateObject::new(type_id, object, info.deleter(), self.runtime.clone());
        self.entries.insert(type_id, object);
        Ok(())
    }

    /// Adds an object that remains owned by the caller.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of a type.
    ///
    /// # Safety
    /// `object` must be of the type with this number, be usable from any thread, and outlive all calls with this user
    /// data.
    pub unsafe fn insert_borrowed(&mut self, type_id: i64, object: *mut c_void) -> Result<()> {
        self.is_free(type_id)?;
        let object = StateObject::new(type_id, object, None, self.runtime.clone());
        self.entries.insert(type_id, object);
        Ok(())
    }

    /// Returns the object of the type with this number.
    pub(crate) fn find(&self, id: i64) -> Option<*mut c_void> {
        self.entries.get(&id).map(StateObject::object)
    }
}

impl std::fmt::Debug for UserData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserData")
            .field("types", &self.entries.keys())
            .finish_non_exhaustive()
    }
}
