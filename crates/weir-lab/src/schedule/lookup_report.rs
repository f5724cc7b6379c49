//! What the `measure` command of a subject prints: the JSON of `weir bench classify` for one
//! engine.

use serde::Deserialize;
use weir_stats::LookupMeasurement;

#[derive(Deserialize)]
struct LookupReport {
    engines: Vec<EngineReport>,
}

#[derive(Deserialize)]
struct EngineReport {
    state: ReportedEngineState,
    reason: Option<String>,
    first_match_pps: Option<TurnMedian>,
    count_all_pps: Option<TurnMedian>,
    updates_per_second: Option<TurnMedian>,
    build_seconds: Option<TurnMedian>,
    bytes_per_rule: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReportedEngineState {
    Measured,
    Refused,
    Wrong,
}

/// Of a median with its range, the median: the range is that of one process.
#[derive(Clone, Copy, Deserialize)]
struct TurnMedian {
    median: f64,
}

/// The measurement of a program, or why its trial failed.
#[derive(Debug, PartialEq)]
pub(super) enum LookupMeasurementOrWrongAnswer {
    /// Rates, or a refusal.
    Measured(LookupMeasurement),
    /// An answer was wrong; the text says which.
    WrongAnswer(String),
}

/// Reads the report of one engine.
///
/// # Errors
/// Text that is not such a report, with what is wrong.
pub(super) fn parse_lookup_report(text: &str) -> Result<LookupMeasurementOrWrongAnswer, String> {
    let report: LookupReport = serde_json::from_str(text)
        .map_err(|error| format!("not the JSON of `weir bench classify`: {error}"))?;
    let [engine] = &report.engines[..] else {
        return Err(format!("{} engines; a subject is one", report.engines.len()));
    };
    let reason = engine.reason.clone().unwrap_or_default();
    let median = |turns: Option<TurnMedian>| turns.map(|turns| turns.median);
    Ok(match engine.state {
        ReportedEngineState::Wrong => LookupMeasurementOrWrongAnswer::WrongAnswer(reason),
        ReportedEngineState::Refused => {
            LookupMeasurementOrWrongAnswer::Measured(LookupMeasurement::of_refusal(reason))
        }
        ReportedEngineState::Measured if engine.first_match_pps.is_none() => {
            return Err("a measured engine without `first_match_pps`".to_owned());
        }
        ReportedEngineState::Measured => {
            LookupMeasurementOrWrongAnswer::Measured(LookupMeasurement {
                refusal: None,
                first_match_pps: median(engine.first_match_pps),
                count_all_pps: median(engine.count_all_pps),
                updates_per_second: median(engine.updates_per_second),
                build_seconds: median(engine.build_seconds),
                bytes_per_rule: engine.bytes_per_rule,
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(engines: &str) -> Result<LookupMeasurementOrWrongAnswer, String> {
        parse_lookup_report(&format!("{{\"command\":\"bench classify\",\"engines\":[{engines}]}}"))
    }

    #[test]
    fn a_measured_engine_has_the_medians_of_its_turns() {
        let turns = |median: u32| format!("{{\"median\":{median},\"min\":1,\"max\":9}}");
        let engine = format!(
            "{{\"engine\":\"dag\",\"state\":\"measured\",\"first_match_pps\":{},\
             \"count_all_pps\":{},\"bytes_per_rule\":40.5}}",
            turns(7),
            turns(3)
        );
        let LookupMeasurementOrWrongAnswer::Measured(measured) = report(&engine).unwrap() else {
            panic!("no answer was wrong");
        };
        assert_eq!(measured.first_match_pps, Some(7.0));
        assert_eq!(measured.count_all_pps, Some(3.0));
        assert_eq!(measured.bytes_per_rule, Some(40.5));
        assert_eq!((measured.updates_per_second, measured.refusal), (None, None));
    }

    #[test]
    fn a_refusal_is_a_measurement_and_a_wrong_answer_is_not() {
        let refused = report("{\"state\":\"refused\",\"reason\":\"too large\"}").unwrap();
        assert_eq!(
            refused,
            LookupMeasurementOrWrongAnswer::Measured(LookupMeasurement::of_refusal("too large"))
        );
        let wrong = report("{\"state\":\"wrong\",\"reason\":\"packet 3\"}").unwrap();
        assert_eq!(wrong, LookupMeasurementOrWrongAnswer::WrongAnswer("packet 3".to_owned()));
    }

    #[test]
    fn other_text_is_no_report() {
        for (engines, message) in [
            ("", "0 engines"),
            ("{\"state\":\"refused\"},{\"state\":\"refused\"}", "2 engines"),
            ("{\"state\":\"measured\"}", "without `first_match_pps`"),
            ("{\"state\":\"tired\"}", "not the JSON of"),
        ] {
            let error = report(engines).unwrap_err();
            assert!(error.contains(message), "{engines}: {error}");
        }
        assert!(parse_lookup_report("dropped 3").is_err());
    }
}
