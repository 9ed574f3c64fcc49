//! Communicators, windows and device communicators of collective operations.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Context, Extension, context};
use crate::error::{Error, Result, wording};
use crate::frame::Frame;
use crate::frame::host::Host;
use xla_ffi_sys::{
    Feature, Revision, XLA_FFI_CollectiveGroupMode, XLA_FFI_CollectiveMemoryRegion,
    XLA_FFI_Collectives_Extension, XLA_FFI_Collectives_Extension_R9,
    XLA_FFI_Collectives_Extension_R10, XLA_FFI_Communicator, XLA_FFI_Communicator_Get_Args,
    XLA_FFI_Communicator_Request_Args, XLA_FFI_DeviceCommunicator,
    XLA_FFI_DeviceCommunicator_Get_Args, XLA_FFI_DeviceCommunicator_Request_Args,
    XLA_FFI_DeviceCommunicator_Requirements, XLA_FFI_Extension_Collectives, XLA_FFI_ReplicaGroup,
    XLA_FFI_Window, XLA_FFI_Window_Get_Args, XLA_FFI_Window_Request_Args,
};

/// A group of devices that work together. For an example, see [`Collectives`].
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
    /// How the host interprets the ids: as ids of replicas, partitions or both.
    pub mode: XLA_FFI_CollectiveGroupMode,
    /// The replica groups, each a list of ids.
    pub groups: &'a [&'a [i64]],
    /// A number that distinguishes communicators of the same groups.
    pub id: i64,
}

/// A region of memory to register with a communicator; see [`Collectives::request_window`].
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
    /// The address of the region's first byte, in device memory.
    pub start: *const c_void,
    /// The size of the region in bytes.
    pub bytes: usize,
    /// Flags with a meaning that the platform defines (NCCL's window flags on CUDA).
    pub flags: u64,
}

/// A window: registered memory that contains an address, as returned by [`Collectives::window`].
/// Since r10 (jaxlib 0.12.0).
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
    /// The distance from the window's start to the requested address, in bytes.
    pub offset: usize,
    _call: PhantomData<&'f ()>,
}

/// The resources that a device communicator needs; see [`DeviceCommunicator`].
///
/// ```
/// use xla_ffi::ext::DeviceCommunicatorRequirements;
///
/// let one_barrier = DeviceCommunicatorRequirements { lsa_barrier_count: 1 };
/// assert_ne!(one_barrier, DeviceCommunicatorRequirements::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCommunicatorRequirements {
    /// The number of barriers between devices that access each other's memory with loads and stores; 0
    /// or more.
    pub lsa_barrier_count: i32,
}

/// The description of a device communicator, for kernels, as returned by [`Collectives::device_communicator`]. Since
/// version 0.3 of the collectives extension, which no released jaxlib has.
///
/// ```
/// use xla_ffi::sys::XLA_FFI_CollectiveGroupMode as Mode;
/// use xla_ffi::{DeviceBuffer, prelude::*};
/// use xla_ffi::ext::{Collectives, DeviceCommunicatorRequirements as Requirements, Group};
///
/// const PAIR: Group = Group { mode: Mode::FLATTENED_ID, groups: &[&[0, 1]], id: 0 };
/// const BARRIERS: Requirements = Requirements { lsa_barrier_count: 8 };
///
/// struct Fused;
///
/// #[xla_ffi::stateful(platforms = ["cuda"])]
/// impl Fused {
///     fn prepare(_x: DeviceBuffer<f32>, collectives: Collectives) -> Result<()> {
///         collectives.request_device_communicator(PAIR, BARRIERS)
///     }
///
///     fn execute(_x: DeviceBuffer<f32>, collectives: Collectives) -> Result<()> {
///         let found = collectives.device_communicator(PAIR, BARRIERS)?;
///         // With NCCL: compare with sizeof(ncclDevComm) and NCCL_VERSION_CODE, then copy it.
///         if (found.byte_size, found.version) != (4, 23203) {
///             return Err(Error::failed_precondition("a different NCCL"));
///         }
///         assert!(!found.raw.is_null());
///         Ok(())
///     }
/// }
///
/// # use xla_ffi::embed::{self, Tensor, collectives};
/// # static DESCRIPTION: u32 = 0;
/// let provided = collectives::Collectives::with_device_communicators(
///     |_key| std::ptr::without_provenance_mut(12),
///     |_key, barriers| {
///         assert_eq!(barriers, 8);
///         let description = (&raw const DESCRIPTION).cast();
///         collectives::DeviceCommunicator { description, byte_size: 4, version: 23203 }
///     },
/// );
/// let x = Tensor::from_slice([1], &[1.0_f32])?;
/// embed::call::<Fused>("{}")?.collectives(provided).arg(x).run()?;
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeviceCommunicator<'f> {
    /// The description in host memory (`ncclDevComm*` on CUDA). The host owns the description: read
    /// or copy it during the call, and do not change it.
    pub raw: *const XLA_FFI_DeviceCommunicator,
    /// The size of the communicator's description in bytes.
    pub byte_size: usize,
    /// The version of the description: with NCCL, the `NCCL_VERSION_CODE` that the host was compiled with. Before you
    /// use the description, compare its version and size with those that your device code expects.
    pub version: i32,
    _call: PhantomData<&'f ()>,
}

