//! Waits for an open execution: by blocking the thread, with a Rust future, or with a callback.

use super::invoke::translate;
use super::prepared::PreparedCall;
use crate::host::futures::run_callback;
use crate::host::timer;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use xla_ffi_sys::{Error, ErrorCode, Result};

impl PreparedCall {
    /// Returns the time until the deadline of the open execution; `None` waits forever.
    fn time_left(&self) -> Option<Duration> {
        let deadline = self.body.context.parts().deadline;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.or(self.body.request.rules.wait_limit())
    }

    /// Waits until the execution that was started is complete.
    ///
    /// # Errors
    /// The handler's error, and `DEADLINE_EXCEEDED` at the time limit. After `DEADLINE_EXCEEDED`, the execution stays
    /// open, the handler may use the operands, and the caller may wait again.
    pub fn wait(&mut self) -> Result<()> {
        let outcome = self.wait_for(self.time_left());
        if self.open.is_some() {
            self.count_as_late();
        }
        outcome
    }

    /// Waits like [`PreparedCall::wait`], with the given time limit instead of the call's; `None` waits forever.
    ///
    /// # Errors
    /// The errors of [`PreparedCall::wait`].
    pub fn wait_for(&mut self, limit: Option<Duration>) -> Result<()> {
        let Some(completion) = &self.open else {
            return Ok(());
        };
        let Some(outcome) = completion.wait(limit) else {
            return Err(Error::new(
                ErrorCode::DeadlineExceeded,
                format!(
                    "{} (execute): the future was not completed {}: the call is open, and its operands belong to the \
                     handler until it is over; call `wait_for`, or `on_end`",
                    self.executable.handler().name(),
                    match limit.unwrap_or_default() {
                        Duration::ZERO => "in time".to_owned(),
                        limit => format!("after {limit:?}"),
                    }
                ),
            ));
        };
        self.open = None;
        self.body.forget_future();
        self.body.context.free_memory();
        let mut findings = self.body.context.findings();
        match outcome {
            Err(error) => {
                let error = translate(&self.executable.handler().shared, error.into_handlers());
                Err(error.with_findings(findings))
            }
            Ok(()) if findings.is_empty() => self.look_for_unwritten(),
            Ok(()) => {
                let message = findings[0].to_string();
                Err(Error::new(ErrorCode::Internal, message)
                    .with_findings(std::mem::take(&mut findings)))
            }
        }
    }

    /// Counts the open execution as `DEADLINE_EXCEEDED`, whatever its later outcome is.
    fn count_as_late(&self) {
        if let Some(completion) = &self.open {
            completion.count_now(ErrorCode::DeadlineExceeded);
        }
    }

    /// Returns true if an execution is open, so that its handler may use the operands. After the execution's end,
    /// [`PreparedCall::wait`] returns the handler's error. Then the results can be read and the next execution can
    /// start.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
            .as_ref()
            .is_some_and(|completion| !completion.is_done())
    }

    /// Runs `told` once when the open execution has ended and the handler no longer uses the operands. Work that the
    /// handler put on a stream may still have to run. `told` runs on the thread that ends the execution, even if the
    /// call was dropped. If no execution is open, `told` runs immediately on the calling thread.
    pub fn on_end(&self, told: impl FnOnce() + Send + 'static) {
        match &self.open {
            Some(completion) => completion.on_done(Box::new(|_| told())),
            None => told(),
        }
    }

    /// Runs `told` when the execution ends, like [`PreparedCall::on_end`], or at the time limit, whichever is first.
    /// The default time limit is 60 s, as in [`PreparedCall::wait`]. After `told` has run,
    /// `wait_for(Some(Duration::ZERO))` returns the outcome.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the system cannot start a thread for the time limit; `told` is dropped without a call.
    pub fn on_end_or_limit(&self, told: impl FnOnce() + Send + 'static) -> Result<()> {
        let (Some(completion), Some(left)) = (&self.open, self.time_left()) else {
            self.on_end(told);
            return Ok(());
        };
        let told = Arc::new(Mutex::new(Some(told)));
        let (late, other) = (completion.clone(), told.clone());
        let alarm = timer::set(left, move || {
            late.count_now(ErrorCode::DeadlineExceeded);
            tell(&other);
        })?;
        completion.on_done(Box::new(move |_| {
            drop(alarm);
            tell(&told);
        }));
        Ok(())
    }

    /// Runs the execute stage without blocking a thread while an asynchronous handler runs. The future works with
    /// every executor. The first poll starts the execution.
    ///
    /// A synchronous handler runs within the first poll and blocks it, even after the time limit, because a running
    /// function cannot be interrupted. Run synchronous handlers on threads for blocking work.
    ///
    /// If the future is dropped, the execution continues and the call stays open. The call may then also be dropped.
    ///
    /// ```
    /// # use std::future::Future;
    /// # use std::pin::pin;
    /// # use std::task::{Context, Poll, Waker};
    /// # use xla_ffi_runtime::{Attributes, Bundle, Revision, Runtime};
    /// # unsafe extern "C" fn nothing(_: *mut xla_ffi_sys::XLA_FFI_CallFrame) -> *mut xla_ffi_sys::XLA_FFI_Error {
    /// #     std::ptr::null_mut()
    /// # }
    /// # fn main() -> xla_ffi_runtime::Result<()> {
    /// # // SAFETY: the function is a handler.
    /// # let bundle = unsafe { Bundle::execute(nothing) };
    /// # let handler = Runtime::new(Revision::R0).handler("nothing", bundle)?;
    /// let mut call = handler.instantiate(&Attributes::new())?.call().prepare()?;
    /// let run = async {
    ///     call.invoke_async().await
    /// };
    /// # assert!(pin!(run).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`PreparedCall::invoke`]; `DEADLINE_EXCEEDED` at the time limit, which wakes the future.
    pub async fn invoke_async(&mut self) -> Result<()> {
        if self.start()? {
            return Ok(());
        }
        let turn = Arc::<Mutex<Turn>>::default();
        let other = turn.clone();
        self.on_end_or_limit(move || {
            let mut turn = other.lock().unwrap_or_else(PoisonError::into_inner);
            turn.is_over = true;
            let waker = turn.waker.take();
            drop(turn);
            waker.into_iter().for_each(Waker::wake);
        })?;
        poll_fn(|context| {
            let mut turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            if turn.is_over {
                return Poll::Ready(());
            }
            turn.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.wait_for(Some(Duration::ZERO))
    }
}

/// Runs the callback if it has not run before.
fn tell(told: &Mutex<Option<impl FnOnce() + Send>>) {
    let told = told.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(told) = told {
        run_callback(told);
    }
}

/// The data that an `invoke_async` future shares with the thread that ends its execution.
#[derive(Default)]
struct Turn {
    is_over: bool,
    waker: Option<Waker>,
}
