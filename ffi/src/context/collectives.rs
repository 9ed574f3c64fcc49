//! Communicators and windows of collective operations.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Context, Extension, context};
use crate::error::{Error, Result, wording};
use crate::frame::Frame;
use crate::frame::host::Host;
use xla_ffi_sys::{
    Feature, Revision, XLA_FFI_CollectiveGroupMode, XLA_FFI_CollectiveMemoryRegion,
    XLA_FFI_Collectives_Extension, XLA_FFI_Collectives_Extension_R9, XLA_FFI_Communicator,
    XLA_FFI_Communicator_Get_Args, XLA_FFI_Communicator_Request_Args,
    XLA_FFI_Extension_Collectives, XLA_FFI_ReplicaGroup, XLA_FFI_Window, XLA_FFI_Window_Get_Args,
    XLA_FFI_Window_Request_Args,
};

/// Which devices work together; [`Collectives`] shows its use.
///
/// ```
/// use xla_ffi::{sys::XLA_FFI_CollectiveGroupMode as Mode, ext::Group};
///
/// // Two pairs of devices.
/// let pairs = Group { mode: Mode::FLATTENED_ID, groups: &[&[0, 1], &[2, 3]], id: 0 };
/// assert_eq!(pairs.groups.iter().map(|group| group.len()).sum::<usize>(), 4);
/// // Another communicator of the same devices.
/// let again = Group { id: 1, ..pairs };
/// assert_eq!(again.groups, pairs.groups);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// What the ids are.
    pub mode: XLA_FFI_CollectiveGroupMode,
    /// The groups of ids.
    pub groups: &'a [&'a [i64]],
    /// Tells communicators of the same groups apart.
    pub id: i64,
}

/// Memory to be registered with a communicator; see [`Collectives::request_window`].
///
/// ```
/// use xla_ffi::ext::MemoryRegion;
///
/// let elements = [0.0_f32; 4];
/// let start = elements.as_ptr();
/// let region = MemoryRegion { start: start.cast(), bytes: size_of_val(&elements), flags: 0 };
/// assert_eq!(region.bytes, 16);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MemoryRegion {
    /// The first byte, in device memory.
    pub start: *const c_void,
    /// Bytes.
    pub bytes: usize,
    /// Flags of the platform (NCCL's window flags on CUDA).
    pub flags: u64,
}

/// Registered memory that an address lies in; [`Collectives::window`] finds it. Since r10 (jaxlib
/// 0.12.0).
///
/// ```
/// use xla_ffi::sys::XLA_FFI_CollectiveGroupMode as Mode;
/// use xla_ffi::{DeviceBuffer, prelude::*, ext::{Collectives, Group, MemoryRegion}};
///
/// const PAIR: Group = Group { mode: Mode::FLATTENED_ID, groups: &[&[0, 1]], id: 0 };
///
/// struct Direct;
///
/// #[xla_ffi::stateful(platforms = ["cuda"])]
/// impl Direct {
///     fn prepare(x: DeviceBuffer<f32>, collectives: Collectives) -> Result<()> {
///         collectives.request_communicator(PAIR)?;
///         let all = MemoryRegion {
///             start: x.as_device_ptr().cast(),
///             bytes: x.byte_size(),
///             flags: 0,
///         };
///         collectives.request_window(PAIR, &[all])
///     }
///
///     fn execute(x: DeviceBuffer<f32>, collectives: Collectives) -> Result<()> {
///         let second = x.as_device_ptr().wrapping_add(1);
///         let window = collectives.window(PAIR, second.cast())?;
///         assert_eq!(window.offset, 4);
///         assert!(!window.raw.is_null());
///         Ok(())
///     }
/// }
///
/// # use xla_ffi::embed::{self, Tensor};
/// # use xla_ffi_runtime::Revision;
/// # let here = |_: &_| std::ptr::without_provenance_mut(12);
/// let call = embed::call::<Direct>("{}")?
///     .collectives(xla_ffi_runtime::Collectives::new(Revision::R10, here)?)
///     .arg(Tensor::from_slice([2], &[1.0_f32, 2.0])?);
/// call.run()?;
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Window<'f> {
    /// The platform's window (`ncclWindow_t` on CUDA), valid as long as the execution.
    pub raw: *mut XLA_FFI_Window,
    /// Bytes from its start to the address.
    pub offset: usize,
    _call: PhantomData<&'f ()>,
}

