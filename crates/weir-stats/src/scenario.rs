//! Points of a study's grid.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A value on an axis: a number of rules, the name of a traffic pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Coordinate {
    /// A number.
    Number(u64),
    /// A name.
    Text(String),
}

impl Coordinate {
    /// The number, where it is one.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Coordinate::Number(n) => Some(*n),
            Coordinate::Text(_) => None,
        }
    }
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coordinate::Number(n) => write!(f, "{n}"),
            Coordinate::Text(text) => f.write_str(text),
        }
    }
}

impl From<u64> for Coordinate {
    fn from(n: u64) -> Coordinate {
        Coordinate::Number(n)
    }
}

impl From<&str> for Coordinate {
    fn from(text: &str) -> Coordinate {
        Coordinate::Text(text.to_owned())
    }
}

/// One point of a study's grid: the value of each axis by the axis's name.
///
/// Printed as `rules=1024 source=near`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scenario(pub BTreeMap<String, Coordinate>);

impl Scenario {
    /// The same point with `axis` at `value`.
    pub fn with_coordinate(&self, axis: &str, value: impl Into<Coordinate>) -> Scenario {
        let mut scenario = self.clone();
        scenario.0.insert(axis.to_owned(), value.into());
        scenario
    }

    /// The value on an axis.
    pub fn coordinate(&self, axis: &str) -> Option<&Coordinate> {
        self.0.get(axis)
    }

    /// The part of this point that lies on `axes`.
    pub fn project_to_axes<S: AsRef<str>>(&self, axes: &[S]) -> Scenario {
        let named = |name: &String| axes.iter().any(|axis| axis.as_ref() == name);
        Scenario(
            self.0.iter().filter(|(name, _)| named(name)).map(clone_axis_name_and_value).collect(),
        )
    }

    /// Whether every axis that `part` names has the same value here.
    pub fn has_coordinates_of(&self, part: &Scenario) -> bool {
        part.0.iter().all(|(axis, value)| self.0.get(axis) == Some(value))
    }
}

fn clone_axis_name_and_value((name, value): (&String, &Coordinate)) -> (String, Coordinate) {
    (name.clone(), value.clone())
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (axis, value)) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{axis}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_contains_its_own_coordinates_only() {
        let point =
            Scenario::default().with_coordinate("rules", 16).with_coordinate("source", "near");
        assert!(point.has_coordinates_of(&Scenario::default().with_coordinate("rules", 16)));
        assert!(!point.has_coordinates_of(&Scenario::default().with_coordinate("rules", 32)));
        assert!(!point.has_coordinates_of(&Scenario::default().with_coordinate("size", 16)));
        assert_eq!(
            point.project_to_axes(&["rules"]),
            Scenario::default().with_coordinate("rules", 16)
        );
        assert_eq!(point.to_string(), "rules=16 source=near");
    }
}
