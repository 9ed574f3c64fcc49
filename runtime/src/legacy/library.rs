//! Legacy targets in libraries: exported functions, or the list of targets that a library exports.

use crate::handler::Library;
use crate::host::Runtime;
use crate::host::legacy_targets::{Function, Signature};
use std::ffi::{CStr, c_char};
use xla_ffi_sys::XlaFfiLegacyTarget;
use xla_ffi_sys::{Error, Result};

/// The exported function that returns the list of a library's targets.
const LIST: &str = "xla_ffi_legacy_targets";

/// A target in the list that a library exports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The name of the target.
    pub name: String,
    /// The platform, as the library spells it.
    pub platform: String,
    /// The function of the target.
    pub function: Function,
}

impl Library {
    /// Returns an exported function as a legacy target.
    ///
    /// # Errors
    /// `NOT_FOUND` for a missing symbol.
    pub fn legacy_function(&self, symbol: &str, signature: Signature) -> Result<Function> {
        let address = self.symbol(symbol)?;
        // SAFETY: the caller guarantees the signature, because libraries do not describe their symbols. Libraries
        // stay loaded.
        unsafe { Function::at(address, Some(signature)) }
    }

    /// Returns the targets that the library has added to its list so far, in the order of registration.
    ///
    /// The macros of `xla/service/custom_call_target_registry.h`, `library!`, and code of the library add targets.
    /// For a library without a list, the result is empty.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a list that cannot be read.
    pub fn legacy_targets(&self) -> Result<Vec<Listed>> {
        let Ok(address) = self.symbol(LIST) else {
            return Ok(vec![]);
        };
        type List = unsafe extern "C" fn() -> *const XlaFfiLegacyTarget;
        // SAFETY: the symbol's name is reserved for functions of this type.
        let list = unsafe { std::mem::transmute::<*mut std::ffi::c_void, List>(address) };
        // SAFETY: the function has no parameters.
        let first = unsafe { list() };
        // SAFETY: the library keeps its list while it is loaded, and libraries stay loaded.
        unsafe { read_list(first) }
            .map_err(|error| error.within(format_args!("{}: {LIST}()", self.path().display())))
    }

    /// Registers all targets of [`Library::legacy_targets`] with the library's runtime, and returns the number of
    /// targets.
    ///
    /// # Errors
    /// The error of the first refused target; the remaining targets are still registered.
    pub fn register_legacy(&self) -> Result<usize> {
        self.runtime().register_listed(&self.legacy_targets()?)
    }
}

impl Runtime {
    /// Registers the targets in the list of a library or of this program, and returns the number of targets.
    ///
    /// # Safety
    /// `first` must be null or the result of `xla_ffi_legacy_targets()` of a library that stays loaded.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a list that cannot be read. Otherwise the error of the first refused target; the
    /// remaining targets are still registered.
    pub unsafe fn register_legacy_list(&self, first: *const XlaFfiLegacyTarget) -> Result<usize> {
        // SAFETY: guaranteed by the caller.
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

/// Reads a list of targets, and returns them in the order of registration. The list starts with the newest target.
///
/// # Safety
/// `first` must be null or the first entry of a valid list.
unsafe fn read_list(first: *const XlaFfiLegacyTarget) -> Result<Vec<Listed>> {
    let mut targets = vec![];
    let mut at = first;
    while !at.is_null() {
        let entry = || format!("entry {} from its end", targets.len());
        // SAFETY: the owner of the list guarantees that its entries are valid.
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
            // SAFETY: the strings in the list are NUL-terminated.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_str().map(str::to_owned).map_err(|error| {
                let text = format!("{}: {what} {text:?} is not UTF-8", entry());
                Error::invalid_argument(text).with_source(error)
            })
        };
        let listed = Listed {
            name: text(target.name, "name")?,
            platform: text(target.platform, "platform")?,
            // SAFETY: the library registered the function under this signature.
            function: unsafe { Function::at(target.function, signature) }?,
        };
        targets.push(listed);
        at = target.next;
    }
    targets.reverse();
    Ok(targets)
}
