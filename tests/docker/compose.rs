//! The compose file is accepted by whichever Compose is installed.

use std::process::{Command, Output};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docker-compose.redlock.yml");

/// Runs Compose 1 or 2; `None` when neither is installed.
fn compose(arguments: &[&str]) -> Option<Output> {
    let installed = |command: &[&str]| {
        Command::new(command[0])
            .args(&command[1..])
            .arg("version")
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let forms: [&[&str]; 2] = [&["docker", "compose"], &["docker-compose"]];
    let command = forms.into_iter().find(|form| installed(form))?;
    let output = Command::new(command[0])
        .args(&command[1..])
        .args(["-f", FILE])
        .args(arguments)
        .output();
    Some(output.expect("it ran a moment ago"))
}

#[test]
fn the_compose_file_is_accepted() {
    let Some(output) = compose(&["config"]) else {
        eprintln!("skipped: neither docker compose nor docker-compose is installed");
        return;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let resolved = String::from_utf8(output.stdout).unwrap();
    for n in 1..=5 {
        assert!(resolved.contains(&format!("redlock-{n}:")), "{resolved}");
    }
    assert_eq!(resolved.matches("noeviction").count(), 5, "{resolved}");
}
