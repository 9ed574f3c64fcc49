//! The host: which revision it speaks, and its functions with the arguments that this revision
//! wants. Everything that varies with the revision is decided here, from the call frame's `api`
//! pointer; nothing is remembered.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

use crate::call::raw_attribute::RawAttrs;
use crate::error::{Error, ErrorCode, Result};
use xla_ffi_sys::*;

/// The host behind a call, made from the frame's `api` pointer.
///
/// ```
/// use xla_ffi::{RawCall, Revision, Slot, prelude::*};
///
/// #[xla_ffi::handler]
/// fn about(call: RawCall, mut y: Out<i32, 1>) -> Result<()> {
///     let host = call.host();
///     let (major, minor) = host.version();
///     // Before r5 the version says less than the table: ask for the function.
///     let has_run_id = host.has(Slot::RunIdGet);
///     assert_eq!(has_run_id, host.revision() >= Revision::R4);
///     y.copy_from(&[major, minor])?;
///     Ok(())
/// }
///
/// # use xla_ffi::internal::{self, DType, Runtime, Shape};
/// for (revision, minor) in [(Revision::R2, 1), (Revision::R10, 5)] {
///     let handler = Runtime::new(revision).handler("about", internal::bundle::<about>())?;
///     let call = handler.instantiate(&internal::Attributes::new())?.call();
///     let outcome = call.ret(Shape::new(DType::S32, [2])?).run()?;
///     assert_eq!(outcome.rets[0].to_vec(), Some(vec![0, minor]));
/// }
/// # Ok::<(), internal::Error>(())
/// ```
///
/// Invariant: the pointer is null (in the metadata call of version 0.1 hosts) or names a function
/// table of one of the revisions that lives as long as the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Host {
    api: *const XLA_FFI_Api,
}

// SAFETY: the table is constant for the host's whole life.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// A function of the table that answers with an error.
type Call<A> = unsafe extern "C" fn(args: *mut A) -> *mut XLA_FFI_Error;

impl Host {
    /// # Safety
    /// `api` is null or names a host's table, which lives as long as the host.
    #[inline(always)]
    pub(crate) unsafe fn new(api: *const XLA_FFI_Api) -> Self {
        Self { api }
    }

    #[inline(always)]
    pub(crate) fn api(self) -> *const XLA_FFI_Api {
        self.api
    }

    /// Major and minor version that the host states; 0.1 where it gave no table to ask.
    #[must_use]
    pub fn version(self) -> (i32, i32) {
        if self.api.is_null() {
            return (0, 1);
        }
        // SAFETY: not null; the version lies at the same place in every revision.
        let version = unsafe { &raw const (*self.api).api_version };
        // SAFETY: as above.
        let major = unsafe { (*version).major_version };
        // SAFETY: as above.
        let minor = unsafe { (*version).minor_version };
        (major, minor)
    }

    /// Whether the host's version is at least 0.`minor`.
    fn at_least(self, minor: i32) -> bool {
        self.version() >= (0, minor)
    }

    /// Number of functions in the table.
    ///
    /// Before r5 the table says 88 bytes whatever its length. Then the host's private table lies
    /// right behind this one, which tells the length; at any other distance only the functions
    /// that never moved are taken to be there.
    fn slots(self) -> usize {
        if self.api.is_null() {
            return 0;
        }
        // SAFETY: not null; the first field in every revision.
        let size = unsafe { (*self.api).struct_size };
        if size > Revision::R4.api_struct_size() {
            return (size - Slot::HEAD) / size_of::<usize>();
        }
        // SAFETY: not null; the field lies at the same place in every revision.
        let internal = unsafe { (*self.api).internal_api };
        let distance = (internal as usize).wrapping_sub(self.api as usize);
        let known = Revision::ALL[..5]
            .iter()
            .find(|revision| revision.api_size() == distance);
        match known {
            Some(revision) => revision.slot_count(),
            None if self.at_least(1) => Revision::R1.slot_count(),
            None => Revision::R0.slot_count(),
        }
    }

