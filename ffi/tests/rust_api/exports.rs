//! A library in a module whose names are those that the exported functions might use.
#![expect(non_upper_case_globals, reason = "what the names are for")]

use crate::kit::{call, first, load, shape};
use std::ffi::{c_char, c_void};
use xla_ffi::{Attribute, prelude::*};
use xla_ffi_runtime::{DType, Runtime};

static frame: u32 = 1;
const api: u32 = 2;
static platform: u32 = 4;
const flat: u32 = 8;
static function: u32 = 16;
const out: u32 = 32;
static ins: u32 = 64;
const status: u32 = 128;
static opaque: u32 = 256;
const opaque_len: u32 = 512;
static stream: u32 = 1024;
const buffers: u32 = 2048;

/// State that is called as a type of ours might be.
struct Aligned(u32);

#[xla_ffi::stateful]
impl Aligned {
    fn instantiate(n: u32) -> Result<Self> {
        Ok(Self(n))
    }

    fn execute(&self, mut y: Out<u32>) {
        y.fill(self.0);
    }
}

#[derive(Attribute)]
struct One {
    #[attr(default = 1)]
    one: u32,
}

#[xla_ffi::handler]
fn entry(mut y: Out<u32>, #[attr(flatten)] given: One) {
    let host = given.one * frame + api + platform + flat;
    y.fill(host + function + out + ins + status + opaque + opaque_len + stream + buffers);
}

unsafe extern "C" fn bare(_: *mut c_void, _: *mut *const c_void) {}

unsafe extern "C" fn on_device(_: *mut c_void, _: *mut *mut c_void, _: *const c_char, _: usize) {}

xla_ffi::legacy! {
    exported_original = cpu(entry): -> u32[1];
    exported_status = cpu_status(entry): -> u32[1];
    exported_unified = cpu_unified(entry): -> u32[1];
    exported_bare = unsafe cpu(bare);
}

xla_ffi::adapt! {
    exported_adapted = unsafe cpu(bare);
    exported_on_device = unsafe gpu(on_device), opaque = "a";
}

#[test]
fn a_librarys_module_may_have_any_names() {
    let one = || shape(DType::U32, &[1]);
    assert_eq!(
        first::<u32>(call::<entry>("{one = 1 : ui32}").ret(one())),
        [4095]
    );
    let site = load::<Aligned>(&Runtime::default(), "{n = 7 : ui32}").unwrap();
    assert_eq!(first::<u32>(site.call().ret(one())), [7]);
}

xla_ffi::library! {
    name = "exports";
    Aligned, entry, exported_adapted, exported_on_device,
    legacy exported_original, legacy exported_status, legacy exported_unified, legacy exported_bare,
}
