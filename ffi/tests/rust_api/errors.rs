//! Tests the errors that a host receives from calls that are rejected, fail or panic.

use crate::{call, failed, on};
use xla_ffi::prelude::*;
use xla_ffi_runtime::{ErrorCode, Revision};

#[xla_ffi::handler]
fn fail(code: i32, message: &str) -> Result<()> {
    let raw = xla_ffi::sys::XLA_FFI_Error_Code(code.unsigned_abs());
    match ErrorCode::from_raw(raw) {
        Some(code) => Err(Error::new(code, message.to_owned())),
        None => Ok(()),
    }
}

/// Covers XLA's tests ReturnError, ForwardError and Expected, with each of the 16 codes.
#[test]
fn errors_carry_their_code_and_text() {
    for number in 1..=16_u32 {
        let code = ErrorCode::from_raw(xla_ffi::sys::XLA_FFI_Error_Code(number)).unwrap();
        let text = format!("{{code = {number} : i32, message = \"no {number}\"}}");
        assert_eq!(
            failed(call::<fail>(&text)),
            (code, format!("fail (execute): no {number}"))
        );
    }
    assert!(
        call::<fail>("{code = 0 : i32, message = \"\"}")
            .run()
            .is_ok()
    );
    let old = on::<fail>(Revision::R1, "{code = 3 : i32, message = \"x\"}");
    assert_eq!(
        failed(old),
        (ErrorCode::Internal, "fail (execute): x".to_owned())
    );
    let nul = call::<fail>(r#"{code = 3 : i32, message = "a\00b"}"#);
    assert_eq!(failed(nul).1, "fail (execute): a\\0b");
    let long = "é".repeat(400);
    let text = format!("{{code = 3 : i32, message = \"{long}\"}}");
    assert!(failed(call::<fail>(&text)).1.ends_with(&long));
    // An error that already starts with the handler's name, for example from a helper, is not changed.
    let named = r#"{code = 3 : i32, message = "fail (prepare): x"}"#;
    assert_eq!(failed(call::<fail>(named)).1, "fail (prepare): x");
}

#[xla_ffi::handler]
fn other_error(path: &str) -> std::result::Result<(), std::io::Error> {
    std::fs::read(path).map(drop)
}

#[xla_ffi::handler]
fn nothing() {}

#[test]
fn any_error_that_converts_can_be_returned() {
    let (code, text) = failed(call::<other_error>("{path = \"/no/such/file\"}"));
    assert_eq!(code, ErrorCode::NotFound, "{text}");
    assert!(call::<nothing>("{}").run().is_ok());
}

#[xla_ffi::handler]
fn panics(how: &str) -> Result<()> {
    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() || self.0 == "payload" {
                panic!("a destructor");
            }
        }
    }
    match how {
        "text" => panic!("text {}", 1),
        "plain" => std::panic::panic_any("plain"),
        "value" => std::panic::panic_any(7_u8),
        "payload" => std::panic::panic_any(Bomb("payload")),
        "destructor" => drop(Bomb("scope")),
        "index" => {
            let [] = <[u8; 0]>::try_from(&how.as_bytes()[..1]).unwrap();
        }
        _ => {}
    }
    Ok(())
}

/// Covers XLA's test CatchException: a panic becomes INTERNAL, with the handler, the message and the
/// location.
#[test]
fn panics_become_errors() {
    let run = |how: &str| {
        let (code, text) = failed(call::<panics>(&format!("{{how = \"{how}\"}}")));
        assert_eq!(code, ErrorCode::Internal);
        text
    };
    let at = ", at ffi/tests/rust_api/errors.rs:";
    assert!(run("text").starts_with(&format!("panics (execute): panicked: text 1{at}")));
    assert!(run("plain").starts_with(&format!("panics (execute): panicked: plain{at}")));
    assert!(run("value").starts_with(&format!(
        "panics (execute): panicked: a value that is not text{at}"
    )));
    assert!(run("payload").starts_with("panics (execute): panicked: a value that is not text"));
    assert!(
        run("destructor").starts_with(&format!("panics (execute): panicked: a destructor{at}"))
    );
    assert!(run("index").contains("called `Result::unwrap()`"));
    assert!(call::<panics>("{how = \"\"}").run().is_ok());
}

xla_ffi::library! { name = "errors"; fail, other_error, nothing, panics }
