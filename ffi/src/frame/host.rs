//! The host: its revision, and its functions with the argument structs of that revision. This module handles all
//! differences between revisions. The revision is not cached, but determined from the frame's `api` pointer each
//! time.

mod context;
mod types;

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

use crate::error::{Error, ErrorCode, Result, wording};
use crate::frame::raw_buffer::uninit;
use xla_ffi_sys::*;

/// The host of a call, identified by the `api` pointer of the call frame.
///
/// ```
/// use xla_ffi::{Revision, prelude::*, ext::RawCall, bind::Slot};
///
/// #[xla_ffi::handler]
/// fn about(call: RawCall, mut y: Out<i32, 1>) -> Result<()> {
///     let host = call.host();
///     let (major, minor) = host.version();
///     // Before r5 the version says less than the table: ask for the function.
///     let has_run_id = host.has(Slot::RunIdGet);
///     assert_eq!(has_run_id, host.revision() >= Revision::R4);
///     y.copy_from(&[major, minor])
/// }
///
/// # use xla_ffi::embed::{self, DType, Runtime, Shape};
/// for (revision, minor) in [(Revision::R2, 1), (Revision::R10, 5)] {
///     let handler = Runtime::new(revision).handler("about", embed::bundle::<about>())?;
///     let call = handler.instantiate(&embed::Attributes::new())?.call();
///     let outcome = call.ret(Shape::new(DType::S32, [2])?).run()?;
///     assert_eq!(outcome.rets[0].to_vec(), Some(vec![0, minor]));
/// }
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// Invariant: the pointer is null (in metadata queries of hosts with version 0.1) or points to a function table of
/// one of the revisions. The table lives as long as the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Host {
    api: *const XLA_FFI_Api,
}

// SAFETY: the table is constant as long as the host lives.
unsafe impl Send for Host {}
// SAFETY: the table is constant as long as the host lives.
unsafe impl Sync for Host {}

/// The newest revision whose layouts the library uses. With `--cfg xla_ffi_newest_known`, an exported variable is the
/// number of that revision. Tests use this to build libraries that only know older revisions.
#[cfg(not(xla_ffi_newest_known))]
const fn newest_known() -> Revision {
    Revision::NEWEST
}
#[cfg(xla_ffi_newest_known)]
fn newest_known() -> Revision {
    use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
    #[unsafe(no_mangle)]
    static XLA_FFI_NEWEST_KNOWN: AtomicI32 = AtomicI32::new(Revision::NEWEST as i32);
    Revision::ALL[XLA_FFI_NEWEST_KNOWN.load(Relaxed) as usize]
}

/// The type of a function of the host's table that returns an error or null.
type Call<A> = unsafe extern "C" fn(args: *mut A) -> *mut XLA_FFI_Error;

impl Host {
    /// Creates a host from its function table.
    ///
    /// # Safety
    /// `api` is null or points to a host's table, which lives as long as the host.
    #[inline(always)]
    pub(crate) unsafe fn new(api: *const XLA_FFI_Api) -> Self {
        Self { api }
    }

    #[inline(always)]
    pub(crate) fn api(self) -> *const XLA_FFI_Api {
        self.api
    }

    /// Returns true if the host predates r0. The table of such a host is shorter than in r0. Only the size of the
    /// table is read, and the function that creates errors if the layout is known.
    #[must_use]
    pub(crate) fn is_before_r0(self) -> bool {
        // SAFETY: the pointer is not null, and the size is the first field in every revision.
        !self.api.is_null() && unsafe { (*self.api).struct_size } < Revision::R0.api_struct_size()
    }

    /// Returns the error that rejects `what` (a call or a registration) on a host that predates r0. Returns null if the
    /// layout of the table is unknown.
    #[cold]
    pub(crate) fn refuse_before_r0(self, what: &str) -> *mut XLA_FFI_Error {
        let text = [what, wording::BEFORE_R0].concat();
        self.make_error(crate::error::ErrorCode::Unimplemented, &text)
    }

