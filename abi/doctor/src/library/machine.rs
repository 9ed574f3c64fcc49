//! Machines: a system and a processor. A library is for one machine, or has parts for several.

use serde::Serialize;
use std::fmt;

/// A system that jaxlib is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// ELF.
    #[default]
    Linux,
    /// Mach-O.
    MacOs,
    /// PE.
    Windows,
}

/// A processor that jaxlib is built for, all 64-bit and little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Processor {
    /// Intel and AMD.
    #[default]
    X86_64,
    /// Arm.
    Aarch64,
}

/// The machine that a library is built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// The system.
    pub system: System,
    /// The processor.
    pub processor: Processor,
}

impl Machine {
    /// Returns the machine that this program runs on; `None` if jaxlib is not built for it.
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

    /// Returns true if libraries for this machine run here.
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

/// Returns a description of the machine that this program runs on.
#[must_use]
pub fn here() -> String {
    match Machine::current() {
        Some(machine) => machine.to_string(),
        None => format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
    }
}
