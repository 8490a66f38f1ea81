//! What must stand in the documentation of public items.
//!
//! - An asynchronous function, and a future, says under `# Cancel safety` what happens when it is dropped.
//! - A function that returns a `Result` says under `# Errors` when it fails.
//!
//! The sources are read as text, formatted as rustfmt does. Everything that is `pub` without restriction
//! counts: the lint `unreachable_pub` sees to it that such items can be reached.

use crate::text::files;

/// An item with what stands before its body.
struct Item {
    name: String,
    docs: String,
    signature: String,
}

/// The public functions and types of one source file, up to the tests in it.
fn items(source: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut docs = String::new();
    let mut lines = source
        .lines()
        .take_while(|line| !line.starts_with("mod tests {"));
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            docs.push_str(doc.trim());
            docs.push('\n');
            continue;
        }
        if line.starts_with("#[") || line.starts_with("//") {
            continue;
        }
        let is_item = [
            "pub fn ",
            "pub const fn ",
            "pub async fn ",
            "pub struct ",
            "pub enum ",
        ]
        .iter()
        .any(|start| line.starts_with(start));
        if is_item {
            let mut signature = line.to_owned();
            while !signature.contains(['{', ';']) {
                let Some(next) = lines.next() else { break };
                signature.push(' ');
                signature.push_str(next.trim());
            }
            let words = signature.split([' ', '(', '<', '{', ';']);
            let name = words
                .skip_while(|word| !matches!(*word, "fn" | "struct" | "enum"))
                .nth(1);
            items.push(Item {
                name: name.unwrap_or_default().to_owned(),
                docs: std::mem::take(&mut docs),
                signature,
            });
        } else {
            docs.clear();
        }
    }
    items
}

/// The types of one source file that are awaited.
fn futures(source: &str) -> Vec<&str> {
    let implementation = |line: &'_ str| -> Option<usize> {
        let is_one = line.starts_with("impl") && (line.contains("Future for "));
        is_one.then(|| line.find(" for ")).flatten()
    };
    source
        .lines()
        .filter_map(|line| {
            let place = implementation(line)?;
            line.get(place + 5..)?.split([' ', '<']).next()
        })
        .collect()
}

fn faults(source: &str) -> Vec<String> {
    let futures = futures(source);
    let mut faults = Vec::new();
    for item in items(source) {
        let returns_result = item
            .signature
            .split_once("->")
            .is_some_and(|(_, output)| output.contains("Result<"));
        let mut must_say = |section: &str, applies: bool| {
            if applies && !item.docs.lines().any(|line| line == section) {
                faults.push(format!("{} has no `{section}`", item.name));
            }
        };
        must_say("# Errors", returns_result);
        must_say(
            "# Cancel safety",
            item.signature.starts_with("pub async fn ") || futures.contains(&&*item.name),
        );
    }
    faults
}

#[test]
fn errors_and_cancel_safety_are_documented() {
    let faults: Vec<String> = files("src", "rs")
        .iter()
        .flat_map(|(path, source)| {
            let path = path.display();
            let told = move |fault| format!("{path}: {fault}");
            faults(source).into_iter().map(told)
        })
        .collect();
    assert_eq!(faults, [""; 0]);
}

#[test]
fn what_is_not_documented_is_found() {
    let source = "
        /// Does.
        ///
        /// # Errors
        ///
        /// Never.
        #[must_use]
        pub async fn does(
            self,
        ) -> io::Result<()> {
            /// # Cancel safety
            helper()
        }
        pub(crate) async fn hidden() -> Result<(), ()> {}
        /// # Cancel safety
        pub async fn fine() {}
        pub fn fails(input: impl Fn() -> Result<(), ()>) -> Result<(), ()> {}
        /// Is awaited.
        pub struct Waiting {
        }
impl<T> Future for Waiting {
        ";
    assert_eq!(
        faults(source),
        [
            "does has no `# Cancel safety`",
            "fails has no `# Errors`",
            "Waiting has no `# Cancel safety`"
        ]
    );
}

/// The scan sees what it shall judge.
#[test]
fn the_scan_finds_the_public_interface() {
    let mut names = Vec::new();
    let mut awaited = Vec::new();
    for (_, source) in files("src", "rs") {
        names.extend(items(&source).into_iter().map(|item| item.name));
        awaited.extend(futures(&source).into_iter().map(String::from));
    }
    for name in ["extend", "release", "close", "build", "start", "Acquire"] {
        assert!(names.iter().any(|found| found == name), "{name}");
    }
    for name in ["Acquire", "Acquiring", "Lost"] {
        assert!(awaited.iter().any(|found| found == name), "{name}");
    }
}
