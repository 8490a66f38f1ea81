//! A child process that ends with its owner, however the owner ends.
//!
//! The program is started by a `sh` that first leaves a watcher behind and then becomes the program, so the child's
//! process id is the program's. The watcher reads a pipe whose other end only the owner holds. When the owner is gone,
//! `SIGKILL` included, it reads the end of the pipe, kills the program, frozen or not, and removes its directory. A
//! line on the pipe instead tells the watcher that the owner ends the program itself: so a process id is never
//! signalled after it was reaped.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// `$1`: the directory to remove with the owner; then the program and its arguments.
const SCRIPT: &str = r#"
exec 3<&0 </dev/null
dir=$1; shift
(
  trap '' HUP INT TERM
  read -r _ <&3 || { kill -9 $$; rm -rf -- "$dir"; }
) &
exec "$@" 3<&-
"#;

/// A running child.
#[derive(Debug)]
pub(super) struct Supervised {
    child: Child,
    /// Writing a line dismisses the watcher, closing it without one makes it kill.
    watcher: Option<ChildStdin>,
}

impl Supervised {
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        dir: &Path,
        log: &File,
    ) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(dir)
            .arg(program)
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()?;
        let watcher = child.stdin.take();
        Ok(Self { child, watcher })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the child has ended.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        let ended = self.child.try_wait()?.is_some();
        if ended {
            self.dismiss_watcher()?;
        }
        Ok(ended)
    }

    /// Stops the child and returns when it stands still.
    pub(super) fn freeze(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP)?;
        let settled = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), settled)?;
        Ok(())
    }

    pub(super) fn thaw(&self) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// Kills the child and returns when it is gone.
    pub(super) fn kill(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.dismiss_watcher()?;
        self.child.wait()?;
        Ok(())
    }

    fn dismiss_watcher(&mut self) -> io::Result<()> {
        let Some(mut watcher) = self.watcher.take() else {
            return Ok(());
        };
        match watcher.write_all(b"\n") {
            // A watcher that somebody ended reads nothing any more: as good.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome,
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Nobody is left to tell; the pipe closes now, and the watcher kills what is left.
        self.end().ok();
    }
}