    /// Returns the major and minor version of the host. The version is 0.1 if the host passed no table, and 0.0
    /// before r0, whose tables have no version.
    #[must_use]
    pub fn version(self) -> (i32, i32) {
        if self.api.is_null() {
            return (0, 1);
        }
        if self.is_before_r0() {
            return (0, 0);
        }
        // SAFETY: the pointer is not null, and the version has the same offset in every revision.
        let version = unsafe { &raw const (*self.api).api_version };
        // SAFETY: the pointer is not null, and the version has the same offset in every revision.
        let major = unsafe { (*version).major_version };
        // SAFETY: the pointer is not null, and the version has the same offset in every revision.
        let minor = unsafe { (*version).minor_version };
        (major, minor)
    }

    /// Returns true if the version of the host is at least the version of `revision`. r1 to r6 have the same version.
    pub(crate) fn at_least(self, revision: Revision) -> bool {
        revision <= newest_known() && self.version() >= (0, revision.minor_version())
    }

    /// Returns the newest version that both the host and the library know. If the version of `floor` is newer,
    /// returns that version.
    pub(crate) fn common_version(self, floor: Revision) -> (i32, i32) {
        let floor = (0, floor.minor_version());
        self.version()
            .max(floor)
            .min((0, newest_known().minor_version()))
    }

    /// Returns true if the host is newer than every revision that the library knows.
    fn is_newer(self) -> bool {
        self.version() > (0, newest_known().minor_version())
    }

    /// Returns the number of functions in the host's function table.
    ///
    /// Before r5, every table states a size of 88 bytes. If the host's private table follows the function table
    /// directly, their distance is the function table's length. At any other distance, only the functions whose
    /// positions never changed are assumed to exist.
    fn slots(self) -> usize {
        if self.api.is_null() {
            return 0;
        }
        if self.is_before_r0() {
            return 0;
        }
        // SAFETY: the pointer is not null, and the size is the first field in every revision.
        let size = unsafe { (*self.api).struct_size };
        if size > Revision::R4.api_struct_size() && newest_known() >= Revision::R5 {
            return ((size - Slot::HEAD) / size_of::<usize>()).min(newest_known().slot_count());
        }
        // SAFETY: the pointer is not null, and the field has the same offset in every revision.
        let internal = unsafe { (*self.api).internal_api };
        let distance = (internal as usize).wrapping_sub(self.api as usize);
        let known = Revision::ALL[..5]
            .iter()
            .find(|revision| **revision <= newest_known() && revision.api_size() == distance);
        match known {
            Some(revision) => revision.slot_count(),
            None if self.at_least(Revision::R1) => Revision::R1.slot_count(),
            None => Revision::R0.slot_count(),
        }
    }

    /// Returns the oldest revision that matches the host. Unknown newer hosts have the newest known revision; r6
    /// cannot be distinguished from r5.
    #[must_use]
    pub fn revision(self) -> Revision {
        let version = self.version();
        // Several revisions have version 0.1. The length of the table distinguishes these
        // revisions.
        let slots = self.slots().min(Revision::R5.slot_count());
        let fits = |revision: &Revision| {
            *revision <= newest_known()
                && (0, revision.minor_version()) == version
                && (version != (0, 1) || revision.slot_count() == slots)
        };
        let unknown = if version == (0, 1) {
            Revision::R1
        } else {
            newest_known()
        };
        Revision::ALL.into_iter().find(fits).unwrap_or(unknown)
    }

    /// Returns the address of a function's slot, or `None` if the host's table lacks the slot.
    #[inline]
    fn slot(self, slot: Slot) -> Option<*const c_void> {
        if self.api.is_null() {
            return None;
        }
        // SAFETY: the pointer is not null, and the size is the first field in every revision.
        let size = unsafe { (*self.api).struct_size };
        // Tables that state their true size have the order of r10.
        let place = Slot::HEAD + size_of::<usize>() * slot as usize;
        let is_told = size > Revision::R4.api_struct_size() && newest_known() >= Revision::R5;
        if is_told && place + size_of::<usize>() <= size && slot.since() <= newest_known() {
            // SAFETY: `place` is within the table, which has `size` bytes.
            return Some(unsafe { self.api.cast::<u8>().add(place) }.cast());
        }
        self.slot_of_old_table(slot)
    }

