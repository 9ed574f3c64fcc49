//! The collectives extension (from r9): communicators, windows and device communicators that a test provides.

use crate::api::{check_size, error_or_null};
use crate::context::current_context;
use crate::frame::Stage;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use xla_ffi_sys::{Error, ErrorCode, Result};
use xla_ffi_sys::{
    Feature, Layout, Revision, XLA_FFI_CollectiveGroupMode, XLA_FFI_Collectives_Extension,
    XLA_FFI_Collectives_Extension_R9, XLA_FFI_Collectives_Extension_R10,
    XLA_FFI_Communicator_Get_Args, XLA_FFI_Communicator_Request_Args,
    XLA_FFI_DeviceCommunicator_Get_Args, XLA_FFI_DeviceCommunicator_Request_Args,
    XLA_FFI_DeviceCommunicator_Requirements, XLA_FFI_Error, XLA_FFI_Extension,
    XLA_FFI_Extension_Collectives, XLA_FFI_ExtensionId, XLA_FFI_ReplicaGroup,
    XLA_FFI_Window_Get_Args, XLA_FFI_Window_Request_Args,
};

/// The identity of a communicator: its groups of devices, their mode, and an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct CommunicatorKey {
    /// The ABI's group mode, which determines how the ids in `groups` are interpreted.
    pub mode: u32,
    /// The groups of devices, as lists of device ids.
    pub groups: Vec<Vec<i64>>,
    /// An id, which distinguishes communicators with the same groups.
    pub id: i64,
}

/// A region of device memory that is registered with a window.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    start: usize,
    bytes: usize,
    window: usize,
}

/// A device communicator for handlers; see [`Collectives::with_device_communicators`].
#[derive(Clone, Copy, Debug)]
pub struct DeviceCommunicator {
    /// The address of the communicator's description in host memory, for example of an `ncclDevComm`. The description
    /// must outlive the calls.
    pub description: *const c_void,
    /// The size of the description in bytes.
    pub byte_size: usize,
    /// The version of the description, for example `NCCL_VERSION_CODE`.
    pub version: i32,
}

type Make = dyn Fn(&CommunicatorKey) -> *mut c_void + Send + Sync;
type MakeForDevice = dyn Fn(&CommunicatorKey, i32) -> DeviceCommunicator + Send + Sync;

#[derive(Default)]
struct Requested {
    /// The communicators by key. Each communicator is created once, without blocking requests for other keys.
    communicators: BTreeMap<CommunicatorKey, Arc<OnceLock<usize>>>,
    /// The device communicators, by the key of the communicator and the number of barriers.
    device_communicators: BTreeMap<(CommunicatorKey, i32), Arc<OnceLock<DeviceCommunicator>>>,
    windows: BTreeMap<CommunicatorKey, Vec<Region>>,
    next_window: usize,
}

/// Provides communicators to handlers that requested them in their prepare stage, as XLA does.
pub struct Collectives {
    /// A separate allocation whose address handlers receive, so that this object can be moved or swapped.
    inner: Arc<Inner>,
}

struct Inner {
    extension: XLA_FFI_Collectives_Extension,
    make: Box<Make>,
    make_for_device: Option<Box<MakeForDevice>>,
    requested: Mutex<Requested>,
}

// SAFETY: the extension contains pointers to functions and to this object. Communicators are passed to handlers and
// never dereferenced.
unsafe impl Send for Inner {}
// SAFETY: the extension contains pointers to functions and to this object; a lock protects the mutable data.
unsafe impl Sync for Inner {}

