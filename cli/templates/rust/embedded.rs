//! Runs the library on the embedded runtime, with every revision of the ABI.

use xla_ffi_runtime::{Attributes, Revision, Runtime, Stage, Tensor};

#[test]
fn scales() {
    let file = format!(
        "{}@NAME@{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = std::env::current_exe().unwrap().with_file_name(file);
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let library = runtime.open(&library).unwrap();
        let stages = [(Stage::Execute, "@NAME@__scale")];
        let handler = library.handler("scale", &stages).unwrap();
        let attributes = Attributes::new().with("factor", 2.0_f32);
        let x = Tensor::from_slice([3], &[1.0_f32, 2.0, 3.0]).unwrap();
        let shape = x.shape().clone();
        let call = handler.instantiate(&attributes).unwrap().call();
        let outcome = call.arg(x).ret(shape).run().unwrap();
        assert_eq!(outcome.rets[0].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    }
}
