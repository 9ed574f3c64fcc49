//! Legacy targets that libraries bring: by exported symbol, or from the list that they keep.

use crate::handler::Library;
use crate::host::Runtime;
use crate::host::legacy_targets::{Function, Signature};
use std::ffi::{CStr, c_char};
use xla_ffi_sys::XlaFfiLegacyTarget;
use xla_ffi_sys::{Error, Result};

/// The exported function that gives a library's list.
const LIST: &str = "xla_ffi_legacy_targets";

/// A target of a library's list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The name.
    pub name: String,
    /// The platform as the library spells it.
    pub platform: String,
    /// The function.
    pub function: Function,
}

impl Library {
    /// An exported function as a legacy target.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing symbol.
    pub fn legacy_function(&self, symbol: &str, signature: Signature) -> Result<Function> {
        let address = self.symbol(symbol)?;
        // SAFETY: the caller names the symbol as a target of this signature; nothing in a library
        // tells. Libraries stay loaded.
        unsafe { Function::at(address, Some(signature)) }
    }

    /// The targets that the library has registered with its own list so far (by the macros of
    /// `xla/service/custom_call_target_registry.h`, by `library!`, or when it ran), in the order of
    /// their registration. Empty for a library that has no such list.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a list that cannot be read.
    pub fn legacy_targets(&self) -> Result<Vec<Listed>> {
        let Ok(address) = self.symbol(LIST) else {
            return Ok(vec![]);
        };
        type List = unsafe extern "C" fn() -> *const XlaFfiLegacyTarget;
        // SAFETY: the symbol is reserved for a function of this type.
        let list = unsafe { std::mem::transmute::<*mut std::ffi::c_void, List>(address) };
        // SAFETY: it takes nothing.
        let first = unsafe { list() };
        // SAFETY: the library keeps its list for ever.
        unsafe { read_list(first) }
            .map_err(|error| error.within(format_args!("{}: {LIST}()", self.path().display())))
    }

    /// Registers all of [`Library::legacy_targets`] with the library's runtime; says how many.
    ///
    /// # Errors
    /// The first that is refused, after the others have been registered.
    pub fn register_legacy(&self) -> Result<usize> {
        self.runtime().register_listed(&self.legacy_targets()?)
    }
}

impl Runtime {
    /// Registers the targets of a list that a library, or this program, keeps; says how many.
    ///
    /// # Safety
    /// `first` is null or what `xla_ffi_legacy_targets()` of a library gave, which stays loaded.
    ///
    /// # Errors
    /// A list that cannot be read, and the first target that is refused, after the others have been
    /// registered.
    pub unsafe fn register_legacy_list(&self, first: *const XlaFfiLegacyTarget) -> Result<usize> {
        // SAFETY: the caller's promise.
        let targets = unsafe { read_list(first) }?;
        self.register_listed(&targets)
    }

    fn register_listed(&self, targets: &[Listed]) -> Result<usize> {
        let mut refused = None;
        for target in targets {
            let outcome = self.register_legacy(&target.name, &target.platform, target.function);
            refused = refused.or(outcome.err());
        }
        refused.map_or(Ok(targets.len()), Err)
    }
}

/// Reads a list, newest first in memory, into the order of registration.
///
/// # Safety
/// `first` is null or begins a list as the ABI describes it.
unsafe fn read_list(first: *const XlaFfiLegacyTarget) -> Result<Vec<Listed>> {
    let mut targets = vec![];
    let mut at = first;
    while !at.is_null() {
        let entry = || format!("entry {} from its end", targets.len());
        // SAFETY: a target, as the list's owner promises.
        let target = unsafe { &*at };
        if target.struct_size < size_of::<XlaFfiLegacyTarget>() {
            return Err(Error::invalid_argument(format!(
                "{} is {} bytes long, {} are expected",
                entry(),
                target.struct_size,
                size_of::<XlaFfiLegacyTarget>()
            )));
        }
        let signature = Signature::from_raw(target.signature);
        if signature.is_none() && target.signature != XlaFfiLegacyTarget::UNKNOWN {
            return Err(Error::invalid_argument(format!(
                "{} has signature {}, which this runtime does not know",
                entry(),
                target.signature
            )));
        }
        let text = |text: *const c_char, what: &str| {
            if text.is_null() {
                return Err(Error::invalid_argument(format!(
                    "{} has no {what}",
                    entry()
                )));
            }
            // SAFETY: a NUL-terminated string of the library's.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_str().map(str::to_owned).map_err(|error| {
                let text = format!("{}: {what} {text:?} is not UTF-8", entry());
                Error::invalid_argument(text).with_source(error)
            })
        };
        let listed = Listed {
            name: text(target.name, "name")?,
            platform: text(target.platform, "platform")?,
            // SAFETY: the library registered the function as one of this signature.
            function: unsafe { Function::at(target.function, signature) }?,
        };
        targets.push(listed);
        at = target.next;
    }
    targets.reverse();
    Ok(targets)
}