impl Collectives {
    /// Returns collectives with the extension's version in `revision`. `make` creates the communicator of a key, for
    /// example an `ncclComm_t`.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` before r9.
    pub fn new(
        revision: Revision,
        make: impl Fn(&CommunicatorKey) -> *mut c_void + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        let since = Feature::Extensions.since();
        if revision < since {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                format!(
                    "collectives require {since} (jaxlib {}) or later, this is {revision}",
                    since.first_jaxlib()
                ),
            ));
        }
        let windows = revision >= Feature::CollectiveWindows.since();
        Ok(Self::of_version(
            if windows { 2 } else { 1 },
            Box::new(make),
            None,
        ))
    }

    /// Returns collectives of extension version 0.3, which supports device communicators and is not part of a
    /// released jaxlib. `make` creates the communicator of a key. `make_for_device` creates the device communicator
    /// of a key, for the given number of barriers.
    pub fn with_device_communicators(
        make: impl Fn(&CommunicatorKey) -> *mut c_void + Send + Sync + 'static,
        make_for_device: impl Fn(&CommunicatorKey, i32) -> DeviceCommunicator + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::of_version(3, Box::new(make), Some(Box::new(make_for_device)))
    }

    fn of_version(
        minor_version: i32,
        make: Box<Make>,
        make_for_device: Option<Box<MakeForDevice>>,
    ) -> Arc<Self> {
        let (windows, devices) = (minor_version >= 2, minor_version >= 3);
        let inner = Arc::new_cyclic(|this: &std::sync::Weak<Inner>| {
            let extension = XLA_FFI_Collectives_Extension {
                extension_base: XLA_FFI_Extension {
                    struct_size: match minor_version {
                        1 => XLA_FFI_Collectives_Extension_R9::STRUCT_SIZE,
                        2 => XLA_FFI_Collectives_Extension_R10::STRUCT_SIZE,
                        _ => XLA_FFI_Collectives_Extension::STRUCT_SIZE,
                    },
                    id: XLA_FFI_ExtensionId {
                        extension_type: XLA_FFI_Extension_Collectives,
                        major_version: 0,
                        minor_version,
                    },
                    next: std::ptr::null(),
                },
                state: this.as_ptr().cast_mut().cast(),
                request_communicator: Some(request_communicator),
                get_communicator: Some(get_communicator),
                request_window: windows.then_some(request_window as _),
                get_window: windows.then_some(get_window as _),
                request_device_communicator: devices.then_some(request_device_communicator as _),
                get_device_communicator: devices.then_some(get_device_communicator as _),
            };
            Inner {
                extension,
                make,
                make_for_device,
                requested: Mutex::default(),
            }
        });
        Arc::new(Self { inner })
    }

    /// Returns the keys of the communicators that handlers requested.
    #[must_use]
    pub fn requested(&self) -> Vec<CommunicatorKey> {
        let requested = self.inner.lock();
        let made = |(key, made): (&CommunicatorKey, &Arc<OnceLock<_>>)| {
            made.get().is_some().then(|| key.clone())
        };
        requested.communicators.iter().filter_map(made).collect()
    }

    /// Returns the address of the extension. The address does not change while several references share this object.
    pub(crate) fn extension(&self) -> *const XLA_FFI_Extension {
        (&raw const self.inner.extension).cast()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Requested> {
        self.requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the communicator of `key`, unless it exists.
    fn request(&self, key: &CommunicatorKey) {
        let mut requested = self.lock();
        let made = requested.communicators.entry(key.clone());
        let made = made.or_default().clone();
        // The lock is released first, because the program's callback may call `requested`.
        drop(requested);
        made.get_or_init(|| (self.make)(key) as usize);
    }
}

/// Returns the collectives object to which an extension belongs.
///
/// # Safety
/// The pointer must be null or an extension that a handler found in its context.
unsafe fn collectives<'a>(extension: *const XLA_FFI_Collectives_Extension) -> Result<&'a Inner> {
    if extension.is_null() {
        return Err(Error::invalid_argument("the extension is a null pointer"));
    }
    // SAFETY: guaranteed by the caller.
    let state = unsafe { (*extension).state };
    // SAFETY: in an extension of this host, `state` points to the `Inner` that contains the extension.
    Ok(unsafe { &*state.cast::<Inner>() })
}

fn in_stage(prepare: bool) -> Result<()> {
    let Some(stage) = current_context().map(|context| context.stage()) else {
        return Ok(());
    };
    match (prepare, stage) {
        (true, Stage::Prepare) | (false, Stage::Initialize | Stage::Execute) => Ok(()),
        (true, _) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("requests belong to the prepare stage, this is {stage}"),
        )),
        (false, _) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("what was requested is there from the initialize stage on, this is {stage}"),
        )),
    }
}

/// Returns the key of a communicator from the arguments of a handler.
///
/// # Safety
/// Each group must point to as many ids as its size.
unsafe fn key(
    mode: XLA_FFI_CollectiveGroupMode,
    groups: *const XLA_FFI_ReplicaGroup,
    count: usize,
    id: i64,
) -> Result<CommunicatorKey> {
    if mode.0 > 3 {
        return Err(Error::invalid_argument(format!(
            "{} is not a group mode",
            mode.0
        )));
    }
    if groups.is_null() && count > 0 {
        return Err(Error::invalid_argument("the groups are a null pointer"));
    }
    let mut lists = vec![];
    for index in 0..count {
        // SAFETY: guaranteed by the caller.
        let group = unsafe { groups.wrapping_add(index).read() };
        if group.ids.is_null() && group.size > 0 {
            return Err(Error::invalid_argument(format!(
                "group {index} is a null pointer"
            )));
        }
        let ids: &[i64] = if group.size == 0 {
            &[]
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { std::slice::from_raw_parts(group.ids, group.size) }
        };
        lists.push(ids.to_vec());
    }
    Ok(CommunicatorKey {
        mode: mode.0,
        groups: lists,
        id,
    })
}

