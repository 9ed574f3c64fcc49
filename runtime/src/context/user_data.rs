//! User data: objects that a program hands to handlers by their type.

use crate::host::state_object::StateObject;
use crate::host::{Runtime, Shared};
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Weak};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Objects of one runtime's types, for [`Call::user_data`](crate::Call::user_data).
///
/// A Rust handler's types have a safe way: `xla_ffi::internal::UserData`. This is what lies under it,
/// where a name says what an object is.
///
/// ```
/// use xla_ffi_runtime::{Runtime, UserData};
///
/// let runtime = Runtime::default();
/// let mut data = UserData::new(&runtime);
/// // SAFETY: no library knows this name but as that of a u64.
/// unsafe { data.insert("my_program::Seed", 7_u64) }?;
/// assert_eq!(data.get::<u64>(), Some(&7));
/// // Whoever registers the type later, a handler for instance, is given the same number.
/// assert!(runtime.type_id("my_program::Seed").is_ok());
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
pub struct UserData {
    runtime: Weak<Shared>,
    entries: BTreeMap<i64, StateObject>,
}

impl UserData {
    /// No objects yet, for calls of this runtime alone: the numbers of types are each runtime's own.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self {
            runtime: Arc::downgrade(runtime.shared()),
            entries: BTreeMap::new(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The Rust value of this type.
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

    /// Refuses data that was made for another runtime.
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

    /// Adds a Rust value under the type called `name`, which is registered now unless it was before.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of one type; the value is dropped.
    ///
    /// # Safety
    /// Whoever knows the name, libraries included, reads the object as a `T`.
    pub unsafe fn insert<T: Any + Send + Sync>(&mut self, name: &str, value: T) -> Result<()> {
        let shared = self.runtime()?;
        let id = shared.types.get_or_reserve(name)?;
        shared.types.check_size(name, id, size_of::<T>())?;
        self.insert_value(id, value)
    }

    /// As [`UserData::insert`], for a type with a number that the program has chosen.
    ///
    /// # Errors
    /// As there, and `INTERNAL` when the name has another number.
    ///
    /// # Safety
    /// Whoever knows the number, libraries included, reads the object as a `T`.
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

    /// Adds an object of the type called `name`, which is registered now unless it was before:
    /// `size` bytes (0 where that is not known), destroyed by `deleter` when nobody uses the data any
    /// more, or kept by the caller where there is none.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of one type, `INVALID_ARGUMENT` where the name stands for
    /// objects of another size. The caller keeps what is refused.
    ///
    /// # Safety
    /// Whoever knows the name reads the object as what it is. It is usable from any thread, and
    /// without a deleter it outlives all calls that this data is given to.
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

    /// Adds an object of the type that a library registered under this number; its deleter destroys
    /// the object when nobody uses the data any more.
    ///
    /// # Errors
    /// `INTERNAL` for an unknown type, `ALREADY_EXISTS` for a second object of one type. The caller
    /// keeps what is refused.
    ///
    /// # Safety
    /// `object` is an object of the type, usable from any thread, and no longer the caller's.
    pub unsafe fn insert_owned(&mut self, type_id: i64, object: *mut c_void) -> Result<()> {
        let info = self.runtime()?.types.info(type_id)?;
        self.is_free(type_id)?;
        let object = StateObject::new(type_id, object, info.deleter(), self.runtime.clone());
        self.entries.insert(type_id, object);
        Ok(())
    }

    /// Adds an object that the caller keeps.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of one type.
    ///
    /// # Safety
    /// `object` is one of the type that handlers know by this number, usable from any thread, and
    /// outlives all calls that this data is given to.
    pub unsafe fn insert_borrowed(&mut self, type_id: i64, object: *mut c_void) -> Result<()> {
        self.is_free(type_id)?;
        let object = StateObject::new(type_id, object, None, self.runtime.clone());
        self.entries.insert(type_id, object);
        Ok(())
    }

    /// The object of this type.
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