/// The host's communicators (`ncclComm_t` on CUDA): asked for in the prepare stage, fetched in later
/// ones. Since r9 (jaxlib 0.11.2); windows since r10 (jaxlib 0.12.0).
///
/// ```
/// use xla_ffi::sys::XLA_FFI_CollectiveGroupMode as Mode;
/// use xla_ffi::{DeviceBuffer, DeviceOut, prelude::*, ext::{Collectives, Group}};
///
/// const PAIR: Group = Group { mode: Mode::FLATTENED_ID, groups: &[&[0, 1]], id: 0 };
///
/// struct Exchange;
///
/// #[xla_ffi::stateful(platforms = ["cuda"])]
/// impl Exchange {
///     fn prepare(collectives: Collectives) -> Result<()> {
///         collectives.request_communicator(PAIR)
///     }
///
///     fn execute(x: DeviceBuffer<f32>, y: DeviceOut<f32>, collectives: Collectives) -> Result<()> {
///         let communicator = collectives.communicator(PAIR)?;
///         let (from, to) = (x.as_device_ptr(), y.as_device_mut_ptr());
///         // … ncclAllReduce(from, to, …, communicator.as_ptr(), stream) …
///         assert_eq!(communicator.as_ptr().addr(), 12);
///         assert!(!from.is_null() && !to.is_null());
///         Ok(())
///     }
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape, Tensor};
/// # use xla_ffi_runtime::Revision;
/// // The embedded runtime gives whatever the test wants.
/// let provided = xla_ffi_runtime::Collectives::new(Revision::R10, |key| {
///     assert_eq!(key.groups, [[0, 1]]);
///     std::ptr::without_provenance_mut(12)
/// })?;
/// let call = embed::call::<Exchange>("{}")?
///     .collectives(provided.clone())
///     .arg(Tensor::from_slice([1], &[1.0_f32])?)
///     .ret(Shape::new(DType::F32, [1])?);
/// assert!(call.run().is_ok());
/// assert_eq!(provided.requested().len(), 1);
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Collectives<'f> {
    host: Host,
    raw: NonNull<XLA_FFI_Collectives_Extension>,
    minor: i32,
    _call: PhantomData<&'f ()>,
}

impl<'f> Collectives<'f> {
    /// The functions that every version has.
    fn first(&self) -> XLA_FFI_Collectives_Extension_R9 {
        // SAFETY: `take` saw that the struct is as long as that of version 0.1, a prefix of later ones.
        unsafe { self.raw.cast().read() }
    }

    fn second(&self) -> Result<XLA_FFI_Collectives_Extension> {
        // SAFETY: the first field of every version.
        let size = unsafe { (*self.raw.as_ptr()).extension_base.struct_size };
        if self.minor < 2 || size < XLA_FFI_Collectives_Extension::STRUCT_SIZE {
            return Err(Error::unimplemented(wording::older_extension(
                Feature::CollectiveWindows,
                self.minor,
                "collectives",
            )));
        }
        // SAFETY: the struct has all fields of version 0.2.
        Ok(unsafe { self.raw.read() })
    }