    /// The oldest revision that fits what the host shows. A host newer than all that are known
    /// counts as the newest known; r5 stands for r6 too.
    #[must_use]
    pub fn revision(self) -> Revision {
        match (self.version(), self.slots()) {
            ((0, 0), _) => Revision::R0,
            ((0, 1), 15) => Revision::R2,
            ((0, 1), 16) => Revision::R3,
            ((0, 1), 17) => Revision::R4,
            ((0, 1), 18..) => Revision::R5,
            ((0, 1), _) => Revision::R1,
            ((0, 2), _) => Revision::R7,
            ((0, 3), _) => Revision::R8,
            ((0, 4), _) => Revision::R9,
            _ => Revision::R10,
        }
    }

    /// The address of a function's slot; `None` where the table has none.
    #[inline]
    fn slot(self, slot: Slot) -> Option<*const c_void> {
        if self.api.is_null() {
            return None;
        }
        // SAFETY: not null; the first field in every revision.
        let size = unsafe { (*self.api).struct_size };
        // Tables that tell their length have the newest order.
        let place = Slot::HEAD + size_of::<usize>() * slot as usize;
        if size > Revision::R4.api_struct_size() && place + size_of::<usize>() <= size {
            // SAFETY: the table has `size` bytes.
            return Some(unsafe { self.api.cast::<u8>().add(place) }.cast());
        }
        self.slot_of_old_table(slot)
    }

    #[cold]
    #[inline(never)]
    fn slot_of_old_table(self, slot: Slot) -> Option<*const c_void> {
        let slots = self.slots();
        let order = if slots == Revision::R2.slot_count() {
            Revision::R2
        } else {
            Revision::NEWEST
        };
        let index = slot.index(order)?;
        (index < slots).then(|| {
            // SAFETY: the table has `slots` pointers behind its head.
            unsafe { self.api.cast::<u8>().add(Slot::HEAD + 8 * index) }.cast()
        })
    }

    /// A function that answers with an error; `None` where the table has none or a null.
    #[inline]
    fn function<A>(self, slot: Slot) -> Option<Call<A>> {
        let place = self.slot(slot)?;
        // SAFETY: the place holds a nullable function pointer of the slot's type; callers name the
        // argument struct that goes with the slot.
        unsafe { *place.cast::<Option<Call<A>>>() }
    }

    /// Whether the host has a function.
    #[must_use]
    #[inline]
    pub fn has(self, slot: Slot) -> bool {
        self.function::<c_void>(slot).is_some()
    }

    /// Calls a function and turns its error into ours; `feature` names what is asked for.
    ///
    /// # Safety
    /// `A` is the argument struct that the host's revision wants for `slot`, filled in.
    #[inline]
    unsafe fn call<A>(self, slot: Slot, feature: &str, args: &mut A) -> Result<()> {
        let function = self
            .function::<A>(slot)
            .ok_or_else(|| self.lacks(feature, slot.since()))?;
        // SAFETY: the caller's promise.
        let error = unsafe { function(args) };
        self.check(error)
    }

    /// The error for a feature that the host does not have.
    #[cold]
    pub(crate) fn lacks(self, feature: &str, since: Revision) -> Error {
        Error::unimplemented(format!(
            "{feature}: the first jaxlib that has it is {}; this host speaks {self}",
            since.first_jaxlib()
        ))
    }

    /// Makes an error object; null where there is no table to make one with.
    #[cold]
    pub(crate) fn make_error(self, code: ErrorCode, message: &str) -> *mut XLA_FFI_Error {
        let Some(create) = self.function::<XLA_FFI_Error_Create_Args>(Slot::ErrorCreate) else {
            crate::entry::panics::tell(format_args!(
                "the host gave no means to report an error: {message}"
            ));
            return std::ptr::null_mut();
        };
        // A short text needs no allocation.
        let mut short = [const { MaybeUninit::<u8>::uninit() }; 512];
        let mut long = String::new();
        let text = if message.len() < short.len() && !message.contains('\0') {
            short[..message.len()].write_copy_of_slice(message.as_bytes());
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
        // SAFETY: slot 0 takes this struct in every revision; the text ends in NUL and is copied.
        unsafe { create(&raw mut args) }
    }

    /// Null is success; anything else is read and destroyed.
    #[inline]
    pub(crate) fn check(self, error: *mut XLA_FFI_Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        Err(self.read_error(error))
    }

    #[cold]
    fn read_error(self, error: *mut XLA_FFI_Error) -> Error {
        // Hosts before r9 fill the message alone, and take the larger struct for the smaller one.
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
            // SAFETY: the place holds a nullable pointer to this type of function.
            if let Some(get) = unsafe { *place.cast::<Option<Details>>() } {
                // SAFETY: the struct fits every revision (above).
                unsafe { get(&raw mut details) };
            }
        }
        if !details.message.is_null() {
            // SAFETY: a C string that lives as long as the error, which is destroyed below.
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
            // SAFETY: the place holds a nullable pointer to this type of function.
            if let Some(destroy) = unsafe { *place.cast::<Option<Destroy>>() } {
                // SAFETY: the error is ours and not used afterwards.
                unsafe { destroy(&raw mut destroy_args) };
            }
        }
        Error::new(
            ErrorCode::from_raw(details.errc).unwrap_or(ErrorCode::Internal),
            message,
        )
    }

