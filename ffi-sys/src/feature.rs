//! What hosts have from one revision on: the one list of "which feature since when".

use crate::{Revision, Slot};

macro_rules! features {
    ($($(#[$meta:meta])* $feature:ident $constant:literal = $since:expr;)*) => {
        /// Something that a handler may need and an older host lacks. What it is called in messages is
        /// left to those who write them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Feature {
            $($(#[$meta])* $feature,)*
        }

        impl Feature {
            /// All features.
            pub const ALL: &[Self] = &[$(Self::$feature),*];

            /// The oldest revision that has it.
            #[must_use]
            pub const fn since(self) -> Revision {
                match self {
                    $(Self::$feature => $since,)*
                }
            }

            /// What its constants in C are called, `"RUN_ID"` for instance.
            #[must_use]
            pub const fn constant(self) -> &'static str {
                match self {
                    $(Self::$feature => $constant,)*
                }
            }
        }
    };
}

features! {
    /// Registration from inside a library.
    Registration "REGISTRATION" = Slot::HandlerRegister.since();
    /// User types with a number of their own.
    UserTypes "USER_TYPES" = Slot::TypeRegister.since();
    /// Objects that the program hands to its calls.
    UserData "USER_DATA" = Slot::InvokeContextGet.since();
    /// The platform's stream.
    Stream "STREAM" = Slot::StreamGet.since();
    /// Device memory for the time of a call.
    ScratchMemory "SCRATCH_MEMORY" = Slot::DeviceMemoryAllocate.since();
    /// The metadata call, by which a host learns what a handler needs.
    Metadata "METADATA" = Revision::R1;
    /// State that the instantiate stage leaves. r0 has the functions, but they crash.
    State "STATE" = Revision::R1;
    /// The host's thread pool.
    ThreadPool "THREAD_POOL" = Slot::ThreadPoolSchedule.since();
    /// Calls that complete after the handler has returned.
    Futures "FUTURES" = Slot::FutureCreate.since();
    /// Number of threads of the pool.
    ThreadPoolSize "THREAD_POOL_SIZE" = Slot::ThreadPoolNumThreads.since();
    /// The number of the execution.
    RunId "RUN_ID" = Slot::RunIdGet.since();
    /// The global number of the device.
    DeviceOrdinal "DEVICE_ORDINAL" = Slot::DeviceOrdinalGet.since();
    /// Element types of less than a byte under their own numbers: hosts before send 0.
    PackedElementTypes "PACKED_ELEMENT_TYPES" = Revision::R5;
    /// Registering a type again under the number that it has.
    TypesAgain "TYPES_AGAIN" = Revision::R5;
    /// Types that are registered with their deleter.
    TypeDeleters "TYPE_DELETERS" = Revision::R7;
    /// State that the prepare and initialize stages leave.
    StageState "STAGE_STATE" = Revision::R8;
    /// Codes of the errors that the host's functions answer with.
    ErrorCodes "ERROR_CODES" = Revision::R9;
    /// Extensions of the context.
    Extensions "EXTENSIONS" = Slot::InvokeContextFindExtension.since();
    /// The record stage.
    RecordStage "RECORD_STAGE" = Revision::R9;
    /// Options of one execution.
    CustomOptions "CUSTOM_OPTIONS" = Slot::CustomOptionsGet.since();
    /// Windows of collective memory: version 0.2 of the collectives extension.
    CollectiveWindows "COLLECTIVE_WINDOWS" = Revision::R10;
    /// Recorded kernels given by function pointer: version 0.2 of the record extension.
    KernelPointers "KERNEL_POINTERS" = Revision::R10;
}