/// Checks the size of a handler's arguments struct and returns a copy of the struct.
///
/// # Safety
/// `args` must be null or point to an arguments struct of type `T`.
unsafe fn read<T: Layout + Copy>(args: *const T) -> Result<T> {
    let expected = T::LAYOUT
        .struct_size
        .map_or(T::LAYOUT.size, |(_, size)| size);
    // SAFETY: guaranteed by the caller.
    unsafe { check_size(args, expected) }?;
    // SAFETY: `check_size` verified that `args` includes the whole struct.
    Ok(unsafe { args.read() })
}

/// Argument structs that identify a communicator.
trait CommunicatorArgs: Layout + Copy {
    /// Returns the key of the communicator that the arguments identify.
    ///
    /// # Safety
    /// Each group must point to as many ids as its size.
    unsafe fn key(&self) -> Result<CommunicatorKey>;
}

macro_rules! communicator_args {
    ($($args:ident),*) => {$(
        impl CommunicatorArgs for $args {
            unsafe fn key(&self) -> Result<CommunicatorKey> {
                let (mode, id) = (self.group_mode, self.communication_id);
                // SAFETY: guaranteed by the caller.
                unsafe { key(mode, self.groups, self.num_groups, id) }
            }
        }
    )*};
}

communicator_args!(
    XLA_FFI_Communicator_Request_Args,
    XLA_FFI_Communicator_Get_Args,
    XLA_FFI_Window_Request_Args,
    XLA_FFI_Window_Get_Args,
    XLA_FFI_DeviceCommunicator_Request_Args,
    XLA_FFI_DeviceCommunicator_Get_Args
);

/// Runs the common part of all functions of the extension: reads the extension and the arguments, checks the stage,
/// and finds the communicator.
///
/// # Safety
/// `this` must be null or an extension of this host; `args` must be null or a handler's arguments.
unsafe fn serve<T: CommunicatorArgs>(
    name: &'static str,
    this: *const XLA_FFI_Collectives_Extension,
    args: *const T,
    in_prepare: bool,
    work: impl FnOnce(&Inner, T, CommunicatorKey) -> Result<()>,
) -> *mut XLA_FFI_Error {
    error_or_null(name, || {
        // SAFETY: guaranteed by the caller.
        let this = unsafe { collectives(this) }?;
        // SAFETY: guaranteed by the caller.
        let args = unsafe { read(args) }?;
        in_stage(in_prepare)?;
        // SAFETY: handlers pass complete groups, as the ABI requires.
        let key = unsafe { args.key() }?;
        work(this, args, key)
    })
}

fn unrequested(key: &CommunicatorKey) -> Error {
    Error::new(
        ErrorCode::FailedPrecondition,
        format!(
            "no communicator was requested for {:?} with id {}",
            key.groups, key.id
        ),
    )
}

unsafe extern "C" fn request_communicator(
    this: *const XLA_FFI_Collectives_Extension,
    args: *mut XLA_FFI_Communicator_Request_Args,
) -> *mut XLA_FFI_Error {
    let work = |this: &Inner, _, key: CommunicatorKey| {
        this.request(&key);
        Ok(())
    };
    // SAFETY: handlers pass the extension of their context and their args struct, as the ABI requires.
    unsafe { serve("request_communicator", this, args, true, work) }
}

unsafe extern "C" fn get_communicator(
    this: *const XLA_FFI_Collectives_Extension,
    args: *mut XLA_FFI_Communicator_Get_Args,
) -> *mut XLA_FFI_Error {
    let work = |this: &Inner, _, key: CommunicatorKey| {
        let made = this.lock().communicators.get(&key).cloned();
        let made = made.and_then(|made| made.get().copied());
        let made = made.ok_or_else(|| unrequested(&key))?;
        // SAFETY: `serve` read the struct before it called this closure.
        unsafe { (*args).communicator = made as *mut _ };
        Ok(())
    };
    // SAFETY: handlers pass the extension of their context and their args struct, as the ABI requires.
    unsafe { serve("get_communicator", this, args, false, work) }
}

unsafe extern "C" fn request_window(
    this: *const XLA_FFI_Collectives_Extension,
    args: *mut XLA_FFI_Window_Request_Args,
) -> *mut XLA_FFI_Error {
    let work = |this: &Inner, asked: XLA_FFI_Window_Request_Args, key: CommunicatorKey| {
        let mut requested = this.lock();
        let made = requested.communicators.get(&key);
        if made.is_none_or(|made| made.get().is_none()) {
            return Err(unrequested(&key));
        }
        if asked.regions.is_null() && asked.num_regions > 0 {
            return Err(Error::invalid_argument("the regions are a null pointer"));
        }
        for index in 0..asked.num_regions {
            // SAFETY: handlers pass `num_regions` complete regions, as the ABI requires.
            let region = unsafe { asked.regions.wrapping_add(index).read() };
            requested.next_window += 16;
            let window = requested.next_window;
            let region = Region {
                start: region.buffer as usize,
                bytes: region.byte_size,
                window,
            };
            requested
                .windows
                .entry(key.clone())
                .or_default()
                .push(region);
        }
        Ok(())
    };
    // SAFETY: handlers pass the extension of their context and their args struct, as the ABI requires.
    unsafe { serve("request_window", this, args, true, work) }
}

