//! Parses the output of a program line by line. Each line must have one of the known forms, and
//! each form must occur once; otherwise the output is refused.

/// Lines by their forms.
#[derive(Debug)]
pub(super) struct OutputLines {
    matched_lines: Vec<(&'static str, Vec<String>)>,
}

impl OutputLines {
    /// Reads all lines that are not empty; blanks in a row are one.
    pub(super) fn parse(text: &str, line_patterns: &[&'static str]) -> Result<OutputLines, String> {
        let mut found: Vec<(&'static str, Vec<String>)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.is_empty() {
                continue;
            }
            let mut matching = line_patterns
                .iter()
                .filter_map(|form| Some((*form, match_line_pattern(form, &line)?)));
            let Some((form, values)) = matching.next() else {
                return Err(format!("line {number} is not understood: `{line}`"));
            };
            if found.iter().any(|(other, _)| *other == form) {
                return Err(format!("line {number} is a duplicate: `{line}`"));
            }
            found.push((form, values));
        }
        Ok(OutputLines { matched_lines: found })
    }

    /// The values in the gaps of a form, where the program printed it.
    fn find_gap_texts(&self, line_pattern: &str) -> Option<&[String]> {
        let found = self.matched_lines.iter().find(|(other, _)| *other == line_pattern);
        found.map(|(_, values)| values.as_slice())
    }

    /// The values in the gaps of a line that must be there.
    pub(super) fn parse_gaps_of_required_line<T, const N: usize>(
        &self,
        line_pattern: &str,
        parse_gap: impl Fn(&str) -> Option<T>,
    ) -> Result<[T; N], String> {
        let texts = self
            .find_gap_texts(line_pattern)
            .ok_or_else(|| format!("the line `{line_pattern}` is missing"))?;
        let value = |text: &String| {
            parse_gap(text)
                .ok_or_else(|| format!("`{text}` in the line `{line_pattern}` is not understood"))
        };
        let values = texts.iter().map(value).collect::<Result<Vec<T>, String>>()?;
        Ok(values.try_into().ok().expect("a form has as many gaps as are asked for"))
    }

    /// Whole numbers.
    pub(super) fn parse_counts_of_required_line<const N: usize>(
        &self,
        line_pattern: &str,
    ) -> Result<[u64; N], String> {
        self.parse_gaps_of_required_line(line_pattern, |text| text.parse().ok())
    }

    /// The same of a line that is printed only where something happened.
    pub(super) fn parse_counts_of_line_or_zeros<const N: usize>(
        &self,
        line_pattern: &str,
    ) -> Result<[u64; N], String> {
        self.find_gap_texts(line_pattern)
            .map_or(Ok([0; N]), |_| self.parse_counts_of_required_line(line_pattern))
    }
}

/// A number that is one: programs divide by nothing, and print the result of it.
pub(super) fn parse_finite_nonnegative_number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// What is in the gaps `{}` of a form; each reaches to the next text of the form, or to the end.
pub(super) fn match_line_pattern(line_pattern: &str, line: &str) -> Option<Vec<String>> {
    let mut parts = line_pattern.split("{}");
    let mut rest = line.strip_prefix(parts.next()?)?;
    let mut values = Vec::new();
    for part in parts {
        let end = if part.is_empty() { rest.len() } else { rest.find(part)? };
        let (value, behind) = rest.split_at(end);
        if value.is_empty() {
            return None;
        }
        values.push(value.to_owned());
        rest = &behind[part.len()..];
    }
    rest.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_capture_the_text_between_words() {
        let values = |form, line| match_line_pattern(form, line).map(|values| values.join("|"));
        assert_eq!(values("a {} b {} s", "a 1 b 2.5 s").as_deref(), Some("1|2.5"));
        assert_eq!(values("took {}", "took 5 ms").as_deref(), Some("5 ms"));
        assert_eq!(values("no gap", "no gap").as_deref(), Some(""));
        for other in ["a 1 b 2.5", "a 1 b 2.5 s.", "a  b 2 s", "b 1 b 2 s", "a 1"] {
            assert_eq!(values("a {} b {} s", other), None, "{other}");
        }
    }

    #[test]
    fn unknown_and_duplicate_lines_are_refused() {
        let forms = ["in {} s", "errors {}"];
        let lines = OutputLines::parse("\n  in   5 s\nerrors  7\n", &forms).unwrap();
        assert_eq!(lines.parse_counts_of_required_line("errors {}"), Ok([7]));
        assert_eq!(
            lines.parse_gaps_of_required_line("in {} s", parse_finite_nonnegative_number),
            Ok([5.0])
        );
        let refused = |text: &str| OutputLines::parse(text, &forms).unwrap_err();
        assert_eq!(refused("in 5 s\nin 5 m"), "line 2 is not understood: `in 5 m`");
        assert_eq!(refused("errors 1\nerrors 2"), "line 2 is a duplicate: `errors 2`");
    }

    #[test]
    fn missing_lines_and_invalid_numbers_are_reported() {
        let forms = ["in {} s", "errors {}"];
        let lines = OutputLines::parse("errors -nan", &forms).unwrap();
        assert_eq!(
            lines.parse_counts_of_required_line::<1>("in {} s").unwrap_err(),
            "the line `in {} s` is missing"
        );
        let refused = lines
            .parse_gaps_of_required_line::<f64, 1>("errors {}", parse_finite_nonnegative_number)
            .unwrap_err();
        assert_eq!(refused, "`-nan` in the line `errors {}` is not understood");
        assert_eq!(
            (
                parse_finite_nonnegative_number("inf"),
                parse_finite_nonnegative_number("-1"),
                parse_finite_nonnegative_number("0.5")
            ),
            (None, None, Some(0.5))
        );
    }
}
