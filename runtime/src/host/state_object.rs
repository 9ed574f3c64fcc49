//! State that a library passed to the host, with its deleter.

use super::Shared;
use crate::process::guard;
use std::any::{Any, TypeId};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};
use xla_ffi_sys::{Error, ErrorCode, Finding, Hazard, Result};

/// The type number of Rust values whose type is not registered. Only Rust code can request such values, by their Rust
/// type.
pub(crate) const RUST_ALONE: i64 = -1;

/// A state or user-data object of a user type.
pub(crate) struct StateObject {
    type_id: i64,
    /// The Rust type of the object, if the object is a Rust value.
    rust: Option<TypeId>,
    object: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    /// The runtime to which errors of the deleter are reported.
    runtime: Weak<Shared>,
}

// SAFETY: the contract of `State_Set` allows any thread to use and destroy the object.
unsafe impl Send for StateObject {}
// SAFETY: only handlers access the object, and the contract of `State_Set` allows any thread to use it.
unsafe impl Sync for StateObject {}

impl StateObject {
    pub(crate) fn new(
        type_id: i64,
        object: *mut c_void,
        deleter: Option<unsafe extern "C" fn(*mut c_void)>,
        runtime: Weak<Shared>,
    ) -> Self {
        Self {
            type_id,
            rust: None,
            object,
            deleter,
            runtime,
        }
    }

    /// Creates an object that owns a Rust value. `T` must be the type with this number.
    pub(crate) fn of<T: Any + Send + Sync>(type_id: i64, value: T, runtime: Weak<Shared>) -> Self {
        let object = Box::into_raw(Box::new(value)).cast();
        let mut object = Self::new(type_id, object, Some(drop_box::<T>), runtime);
        object.rust = Some(TypeId::of::<T>());
        object
    }

    pub(crate) fn object(&self) -> *mut c_void {
        self.object
    }

    /// Returns the Rust value if the object is a `T`.
    pub(crate) fn value<T: Any + Send + Sync>(&self) -> Option<&T> {
        if self.rust != Some(TypeId::of::<T>()) {
            return None;
        }
        // SAFETY: `rust` is only set by `StateObject::of`, which creates the object from a `T`. The value exists as
        // long as `self`.
        unsafe { self.object.cast::<T>().as_ref() }
    }

    /// Forgets the object without destroying it, because its owner keeps it.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

/// Destroys a boxed `T`. A panic of the destructor is reported, because it must not unwind into the caller.
unsafe extern "C" fn drop_box<T>(object: *mut c_void) {
    // SAFETY: `Box::into_raw` created the pointer, and the deleter runs once.
    let object = unsafe { Box::from_raw(object.cast::<T>()) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(object))) {
        guard::discard(payload);
        let what = std::any::type_name::<T>();
        crate::process::warn(format_args!("a panic left the destructor of {what}"));
    }
}

impl Drop for StateObject {
    fn drop(&mut self) {
        let Some(deleter) = self.deleter else { return };
        // SAFETY: the library passed the object and the deleter together, and this code runs once.
        if let Err(unwound) = unsafe { guard::call_void(deleter, self.object) } {
            let message = format!("{unwound} left the deleter of type id {}", self.type_id);
            let finding = Finding::new(Hazard::Unwound, message);
            match self.runtime.upgrade() {
                Some(runtime) => runtime.note(finding),
                // The runtime no longer exists, so the finding is written to the log.
                None => crate::process::warn(format_args!("{finding}")),
            }
        }
    }
}

/// An object that a slot refused.
pub(crate) struct Refused {
    pub(crate) object: StateObject,
    pub(crate) why: Box<Error>,
}

/// The slot for the state of a stage. The state is set once, and any thread can read it without a lock.
#[derive(Default)]
pub(crate) struct StateSlot {
    object: OnceLock<StateObject>,
    /// An object of type number 0, which hosts of version 0.1 cannot find.
    nameless: Mutex<Option<StateObject>>,
}

impl StateSlot {
    /// Stores an object. A slot accepts one object. On hosts of version 0.1, an object of type number 0 is never
    /// found, and the next object replaces it. Later hosts refuse the type number 0. A refused object is part of the
    /// error.
    pub(crate) fn set(&self, object: StateObject) -> std::result::Result<(), Refused> {
        let mut nameless = self.nameless.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.object.get() {
            let message = match known.type_id {
                RUST_ALONE => "the state is set already, with a value of Rust".to_owned(),
                id => format!("the state is set already, with type id {id}"),
            };
            return Err(Refused {
                object,
                why: Box::new(Error::new(ErrorCode::FailedPrecondition, message)),
            });
        }
        let replaced = if object.type_id == 0 {
            nameless.replace(object)
        } else {
            // No other thread can set the object, because the lock is held.
            let _ = self.object.set(object);
            nameless.take()
        };
        drop(nameless);
        // The object is dropped without the lock, because the library's deleter may use the slot.
        drop(replaced);
        Ok(())
    }

    fn object(&self) -> Result<&StateObject> {
        self.object
            .get()
            .ok_or_else(|| Error::new(ErrorCode::NotFound, "State is not set"))
    }

    /// Returns the object; an error if its type number is not `type_id`.
    pub(crate) fn get(&self, type_id: i64) -> Result<*mut c_void> {
        let object = self.object()?;
        if object.type_id != type_id || type_id == RUST_ALONE {
            return Err(Error::invalid_argument(format!(
                "the state is of type id {}, type id {type_id} is asked for",
                object.type_id
            )));
        }
        Ok(object.object())
    }

    /// Returns the Rust value; an error if the object is not a `T`.
    pub(crate) fn value<T: Any + Send + Sync>(&self) -> Result<&T> {
        self.object()?.value().ok_or_else(|| {
            Error::invalid_argument(format!(
                "the state is not a {}: it was stored as another type",
                std::any::type_name::<T>()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn state_of_type_0_is_as_good_as_none() {
        static DELETED: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn delete(_object: *mut c_void) {
            DELETED.fetch_add(1, Ordering::SeqCst);
        }
        let slot = StateSlot::default();
        let object = |id| StateObject::new(id, std::ptr::dangling_mut(), Some(delete), Weak::new());
        assert!(slot.set(object(0)).is_ok());
        assert_eq!(slot.get(0).unwrap_err().code(), ErrorCode::NotFound);
        assert!(slot.set(object(7)).is_ok());
        assert_eq!(DELETED.load(Ordering::SeqCst), 1);
        let refused = slot.set(object(8)).err().unwrap();
        refused.object.leave();
        assert_eq!(refused.why.code(), ErrorCode::FailedPrecondition);
        assert_eq!(slot.get(8).unwrap_err().code(), ErrorCode::InvalidArgument);
        assert!(slot.get(7).is_ok());
        drop(slot);
        assert_eq!(DELETED.load(Ordering::SeqCst), 2);
    }
}
