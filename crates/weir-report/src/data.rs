//! The records themselves, carried inside the page as `data:` links.

use std::fmt::Write;

use weir_stats::{Record, Trial};

/// The trials as comma separated values, one line each, with a line of headings.
pub(crate) fn csv(record: &Record) -> String {
    let axes: Vec<&str> = record.run.axes.iter().map(|axis| axis.name.as_str()).collect();
    let mut text = String::from("number,kind,subject,copy,block,order,leg,repeat");
    for axis in &axes {
        let _ = write!(text, ",{}", field(axis));
    }
    text.push_str(
        ",offered,delivered,leaked,foreign,to_drop,missing,seconds,pps,rate_pps,additions,\
         psi,steal,spin_ratio,switches,state,why\n",
    );
    for trial in &record.trials {
        line(&mut text, trial, &axes);
    }
    text
}

fn line(text: &mut String, trial: &Trial, axes: &[&str]) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "{},{},{},{},{},{},{},{}",
        trial.number,
        word(&trial.kind),
        field(&trial.subject),
        trial.copy,
        trial.block,
        trial.order,
        trial.leg,
        trial.repeat
    );
    for axis in axes {
        let value = trial.scenario.coordinate(axis).map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, ",{}", field(&value));
    }
    let _ = writeln!(
        text,
        ",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        trial.offered,
        trial.delivered,
        trial.leaked,
        trial.foreign,
        trial.to_drop,
        trial.missing(),
        trial.seconds,
        trial.pps,
        trial.rate_pps,
        trial.additions(),
        trial.noise.psi,
        trial.noise.steal,
        trial.noise.spin_ratio,
        trial.noise.switches,
        word(&trial.state),
        field(trial.why.as_deref().unwrap_or(""))
    );
}

/// The run and its trials as one JSON value: `{"run": …, "trials": […]}`.
pub(crate) fn json(record: &Record) -> String {
    let value = serde_json::json!({ "run": record.run, "trials": record.trials });
    value.to_string()
}

/// The word that a value is in JSON, e.g. of a state.
fn word<T: serde::Serialize>(value: &T) -> String {
    let json = serde_json::to_value(value).ok();
    json.as_ref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

/// A field of CSV: quoted where it must be (RFC 4180), and never read as a formula.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guarded = if formula { format!("'{text}") } else { text.to_owned() };
    if guarded.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", guarded.replace('"', "\"\""))
    } else {
        guarded
    }
}

/// A link that holds `text`.
pub(crate) fn link(media_type: &str, text: &str) -> String {
    format!("data:{media_type};charset=utf-8;base64,{}", base64(text.as_bytes()))
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            if place <= chunk.len() {
                let digit = bits >> (18 - 6 * place) & 63;
                text.push(char::from(ALPHABET[digit as usize]));
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
    use crate::sample;

    #[test]
    fn base64_is_that_of_the_rfc() {
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
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn a_trial_is_a_line_with_as_many_fields_as_headings() {
        let record = sample::record();
        let text = csv(&record);
        let mut lines = text.lines();
        let headings = lines.next().unwrap_or_default().split(',').count();
        assert!(headings > 20);
        assert_eq!(text.lines().count(), 1 + record.trials.len());
        for line in lines {
            assert_eq!(line.split(',').count(), headings, "{line}");
        }
    }

    #[test]
    fn fields_that_a_spreadsheet_would_misread_are_guarded() {
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(field("=1+1"), "'=1+1");
        assert_eq!(field("plain"), "plain");
    }

    #[test]
    fn the_json_can_be_read_back() {
        let record = sample::record();
        let value: serde_json::Value = serde_json::from_str(&json(&record)).expect("it is JSON");
        let trials: Vec<Trial> =
            serde_json::from_value(value["trials"].clone()).expect("trials are trials");
        assert_eq!(trials.len(), record.trials.len());
        for (read, written) in trials.iter().zip(&record.trials) {
            assert_eq!((read.number, &read.subject), (written.number, &written.subject));
            assert_eq!((&read.scenario, read.delivered), (&written.scenario, written.delivered));
            assert!((read.pps / written.pps - 1.0).abs() < 1e-12 || read.pps == written.pps);
        }
    }
}