    #[cold]
    #[inline(never)]
    fn slot_of_old_table(self, slot: Slot) -> Option<*const c_void> {
        // SAFETY: the caller has read the same field before.
        let size = unsafe { (*self.api).struct_size };
        if size < Revision::R0.api_struct_size() {
            // For hosts before r0, only the first function is needed, to report that the host is unsupported.
            let is_wanted = slot == Slot::ErrorCreate;
            // SAFETY: the closure is called only for a table of `size` bytes, which include the field. A table
            // before r0 starts with its size and has no version.
            let is_old = || unsafe {
                (*self.api).api_version.struct_size != XLA_FFI_Api_Version::STRUCT_SIZE
            };
            let known = size == Revision::BEFORE_R0_STRUCT_SIZE && is_old();
            return (known && is_wanted).then(|| {
                // SAFETY: the table has `size` bytes, which include the first function.
                unsafe { self.api.cast::<u8>().add(Revision::BEFORE_R0_TABLE_HEAD) }.cast()
            });
        }
        let slots = self.slots();
        let order = if slots == Revision::R2.slot_count() {
            Revision::R2
        } else {
            Revision::NEWEST
        };
        let index = slot.index(order)?;
        (index < slots).then(|| {
            // SAFETY: the table has `slots` pointers after its head.
            unsafe { self.api.cast::<u8>().add(Slot::HEAD + 8 * index) }.cast()
        })
    }

    /// Returns the function in a slot, or `None` if the slot is missing or null.
    #[inline]
    fn function<A>(self, slot: Slot) -> Option<Call<A>> {
        let place = self.slot(slot)?;
        // SAFETY: the slot holds a nullable function pointer. Callers pass the argument struct that belongs to the
        // slot.
        unsafe { *place.cast::<Option<Call<A>>>() }
    }

    /// Returns true if the host's table has the function.
    #[must_use]
    #[inline]
    pub fn has(self, slot: Slot) -> bool {
        self.function::<c_void>(slot).is_some()
    }

    /// Calls a function of the host's table and converts the returned error. `feature` is the requested feature, for
    /// the error if the host lacks the function.
    ///
    /// # Safety
    /// `A` is the argument struct for `slot` in the host's revision, and all fields of `args` are
    /// set.
    #[inline]
    unsafe fn call<A>(self, slot: Slot, feature: Feature, args: &mut A) -> Result<()> {
        let function = self
            .function::<A>(slot)
            .ok_or_else(|| self.missing_feature(feature))?;
        // SAFETY: the caller guarantees that the arguments match the slot.
        let error = unsafe { function(args) };
        self.check(error)
            .map_err(|error| self.with_version(feature, error))
    }

    /// Adds the host's version to an error of the host's function if the host is newer than the library. The error
    /// may concern arguments that the library does not know.
    #[cold]
    fn with_version(self, feature: Feature, error: Error) -> Error {
        if !self.is_newer() {
            return error;
        }
        let text = [wording::feature(feature), ": ", error.message()].concat();
        let (this, newer) = (wording::THIS_HOST, wording::NEWER_HOST);
        Error::new(error.code(), format!("{text}{this}{self}{newer}"))
    }

    /// Returns an error on a newer host if the library knows no revision from r8 on. The layouts of types and state
    /// changed until r8, and hosts misread older layouts.
    fn has_known_types(self) -> Result<()> {
        if newest_known() >= Revision::R8 || !self.is_newer() {
            return Ok(());
        }
        let error = Error::unimplemented("not available");
        Err(self.with_version(Feature::UserTypes, error))
    }

