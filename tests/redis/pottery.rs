//! This client and another library's, pottery's in Python, keep each other out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use redlock_quorum::Redlock;
use redlock_quorum::testkit::fleet::Fleet;

use crate::support::{acquire_everywhere, ask, builder, fleet, number, run, soon, text, warm_up};

/// What pottery puts before its keys.
const PREFIX: &str = "redlock:";
const RESOURCE: &str = "resource";

/// The other library, in a process of its own.
struct Pottery {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Pottery {
    fn start(fleet: &Fleet) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = root.join("target/test-servers/pottery-venv/bin/python");
        assert!(
            python.exists(),
            "scripts/install-test-deps installs pottery at {}",
            python.display()
        );
        let mut process = Command::new(python)
            .arg(root.join("tests/redis/peer.py"))
            .arg(RESOURCE)
            .args(fleet.urls())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            commands: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }
}

impl Drop for Pottery {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

async fn client(fleet: &Fleet) -> Redlock {
    let builder = builder(fleet.urls()).prefix(PREFIX);
    let redlock = builder.wait(Duration::from_secs(30)).build().unwrap();
    warm_up(&redlock).await;
    redlock
}

#[test]
fn a_lock_of_either_library_keeps_the_other_out() {
    run(async {
        let fleet = fleet(3);
        let redlock = client(&fleet).await;
        let mut pottery = Pottery::start(&fleet);
        for _ in 0..3 {
            let guard = acquire_everywhere(&redlock, RESOURCE).await;
            assert_eq!(pottery.ask("try"), "no");
            assert_eq!(guard.loss(), None);
            let held = text(&fleet[0], &["GET", "redlock:resource"]);
            assert_eq!(held.as_deref(), Some(guard.token().as_str()));
            guard.release().await.unwrap();

            assert_eq!(pottery.ask("acquire"), "yes");
            let error = soon(redlock.try_acquire(RESOURCE)).await.unwrap_err();
            assert!(error.is_contended(), "{error}");
            assert_eq!(pottery.ask("release"), "done");
        }
    });
}

#[test]
fn a_counter_guarded_by_both_libraries_loses_no_update() {
    const UPDATES: i64 = 20;
    run(async {
        let fleet = fleet(3);
        let redlock = client(&fleet).await;
        let mut pottery = Pottery::start(&fleet);
        pottery.send(&format!("count {UPDATES}"));
        for _ in 0..UPDATES {
            let guard = redlock.acquire(RESOURCE).await.unwrap();
            let seen = text(&fleet[0], &["GET", "counter"]);
            let seen: i64 = seen.map_or(0, |seen| seen.parse().unwrap());
            tokio::time::sleep(Duration::from_millis(1)).await;
            ask(&fleet[0], &["SET", "counter", &(seen + 1).to_string()]);
            assert_eq!(guard.loss(), None);
            guard.release().await.unwrap();
        }
        let done = tokio::task::spawn_blocking(move || pottery.answer());
        assert_eq!(soon(done).await.unwrap(), "done");
        assert_eq!(number(&fleet[0], &["GET", "counter"]), 2 * UPDATES);
    });
}
