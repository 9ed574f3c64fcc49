//! Every problem that can be found, under the number by which lists and other programs know it.

use crate::finding::Problem;

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was found.
    pub problem: Problem,
    /// `XF105`. It never changes its meaning, and none is used again.
    pub id: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// What to do about it.
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
pub const CATALOGUE: [Entry; 34] = [
    entry(
        Problem::NotRun,
        "XF001",
        "Nothing was run, so that neither loading nor answers were judged.",
        "Leave `--no-run` away, or run the check on a machine where the library loads.",
    ),
    entry(
        Problem::UnknownHandlers,
        "XF002",
        "The library does not say which of its functions are handlers.",
        "Name them with `--handler`.",
    ),
    entry(
        Problem::NotKnown,
        "XF003",
        "It was not found out whether the handler works on a jaxlib.",
        "The reason names what would tell, `--type` for instance.",
    ),
    entry(
        Problem::Manifest,
        "XF101",
        "The manifest cannot be read.",
        "Build the library again.",
    ),
    entry(
        Problem::NotExported,
        "XF102",
        "A symbol that the manifest or the command line names is not exported.",
        "Check the spelling, the linker's version script and `strip`.",
    ),
    entry(
        Problem::Header,
        "XF103",
        "The header that the library was compiled with: told, unknown, or one that no jaxlib shipped.",
        "Check the header with `xla-ffi abi check --header`.",
    ),
    entry(
        Problem::MissingLibrary,
        "XF104",
        "A library that it needs is not found.",
        "Install it, link it statically, or ship it beside the library.",
    ),
    entry(
        Problem::Undefined,
        "XF105",
        "A symbol is undefined, and nobody provides it.",
        "Link what has it, or do without it.",
    ),
    entry(
        Problem::LinkedTo,
        "XF106",
        "It is linked to Python's, XLA's or jaxlib's own library.",
        "Keep handlers in a library that needs none of them.",
    ),
    entry(
        Problem::Glibc,
        "XF107",
        "The glibc that it asks for, beside that of jaxlib's wheels.",
        "Build it for an older system: the finding says with what (docs/shipping.md).",
    ),
    entry(
        Problem::Libstdcxx,
        "XF108",
        "The libstdc++ that it asks for.",
        "Link with `-static-libstdc++ -static-libgcc`.",
    ),
    entry(
        Problem::SearchPath,
        "XF109",
        "It looks for libraries where other machines have none.",
        "Use `$ORIGIN`, on macOS `@loader_path`.",
    ),
    entry(
        Problem::LoaderFlags,
        "XF111",
        "It asks the loader for an executable stack, text relocations or static TLS.",
        "Compile with `-fPIC`, link with `-Wl,-z,noexecstack`.",
    ),
    entry(
        Problem::DoesNotLoad,
        "XF112",
        "It does not load on this machine.",
        "The reason is the loader's own.",
    ),
    entry(
        Problem::Breaks,
        "XF113",
        "A handler breaks when it is asked for its metadata.",
        "Answer the metadata extension before anything else is read.",
    ),
    entry(
        Problem::Threads,
        "XF114",
        "It brings a pool of threads of its own: OpenMP, OpenBLAS, MKL, TBB, rayon.",
        "Split the work over the host's pool, or limit the other one.",
    ),
    entry(
        Problem::Exported,
        "XF115",
        "What it exports beside its handlers, and names that are one for the whole process.",
        "Compile with `-fvisibility=hidden`, link with `-Wl,--exclude-libs,ALL`.",
    ),
    entry(
        Problem::OtherMachine,
        "XF116",
        "It is built for another system or processor than this machine's, so that nothing of it was run.",
        "Judge it where it runs, or its file alone with `--no-run`.",
    ),
    entry(
        Problem::DeploymentTarget,
        "XF117",
        "The macOS that it asks for, beside that of jaxlib's wheels.",
        "Build it with an older `MACOSX_DEPLOYMENT_TARGET`.",
    ),
    entry(
        Problem::CodeSignature,
        "XF118",
        "Its code is not signed, or was changed after it was signed, so that macOS does not load it.",
        "Sign it last of all: `codesign --force --sign - FILE`.",
    ),
    entry(
        Problem::Description,
        "XF119",
        "The manifest says of a handler what cannot be: an element type that is none, a shape contract that cannot be read or is for other operands, another handler that is not there or does not fit; a trait that its answer does not have.",
        "Mend what `XFFI_DESCRIBE` says.",
    ),
    entry(
        Problem::Answer,
        "XF201",
        "How the handler answers the question for its version.",
        "Build it with this SDK: it answers what the runtime speaks.",
    ),
    entry(
        Problem::Refused,
        "XF202",
        "A jaxlib does not take the handler, or the handler lacks there what it needs.",
        "Build it with this SDK, or raise the oldest jaxlib that you support.",
    ),
    entry(
        Problem::OldestRuntime,
        "XF203",
        "The handler may use what jaxlib 0.4.31 does not have.",
        "Build it with this SDK, or do not support 0.4.31.",
    ),
    entry(
        Problem::StateLayout,
        "XF204",
        "State arguments are laid out for another version than the runtime's.",
        "Build it with this SDK, which lays them out as the runtime wants.",
    ),
    entry(
        Problem::StateType,
        "XF205",
        "The type of the handler's state has to be registered before the handler.",
        "Register it with `jax.ffi.register_ffi_type`, and give the doctor `--type`.",
    ),
    entry(
        Problem::FutureSlots,
        "XF206",
        "The functions for futures stand elsewhere in the runtime's table.",
        "Build it with this SDK, which finds them by the table's length.",
    ),
    entry(
        Problem::MetadataOverrun,
        "XF207",
        "The answer overwrites eight bytes of the runtime's stack.",
        "Do not build with the headers of jaxlib 0.8.0, or do not support 0.4.32 to 0.7.2.",
    ),
    entry(
        Problem::UserData,
        "XF208",
        "The handler takes user data, and a call in JAX ends the process on the jaxlibs that have no place for any.",
        "Require jaxlib 0.5.1 or later, or do without user data.",
    ),
    entry(
        Problem::WheelPromise,
        "XF401",
        "The wheel may be installed where a library of it does not load: an older system, another machine or Python.",
        "Let `auditwheel repair` name the wheel, or build for an older system (docs/shipping.md).",
    ),
    entry(
        Problem::WheelNarrow,
        "XF402",
        "The wheel is installed in fewer places than its libraries load in, or no index takes it.",
        "Tag it `py3-none`, and let `auditwheel repair` name its platform.",
    ),
    entry(
        Problem::NoLibrary,
        "XF403",
        "The wheel has no shared library.",
        "Have the build put it into the package.",
    ),
    entry(
        Problem::Foreign,
        "XF404",
        "A library in the wheel is for another machine or system, or is none.",
        "Build a wheel for each machine, each with its own tag.",
    ),
    entry(
        Problem::WheelMetadata,
        "XF405",
        "The tags in the wheel's metadata differ from its name, or the metadata says that it has no libraries.",
        "Build it again with a build backend; `wheel tags` changes tags.",
    ),
];

impl Problem {
    /// Its entry.
    #[must_use]
    pub fn entry(self) -> &'static Entry {
        CATALOGUE
            .iter()
            .find(|entry| entry.problem == self)
            .unwrap_or(&CATALOGUE[2])
    }

    /// `XF105`.
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
        assert_eq!(Problem::WheelMetadata as usize + 1, CATALOGUE.len());
    }
}
