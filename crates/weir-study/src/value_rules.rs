//! What the values of a file may be: tables of rules, and the one walk that applies them.
//!
//! Serde checks the types of values. That a length is a finite number of seconds, that a name can
//! be that of a device, or that a list names nothing twice, is stated here: a [`ValueRuleAtPath`]
//! has the path of a value and its [`ValueRule`], and [`find_first_invalid_values`] applies the
//! rows to the parsed text, where every value still has its place. The rows are in
//! [`crate::value_rule_tables`].
//!
//! A number that serde accepts and that has no row is refused as well, so that a new field cannot
//! be used before its range is declared.

mod text_rules;

use std::fmt;

use toml::de::{DeArray, DeTable, DeValue};

use crate::toml_value_error::TomlValueError;

pub(crate) use self::text_rules::{
    check_axis_names, check_axis_value_text, check_device_name, check_file_name, check_not_blank,
    check_subject_names,
};

/// A rule for the values at a path.
///
/// The path has one segment for each level: the name of a key, `*` for any key, `[]` for each
/// element of an array.
pub(crate) struct ValueRuleAtPath {
    pub(crate) path: &'static str,
    pub(crate) rule: ValueRule,
}

/// What a value may be. A rule is about one type of value; serde refuses the others.
pub(crate) enum ValueRule {
    /// A number in a range.
    Number(NumberRange),
    /// A text.
    Text(fn(&str) -> Result<(), String>),
    /// The names of a table's keys.
    Keys(fn(&[&str]) -> Result<(), InvalidKey>),
    /// An array that has no element twice, and at least one, or none as well.
    DistinctElements { or_none: bool },
    /// An array of tables that differ in this key.
    DistinctInKey(&'static str),
    /// A table in which these two keys have different texts.
    DifferentTexts(&'static str, &'static str),
    /// A table with at least one of these numbers, which do not descend.
    AtLeastOneOrderedBound(&'static str, &'static str),
    /// A table whose first interval contains its second one; both have a `min`, a `max` or both.
    FirstIntervalContainsSecond(&'static str, &'static str),
    /// A table in which the second number, if both are there, is above the first.
    StrictlyAscendingPair(&'static str, &'static str),
}

/// Numbers from `min` to `max`, both included.
#[derive(Clone, Copy)]
pub(crate) struct NumberRange {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// 0 as well: the field's value if it is not given.
    pub(crate) or_zero: bool,
}

impl NumberRange {
    fn contains(self, value: f64) -> bool {
        (self.min..=self.max).contains(&value) || (self.or_zero && value == 0.0)
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zero = if self.or_zero { "0, or " } else { "" };
        write!(f, "{zero}{} to {}", self.min, self.max)
    }
}

/// A key that a rule refuses: its place in the list of keys, and why.
pub(crate) struct InvalidKey {
    pub(crate) index: usize,
    pub(crate) message: String,
}

/// A step from a value to one inside of it.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Key(&'a str),
    Element,
}

impl ValueRuleAtPath {
    fn matches_path(&self, path: &[PathStep<'_>]) -> bool {
        let mut segments = self.path.split('.').filter(|segment| !segment.is_empty());
        let fits = path.iter().all(|step| match (step, segments.next()) {
            (PathStep::Key(key), Some(segment)) => segment == "*" || segment == *key,
            (PathStep::Element, Some(segment)) => segment == "[]",
            (_, None) => false,
        });
        fits && segments.next().is_none()
    }
}

/// What the walk over a text found.
#[derive(Default)]
pub(crate) struct FirstInvalidValues {
    /// The first value that a rule refuses.
    pub(crate) refused: Option<TomlValueError>,
    /// The first number without a rule.
    pub(crate) undeclared_number: Option<TomlValueError>,
}

/// The first value of a parsed text that breaks a rule of `path_rules`, and the first number that
/// has none.
pub(crate) fn find_first_invalid_values(
    table: &DeTable<'_>,
    path_rules: &[ValueRuleAtPath],
) -> FirstInvalidValues {
    let mut walk = TomlValueWalk { value_rules: path_rules, found: FirstInvalidValues::default() };
    walk.visit_table(table, 0, &mut Vec::new());
    walk.found
}

struct TomlValueWalk<'r> {
    value_rules: &'r [ValueRuleAtPath],
    found: FirstInvalidValues,
}

