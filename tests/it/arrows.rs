//! Which part of the crate imports which: `docs/architecture.md` promises a direction.

use std::collections::BTreeSet;

use crate::text::files;

/// The parts of the crate that the library code of a folder names, apart from itself.
fn imports(folder: &str) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    for (path, source) in files(&format!("src/{folder}"), "rs") {
        let is_test = path.components().any(|part| {
            let name = part.as_os_str();
            name == "tests" || name == "tests.rs" || name == "model" || name == "model.rs"
        });
        let lines = source
            .lines()
            .take_while(|line| !line.starts_with("mod tests {"))
            .filter(|line| !is_test && !line.trim_start().starts_with("//"));
        for line in lines {
            for (_, rest) in line
                .match_indices("crate::")
                .map(|(at, it)| (at, &line[at + it.len()..]))
            {
                let name = rest
                    .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .next();
                parts.extend(name.map(String::from));
            }
        }
    }
    parts.remove(folder);
    parts
}

#[test]
fn the_arrows_between_the_parts_have_one_direction() {
    let only = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let core: BTreeSet<String> = only(&[]);
    assert_eq!(imports("quorum"), core);
    let node: BTreeSet<String> = only(&["clock", "quorum", "telemetry", "token"]);
    assert_eq!(imports("node"), node);
    let driver: BTreeSet<String> = only(&["clock", "node", "quorum", "token"]);
    assert_eq!(imports("driver"), driver);
}
