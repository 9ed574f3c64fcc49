//! Checks results and error messages of the C and C++ examples on every revision.

use std::path::Path;
use xla_ffi_runtime::{Attributes, Outcome, Result, Revision, Runtime, Stage, Tensor, spec};
use xla_ffi_testing::skip;

/// Returns the libraries of a C or C++ example, one per language that has a compiler.
fn languages(stem: &str) -> Vec<String> {
    let mut found = vec![];
    for (language, here, suffix) in [
        ("C", option_env!("C_COMPILER").is_some(), ""),
        ("C++", option_env!("CPP_COMPILER").is_some(), "_cpp"),
    ] {
        if here {
            found.push(format!("lib{stem}{suffix}.so"));
        } else {
            skip(
                stem,
                &format!("no {language} compiler when the tests were built"),
            );
        }
    }
    found
}

/// Calls a handler with operands in the command line's notation.
fn call(
    revision: Revision,
    library: &str,
    symbol: &str,
    attributes: &str,
    args: &[Tensor],
    rets: &[&str],
) -> Result<Outcome> {
    let runtime = Runtime::new(revision);
    let library = runtime.open(Path::new(env!("C_EXAMPLES_DIR")).join(library))?;
    let handler = library.handler(symbol, &[(Stage::Execute, symbol)])?;
    let mut call = handler.instantiate(&Attributes::parse(attributes)?)?.call();
    call = call.args(args.iter().cloned());
    for ret in rets {
        call = call.ret(spec::parse_result(ret)?);
    }
    let outcome = call.run();
    // Libraries identify a copy of XLA by the address of its function table. The runtime is leaked, so that the address
    // is not reused.
    std::mem::forget(runtime);
    outcome
}

fn floats(outcome: &Outcome) -> Vec<f32> {
    outcome.rets[0].to_vec().expect("f32")
}

#[test]
fn tiled_add() {
    let b: Vec<f32> = (0..128_u8).map(f32::from).collect();
    let c: Vec<f32> = (0..2048_u16).map(|i| f32::from(i) * 0.5).collect();
    let args = [
        Tensor::from_slice([128], &b).expect("a tensor"),
        Tensor::from_slice([2048], &c).expect("a tensor"),
    ];
    for library in languages("operands") {
        for revision in Revision::ALL {
            let outcome = call(revision, &library, "tiled_add", "{}", &args, &["f32[2048]"]);
            let got = floats(&outcome.expect("it runs"));
            for (i, value) in got.iter().enumerate() {
                assert_eq!(*value, b[i % 128] + c[i], "{library} {revision} {i}");
            }
        }
    }
}

#[test]
fn rms_norm() {
    let x = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let args = [Tensor::from_slice([2, 3], &x).expect("a tensor")];
    for library in languages("rms_norm") {
        for revision in Revision::ALL {
            for (attributes, eps) in [("{}", 1e-5_f32), ("{eps = 0.5 : f32}", 0.5)] {
                let outcome = call(
                    revision,
                    &library,
                    "rms_norm",
                    attributes,
                    &args,
                    &["f32[2,3]"],
                );
                let got = floats(&outcome.expect("it runs"));
                for (row, out) in x.chunks(3).zip(got.chunks(3)) {
                    let mean = row.iter().map(|v| v * v).sum::<f32>() / 3.0;
                    let scale = (mean + eps).sqrt().recip();
                    for (value, v) in out.iter().zip(row) {
                        assert!(
                            (value - v * scale).abs() < 1e-6,
                            "{library} {revision}: {got:?}"
                        );
                    }
                }
            }
        }
    }
}
