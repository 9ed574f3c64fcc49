//! Tests stages and the lifetime of their state.

use crate::{bundle, failed, handler, load, ret, shape};
use std::sync::atomic::{AtomicI64, Ordering};
use xla_ffi::{HostType, Initialize, Prepare, prelude::*};
use xla_ffi_runtime::{
    Attributes, Bundle, DType, ErrorCode, Hazard, Revision, Runtime, Stage, Stages,
};

static LIVING: AtomicI64 = AtomicI64::new(0);

struct Counter {
    next: AtomicI64,
}

impl Drop for Counter {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[xla_ffi::stateful]
impl Counter {
    const STEP: i64 = 1;

    fn instantiate(start: i64) -> Result<Self> {
        if start < 0 {
            return Err(Error::out_of_range(format!("start is {start}")));
        }
        LIVING.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            next: AtomicI64::new(start),
        })
    }

    /// A function that is not a stage.
    fn step(&self) -> i64 {
        self.next.fetch_add(Self::STEP, Ordering::Relaxed)
    }

    fn execute(&self, mut y: Out<i64, 0>) -> Result<()> {
        y.fill(self.step());
        Ok(())
    }
}

/// Covers XLA's test StatefulHandler on every revision that has the instantiate stage.
#[test]
fn state_lives_as_long_as_the_executable() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let before = LIVING.load(Ordering::Relaxed);
        if revision == Revision::R0 {
            let call = load::<Counter>(&runtime, "{start = 5 : i64}")
                .unwrap()
                .call();
            let (code, text) = failed(call.ret(shape(DType::S64, &[])));
            assert_eq!(code, ErrorCode::Internal);
            let expected = "state: the first jaxlib that has it is 0.4.33";
            assert!(text.contains(expected), "{text}");
            continue;
        }
        let executable = load::<Counter>(&runtime, "{start = 5 : i64}").unwrap();
        let other = load::<Counter>(&runtime, "{start = 50 : i64}").unwrap();
        assert_eq!(LIVING.load(Ordering::Relaxed), before + 2);
        for expected in 5..8 {
            let outcome = executable.call().ret(shape(DType::S64, &[])).run().unwrap();
            assert_eq!(ret::<i64>(&outcome, 0), [expected], "{revision}");
        }
        let outcome = other.call().ret(shape(DType::S64, &[])).run().unwrap();
        assert_eq!(ret::<i64>(&outcome, 0), [50]);
        drop((executable, other));
        assert_eq!(LIVING.load(Ordering::Relaxed), before, "{revision}");
        let error = load::<Counter>(&runtime, "{start = -1 : i64}").unwrap_err();
        if revision > Revision::R1 {
            assert_eq!(error.code(), ErrorCode::OutOfRange);
        }
        assert_eq!(error.message(), "Counter (instantiate): start is -1");
        let error = load::<Counter>(&runtime, "{stop = 1 : i64}").unwrap_err();
        assert_eq!(
            error.message(),
            "Counter (instantiate): 2 problems\n  missing attribute `start`\n  unknown attribute `stop`; remove it"
        );
    }
}

/// The state that the prepare stage of these tests creates.
#[derive(HostType)]
struct Plan(i64);

/// The state that the initialize stage of these tests creates.
#[derive(HostType)]
struct Ready(i64);

struct Staged {
    base: i64,
}

#[xla_ffi::stateful(name = "staged", command_buffer_compatible)]
impl Staged {
    fn instantiate(base: i64) -> Self {
        Self { base }
    }

    fn prepare(&self, #[attr(default = 1)] extra: i64) -> Result<Plan> {
        Ok(Plan(self.base + extra))
    }

    fn initialize(&self, plan: State<Plan, Prepare>, run: RunId) -> Ready {
        Ready(plan.0 * 10 + run.get())
    }

    fn execute(
        &self,
        ready: State<Ready, Initialize>,
        plan: State<Plan, Prepare>,
        mut y: Out<i64, 1>,
    ) {
        y.copy_from(&[self.base, plan.0, ready.0]).unwrap();
    }
}

/// Tests that later stages receive the states of the prepare and initialize stages.
#[test]
fn every_stage_leaves_state_for_the_later_ones() {
    for revision in [Revision::R8, Revision::R9, Revision::R10] {
        let runtime = Runtime::new(revision);
        let call = |attrs: &str| {
            let call = load::<Staged>(&runtime, attrs).unwrap().call();
            call.run_id(3).ret(shape(DType::S64, &[3]))
        };
        let outcome = call("{base = 7 : i64}").run().unwrap();
        assert_eq!(ret::<i64>(&outcome, 0), [7, 8, 83]);
        let outcome = call("{base = 7 : i64, extra = 2 : i64}").run().unwrap();
        assert_eq!(ret::<i64>(&outcome, 0), [7, 9, 93]);
        // jaxlib crashes if a CPU call requests the state of stages that did not run, so the
        // library does not query the host.
        let fresh = Runtime::new(revision);
        let error = load::<Staged>(&fresh, "{base = 7 : i64}")
            .unwrap()
            .call()
            .ret(shape(DType::S64, &[3]))
            .stages(Stages::Cpu)
            .run()
            .unwrap_err();
        assert!(!error.has(Hazard::AbsentState), "{error}");
        assert!(
            error.message().contains("the prepare stage did not run"),
            "{error}"
        );
        // If the stages have already run on a host, the library queries the host. The embedded
        // runtime then reports the missing state.
        let error = call("{base = 7 : i64}")
            .stages(Stages::Cpu)
            .run()
            .unwrap_err();
        assert!(error.has(Hazard::AbsentState), "{error}");
        let (code, text) = (error.code(), error.message());
        assert!(
            text.starts_with("staged (execute): 2 problems\n  `ready`: ")
                && text.contains("\n  `plan`: "),
            "{code:?} {text}"
        );
    }
    let metadata = *handler::<Staged>(&Runtime::default()).metadata().unwrap();
    assert!(metadata.is_command_buffer_compatible());
}

/// Tests the errors of functions that are registered for the wrong stage.
#[test]
fn wrong_stages_are_told() {
    let all = bundle::<Counter>();
    let execute = all.get(Stage::Execute).unwrap();
    let instantiate = all.get(Stage::Instantiate).unwrap();
    // SAFETY: the function is a handler of this program.
    let swapped = unsafe { Bundle::execute(instantiate) };
    // SAFETY: the function is a handler of this program.
    let swapped = unsafe { swapped.with(Stage::Instantiate, execute) };
    let runtime = Runtime::default();
    let attributes = Attributes::parse("{start = 1 : i64}").unwrap();
    let error = runtime
        .handler("swapped", swapped)
        .unwrap()
        .instantiate(&attributes)
        .unwrap_err();
    assert_eq!(
        error.message(),
        "Counter (execute): called in stage instantiate; register each function of the handler for its own stage"
    );
    // Without the instantiate stage, there is no state.
    // SAFETY: the function is a handler of this program.
    let alone = unsafe { Bundle::execute(execute) };
    let executable = runtime
        .handler("alone", alone)
        .unwrap()
        .instantiate(&attributes)
        .unwrap();
    let (_, text) = failed(executable.call().ret(shape(DType::S64, &[])));
    assert!(!text.is_empty(), "{text}");
}

xla_ffi::library! { name = "stages"; Counter, Staged }
