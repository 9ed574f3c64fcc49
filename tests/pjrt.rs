//! scratch
use xla_ffi_runtime::{Runtime, Stage, Tensor, pjrt::Plugin};
mod libraries;
#[test]
fn first() {
    let plugin = Plugin::load(std::env::var("XLA_FFI_PJRT_PLUGIN").unwrap()).unwrap();
    println!("{plugin:?}");
    let client = plugin.client().unwrap();
    println!("{client:?}");
    let library = Runtime::default()
        .open(libraries::rust_examples().join("libtiled_add.so"))
        .unwrap();
    client
        .register(
            "add",
            &library
                .bundle(&[(Stage::Execute, "tiled_add__tiled_add")])
                .unwrap(),
        )
        .unwrap();
    client
        .register(
            "add",
            &library
                .bundle(&[(Stage::Execute, "tiled_add__tiled_add")])
                .unwrap(),
        )
        .unwrap();
    let program = client
        .compile(
            r#"func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
          %z = stablehlo.custom_call @add(%x, %y) {api_version = 4 : i32}
              : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          return %z : tensor<2xf32>
        }"#,
        )
        .unwrap();
    let x = Tensor::from_slice([2], &[1.0_f32, 2.0]).unwrap();
    let results = program.run(&[x.clone(), x]).unwrap();
    println!("{}", results[0]);
    client.register_library(&library).unwrap();
    println!("{:?}", client.register_type("a.b", 0, Default::default()));
    println!("{:?}", client.register_type("a.b", 0, Default::default()));
    println!("{:?}", client.register_type("a.b", 99, Default::default()));
    drop((program, client));
    let client = plugin.client().unwrap();
    println!(
        "{:?}",
        client.register(
            "add",
            &library
                .bundle(&[(Stage::Execute, "xla_ffi_register")])
                .unwrap()
        )
    );
    println!("{:?}", client.compile("func.func @main(%x: tensor<2xf32>"));
    println!("{:?}", client.compile("func.func @main() -> tensor<f32> { %z = stablehlo.custom_call @nope() {api_version = 4 : i32} : () -> tensor<f32>
    return %z : tensor<f32> }"));
}
