//! What an index and its users look at: metadata, licences, size.

use super::identity::one_name;
use super::{Read, finding, proved};
use crate::finding::{Finding, Level, Problem, Weight};
use crate::library;
use crate::wheel::metadata::Recorded;
use crate::wheel::tag::Platform;
use crate::wheel::{Inside, Wheel};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// What installers read.
pub(super) fn metadata(wheel: &Wheel, inside: &[Inside], found: &mut Vec<Finding>) {
    let broken = |what: String, why: &str| {
        proved(Weight::Fails, Problem::WheelMetadata, what, why)
            .fix("build it anew with a build backend")
    };
    let meta = &wheel.metadata;
    let Some(folder) = meta.folder() else {
        let names = match meta.folders.as_slice() {
            [] => "none".to_owned(),
            some => some.join(", "),
        };
        found.push(broken(
            format!("it has no folder of metadata of its own: {names} of *.dist-info"),
            "installers look for one",
        ));
        return;
    };
    let expected = format!("{}-{}.dist-info", wheel.name.project, wheel.name.version);
    if one_name(folder) != one_name(&expected) {
        found.push(broken(
            format!("its metadata is in {folder}, its name says {expected}"),
            "installers compare them",
        ));
    }
    for (file, there) in [
        ("WHEEL", meta.wheel.is_some()),
        ("METADATA", meta.metadata.is_some()),
        ("RECORD", meta.recorded.is_some()),
    ] {
        if !there {
            found.push(broken(
                format!("{folder}/{file} is missing"),
                "installers read it",
            ));
        }
    }
    super::identity::findings(wheel, folder, found);
    if let Some(headers) = &meta.wheel {
        let told: BTreeSet<&str> = headers.all("tag").collect();
        let mut named = BTreeSet::new();
        for python in &wheel.name.pythons {
            for abi in &wheel.name.abis {
                for platform in &wheel.name.platforms {
                    named.insert(format!("{python}-{abi}-{platform}"));
                }
            }
        }
        // manylinux2014 and manylinux_2_17 are two names of one thing.
        let known = |tag: &&&str| {
            let platform = tag.splitn(3, '-').nth(2).map(Platform::of);
            let start = tag.rsplit_once('-').map(|(start, _)| start);
            let spelt = platform
                .zip(start)
                .map(|(platform, start)| format!("{start}-{platform}"));
            spelt.is_some_and(|spelt| named.contains(&spelt))
        };
        if let Some(strange) = told.iter().find(|tag| !known(tag)) {
            found.push(
                proved(
                    Weight::Risk,
                    Problem::WheelMetadata,
                    format!("its name does not say {strange}, its metadata does"),
                    format!("Tag in {folder}/WHEEL"),
                )
                .fix("do not rename wheels: `wheel tags` or `auditwheel repair` change both"),
            );
        }
        let pure = headers
            .all("root-is-purelib")
            .any(|value| value.eq_ignore_ascii_case("true"));
        if pure && !inside.is_empty() {
            found.push(
                proved(
                    Weight::Risk,
                    Problem::WheelMetadata,
                    "it says that it has no libraries, and has some",
                    format!(
                        "Root-Is-Purelib in {folder}/WHEEL: some systems keep what is pure for several machines"
                    ),
                )
                .fix("tell the build backend that the wheel is not pure"),
            );
        }
    }
    if let Some(recorded) = &meta.recorded {
        let signs = |name: &str| {
            ["RECORD", "RECORD.jws", "RECORD.p7s"]
                .iter()
                .any(|file| name == format!("{folder}/{file}"))
        };
        let there: BTreeSet<&str> = wheel
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect();
        let missing = recorded
            .keys()
            .find(|name| !there.contains(name.as_str()) && !signs(name));
        let unlisted = there
            .iter()
            .find(|name| !recorded.contains_key(**name) && !signs(name));
        let told = missing
            .map(|name| format!("{name} is recorded and not there"))
            .or_else(|| unlisted.map(|name| format!("{name} is there and not recorded")))
            .or_else(|| another(wheel, recorded, inside));
        if let Some(what) = told {
            found.push(broken(
                what,
                "RECORD lists every file; installers refuse others, or leave them behind",
            ));
        }
    }
    if let Some(link) = wheel.members.iter().find(|member| member.is_link) {
        found.push(
            broken(
                format!("{} is a symbolic link", link.name),
                "installers write a file with the text of where it led",
            )
            .fix("pack the file itself, or load it by its full name"),
        );
    }
}