/// The host's communicators (`ncclComm_t` on CUDA): requested in the prepare stage and read in later
/// stages. Since r9 (jaxlib 0.11.2); windows since r10 (jaxlib 0.12.0); device communicators since
/// version 0.3 of the extension.
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
    /// Returns the functions of version 0.1 of the extension, which every later version has.
    fn first(&self) -> XLA_FFI_Collectives_Extension_R9 {
        // SAFETY: `take` checked that the struct is at least as long as in version 0.1. Later versions start with the
        // same fields.
        unsafe { self.raw.cast().read() }
    }

    /// Returns true if the host reports version 0.`minor` or newer, in a struct of at least `size`
    /// bytes.
    fn has(&self, minor: i32, size: usize) -> bool {
        // SAFETY: every version of the struct starts with this field.
        self.minor >= minor && unsafe { (*self.raw.as_ptr()).extension_base.struct_size } >= size
    }

    fn second(&self) -> Result<XLA_FFI_Collectives_Extension_R10> {
        if !self.has(2, XLA_FFI_Collectives_Extension_R10::STRUCT_SIZE) {
            return Err(Error::unimplemented(wording::older_extension(
                Feature::CollectiveWindows,
                self.minor,
                "collectives",
            )));
        }
        // SAFETY: the struct has all fields of version 0.2.
        Ok(unsafe { self.raw.cast().read() })
    }

    /// Returns the functions of version 0.3 of the extension; `None` if the host has an older
    /// version.
    fn third(&self) -> Option<XLA_FFI_Collectives_Extension> {
        let is_there = self.has(3, XLA_FFI_Collectives_Extension::STRUCT_SIZE);
        // SAFETY: the struct has all fields of version 0.3.
        is_there.then(|| unsafe { self.raw.read() })
    }

    /// Requests a communicator in the prepare stage. Later stages of the same execution get it with
    /// [`Collectives::communicator`].
    ///
    /// # Errors
    /// The host's error, for example in other stages.
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
        // SAFETY: the function belongs to the host, and the lists are valid until the function
        // returns.
        let error = unsafe { request(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)
    }

    /// Returns the communicator of a group in later stages, if the prepare stage requested it. The host owns the
    /// communicator.
    ///
    /// # Errors
    /// The host's error, for example for a group that was not requested.
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
        // SAFETY: the function belongs to the host, and the lists are valid until the function
        // returns.
        let error = unsafe { get(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)?;
        NonNull::new(args.communicator)
            .ok_or_else(|| Error::internal("the host gave no communicator"))
    }

    /// Requests in the prepare stage that memory be registered with a group's communicator. Request the
    /// group's communicator or device communicator first. Since r10; [`Window`] has an example.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` before version 0.2 of the extension. Otherwise the host's error, for example
    /// `FAILED_PRECONDITION` if no communicator of the group was requested before.
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
        // SAFETY: the function belongs to the host, and the lists are valid until the function
        // returns.
        let error = unsafe { request(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)
    }

    /// Returns the window that contains an address, in later stages. Since r10. For an example, see
    /// [`Window`].
    ///
    /// # Errors
    /// The errors of [`Collectives::request_window`].
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
        // SAFETY: the function belongs to the host, and the lists are valid until the function
        // returns.
        let error = unsafe { get(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)?;
        Ok(Window {
            raw: args.window,
            offset: args.window_offset,
            _call: PhantomData,
        })
    }

    /// Requests in the prepare stage a device communicator, and the communicator of the same group. All ranks must
    /// make the same request. Equal requests share their barriers, so the kernels of equal requests must run in
    /// order. If operations run at the same time, give their groups different `id`s. For an example, see
    /// [`DeviceCommunicator`].
    ///
    /// # Errors
    /// `UNIMPLEMENTED` before version 0.3 of the extension, otherwise the host's error.
    pub fn request_device_communicator(
        &self,
        group: Group<'_>,
        requirements: DeviceCommunicatorRequirements,
    ) -> Result<()> {
        let request = self.third().and_then(|it| it.request_device_communicator);
        let request = request.ok_or_else(no_device_communicators)?;
        let groups = lists(&group);
        let requirements = raw_requirements(requirements);
        let mut args = XLA_FFI_DeviceCommunicator_Request_Args {
            struct_size: XLA_FFI_DeviceCommunicator_Request_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            group_mode: group.mode,
            groups: groups.as_ptr(),
            num_groups: groups.len(),
            communication_id: group.id,
            requirements: &raw const requirements,
        };
        // SAFETY: the function belongs to the host, and the lists and requirements are valid until
        // the function returns.
        let error = unsafe { request(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)
    }

    /// Returns the device communicator that the prepare stage requested with the same group and requirements, in
    /// later stages. Windows that the communicator's kernels use must belong to the same group. For an example, see
    /// [`DeviceCommunicator`].
    ///
    /// # Errors
    /// The errors of [`Collectives::request_device_communicator`].
    pub fn device_communicator(
        &self,
        group: Group<'_>,
        requirements: DeviceCommunicatorRequirements,
    ) -> Result<DeviceCommunicator<'f>> {
        let get = self.third().and_then(|it| it.get_device_communicator);
        let get = get.ok_or_else(no_device_communicators)?;
        let groups = lists(&group);
        let requirements = raw_requirements(requirements);
        let mut args = XLA_FFI_DeviceCommunicator_Get_Args {
            struct_size: XLA_FFI_DeviceCommunicator_Get_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            group_mode: group.mode,
            groups: groups.as_ptr(),
            num_groups: groups.len(),
            communication_id: group.id,
            requirements: &raw const requirements,
            device_communicator: std::ptr::null(),
            byte_size: 0,
            version: 0,
        };
        // SAFETY: the function belongs to the host, and the lists and requirements are valid until
        // the function returns.
        let error = unsafe { get(self.raw.as_ptr(), &raw mut args) };
        self.host.check(error)?;
        Ok(DeviceCommunicator {
            raw: args.device_communicator,
            byte_size: args.byte_size,
            version: args.version,
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

fn raw_requirements(
    requirements: DeviceCommunicatorRequirements,
) -> XLA_FFI_DeviceCommunicator_Requirements {
    XLA_FFI_DeviceCommunicator_Requirements {
        struct_size: XLA_FFI_DeviceCommunicator_Requirements::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        lsa_barrier_count: requirements.lsa_barrier_count,
    }
}

fn no_device_communicators() -> Error {
    Error::unimplemented("Device communicators are not supported by this collectives extension")
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
        // SAFETY: every extension starts with this field.
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
