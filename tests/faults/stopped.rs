//! A process that stands still past the end of its lock, while another one has it.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redlock_quorum::testkit::fleet::Fleet;
use redlock_quorum::{ExtendError, Holder, LossCause};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::block_in_place;

use crate::loss::watch;
use crate::support::{
    builder, calls, eventually, eventually_all_granted, lock_keys, ms, run, soon, warm_up,
};

const TTL: Duration = ms(1000);
const ROUNDS: u64 = 4;
/// Set for the process that holds the lock: the nodes.
const NODES: &str = "REDLOCK_TEST_HOLDER";

/// This very program as another process, which does what `hold` does.
struct Other {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(fleet: &Fleet) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "stopped::a_process_that_stood_still_learns_of_its_loss_before_anything_else",
            ])
            .args(["--nocapture", "--test-threads", "1"])
            .env(NODES, fleet.urls().join(","))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Self {
            process,
            input: input.unwrap(),
            output: BufReader::new(output.unwrap()).lines(),
        }
    }

    fn hear(&mut self, word: &str) {
        let mut lines = self.output.by_ref().map(Result::unwrap);
        let heard = block_in_place(|| lines.any(|line| line.ends_with(word)));
        assert!(heard, "it ended before it said {word}");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Also if it stands still. It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_process_that_stood_still_learns_of_its_loss_before_anything_else() {
    if let Ok(urls) = env::var(NODES) {
        return run(hold(urls));
    }
    run(async {
        let fleet = Fleet::start(3).unwrap();
        let redlock = builder(fleet.urls()).ttl(TTL).build().unwrap();
        warm_up(&redlock).await;
        let is_free = async || fleet.iter().all(|server| lock_keys(server).is_empty());
        let sets = || -> Vec<u64> { fleet.iter().map(|server| calls(server, "set")).collect() };
        let mut other = Other::start(&fleet);
        for round in 0..ROUNDS {
            other.hear("held");
            // At different moments between its renewals.
            tokio::time::sleep(ms(400 + 90 * round)).await;
            other.signal(Signal::STOP);
            let guard = soon(redlock.acquire("resource")).await.unwrap();
            guard.release().await.unwrap();
            eventually("nobody has it", is_free).await;
            let before = sets();
            other.signal(Signal::CONT);
            other.hear("lost");
            tokio::time::sleep(ms(400)).await;
            assert_eq!(sets(), before, "it is not created again");
            assert!(is_free().await);
            writeln!(other.input, "go on").unwrap();
        }
        let ended = block_in_place(|| other.process.wait()).unwrap();
        assert!(ended.success(), "{ended}");
    });
}

/// Holds the lock until it is lost, again and again, and says so.
async fn hold(urls: String) {
    let redlock = builder(urls.split(',')).ttl(TTL).build().unwrap();
    warm_up(&redlock).await;
    let mut answers = std::io::stdin().lines();
    for _ in 0..ROUNDS {
        let guard = Arc::new(soon(redlock.acquire("resource")).await.unwrap());
        eventually_all_granted(&guard).await;
        let watched = Arc::clone(&guard);
        let watcher = thread::spawn(move || watch(&watched));
        println!("held");
        let cause = block_in_place(|| watcher.join()).unwrap();
        assert_eq!(cause, LossCause::Expired);
        assert_eq!(guard.lost().await, cause);
        match guard.extend(TTL).await {
            Err(ExtendError::Lost(LossCause::Expired)) => {}
            other => panic!("{other:?}"),
        }
        let seen = redlock.inspect("resource").await;
        assert_ne!(seen.holder(), Holder::Ours, "{seen}");
        println!("lost");
        // While it waits its client goes on: on the other thread.
        block_in_place(|| answers.next()).unwrap().unwrap();
        let guard = Arc::into_inner(guard).expect("nobody else has it");
        assert!(guard.release().await.unwrap().already_gone);
    }
}
