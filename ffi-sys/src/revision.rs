//! The revisions of the ABI.
//!
//! The version in XLA's header does not identify the ABI. The version remained 0.1 while the function table and two
//! structs changed five times. A *revision* identifies one layout.

/// The jaxlib releases that all checks of the project cover, oldest first: the first and last releases of the
/// revisions that differ most, and widely used releases.
pub const JAXLIBS: [&str; 12] = [
    "0.4.31", "0.4.33", "0.4.34", "0.4.38", "0.5.1", "0.6.2", "0.8.0", "0.8.1", "0.9.1", "0.10.2",
    "0.11.1", "0.12.0",
];

/// Releases that were soon withdrawn from the package index, with their revisions according to their headers. These
/// releases are supported, but not recommended.
pub const YANKED_JAXLIBS: [(&str, Revision); 1] = [("0.4.32", Revision::R1)];

/// A layout of the ABI, from the layout of the first jaxlib release with XLA FFI (`R0`) to the
/// newest known layout (`R10`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Revision {
    /// jaxlib 0.4.31: the first release, without a metadata query.
    R0 = 0,
    /// jaxlib 0.4.33: adds the extension chain, metadata and `ThreadPool_Schedule`.
    R1 = 1,
    /// jaxlib 0.4.34–0.4.36: adds futures.
    R2 = 2,
    /// jaxlib 0.4.38–0.5.0: inserts `ThreadPool_NumThreads` before the future slots.
    R3 = 3,
    /// jaxlib 0.5.1–0.5.3: adds `RunId_Get`.
    R4 = 4,
    /// jaxlib 0.6.0–0.7.2: adds `DeviceOrdinal_Get`; the table's `struct_size` becomes its true
    /// size.
    R5 = 5,
    /// jaxlib 0.8.0: adds `TypeInfo` and `Metadata.state_type_id`.
    R6 = 6,
    /// jaxlib 0.8.1–0.9.0.1: registers types with their deleter.
    R7 = 7,
    /// jaxlib 0.9.1–0.11.0: adds state per stage.
    R8 = 8,
    /// jaxlib 0.11.1–0.11.2: adds error details, extensions and the record stage.
    R9 = 9,
    /// jaxlib 0.12.0 and later: adds custom options.
    R10 = 10,
}

/// The data of one revision: minor version, number of function slots, first and last jaxlib, name.
type Row = (i32, usize, &'static str, Option<&'static str>, &'static str);
const ROWS: [Row; 11] = [
    (0, 11, "0.4.31", Some("0.4.31"), "r0"),
    (1, 12, "0.4.33", Some("0.4.33"), "r1"),
    (1, 15, "0.4.34", Some("0.4.36"), "r2"),
    (1, 16, "0.4.38", Some("0.5.0"), "r3"),
    (1, 17, "0.5.1", Some("0.5.3"), "r4"),
    (1, 18, "0.6.0", Some("0.7.2"), "r5"),
    (1, 18, "0.8.0", Some("0.8.0"), "r6"),
    (2, 18, "0.8.1", Some("0.9.0.1"), "r7"),
    (3, 18, "0.9.1", Some("0.11.0"), "r8"),
    (4, 19, "0.11.1", Some("0.11.2"), "r9"),
    (5, 20, "0.12.0", None, "r10"),
];

impl Revision {
    /// The size in bytes of the part of a function table before its first function, in every revision. `api.rs`
    /// compares this size with the newest table.
    pub(crate) const TABLE_HEAD: usize = 48;

    /// All revisions, oldest first.
    pub const ALL: [Self; 11] = [
        Self::R0,
        Self::R1,
        Self::R2,
        Self::R3,
        Self::R4,
        Self::R5,
        Self::R6,
        Self::R7,
        Self::R8,
        Self::R9,
        Self::R10,
    ];

    /// The newest revision that this crate knows.
    pub const NEWEST: Self = Self::R10;

    /// Returns the minor version in headers and runtimes of this revision. The major version is 0.
    #[must_use]
    pub const fn minor_version(self) -> i32 {
        ROWS[self as usize].0
    }

    /// Returns the number of function slots in [`XLA_FFI_Api`](crate::XLA_FFI_Api) after `internal_api`.
    #[must_use]
    pub const fn slot_count(self) -> usize {
        ROWS[self as usize].1
    }

    /// Returns the size of the function table `XLA_FFI_Api` in bytes: 48, and 8 per slot.
    #[must_use]
    pub const fn api_size(self) -> usize {
        Self::TABLE_HEAD + 8 * self.slot_count()
    }

    /// Returns the value of `XLA_FFI_Api.struct_size` in a runtime of this revision. Before r5, the value is 88,
    /// because XLA's macro named `Stream_Get` as the last field. Since r5, the value is the true size.
    #[must_use]
    pub const fn api_struct_size(self) -> usize {
        if (self as u8) < Self::R5 as u8 {
            88
        } else {
            self.api_size()
        }
    }

    /// The value of `struct_size` in the function table of a runtime before r0 (jaxlib 0.4.29 and 0.4.30, TensorFlow
    /// 2.17). The table has no `api_version`: `internal_api` is at offset 16, followed by the functions of r0 in the
    /// same order.
    pub const BEFORE_R0_STRUCT_SIZE: usize = 64;

    /// The offset of the first function in a table before r0: [`Error_Create`](crate::XLA_FFI_Error_Create_Args),
    /// which has the same arguments as in r0.
    pub const BEFORE_R0_TABLE_HEAD: usize = 24;

    /// Returns the first jaxlib release with this revision.
    #[must_use]
    pub const fn first_jaxlib(self) -> &'static str {
        ROWS[self as usize].2
    }

    /// Returns the last jaxlib release with this revision, or `None` if the revision is the newest.
    #[must_use]
    pub const fn last_jaxlib(self) -> Option<&'static str> {
        ROWS[self as usize].3
    }

    /// Returns the revision of jaxlib `version`, for example `"0.9.0.1"`. Returns `None` for an invalid version and
    /// for releases before r0. Unknown newer releases have the newest revision.
    #[must_use]
    pub fn of_jaxlib(version: &str) -> Option<Self> {
        let is_number = |part: &str| part.parse::<u32>().is_ok();
        if !version.contains('.') || !version.split('.').all(is_number) {
            return None;
        }
        if let Some((_, revision)) = YANKED_JAXLIBS.iter().find(|(known, _)| *known == version) {
            return Some(*revision);
        }
        Self::ALL
            .into_iter()
            .rev()
            .find(|revision| numbers(revision.first_jaxlib()).le(numbers(version)))
    }

    /// Returns the lower-case name of the revision, `"r0"` to `"r10"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ROWS[self as usize].4
    }

    /// Returns the revision with the name `name`, or `None` if there is no such revision.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.name() == name)
    }
}

impl core::fmt::Display for Revision {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

fn numbers(version: &str) -> impl Iterator<Item = u32> {
    version.split('.').flat_map(str::parse)
}