impl TomlValueWalk<'_> {
    fn record_first_refusal(&mut self, offset: usize, message: String) {
        let error = || TomlValueError::new(&(offset..offset), message);
        self.found.refused.get_or_insert_with(error);
    }

    fn visit_value<'v>(&mut self, value: &'v DeValue<'_>, at: usize, path: &mut Vec<PathStep<'v>>) {
        match value {
            DeValue::Table(table) => self.visit_table(table, at, path),
            DeValue::Array(array) => self.visit_array(array, at, path),
            DeValue::String(text) => self.visit_text(text, at, path),
            DeValue::Integer(_) | DeValue::Float(_) => self.visit_number(value, at, path),
            DeValue::Boolean(_) | DeValue::Datetime(_) => {}
        }
    }

    fn visit_table<'v>(&mut self, table: &'v DeTable<'_>, at: usize, path: &mut Vec<PathStep<'v>>) {
        for (key, value) in table {
            if key.get_ref().contains('\0') {
                self.record_first_refusal(
                    key.span().start,
                    "a key contains the character NUL".to_owned(),
                );
            }
            path.push(PathStep::Key(key.get_ref()));
            self.visit_value(value.get_ref(), value.span().start, path);
            path.pop();
        }
        // After the values alone: an interval is about numbers in their ranges.
        for row in self.value_rules.iter().filter(|row| row.matches_path(path)) {
            if let Err((offset, message)) = check_table(&row.rule, table) {
                self.record_first_refusal(offset.unwrap_or(at), message);
            }
        }
    }

    fn visit_array<'v>(&mut self, array: &'v DeArray<'_>, at: usize, path: &mut Vec<PathStep<'v>>) {
        let name = describe_value_at_path(path);
        for row in self.value_rules.iter().filter(|row| row.matches_path(path)) {
            if let Err((offset, message)) = check_array(&row.rule, array, &name) {
                self.record_first_refusal(offset.unwrap_or(at), message);
            }
        }
        for value in array {
            path.push(PathStep::Element);
            self.visit_value(value.get_ref(), value.span().start, path);
            path.pop();
        }
    }

    fn visit_text(&mut self, text: &str, at: usize, path: &[PathStep<'_>]) {
        let name = describe_value_at_path(path);
        // No argument, variable or file name of a command can have it.
        if text.contains('\0') {
            self.record_first_refusal(at, format!("{name} contains the character NUL: remove it"));
        }
        for row in self.value_rules.iter().filter(|row| row.matches_path(path)) {
            if let ValueRule::Text(check) = row.rule
                && let Err(why) = check(text)
            {
                self.record_first_refusal(at, format!("{name} is {text:?}: {why}"));
            }
        }
    }

    fn visit_number(&mut self, value: &DeValue<'_>, at: usize, path: &[PathStep<'_>]) {
        let name = describe_value_at_path(path);
        let mut ranges =
            self.value_rules.iter().filter(|row| row.matches_path(path)).filter_map(|row| {
                if let ValueRule::Number(range) = row.rule { Some(range) } else { None }
            });
        let Some(range) = ranges.next() else {
            let message = format!("no range is declared for the number {name}");
            let error = || TomlValueError::new(&(at..at), message);
            self.found.undeclared_number.get_or_insert_with(error);
            return;
        };
        if number_of_value(value).is_none_or(|number| !range.contains(number)) {
            let written = text_of_value(value);
            self.record_first_refusal(at, format!("{name} is {written}: it takes {range}"));
        }
    }
}

/// The name of a value in a message.
fn describe_value_at_path(path: &[PathStep<'_>]) -> String {
    let key = path.iter().rev().find_map(|step| match step {
        PathStep::Key(key) => Some(*key),
        PathStep::Element => None,
    });
    let key = key.unwrap_or_default();
    match path.last() {
        Some(PathStep::Element) => format!("a value of `{key}`"),
        _ => format!("`{key}`"),
    }
}

/// A number as floating point; `None` for other values.
fn number_of_value(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(whole) => {
            i128::from_str_radix(whole.as_str(), whole.radix()).ok().map(|whole| whole as f64)
        }
        DeValue::Float(real) => real.as_str().parse().ok(),
        _ => None,
    }
}

