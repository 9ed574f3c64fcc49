//! The plain-C examples give the right numbers, and errors that name what is wrong.

mod host;

use host::{Attr, Data, execute};
use std::path::Path;
use xla_ffi_sys::{XLA_FFI_CallFrame, XLA_FFI_DataType, XLA_FFI_Error};

type Handler = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

/// The handler of an example; `None`, told on stdout, where there is no C compiler.
fn handler(library: &str, symbol: &str) -> Option<Handler> {
    if option_env!("C_COMPILER").is_none() {
        println!("SKIP: no C compiler when the tests were built");
        return None;
    }
    let path = Path::new(env!("C_EXAMPLES_DIR")).join(library);
    // SAFETY: our own example, which runs no code when it is loaded.
    let library = unsafe { libloading::Library::new(&path) }.expect("the example loads");
    // SAFETY: the symbol is a handler.
    let handler = unsafe { library.get::<Handler>(symbol.as_bytes()) }.expect("it is exported");
    let handler = *handler;
    std::mem::forget(library);
    Some(handler)
}

#[test]
fn tiled_add() {
    let Some(handler) = handler("lib01_tiled_add.so", "tiled_add") else {
        return;
    };
    let b: Vec<f32> = (0..128_u8).map(f32::from).collect();
    let c: Vec<f32> = (0..2048_u16).map(|i| f32::from(i) * 0.5).collect();
    let mut a = [Data::f32(&[2048], vec![0.0; 2048])];
    let args = [Data::f32(&[128], b.clone()), Data::f32(&[2048], c.clone())];
    execute(handler, &args, &mut a, &[]).expect("it runs");
    for (i, value) in a[0].values.iter().enumerate() {
        assert_eq!(*value, b[i % 128] + c[i]);
    }
}

#[test]
fn tiled_add_names_every_problem() {
    let Some(handler) = handler("lib01_tiled_add.so", "tiled_add") else {
        return;
    };
    let args = [
        Data::f32(&[2], vec![0.0; 2]).typed(XLA_FFI_DataType::S32),
        Data::f32(&[2, 2], vec![0.0; 4]),
    ];
    let error = execute(handler, &args, &mut [], &[("n", Attr::F32(1.0))]);
    let (code, message) = error.expect_err("it refuses");
    assert_eq!(code, 3);
    assert_eq!(
        message,
        "tiled_add [execute]:\n\
         argument 'b' (0): expected dtype F32, got S32 (4)\n\
         argument 'c' (1): expected rank 1, got 2\n\
         result 'a' (0): missing, the call has 0\n\
         attribute 'n': not one that this handler knows"
    );
    let args = [Data::f32(&[0], vec![]), Data::f32(&[1], vec![1.0])];
    let mut rets = [Data::f32(&[2], vec![0.0; 2])];
    let (_, message) = execute(handler, &args, &mut rets, &[]).expect_err("it refuses");
    assert!(
        message.contains("'c' and 'a': expected equal shapes, got [1] and [2]"),
        "{message}"
    );
    assert!(message.contains("'b': nothing to tile"), "{message}");
    let args = [
        Data::f32(&[i64::MAX, 3], vec![0.0]),
        Data::f32(&[-1], vec![]),
    ];
    let (_, message) = execute(handler, &args, &mut rets, &[]).expect_err("it refuses");
    assert!(
        message.contains("argument 'c' (1): a null pointer, or dimensions"),
        "{message}"
    );
}

#[test]
fn rms_norm() {
    let Some(handler) = handler("lib02_rms_norm.so", "rms_norm") else {
        return;
    };
    let x = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    for (attrs, eps) in [(vec![], 1e-5_f32), (vec![("eps", Attr::F32(0.5))], 0.5)] {
        let mut y = [Data::f32(&[2, 3], vec![0.0; 6])];
        execute(handler, &[Data::f32(&[2, 3], x.clone())], &mut y, &attrs).expect("it runs");
        for (row, out) in x.chunks(3).zip(y[0].values.chunks(3)) {
            let scale = (row.iter().map(|v| v * v).sum::<f32>() / 3.0 + eps)
                .sqrt()
                .recip();
            for (got, v) in out.iter().zip(row) {
                assert!((got - v * scale).abs() < 1e-6, "{got} is not {}", v * scale);
            }
        }
    }
}

#[test]
fn rms_norm_tells_how_to_pass_the_attribute() {
    let Some(handler) = handler("lib02_rms_norm.so", "rms_norm") else {
        return;
    };
    let x = [Data::f32(&[3], vec![1.0; 3])];
    let mut y = [Data::f32(&[3], vec![0.0; 3])];
    let error = execute(handler, &x, &mut y, &[("eps", Attr::F64(1.0))]);
    assert_eq!(
        error.expect_err("it refuses").1,
        "rms_norm [execute]: attribute 'eps': expected a scalar of F32, got one of F64 \
         (a Python float is F64: pass numpy.float32(value) or the like)"
    );
}
