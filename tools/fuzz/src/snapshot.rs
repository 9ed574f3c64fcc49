//! Snapshots of ABIs, as `abi import` proposes them and `abi check` reads them.

use xla_ffi_abi::model::Header;
use xla_ffi_abi::snapshot::{parse, render};

pub(crate) fn attack(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match parse("name", text) {
        Err(broken) => assert!(!broken.to_string().is_empty()),
        Ok(abi) => {
            let again = render("name", Header::Main, "0.4.31", None, &abi);
            assert_eq!(parse("name", &again).expect("what is written is read"), abi);
        }
    }
}
