//! State that stages leave for later ones.

use std::ops::Deref;

use super::{Context, context};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::frame::host_type::State;
use xla_ffi_sys::{Feature, Revision, XLA_FFI_ExecutionStage};

const INSTANTIATE: u32 = XLA_FFI_ExecutionStage::INSTANTIATE.0;
const PREPARE: u32 = XLA_FFI_ExecutionStage::PREPARE.0;
const INITIALIZE: u32 = XLA_FFI_ExecutionStage::INITIALIZE.0;

/// Hands a state to the host.
pub(crate) fn store_state<T: State>(frame: &Frame<'_>, stage: u32, state: T) -> Result<()> {
    let host = frame.host();
    host.needs_state()?;
    let host_type = T::host_type().erased();
    let id = host_type.id(host)?;
    let state = Box::into_raw(Box::new(state));
    // SAFETY: the frame's own context; the deleter drops a box of T.
    let stored =
        unsafe { host.set_state(frame.ctx(), stage, id, state.cast(), host_type.deleter()) };
    if stored.is_err() {
        // SAFETY: the host did not take it, so it is still ours.
        drop(unsafe { Box::from_raw(state) });
    } else if stage != INSTANTIATE {
        host_type.note_stored(host, stage, has_stream(frame));
    }
    stored
}

fn has_stream(frame: &Frame<'_>) -> bool {
    // SAFETY: the frame's own context.
    unsafe { frame.host().stream(frame.ctx()) }.is_ok()
}

/// Why a state could not be had.
enum Missing {
    /// There is none.
    Absent(Error),
    /// Something is wrong.
    Wrong(Error),
}

impl From<Missing> for Error {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Absent(error) | Missing::Wrong(error) => error,
        }
    }
}

/// For the macros: the state that `stage` left.
#[doc(hidden)]
#[inline]
pub fn load_state<'f, T: State>(frame: &Frame<'f>, stage: u32) -> Result<&'f T> {
    Ok(find_state(frame, stage)?)
}

fn find_state<'f, T: State>(frame: &Frame<'f>, stage: u32) -> Result<&'f T, Missing> {
    let host = frame.host();
    host.needs_state().map_err(Missing::Absent)?;
    let host_type = T::host_type().erased();
    let id = host_type.id(host).map_err(Missing::Wrong)?;
    if stage != INSTANTIATE && !host_type.was_stored(host, stage, has_stream(frame)) {
        host.has_stage_state().map_err(Missing::Absent)?;
        return Err(Missing::Absent(Error::failed_precondition(format!(
            "no state: the {} stage did not run; XLA runs it on GPUs alone",
            crate::error::problems::stage_name(stage)
        ))));
    }
    // SAFETY: the frame's own context.
    let state = unsafe { host.state(frame.ctx(), stage, id) }.map_err(|error| {
        if host.says_absent(&error, "not set") {
            Missing::Absent(error)
        } else {
            Missing::Wrong(error)
        }
    })?;
    // SAFETY: the type's number names T, and the host keeps the state at least until the call ends;
    // it is shared between concurrent calls, and T is Sync.
    let state = unsafe { state.cast::<T>().as_ref() };
    state.ok_or_else(|| {
        Missing::Absent(Error::failed_precondition(format!(
            "no state: the {} stage did not run; register the whole bundle (the old CPU runtime of \
             jaxlib 0.4.35 to 0.5.3 skips instantiate)",
            crate::error::problems::stage_name(stage)
        )))
    })
}

macro_rules! state_of {
    ($(#[$meta:meta])* $name:ident $stage:ident $text:literal $since:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name<'f, T>(&'f T);

        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<T> Deref for $name<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                self.0
            }
        }

        impl<'f, T: State> Context<'f> for $name<'f, T> {
            const NAME: &'static str = $text;
            const SINCE: Revision = Feature::$since.since();

            fn from_frame(frame: &Frame<'f>) -> Result<Self> {
                load_state(frame, $stage).map(Self)
            }

            fn find(frame: &Frame<'f>) -> Result<Option<Self>> {
                match find_state(frame, $stage) {
                    Ok(state) => Ok(Some(Self(state))),
                    Err(Missing::Absent(_)) => Ok(None),
                    Err(Missing::Wrong(error)) => Err(error),
                }
            }
        }

        context!({T: State} $name<'f, T>);
    };
}