    /// Registers a handler. A record stage needs r9; without one every host takes the short form.
    pub(crate) fn register(
        self,
        name: &str,
        platform: &str,
        bundle: XLA_FFI_Handler_Bundle,
        traits: u32,
    ) -> Result<()> {
        let span = |text: &str| XLA_FFI_ByteSpan {
            ptr: text.as_ptr().cast(),
            len: text.len(),
        };
        if bundle.record.is_some() && self.at_least(4) {
            let mut args = XLA_FFI_Handler_Register_Args {
                struct_size: XLA_FFI_Handler_Register_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                name: span(name),
                platform: span(platform),
                bundle,
                traits,
            };
            // SAFETY: the long form is what hosts from version 0.4 want.
            return unsafe { self.call(Slot::HandlerRegister, "registration", &mut args) };
        }
        let mut args = XLA_FFI_Handler_Register_Args_R0 {
            struct_size: XLA_FFI_Handler_Register_Args_R0::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            name: span(name),
            platform: span(platform),
            bundle: XLA_FFI_Handler_Bundle_R0 {
                instantiate: bundle.instantiate,
                prepare: bundle.prepare,
                initialize: bundle.initialize,
                execute: bundle.execute,
            },
            traits,
        };
        // SAFETY: the short form is understood by every host.
        unsafe { self.call(Slot::HandlerRegister, "registration", &mut args) }
    }

    /// Registers a user type and gives its number in this XLA copy, which is `wanted` unless that is
    /// 0 or the host older than r5. On r0 the number is of no use.
    pub(crate) fn register_type(
        self,
        name: &str,
        wanted: i64,
        deleter: unsafe extern "C" fn(*mut c_void),
    ) -> Result<i64> {
        let info = XLA_FFI_TypeInfo {
            struct_size: XLA_FFI_TypeInfo::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            deleter: Some(deleter),
        };
        let mut id = XLA_FFI_TypeId { type_id: wanted };
        let mut args = XLA_FFI_Type_Register_Args {
            struct_size: XLA_FFI_Type_Register_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            name: XLA_FFI_ByteSpan {
                ptr: name.as_ptr().cast(),
                len: name.len(),
            },
            type_id: &raw mut id,
            type_info: &raw const info,
        };
        // SAFETY: the size (40, up to `type_id`) is what every revision expects; r7 and later read
        // `type_info` behind it in any case, and older ones do not look there.
        unsafe { self.call(Slot::TypeRegister, "user types", &mut args) }?;
        Ok(id.type_id)
    }

    /// The number of a user type that libraries share by its name. Every host refuses a name that it
    /// knows, and says the number in the refusal.
    pub(crate) fn share_type(
        self,
        name: &str,
        deleter: unsafe extern "C" fn(*mut c_void),
    ) -> Result<i64> {
        let unknown = XLA_FFI_UNKNOWN_TYPE_ID.type_id;
        let refusal = match self.register_type(name, unknown, deleter) {
            Ok(id) => return Ok(id),
            Err(refusal) => refusal,
        };
        let Some(id) = taken_number(name, refusal.message()) else {
            return Err(refusal);
        };
        // From r5 on a name may be registered again with its own number and no other.
        if self.revision() >= Revision::R5 {
            self.register_type(name, id, deleter)?;
        }
        Ok(id)
    }

