//! Mutated call frames: whatever comes, a handler answers with success or an error.
//!
//! `XLA_FFI_CASES` sets the number of cases for both properties (1000 unless set).

use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use xla_ffi::__private::Handler;
use xla_ffi::prelude::*;
use xla_ffi::sys::*;
use xla_ffi::{AttrValue, Pred};
use xla_ffi_testing::frames::{Lists, Mutated, config, frames};

const NAMES: &[&str] = &["a", "flag", "n", "text", "v", "other"];

/// Elements that a handler below looks at: as many as the frames' memory surely has.
const SEEN: usize = 16;

#[xla_ffi::handler]
fn typed(
    x: Buffer<f32>,
    mut y: Out<f32>,
    #[attr] a: f32,
    #[attr(default = 7)] n: i64,
    #[attr] text: Option<&str>,
    #[attr] v: Option<&[f32]>,
) -> Result<()> {
    let sum: f32 = x.iter().take(SEEN).sum();
    y.as_uninit().iter_mut().take(SEEN).for_each(|y| {
        y.write(a + sum);
    });
    let rest = text.map_or(0, str::len) + v.map_or(0, <[f32]>::len);
    if n as usize == rest {
        return Err(Error::internal("as wide as it is long"));
    }
    Ok(())
}

#[xla_ffi::handler(open_attrs)]
fn untyped(x: AnyBuffer, y: AnyOut, rest: RemainingArgs, #[attr] flag: Option<bool>) -> Result<()> {
    let sizes: usize = rest.iter().map(|_| 1).sum();
    let same = x.dims() == y.dims() && flag == Some(true);
    if same && sizes != rest.len() {
        return Err(Error::internal("lost an operand"));
    }
    Ok(())
}

#[xla_ffi::handler]
fn whatever(v: AttrValue, #[attr] n: Option<&[Pred]>) -> Result<()> {
    match (v.describe().len(), n) {
        (0, _) => Err(Error::internal("no text")),
        _ => Ok(()),
    }
}

xla_ffi::library! { name = "frames"; typed, untyped, whatever }

static ERRORS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn error_create(args: *mut XLA_FFI_Error_Create_Args) -> *mut XLA_FFI_Error {
    // SAFETY: the arguments of this slot.
    let text = unsafe { (*args).message };
    // SAFETY: a C string, as the ABI asks.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    assert!(!text.is_empty());
    ERRORS.fetch_add(1, Ordering::Relaxed);
    std::ptr::without_provenance_mut(1)
}

type Entry = unsafe extern "C" fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error;

fn entry<H: Handler>() -> Entry {
    H::ENTRIES[3].expect("an execute stage")
}

fn survives(frame: Mutated, entries: &[Entry]) {
    // SAFETY: the table is numbers, pointers and optional functions.
    let mut api: XLA_FFI_Api = unsafe { std::mem::zeroed() };
    api.XLA_FFI_Error_Create = Some(error_create);
    frame.with(api, |frame| {
        for entry in entries {
            // SAFETY: what the frame points to is there.
            unsafe { entry(frame) };
        }
    });
}

// Two properties, for two cores.
proptest! {
    #![proptest_config(config(5_000, 10))]

    #[test]
    fn typed_operands(frame in frames(NAMES, Lists::There)) {
        survives(frame, &[entry::<typed>()]);
    }

    #[test]
    fn untyped_operands_and_any_attribute(frame in frames(NAMES, Lists::There)) {
        survives(frame, &[entry::<untyped>(), entry::<whatever>()]);
    }
}
