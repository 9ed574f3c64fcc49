//! Builds libraries for other machines with the C compiler of `zig`. The libraries are never run.
//!
//! The wheel `ziglang` contains the compiler; `XLA_FFI_ZIG` is its path.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A cross compiler for every target.
pub struct Zig {
    program: PathBuf,
    cache: PathBuf,
}

/// A system and processor for which libraries are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// AArch64 Linux; libraries are `libNAME.so`.
    Aarch64Linux,
    /// AArch64 macOS; libraries are `libNAME.dylib`.
    Aarch64MacOs,
    /// x86-64 macOS; libraries are `libNAME.dylib`, in a separate folder.
    X86_64MacOs,
    /// x86-64 Windows; libraries are `NAME.dll`.
    X86_64Windows,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 4] = [
        Self::Aarch64Linux,
        Self::Aarch64MacOs,
        Self::X86_64MacOs,
        Self::X86_64Windows,
    ];

    /// Returns zig's name of the target.
    #[must_use]
    pub fn triple(self) -> &'static str {
        match self {
            Self::Aarch64Linux => "aarch64-linux-gnu",
            Self::Aarch64MacOs => "aarch64-macos",
            Self::X86_64MacOs => "x86_64-macos",
            Self::X86_64Windows => "x86_64-windows-gnu",
        }
    }
}

/// Functions that a C or C++ DLL imports from the system's runtime.
///
/// An import library contains these names; compiling MinGW's runtime would take minutes.
const RUNTIME: &str = "__acrt_iob_func\nabort\nfprintf\nfree\nmalloc\nmemchr\nmemcmp\nmemcpy\nmemmove\nmemset\nqsort\n\
    realloc\nsnprintf\nsqrtf\nstrchr\nstrcmp\nstrlen\nstrncmp\nstrstr\nstrtoll\nstrtod\nvsnprintf\n_Unwind_Resume\n\
    __gxx_personality_seh0\n_ZdlPv\n_ZdlPvy\n_Znwy\n_ZNSt3__122__libcpp_verbose_abortEPKcz\n";

impl Zig {
    /// Returns the zig of this machine, or `None` if zig is missing.
    #[must_use]
    pub fn find() -> Option<Self> {
        let named = std::env::var_os("XLA_FFI_ZIG");
        let program = named.map_or_else(|| PathBuf::from("zig"), PathBuf::from);
        let works = Command::new(&program).arg("version").output();
        works
            .is_ok_and(|output| output.status.success())
            .then(|| Self {
                program,
                // zig caches its builds per target, such as the stubs of system libraries.
                cache: crate::root().join("target/zig-cache"),
            })
    }