    /// Whether the error of a look-up says that there is nothing to be found. Hosts before r9 tell no
    /// code but INTERNAL, so `words` of the message have to do.
    pub(crate) fn says_absent(self, error: &Error, words: &str) -> bool {
        error.code() == ErrorCode::NotFound || !self.at_least(4) && error.message().contains(words)
    }

    /// Fails where there is no state: r0 has the functions, but they crash.
    pub(crate) fn needs_state(self) -> Result<()> {
        if self.at_least(1) {
            Ok(())
        } else {
            Err(self.lacks("state", Revision::R1))
        }
    }

    /// Fails where only the instantiate stage can leave state.
    pub(crate) fn has_stage_state(self) -> Result<()> {
        if self.at_least(3) {
            Ok(())
        } else {
            Err(self.lacks("state of the prepare and initialize stages", Revision::R8))
        }
    }

    /// Hands an object of type `type_id` over as the state of `stage`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call. The object is one that `deleter`, registered with
    /// the type, destroys; on success it belongs to the host.
    pub(crate) unsafe fn set_state(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        stage: u32,
        type_id: i64,
        state: *mut c_void,
        deleter: unsafe extern "C" fn(*mut c_void),
    ) -> Result<()> {
        let mut id = XLA_FFI_TypeId { type_id };
        if self.at_least(3) {
            let mut args = XLA_FFI_State_Set_Args {
                struct_size: XLA_FFI_State_Set_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                ctx,
                stage: XLA_FFI_ExecutionStage(stage),
                type_id: &raw mut id,
                state,
            };
            // SAFETY: the layout of versions from 0.3.
            return unsafe { self.call(Slot::StateSet, "state", &mut args) };
        }
        if stage != XLA_FFI_ExecutionStage::INSTANTIATE.0 {
            self.has_stage_state()?;
        }
        if self.at_least(2) {
            let mut args = XLA_FFI_State_Set_Args_R7 {
                struct_size: XLA_FFI_State_Set_Args_R7::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                ctx,
                type_id: &raw mut id,
                state,
            };
            // SAFETY: the layout of version 0.2.
            return unsafe { self.call(Slot::StateSet, "state", &mut args) };
        }
        self.needs_state()?;
        let mut args = XLA_FFI_State_Set_Args_R0 {
            struct_size: XLA_FFI_State_Set_Args_R0::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            type_id: &raw mut id,
            state,
            deleter: Some(deleter),
        };
        // SAFETY: the layout of version 0.1.
        unsafe { self.call(Slot::StateSet, "state", &mut args) }
    }

