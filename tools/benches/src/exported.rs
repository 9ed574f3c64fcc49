//! The handlers of [`crate::handlers`] by their symbols, in a program that is linked with them.

/// Declares `fn exported(symbol: &str)`, the handler that is called so; `$prefix` is the name of the crate and two underscores.
macro_rules! exported {
    ($prefix:literal, $($symbol:literal $name:ident)*) => {
        unsafe extern "C" {
            $(
                #[link_name = concat!($prefix, $symbol)]
                fn $name(
                    frame: *mut xla_ffi_sys::XLA_FFI_CallFrame,
                ) -> *mut xla_ffi_sys::XLA_FFI_Error;
            )*
        }

        fn exported(
            symbol: &str,
        ) -> unsafe extern "C" fn(
            *mut xla_ffi_sys::XLA_FFI_CallFrame,
        ) -> *mut xla_ffi_sys::XLA_FFI_Error {
            match symbol {
                $($symbol => $name,)*
                other => panic!("no handler {other}"),
            }
        }
    };
    ($prefix:literal) => {
        exported! { $prefix,
            "args_1" args_1 "args_4" args_4 "args_8" args_8 "args_16" args_16 "rets_8" rets_8
            "args_8_rets_8" args_8_rets_8
            "attrs_1" attrs_1 "attrs_4" attrs_4 "attrs_8" attrs_8
            "struct_dictionary" struct_dictionary "struct_attributes" struct_attributes
            "mixed" mixed "device" device "contract" contract "async_inline" async_inline "singular" singular
            "args_rets" args_rets "attributes" attributes
        }
    };
}
