//! Machines: combinations of an operating system and a processor. A library is built for one machine, or contains parts
//! for several machines.

use serde::Serialize;
use std::fmt;

/// An operating system that jaxlib is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Linux, whose libraries are ELF files.
    #[default]
    Linux,
    /// macOS, whose libraries are Mach-O files.
    MacOs,
    /// Windows, whose libraries are PE files.
    Windows,
}

/// A processor architecture that jaxlib is built for. All supported processors are 64-bit and little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Processor {
    /// x86-64 processors of Intel and AMD.
    #[default]
    X86_64,
    /// 64-bit Arm processors.
    Aarch64,
}

/// The machine that a library is built for: a system and a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// The operating system.
    pub system: System,
    /// The processor architecture.
    pub processor: Processor,
}

impl Machine {
    /// Returns the machine that this program runs on; `None` if jaxlib does not support this machine.
    #[must_use]
    pub fn current() -> Option<Self> {
        let system = match std::env::consts::OS {
            "linux" => System::Linux,
            "macos" => System::MacOs,
            "windows" => System::Windows,
            _ => return None,
        };
        let processor = match std::env::consts::ARCH {
            "x86_64" => Processor::X86_64,
            "aarch64" => Processor::Aarch64,
            _ => return None,
        };
        Some(Self { system, processor })
    }

    /// Returns true if this program runs on this kind of machine.
    #[must_use]
    pub fn is_current(self) -> bool {
        Self::current() == Some(self)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processor = match self.processor {
            Processor::X86_64 => "x86-64",
            Processor::Aarch64 => "AArch64",
        };
        let system = match self.system {
            System::Linux => "Linux",
            System::MacOs => "macOS",
            System::Windows => "Windows",
        };
        write!(f, "{processor} {system}")
    }
}

impl Serialize for Machine {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the name of this program's machine for messages.
#[must_use]
pub fn here() -> String {
    match Machine::current() {
        Some(machine) => machine.to_string(),
        None => format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
    }
}
