//! The launch of a kernel: the dimensions, and the arguments in the form that drivers expect.

use std::ffi::c_void;

use crate::context::ScratchBuffer;
use crate::frame::element::Element;
use crate::operand::device::{AnyDeviceBuffer, AnyDeviceOut, DeviceBuffer, DeviceOut};

/// The dimensions of a kernel launch: grid, blocks, clusters and dynamic shared memory.
///
/// ```
/// use xla_ffi::Launch;
///
/// // One thread an element, 256 to a block.
/// let launch = Launch::over(1000, 256);
/// assert_eq!((launch.grid, launch.block), ([4, 1, 1], [256, 1, 1]));
/// let launch = Launch::blocks(12, 128).with_shared_memory(4096);
/// assert_eq!(launch.shared_bytes, 4096);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of blocks along each dimension.
    pub grid: [u32; 3],
    /// Number of threads per block along each dimension.
    pub block: [u32; 3],
    /// Number of blocks per cluster along each dimension; `[1, 1, 1]` disables clusters. Clusters require compute
    /// capability 9.0.
    pub cluster: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Whether the kernel may start before the preceding kernel has ended (programmatic dependent launch). This
    /// requires compute capability 9.0.
    pub overlaps: bool,
}

impl Launch {
    /// Returns a one-dimensional launch of `grid` blocks of `block` threads.
    #[must_use]
    pub const fn blocks(grid: u32, block: u32) -> Self {
        Self {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: 0,
            overlaps: false,
        }
    }

    /// Returns a launch with enough blocks of `block` threads to cover `count` elements.
    ///
    /// The number of blocks is limited to 2³¹ - 1. Kernels with a grid-stride loop therefore work for every `count`.
    ///
    /// # Panics
    /// If `block` is 0.
    #[must_use]
    pub const fn over(count: usize, block: u32) -> Self {
        let blocks = count.div_ceil(block as usize);
        let most = i32::MAX as usize;
        Self::blocks(if blocks > most { most } else { blocks } as u32, block)
    }

    /// Returns this launch with dynamic shared memory, in bytes per block.
    ///
    /// For more than 48 KiB, the launch raises the kernel's limit. With [`Recorder`](crate::ext::Recorder), XLA
    /// raises the limit.
    #[must_use]
    pub const fn with_shared_memory(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Returns true if the launch has no threads. Drivers reject such a launch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.grid[0] == 0 || self.grid[1] == 0 || self.grid[2] == 0
    }
}

/// One kernel argument in the form that drivers and recorders expect: a pointer to its value. Created by
/// [`KernelArgs`].
///
/// ```
/// use xla_ffi::device::{KernelArgs, RawArg};
///
/// let bytes = (7_u64, 0.5_f32).with_raw_args(|args: &[RawArg]| args.iter().map(|arg| arg.size).sum::<usize>());
/// assert_eq!(bytes, 12);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawArg {
    /// The address of the argument's value.
    pub value: *const c_void,
    /// The size of the argument's value in bytes.
    pub size: usize,
    /// Whether the argument's value is an address in device memory.
    pub is_pointer: bool,
}

