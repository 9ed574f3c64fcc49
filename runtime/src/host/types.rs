//! The user types of a runtime: names, numbers and deleters.

#[cfg(loom)]
use loom::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
#[cfg(not(loom))]
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering};
use xla_ffi_sys::{Error, ErrorCode, Result};

/// Information about a user type: the deleter of its objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct TypeInfo {
    deleter: Option<Deleter>,
}

/// Destroys an object of the type.
type Deleter = unsafe extern "C" fn(*mut c_void);

impl TypeInfo {
    /// Creates the information from a function that destroys an object. `None` is for types whose objects the host
    /// does not own.
    #[must_use]
    pub fn new(deleter: Option<unsafe extern "C" fn(*mut c_void)>) -> Self {
        Self { deleter }
    }

    /// Returns the function that destroys an object of the type, if the type has such a function.
    #[must_use]
    pub fn deleter(&self) -> Option<unsafe extern "C" fn(*mut c_void)> {
        self.deleter
    }
}

/// The next number that any registry assigns, from 1 as in XLA. All registries share this counter: a library may
/// request, from one runtime, the number that a different runtime assigned to its type. That number must then be
/// unused.
static NEXT: AtomicI64 = AtomicI64::new(1);

#[derive(Default)]
struct Known {
    by_name: BTreeMap<String, i64>,
    by_id: BTreeMap<i64, TypeInfo>,
    /// Types that only user data has named. The code that registers them later sets their deleters.
    reserved: BTreeSet<i64>,
    /// The size in bytes of the objects of a type, by the type's name, if known.
    sizes: BTreeMap<String, usize>,
}

