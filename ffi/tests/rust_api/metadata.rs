//! Tests the metadata that handlers return, and the hosts' reactions.

use crate::{bundle, handler};
use xla_ffi::__private::Handler;
use xla_ffi::{ext::Extension, prelude::*};
use xla_ffi_runtime::{ErrorCode, Revision, Runtime};

#[xla_ffi::handler]
fn plain(_x: Buffer<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(command_buffer_compatible)]
fn traits() -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn needs_r9(_extension: Extension<128>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn needs_r10(_options: CustomOptions) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(floor = "r8")]
fn says_r8() -> Result<()> {
    Ok(())
}

struct State;

#[xla_ffi::stateful(name = "with_state")]
impl State {
    fn instantiate() -> Self {
        Self
    }

    fn execute(&self) {}
}

/// Covers XLA's test Metadata. The version is the host's, raised to the handler's minimum. The host
/// then rejects the handler with a reason.
#[test]
fn versions_are_negotiated() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let answered = |handler: xla_ffi_runtime::Handler| handler.metadata().map(|m| m.version);
        let expected = (revision > Revision::R0).then_some((0, revision.minor_version()));
        assert_eq!(answered(handler::<plain>(&runtime)), expected, "{revision}");
        for (bundle, floor) in [
            (bundle::<needs_r9>(), Revision::R9),
            (bundle::<needs_r10>(), Revision::R10),
            (bundle::<says_r8>(), Revision::R8),
        ] {
            let result = runtime.handler("h", bundle);
            if revision == Revision::R0 || revision.minor_version() >= floor.minor_version() {
                assert_eq!(answered(result.unwrap()), expected);
            } else {
                let error = result.unwrap_err();
                let answer = format!("it answers version 0.{}", floor.minor_version());
                assert_eq!(error.code(), ErrorCode::InvalidArgument);
                assert!(error.message().contains(&answer), "{revision}: {error}");
            }
        }
    }
    assert_eq!(<plain as Handler>::INFO.floor(), Revision::R0);
    assert_eq!(<says_r8 as Handler>::INFO.floor(), Revision::R8);
    assert_eq!(<State as Handler>::INFO.floor(), Revision::R1);
}

/// Covers XLA's test MetadataTraits, and the type of the state on hosts that have the field.
#[test]
fn traits_and_types_are_told() {
    for revision in Revision::ALL.into_iter().skip(1) {
        let runtime = Runtime::new(revision);
        assert!(
            handler::<traits>(&runtime)
                .metadata()
                .unwrap()
                .is_command_buffer_compatible()
        );
        assert!(
            !handler::<plain>(&runtime)
                .metadata()
                .unwrap()
                .is_command_buffer_compatible()
        );
        let id = handler::<State>(&runtime).metadata().unwrap().state_type_id;
        assert_eq!(id != 0, revision >= Revision::R7, "{revision}");
        assert!(runtime.take_findings().is_empty());
    }
}

xla_ffi::library! {
    name = "metadata";
    plain, traits, needs_r9, needs_r10, says_r8, State
}
