//! The features that hosts have from some revision on. This is the only list of features and their
//! first revisions.

use crate::{Revision, Slot};

macro_rules! features {
    ($($(#[$meta:meta])* $feature:ident $constant:literal = $since:expr;)*) => {
        /// A feature that a handler may need and an older host may lack. Crates that write messages
        /// define the feature's name in messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Feature {
            $($(#[$meta])* $feature,)*
        }

        impl Feature {
            /// All features.
            pub const ALL: &[Self] = &[$(Self::$feature),*];

            /// Returns the oldest revision that has the feature.
            #[must_use]
            pub const fn since(self) -> Revision {
                match self {
                    $(Self::$feature => $since,)*
                }
            }

            /// Returns the feature's name in C constants, for example `"RUN_ID"`.
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
    /// Registration of handlers from inside a library.
    Registration "REGISTRATION" = Slot::HandlerRegister.since();
    /// User types, which a host identifies by numbers.
    UserTypes "USER_TYPES" = Slot::TypeRegister.since();
    /// User data: objects that the program attaches to an execution.
    UserData "USER_DATA" = Slot::InvokeContextGet.since();
    /// The platform's stream.
    Stream "STREAM" = Slot::StreamGet.since();
    /// Scratch memory on the device for the duration of a call.
    ScratchMemory "SCRATCH_MEMORY" = Slot::DeviceMemoryAllocate.since();
    /// The metadata query, in which a host reads a handler's requirements.
    Metadata "METADATA" = Revision::R1;
    /// State that the instantiate stage stores. Hosts of r0 have the functions, but these functions
    /// crash.
    State "STATE" = Revision::R1;
    /// The host's thread pool.
    ThreadPool "THREAD_POOL" = Slot::ThreadPoolSchedule.since();
    /// Futures, for calls that complete after the handler has returned.
    Futures "FUTURES" = Slot::FutureCreate.since();
    /// The number of threads in the host's thread pool.
    ThreadPoolSize "THREAD_POOL_SIZE" = Slot::ThreadPoolNumThreads.since();
    /// The run id of an execution.
    RunId "RUN_ID" = Slot::RunIdGet.since();
    /// The global ordinal of a device.
    DeviceOrdinal "DEVICE_ORDINAL" = Slot::DeviceOrdinalGet.since();
    /// Numbers for element types smaller than a byte. Hosts before r5 send 0.
    PackedElementTypes "PACKED_ELEMENT_TYPES" = Revision::R5;
    /// Repeated registration of a type under its existing number.
    TypesAgain "TYPES_AGAIN" = Revision::R5;
    /// Registration of user types with their deleters.
    TypeDeleters "TYPE_DELETERS" = Revision::R7;
    /// State that the prepare and initialize stages store.
    StageState "STAGE_STATE" = Revision::R8;
    /// Error codes in the errors that the host's functions return.
    ErrorCodes "ERROR_CODES" = Revision::R9;
    /// Extensions of the invocation context.
    Extensions "EXTENSIONS" = Slot::InvokeContextFindExtension.since();
    /// The record stage.
    RecordStage "RECORD_STAGE" = Revision::R9;
    /// The custom options of one execution.
    CustomOptions "CUSTOM_OPTIONS" = Slot::CustomOptionsGet.since();
    /// Windows of collective memory: version 0.2 of the collectives extension.
    CollectiveWindows "COLLECTIVE_WINDOWS" = Revision::R10;
    /// Recorded kernels from function pointers: version 0.2 of the record extension.
    KernelPointers "KERNEL_POINTERS" = Revision::R10;
}
