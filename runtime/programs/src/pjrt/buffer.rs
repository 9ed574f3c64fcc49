//! Arrays on a device, and copies between the host and the device.

use super::handles::{Event, Shared};
use super::raw::{
    BufferDestroy, BufferDimensions, BufferElementType, BufferFromHost, BufferToHost,
    IMMUTABLE_ONLY_DURING_CALL, LAYOUT_TILED, MemoryLayout, RawBuffer, SizedStruct, TiledLayout,
};
use std::ffi::c_int;
use std::sync::Arc;
use xla_ffi_runtime::{DType, Error, ErrorCode, Result, Shape, Tensor, scalar_codec};

/// PJRT's numbers of the supported element types. Each number was compared with PJRT's header.
pub(super) const TYPES: [(DType, c_int); 29] = [
    (DType::Pred, 1),
    (DType::S8, 2),
    (DType::S16, 3),
    (DType::S32, 4),
    (DType::S64, 5),
    (DType::U8, 6),
    (DType::U16, 7),
    (DType::U32, 8),
    (DType::U64, 9),
    (DType::F16, 10),
    (DType::F32, 11),
    (DType::F64, 12),
    (DType::BF16, 13),
    (DType::C64, 14),
    (DType::C128, 15),
    (DType::F8E5M2, 16),
    (DType::F8E4M3FN, 17),
    (DType::F8E4M3B11FNUZ, 18),
    (DType::F8E5M2FNUZ, 19),
    (DType::F8E4M3FNUZ, 20),
    (DType::S4, 21),
    (DType::U4, 22),
    (DType::Token, 23),
    (DType::S2, 24),
    (DType::U2, 25),
    (DType::F8E4M3, 26),
    (DType::F8E3M4, 27),
    (DType::F8E8M0FNU, 28),
    (DType::F4E2M1FN, 29),
];

fn number_of(dtype: DType) -> Result<c_int> {
    let found = TYPES.iter().find(|(known, _)| *known == dtype);
    found.map(|(_, number)| *number).ok_or_else(|| {
        Error::new(
            ErrorCode::Unimplemented,
            format!("PJRT cannot transfer arrays of {dtype}"),
        )
    })
}

/// An array on a device. Clones are the same array. The array is freed when the last clone is dropped.
#[derive(Clone)]
pub struct Buffer {
    inner: Arc<Inner>,
}

/// The owner of a buffer.
///
/// Invariant: `buffer` is a buffer of the client's plugin, and only this object frees it.
struct Inner {
    client: Arc<Shared>,
    buffer: *mut RawBuffer,
}

// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Send for Inner {}
// SAFETY: PJRT's functions may be called from any thread.
unsafe impl Sync for Inner {}

/// Returns the elements of an array in PJRT's form, in which each packed element has its own byte.
fn unpacked(tensor: &Tensor) -> Vec<u8> {
    let shape = tensor.shape();
    (0..shape.elements())
        .map(|index| scalar_codec::load(tensor.bytes(), shape.dtype(), index) as u8)
        .collect()
}

/// Returns a packed array from PJRT's form, in which each element has its own byte.
fn packed(shape: Shape, bytes: &[u8]) -> Result<Tensor> {
    let mut out = vec![0; shape.bytes()];
    for (index, byte) in bytes.iter().enumerate() {
        scalar_codec::store(&mut out, shape.dtype(), index, u128::from(*byte));
    }
    Tensor::from_bytes(shape, &out)
}

impl Buffer {
    /// Takes ownership of a plugin's buffer.
    ///
    /// # Safety
    /// `buffer` must be a buffer of the client's plugin. Its ownership moves to the returned value.
    pub(super) unsafe fn new(client: Arc<Shared>, buffer: *mut RawBuffer) -> Self {
        Self {
            inner: Arc::new(Inner { client, buffer }),
        }
    }

    pub(super) fn raw(&self) -> *mut RawBuffer {
        self.inner.buffer
    }

