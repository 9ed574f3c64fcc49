//! Findings about a wheel, from a comparison of its tags with the requirements of its libraries.

use super::member::missing;
use super::tag::{Name, Platform};
use super::{Inside, Wheel};
use crate::finding::{Finding, Problem, Subject};
use crate::release::{self, dotted};
use std::collections::BTreeSet;

/// The policies of auditwheel. Each has a version of glibc and the N of the newest `GLIBCXX_3.4.N` on systems with this
/// glibc.
const POLICIES: [([u32; 2], u32); 14] = [
    ([2, 5], 8),
    ([2, 12], 13),
    ([2, 17], 19),
    ([2, 24], 22),
    ([2, 26], 22),
    ([2, 27], 24),
    ([2, 28], 24),
    ([2, 31], 28),
    ([2, 34], 29),
    ([2, 35], 30),
    ([2, 36], 30),
    ([2, 39], 33),
    ([2, 40], 33),
    ([2, 41], 33),
];

pub(super) fn findings(wheel: &Wheel, libraries: &[Inside]) -> Vec<Finding> {
    let mut found = Vec::new();
    if libraries.is_empty() {
        found.push(
            Finding::failure(Problem::NoLibrary,
                "has no shared library",
                "no member is named *.so, *.so.N, *.dylib, *.dll or *.pyd",
            )
            .fix("configure the build backend to include the library, as projects of `xla-ffi new` do"),
        );
    }
    tags(wheel, libraries, &mut found);
    for library in libraries {
        foreign(wheel, library, &mut found);
        builds(wheel, library, &mut found);
    }
    systems(wheel, libraries, &mut found);
    macos(wheel, libraries, &mut found);
    pythons(wheel, libraries, &mut found);
    missing(wheel, libraries, &mut found);
    let found = found.into_iter();
    found.map(|one| one.about(Subject::Wheel)).collect()
}

/// Adds findings if the metadata differs from the wheel's name or contents.
fn tags(wheel: &Wheel, inside: &[Inside], found: &mut Vec<Finding>) {
    let mut named = BTreeSet::new();
    for python in &wheel.name.pythons {
        for abi in &wheel.name.abis {
            for platform in &wheel.name.platforms {
                named.insert(format!("{python}-{abi}-{platform}"));
            }
        }
    }
    // `Platform::of` spells the tags manylinux2014 and manylinux_2_17 in the same way.
    let is_known = |tag: &&String| {
        let parts: Vec<&str> = tag.splitn(3, '-').collect();
        matches!(parts.as_slice(), [python, abi, platform]
            if named.contains(&format!("{python}-{abi}-{}", Platform::of(platform))))
    };
    if let Some(strange) = wheel.tags.iter().find(|tag| !is_known(tag)) {
        found.push(
            Finding::proved_risk(
                Problem::WheelMetadata,
                format!("has the tag {strange} in its metadata, but not in its name"),
                "Tag in WHEEL",
            )
            .fix(
                "change tags with `wheel tags` or `auditwheel repair`, and do not rename the file",
            ),
        );
    }
    if wheel.is_pure && !inside.is_empty() {
        found.push(
            Finding::proved_risk(
                Problem::WheelMetadata,
                "is marked as pure Python, but has libraries",
                "Root-Is-Purelib in WHEEL is true; some systems share pure wheels between machines",
            )
            .fix("configure the build backend to build a platform wheel"),
        );
    }
}

/// Adds findings if a library is for a machine other than that of the wheel's tag or this machine.
fn foreign(wheel: &Wheel, library: &Inside, found: &mut Vec<Finding>) {
    let name = library.member.as_str();
    let targets = &library.targets;
    let Some((system, _)) = targets.first() else {
        let why = library.foreign.clone();
        found.push(
            Finding::failure(
                Problem::Foreign,
                format!("{name} is not a loadable library"),
                why.unwrap_or_else(|| "its format is unknown".to_owned()),
            )
            .fix("remove the file from the package, or build it as a shared library"),
        );
        return;
    };
    let machines: Vec<&str> = targets.iter().map(|(_, machine)| *machine).collect();
    let on = machines.join(" and ");
    let fits = |platform: &Platform| {
        let wanted: &[&str] = match platform.arch.as_str() {
            "arm64" => &["aarch64"],
            "amd64" => &["x86_64"],
            "32" => &["i686"],
            "universal2" => &["aarch64", "x86_64"],
            arch => &[arch],
        };
        platform.kind == "any"
            || platform.system() == Some(*system)
                && wanted.iter().all(|arch| machines.contains(arch))
    };
    if let Some(tag) = wheel.name.platforms.iter().find(|platform| !fits(platform)) {
        found.push(
            Finding::failure(
                Problem::WheelPromise,
                format!("can be installed on {tag}, where {name} does not load"),
                format!("the library is for {system} on {on}"),
            )
            .fix("build one wheel per machine, each with its own tag"),
        );
    } else if wheel.name.platform("any").is_some() {
        found.push(
            Finding::failure(Problem::WheelPromise,
                format!("can be installed on every system, but {name} is for {system} on {on}"),
                "its platform tag is `any`",
            )
            .fix("configure the build backend to build a platform wheel; on Linux, run `auditwheel repair`"),
        );
    }
    if let Some(why) = &library.foreign {
        found.push(Finding::unknown(
            Problem::Foreign,
            format!("loading {name} and its handlers' answers were not examined"),
            format!("{why}, so only the file was read"),
        ));
    }
}

