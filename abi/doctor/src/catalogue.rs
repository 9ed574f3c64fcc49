//! The numbers, meanings and remedies of all problems.

use crate::finding::Problem;

/// One problem in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The problem.
    pub problem: Problem,
    /// The number, for example `XF105`. Its meaning never changes, and numbers are not reused.
    pub id: &'static str,
    /// The meaning, in one sentence.
    pub meaning: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

const fn entry(
    problem: Problem,
    id: &'static str,
    meaning: &'static str,
    remedy: &'static str,
) -> Entry {
    Entry {
        problem,
        id,
        meaning,
        remedy,
    }
}

/// All problems, in the order of their numbers. The book lists them in the same words.
pub const CATALOGUE: [Entry; 35] = [
    entry(
        Problem::NotRun,
        "XF001",
        "The library was not run, so loading and answers were not judged.",
        "Run without `--no-run`, on a machine where the library loads.",
    ),
    entry(
        Problem::UnknownHandlers,
        "XF002",
        "The library does not declare which functions are handlers.",
        "Pass their symbols with `--handler`.",
    ),
    entry(
        Problem::NotKnown,
        "XF003",
        "It is unknown whether the handler works on a jaxlib.",
        "Follow the reason in the finding, for example register a user type with `--type`.",
    ),
    entry(
        Problem::Manifest,
        "XF101",
        "The manifest cannot be read.",
        "Rebuild the library with the current SDK.",
    ),
    entry(
        Problem::NotExported,
        "XF102",
        "A symbol named by the manifest or the command line is not exported.",
        "Correct the spelling, add the symbol to the linker's version script, and do not strip it.",
    ),
    entry(
        Problem::Header,
        "XF103",
        "The library was compiled with this ABI header, or with an unknown one.",
        "Check the header with `xla-ffi abi check --header`.",
    ),
    entry(
        Problem::MissingLibrary,
        "XF104",
        "A required library is not found.",
        "Install the library, link it statically, or bundle it next to yours. Leave the runtimes of GPUs to JAX's packages.",
    ),
    entry(
        Problem::Undefined,
        "XF105",
        "A symbol is undefined, and no known library provides it.",
        "Link the library that defines the symbol, or remove its use.",
    ),
    entry(
        Problem::LinkedTo,
        "XF106",
        "The library is linked to libraries of Python, XLA or jaxlib.",
        "Build handlers as a separate library without these dependencies.",
    ),
    entry(
        Problem::Glibc,
        "XF107",
        "The library may require a newer glibc than jaxlib's wheels.",
        "Build for an older system with cargo-zigbuild, zig or a manylinux image (docs/shipping.md).",
    ),
    entry(
        Problem::Libstdcxx,
        "XF108",
        "The library may require a newer libstdc++ than the process has.",
        "Link with `-static-libstdc++ -static-libgcc`.",
    ),
    entry(
        Problem::SearchPath,
        "XF109",
        "The library searches for dependencies in folders that other machines may not have.",
        "Use `$ORIGIN`, or `@loader_path` on macOS.",
    ),
    entry(
        Problem::LoaderFlags,
        "XF111",
        "The library requires an executable stack, text relocations or static TLS.",
        "Compile with `-fPIC` and link with `-Wl,-z,noexecstack`.",
    ),
    entry(
        Problem::DoesNotLoad,
        "XF112",
        "The library does not load on this machine.",
        "Read the loader's message; install or bundle the library that it names.",
    ),
    entry(
        Problem::Breaks,
        "XF113",
        "A handler crashes or hangs in the metadata call.",
        "Answer the metadata extension before reading anything else from the call frame.",
    ),
    entry(
        Problem::Threads,
        "XF114",
        "The library has its own thread pool: OpenMP, OpenBLAS, MKL, TBB or rayon.",
        "Use the host's thread pool, or limit the library's own pool.",
    ),
    entry(
        Problem::Exported,
        "XF115",
        "The library exports symbols other than handlers, or symbols that are unique per process.",
        "Compile with `-fvisibility=hidden` and link with `-Wl,--exclude-libs,ALL`.",
    ),
    entry(
        Problem::OtherMachine,
        "XF116",
        "The library is built for another system or processor than this machine, so it was not run.",
        "Run the doctor on that machine, or read only the file with `--no-run`.",
    ),
    entry(
        Problem::DeploymentTarget,
        "XF117",
        "The library may require a newer macOS than jaxlib's wheels.",
        "Build with an older `MACOSX_DEPLOYMENT_TARGET`.",
    ),
    entry(
        Problem::CodeSignature,
        "XF118",
        "The code signature is missing or invalid, so macOS does not load the library.",
        "Sign the library as the last build step: `codesign --force --sign - FILE`.",
    ),
    entry(
        Problem::Description,
        "XF119",
        "The manifest's description of a handler is invalid: an unknown element type, a wrong shape contract, a related handler that is missing or does not fit, or a trait that the handler does not declare.",
        "Correct the handler's description (`XFFI_DESCRIBE` in C).",
    ),
    entry(
        Problem::Answer,
        "XF201",
        "The handler answers metadata calls with this API version.",
        "Rebuild with this SDK, which answers with the runtime's API version, or against the headers of the oldest supported jaxlib.",
    ),
    entry(
        Problem::Refused,
        "XF202",
        "A jaxlib refuses the handler or lacks something that it needs.",
        "Raise the oldest supported jaxlib, or rebuild against its headers or with this SDK.",
    ),
    entry(
        Problem::OldestRuntime,
        "XF203",
        "The handler may use functions that jaxlib 0.4.31 does not have.",
        "Require jaxlib 0.4.33 or later, or rebuild with this SDK.",
    ),
    entry(
        Problem::StateLayout,
        "XF204",
        "State arguments have a different layout than the runtime expects.",
        "Rebuild with this SDK, which uses the runtime's layout.",
    ),
    entry(
        Problem::StateType,
        "XF205",
        "The type of the handler's state must be registered before the handler.",
        "Register the type with `jax.ffi.register_ffi_type`, and pass it to the doctor with `--type`.",
    ),
    entry(
        Problem::FutureSlots,
        "XF206",
        "The runtime's table has the future functions at different positions.",
        "Rebuild with this SDK, which finds them by the table's length.",
    ),
    entry(
        Problem::MetadataOverrun,
        "XF207",
        "The handler's metadata overwrites eight bytes of the runtime's stack.",
        "Rebuild with this SDK, or require jaxlib 0.8.0 or later.",
    ),
    entry(
        Problem::UserData,
        "XF208",
        "The handler needs user data, and calls in JAX end the process on jaxlibs without support for it.",
        "Require jaxlib 0.5.1 or later, or remove the user data.",
    ),
    entry(
        Problem::WheelPromise,
        "XF401",
        "The wheel's tags allow systems, machines or Pythons on which its libraries do not load.",
        "Retag the wheel with `auditwheel repair`, or build for an older system (docs/shipping.md).",
    ),
    entry(
        Problem::WheelNarrow,
        "XF402",
        "The wheel's tags exclude systems or Pythons on which its libraries load, or package indexes refuse them.",
        "Tag the wheel `py3-none`, and set its platform with `auditwheel repair`.",
    ),
    entry(
        Problem::NoLibrary,
        "XF403",
        "The wheel has no shared library.",
        "Configure the build backend to include the library in the package.",
    ),
    entry(
        Problem::Foreign,
        "XF404",
        "A library in the wheel is for another machine or system, or is not a library.",
        "Build one wheel per machine, each with its own tag.",
    ),
    entry(
        Problem::WheelMetadata,
        "XF405",
        "The tags in the wheel's metadata differ from its name, or the metadata declares a wheel without libraries.",
        "Rebuild the wheel with a build backend, or change tags with `wheel tags`.",
    ),
    entry(
        Problem::WheelRequirement,
        "XF406",
        "The wheel's metadata allows a jax on which its handlers do not load.",
        "Write the bound from the finding into `dependencies`, or build against the headers of the oldest jaxlib.",
    ),
];