    /// Prepare stage: asks for a communicator, which later stages of this execution fetch.
    ///
    /// # Errors
    /// What the host answers, in other stages for instance.
    pub fn request_communicator(&self, group: Group<'_>) -> Result<()> {
        let request = self.first().request_communicator;
        let request = request.ok_or_else(|| missing_function("request_communicator"))?;
        let groups = lists(&group);
        let mut args = XLA_FFI_Communicator_Request_Args {
            struct_size: XLA_FFI_Communicator_Request_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            group_mode: group.mode,
            groups: groups.as_ptr(),
            num_groups: groups.len(),
            communication_id: group.id,
        };
        // SAFETY: the host's function; the lists live until it returns.
        let error = unsafe { request(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)
    }

    /// Later stages: the communicator of a group that the prepare stage asked for. The host keeps it.
    ///
    /// # Errors
    /// What the host answers: a group that was not asked for, for instance.
    pub fn communicator(&self, group: Group<'_>) -> Result<NonNull<XLA_FFI_Communicator>> {
        let get = self.first().get_communicator;
        let get = get.ok_or_else(|| missing_function("get_communicator"))?;
        let groups = lists(&group);
        let mut args = XLA_FFI_Communicator_Get_Args {
            struct_size: XLA_FFI_Communicator_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            group_mode: group.mode,
            groups: groups.as_ptr(),
            num_groups: groups.len(),
            communication_id: group.id,
            communicator: std::ptr::null_mut(),
        };
        // SAFETY: the host's function; the lists live until it returns.
        let error = unsafe { get(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)?;
        NonNull::new(args.communicator)
            .ok_or_else(|| Error::internal("the host gave no communicator"))
    }

    /// Prepare stage, after asking for the group's communicator: asks that memory be registered with
    /// it. Since r10; [`Window`] has an example.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` before version 0.2 of the extension, otherwise what the host answers.
    pub fn request_window(&self, group: Group<'_>, regions: &[MemoryRegion]) -> Result<()> {
        let request = self.second()?.request_window;
        let request = request.ok_or_else(|| missing_function("request_window"))?;
        let groups = lists(&group);
        let regions: Vec<_> = regions
            .iter()
            .map(|region| XLA_FFI_CollectiveMemoryRegion {
                buffer: region.start,
                byte_size: region.bytes,
                flags: region.flags,
            })
            .collect();
        let mut args = XLA_FFI_Window_Request_Args {
            struct_size: XLA_FFI_Window_Request_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            group_mode: group.mode,
            groups: groups.as_ptr(),
            num_groups: groups.len(),
            communication_id: group.id,
            regions: regions.as_ptr(),
            num_regions: regions.len(),
        };
        // SAFETY: the host's function; the lists live until it returns.
        let error = unsafe { request(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)
    }

    /// Later stages: the window that an address lies in. Since r10; [`Window`] has an example.
    ///
    /// # Errors
    /// As [`Collectives::request_window`].
    pub fn window(&self, group: Group<'_>, address: *const c_void) -> Result<Window<'f>> {
        let get = self.second()?.get_window;
        let get = get.ok_or_else(|| missing_function("get_window"))?;
        let groups = lists(&group);
        let mut args = XLA_FFI_Window_Get_Args {
            struct_size: XLA_FFI_Window_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            group_mode: group.mode,
            groups: groups.as_ptr(),
            num_groups: groups.len(),
            communication_id: group.id,
            buffer: address,
            window: std::ptr::null_mut(),
            window_offset: 0,
        };
        // SAFETY: the host's function; the lists live until it returns.
        let error = unsafe { get(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)?;
        Ok(Window {
            raw: args.window,
            offset: args.window_offset,
            _call: PhantomData,
        })
    }
}

fn lists(group: &Group<'_>) -> Vec<XLA_FFI_ReplicaGroup> {
    group
        .groups
        .iter()
        .map(|ids| XLA_FFI_ReplicaGroup {
            ids: ids.as_ptr(),
            size: ids.len(),
        })
        .collect()
}

fn missing_function(function: &str) -> Error {
    Error::unimplemented(format!(
        "the host's collectives have no function {function}"
    ))
}

impl<'f> Context<'f> for Collectives<'f> {
    const NAME: &'static str = "collectives";
    const SINCE: Revision = Feature::Extensions.since();

    fn from_frame(frame: &Frame<'f>) -> Result<Self> {
        let extension = Extension::<'f, XLA_FFI_Extension_Collectives>::from_frame(frame)?;
        let (major, minor) = extension.version();
        // SAFETY: the first field of every extension.
        let size = unsafe { (*extension.as_raw()).struct_size };
        if major != 0 || minor < 1 || size < XLA_FFI_Collectives_Extension_R9::STRUCT_SIZE {
            return Err(Error::unimplemented(format!(
                "the host has version {major}.{minor} of the collectives extension in {size} bytes; \
                 the handler wants 0.1 or newer of 0"
            )));
        }
        let raw = NonNull::new(extension.as_raw().cast_mut().cast())
            .ok_or_else(|| Error::internal("the host's collectives extension is null"))?;
        Ok(Self {
            host: frame.host(),
            raw,
            minor,
            _call: PhantomData,
        })
    }
}

context!(Collectives<'f>);
