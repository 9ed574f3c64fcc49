//! Findings about a wheel as a wheel: what its tags promise beside what its libraries need.

use super::member::{Read, missing};
use super::tag::Platform;
use super::{Inside, Wheel};
use crate::finding::{Confidence, Finding, Problem, Severity, Subject};
use crate::release::{self, dotted};
use std::collections::BTreeSet;

/// The systems that auditwheel knows: their glibc, and the newest `GLIBCXX_3.4.N` of their libstdc++.
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

pub(super) fn findings(wheel: &Wheel, inside: &[Inside]) -> Vec<Finding> {
    let libraries: Vec<Read<'_>> = inside.iter().map(Read::of).collect();
    let mut found = Vec::new();
    if libraries.is_empty() {
        found.push(
            Finding::failure(Problem::NoLibrary,
                "it has no shared library",
                "no member is named *.so, *.so.N, *.dylib, *.dll or *.pyd",
            )
            .fix("have the build put the library into the package: `xla-ffi new` makes a project that does"),
        );
    }
    tags(wheel, inside, &mut found);
    for library in &libraries {
        foreign(wheel, library, &mut found);
    }
    systems(wheel, &libraries, &mut found);
    macos(wheel, &libraries, &mut found);
    pythons(wheel, &libraries, &mut found);
    missing(wheel, &libraries, &mut found);
    let found = found.into_iter();
    found.map(|one| one.about(Subject::Wheel)).collect()
}

/// What its metadata says beside its name and its contents.
fn tags(wheel: &Wheel, inside: &[Inside], found: &mut Vec<Finding>) {
    let mut named = BTreeSet::new();
    for python in &wheel.name.pythons {
        for abi in &wheel.name.abis {
            for platform in &wheel.name.platforms {
                named.insert(format!("{python}-{abi}-{platform}"));
            }
        }
    }
    // manylinux2014 and manylinux_2_17 are two names of one thing.
    let is_known = |tag: &&String| {
        let parts: Vec<&str> = tag.splitn(3, '-').collect();
        matches!(parts.as_slice(), [python, abi, platform]
            if named.contains(&format!("{python}-{abi}-{}", Platform::of(platform))))
    };
    if let Some(strange) = wheel.tags.iter().find(|tag| !is_known(tag)) {
        found.push(
            Finding::new(
                Confidence::Proved,
                Severity::Risk,
                Problem::WheelMetadata,
                format!("its name does not have the tag {strange}, its metadata does"),
                "Tag in WHEEL",
            )
            .fix("do not rename wheels: `wheel tags` or `auditwheel repair` change both"),
        );
    }
    if wheel.is_pure && !inside.is_empty() {
        found.push(
            Finding::new(
                Confidence::Proved,
                Severity::Risk,
                Problem::WheelMetadata,
                "it says that it has no libraries, and has some",
                "Root-Is-Purelib in WHEEL: some systems keep what is pure for several machines",
            )
            .fix("tell the build backend that the wheel is not pure"),
        );
    }
}

/// A library for another machine than the tag names, or than this one.
fn foreign(wheel: &Wheel, library: &Read<'_>, found: &mut Vec<Finding>) {
    let name = library.name();
    let targets = &library.targets;
    let Some((system, _)) = targets.first() else {
        let why = library.inside.foreign.clone();
        found.push(
            Finding::failure(
                Problem::Foreign,
                format!("{name} is no library that any loader takes"),
                why.unwrap_or_else(|| "its format is not known".to_owned()),
            )
            .fix("look at how it got into the wheel"),
        );
        return;
    };
    let machines: Vec<&str> = targets.iter().map(|(_, machine)| *machine).collect();
    let on = machines.join(" and ");
    let fits = |platform: &Platform| {
        let named = platform.arch();
        let wanted: &[&str] = match &named {
            Some("arm64") => &["aarch64"],
            Some("amd64") => &["x86_64"],
            Some("32") => &["i686"],
            Some("universal2") => &["aarch64", "x86_64"],
            Some(arch) => std::slice::from_ref(arch),
            None => return platform == &Platform::Any,
        };
        platform.system() == Some(*system) && wanted.iter().all(|arch| machines.contains(arch))
    };
    if let Some(tag) = wheel.name.platforms.iter().find(|platform| !fits(platform)) {
        found.push(
            Finding::failure(
                Problem::WheelPromise,
                format!("it may be installed on {tag}, where {name} does not load"),
                format!("the library is for {system} on {on}"),
            )
            .fix("build the library on each machine, or for it, and give each wheel its own tag"),
        );
    } else if wheel.name.platforms.contains(&Platform::Any) {
        found.push(
            Finding::failure(Problem::WheelPromise,
                format!("it may be installed on every system, and {name} is for {system} on {on}"),
                "its platform tag is `any`",
            )
            .fix("tell the build backend that the wheel is not pure; on Linux let auditwheel name its platform"),
        );
    }
    if let Some(why) = &library.inside.foreign {
        found.push(Finding::new(
            Confidence::Unknown,
            Severity::Note,
            Problem::Foreign,
            format!("whether {name} loads, and what its handlers answer"),
            format!("{why}: it was read, nothing of it was run"),
        ));
    }
}

