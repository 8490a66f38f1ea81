//! The longer texts: the files of `docs/`, as they were when this version was made.
//!
//! Their code is compiled with the crate's tests, and the tests that they name exist.

macro_rules! page {
    ($page:ident, $file:literal) => {
        // In the repository the pages link to each other as files. The first definition of a link
        // counts: here they are modules.
        #[doc = "[architecture.md]: crate::docs::architecture"]
        #[doc = "[benchmarks.md]: crate::docs::benchmarks"]
        #[doc = "[failure-modes.md]: crate::docs::failure_modes"]
        #[doc = "[fencing.md]: crate::docs::fencing"]
        #[doc = "[operations.md]: crate::docs::operations"]
        #[doc = "[safety.md]: crate::docs::safety"]
        #[doc = "[verification.md]: crate::docs::verification"]
        #[doc = "[waiting.md]: crate::docs::waiting"]
        #[doc = ""]
        #[doc = include_str!($file)]
        pub mod $page {}
    };
}

page!(safety, "../docs/safety.md");
page!(fencing, "../docs/fencing.md");
page!(waiting, "../docs/waiting.md");
page!(failure_modes, "../docs/failure-modes.md");
page!(operations, "../docs/operations.md");
page!(architecture, "../docs/architecture.md");
page!(benchmarks, "../docs/benchmarks.md");
page!(verification, "../docs/verification.md");