/// A number or a text as it is written.
fn text_of_value(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(whole) => whole.to_string(),
        DeValue::Float(real) => real.to_string(),
        DeValue::String(text) => text.clone().into_owned(),
        other => other.type_str().to_owned(),
    }
}

/// What two values have in common if they are printed alike: `16`, `0x10` and `"16"`.
fn comparison_key(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(whole) => i128::from_str_radix(whole.as_str(), whole.radix())
            .map_or_else(|_| whole.to_string(), |number| number.to_string()),
        other => text_of_value(other),
    }
}

/// Where a table or an array breaks a rule, if not at its start, and how.
type PlaceAndReason = (Option<usize>, String);

fn check_table(rule: &ValueRule, table: &DeTable<'_>) -> Result<(), PlaceAndReason> {
    let number = |key: &str| number_of_value(table.get(key)?.get_ref());
    let place = |key: &str| table.get(key).map(|value| value.span().start);
    match *rule {
        ValueRule::Keys(check) => {
            let mut keys: Vec<_> = table.keys().collect();
            keys.sort_by_key(|key| key.span().start);
            let names: Vec<&str> = keys.iter().map(|key| key.get_ref().as_ref()).collect();
            check(&names).map_err(|wrong| (Some(keys[wrong.index].span().start), wrong.message))
        }
        ValueRule::DifferentTexts(first, second) => {
            let text = |key: &str| table.get(key)?.get_ref().as_str();
            match (text(first), text(second)) {
                (Some(one), Some(other)) if one == other => Err((
                    place(second),
                    format!("`{first}` and `{second}` are both {one:?}: they must differ"),
                )),
                _ => Ok(()),
            }
        }
        ValueRule::AtLeastOneOrderedBound(first, second) => match (number(first), number(second)) {
            (None, None) if place(first).is_none() && place(second).is_none() => {
                Err((None, format!("an interval needs `{first}`, `{second}` or both")))
            }
            (Some(low), Some(high)) if low > high => Err((
                place(second),
                format!("`{first}` is {low} and `{second}` is {high}: nothing is between them"),
            )),
            _ => Ok(()),
        },
        ValueRule::FirstIntervalContainsSecond(outer, inner) => {
            let end = |table_key: &str, end: &str| {
                number_of_value(table.get(table_key)?.get_ref().get(end)?.get_ref())
            };
            let is_inside = table.get(outer).is_none()
                || table.get(inner).is_none()
                || (end(outer, "min")
                    .is_none_or(|low| end(inner, "min").is_some_and(|n| n >= low))
                    && end(outer, "max")
                        .is_none_or(|high| end(inner, "max").is_some_and(|n| n <= high)));
            let message = || format!("`{outer}` must contain `{inner}`: it is the wider interval");
            if is_inside { Ok(()) } else { Err((place(outer), message())) }
        }
        ValueRule::StrictlyAscendingPair(first, second) => match (number(first), number(second)) {
            (Some(low), Some(high)) if low >= high => Err((
                place(second),
                format!("`{second}` is {high}: it must be above `{first}`, which is {low}"),
            )),
            _ => Ok(()),
        },
        ValueRule::Number(_)
        | ValueRule::Text(_)
        | ValueRule::DistinctElements { .. }
        | ValueRule::DistinctInKey(_) => Ok(()),
    }
}