/// A file that is not the one which `RECORD` was written for. Of libraries the hash is compared, which were unpacked.
fn another(
    wheel: &Wheel,
    recorded: &BTreeMap<String, Recorded>,
    inside: &[Inside],
) -> Option<String> {
    let sizes = wheel.members.iter().find_map(|member| {
        let stated = recorded.get(&member.name)?.bytes?;
        let (name, size) = (&member.name, member.size);
        (stated != size).then(|| format!("{name} has {size} bytes, {stated} are recorded"))
    });
    sizes.or_else(|| {
        inside.iter().find_map(|library| {
            let stated = recorded.get(&library.member)?.sha256.as_ref()?;
            let bytes = library::bytes(&library.place).ok()?;
            (*stated != BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&bytes)))
                .then(|| format!("{} is another file than was recorded", library.member))
        })
    })
}

pub(super) fn licences(wheel: &Wheel, inside: &[Inside], found: &mut Vec<Finding>) {
    let Some(headers) = &wheel.metadata.metadata else {
        return;
    };
    let named = headers.has("license-expression")
        || headers.has("license")
        || headers
            .all("classifier")
            .any(|value| value.starts_with("License ::"));
    let is_text = |name: &str| {
        let file = name
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        name.contains(".dist-info/")
            && ["licen", "copying", "notice", "unlicense"]
                .iter()
                .any(|start| file.starts_with(start))
    };
    let text = wheel.members.iter().any(|member| is_text(&member.name));
    if !named {
        found.push(
            proved(
                Weight::Risk,
                Problem::Licence,
                "it names no licence: nobody may use it",
                "METADATA has no License-Expression, License or Classifier for one",
            )
            .fix("license = \"MIT\", or another expression of SPDX, in pyproject.toml"),
        );
    } else if !text {
        found.push(
            proved(
                Weight::Note,
                Problem::Licence,
                "it has no text of its licence",
                "no file named LICENSE, COPYING or NOTICE in its metadata; most licences ask for one",
            )
            .fix("license-files = [\"LICENSE*\"] in pyproject.toml"),
        );
    }
    let others: Vec<&str> = inside
        .iter()
        .filter(|library| library.is_bundled())
        .map(|library| library.member.as_str())
        .collect();
    if !others.is_empty() {
        found.push(
            finding(
                Level::Possible,
                Weight::Risk,
                Problem::Licence,
                format!("it brings libraries of others: {}", others.join(", ")),
                "their licences hold for the wheel, too; libgomp's is the GPL with an exception",
            )
            .fix("put their licences beside yours, and name them in `license`"),
        );
    }
}

/// Bytes of a file that the public index of Python takes, unless it is asked.
const INDEX_LIMIT: u64 = 100 << 20;

pub(super) fn size(wheel: &Wheel, libraries: &[Read<'_>], found: &mut Vec<Finding>) {
    let unpacked = wheel
        .members
        .iter()
        .fold(0_u64, |sum, member| sum.saturating_add(member.size));
    let largest = wheel.members.iter().max_by_key(|member| member.packed);
    let why = largest.map_or_else(String::new, |member| {
        format!(
            "the largest member is {}, {} of it",
            member.name,
            bytes(member.packed)
        )
    });
    let what = format!("{}, {} unpacked", bytes(wheel.bytes), bytes(unpacked));
    found.push(if wheel.bytes > INDEX_LIMIT {
        finding(
            Level::Possible,
            Weight::Risk,
            Problem::Size,
            format!(
                "{what}: the public index takes files up to {} unless it is asked",
                bytes(INDEX_LIMIT)
            ),
            why,
        )
        .fix("strip libraries, leave out code for GPUs that nobody has, or ask the index for more")
    } else {
        proved(Weight::Note, Problem::Size, what, why)
    });
    for library in libraries.iter().filter(|library| library.debug > 0) {
        found.push(
            proved(
                Weight::Note,
                Problem::Size,
                format!("{} brings debug information", library.name()),
                format!("{} of it", bytes(library.debug)),
            )
            .fix("strip = true in the profile of Cargo.toml, `strip`, or install.strip = true for scikit-build-core"),
        );
    }
}

/// Bytes for people.
fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}
