//! Compiles `guard.cc`, which catches C++ exceptions that leave handlers. Without a C++ compiler, the crate also
//! works, but an exception that leaves a handler ends the process.

fn main() {
    println!("cargo::rerun-if-changed=src/process/guard.cc");
    println!("cargo::rerun-if-env-changed=XLA_FFI_NO_CXX");
    println!("cargo::rustc-check-cfg=cfg(xla_ffi_cxx)");
    if std::env::var_os("XLA_FFI_NO_CXX").is_some_and(|value| !value.is_empty()) {
        return;
    }
    let built = cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag_if_supported("-fexceptions")
        .file("src/process/guard.cc")
        .warnings(true)
        .try_compile("xla_ffi_runtime_guard");
    match built {
        Ok(()) => println!("cargo::rustc-cfg=xla_ffi_cxx"),
        Err(error) => println!(
            "cargo::warning=no C++ compiler ({error}): a C++ exception that leaves \
             a handler ends the process; install g++ or clang++ to contain it"
        ),
    }
}
