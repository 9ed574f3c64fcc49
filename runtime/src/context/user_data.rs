//! User data: objects that a program hands to handlers by their type.

use crate::host::state_object::StateObject;
use crate::{Code, Error, Result, Runtime};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Weak};

/// Objects by the number of their type.
///
/// ```
/// use xla_ffi_runtime::{Runtime, UserData};
///
/// let runtime = Runtime::default();
/// let mut data = UserData::new();
/// // SAFETY: no library knows this name but as that of a u64.
/// let id = unsafe { data.emplace(&runtime, "my_program::Seed", 7_u64) }?;
/// assert_eq!(runtime.type_id("my_program::Seed")?, id);
/// assert!(!data.is_empty()); // for `Call::user_data`
/// # Ok::<(), xla_ffi_runtime::Error>(())
/// ```
#[derive(Default)]
pub struct UserData {
    entries: BTreeMap<i64, StateObject>,
}

impl UserData {
    /// No objects.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn insert(&mut self, id: i64, object: StateObject) -> Result<()> {
        if self.entries.contains_key(&id) {
            // The caller keeps what is refused.
            std::mem::forget(object);
            return Err(Error::new(
                Code::AlreadyExists,
                format!("there is user data of type id {id} already"),
            ));
        }
        self.entries.insert(id, object);
        Ok(())
    }

    /// Adds an object of the type that a library registered with `runtime` under this number; its
    /// deleter destroys the object when nobody uses the data any more.
    ///
    /// # Errors
    /// `INTERNAL` for an unknown type, `ALREADY_EXISTS` for a second object of one type.
    ///
    /// # Safety
    /// `object` is an object of the type, usable from any thread, and no longer the caller's.
    pub unsafe fn insert_owned(
        &mut self,
        runtime: &Runtime,
        type_id: i64,
        object: *mut c_void,
    ) -> Result<()> {
        let info = runtime.shared().types.info(type_id)?;
        let owner = Arc::downgrade(runtime.shared());
        self.insert(
            type_id,
            StateObject::new(type_id, object, info.deleter, owner),
        )
    }

    /// Adds an object that the caller keeps.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` for a second object of one type.
    ///
    /// # Safety
    /// `object` is usable from any thread and outlives all calls that this data is given to.
    pub unsafe fn insert_borrowed(&mut self, type_id: i64, object: *mut c_void) -> Result<()> {
        self.insert(
            type_id,
            StateObject::new(type_id, object, None, Weak::new()),
        )
    }

    /// Adds a Rust value under a new type called `name`, and says the type's number.
    ///
    /// # Errors
    /// `INTERNAL` when the name is taken.
    ///
    /// # Safety
    /// Whoever knows the name, libraries included, reads the object as a `T`.
    pub unsafe fn emplace<T: Send + Sync + 'static>(
        &mut self,
        runtime: &Runtime,
        name: &str,
        value: T,
    ) -> Result<i64> {
        unsafe extern "C" fn delete<T>(object: *mut c_void) {
            // SAFETY: made by `Box::into_raw` below, deleted once.
            drop(unsafe { Box::from_raw(object.cast::<T>()) });
        }
        let info = crate::TypeInfo {
            deleter: Some(delete::<T>),
        };
        // SAFETY: the name stands for T, as the caller promises, and this destroys one.
        let id = unsafe { runtime.register_type(name, 0, info) }?;
        let object = Box::into_raw(Box::new(value)).cast();
        let owner = Arc::downgrade(runtime.shared());
        self.insert(id, StateObject::new(id, object, Some(delete::<T>), owner))?;
        Ok(id)
    }

    /// The object of this type.
    pub(crate) fn find(&self, id: i64) -> Result<*mut c_void> {
        self.entries
            .get(&id)
            .map(StateObject::object)
            .ok_or_else(|| {
                Error::new(
                    Code::NotFound,
                    format!("User data with type id {id} not found in execution context"),
                )
            })
    }
}
