//! How the description of a library lies in its file: records in a section of their own, each a head and a payload in
//! JSON. This SDK's own format, not XLA's.

/// What the head of a record starts with.
pub const MAGIC: &[u8; 8] = b"XLAFFIMF";

/// The newest version of the format, which follows the magic as 4 bytes, little-endian; older ones are read too.
pub const VERSION: u32 = 2;

/// Bytes of the head: magic, version, length of the payload as 4 bytes, little-endian.
pub const HEAD: usize = 16;

/// The section that holds the records, in ELF.
pub const SECTION: &str = ".xla_ffi_manifest";

/// The same in Mach-O, in the segment `__DATA`: no name has more than 16 bytes there.
pub const SECTION_MACH_O: &str = "__xla_ffi";

/// The same in PE: no name in a DLL has more than 8 bytes.
pub const SECTION_PE: &str = ".xla_ffi";