impl Known {
    /// Returns an unused type id. Skips ids that types requested explicitly.
    fn unused(&self) -> i64 {
        loop {
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Sets the type information of a number. Once set, the information does not change.
    fn set_info(&mut self, id: i64, info: Option<TypeInfo>) {
        match info {
            Some(info) if self.reserved.remove(&id) => drop(self.by_id.insert(id, info)),
            Some(info) => {
                self.by_id.entry(id).or_insert(info);
            }
            None if self.by_id.contains_key(&id) => {}
            None => {
                self.by_id.insert(id, TypeInfo::default());
                self.reserved.insert(id);
            }
        }
    }
}

/// The type registry of a runtime.
#[derive(Default)]
pub(crate) struct Types {
    known: Mutex<Known>,
}

impl Types {
    /// Runs `work` with exclusive access to the registered types.
    fn with<R>(&self, work: impl FnOnce(&mut Known) -> R) -> R {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a type. A `wanted` of 0 requests a new number; any other value is the type's number.
    pub(crate) fn register(&self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        self.enter(name, wanted, Some(info))
    }

    /// Returns the number of a type, and reserves it for the code that later registers the type with a deleter.
    pub(crate) fn reserve(&self, name: &str, wanted: i64) -> Result<i64> {
        self.enter(name, wanted, None)
    }

    fn enter(&self, name: &str, wanted: i64, info: Option<TypeInfo>) -> Result<i64> {
        self.with(|known| {
            if wanted < 0 {
                return Err(Error::invalid_argument(format!(
                    "type '{name}' asks for the number {wanted}"
                )));
            }
            if let Some(&id) = known.by_name.get(name) {
                known.set_info(id, info);
                if id == wanted {
                    return Ok(id);
                }
                return Err(Error::new(
                    ErrorCode::Internal,
                    // The message is exactly XLA's, because libraries that share a type parse the number in the
                    // message.
                    format!("Type name {name} already registered with type id {id}"),
                ));
            }
            let id = if wanted == 0 { known.unused() } else { wanted };
            known.by_name.insert(name.to_owned(), id);
            // Like XLA, compare only names: a number that a different type uses is accepted, and keeps its deleter.
            known.set_info(id, info);
            Ok(id)
        })
    }

    /// Returns the number of the type called `name`. Registers the type if the name is new.
    pub(crate) fn get_or_register(&self, name: &str, info: TypeInfo) -> Result<i64> {
        self.register(name, 0, info)
            .or_else(|error| self.id(name).map_err(|_| error))
    }

    /// Returns the number of a type like [`Types::get_or_register`], and reserves a new number if the name is new.
    pub(crate) fn get_or_reserve(&self, name: &str) -> Result<i64> {
        self.reserve(name, 0)
            .or_else(|error| self.id(name).map_err(|_| error))
    }

    /// Returns an error if objects of the type called `name` have a known size other than `size`.
    pub(crate) fn check_size(&self, name: &str, id: i64, size: usize) -> Result<()> {
        self.with(|known| match known.sizes.get(name) {
            Some(&other) if other != size => Err(Error::invalid_argument(format!(
                "objects of type '{name}' (type id {id}) have {other} bytes, this one has {size}: \
                 another version of the type needs another name"
            ))),
            Some(_) => Ok(()),
            None => {
                known.sizes.insert(name.to_owned(), size);
                Ok(())
            }
        })
    }

    /// Returns the type information of a number.
    pub(crate) fn info(&self, id: i64) -> Result<TypeInfo> {
        self.with(|known| {
            let info = known.by_id.get(&id).copied();
            info.filter(|_| !known.reserved.contains(&id))
                .ok_or_else(|| {
                    let hint = if id == 0 {
                        ": register it before its first use"
                    } else {
                        ""
                    };
                    Error::new(
                        ErrorCode::Internal,
                        format!("type id {id} is not registered{hint}"),
                    )
                })
        })
    }

    /// Returns the name of the type with this number.
    pub(crate) fn name(&self, id: i64) -> Option<String> {
        self.with(|known| {
            let mut named = known.by_name.iter();
            let found = named.find(|(_, number)| **number == id);
            found.map(|(name, _)| name.clone())
        })
    }

    /// Returns the number of the type called `name`.
    pub(crate) fn id(&self, name: &str) -> Result<i64> {
        self.with(|known| {
            known.by_name.get(name).copied().ok_or_else(|| {
                Error::new(ErrorCode::NotFound, format!("no type is called '{name}'"))
            })
        })
    }
}

/// Tests every order in which two threads can register types.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_a_name_gets_one_number() {
        loom::model(|| {
            let types = Arc::new(Types::default());
            let there = types.clone();
            let get = |types: &Types| types.get_or_register("a", TypeInfo::default()).unwrap();
            let other = loom::thread::spawn(move || get(&there));
            let here = get(&types);
            assert_eq!(here, other.join().unwrap());
            assert!(types.info(here).is_ok());
        });
    }

    /// The refused thread reads the number of the registered type from the error message, as libraries do.
    #[test]
    fn loom_of_two_that_register_one_is_told_the_others_number() {
        loom::model(|| {
            let types = Arc::new(Types::default());
            let there = types.clone();
            let register = |types: &Types| {
                let told = types.register("a", 0, TypeInfo::default());
                (told.is_ok(), told.or_else(|_| types.id("a")).unwrap())
            };
            let other = loom::thread::spawn(move || register(&there));
            let here = register(&types);
            let there = other.join().unwrap();
            assert!(here.0 != there.0 && here.1 == there.1);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_numbers_need_not_be() {
        let types = Types::default();
        let id = types.register("a", 0, TypeInfo::default()).unwrap();
        assert!(id > 0);
        assert_eq!(types.register("a", id, TypeInfo::default()).unwrap(), id);
        let code = |result: Result<i64>| result.unwrap_err().code();
        assert_eq!(
            code(types.register("a", 0, TypeInfo::default())),
            ErrorCode::Internal
        );
        assert_eq!(
            code(types.register("a", id + 1, TypeInfo::default())),
            ErrorCode::Internal
        );
        assert_eq!(
            code(types.register("b", -1, TypeInfo::default())),
            ErrorCode::InvalidArgument
        );
        assert_eq!(types.register("c", id, TypeInfo::default()).unwrap(), id);
        assert_ne!(types.register("b", 0, TypeInfo::default()).unwrap(), id);
        // The numbers are unique in the process: a different runtime assigns none of them to other names.
        let other = Types::default();
        let theirs = other.register("e", 0, TypeInfo::default()).unwrap();
        assert!(theirs > id);
        assert_eq!(other.register("a", id, TypeInfo::default()).unwrap(), id);
        assert_eq!(types.id("a").unwrap(), id);
        assert_eq!(code(types.id("d")), ErrorCode::NotFound);
        assert!(types.info(99).is_err() && types.info(id).is_ok());
    }
}
