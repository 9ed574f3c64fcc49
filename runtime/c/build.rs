//! The shared library's name for linkers and loaders: `docs/runtime.md` says when its number changes.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libxla_ffi_runtime.so.0");
    }
}
