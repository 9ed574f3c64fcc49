//! The catalogue of all problems that the doctor reports, with their numbers, meanings and remedies.

use serde::{Serialize, Serializer};

/// An entry of the catalogue: one kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The problem that the entry describes.
    pub problem: Problem,
    /// The number of the problem, for example `XF105`. Its meaning never changes, and numbers are not reused.
    pub id: &'static str,
    /// The meaning of the number, in one sentence.
    pub meaning: &'static str,
    /// An action that fixes the problem.
    pub remedy: &'static str,
}

/// Declares [`Problem`] and [`CATALOGUE`] from one list with the name, number, meaning and remedy of each problem.
macro_rules! problems {
    ($($(#[$doc:meta])* $problem:ident $id:literal $meaning:literal $remedy:literal)*) => {
        /// The kind of problem that a finding reports. Programs should compare this value instead of a finding's text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Problem { $($(#[$doc])* $problem,)* }

        /// All problems, in the order of their numbers. `docs/findings.md` contains the same meanings and remedies.
        pub const CATALOGUE: &[Entry] = &[
            $(Entry { problem: Problem::$problem, id: $id, meaning: $meaning, remedy: $remedy },)*
        ];
    };
}

problems! {
    /// The library was not run, so the answers of its handlers are unknown.
    NotRun "XF001"
    "The library was not run, so loading and answers were not judged."
    "Run without `--no-run`, on a machine where the library loads."
    /// The library does not declare its handlers.
    UnknownHandlers "XF002"
    "The library does not declare which functions are handlers."
    "Pass their symbols with `--handler`."
    /// It is unknown whether a handler works on a jaxlib.
    NotKnown "XF003"
    "It is unknown whether the handler works on a jaxlib."
    "Follow the reason in the finding, for example register a user type with `--type`."
    /// The manifest cannot be read.
    Manifest "XF101"
    "The manifest cannot be read."
    "Rebuild the library with the current SDK."
    /// The manifest or the command line names a symbol that is not exported.
    NotExported "XF102"
    "A symbol named by the manifest or the command line is not exported."
    "Correct the spelling, add the symbol to the linker's version script, and do not strip it."
    /// The library was compiled with a known or an unknown ABI header.
    Header "XF103"
    "The library was compiled with this ABI header, or with an unknown one."
    "Check the header with `xla-ffi abi check --header`."
    /// A required library is missing.
    MissingLibrary "XF104"
    "A required library is not found."
    "Install the library, link it statically, or bundle it next to yours. Leave the runtimes of GPUs to JAX's packages."
    /// A symbol that the library imports is undefined.
    Undefined "XF105"
    "A symbol is undefined, and no known library provides it."
    "Link the library that defines the symbol, or remove its use."
    /// The library is linked to libraries of Python, XLA or jaxlib.
    LinkedTo "XF106"
    "The library is linked to libraries of Python, XLA or jaxlib."
    "Build handlers as a separate library without these dependencies."
    /// The library may require a newer glibc than jaxlib does.
    Glibc "XF107"
    "The library may require a newer glibc than jaxlib's wheels."
    "Build for an older system with cargo-zigbuild, zig or a manylinux image (docs/shipping.md)."
    /// The library may require a newer libstdc++ than users' systems have.
    Libstdcxx "XF108"
    "The library may require a newer libstdc++ than the process has."
    "Link with `-static-libstdc++ -static-libgcc`."
    /// The library's search path for required libraries may fail on other machines.
    SearchPath "XF109"
    "The library searches for dependencies in folders that other machines may not have."
    "Use `$ORIGIN`, or `@loader_path` on macOS."
    /// The library requires an executable stack, text relocations or static TLS, which the loader may refuse.
    LoaderFlags "XF111"
    "The library requires an executable stack, text relocations or static TLS."
    "Compile with `-fPIC` and link with `-Wl,-z,noexecstack`."
    /// The library does not load.
    DoesNotLoad "XF112"
    "The library does not load on this machine."
    "Read the loader's message; install or bundle the library that it names."
    /// A handler crashes or hangs in its metadata call.
    Breaks "XF113"
    "A handler crashes or hangs in the metadata call."
    "Answer the metadata extension before reading anything else from the call frame."
    /// The library contains its own thread pool.
    Threads "XF114"
    "The library has its own thread pool: OpenMP, OpenBLAS, MKL, TBB or rayon."
    "Use the host's thread pool, or limit the library's own pool."
    /// The library exports symbols that are not its handlers' and may clash with other libraries.
    Exported "XF115"
    "The library exports symbols other than handlers, or symbols that are unique per process."
    "Compile with `-fvisibility=hidden` and link with `-Wl,--exclude-libs,ALL`."
    /// The library is built for another machine.
    OtherMachine "XF116"
    "The library is built for another system or processor than this machine, so it was not run."
    "Run the doctor on that machine, or read only the file with `--no-run`."
    /// The library requires a newer macOS than jaxlib does.
    DeploymentTarget "XF117"
    "The library may require a newer macOS than jaxlib's wheels."
    "Build with an older `MACOSX_DEPLOYMENT_TARGET`."
    /// The library's code signature for macOS is missing or broken.
    CodeSignature "XF118"
    "The code signature is missing or invalid, so macOS does not load the library."
    "Sign the library as the last build step: `codesign --force --sign - FILE`."
    /// The manifest's description of a handler is invalid.
    Description "XF119"
    "The manifest's description of a handler is invalid: an unknown element type, a wrong shape contract, a related handler that is missing or does not fit, or a trait that the handler does not declare."
    "Correct the handler's description (`XFFI_DESCRIBE` in C)."
    /// The library requires newer processors than jaxlib does.
    Processor "XF120"
    "The library requires an x86-64 processor of a higher level, so older processors do not load it."
    "Compile with `-march=x86-64` and link without `-z x86-64-v2` or higher, or choose instructions at run time."
    /// The library uses symbols that are private to one build of glibc.
    PrivateSymbol "XF121"
    "The library uses a symbol that is private to one build of glibc, so any update of the system may break it."
    "Use a public function of glibc instead."
    /// The API version that a handler answers with, on all or on some jaxlibs.
    Answer "XF201"
    "The handler answers metadata calls with this API version."
    "Rebuild with this SDK, which answers with the runtime's API version, or against the headers of the oldest supported jaxlib."
    /// A jaxlib refuses a handler.
    Refused "XF202"
    "A jaxlib refuses the handler or lacks something that it needs."
    "Raise the oldest supported jaxlib, or rebuild against its headers or with this SDK."
    /// A handler may use functions that revision r0 does not have.
    OldestRuntime "XF203"
    "The handler may use functions that jaxlib 0.4.31 does not have."
    "Require jaxlib 0.4.33 or later, or rebuild with this SDK."
    /// A handler's state arguments may have a layout that the runtime does not read.
    StateLayout "XF204"
    "State arguments have a different layout than the runtime expects."
    "Rebuild with this SDK, which uses the runtime's layout."
    /// The type of a handler's state must be registered before the handler.
    StateType "XF205"
    "The type of the handler's state must be registered before the handler."
    "Register the type with `jax.ffi.register_ffi_type`, and pass it to the doctor with `--type`."
    /// A handler may call a wrong function, because the runtime's table has the future functions at other positions.
    FutureSlots "XF206"
    "The runtime's table has the future functions at different positions."
    "Rebuild with this SDK, which finds them by the table's length."
    /// The handler's metadata is longer than the runtime's memory for it.
    MetadataOverrun "XF207"
    "The handler's metadata overwrites eight bytes of the runtime's stack."
    "Rebuild with this SDK, or require jaxlib 0.8.0 or later."
    /// The handler needs user data, which some jaxlibs do not support.
    UserData "XF208"
    "The handler needs user data, and calls in JAX end the process on jaxlibs without support for it."
    "Require jaxlib 0.5.1 or later, or remove the user data."
    /// A wheel's tags allow systems on which its libraries do not load.
    WheelPromise "XF401"
    "The wheel's tags allow systems, machines or Pythons on which its libraries do not load."
    "Retag the wheel with `auditwheel repair`, or build for an older system (docs/shipping.md)."
    /// A wheel's tags exclude systems on which its libraries load.
    WheelNarrow "XF402"
    "The wheel's tags exclude systems or Pythons on which its libraries load, or package indexes refuse them."
    "Tag the wheel `py3-none`, and set its platform with `auditwheel repair`."
    /// A wheel has no library.
    NoLibrary "XF403"
    "The wheel has no shared library."
    "Configure the build backend to include the library in the package."
    /// A library of a wheel is for another machine, or is not a loadable library.
    Foreign "XF404"
    "A library in the wheel is for another machine or system, or is not a library."
    "Build one wheel per machine, each with its own tag."
    /// A wheel's metadata is inconsistent.
    WheelMetadata "XF405"
    "The tags in the wheel's metadata differ from its name, or the metadata declares a wheel without libraries."
    "Rebuild the wheel with a build backend, or change tags with `wheel tags`."
    /// A wheel's metadata allows a jax on which its handlers do not load.
    WheelRequirement "XF406"
    "The wheel's metadata allows a jax on which its handlers do not load."
    "Write the bound from the finding into `dependencies`, or build against the headers of the oldest jaxlib."
}

impl Problem {
    /// Returns the problem's entry in the catalogue.
    #[must_use]
    pub fn entry(self) -> &'static Entry {
        &CATALOGUE[self as usize]
    }

    /// Returns the problem's number, for example `XF105`.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.entry().id
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_a_number_of_its_own() {
        for (at, entry) in CATALOGUE.iter().enumerate() {
            assert!(
                CATALOGUE[..at].iter().all(|other| other.id < entry.id),
                "{}",
                entry.id
            );
        }
        // `docs/findings.md` must contain the same meanings and remedies as the catalogue.
        let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        let book = std::fs::read_to_string(book).unwrap();
        // The crate `xla-ffi-abi` checks the rows of findings about headers and mirrors, whose numbers start with
        // `XF3`.
        let is_ours = |line: &&str| line.starts_with("| XF") && !line.starts_with("| XF3");
        let mut lines = book.lines().filter(is_ours);
        for entry in CATALOGUE {
            let line = format!("| {} | {} | {} |", entry.id, entry.meaning, entry.remedy);
            assert_eq!(lines.next(), Some(line.as_str()));
        }
        assert_eq!(lines.next(), None);
    }
}
