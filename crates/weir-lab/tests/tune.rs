//! The papers' tunings in a namespace. Needs root.

use weir_kernel::Session;
use weir_lab::paper_tunings::{ALL_PAPERS_TUNINGS, TuningScope, apply_modern_namespace_tunings};

#[test]
fn namespace_tunings_are_applied_and_machine_tunings_unchanged() {
    let session = Session::new().unwrap();
    let namespace = session.create_namespace("tuned").unwrap();
    let of_machine =
        ALL_PAPERS_TUNINGS.iter().filter(|tuning| tuning.reach == TuningScope::Machine);
    let before: Vec<Option<String>> =
        of_machine.clone().map(|tuning| tuning.read_current_sysctl_value()).collect();
    let applied = apply_modern_namespace_tunings(&namespace).unwrap();
    assert!(applied.len() > 8, "{applied:?}");
    for tuning in applied {
        let now = namespace.read_sysctl(tuning.sysctl).unwrap().replace('\t', " ");
        assert_eq!(now, tuning.value, "{}", tuning.sysctl);
    }
    assert_eq!(
        of_machine.map(|tuning| tuning.read_current_sysctl_value()).collect::<Vec<_>>(),
        before
    );
}