    /// Returns the error for a feature that the host lacks.
    #[cold]
    pub(crate) fn missing_feature(self, feature: Feature) -> Error {
        let (wanted, first) = (wording::feature(feature), feature.since().first_jaxlib());
        let text = [wanted, wording::FIRST_JAXLIB, first, wording::THIS_HOST].concat();
        Error::unimplemented(format!("{text}{self}"))
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = self.version();
        let releases = wording::Releases(self.revision());
        write!(f, "{}{major}.{minor} ({releases})", wording::VERSION)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Host {
    /// Creates an error object of the host. Returns null if the host passed no function table.
    #[cold]
    pub(crate) fn make_error(self, code: ErrorCode, message: &str) -> *mut XLA_FFI_Error {
        let Some(create) = self.function::<XLA_FFI_Error_Create_Args>(Slot::ErrorCreate) else {
            crate::error::panics::warn(format_args!(
                "the host gave no means to report an error: {message}"
            ));
            return std::ptr::null_mut();
        };
        // Short texts are copied to the stack, so that these texts need no allocation.
        let mut short = [const { MaybeUninit::<u8>::uninit() }; 512];
        let mut long = String::new();
        let text = if message.len() < short.len() && !message.contains('\0') {
            uninit::copy(&mut short[..message.len()], message.as_bytes());
            short[message.len()].write(0);
            short.as_ptr().cast::<c_char>()
        } else {
            long.push_str(&message.replace('\0', "\\0"));
            long.push('\0');
            long.as_ptr().cast::<c_char>()
        };
        let mut args = XLA_FFI_Error_Create_Args {
            struct_size: XLA_FFI_Error_Create_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            message: text,
            errc: code.to_raw(),
        };
        // SAFETY: slot 0 has this argument struct in every revision. The text is NUL-terminated, and the host copies
        // it.
        unsafe { create(&raw mut args) }
    }

    /// Converts an error object to a `Result` and destroys the object. Null means success.
    #[inline]
    pub(crate) fn check(self, error: *mut XLA_FFI_Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        Err(self.read_error(error))
    }

    #[cold]
    fn read_error(self, error: *mut XLA_FFI_Error) -> Error {
        // Hosts before r9 also accept the larger struct, and set only the message.
        let mut details = XLA_FFI_Error_GetDetails_Args {
            struct_size: XLA_FFI_Error_GetDetails_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            error,
            message: std::ptr::null(),
            errc: ErrorCode::Internal.to_raw(),
        };
        let mut message = String::from("the host reported an error without a text");
        type Details = unsafe extern "C" fn(*mut XLA_FFI_Error_GetDetails_Args);
        if let Some(place) = self.slot(Slot::ErrorGetDetails) {
            // SAFETY: the slot holds a nullable pointer to a function of this type.
            if let Some(get) = unsafe { *place.cast::<Option<Details>>() } {
                // SAFETY: hosts of every revision accept this struct.
                unsafe { get(&raw mut details) };
            }
        }
        if !details.message.is_null() {
            // SAFETY: the message is a C string that is valid until the error is destroyed.
            let text = unsafe { std::ffi::CStr::from_ptr(details.message) };
            message = text.to_string_lossy().into_owned();
        }
        let mut destroy_args = XLA_FFI_Error_Destroy_Args {
            struct_size: XLA_FFI_Error_Destroy_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            error,
        };
        type Destroy = unsafe extern "C" fn(*mut XLA_FFI_Error_Destroy_Args);
        if let Some(place) = self.slot(Slot::ErrorDestroy) {
            // SAFETY: the slot holds a nullable pointer to a function of this type.
            if let Some(destroy) = unsafe { *place.cast::<Option<Destroy>>() } {
                // SAFETY: this function owns the error, and does not use it afterwards.
                unsafe { destroy(&raw mut destroy_args) };
            }
        }
        Error::new(
            ErrorCode::from_raw(details.errc).unwrap_or(ErrorCode::Internal),
            message,
        )
    }
}
