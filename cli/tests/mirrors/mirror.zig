//! A mirror of the ABI, as a Zig program declares it.

pub const STAGE_EXECUTE: u32 = 3;
pub const STAGE_RECORD: u32 = 4;

pub const Buffer = extern struct {
    struct_size: usize,
    extensions: ?*anyopaque,
    kind: u32,
    data: ?*anyopaque,
    rank: i64,
    dims: ?[*]i64,
};

pub const Args = extern struct {
    struct_size: usize,
    extensions: ?*anyopaque,
    size: i64,
    types: ?[*]u32,
    args: ?[*]?*anyopaque,
};
