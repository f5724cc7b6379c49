//! `-m time`: hours, days of the week and of the month, dates. All in UTC unless `--kerneltz`.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::extension_value_builders::{ModuleOptionsBuilder, unmodelled_input_match};
use super::option_value_printing::print_option_value;
use weir_model::match_module_constants::{LAST_SECOND_OF_DAY, WEEKDAY_NAMES};
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::{Family, Match};

use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ParsedExtensionOptions, ParsedOption, flag_option, option_with_argument,
};
use crate::strtoul;

pub(super) static TIME_MATCH: Extension<Match> = Extension {
    name: "time",
    options: &[
        option_with_argument("datestart", 0),
        option_with_argument("datestop", 1),
        option_with_argument("timestart", 2),
        option_with_argument("timestop", 3),
        option_with_argument("monthdays", 4).invertible(),
        option_with_argument("weekdays", 5).invertible(),
        flag_option("contiguous", 6),
        flag_option("kerneltz", 7),
        flag_option("localtz", 8).excludes(1 << 9),
        flag_option("utc", 9).excludes(1 << 8 | 1 << 7),
    ],
    build: build_time_match,
    print_value: print_time_or_date,
    ..Extension::DEFAULT
};

/// Last second that the match can say.
const DATE_MAX_UNIX_SECONDS: u64 = i32::MAX as u64;
const MONTHDAY_DECIMALS: [&str; 31] = [
    "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17",
    "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31",
];

fn build_time_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    let mut options = ModuleOptionsBuilder::default();
    let start = g.first_with_id(2).map_or(Ok(0), parse_time_of_day_as_seconds)?;
    let end_of_day = u64::from(LAST_SECOND_OF_DAY);
    let stop = g.first_with_id(3).map_or(Ok(end_of_day), parse_time_of_day_as_seconds)?;
    if g.has_option(6) && stop > start {
        return g
            .extension_error("--contiguous where the stop time is not before the start time")
            .with_help("it is for times that cross midnight")
            .into_err();
    }
    if start != 0 || stop != end_of_day {
        options.push_non_negated("timestart", ExtensionValue::DurationInModuleUnit(start));
        options.push_non_negated("timestop", ExtensionValue::DurationInModuleUnit(stop));
    }
    if let Some(t) = g.first_with_id(4) {
        push_days_option(
            &mut options,
            "monthdays",
            parse_days_as_bits(t, &MONTHDAY_DECIMALS)?,
            &MONTHDAY_DECIMALS,
        );
    }
    if let Some(t) = g.first_with_id(5) {
        push_days_option(
            &mut options,
            "weekdays",
            parse_days_as_bits(t, &WEEKDAY_NAMES)?,
            &WEEKDAY_NAMES,
        );
    }
    let from = g.first_with_id(0).map_or(Ok(0), parse_date_as_unix_seconds)?;
    if from != 0 {
        options.push_non_negated("datestart", ExtensionValue::Number(from));
    }
    options.push_non_negated(
        "datestop",
        ExtensionValue::Number(
            g.first_with_id(1).map_or(Ok(DATE_MAX_UNIX_SECONDS), parse_date_as_unix_seconds)?,
        ),
    );
    if g.has_option(7) || g.has_option(8) {
        options.push_non_negated("kerneltz", ExtensionValue::Flag);
    }
    if g.has_option(6) {
        options.push_non_negated("contiguous", ExtensionValue::Flag);
    }
    Ok(unmodelled_input_match("time", options.0))
}

