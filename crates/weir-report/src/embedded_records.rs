//! The records themselves, embedded in the page as `data:` links.

use weir_stats::{RunRecord, Trial};

/// What precedes the coordinates of a trial, and what follows them.
const CSV_COLUMNS_BEFORE_AXES: [&str; 8] =
    ["number", "kind", "subject", "copy", "block", "order", "leg", "repeat"];
const CSV_COLUMNS_AFTER_AXES: [&str; 16] = [
    "offered",
    "delivered",
    "leaked",
    "foreign",
    "to_drop",
    "missing",
    "seconds",
    "pps",
    "rate_pps",
    "additions",
    "psi",
    "steal",
    "spin_ratio",
    "switches",
    "state",
    "why",
];

/// The trials as comma separated values, one line each, with a line of headings.
pub(crate) fn trials_to_csv(record: &RunRecord) -> String {
    let axes: Vec<&str> = record.run.axes.iter().map(|axis| axis.name.as_str()).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |fields: Vec<String>| {
        writer.write_record(fields).expect("writing to memory, as many fields in every line");
    };
    let names = CSV_COLUMNS_BEFORE_AXES.iter().chain(&axes).chain(&CSV_COLUMNS_AFTER_AXES);
    write(names.map(|name| escape_spreadsheet_formula(name)).collect());
    for trial in &record.trials {
        write(trial_csv_fields(trial, &axes));
    }
    let text = writer.into_inner().expect("writing to memory cannot fail");
    String::from_utf8(text).expect("every field is text")
}

/// The fields of a trial, in the order of the headings.
fn trial_csv_fields(trial: &Trial, axes: &[&str]) -> Vec<String> {
    let before = [
        trial.number.to_string(),
        serialized_variant_name(&trial.kind),
        escape_spreadsheet_formula(&trial.subject),
        trial.copy_index.to_string(),
        trial.block.to_string(),
        trial.order_in_block.to_string(),
        trial.abba_leg.to_string(),
        trial.repeat_count.to_string(),
    ];
    let at = axes.iter().map(|axis| {
        escape_spreadsheet_formula(
            &trial.scenario.coordinate(axis).map(ToString::to_string).unwrap_or_default(),
        )
    });
    let behind = [
        trial.offered.to_string(),
        trial.delivered.to_string(),
        trial.leaked.to_string(),
        trial.foreign.to_string(),
        trial.expected_drops.to_string(),
        trial.unaccounted_packets().to_string(),
        trial.seconds.to_string(),
        trial.correct_verdict_pps.to_string(),
        trial.rate_pps.to_string(),
        trial.added_rule_count_or_zero().to_string(),
        trial.noise.psi.to_string(),
        trial.noise.steal.to_string(),
        trial.noise.spin_ratio.to_string(),
        trial.noise.generator_preemptions.to_string(),
        serialized_variant_name(&trial.state),
        escape_spreadsheet_formula(trial.rejection_reason.as_deref().unwrap_or("")),
    ];
    before.into_iter().chain(at).chain(behind).collect()
}

/// The run and its trials as one JSON value: `{"run": …, "trials": […]}`.
pub(crate) fn run_and_trials_to_json(record: &RunRecord) -> String {
    let value = serde_json::json!({ "run": record.run, "trials": record.trials });
    value.to_string()
}

/// The word that a value is in JSON, e.g. of a state.
fn serialized_variant_name<T: serde::Serialize>(value: &T) -> String {
    let json = serde_json::to_value(value).ok();
    json.as_ref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// Text that a spreadsheet does not take for a formula.
fn escape_spreadsheet_formula(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula { format!("'{text}") } else { text.to_owned() }
}

/// A link that holds `text`.
pub(crate) fn data_url(media_type: &str, text: &str) -> String {
    format!("data:{media_type};charset=utf-8;base64,{}", encode_base64(text.as_bytes()))
}

/// Base64 with padding (RFC 4648, section 4).
fn encode_base64(bytes: &[u8]) -> String {
    const BASE64_ALPHABET: &[u8; 64] =
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            if place <= chunk.len() {
                let digit = bits >> (18 - 6 * place) & 63;
                text.push(char::from(BASE64_ALPHABET[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    #[test]
    fn base64_encodes_the_rfc_test_vectors() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in cases {
            assert_eq!(encode_base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn every_csv_line_has_as_many_fields_as_the_header() {
        let record = sample_records::sample_record();
        let text = trials_to_csv(&record);
        let mut lines = text.lines();
        let headings = lines.next().unwrap_or_default().split(',').count();
        assert!(headings > 20);
        assert_eq!(text.lines().count(), 1 + record.trials.len());
        for line in lines {
            assert_eq!(line.split(',').count(), headings, "{line}");
        }
    }

    #[test]
    fn csv_fields_that_spreadsheets_misinterpret_are_escaped() {
        let mut record = sample_records::sample_record();
        for (text, field) in [
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "'=1+1"),
            ("two\nlines", "\"two\nlines\""),
            ("plain", "plain"),
        ] {
            record.trials[0].subject = text.to_owned();
            assert!(trials_to_csv(&record).contains(&format!("\n0,rate,{field},")), "{field}");
        }
    }

    #[test]
    fn the_json_can_be_read_back() {
        let record = sample_records::sample_record();
        let value: serde_json::Value =
            serde_json::from_str(&run_and_trials_to_json(&record)).expect("it is JSON");
        let trials: Vec<Trial> =
            serde_json::from_value(value["trials"].clone()).expect("trials are trials");
        assert_eq!(trials.len(), record.trials.len());
        for (read, written) in trials.iter().zip(&record.trials) {
            assert_eq!((read.number, &read.subject), (written.number, &written.subject));
            assert_eq!((&read.scenario, read.delivered), (&written.scenario, written.delivered));
            assert!(
                (read.correct_verdict_pps / written.correct_verdict_pps - 1.0).abs() < 1e-12
                    || read.correct_verdict_pps == written.correct_verdict_pps
            );
        }
    }
}
