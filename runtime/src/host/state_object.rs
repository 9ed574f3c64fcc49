//! State that a library left with the host, and who destroys it.

use super::shared::Shared;
use crate::process::guard;
use crate::{Code, Error, Finding, Hazard, Result};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError, Weak};

/// One object of a user type.
pub(crate) struct StateObject {
    type_id: i64,
    object: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Who is told what the deleter does wrong.
    runtime: Weak<Shared>,
}

// SAFETY: the contract of `State_Set`: any thread may use and destroy the object.
unsafe impl Send for StateObject {}
// SAFETY: the object itself is only reached by handlers, whose contract this is.
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
            object,
            deleter,
            runtime,
        }
    }

    pub(crate) fn object(&self) -> *mut c_void {
        self.object
    }
}

impl Drop for StateObject {
    fn drop(&mut self) {
        let Some(deleter) = self.deleter else { return };
        // SAFETY: the library gave object and deleter together, and this happens once.
        if let Err(unwound) = unsafe { guard::call_void(deleter, self.object) } {
            let message = format!("{unwound} left the deleter of type id {}", self.type_id);
            let finding = Finding::new(Hazard::Unwound, message);
            match self.runtime.upgrade() {
                Some(runtime) => runtime.note(finding),
                // Nobody is left to answer to; the text still has to be seen.
                None => eprintln!("xla-ffi: {finding}"),
            }
        }
    }
}

/// Where the state of one stage lies.
#[derive(Default)]
pub(crate) struct StateSlot(Mutex<Option<StateObject>>);

impl StateSlot {
    /// Takes an object in; there can be one. Hosts of 0.1 take an object of type 0 for none at all:
    /// it is never found, and the next one replaces it. Later hosts do not take it in.
    pub(crate) fn set(&self, object: StateObject) -> Result<()> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = slot.as_ref().filter(|known| known.type_id != 0) {
            let message = format!("the state is set already, with type id {}", known.type_id);
            // The caller keeps what was refused.
            std::mem::forget(object);
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        *slot = Some(object);
        Ok(())
    }

    /// The object, which has to be of this type.
    pub(crate) fn get(&self, type_id: i64) -> Result<*mut c_void> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let object = slot
            .as_ref()
            .filter(|known| known.type_id != 0)
            .ok_or_else(|| Error::new(Code::NotFound, "State is not set"))?;
        if object.type_id != type_id {
            return Err(Error::invalid(format!(
                "the state is of type id {}, type id {type_id} is asked for",
                object.type_id
            )));
        }
        Ok(object.object())
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
        slot.set(object(0)).unwrap();
        assert_eq!(slot.get(0).unwrap_err().code(), Code::NotFound);
        slot.set(object(7)).unwrap();
        assert_eq!(DELETED.load(Ordering::SeqCst), 1);
        assert_eq!(
            slot.set(object(8)).unwrap_err().code(),
            Code::FailedPrecondition
        );
        assert_eq!(slot.get(8).unwrap_err().code(), Code::InvalidArgument);
        assert!(slot.get(7).is_ok());
        drop(slot);
        assert_eq!(DELETED.load(Ordering::SeqCst), 2);
    }
}