/// Adds findings if a library does not support all processors or all builds of glibc that the tag allows.
fn builds(wheel: &Wheel, library: &Inside, found: &mut Vec<Finding>) {
    let Some(facts) = &library.facts else { return };
    let (name, promise) = (library.member.as_str(), Problem::WheelPromise);
    let mut platforms = wheel.name.platforms.iter();
    let is_for_all = platforms.any(|platform| ["x86_64", ""].contains(&platform.arch.as_str()));
    if let Some(level) = facts.processor_level().filter(|_| is_for_all) {
        let what = format!("can be installed on any x86-64 processor, but {name} requires {level}");
        let finding = Finding::failure(promise, what, "the mark in .note.gnu.property");
        found.push(
            finding.fix("compile with -march=x86-64 and link without -z x86-64-v2 or higher"),
        );
    }
    if let Some(symbols) = facts
        .private_symbols()
        .filter(|_| wheel.name.glibc().is_some())
    {
        let what = format!("can be installed with every build of glibc, but {name} uses {symbols}");
        let finding = Finding::failure(
            promise,
            what,
            "GLIBC_PRIVATE: the symbols are private to one build",
        );
        found.push(finding.fix("use a public function of glibc"));
    }
}

/// Returns the library that requires the highest version with a prefix, the version as numbers, and the version's name.
fn highest<'a>(libraries: &'a [Inside], prefix: &str) -> Option<(&'a str, Vec<u32>, &'a str)> {
    let all = libraries.iter().filter_map(|library| {
        let (floor, name) = library.facts.as_ref()?.highest(prefix)?;
        Some((library.member.as_str(), floor, name))
    });
    all.max_by(|one, other| one.1.cmp(&other.1))
}

/// Adds findings if the glibc or libstdc++ that the libraries require does not fit the systems of the wheel's tag.
fn systems(wheel: &Wheel, libraries: &[Inside], found: &mut Vec<Finding>) {
    let Some((library, floor, version)) = highest(libraries, "GLIBC_") else {
        return;
    };
    let libstdcxx = highest(libraries, "GLIBCXX_");
    let minor = libstdcxx
        .as_ref()
        .map_or(0, |(_, floor, _)| floor.get(2).copied().unwrap_or(0));
    let least = POLICIES
        .iter()
        .find(|(glibc, newest)| floor.as_slice() <= glibc.as_slice() && minor <= *newest);
    let arch = libraries.iter().find_map(|library| library.targets.first());
    let arch = arch.map_or("x86_64", |(_, arch)| *arch);
    let repair = match least {
        Some(([major, minor], _)) => {
            format!("retag it as manylinux_{major}_{minor}_{arch} with `auditwheel repair`")
        }
        None => "build on an older system, because no tag exists for this one".to_owned(),
    };
    let requires = format!("it requires {version}");
    if let Some(tag) = wheel.name.platform("musllinux") {
        let what = format!("can be installed on {tag}, where {library} does not load");
        let why = format!("{requires}, which musl does not have");
        let finding = Finding::failure(Problem::WheelPromise, what, why);
        found.push(finding.fix("remove the tag, because jaxlib has no wheel for musl"));
    }
    if let Some(promised) = wheel.name.glibc() {
        let shown = dotted(&promised);
        let newest = POLICIES.iter().rfind(|(glibc, _)| *glibc <= promised);
        let newest = newest.map_or(0, |(_, newest)| *newest);
        if floor.as_slice() > promised.as_slice() {
            let what =
                format!("can be installed with glibc {shown}, where {library} does not load");
            let finding = Finding::failure(Problem::WheelPromise, what, requires.as_str());
            found.push(finding.fix(format!("{repair}; or {}", release::avoid(version))));
        } else if let Some((name, _, version)) = libstdcxx.filter(|_| minor > newest) {
            let what = format!(
                "can be installed on systems (glibc {shown}) whose libstdc++ is too old for {name}"
            );
            let why = format!(
                "it requires {version}; systems of this tag have up to GLIBCXX_3.4.{newest}"
            );
            let finding = Finding::failure(Problem::WheelPromise, what, why);
            found.push(finding.fix(format!(
                "link with -static-libstdc++ -static-libgcc, or {repair}"
            )));
        }
        // A tag for older systems than those of the oldest jaxlib would be useless.
        let oldest = release::glibc(release::RELEASES[0]);
        let narrow = least.is_some_and(|(glibc, _)| *glibc < promised) && promised > oldest;
        if narrow && libraries.iter().all(|library| library.facts.is_some()) {
            let what = format!(
                "excludes systems with glibc older than {shown}, on which its libraries load"
            );
            found.push(Finding::note(Problem::WheelNarrow, what, requires).fix(repair));
        }
    } else if let Some(tag) = wheel.name.platform("linux") {
        let what = format!(
            "has the tag {tag}, which package indexes refuse and pip installs on any Linux"
        );
        let why = format!("{library} requires {version}");
        found.push(Finding::proved_risk(Problem::WheelNarrow, what, why).fix(repair));
    }
}