/// A kernel argument: a number, a device operand, scratch memory or an address.
///
/// ```
/// use xla_ffi::device::KernelArg;
///
/// /// What the kernel declares as `struct { float x, y; }`.
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Point {
///     x: f32,
///     y: f32,
/// }
///
/// // SAFETY: the kernel declares the same two floats, and neither is an address.
/// unsafe impl KernelArg for Point {
///     type Value = Self;
///     const IS_POINTER: bool = false;
///
///     fn value(self) -> Self {
///         self
///     }
/// }
///
/// assert_eq!(Point { x: 1.0, y: 2.0 }.value().y, 2.0);
/// assert!(<*const f32 as KernelArg>::IS_POINTER);
/// ```
///
/// # Safety
/// `Value` has the same layout as the kernel's parameter. If `IS_POINTER` is true, `Value` is an address.
pub unsafe trait KernelArg: Copy {
    /// The type of the kernel's parameter.
    type Value: Copy;
    /// Whether the value is an address in device memory.
    const IS_POINTER: bool;

    /// Returns the value that is passed to the kernel.
    fn value(self) -> Self::Value;
}

macro_rules! plain {
    ($($ty:ty)*) => {
        $(
            // SAFETY: the kernel's parameter is a number of the same type.
            unsafe impl KernelArg for $ty {
                type Value = $ty;
                const IS_POINTER: bool = false;

                fn value(self) -> $ty {
                    self
                }
            }
        )*
    };
}

plain!(i8 i16 i32 i64 u8 u16 u32 u64 isize usize f32 f64 bool);
#[cfg(feature = "half")]
plain!(half::f16 half::bf16);

// SAFETY: the value is an address, as `IS_POINTER` states.
unsafe impl<T> KernelArg for *const T {
    type Value = *const T;
    const IS_POINTER: bool = true;

    fn value(self) -> *const T {
        self
    }
}

// SAFETY: the value is an address, as `IS_POINTER` states.
unsafe impl<T> KernelArg for *mut T {
    type Value = *mut T;
    const IS_POINTER: bool = true;

    fn value(self) -> *mut T {
        self
    }
}

macro_rules! operand {
    ($({$($generics:tt)*} $ty:ty, $pointer:ty, $get:ident;)*) => {
        $(
            // SAFETY: the value is an address in device memory, as `IS_POINTER` states.
            unsafe impl<$($generics)*> KernelArg for &$ty {
                type Value = $pointer;
                const IS_POINTER: bool = true;

                fn value(self) -> $pointer {
                    self.$get()
                }
            }
        )*
    };
}

operand! {
    {T: Element, const RANK: usize} DeviceBuffer<'_, T, RANK>, *const T, as_device_ptr;
    {T: Element, const RANK: usize} DeviceOut<'_, T, RANK>, *mut T, as_device_mut_ptr;
    {} AnyDeviceBuffer<'_>, *const c_void, as_device_ptr;
    {} AnyDeviceOut<'_>, *mut c_void, as_device_mut_ptr;
    {T} ScratchBuffer<'_, T>, *mut T, as_device_mut_ptr;
}

/// The arguments of a kernel: a tuple of up to 16 [`KernelArg`]s.
///
/// ```
/// use xla_ffi::device::KernelArgs;
///
/// let address = std::ptr::null_mut::<f32>();
/// let kinds = (1_u64, 0.5_f32, address).with_raw_args(|args| {
///     args.iter().map(|arg| (arg.size, arg.is_pointer)).collect::<Vec<_>>()
/// });
/// assert_eq!(kinds, [(8, false), (4, false), (8, true)]);
/// ```
pub trait KernelArgs {
    /// Stores the arguments' values and passes pointers to the values to `use_them`.
    fn with_raw_args<R>(self, use_them: impl FnOnce(&[RawArg]) -> R) -> R;
}

macro_rules! tuple {
    ($($name:ident)*) => {
        impl<$($name: KernelArg),*> KernelArgs for ($($name,)*) {
            #[expect(non_snake_case, reason = "a variable a type")]
            fn with_raw_args<Answer>(self, use_them: impl FnOnce(&[RawArg]) -> Answer) -> Answer {
                let ($($name,)*) = self;
                $(let $name = (<$name as KernelArg>::IS_POINTER, KernelArg::value($name));)*
                use_them(&[$(RawArg {
                    value: (&raw const $name.1).cast(),
                    size: size_of_val(&$name.1),
                    is_pointer: $name.0,
                }),*])
            }
        }
    };
}

impl KernelArgs for () {
    fn with_raw_args<R>(self, use_them: impl FnOnce(&[RawArg]) -> R) -> R {
        use_them(&[])
    }
}

tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);
tuple!(A B C D E F G H I);
tuple!(A B C D E F G H I J);
tuple!(A B C D E F G H I J K);
tuple!(A B C D E F G H I J K L);
tuple!(A B C D E F G H I J K L M);
tuple!(A B C D E F G H I J K L M N);
tuple!(A B C D E F G H I J K L M N O);
tuple!(A B C D E F G H I J K L M N O P);
