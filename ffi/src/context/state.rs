//! State that stages create for later stages.

use std::marker::PhantomData;
use std::ops::Deref;

use super::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host_type::HostType;
use xla_ffi_sys::{Feature, Revision, XLA_FFI_ExecutionStage};

const INSTANTIATE: u32 = XLA_FFI_ExecutionStage::INSTANTIATE.0;
const PREPARE: u32 = XLA_FFI_ExecutionStage::PREPARE.0;
const INITIALIZE: u32 = XLA_FFI_ExecutionStage::INITIALIZE.0;

/// Passes a state to the host, which stores the state for later stages.
pub(crate) fn store_state<T: HostType>(frame: &Frame<'_>, stage: u32, state: T) -> Result<()> {
    let host = frame.host();
    host.needs_state()?;
    let host_type = T::registration().erased();
    let id = host_type.id(host)?;
    let state = Box::into_raw(Box::new(state));
    // SAFETY: the context belongs to the call frame, and the deleter drops a box of T.
    let stored =
        unsafe { host.set_state(frame.ctx(), stage, id, state.cast(), host_type.deleter()) };
    if stored.is_err() {
        // SAFETY: the host did not accept the state, so this function still owns the box.
        drop(unsafe { Box::from_raw(state) });
    } else if stage != INSTANTIATE {
        host_type.note_stored(host, stage, has_stream(frame));
    }
    stored
}

fn has_stream(frame: &Frame<'_>) -> bool {
    // SAFETY: the context belongs to the call frame.
    unsafe { frame.host().stream(frame.ctx()) }.is_ok()
}

/// The reason why a state is unavailable.
enum Missing {
    /// No stage has set the state.
    Absent(Error),
    /// The host failed to return the state although a stage has set it.
    Wrong(Error),
}

impl From<Missing> for Error {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Absent(error) | Missing::Wrong(error) => error,
        }
    }
}

/// Gets the state that `stage`, an earlier stage, created. Used by the macros.
#[doc(hidden)]
#[inline]
pub fn load_state<'f, T: HostType>(frame: &Frame<'f>, stage: u32) -> Result<&'f T> {
    Ok(find_state(frame, stage)?)
}

fn find_state<'f, T: HostType>(frame: &Frame<'f>, stage: u32) -> Result<&'f T, Missing> {
    let host = frame.host();
    host.needs_state().map_err(Missing::Absent)?;
    let host_type = T::registration().erased();
    let id = host_type.id(host).map_err(Missing::Wrong)?;
    if stage != INSTANTIATE && !host_type.was_stored(host, stage, has_stream(frame)) {
        host.has_stage_state().map_err(Missing::Absent)?;
        return Err(Missing::Absent(Error::failed_precondition(format!(
            "no state: the {} stage did not run; XLA runs it on GPUs alone",
            crate::error::problems::stage_name(stage)
        ))));
    }
    // SAFETY: the context belongs to the call frame.
    let state = unsafe { host.state(frame.ctx(), stage, id) }.map_err(|error| {
        if host.is_absent_error(&error, "not set") {
            Missing::Absent(error)
        } else {
            Missing::Wrong(error)
        }
    })?;
    // SAFETY: the type's number identifies T, and the host keeps the state alive at least until the call ends.
    // Concurrent calls share the state, and T is Sync.
    let state = unsafe { state.cast::<T>().as_ref() };
    state.ok_or_else(|| {
        Missing::Absent(Error::failed_precondition(format!(
            "no state: the {} stage did not run; register the whole bundle (the old CPU runtime of \
             jaxlib 0.4.35 to 0.5.3 skips instantiate)",
            crate::error::problems::stage_name(stage)
        )))
    })
}

/// The state that an earlier stage `S` created.
///
/// Stages of a [`stateful`](macro@crate::stateful) type receive the state of `instantiate` as `&self`. An `async fn`
/// receives the same state as a `State`. With `Option<State>`, the state may be absent.
///
/// | type | created by | lives until | since |
/// |---|---|---|---|
/// | `State<T>` | `instantiate`, once per call site when the program is compiled | the executable is dropped | r1 (jaxlib 0.4.33) |
/// | `State<T, Prepare>` | `prepare` | the execution ends | r8 (jaxlib 0.9.1) |
/// | `State<T, Initialize>` | `initialize` | the execution ends | r8 (jaxlib 0.9.1) |
///
/// XLA runs the prepare and initialize stages only on GPUs. If a stage did not run, the call is
/// rejected.
///
/// ```
/// use xla_ffi::{HostType, Initialize, Prepare, prelude::*};
///
/// #[derive(HostType)]
/// struct Plan(i64);
///
/// struct Solver(i64);
///
/// #[xla_ffi::stateful]
/// impl Solver {
///     fn instantiate(n: i64) -> Self {
///         Self(n)
///     }
///
///     fn prepare(&self) -> Plan {
///         Plan(self.0 + 1)
///     }
///
///     fn initialize(plan: State<Plan, Prepare>) -> Plan {
///         Plan(10 * plan.0)
///     }
///
///     fn execute(own: State<Solver>, plan: State<Plan, Initialize>, mut y: Out<i64, 0>) {
///         y.fill(own.0 + plan.0);
///     }
/// }
///
/// # use xla_ffi::embed::{self, DType, Shape};
/// # use xla_ffi_runtime::Stages;
/// let call = || embed::call::<Solver>("{n = 6 : i64}").map(|call| call.ret(Shape::new(DType::S64, []).unwrap()));
/// assert_eq!(call()?.run()?.rets[0].to_vec(), Some(vec![76_i64]));
/// let error = call()?.stages(Stages::Cpu).run().unwrap_err();
/// assert!(error.message().contains("the initialize stage did not run"));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
#[derive(Debug)]
pub struct State<'f, T, S = Instantiate>(&'f T, PhantomData<S>);

impl<T, S> Clone for State<'_, T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S> Copy for State<'_, T, S> {}

impl<T, S> Deref for State<'_, T, S> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

macro_rules! stages {
    ($($(#[$meta:meta])* $name:ident $stage:ident $text:literal $since:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl<'f, T: HostType> Context<'f> for State<'f, T, $name> {
            const NAME: &'static str = $text;
            const SINCE: Revision = Feature::$since.since();

            fn from_frame(frame: &Frame<'f>) -> Result<Self> {
                load_state(frame, $stage).map(|state| Self(state, PhantomData))
            }

            fn find(frame: &Frame<'f>) -> Result<Option<Self>> {
                match find_state(frame, $stage) {
                    Ok(state) => Ok(Some(Self(state, PhantomData))),
                    Err(Missing::Absent(_)) => Ok(None),
                    Err(Missing::Wrong(error)) => Err(error),
                }
            }
        }

        context!({T: HostType} State<'f, T, $name>);
    )*};
}

stages! {
    /// Marks the [`State`] of the instantiate stage, which lives as long as the executable.
    Instantiate INSTANTIATE "state" State;
    /// Marks the [`State`] of the prepare stage, the first stage of an execution.
    Prepare PREPARE "prepared_state" StageState;
    /// Marks the [`State`] of the initialize stage, the second stage of an execution.
    Initialize INITIALIZE "initialized_state" StageState;
}