state_of! {
    /// The state that the instantiate stage left: made once for each call site when the program is
    /// compiled, dropped with the executable. Since r1 (jaxlib 0.4.33). Stages of a
    /// [`stateful`](macro@crate::stateful) type have it as `&self`; this is the same, for a stage
    /// that wants to keep it in an `async fn` or to look at it as at any other parameter.
    ///
    /// ```
    /// use xla_ffi::prelude::*;
    ///
    /// struct Steps(i64);
    ///
    /// #[xla_ffi::stateful]
    /// impl Steps {
    ///     fn instantiate(steps: i64) -> Result<Self> {
    ///         Ok(Self(2 * steps))
    ///     }
    ///
    ///     fn execute(state: StateRef<Steps>, mut y: Out<i64, 0>) -> Result<()> {
    ///         y.fill(state.0);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # use xla_ffi::internal::{self, DType, Shape};
    /// let call = internal::call::<Steps>("{steps = 3 : i64}")?.ret(Shape::new(DType::S64, [])?);
    /// assert_eq!(call.run()?.rets[0].to_vec(), Some(vec![6_i64]));
    /// # Ok::<(), internal::Error>(())
    /// ```
    StateRef INSTANTIATE "state" State
}
state_of! {
    /// The state that the prepare stage left, dropped when the execution ends. Since r8
    /// (jaxlib 0.9.1). XLA runs that stage on GPUs alone; where it did not run, the call is refused.
    ///
    /// ```
    /// use xla_ffi::{Prepared, State, prelude::*};
    ///
    /// #[derive(State)]
    /// struct Plan(i64);
    ///
    /// struct Solver;
    ///
    /// #[xla_ffi::stateful]
    /// impl Solver {
    ///     fn prepare(n: i64) -> Result<Plan> {
    ///         Ok(Plan(n + 1))
    ///     }
    ///
    ///     fn execute(state: Prepared<Plan>, mut y: Out<i64, 0>) -> Result<()> {
    ///         y.fill(state.0);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # use xla_ffi::internal::{self, DType, Shape};
    /// # use xla_ffi_runtime::Stages;
    /// let call = || internal::call::<Solver>("{n = 6 : i64}").map(|call| call.ret(Shape::new(DType::S64, []).unwrap()));
    /// assert_eq!(call()?.run()?.rets[0].to_vec(), Some(vec![7_i64]));
    /// let error = call()?.stages(Stages::Cpu).run().unwrap_err();
    /// assert!(error.message().contains("the prepare stage did not run"));
    /// # Ok::<(), internal::Error>(())
    /// ```
    Prepared PREPARE "prepared_state" StageState
}
state_of! {
    /// The state that the initialize stage left, dropped when the execution ends. Since r8
    /// (jaxlib 0.9.1). XLA runs that stage on GPUs alone; where it did not run, the call is refused.
    ///
    /// ```
    /// use xla_ffi::{Initialized, State, prelude::*};
    ///
    /// #[derive(State)]
    /// struct Tables(i64);
    ///
    /// struct Solver;
    ///
    /// #[xla_ffi::stateful]
    /// impl Solver {
    ///     fn initialize(n: i64) -> Result<Tables> {
    ///         Ok(Tables(n + 1))
    ///     }
    ///
    ///     fn execute(state: Initialized<Tables>, mut y: Out<i64, 0>) -> Result<()> {
    ///         y.fill(state.0);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # use xla_ffi::internal::{self, DType, Shape};
    /// # use xla_ffi_runtime::Stages;
    /// let call = || internal::call::<Solver>("{n = 6 : i64}").map(|call| call.ret(Shape::new(DType::S64, []).unwrap()));
    /// assert_eq!(call()?.run()?.rets[0].to_vec(), Some(vec![7_i64]));
    /// let error = call()?.stages(Stages::Cpu).run().unwrap_err();
    /// assert!(error.message().contains("the initialize stage did not run"));
    /// # Ok::<(), internal::Error>(())
    /// ```
    Initialized INITIALIZE "initialized_state" StageState
}
