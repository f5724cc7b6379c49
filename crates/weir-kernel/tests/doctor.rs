//! The doctor on the machine that runs the tests.

use weir_kernel::doctor::run_probes;

#[test]
fn every_doctor_probe_succeeds_on_this_machine() {
    let probes = run_probes();
    let lacking: Vec<_> = probes.iter().filter(|p| !p.ok).collect();
    assert!(lacking.is_empty(), "{lacking:#?}");
    for p in &probes {
        assert!(!p.name.is_empty() && !p.lacking.is_empty() && !p.detail.is_empty(), "{p:?}");
    }
    assert!(probes.len() > 15);
}
