//! Looking at something again and again while something else is done.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Does the work and, in a thread beside it, looks at once and then every so often, at least once; the first
/// look that fails is the last, and its error comes back when the work is done.
pub fn beside<T, E: Send>(
    every: Duration,
    mut look: impl FnMut() -> Result<(), E> + Send,
    work: impl FnOnce() -> T,
) -> (T, Result<(), E>) {
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let looking = scope.spawn(move || {
            loop {
                look()?;
                if ended.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return Ok(());
                }
            }
        });
        let done = work();
        drop(end);
        let looked = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (done, looked)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFTEN: Duration = Duration::from_millis(1);

    #[test]
    fn it_looks_until_the_work_is_done_and_once_at_least() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            Ok::<(), ()>(())
        };
        let (done, looked) = beside(OFTEN, look, || thread::sleep(20 * OFTEN));
        assert_eq!((done, looked), ((), Ok(())));
        assert!(looks > 1, "{looks}");
        let mut looked_once = false;
        let look = || {
            looked_once = true;
            Ok::<(), ()>(())
        };
        assert_eq!(beside(Duration::from_secs(3600), look, || 7).0, 7);
        assert!(looked_once);
    }

    #[test]
    fn a_look_that_fails_ends_the_looking_and_not_the_work() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            Err("gone")
        };
        assert_eq!(beside(OFTEN, look, || thread::sleep(5 * OFTEN)), ((), Err("gone")));
        assert_eq!(looks, 1);
    }
}
