//! Look-ups in user space: what a program reports is recorded, what it refuses too.
//!
//! It needs root. The programs are invented: each prints a report. No time is asserted.

mod common;

use weir_lab::LabError;
use weir_stats::{Quantity, RunRecord, Trial, TrialKind, TrialState};

use common::run_study;

const SUBJECTS: &str = r#"
[measured]
title = "measured"
about = "its rate is the number of rules"
measure = '''
rate=$(wc -l < "$RULESET")
echo "{\"engines\":[{\"state\":\"measured\",\"first_match_pps\":{\"median\":$rate},\"bytes_per_rule\":8}]}"
'''

[refusing]
title = "refuses"
about = "takes no more than two rules"
measure = '''
test "$RULES" -gt 2 || { echo '{"engines":[{"state":"measured","first_match_pps":{"median":5}}]}'; exit; }
echo '{"engines":[{"state":"refused","reason":"too many rules"}]}'
'''

[wrong]
title = "wrong"
about = "gives a wrong answer"
measure = '''echo '{"engines":[{"state":"wrong","reason":"packet 3"}]}' '''

[silent]
title = "silent"
about = "prints no report"
measure = "true"
"#;

const STUDY: &str = r#"
title = "A small study"
question = "Is every report recorded?"
subjects = ["measured", "refusing", "wrong"]
[axes.rules]
title = "rules"
values = [2, 7]
[ruleset]
axes = ["rules"]
command = 'yes | head -n "$RULES" > "$RULESET"'
[traffic]
kind = "lookups"
[again]
subject = "measured"
ANY_NOISE
[presets.tiny]
label = "for a test"
trial_seconds = 0.01
blocks = 2
loads = 0
"#;

fn of<'a>(record: &'a RunRecord, subject: &str, rules: u64) -> Vec<&'a Trial> {
    let is_one = |trial: &&Trial| {
        trial.subject == subject
            && trial.copy_index == 0
            && trial.scenario.coordinate("rules") == Some(&rules.into())
    };
    let trials: Vec<&Trial> = record.trials.iter().filter(is_one).collect();
    let is_refused = subject == "refusing" && rules > 2;
    let expected = if is_refused { 1 } else { 4 };
    assert_eq!(trials.len(), expected, "{subject}: two blocks, there and back; a refusal once");
    assert!(trials.iter().all(|trial| trial.kind == TrialKind::Lookups));
    trials
}

#[test]
fn reports_and_refusals_are_recorded_and_wrong_answers_fail() {
    let record = run_study(&common::study("lookups", "today-lookups", SUBJECTS, STUDY)).unwrap();
    for trial in of(&record, "measured", 7) {
        assert_eq!(trial.state, TrialState::Accepted);
        assert_eq!(Quantity::LookupsPerSecond.value_in_trial(trial), Some(7.0));
        assert_eq!(Quantity::BytesPerRule.value_in_trial(trial), Some(8.0));
        assert_eq!(Quantity::UpdatesPerSecond.value_in_trial(trial), None);
    }
    for trial in of(&record, "refusing", 7) {
        assert_eq!(trial.state, TrialState::Accepted, "a refusal is a result");
        let refusal = trial.lookup_measurement().unwrap().refusal.as_deref();
        assert_eq!(refusal, Some("too many rules"));
    }
    for trial in of(&record, "refusing", 2) {
        assert_eq!(Quantity::LookupsPerSecond.value_in_trial(trial), Some(5.0));
    }
    for trial in of(&record, "wrong", 2) {
        assert_eq!(trial.state, TrialState::Failed);
        assert!(trial.rejection_reason.as_deref().unwrap().contains("packet 3"));
    }
    assert_eq!(record.run.noise_floor.as_ref().map(|floor| floor.ratio.value), Some(1.0));
    assert!(record.run.subjects.iter().all(|subject| !subject.load.is_empty()));
}

#[test]
fn a_program_without_a_report_ends_the_run() {
    let text = STUDY.replace("\"wrong\"]", "\"silent\"]");
    let study = common::study("lookups-silent", "today-lookups", SUBJECTS, &text);
    let error = run_study(&study).unwrap_err();
    assert!(matches!(error, LabError::CommandFailed { .. }), "{error}");
    assert!(error.to_string().contains("not the JSON of `weir bench classify`"), "{error}");
}
