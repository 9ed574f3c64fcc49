//! A future that another thread completes, without an async runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

/// A future that is done when the time has passed, and not before another thread has woken it.
pub(crate) fn sleep(time: Duration) -> impl Future<Output = ()> + Send {
    Sleep { time, until: None }
}

struct Sleep {
    time: Duration,
    until: Option<Instant>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Poll::Ready(());
        }
        let time = self.time;
        let until = *self.until.get_or_insert_with(|| Instant::now() + time);
        let waker = context.waker().clone();
        thread::spawn(move || {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            waker.wake();
        });
        Poll::Pending
    }
}