/// All days are no test. No day is written as not all of them: the tool prints an empty list,
/// which cannot be read back.
fn push_days_option(
    options: &mut ModuleOptionsBuilder,
    name: &'static str,
    set: u64,
    names: &[&'static str],
) {
    if set == 0 {
        let value = ExtensionValue::KeywordList(names.to_vec());
        options.0.push(TypedExtensionOption { negated: true, name, value });
    } else if set != (1 << names.len()) - 1 {
        let chosen = (0..names.len()).filter(|i| set >> i & 1 == 1).map(|i| names[i]).collect();
        options.push_non_negated(name, ExtensionValue::KeywordList(chosen));
    }
}

/// Days by name (two letters are enough) or number.
fn parse_days_as_bits(t: &ParsedOption, names: &[&str]) -> ParseResult<u64> {
    let all = (1u64 << names.len()) - 1;
    let mut set = 0;
    for word in t.arg.strip_suffix(',').unwrap_or(t.arg).split(',') {
        let word = if names.len() == 31 { strip_ordinal_suffix(word) } else { word };
        let named = || {
            names
                .iter()
                .position(|n| n.is_ascii() && word.len() >= 2 && word.get(..2) == n.get(..2))
        };
        // Of a day of the month the tool reads two characters, and forgets the others.
        let is_cut = names.len() == 31 && word.len() > 2;
        let number = strtoul::parse_number_in_range(word, 1, names.len() as u64);
        let index = match number.filter(|_| !is_cut) {
            Some(n) => Some(n as usize - 1),
            None if names.len() == 7 => named(),
            None => None,
        };
        match index {
            Some(i) => set |= 1 << i,
            None => {
                return t
                    .arg_error(format!("no day {word:?}"))
                    .with_help(
                        "write Mon to Sun or 1 to 7 for weekdays, 1 to 31 for days of the month",
                    )
                    .into_err();
            }
        }
    }
    Ok(if t.negated { !set & all } else { set })
}

/// `31st` is `31`. The tool reads two characters, so it takes no `1st`.
fn strip_ordinal_suffix(day: &str) -> &str {
    match day.split_at_checked(2) {
        Some((number, "st" | "nd" | "rd" | "th")) => number,
        _ => day,
    }
}

/// `hh:mm[:ss]` as seconds of the day.
fn parse_time_of_day_as_seconds(t: &ParsedOption) -> ParseResult<u64> {
    let read = || {
        let mut parts = t.arg.split(':');
        let mut part = |max: u64| {
            let text = parts.next()?;
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            let n = if text.is_empty() { Ok(0) } else { text.parse::<u64>() };
            n.ok().filter(|n| digits && *n <= max)
        };
        let (h, m) = (part(23)?, part(59)?);
        // An empty part is 0.
        let s = match t.arg.matches(':').count() {
            1 => 0,
            2 => part(59)?,
            _ => return None,
        };
        Some(h * 3600 + m * 60 + s)
    };
    match read() {
        Some(s) => Ok(s),
        None => t
            .arg_error(format!("{} is not a time of day", t.arg))
            .with_help("write hh:mm or hh:mm:ss")
            .into_err(),
    }
}

/// `YYYY[-MM[-DD[Thh[:mm[:ss]]]]]` as seconds since 1970.
fn parse_date_as_unix_seconds(t: &ParsedOption) -> ParseResult<u64> {
    let read = || {
        let (day, clock) = t.arg.split_once('T').unwrap_or((t.arg, ""));
        let number = |s: &str, lo: u64, hi: u64| {
            let digits = s.bytes().all(|b| b.is_ascii_digit());
            s.parse::<u64>().ok().filter(|n| digits && (lo..=hi).contains(n))
        };
        let mut parts = day.split('-');
        let year = number(parts.next()?, 1970, 2038)?;
        let month = parts.next().map_or(Some(1), |s| number(s, 1, 12))?;
        let d = parts.next().map_or(Some(1), |s| number(s, 1, 31))?;
        if parts.next().is_some() || (!clock.is_empty() && day.matches('-').count() != 2) {
            return None;
        }
        let mut parts = clock.split(':').filter(|_| !clock.is_empty());
        let h = parts.next().map_or(Some(0), |s| number(s, 0, 23))?;
        let m = parts.next().map_or(Some(0), |s| number(s, 0, 59))?;
        let s = parts.next().map_or(Some(0), |s| number(s, 0, 59))?;
        let seconds =
            month_start_unix_seconds(year, month)? + ((d - 1) * 24 + h) * 3600 + m * 60 + s;
        (parts.next().is_none() && seconds <= DATE_MAX_UNIX_SECONDS).then_some(seconds)
    };
    match read() {
        Some(s) => Ok(s),
        None => t
            .arg_error(format!("{} is not a date from 1970 to 2038-01-19T03:14:07", t.arg))
            .with_help("write YYYY-MM-DDThh:mm:ss; parts can be omitted from the right")
            .into_err(),
    }
}

/// Where a month begins, seconds since 1970. Days are added to it: iptables takes 31 February for
/// the third day of March, or the second.
fn month_start_unix_seconds(year: u64, month: u64) -> Option<u64> {
    let first = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, 1).ok()?;
    let midnight = first.to_zoned(TimeZone::UTC).ok()?;
    u64::try_from(midnight.timestamp().as_second()).ok()
}

/// Times of day and dates.
fn print_time_or_date(out: &mut String, o: &TypedExtensionOption, family: Family) {
    use std::fmt::Write as _;
    let date = |seconds: u64| Timestamp::from_second(i64::try_from(seconds).ok()?).ok();
    match o.value {
        ExtensionValue::DurationInModuleUnit(s) => {
            let _ = write!(out, "{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
        }
        ExtensionValue::Number(seconds) => match date(seconds) {
            Some(time) => drop(write!(out, "{}", time.to_zoned(TimeZone::UTC).datetime())),
            None => print_option_value(out, o, family),
        },
        _ => print_option_value(out, o, family),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn month_starts_and_printed_dates_are_those_of_utc() {
        for (days, month, day, date) in [
            (0, (1970, 1), 1, "1970-01-01T00:00:00"),
            (11_016, (2000, 2), 29, "2000-02-29T00:00:00"),
            (24_855, (2038, 1), 19, "2038-01-19T00:00:00"),
        ] {
            let seconds = days * 86_400;
            assert_eq!(
                month_start_unix_seconds(month.0, month.1),
                Some(seconds - (day - 1) * 86_400)
            );
            let mut text = String::new();
            let option = TypedExtensionOption {
                name: "datestart",
                negated: false,
                value: ExtensionValue::Number(seconds),
            };
            print_time_or_date(&mut text, &option, Family::V4);
            assert_eq!(text, date);
        }
    }
}