fn check_array(rule: &ValueRule, array: &DeArray<'_>, name: &str) -> Result<(), PlaceAndReason> {
    let (values, key): (Vec<_>, &str) = match *rule {
        ValueRule::DistinctElements { or_none: false } if array.iter().next().is_none() => {
            return Err((None, format!("{name} is empty: it needs a value")));
        }
        ValueRule::DistinctElements { .. } => (array.iter().collect(), ""),
        ValueRule::DistinctInKey(key) => {
            (array.iter().filter_map(|table| table.get_ref().get(key)).collect(), key)
        }
        _ => return Ok(()),
    };
    let texts: Vec<String> = values.iter().map(|value| comparison_key(value.get_ref())).collect();
    let Some(again) = (1..texts.len()).find(|&at| texts[..at].contains(&texts[at])) else {
        return Ok(());
    };
    let key = if key.is_empty() { String::new() } else { format!(" as `{key}`") };
    let message = format!("{name} has `{}` twice{key}: remove one", texts[again]);
    Err((Some(values[again].span().start), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[ValueRuleAtPath] = &[
        ValueRuleAtPath {
            path: "presets.*.seconds",
            rule: ValueRule::Number(NumberRange { min: 0.5, max: 600.0, or_zero: false }),
        },
        ValueRuleAtPath {
            path: "rate",
            rule: ValueRule::Number(NumberRange { min: 10.0, max: 20.0, or_zero: true }),
        },
        ValueRuleAtPath { path: "names", rule: ValueRule::DistinctElements { or_none: false } },
        ValueRuleAtPath { path: "claims", rule: ValueRule::DistinctInKey("id") },
        ValueRuleAtPath {
            path: "claims.[].within",
            rule: ValueRule::AtLeastOneOrderedBound("min", "max"),
        },
        ValueRuleAtPath {
            path: "claims.[].within.*",
            rule: ValueRule::Number(NumberRange { min: -1e9, max: 1e9, or_zero: false }),
        },
    ];

    fn refused(text: &str) -> String {
        let table = DeTable::parse(text).unwrap();
        let found = find_first_invalid_values(table.get_ref(), ROWS);
        found.refused.map_or_else(String::new, |error| error.message)
    }

    #[test]
    fn values_in_their_ranges_are_accepted() {
        for text in [
            "[presets.a]\nseconds = 0.5",
            "[presets.\"a.b\"]\nseconds = 600",
            "presets = { a = { seconds = 0x10 } }",
            "rate = 0",
            "rate = 15",
            "names = ['a', 'b', '0x1']",
            "claims = [{ id = 'a', within = { min = 1, max = 1.0 } }, { id = 'b' }]",
        ] {
            assert_eq!(refused(text), "", "{text}");
        }
    }

    #[test]
    fn nonfinite_and_out_of_range_numbers_are_refused_anywhere() {
        for number in ["nan", "+nan", "inf", "-inf", "0", "-1", "0.49", "600.1", "1e400", "-0.0"] {
            for text in [
                format!("[presets.a]\nseconds = {number}"),
                format!("[presets.\"a.b\"]\nseconds = {number}"),
                format!("presets = {{ a = {{ seconds = {number} }} }}"),
            ] {
                let said = refused(&text);
                assert!(said.ends_with("it takes 0.5 to 600"), "{text}: {said}");
            }
        }
        assert_eq!(refused("rate = 5"), "`rate` is 5: it takes 0, or 10 to 20");
    }

    #[test]
    fn invalid_lists_and_intervals_are_refused() {
        let cases = [
            ("names = []", "`names` is empty: it needs a value"),
            ("names = ['a', 'b', 'a']", "`names` has `a` twice: remove one"),
            ("claims = [{ id = 'a' }, { id = 'a' }]", "`claims` has `a` twice as `id`: remove one"),
            ("names = ['16', 0x10]", "`names` has `16` twice: remove one"),
            ("claims = [{ within = {} }]", "an interval needs `min`, `max` or both"),
            (
                "claims = [{ within = { min = 2, max = 1 } }]",
                "`min` is 2 and `max` is 1: nothing is between them",
            ),
            ("names = [\"a\\u0000b\"]", "a value of `names` contains the character NUL: remove it"),
            ("\"a\\u0000\" = 'x'", "a key contains the character NUL"),
        ];
        for (text, expected) in cases {
            assert_eq!(refused(text), expected, "{text}");
        }
    }

    #[test]
    fn a_number_without_a_declared_range_is_found() {
        let table = DeTable::parse("rate = 15\n[new]\nfield = 1").unwrap();
        let found = find_first_invalid_values(table.get_ref(), ROWS);
        assert!(found.refused.is_none());
        let message = found.undeclared_number.unwrap().message;
        assert_eq!(message, "no range is declared for the number `field`");
    }
}
