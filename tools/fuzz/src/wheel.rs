//! A library in a wheel, as `doctor --wheel` judges it: beside the tag, which the first byte chooses. The archive itself is
//! damaged by `doctor`'s own tests.

use std::path::PathBuf;
use xla_ffi_doctor::wheel::{Inside, Wheel};
use xla_ffi_testing::wheel::Wheel as Packed;

/// A tag of every system, one that names none, and one for every machine of a system.
const TAGS: [&str; 6] = [
    "manylinux_2_17_x86_64",
    "macosx_11_0_arm64",
    "macosx_10_14_universal2",
    "win_amd64",
    "linux_aarch64",
    "any",
];

/// Wheels of these tags, and the place of a library that is each one's.
struct Wheels {
    folder: tempfile::TempDir,
    wheels: Vec<Wheel>,
}

impl Wheels {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let wheels = TAGS.map(|tag| {
            let packed = Packed::named(&format!("mine-1.0-py3-none-{tag}"));
            let packed = packed.member("mine/libmine.so", b"").pack(folder.path());
            Wheel::open(&packed).expect("a wheel")
        });
        Self {
            wheels: wheels.into(),
            folder,
        }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("libmine.so")
    }
}

thread_local! {
    static WHEELS: Wheels = Wheels::new();
}

pub(crate) fn attack(input: &[u8]) {
    WHEELS.with(|all| {
        let Some((tag, library)) = input.split_first() else {
            return;
        };
        let place = all.place();
        std::fs::write(&place, library).expect("the folder");
        let inside = Inside {
            member: "mine/libmine.so".to_owned(),
            place,
            foreign: None,
        };
        let wheel = &all.wheels[usize::from(*tag) % all.wheels.len()];
        let found = wheel.findings(&[inside]);
        assert!(found.iter().all(|finding| !finding.what.is_empty()));
    });
}
