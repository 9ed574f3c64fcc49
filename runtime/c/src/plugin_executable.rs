//! What PJRT plugins have compiled, and its executions.

use crate::call::shape_of;
use crate::client::xffi_rt_client;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, list, null, object, take_back, write_out};
use host::{Error, ErrorCode, Result, Tensor};
use std::ffi::{c_char, c_void};
use std::time::Duration;
use xla_ffi_programs::pjrt::{Launch, Loaded};
use xla_ffi_sys::XLA_FFI_DataType;

/// `xffi_rt_loaded`.
#[derive(Clone, Debug)]
pub(crate) struct xffi_rt_loaded(Loaded, xla_ffi_programs::pjrt::Client);
const _: () = crate::any_thread::<xffi_rt_loaded>();

/// `xffi_rt_results`.
#[derive(Debug)]
pub(crate) struct xffi_rt_results(Vec<Tensor>);
const _: () = crate::any_thread::<xffi_rt_results>();

/// `xffi_rt_array`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_array {
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *const c_void,
}

impl xffi_rt_array {
    /// A tensor that the caller may read while it is there.
    pub(crate) fn of(tensor: &Tensor) -> Self {
        let dims = tensor.shape().dims();
        Self {
            dtype: tensor.shape().dtype().raw(),
            rank: dims.len() as i64,
            dims: dims.as_ptr(),
            data: tensor.bytes().as_ptr().cast(),
        }
    }
}

/// `xffi_rt_object`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_object {
    type_id: i64,
    object: *const c_void,
}

/// `xffi_rt_launch_options`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_launch_options {
    struct_size: usize,
    run_id: i32,
    milliseconds: i64,
    objects: *const xffi_rt_object,
    object_count: usize,
}

/// `xffi_rt_client_compile`.
///
/// # Safety
/// The pointers are as `pjrt.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_compile(
    client: *const xffi_rt_client,
    code: *const c_char,
    size: usize,
    out: *mut *mut xffi_rt_loaded,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let client = unsafe { object(client, "client") }?.client.clone();
        // SAFETY: as promised by the caller.
        let code = unsafe { list(code.cast::<u8>(), size, "code") }?;
        let loaded = xffi_rt_loaded(client.compile(code)?, client);
        // SAFETY: as promised by the caller.
        unsafe { hand_over(out, loaded) }
    })
}

/// `xffi_rt_loaded_destroy`.
///
/// # Safety
/// The program is null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_loaded_destroy(loaded: *mut xffi_rt_loaded) {
    // SAFETY: as promised by the caller.
    unsafe { take_back(loaded) };
}

/// `xffi_rt_loaded_ret_count`.
///
/// # Safety
/// The program is null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_loaded_ret_count(loaded: *const xffi_rt_loaded) -> usize {
    // SAFETY: as promised by the caller.
    unsafe { loaded.as_ref() }.map_or(0, |loaded| loaded.0.results())
}

/// A copy of an array of the caller's.
///
/// # Safety
/// Dimensions and data are as `pjrt.h` says.
unsafe fn tensor(array: &xffi_rt_array) -> Result<Tensor> {
    // SAFETY: as promised by the caller.
    let shape = unsafe { shape_of(array.dtype, array.rank, array.dims) }?;
    // SAFETY: as promised by the caller.
    let bytes = unsafe { list(array.data.cast::<u8>(), shape.bytes(), "its data") }?;
    Tensor::from_bytes(shape, bytes)
}

/// Sets what the options say.
///
/// # Safety
/// The options are as `pjrt.h` says.
unsafe fn with_options(mut launch: Launch, options: &xffi_rt_launch_options) -> Result<Launch> {
    let size = size_of::<xffi_rt_launch_options>();
    if options.struct_size != size {
        return Err(Error::invalid_argument(format!(
            "the options' struct_size is {}, {size} is expected: begin with \
             XFFI_RT_LAUNCH_OPTIONS_INIT",
            options.struct_size
        )));
    }
    let milliseconds = u64::try_from(options.milliseconds).map_err(|_| {
        let time = options.milliseconds;
        Error::invalid_argument(format!("a time limit of {time} ms: 0 is for none"))
    })?;
    launch = launch.launch_id(options.run_id);
    launch = launch.time_limit((milliseconds > 0).then(|| Duration::from_millis(milliseconds)));
    // SAFETY: as promised by the caller.
    for given in unsafe { list(options.objects, options.object_count, "objects") }? {
        if given.object.is_null() {
            return Err(null("an object"));
        }
        // SAFETY: as promised by the caller.
        launch = unsafe { launch.user_data(given.type_id, given.object) };
    }
    Ok(launch)
}

/// `xffi_rt_loaded_run`.
///
/// # Safety
/// The pointers are as `pjrt.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_loaded_run(
    loaded: *const xffi_rt_loaded,
    args: *const xffi_rt_array,
    arg_count: usize,
    options: *const xffi_rt_launch_options,
    out: *mut *mut xffi_rt_results,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let xffi_rt_loaded(loaded, client) = unsafe { object(loaded, "loaded") }?.clone();
        let mut buffers = vec![];
        // SAFETY: as promised by the caller.
        for (index, array) in unsafe { list(args, arg_count, "args") }?.iter().enumerate() {
            // SAFETY: as promised by the caller.
            let buffer = unsafe { tensor(array) }.and_then(|tensor| client.upload(&tensor));
            buffers.push(buffer.map_err(|error| error.within(format_args!("argument {index}")))?);
        }
        let mut launch = loaded.launch().args(&buffers);
        // SAFETY: as promised by the caller.
        if let Some(options) = unsafe { options.as_ref() } {
            // SAFETY: as promised by the caller.
            launch = unsafe { with_options(launch, options) }?;
        }
        let results = launch.run()?;
        let results = results.iter().map(xla_ffi_programs::pjrt::Buffer::download);
        let results = xffi_rt_results(results.collect::<Result<_>>()?);
        // SAFETY: as promised by the caller.
        unsafe { hand_over(out, results) }
    })
}

/// `xffi_rt_results_count`.
///
/// # Safety
/// The results are null or the caller's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_results_count(results: *const xffi_rt_results) -> usize {
    // SAFETY: as promised by the caller.
    unsafe { results.as_ref() }.map_or(0, |results| results.0.len())
}

/// `xffi_rt_results_get`.
///
/// # Safety
/// The results are null or the caller's, `out` null or room for an array.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_results_get(
    results: *const xffi_rt_results,
    index: usize,
    out: *mut xffi_rt_array,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: as promised by the caller.
        let results = &unsafe { object(results, "results") }?.0;
        let Some(tensor) = results.get(index) else {
            let count = results.len();
            let why = format!("array {index} is asked for, there are {count}");
            return Err(Error::new(ErrorCode::OutOfRange, why));
        };
        // SAFETY: as promised by the caller.
        unsafe { write_out(out, || xffi_rt_array::of(tensor)) }
    })
}

/// `xffi_rt_results_destroy`.
///
/// # Safety
/// The results are null or the caller's, and not used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_results_destroy(results: *mut xffi_rt_results) {
    // SAFETY: as promised by the caller.
    unsafe { take_back(results) };
}
