//! What a call costs on the embedded runtime, beside a direct call of the handler, as a line of JSON:
//! medians in ns. `cargo xtask bench` runs it, prints it and knows the limits.

use std::ffi::c_void;
use std::hint::black_box;
use std::time::Instant;
use xla_ffi_runtime::{Attributes, Bundle, CallFrame, DType, Revision, Runtime, Shape, Tensor};
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Metadata_Extension};

/// Answers the metadata call, and nothing else.
unsafe extern "C" fn empty(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: the frame is a host's.
    let extension = unsafe { (*frame).extension_start };
    if !extension.is_null() {
        // SAFETY: the only extension that hosts send is the metadata's.
        let metadata = unsafe { (*extension.cast::<XLA_FFI_Metadata_Extension>()).metadata };
        // SAFETY: the host's metadata is writable.
        unsafe { (*metadata).api_version.major_version = 0 };
        // SAFETY: as above.
        unsafe { (*metadata).api_version.minor_version = 1 };
    }
    std::ptr::null_mut()
}

/// The median over rounds of the nanoseconds that one of `count` runs takes.
fn median(count: u32, mut work: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..51)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..count {
                work();
            }
            start.elapsed().as_nanos() as f64 / f64::from(count)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn main() {
    let runtime = Runtime::new(Revision::NEWEST);
    // SAFETY: `empty` is a handler.
    let bundle = unsafe { Bundle::execute(empty) };
    let handler = runtime.handler("empty", bundle).expect("it answers");
    let executable = handler.instantiate(&Attributes::new()).expect("no stage");
    let x = Tensor::from_slice([4], &[1.0_f32, 2.0, 3.0, 4.0]).expect("memory");
    let shape = x.shape().clone();
    let mut call = executable
        .call()
        .arg(x)
        .ret(shape)
        .prepare()
        .expect("it lays out");

    let mut frame = std::mem::MaybeUninit::<XLA_FFI_CallFrame>::zeroed();
    let direct: unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error =
        black_box(empty);
    let direct = median(100_000, || {
        // SAFETY: the handler reads one field, which is zero.
        black_box(unsafe { direct(black_box(frame.as_mut_ptr())) });
    });
    let prepared = median(100_000, || call.invoke().expect("it runs"));

    let shape = Shape::new(DType::F32, [8, 16]).expect("it fits");
    let data = 64 as *mut c_void;
    let operands: Vec<_> = (0..32).map(|_| (shape.clone(), data)).collect();
    let mut attributes = Attributes::new();
    for index in 0..64 {
        attributes = attributes.with(format!("attribute_{index}"), f64::from(index));
    }
    let build = median(1000, || {
        let frame = CallFrame::new(Revision::NEWEST, &operands, &operands);
        black_box(frame.expect("it lays out").attributes(&attributes));
    });
    let mut frame = CallFrame::new(Revision::NEWEST, &operands, &operands)
        .expect("it lays out")
        .attributes(&attributes);
    let pointers = vec![data; 32];
    let update = median(10_000, || {
        frame
            .update(black_box(&pointers), black_box(&pointers))
            .expect("32 and 32");
    });
    let report = serde_json::json!({
        "direct": direct,
        "prepared": prepared - direct,
        "build": build,
        "update": update,
    });
    println!("{report}");
}