    /// The state of `stage`, which is of type `type_id`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn state(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        stage: u32,
        type_id: i64,
    ) -> Result<*mut c_void> {
        let mut id = XLA_FFI_TypeId { type_id };
        if self.at_least(3) {
            let mut args = XLA_FFI_State_Get_Args {
                struct_size: XLA_FFI_State_Get_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                ctx,
                stage: XLA_FFI_ExecutionStage(stage),
                type_id: &raw mut id,
                state: std::ptr::null_mut(),
            };
            // SAFETY: the layout of versions from 0.3.
            unsafe { self.call(Slot::StateGet, "state", &mut args) }?;
            return Ok(args.state);
        }
        if stage != XLA_FFI_ExecutionStage::INSTANTIATE.0 {
            self.has_stage_state()?;
        }
        self.needs_state()?;
        let mut args = XLA_FFI_State_Get_Args_R0 {
            struct_size: XLA_FFI_State_Get_Args_R0::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            type_id: &raw mut id,
            state: std::ptr::null_mut(),
        };
        // SAFETY: the layout of versions 0.1 and 0.2.
        unsafe { self.call(Slot::StateGet, "state", &mut args) }?;
        Ok(args.state)
    }

    /// The object of user data of type `type_id`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn user_data(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        type_id: i64,
    ) -> Result<*mut c_void> {
        let mut id = XLA_FFI_TypeId { type_id };
        let mut args = XLA_FFI_InvokeContext_Get_Args {
            struct_size: XLA_FFI_InvokeContext_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            type_id: &raw mut id,
            data: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision.
        unsafe { self.call(Slot::InvokeContextGet, "user data", &mut args) }?;
        Ok(args.data)
    }

    /// The platform's stream.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn stream(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<*mut c_void> {
        let mut args = XLA_FFI_Stream_Get_Args {
            struct_size: XLA_FFI_Stream_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            stream: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision.
        unsafe { self.call(Slot::StreamGet, "stream", &mut args) }?;
        Ok(args.stream)
    }

    /// Allocates device memory.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn allocate(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        size: usize,
        alignment: usize,
    ) -> Result<*mut c_void> {
        let mut args = XLA_FFI_DeviceMemory_Allocate_Args {
            struct_size: XLA_FFI_DeviceMemory_Allocate_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            size,
            alignment,
            data: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision.
        unsafe { self.call(Slot::DeviceMemoryAllocate, "scratch memory", &mut args) }?;
        Ok(args.data)
    }

    /// Frees device memory.
    ///
    /// # Safety
    /// `ctx` is the context of the current call, `data` came from [`Host::allocate`] with `size`.
    pub(crate) unsafe fn free(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        size: usize,
        data: *mut c_void,
    ) -> Result<()> {
        let mut args = XLA_FFI_DeviceMemory_Free_Args {
            struct_size: XLA_FFI_DeviceMemory_Free_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            size,
            data,
        };
        // SAFETY: the struct is the same in every revision.
        unsafe { self.call(Slot::DeviceMemoryFree, "scratch memory", &mut args) }
    }

    /// Runs `task(data)` on the host's pool, some time.
    ///
    /// # Safety
    /// `ctx` is the context of the current call; `task` may be called with `data` once, from any
    /// thread, until it has been.
    pub(crate) unsafe fn schedule(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        task: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Result<()> {
        let mut args = XLA_FFI_ThreadPool_Schedule_Args {
            struct_size: XLA_FFI_ThreadPool_Schedule_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            task: Some(task),
            data,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::ThreadPoolSchedule, "thread pool", &mut args) }
    }

    /// Number of threads of the host's pool.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn num_threads(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<i64> {
        let mut threads = 0;
        let mut args = XLA_FFI_ThreadPool_NumThreads_Args {
            struct_size: XLA_FFI_ThreadPool_NumThreads_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            num_threads: &raw mut threads,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe {
            self.call(
                Slot::ThreadPoolNumThreads,
                "size of the thread pool",
                &mut args,
            )
        }?;
        Ok(threads)
    }

    /// Makes a future.
    pub(crate) fn make_future(self) -> Result<*mut XLA_FFI_Future> {
        // The size is 16: hosts check for that many bytes but write `future`, up to 24.
        let mut args = XLA_FFI_Future_Create_Args {
            struct_size: XLA_FFI_Future_Create_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            future: std::ptr::null_mut(),
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::FutureCreate, "futures", &mut args) }?;
        Ok(args.future)
    }

    /// Completes a future, with an error or without.
    ///
    /// # Safety
    /// `future` came from [`Host::make_future`] and has not been completed.
    pub(crate) unsafe fn complete(self, future: *mut XLA_FFI_Future, outcome: &Result<()>) {
        let error = match outcome {
            Ok(()) => std::ptr::null_mut(),
            Err(error) => self.make_error(error.code(), error.message()),
        };
        let told = if error.is_null() {
            let mut args = XLA_FFI_Future_SetAvailable_Args {
                struct_size: XLA_FFI_Future_SetAvailable_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                future,
            };
            // SAFETY: the struct is the same in every revision that has the slot.
            unsafe { self.call(Slot::FutureSetAvailable, "futures", &mut args) }
        } else {
            let mut args = XLA_FFI_Future_SetError_Args {
                struct_size: XLA_FFI_Future_SetError_Args::STRUCT_SIZE,
                extension_start: std::ptr::null_mut(),
                future,
                error,
            };
            // SAFETY: as above; the error is the host's from here.
            unsafe { self.call(Slot::FutureSetError, "futures", &mut args) }
        };
        if let Err(error) = told {
            crate::entry::panics::tell(format_args!(
                "the host refused the completion of a future: {error}"
            ));
        }
    }

    /// Whether asynchronous completion is possible.
    pub(crate) fn has_futures(self) -> bool {
        self.has(Slot::FutureCreate)
            && self.has(Slot::FutureSetAvailable)
            && self.has(Slot::FutureSetError)
    }

    /// The number of the execution.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn run_id(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<i64> {
        let mut args = XLA_FFI_RunId_Get_Args {
            struct_size: XLA_FFI_RunId_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            run_id: 0,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::RunIdGet, "run id", &mut args) }?;
        Ok(args.run_id)
    }

    /// The global number of the device.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn device_ordinal(self, ctx: *mut XLA_FFI_InvokeContext) -> Result<i32> {
        let mut args = XLA_FFI_DeviceOrdinal_Get_Args {
            struct_size: XLA_FFI_DeviceOrdinal_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            device_ordinal: 0,
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::DeviceOrdinalGet, "device ordinal", &mut args) }?;
        Ok(args.device_ordinal)
    }

    /// The extension with number `extension_type`.
    ///
    /// # Safety
    /// `ctx` is the context of the current call.
    pub(crate) unsafe fn extension(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
        extension_type: i64,
    ) -> Result<*const XLA_FFI_Extension> {
        let mut args = XLA_FFI_InvokeContext_FindExtension_Args {
            struct_size: XLA_FFI_InvokeContext_FindExtension_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            extension_type,
            extension: std::ptr::null(),
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::InvokeContextFindExtension, "extensions", &mut args) }?;
        Ok(args.extension)
    }

    /// The options of this execution.
    ///
    /// # Safety
    /// `ctx` is the context of the current call, which lives as long as `'f`.
    pub(crate) unsafe fn custom_options<'f>(
        self,
        ctx: *mut XLA_FFI_InvokeContext,
    ) -> Result<RawAttrs<'f>> {
        let mut args = XLA_FFI_CustomOptions_Get_Args {
            struct_size: XLA_FFI_CustomOptions_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            ctx,
            attrs: std::ptr::null(),
        };
        // SAFETY: the struct is the same in every revision that has the slot.
        unsafe { self.call(Slot::CustomOptionsGet, "custom options", &mut args) }?;
        // SAFETY: the host's dictionary lives as long as the context.
        unsafe { RawAttrs::from_host(args.attrs) }
            .ok_or_else(|| Error::internal("the host gave no dictionary of custom options"))
    }
}

