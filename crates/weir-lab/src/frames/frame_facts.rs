//! Facts of frames, reported by the command that generates them: `FRAMES.facts`, with a name and a
//! number per line.
//!
//! The laboratory does not interpret the names. A study states bounds for facts, and a run whose
//! frames violate them is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weir_stats::ClaimBounds;

use crate::LabError;

/// The file with the facts of frames.
pub fn frame_facts_path(pcap: &Path) -> PathBuf {
    let mut name = pcap.as_os_str().to_owned();
    name.push(".facts");
    PathBuf::from(name)
}

/// Reads the facts of frames, and checks them against `required`; none if the command wrote none
/// and none are required.
pub(crate) fn read_and_check_frame_facts(
    pcap: &Path,
    required: &BTreeMap<String, ClaimBounds>,
) -> Result<BTreeMap<String, f64>, LabError> {
    let path = frame_facts_path(pcap);
    if !path.exists() && required.is_empty() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(&path).map_err(LabError::file_error("read", &path))?;
    parse_and_check_frame_facts(&text, required)
        .map_err(|message| LabError::UnexpectedFrames { path, message })
}

fn parse_and_check_frame_facts(
    text: &str,
    required: &BTreeMap<String, ClaimBounds>,
) -> Result<BTreeMap<String, f64>, String> {
    let mut facts = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let fact = line.split_once(' ').and_then(|(name, number)| {
            let number: f64 = number.trim().parse().ok()?;
            number.is_finite().then(|| (name.to_owned(), number))
        });
        let wrong = || format!("line {}: `{line}` is not a name and a number", at + 1);
        let (name, number) = fact.ok_or_else(wrong)?;
        facts.insert(name, number);
    }
    for (name, bounds) in required {
        match facts.get(name) {
            None => return Err(format!("the study requires `{name}`, which is missing")),
            Some(number) if !bounds.contains_value(*number) => {
                return Err(format!(
                    "`{name}` of the frames is {number}, the study requires {bounds}: the traffic \
                     does not fit the study"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(name: &str, min: f64) -> BTreeMap<String, ClaimBounds> {
        [(name.to_owned(), ClaimBounds { min: Some(min), max: None })].into()
    }

    #[test]
    fn frame_facts_outside_bounds_or_missing_are_refused() {
        let text = "packets 4096\nuser_chain_share 0\n";
        let facts = parse_and_check_frame_facts(text, &required("packets", 1.0)).unwrap();
        assert_eq!(facts["user_chain_share"], 0.0);
        let strangers = parse_and_check_frame_facts(text, &required("user_chain_share", 1.0));
        assert!(strangers.unwrap_err().contains("`user_chain_share` of the frames is 0"));
        let absent = parse_and_check_frame_facts(text, &required("rules", 1.0));
        assert!(absent.unwrap_err().contains("`rules`, which is missing"));
    }

    #[test]
    fn an_invalid_line_is_named() {
        for line in ["packets", "packets many", "packets inf"] {
            let text = format!("packets 1\n{line}\n");
            let refused = parse_and_check_frame_facts(&text, &BTreeMap::new()).unwrap_err();
            assert!(refused.starts_with("line 2: "), "{refused}");
        }
    }
}