impl Problem {
    /// Returns the entry in the catalogue.
    #[must_use]
    pub fn entry(self) -> &'static Entry {
        CATALOGUE
            .iter()
            .find(|entry| entry.problem == self)
            .unwrap_or(&CATALOGUE[2])
    }

    /// Returns the number, for example `XF105`.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.entry().id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_a_number_of_its_own() {
        for (at, entry) in CATALOGUE.iter().enumerate() {
            assert_eq!(entry.problem.entry(), entry);
            assert!(
                CATALOGUE[..at].iter().all(|other| other.id < entry.id),
                "{}",
                entry.id
            );
        }
        // The book has the same words.
        let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        let book = std::fs::read_to_string(book).unwrap();
        // Those of headers and mirrors are of `xla-ffi-abi`.
        let is_ours = |line: &&str| line.starts_with("| XF") && !line.starts_with("| XF3");
        let mut lines = book.lines().filter(is_ours);
        for entry in CATALOGUE {
            let line = format!("| {} | {} | {} |", entry.id, entry.meaning, entry.remedy);
            assert_eq!(lines.next(), Some(line.as_str()));
        }
        assert_eq!(lines.next(), None);
        // The last of them: a new one that has no entry makes these two differ.
        assert_eq!(Problem::WheelRequirement as usize + 1, CATALOGUE.len());
    }
}
