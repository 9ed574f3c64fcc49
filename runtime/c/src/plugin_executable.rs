//! The functions of `pjrt.h` for programs that PJRT plugins have compiled, and for their results.

use crate::call::shape_of;
use crate::client::xffi_rt_client;
use crate::status::{status_or_null, xffi_rt_status};
use crate::{hand_over, list, null, object, take_back, write_out};
use host::{Error, ErrorCode, Result, Tensor};
use std::ffi::{c_char, c_void};
use std::time::Duration;
use xla_ffi_programs::pjrt::{Launch, Loaded};
use xla_ffi_sys::XLA_FFI_DataType;

/// `xffi_rt_loaded` in C: a program that a plugin has compiled.
#[derive(Clone, Debug)]
pub(crate) struct xffi_rt_loaded(Loaded, xla_ffi_programs::pjrt::Client);
const _: () = crate::any_thread::<xffi_rt_loaded>();

/// `xffi_rt_results` in C: the results of a program.
#[derive(Debug)]
pub(crate) struct xffi_rt_results(Vec<Tensor>);
const _: () = crate::any_thread::<xffi_rt_results>();

/// `xffi_rt_array` in C: an array in memory of the caller or of the library.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_array {
    dtype: XLA_FFI_DataType,
    rank: i64,
    dims: *const i64,
    data: *const c_void,
}

impl xffi_rt_array {
    /// Returns a view of a tensor. The caller may read the view while the tensor exists.
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

/// `xffi_rt_object` in C: an object in the user data of an execution.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_object {
    type_id: i64,
    object: *const c_void,
}

/// `xffi_rt_launch_options` in C: the options of `xffi_rt_loaded_run`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct xffi_rt_launch_options {
    struct_size: usize,
    run_id: i32,
    milliseconds: i64,
    objects: *const xffi_rt_object,
    object_count: usize,
}

/// Implements `xffi_rt_client_compile`.
///
/// # Safety
/// The pointers must meet the requirements in `pjrt.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_client_compile(
    client: *const xffi_rt_client,
    code: *const c_char,
    size: usize,
    out: *mut *mut xffi_rt_loaded,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let client = unsafe { object(client, "client") }?.client.clone();
        // SAFETY: guaranteed by the caller.
        let code = unsafe { list(code.cast::<u8>(), size, "code") }?;
        let loaded = xffi_rt_loaded(client.compile(code)?, client);
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, loaded) }
    })
}

/// Implements `xffi_rt_loaded_destroy`.
///
/// # Safety
/// The program must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_loaded_destroy(loaded: *mut xffi_rt_loaded) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(loaded) };
}

/// Implements `xffi_rt_loaded_ret_count`.
///
/// # Safety
/// The program must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_loaded_ret_count(loaded: *const xffi_rt_loaded) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { loaded.as_ref() }.map_or(0, |loaded| loaded.0.results())
}

/// Returns a tensor with a copy of a caller's array.
///
/// # Safety
/// Dimensions and data must meet the requirements in `pjrt.h`.
unsafe fn tensor(array: &xffi_rt_array) -> Result<Tensor> {
    // SAFETY: guaranteed by the caller.
    let shape = unsafe { shape_of(array.dtype, array.rank, array.dims) }?;
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { list(array.data.cast::<u8>(), shape.bytes(), "its data") }?;
    Tensor::from_bytes(shape, bytes)
}

/// Applies the options of `xffi_rt_loaded_run` to an execution.
///
/// # Safety
/// The options must meet the requirements in `pjrt.h`.
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
    // SAFETY: guaranteed by the caller.
    for given in unsafe { list(options.objects, options.object_count, "objects") }? {
        if given.object.is_null() {
            return Err(null("an object"));
        }
        // SAFETY: guaranteed by the caller.
        launch = unsafe { launch.user_data(given.type_id, given.object) };
    }
    Ok(launch)
}

/// Implements `xffi_rt_loaded_run`.
///
/// # Safety
/// The pointers must meet the requirements in `pjrt.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_loaded_run(
    loaded: *const xffi_rt_loaded,
    args: *const xffi_rt_array,
    arg_count: usize,
    options: *const xffi_rt_launch_options,
    out: *mut *mut xffi_rt_results,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let xffi_rt_loaded(loaded, client) = unsafe { object(loaded, "loaded") }?.clone();
        let mut buffers = vec![];
        // SAFETY: guaranteed by the caller.
        for (index, array) in unsafe { list(args, arg_count, "args") }?.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            let buffer = unsafe { tensor(array) }.and_then(|tensor| client.upload(&tensor));
            buffers.push(buffer.map_err(|error| error.within(format_args!("argument {index}")))?);
        }
        let mut launch = loaded.launch().args(&buffers);
        // SAFETY: guaranteed by the caller.
        if let Some(options) = unsafe { options.as_ref() } {
            // SAFETY: guaranteed by the caller.
            launch = unsafe { with_options(launch, options) }?;
        }
        let results = launch.run()?;
        let results = results.iter().map(xla_ffi_programs::pjrt::Buffer::download);
        let results = xffi_rt_results(results.collect::<Result<_>>()?);
        // SAFETY: guaranteed by the caller.
        unsafe { hand_over(out, results) }
    })
}

/// Implements `xffi_rt_results_count`.
///
/// # Safety
/// The results must be null or owned by the caller.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_results_count(results: *const xffi_rt_results) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { results.as_ref() }.map_or(0, |results| results.0.len())
}

/// Implements `xffi_rt_results_get`.
///
/// # Safety
/// The results must be null or owned by the caller, and `out` must be null or valid for writing an array.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_results_get(
    results: *const xffi_rt_results,
    index: usize,
    out: *mut xffi_rt_array,
) -> *mut xffi_rt_status {
    status_or_null(|| {
        // SAFETY: guaranteed by the caller.
        let results = &unsafe { object(results, "results") }?.0;
        let Some(tensor) = results.get(index) else {
            let count = results.len();
            let why = format!("array {index} is asked for, there are {count}");
            return Err(Error::new(ErrorCode::OutOfRange, why));
        };
        // SAFETY: guaranteed by the caller.
        unsafe { write_out(out, || xffi_rt_array::of(tensor)) }
    })
}

/// Implements `xffi_rt_results_destroy`.
///
/// # Safety
/// The results must be null or owned by the caller, and must not be used afterwards.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn xffi_rt_results_destroy(results: *mut xffi_rt_results) {
    // SAFETY: guaranteed by the caller.
    unsafe { take_back(results) };
}
