//! Tests that this machine cannot run.

/// Says that a test did not run and what it lacked; the caller returns after it.
///
/// With `WEIR_REQUIRE_ALL=1`, as `cargo xtask ci` sets it, a test must not be skipped: it fails.
///
/// ```
/// fn needs_ipset() {
///     if !std::path::Path::new("/").exists() {
///         return weir_testkit::skip_test("needs ipset, which is not installed");
///     }
/// }
/// # needs_ipset();
/// ```
///
/// # Panics
/// With `WEIR_REQUIRE_ALL=1`.
#[track_caller]
pub fn skip_test(what: &str) {
    report_skip_or_panic(what, std::env::var_os("WEIR_REQUIRE_ALL").is_some_and(|v| v == "1"));
}

/// Whether the test must be skipped because it creates network namespaces; this has been reported
/// then.
///
/// # Panics
/// As [`skip_test`] does.
#[track_caller]
pub fn skip_without_root() -> bool {
    let lacks = !rustix::process::geteuid().is_root();
    if lacks {
        skip_test("needs root: it makes network namespaces");
    }
    lacks
}

#[track_caller]
fn report_skip_or_panic(what: &str, all_must_run: bool) {
    assert!(!all_must_run, "did not run: {what}");
    eprintln!("did not run: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_panics_if_skipping_is_forbidden() {
        report_skip_or_panic("needs the moon", false);
        let failed = std::panic::catch_unwind(|| report_skip_or_panic("needs the moon", true))
            .expect_err("fails");
        let text = failed.downcast_ref::<String>().expect("a message");
        assert_eq!(text, "did not run: needs the moon");
    }
}
