//! A mirror of the ABI in Rust, as written by hand.

use core::ffi::c_void;

#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Stage {
    STAGE_EXECUTE = 3,
    STAGE_RECORD = 4,
}
pub use Stage::{STAGE_EXECUTE, STAGE_RECORD};

#[repr(C)]
pub struct Buffer {
    pub struct_size: usize,
    pub extensions: *mut c_void,
    pub kind: u32,
    pub data: *mut c_void,
    pub rank: i64,
    pub dims: *mut i64,
}

#[repr(C)]
pub struct Args {
    pub struct_size: usize,
    pub extensions: *mut c_void,
    pub size: i64,
    pub types: *mut u32,
    pub args: *mut *mut c_void,
}
