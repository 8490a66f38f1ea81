//! What a lock is on.

use std::fmt;
use std::sync::Arc;

/// The resources of one lock: one, or those of a set, sorted, each once.
///
/// They are kept as the keys that they have at the nodes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Resources {
    keys: Arc<[Box<str>]>,
    /// So many bytes of each key stand before its resource.
    prefix: usize,
}

impl Resources {
    pub(crate) fn one(prefix: &str, resource: &str) -> Self {
        Self::all(prefix, [resource])
    }

    /// Their order does not matter, nor does it if one is named twice.
    pub(crate) fn all<R: AsRef<str>>(prefix: &str, resources: impl IntoIterator<Item = R>) -> Self {
        let key = |resource: R| format!("{prefix}{}", resource.as_ref()).into_boxed_str();
        let mut keys: Vec<_> = resources.into_iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        Self {
            keys: keys.into(),
            prefix: prefix.len(),
        }
    }

    pub(crate) const fn keys(&self) -> &Arc<[Box<str>]> {
        &self.keys
    }

    /// The key of the first.
    pub(crate) fn key(&self) -> &str {
        self.keys.first().map_or("", |key| key)
    }

    pub(crate) fn prefix(&self) -> &str {
        let key = self.keys.first();
        key.and_then(|key| key.get(..self.prefix))
            .unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let prefix = self.prefix;
        let resources = self.keys.iter().map(move |key| key.get(prefix..));
        resources.map(Option::unwrap_or_default)
    }

    /// The first, which is the only one unless it is a set.
    pub(crate) fn first(&self) -> &str {
        self.iter().next().unwrap_or_default()
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repetition_do_not_matter_and_borders_do() {
        let set = |resources: &[&str]| Resources::all("p:", resources.iter().copied());
        assert_eq!(set(&["b", "a", "b"]), set(&["a", "b"]));
        assert_ne!(set(&["ab", "c"]), set(&["a", "bc"]));
        let resources = set(&["y", "x"]);
        assert!(resources.iter().eq(["x", "y"]), "{resources:?}");
        assert!(resources.keys().iter().map(|key| &**key).eq(["p:x", "p:y"]));
        assert_eq!((resources.prefix(), resources.first()), ("p:", "x"));
    }
}
