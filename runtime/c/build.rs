//! Sets the shared library's name (SONAME) for linkers and loaders. `docs/runtime.md` describes when its number
//! changes.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let name = match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => "-Wl,-soname,libxla_ffi_runtime.so.0",
        Ok("macos") => "-Wl,-install_name,@rpath/libxla_ffi_runtime.0.dylib",
        _ => return,
    };
    println!("cargo:rustc-cdylib-link-arg={name}");
}