    fn run(&self, folder: &Path, arguments: &[&str]) {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(folder)
            .env("ZIG_GLOBAL_CACHE_DIR", &self.cache)
            .env("ZIG_LOCAL_CACHE_DIR", &self.cache)
            .output()
            .expect("zig starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "zig {arguments:?}: {told}");
    }

    /// Compiles a C or C++ source, depending on its extension, with warnings as errors.
    ///
    /// # Panics
    /// Panics if the source does not compile or causes a warning.
    #[must_use]
    pub fn object(&self, folder: &Path, target: Target, source: &Path, flags: &[&str]) -> PathBuf {
        let is_cpp = source.extension().is_some_and(|end| end == "cc");
        let (compiler, standard) = match is_cpp {
            true => ("c++", "-std=c++17"),
            false => ("cc", "-std=c11"),
        };
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let object = folder.join(format!("{stem}.{}.{compiler}.o", target.triple()));
        let include = format!("-I{}", crate::root().join("include").display());
        let position = match target {
            Target::X86_64Windows => "-O1",
            _ => "-fPIC",
        };
        let mut arguments = vec![
            compiler,
            standard,
            "-c",
            "-O1",
            position,
            "-target",
            target.triple(),
        ];
        arguments.extend(["-Wall", "-Wextra", "-Wpedantic", "-Werror", &include]);
        arguments.extend(flags);
        let (source, out) = (source.display().to_string(), object.display().to_string());
        arguments.extend([source.as_str(), "-o", &out]);
        self.run(folder, &arguments);
        object
    }

    /// Creates the import library for a DLL that imports `names`, one per line, from the DLL `from`. The DLL `from`
    /// does not need to exist.
    ///
    /// # Panics
    /// Panics if the library cannot be written.
    #[must_use]
    pub fn import_library(&self, folder: &Path, from: &str, names: &str) -> PathBuf {
        let text = format!("LIBRARY {from}\nEXPORTS\n{names}\n");
        std::fs::write(folder.join("names.def"), text).expect("the test's folder");
        let library = folder.join(format!("{from}.lib"));
        let out = library.display().to_string();
        let machine = ["dlltool", "-m", "i386:x86-64", "-d", "names.def", "-l"];
        self.run(folder, &[&machine[..], &[out.as_str()]].concat());
        library
    }

    /// Links objects to a library. The C++ runtime remains undefined, because the library is never loaded.
    ///
    /// # Panics
    /// Panics if the objects do not link.
    #[must_use]
    pub fn link(
        &self,
        folder: &Path,
        target: Target,
        name: &str,
        objects: &[PathBuf],
        flags: &[&str],
    ) -> PathBuf {
        let objects: Vec<String> = objects
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let objects = objects.iter().map(String::as_str);
        let file = match target {
            Target::Aarch64Linux => format!("lib{name}.so"),
            Target::Aarch64MacOs => format!("lib{name}.dylib"),
            Target::X86_64MacOs => format!("lib{name}.x86_64.dylib"),
            Target::X86_64Windows => format!("{name}.dll"),
        };
        let library = folder.join(&file);
        let out = library.display().to_string();
        if target == Target::X86_64Windows {
            let runtime = self.import_library(folder, "ucrtbase.dll", RUNTIME);
            let runtime = runtime.display().to_string();
            let out = format!("-out:{out}");
            let mut arguments = vec!["lld-link", "-dll", "-noentry", &out, &runtime];
            arguments.extend(objects);
            arguments.extend(flags);
            self.run(folder, &arguments);
        } else {
            let mut arguments = vec!["cc", "-shared", "-target", target.triple(), "-o", &out];
            if target != Target::Aarch64Linux {
                arguments.push("-Wl,-undefined,dynamic_lookup");
            }
            arguments.extend(objects);
            arguments.extend(flags);
            self.run(folder, &arguments);
        }
        library
    }

    /// Compiles and links one source.
    ///
    /// # Panics
    /// Panics if the source does not compile, causes a warning, or does not link.
    #[must_use]
    pub fn library(&self, folder: &Path, target: Target, source: &Path) -> PathBuf {
        let stem = source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let object = self.object(folder, target, source, &[]);
        self.link(folder, target, &stem, &[object], &[])
    }
}

/// Combines Mach-O files for different processors into a fat file, like `lipo -create`.
///
/// # Panics
/// Panics if a part is not a Mach-O file.
#[must_use]
pub fn fat(parts: &[&[u8]]) -> Vec<u8> {
    const PAGE: usize = 1 << 14;
    let mut head: Vec<u8> = Vec::new();
    let number = |head: &mut Vec<u8>, value: usize| {
        head.extend(u32::try_from(value).expect("a small file").to_be_bytes());
    };
    number(&mut head, 0xcafe_babe);
    number(&mut head, parts.len());
    let mut body: Vec<u8> = Vec::new();
    for part in parts {
        let at = PAGE + body.len().next_multiple_of(PAGE);
        body.resize(at - PAGE, 0);
        body.extend(*part);
        // The processor type and subtype, which the Mach-O file has in the opposite byte order.
        for from in [4, 8] {
            head.extend(part[from..from + 4].iter().rev());
        }
        for value in [at, part.len(), PAGE.trailing_zeros() as usize] {
            number(&mut head, value);
        }
    }
    head.resize(PAGE, 0);
    head.extend(body);
    head
}