unsafe extern "C" fn get_window(
    this: *const XLA_FFI_Collectives_Extension,
    args: *mut XLA_FFI_Window_Get_Args,
) -> *mut XLA_FFI_Error {
    let work = |this: &Inner, asked: XLA_FFI_Window_Get_Args, key: CommunicatorKey| {
        let address = asked.buffer as usize;
        let requested = this.lock();
        let region = requested.windows.get(&key).and_then(|regions| {
            regions.iter().find(|region| {
                address
                    .checked_sub(region.start)
                    .is_some_and(|offset| offset < region.bytes)
            })
        });
        let region = region.ok_or_else(|| {
            Error::new(
                ErrorCode::NotFound,
                format!("{address:#x} is not in a requested window"),
            )
        })?;
        // SAFETY: `serve` read the struct before it called this closure.
        unsafe { (*args).window = region.window as *mut _ };
        // SAFETY: `serve` read the struct before it called this closure.
        unsafe { (*args).window_offset = address - region.start };
        Ok(())
    };
    // SAFETY: handlers pass the extension of their context and their args struct, as the ABI requires.
    unsafe { serve("get_window", this, args, false, work) }
}

/// Returns the number of barriers in a handler's requirements for a device communicator.
///
/// # Safety
/// `requirements` must be null or a handler's struct.
unsafe fn barriers(requirements: *const XLA_FFI_DeviceCommunicator_Requirements) -> Result<i32> {
    // SAFETY: guaranteed by the caller.
    let count = unsafe { read(requirements) }?.lsa_barrier_count;
    match count {
        0.. => Ok(count),
        _ => Err(Error::invalid_argument(format!(
            "lsa_barrier_count is {count}; pass 0 or more"
        ))),
    }
}

unsafe extern "C" fn request_device_communicator(
    this: *const XLA_FFI_Collectives_Extension,
    args: *mut XLA_FFI_DeviceCommunicator_Request_Args,
) -> *mut XLA_FFI_Error {
    let work =
        |this: &Inner, asked: XLA_FFI_DeviceCommunicator_Request_Args, key: CommunicatorKey| {
            // SAFETY: handlers pass null or a complete requirements struct, as the ABI requires.
            let barriers = unsafe { barriers(asked.requirements) }?;
            let make = this.make_for_device.as_ref();
            let make =
                make.ok_or_else(|| Error::unimplemented("this host has no device communicators"))?;
            this.request(&key);
            let mut requested = this.lock();
            let made = &mut requested.device_communicators;
            let made = made.entry((key.clone(), barriers)).or_default().clone();
            // The lock is released first, because the program's callback may call `requested`.
            drop(requested);
            made.get_or_init(|| make(&key, barriers));
            Ok(())
        };
    // SAFETY: handlers pass the extension of their context and their args struct, as the ABI requires.
    unsafe { serve("request_device_communicator", this, args, true, work) }
}

unsafe extern "C" fn get_device_communicator(
    this: *const XLA_FFI_Collectives_Extension,
    args: *mut XLA_FFI_DeviceCommunicator_Get_Args,
) -> *mut XLA_FFI_Error {
    let work = |this: &Inner, asked: XLA_FFI_DeviceCommunicator_Get_Args, key: CommunicatorKey| {
        // SAFETY: handlers pass null or a complete requirements struct, as the ABI requires.
        let barriers = unsafe { barriers(asked.requirements) }?;
        let wanted = (key, barriers);
        let made = this.lock().device_communicators.get(&wanted).cloned();
        let made = made.and_then(|made| made.get().copied()).ok_or_else(|| {
            let (key, barriers) = &wanted;
            Error::new(
                ErrorCode::FailedPrecondition,
                format!(
                    "no device communicator with {barriers} barriers was requested for {:?} with id {}",
                    key.groups, key.id
                ),
            )
        })?;
        let answer = XLA_FFI_DeviceCommunicator_Get_Args {
            device_communicator: made.description.cast(),
            byte_size: made.byte_size,
            version: made.version,
            ..asked
        };
        // SAFETY: `serve` read the struct before it called this closure.
        unsafe { args.write(answer) };
        Ok(())
    };
    // SAFETY: handlers pass the extension of their context and their args struct, as the ABI requires.
    unsafe { serve("get_device_communicator", this, args, false, work) }
}
