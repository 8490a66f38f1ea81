//! Is a server up, and is it the one that was started?
//!
//! A bare exchange over a `TcpStream`: another process may have taken the port, so the answer has to come from the
//! right process id.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It answers, but is still reading its data.
    Loading,
    Up,
    /// A server answers that is not `pid`.
    Foreign,
}

/// Asks whoever listens at `address`.
pub(super) fn ask(address: SocketAddr, password: Option<&str>, pid: u32) -> io::Result<State> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut request = String::new();
    if let Some(password) = password {
        request.push_str(&encoded(&["AUTH", password]));
    }
    request.push_str(&encoded(&["INFO", "server"]));
    request.push_str(&encoded(&["PING"]));
    stream.write_all(request.as_bytes())?;

    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend(chunk.iter().take(read));
        if let Some(state) = judged(&String::from_utf8_lossy(&answer), pid) {
            return Ok(state);
        }
    }
}

/// The verdict on what was answered, once the reply to `PING` is there.
fn judged(answer: &str, pid: u32) -> Option<State> {
    let last = answer.strip_suffix("\r\n")?.rsplit("\r\n").next()?;
    if last != "+PONG" && !last.starts_with('-') {
        return None;
    }
    let told = answer
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"));
    // A server that forbids INFO cannot be told from another: taken for the right one.
    if told.is_some_and(|told| told != pid.to_string()) {
        return Some(State::Foreign);
    }
    Some(if last.starts_with("-LOADING") {
        State::Loading
    } else {
        State::Up
    })
}

fn encoded(words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "+OK\r\n$17\r\nprocess_id:4242\r\n\r\n";

    #[test]
    fn waits_for_the_last_reply() {
        assert_eq!(judged(INFO, 4242), None);
        assert_eq!(judged(&format!("{INFO}+PON"), 4242), None);
    }

    #[test]
    fn tells_a_foreign_server_by_its_process_id() {
        assert_eq!(judged(&format!("{INFO}+PONG\r\n"), 4242), Some(State::Up));
        assert_eq!(
            judged(&format!("{INFO}+PONG\r\n"), 4243),
            Some(State::Foreign)
        );
    }

    #[test]
    fn tells_a_server_that_is_loading() {
        assert_eq!(
            judged(&format!("{INFO}-LOADING wait\r\n"), 4242),
            Some(State::Loading)
        );
    }

    #[test]
    fn a_server_that_forbids_everything_is_up() {
        assert_eq!(
            judged("-NOPERM no\r\n-NOPERM no\r\n", 4242),
            Some(State::Up)
        );
    }
}