/// What the symbols ask for beside the systems that the tag names.
fn systems(wheel: &Wheel, libraries: &[Read<'_>], found: &mut Vec<Finding>) {
    let floors = libraries.iter().filter_map(|library| {
        let facts = library.facts.as_ref()?;
        Some((library.name(), facts.floor("GLIBC_")?))
    });
    let Some((highest, floor)) = floors.max_by(|one, other| one.1.cmp(&other.1)) else {
        return;
    };
    let of_libstdcxx = |library: &Read<'_>| {
        let facts = library.facts.as_ref()?;
        let floor = facts.floor("GLIBCXX_")?;
        Some((
            library.inside.member.clone(),
            floor.get(2).copied().unwrap_or(0),
        ))
    };
    let libstdcxx = libraries
        .iter()
        .filter_map(of_libstdcxx)
        .max_by_key(|(_, minor)| *minor);
    let asks = libstdcxx.as_ref().map_or(0, |(_, minor)| *minor);
    let least = POLICIES
        .iter()
        .find(|(glibc, newest)| floor.as_slice() <= glibc.as_slice() && asks <= *newest);
    let arch = libraries
        .iter()
        .find_map(|library| library.targets.first())
        .map_or("x86_64", |(_, arch)| *arch);
    let right = least.map(|([major, minor], _)| format!("manylinux_{major}_{minor}_{arch}"));
    let repair = match &right {
        Some(right) => format!("`auditwheel repair` names it {right}"),
        None => "build it on an older system: no tag names so new a one".to_owned(),
    };
    let older = "or build for an older system, with cargo-zigbuild or zig as the compiler (docs/shipping.md)";
    if let Some(tag @ Platform::Musllinux { .. }) = wheel
        .name
        .platforms
        .iter()
        .find(|platform| matches!(platform, Platform::Musllinux { .. }))
    {
        found.push(
            Finding::failure(
                Problem::WheelPromise,
                format!("it may be installed on {tag}, where {highest} does not load"),
                format!(
                    "its symbols ask for GLIBC_{}, and musl has none",
                    dotted(&floor)
                ),
            )
            .fix("build it against musl, or leave that tag away: jaxlib has no wheel for musl"),
        );
    }
    if let Some(promised) = wheel.name.glibc() {
        let shown = dotted(&promised);
        if floor.as_slice() > promised.as_slice() {
            found.push(
                Finding::failure(
                    Problem::WheelPromise,
                    format!(
                        "it may be installed beside glibc {shown}, where {highest} does not load"
                    ),
                    format!("its symbols ask for GLIBC_{}", dotted(&floor)),
                )
                .fix(format!("{repair}; {older}")),
            );
        } else if let Some((name, minor)) = &libstdcxx {
            let newest = POLICIES.iter().rev().find(|(glibc, _)| *glibc <= promised);
            let newest = newest.map_or(0, |(_, newest)| *newest);
            if *minor > newest {
                found.push(
                    Finding::failure(Problem::WheelPromise,
                        format!(
                            "it may be installed where the libstdc++ is older than {name} asks for (glibc {shown})"
                        ),
                        format!("its symbols ask for GLIBCXX_3.4.{minor}; systems of this tag have up to 3.4.{newest}"),
                    )
                    .fix(format!("link with -static-libstdc++ -static-libgcc, or {repair}")),
                );
            }
        }
        // On still older systems there is no jaxlib either.
        let oldest = release::glibc(release::RELEASES[0]);
        let narrow = least.is_some_and(|(glibc, _)| *glibc < promised) && promised > oldest;
        if narrow && libraries.iter().all(|library| library.facts.is_some()) {
            found.push(
                Finding::note(
                    Problem::WheelNarrow,
                    format!("it could be installed on systems older than its tag says ({shown})"),
                    format!("its symbols ask for no more than GLIBC_{}", dotted(&floor)),
                )
                .fix(repair),
            );
        }
    } else if let Some(tag @ Platform::Linux { .. }) = wheel.name.platforms.first() {
        found.push(
            Finding::new(Confidence::Proved, Severity::Risk,
                Problem::WheelNarrow,
                format!("its tag {tag} names no oldest system: an index refuses it, and pip installs it on any"),
                format!("{highest} asks for GLIBC_{}", dotted(&floor)),
            )
            .fix(repair),
        );
    }
}

