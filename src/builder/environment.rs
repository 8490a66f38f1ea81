//! Settings from the environment.

use super::Builder;
use crate::error::BuildError;
use crate::quorum::trust::amnesia::RestartGuard;

impl Builder {
    /// Settings from the environment; what is not set keeps its default.
    ///
    /// `REDLOCK_NODES` (URLs, separated by commas), `REDLOCK_TTL`, `REDLOCK_MAX_TTL`,
    /// `REDLOCK_WAIT`, `REDLOCK_ROUND_TIMEOUT` (durations such as `250ms` or `10s`),
    /// `REDLOCK_PREFIX`, `REDLOCK_FENCED` (`true` or `false`) and `REDLOCK_RESTART_GUARD`
    /// (`observed`, `strict` or `off`). What cannot be read is reported by [`build`](Self::build).
    pub fn from_env() -> Self {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    pub(super) fn from_vars(var: impl Fn(&'static str) -> Option<String>) -> Self {
        let mut builder = Self::default();
        if let Some(nodes) = var("REDLOCK_NODES") {
            let urls = nodes.split(',').map(str::trim);
            builder = builder.nodes(urls.filter(|url| !url.is_empty()));
        }
        if let Some(prefix) = var("REDLOCK_PREFIX") {
            builder = builder.prefix(prefix);
        }
        let mut vars = Vars { var, problem: None };
        if let Some(ttl) = vars.read("REDLOCK_TTL", duration) {
            builder = builder.ttl(ttl);
        }
        if let Some(max_ttl) = vars.read("REDLOCK_MAX_TTL", duration) {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(wait) = vars.read("REDLOCK_WAIT", duration) {
            builder = builder.wait(wait);
        }
        if let Some(timeout) = vars.read("REDLOCK_ROUND_TIMEOUT", duration) {
            builder = builder.round_timeout(timeout);
        }
        if let Some(fenced) = vars.read("REDLOCK_FENCED", is_true) {
            builder = builder.fenced(fenced);
        }
        if let Some(guard) = vars.read("REDLOCK_RESTART_GUARD", guard) {
            builder = builder.restart_guard(guard);
        }
        builder.problem = vars.problem;
        builder
    }
}

/// Variables, and the first problem with one.
struct Vars<F> {
    var: F,
    problem: Option<BuildError>,
}

impl<F: Fn(&'static str) -> Option<String>> Vars<F> {
    fn read<T>(
        &mut self,
        setting: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let parsed = parse((self.var)(setting)?.trim());
        let note = |problem| {
            let problem = BuildError::InvalidSetting { setting, problem };
            self.problem.get_or_insert(problem);
        };
        parsed.map_err(note).ok()
    }
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("cannot be read: {error}"))
}

fn is_true(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err("is neither true nor false".into()),
    }
}

fn guard(text: &str) -> Result<RestartGuard, String> {
    match text.to_lowercase().as_str() {
        "observed" => Ok(RestartGuard::Observed),
        "strict" => Ok(RestartGuard::Strict),
        "off" => Ok(RestartGuard::Off),
        _ => Err("is none of observed, strict and off".into()),
    }
}
