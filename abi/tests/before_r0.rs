//! Tests of the header before revision r0, whose snapshot must match the header in jaxlib 0.4.30.

use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::header::Source;
use xla_ffi_abi::model::Header;
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_abi::xla_ffi_sys::Revision;
use xla_ffi_testing::headers::{api_folder, folder_or_skip};
use xla_ffi_testing::{root, skip};

/// Checks the sizes and offsets by which libraries built with this SDK recognise and refuse hosts from before revision
/// r0.
#[test]
fn its_table() {
    let abi = &snapshot::of_edition(Edition::BEFORE_R0).unwrap().abi;
    let table = &abi.structs["XLA_FFI_Api"];
    assert_eq!(
        table.struct_size,
        Some(Revision::BEFORE_R0_STRUCT_SIZE as u64)
    );
    let at = |name: &str| {
        table
            .fields
            .iter()
            .find(|field| field.name == name)
            .map(|field| field.offset)
    };
    assert_eq!(
        at("XLA_FFI_Error_Create"),
        Some(Revision::BEFORE_R0_TABLE_HEAD as u64)
    );
    assert_eq!(at("XLA_FFI_Stream_Get"), Some(56));
    assert_eq!(at("api_version"), None);
    assert_eq!(
        abi.enums["XLA_FFI_ExecutionStage"].values["XLA_FFI_ExecutionStage_EXECUTE"],
        2
    );
    assert!(
        matches!(snapshot::identify(abi), Ok(Verdict::Known(known)) if known.edition == Edition::BEFORE_R0)
    );
    // Libraries report this refusal with the host's functions for errors, whose arguments must be the same as in r0.
    let next = &snapshot::of_edition(Edition::find("r0").unwrap())
        .unwrap()
        .abi;
    for name in [
        "XLA_FFI_Error_Create_Args",
        "XLA_FFI_Error_GetMessage_Args",
        "XLA_FFI_Error_Destroy_Args",
    ] {
        assert_eq!(abi.structs[name], next.structs[name], "{name}");
    }
}

#[test]
fn the_snapshot_is_the_shipped_header() {
    let test = "the_snapshot_is_the_shipped_header";
    let Some(folder) = folder_or_skip(test) else {
        return;
    };
    let path = api_folder(&folder, "0.4.30").join("c_api.h");
    if !path.exists() {
        skip(test, "XLA_FFI_JAXLIB_HEADERS has no 0.4.30");
        return;
    }
    let include = folder.join("0.4.30");
    let abi = Source::open(&path, &[include]).unwrap().read().unwrap();
    let edition = Edition::BEFORE_R0;
    let text = snapshot::render(
        &edition.name(),
        Header::Main,
        edition.first_jaxlib,
        edition.last_jaxlib,
        &abi,
    );
    let file = root().join("abi/snapshots/before-r0.json");
    if std::env::var_os("XLA_FFI_SNAPSHOT").is_some_and(|value| value == "overwrite") {
        std::fs::write(&file, &text).unwrap();
    }
    assert!(
        text == std::fs::read_to_string(&file).unwrap(),
        "it is another: XLA_FFI_SNAPSHOT=overwrite cargo test -p xla-ffi-abi --test before_r0"
    );
}