/// What libraries ask of macOS beside what the tag of their wheel promises.
fn macos(wheel: &Wheel, libraries: &[Read<'_>], found: &mut Vec<Finding>) {
    let tags = wheel.name.platforms.iter().filter_map(|tag| match tag {
        Platform::Macos { oldest, .. } => Some((*oldest, tag)),
        _ => None,
    });
    let Some((promised, tag)) = tags.min_by_key(|(oldest, _)| *oldest) else {
        return;
    };
    let asks = libraries.iter().filter_map(|library| {
        let asked = library.facts.as_ref()?.apple.as_ref()?.oldest.as_ref()?;
        Some((library.name(), asked))
    });
    let Some((name, asked)) = asks.max_by_key(|(_, asked)| *asked) else {
        return;
    };
    if asked.as_slice() > promised.as_slice() {
        found.push(
            Finding::risk(Problem::WheelPromise,
                format!("it may be installed on {tag}, and {name} is built for macOS {}", dotted(asked)),
                "its deployment target; an older macOS may lack what it calls, and refuses it then",
            )
            .fix(format!(
                "build with MACOSX_DEPLOYMENT_TARGET={}, or name the newer macOS in the tag: `delocate-wheel` does",
                dotted(&promised)
            )),
        );
    }
}

/// Which Pythons may have it.
fn pythons(wheel: &Wheel, libraries: &[Read<'_>], found: &mut Vec<Finding>) {
    let uses_python = |library: &&Read<'_>| {
        let facts = library.facts.as_ref();
        facts.is_some_and(|facts| {
            facts
                .imports
                .iter()
                .any(|needed| needed.name.starts_with("Py") || needed.name.starts_with("_Py"))
        })
    };
    // mine.cpython-312-x86_64-linux-gnu.so
    let for_one = |library: &&Read<'_>| {
        let file = library.name().rsplit('/').next().unwrap_or_default();
        file.contains(".cpython-") || file.ends_with(".pyd") && file.contains(".cp3")
    };
    let python = wheel.name.python();
    if wheel.name.is_for_every_python() {
        if let Some(library) = libraries.iter().find(for_one) {
            found.push(
                Finding::failure(Problem::WheelPromise,
                    format!("any Python may have it, and {} is for one alone", library.name()),
                    format!("its tag {python}, and the library's name"),
                )
                .fix("tag it for that Python, or keep handlers in a library that does not use Python's C API"),
            );
        }
    } else if !libraries.is_empty()
        && libraries.iter().all(|library| library.facts.is_some())
        && !libraries
            .iter()
            .any(|library| uses_python(&library) || for_one(&library))
    {
        found.push(
            Finding::new(Confidence::Proved, Severity::Risk,
                Problem::WheelNarrow,
                format!("its tag {python} keeps it from other Pythons, though it knows nothing of the interpreter"),
                "none of its libraries uses Python's C API",
            )
            .fix("tag it py3-none: wheel.py-api = \"py3\" for scikit-build-core, build_data[\"tag\"] for hatchling"),
        );
    }
}