    pub(super) fn upload(shared: &Arc<Shared>, tensor: &Tensor) -> Result<Self> {
        let shape = tensor.shape();
        let spread;
        let bytes = if shape.dtype().is_packed() {
            spread = unpacked(tensor);
            &spread
        } else {
            tensor.bytes()
        };
        let mut args = BufferFromHost::new();
        args.client = shared.client();
        args.data = bytes.as_ptr().cast();
        args.r#type = number_of(shape.dtype())?;
        args.dims = shape.dims().as_ptr();
        args.num_dims = shape.dims().len();
        args.host_buffer_semantics = IMMUTABLE_ONLY_DURING_CALL;
        args.device = shared.device();
        // SAFETY: the device belongs to the client. Data and dimensions outlive the call, after which the plugin no
        // longer uses them.
        unsafe { shared.api().call(&mut args) }
            .map_err(|error| error.within(format_args!("a {shape} for the device")))?;
        // SAFETY: the plugin has just created the event, and this code owns it.
        let event = unsafe { Event::new(shared.api(), args.done_with_host_buffer) };
        // SAFETY: the plugin has just created the buffer, and this code owns it.
        let buffer = unsafe { Self::new(shared.clone(), args.buffer) };
        event.wait()?;
        Ok(buffer)
    }

    /// Returns the element type and dimensions of the array.
    ///
    /// # Errors
    /// An error for an element type that this crate does not support, and errors of the plugin.
    pub fn shape(&self) -> Result<Shape> {
        let api = self.inner.client.api();
        let mut asked = BufferElementType::new();
        asked.buffer = self.raw();
        // SAFETY: the invariant of `Inner` guarantees the buffer.
        unsafe { api.call(&mut asked) }?;
        let dtype = TYPES.iter().find(|(_, number)| *number == asked.r#type);
        let Some((dtype, _)) = dtype else {
            return Err(Error::new(
                ErrorCode::Unimplemented,
                format!("PJRT's element type {} is not known here", asked.r#type),
            ));
        };
        if *dtype == DType::Token {
            return Ok(Shape::token());
        }
        let mut asked = BufferDimensions::new();
        asked.buffer = self.raw();
        // SAFETY: the invariant of `Inner` guarantees the buffer.
        unsafe { api.call(&mut asked) }?;
        let dims = if asked.num_dims == 0 {
            &[]
        } else {
            // SAFETY: the plugin's list has this length, and is valid as long as the buffer.
            unsafe { std::slice::from_raw_parts(asked.dims, asked.num_dims) }
        };
        Shape::new(*dtype, dims)
    }

    /// Copies the array to a row-major tensor in host memory.
    ///
    /// # Errors
    /// If the execution that computes the array fails, its error. Also errors of the plugin.
    pub fn download(&self) -> Result<Tensor> {
        let shape = self.shape()?;
        if shape.dtype() == DType::Token || shape.elements() == 0 {
            return Tensor::zeros(shape);
        }
        let api = self.inner.client.api();
        let order: Vec<i64> = (0..shape.dims().len() as i64).rev().collect();
        let mut layout = MemoryLayout::new();
        layout.tiled = TiledLayout::new();
        layout.tiled.minor_to_major = order.as_ptr();
        layout.tiled.minor_to_major_size = order.len();
        layout.r#type = LAYOUT_TILED;
        let mut args = BufferToHost::new();
        args.src = self.raw();
        args.host_layout = &raw mut layout;
        // SAFETY: without a destination, the function only returns the size.
        unsafe { api.call(&mut args) }?;
        let wanted = if shape.dtype().is_packed() {
            shape.elements()
        } else {
            shape.bytes()
        };
        if args.dst_size != wanted {
            return Err(Error::new(
                ErrorCode::Internal,
                format!(
                    "the plugin has {} bytes for a {shape}, which takes {wanted}",
                    args.dst_size
                ),
            ));
        }
        let mut bytes = vec![0_u8; wanted];
        args.dst = bytes.as_mut_ptr().cast();
        // SAFETY: the destination has the declared size, and is valid until the event occurs.
        unsafe { api.call(&mut args) }?;
        // SAFETY: the plugin has just created the event, and this code owns it.
        let event = unsafe { Event::new(api, args.event) };
        event.wait()?;
        if shape.dtype().is_packed() {
            packed(shape, &bytes)
        } else {
            Tensor::from_bytes(shape, &bytes)
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut freed = BufferDestroy::new();
        freed.buffer = self.buffer;
        // SAFETY: the invariant of `Inner` guarantees the buffer, which is freed once. An error of this call cannot
        // be handled.
        let _nothing_to_do = unsafe { self.client.api().call(&mut freed) };
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.shape() {
            Ok(shape) => write!(f, "Buffer({shape})"),
            Err(error) => write!(f, "Buffer({error})"),
        }
    }
}