/// Adds findings if the macOS version that the libraries require does not fit the wheel's tag.
fn macos(wheel: &Wheel, libraries: &[Inside], found: &mut Vec<Finding>) {
    let tag = wheel.name.platform("macosx");
    let Some((promised, tag)) = tag.and_then(|tag| Some((tag.oldest?, tag))) else {
        return;
    };
    let asks = libraries.iter().filter_map(|library| {
        let asked = library.facts.as_ref()?.apple.as_ref()?.oldest.as_ref()?;
        Some((library.member.as_str(), asked))
    });
    let Some((name, asked)) = asks.max_by_key(|(_, asked)| *asked) else {
        return;
    };
    if asked.as_slice() > promised.as_slice() {
        found.push(
            Finding::risk(Problem::WheelPromise,
                format!("can be installed on {tag}, but {name} requires macOS {}", dotted(asked)),
                "its deployment target; an older macOS may lack functions that it calls, and then refuses to load it",
            )
            .fix(format!(
                "build with MACOSX_DEPLOYMENT_TARGET={}, or retag the wheel with `delocate-wheel`",
                dotted(&promised)
            )),
        );
    }
}

/// Adds findings if the Python tag does not fit the extension modules in the wheel.
fn pythons(wheel: &Wheel, libraries: &[Inside], found: &mut Vec<Finding>) {
    let uses_python = |library: &&Inside| {
        let facts = library.facts.as_ref();
        facts.is_some_and(|facts| {
            facts
                .imports
                .iter()
                .any(|needed| needed.name.starts_with("Py") || needed.name.starts_with("_Py"))
        })
    };
    // File names of modules for one Python look like `mine.cpython-312-x86_64-linux-gnu.so`.
    let for_one = |library: &&Inside| {
        let file = library
            .member
            .as_str()
            .rsplit('/')
            .next()
            .unwrap_or_default();
        file.contains(".cpython-") || file.ends_with(".pyd") && file.contains(".cp3")
    };
    let python = wheel.name.python();
    if let Some((library, only)) = unimportable(&wheel.name, libraries) {
        found.push(
            Finding::failure(Problem::WheelPromise,
                format!("can be installed in Pythons that do not import {library}"),
                format!("its tag is {python}, and the module's name is for {only} only"),
            )
            .fix("tag the wheel for that Python, or build handlers as a library without Python's C API"),
        );
    } else if !wheel.name.is_for_every_python()
        && !libraries.is_empty()
        && libraries.iter().all(|library| library.facts.is_some())
        && !libraries
            .iter()
            .any(|library| uses_python(&library) || for_one(&library))
    {
        found.push(
            Finding::proved_risk(Problem::WheelNarrow,
                format!("has the tag {python}, but its libraries work in every Python"),
                "none of its libraries uses Python's C API",
            )
            .fix("tag it py3-none: set wheel.py-api = \"py3\" for scikit-build-core, build_data[\"tag\"] for hatchling"),
        );
    }
}

/// Returns an extension module that some Pythons of the wheel's tag cannot import, and the tag of the Python that can
/// import it.
fn unimportable<'a>(name: &Name, libraries: &'a [Inside]) -> Option<(&'a str, String)> {
    // In file names, `cpython-312` and `cp312` both mean a module for the Python with the tag cp312.
    let parts = |library: &'a Inside| {
        let member = library.member.as_str();
        let file = member.rfind('/').unwrap_or(0);
        let (stem, rest) = member.split_at(file + member[file..].find('.')?);
        let rest = rest.strip_prefix('.')?;
        let tag = match rest.strip_prefix("cpython-") {
            Some(rest) => format!("cp{}", rest.split(['-', '.']).next()?),
            None if rest.starts_with("cp3") => rest.split(['-', '.']).next()?.to_owned(),
            None if rest.starts_with("pypy") => rest.split('-').next()?.to_owned(),
            None => String::new(),
        };
        Some((member, stem, tag))
    };
    let all: Vec<_> = libraries.iter().filter_map(parts).collect();
    // If the wheel's tag names one version of Python, each module must support that version. Otherwise, each must
    // support all versions.
    let is_exact = |abi: &&String| name.pythons.iter().any(|python| abi.starts_with(python));
    let wanted: Vec<&String> = name.abis.iter().filter(is_exact).collect();
    let is_imported = |stem: &str| {
        let has = |wanted: &str| {
            all.iter()
                .any(|(_, other, tag)| *other == stem && (tag.is_empty() || tag == wanted))
        };
        match wanted.as_slice() {
            [] => has(""),
            some => some.iter().all(|wanted| has(wanted)),
        }
    };
    let strange = all
        .iter()
        .find(|(_, stem, tag)| !tag.is_empty() && !is_imported(stem));
    strange.map(|(member, _, tag)| (*member, tag.clone()))
}
