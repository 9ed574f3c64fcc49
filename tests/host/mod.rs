//! A host in miniature: an error table and call frames, enough to call a handler without XLA.

use std::ffi::{CStr, CString, c_void};
use xla_ffi_sys::*;

/// A call's attribute.
#[derive(Clone, Copy)]
pub(crate) enum Attr {
    /// An `f32` scalar.
    F32(f32),
    /// An `f64` scalar.
    F64(f64),
}

/// A buffer: element type, dimensions, bytes.
pub(crate) struct Data {
    dtype: XLA_FFI_DataType,
    dims: Vec<i64>,
    /// The elements.
    pub(crate) values: Vec<f32>,
}

impl Data {
    /// A buffer of `f32`.
    pub(crate) fn f32(dims: &[i64], values: Vec<f32>) -> Self {
        Self {
            dtype: XLA_FFI_DataType::F32,
            dims: dims.to_vec(),
            values,
        }
    }

    /// The same bytes under another element type.
    pub(crate) fn typed(mut self, dtype: XLA_FFI_DataType) -> Self {
        self.dtype = dtype;
        self
    }
}

/// An error as the host holds it.
struct HostError {
    code: i32,
    message: CString,
}

unsafe extern "C" fn error_create(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the handler gives the arguments of this slot, alive for the call.
    let args = unsafe { args.read() };
    // SAFETY: `message` is a NUL-terminated string, as the ABI asks.
    let message = unsafe { CStr::from_ptr(args.message) }.to_owned();
    Box::into_raw(Box::new(HostError {
        code: args.errc.0 as i32,
        message,
    }))
    .cast()
}

unsafe extern "C" fn error_destroy(args: *mut XLA_FFI_Error_Destroy_Args) {
    // SAFETY: the arguments of this slot, alive for the call.
    let error = unsafe { args.read() }.error;
    // SAFETY: made by `error_create`, given back once.
    drop(unsafe { Box::from_raw(error.cast::<HostError>()) });
}

/// A table of the newest revision in which only the error functions are there.
fn table() -> XLA_FFI_Api {
    // SAFETY: every field of the table is an integer, a pointer or an optional function.
    let mut api: XLA_FFI_Api = unsafe { std::mem::zeroed() };
    api.struct_size = size_of::<XLA_FFI_Api>();
    api.api_version.struct_size = size_of::<XLA_FFI_Api_Version>();
    api.api_version.minor_version = Revision::NEWEST.minor_version();
    api.XLA_FFI_Error_Create = Some(error_create);
    api.XLA_FFI_Error_Destroy = Some(error_destroy);
    api
}

/// Calls a handler's execute stage; an error is its code and message.
pub(crate) fn execute(
    handler: unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error,
    args: &[Data],
    rets: &mut [Data],
    attrs: &[(&str, Attr)],
) -> Result<(), (i32, String)> {
    let api = table();
    let buffer = |data: &Data| XLA_FFI_Buffer {
        struct_size: size_of::<XLA_FFI_Buffer>(),
        extension_start: std::ptr::null_mut(),
        dtype: data.dtype,
        data: data.values.as_ptr().cast_mut().cast(),
        rank: data.dims.len() as i64,
        dims: data.dims.as_ptr().cast_mut(),
    };
    let mut arg_buffers: Vec<XLA_FFI_Buffer> = args.iter().map(buffer).collect();
    let mut ret_buffers: Vec<XLA_FFI_Buffer> = rets.iter().map(buffer).collect();
    for (to, from) in ret_buffers.iter_mut().zip(rets.iter_mut()) {
        to.data = from.values.as_mut_ptr().cast();
    }
    let pointers = |buffers: &mut [XLA_FFI_Buffer]| -> Vec<*mut c_void> {
        buffers
            .iter_mut()
            .map(|b| std::ptr::from_mut(b).cast())
            .collect()
    };
    let mut arg_pointers = pointers(&mut arg_buffers);
    let mut ret_pointers = pointers(&mut ret_buffers);
    let mut arg_types = vec![XLA_FFI_ArgType::BUFFER; args.len()];
    let mut ret_types = vec![XLA_FFI_RetType::BUFFER; rets.len()];
    let mut values: Vec<[u8; 8]> = attrs
        .iter()
        .map(|(_, value)| {
            let mut bytes = [0; 8];
            match value {
                Attr::F32(v) => bytes[..4].copy_from_slice(&v.to_ne_bytes()),
                Attr::F64(v) => bytes.copy_from_slice(&v.to_ne_bytes()),
            }
            bytes
        })
        .collect();
    let mut scalars: Vec<XLA_FFI_Scalar> = attrs
        .iter()
        .zip(values.iter_mut())
        .map(|((_, value), bytes)| XLA_FFI_Scalar {
            dtype: match value {
                Attr::F32(_) => XLA_FFI_DataType::F32,
                Attr::F64(_) => XLA_FFI_DataType::F64,
            },
            value: bytes.as_mut_ptr().cast(),
        })
        .collect();
    let mut names: Vec<XLA_FFI_ByteSpan> = attrs
        .iter()
        .map(|(name, _)| XLA_FFI_ByteSpan {
            ptr: name.as_ptr().cast(),
            len: name.len(),
        })
        .collect();
    let mut name_pointers: Vec<*mut XLA_FFI_ByteSpan> =
        names.iter_mut().map(std::ptr::from_mut).collect();
    let mut value_pointers: Vec<*mut c_void> = scalars
        .iter_mut()
        .map(|s| std::ptr::from_mut(s).cast())
        .collect();
    let mut attr_types = vec![XLA_FFI_AttrType::SCALAR; attrs.len()];
    let null = std::ptr::null_mut();
    let mut frame = XLA_FFI_CallFrame {
        struct_size: 168,
        extension_start: null,
        api: &raw const api,
        ctx: std::ptr::null_mut(),
        stage: XLA_FFI_ExecutionStage::EXECUTE,
        args: XLA_FFI_Args {
            struct_size: size_of::<XLA_FFI_Args>(),
            extension_start: null,
            size: args.len() as i64,
            types: arg_types.as_mut_ptr(),
            args: arg_pointers.as_mut_ptr(),
        },
        rets: XLA_FFI_Rets {
            struct_size: size_of::<XLA_FFI_Rets>(),
            extension_start: null,
            size: rets.len() as i64,
            types: ret_types.as_mut_ptr(),
            rets: ret_pointers.as_mut_ptr(),
        },
        attrs: XLA_FFI_Attrs {
            struct_size: size_of::<XLA_FFI_Attrs>(),
            extension_start: null,
            size: attrs.len() as i64,
            types: attr_types.as_mut_ptr(),
            names: name_pointers.as_mut_ptr(),
            attrs: value_pointers.as_mut_ptr(),
        },
        future: std::ptr::null_mut(),
    };
    // SAFETY: the frame is complete and everything it points to outlives the call.
    let error = unsafe { handler(&raw mut frame) };
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: made by `error_create`, and ours from here.
    let error = unsafe { Box::from_raw(error.cast::<HostError>()) };
    Err((error.code, error.message.to_string_lossy().into_owned()))
}