/// The number in a host's refusal of a type whose name is taken; its words changed with r5.
fn taken_number(name: &str, refusal: &str) -> Option<i64> {
    let since_r5 = |text: &'_ str| -> Option<i64> {
        let rest = text.split_once("Type name ")?.1.strip_prefix(name)?;
        let rest = rest.strip_prefix(" already registered with type id ")?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    };
    let before = |text: &'_ str| -> Option<i64> {
        let rest = text.split_once("Type id ")?.1.strip_suffix(name)?;
        rest.strip_suffix(" already registered for type name ")?
            .parse()
            .ok()
    };
    since_r5(refusal)
        .or_else(|| before(refusal))
        .filter(|id| *id > 0)
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = self.version();
        let revision = self.revision();
        write!(
            f,
            "XLA FFI {major}.{minor} ({revision}, as in jaxlib {}",
            revision.first_jaxlib()
        )?;
        match revision.last_jaxlib() {
            Some(last) if last != revision.first_jaxlib() => write!(f, " to {last})"),
            Some(_) => f.write_str(")"),
            None => f.write_str(" and newer)"),
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::taken_number;

    #[test]
    fn a_refusal_tells_the_number_of_a_name() {
        // The words of 0.6.2 and later, of 0.4.31 to 0.5.3, and of the embedded runtime.
        let taken = |text| taken_number("a::B", text);
        assert_eq!(
            taken("Type name a::B already registered with type id 12"),
            Some(12)
        );
        assert_eq!(
            taken("Type id 7 already registered for type name a::B"),
            Some(7)
        );
        assert_eq!(
            taken("Type_Register: Type name a::B already registered with type id 3 vs 4)"),
            Some(3)
        );
        for other in [
            "Type name a::Bc already registered with type id 12",
            "Type id 7 already registered for type name a::Bc",
            "Type id 7 already registered for type name ba::B",
            "Type name a::B already registered with type id 0",
            "Type name a::B already registered with type id ",
            "Type name a::B already registered with type id 99999999999999999999",
            "no",
        ] {
            assert_eq!(taken(other), None, "{other}");
        }
    }
}
