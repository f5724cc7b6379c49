//! The page as a whole: escaped, self-contained, closed, and the same for the same records.

use weir_stats::{RunRecord, TrialKind, TrialState};

use super::{NamedRun, render_page, render_page_with_run_overlay};
use crate::extra_section::{ExtraSection, ExtraTable};
use crate::sample_records;

const INJECTED_MARKUP: &str = "<script>alert(1)</script>\"'&`$(rm)|;--></style>{{7*7}}";

/// The parts of a page that are not style or script.
fn page_without_style_and_script(page: &str) -> String {
    let mut rest = page;
    let mut body = String::new();
    while let Some((start, end)) = ["style", "script"]
        .iter()
        .filter_map(|tag| Some((rest.find(&format!("<{tag}>"))?, format!("</{tag}>"))))
        .min()
    {
        body.push_str(&rest[..start]);
        let after = rest[start..].find(&end).expect("style and script end") + start + end.len();
        rest = &rest[after..];
    }
    body + rest
}

fn build_record_with_injected_markup() -> (RunRecord, ExtraSection) {
    let mut record = sample_records::sample_record();
    let run = &mut record.run;
    let name = run.subjects[3].name.clone();
    for text in [&mut run.study, &mut run.title, &mut run.question, &mut run.command] {
        *text = INJECTED_MARKUP.to_owned();
    }
    run.subjects[3].name = INJECTED_MARKUP.to_owned();
    run.subjects[3].title = INJECTED_MARKUP.to_owned();
    run.subjects[3].about = INJECTED_MARKUP.to_owned();
    run.subjects[3].load = INJECTED_MARKUP.to_owned();
    run.axes[1].titles.insert("near".to_owned(), INJECTED_MARKUP.to_owned());
    run.axes[0].title = INJECTED_MARKUP.to_owned();
    run.rulesets[0].command = INJECTED_MARKUP.to_owned();
    run.doubts.push(INJECTED_MARKUP.to_owned());
    run.claims[0].claim.text = INJECTED_MARKUP.to_owned();
    run.environment.tools.insert(INJECTED_MARKUP.to_owned(), INJECTED_MARKUP.to_owned());
    for trial in record.trials.iter_mut().filter(|trial| trial.subject == name) {
        trial.subject = INJECTED_MARKUP.to_owned();
    }
    record.trials[0].drop_counts[0].counter = INJECTED_MARKUP.to_owned();
    let extra = ExtraSection {
        title: INJECTED_MARKUP.to_owned(),
        paragraphs: vec![INJECTED_MARKUP.to_owned()],
        tables: vec![ExtraTable {
            caption: INJECTED_MARKUP.to_owned(),
            columns: vec![INJECTED_MARKUP.to_owned()],
            rows: vec![vec![INJECTED_MARKUP.to_owned()]],
        }],
    };
    (record, extra)
}

#[test]
fn text_of_records_and_extras_is_shown_as_text() {
    let (record, extra) = build_record_with_injected_markup();
    let page = render_page(&record, &[extra]);
    // Positive control: the text is there, escaped.
    assert!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count() > 20);
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(page.matches("alert(1)").count(), page.matches("&lt;script&gt;alert(1)").count());
    // Inside an attribute a quotation mark must not end it.
    assert!(!page_without_style_and_script(&page).contains("</script&gt;\""));
}

#[test]
fn a_page_loads_no_external_resources() {
    let record = sample_records::sample_record();
    let page = render_page(&record, &[]);
    for outside in ["http://", "https://", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(outside), "{outside} is in the page");
    }
    // The only links are to the page itself and to data inside it.
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("data:"), "{}", &link[..40]);
    }
    assert!(page.contains("href=\"data:"));
}

#[test]
fn a_page_is_rendered_from_incomplete_records() {
    let full = sample_records::sample_record();
    let mut lone = full.clone();
    lone.trials.truncate(1);
    let none = RunRecord { trials: Vec::new(), ..full.clone() };
    let mut without_axes = full.clone();
    without_axes.run.axes.clear();
    let mut one_size = full.clone();
    one_size.run.axes[0].measured_values.truncate(1);
    let mut rejected = full.clone();
    rejected.trials.iter_mut().for_each(|trial| trial.state = TrialState::Failed);
    for record in [lone, none, without_axes, one_size, rejected] {
        let page = render_page(&record, &[]);
        let body = page_without_style_and_script(&page);
        assert!(body.contains("<h1>"));
        assert!(!body.contains("NaN") && !body.contains(">inf"), "a number is not one");
    }
}

#[test]
fn plots_without_values_are_replaced_by_a_message() {
    for axes in [1, 2] {
        let mut record = sample_records::sample_record();
        record.run.axes.drain(..2 - axes);
        assert!(!render_page(&record, &[]).contains("not drawn"));
        for trial in record.trials.iter_mut().filter(|trial| trial.kind == TrialKind::Rate) {
            trial.kind = TrialKind::Connections;
        }
        let page = render_page(&record, &[]);
        assert_eq!(page.matches("Packet rates are not drawn").count(), 1);
        for drawing in ["id=\"rates\"", "id=\"facets\"", "id=\"rows-"] {
            assert!(!page.contains(drawing), "{drawing}");
        }
    }
}

#[test]
fn records_with_nan_or_infinity_show_no_nan() {
    let mut record = sample_records::sample_record();
    for trial in record.trials.iter_mut().step_by(3) {
        trial.correct_verdict_pps = f64::NAN;
        trial.seconds = f64::INFINITY;
        trial.noise.psi = f64::NAN;
    }
    let page = render_page(&record, &[]);
    assert!(!page_without_style_and_script(&page).contains("NaN"));
}

#[test]
fn the_same_records_give_the_same_page() {
    let record = sample_records::sample_record();
    assert_eq!(render_page(&record, &[]), render_page(&record, &[]));
}

/// A page of two runs whose texts and names are nasty.
fn render_page_of_runs_with_injected_markup() -> String {
    let (record, extra) = build_record_with_injected_markup();
    let mut other = record.clone();
    other.run.environment.kernel = INJECTED_MARKUP.to_owned();
    other.run.environment.cpu_model = INJECTED_MARKUP.to_owned();
    let runs = [&record, &other].map(|record| NamedRun { name: INJECTED_MARKUP, record });
    render_page_with_run_overlay(&runs, &[extra])
}

#[test]
fn text_of_several_runs_is_shown_as_text() {
    let page = render_page_of_runs_with_injected_markup();
    assert!(page.contains("id=\"beside\""), "the runs are drawn");
    assert!(
        !super::render_page(&sample_records::sample_record(), &[]).contains("id=\"beside\""),
        "a single run has no overlay"
    );
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(page.matches("alert(1)").count(), page.matches("&lt;script&gt;alert(1)").count());
}

#[test]
fn tags_are_closed_in_order() {
    const VOID_ELEMENTS: [&str; 5] = ["meta", "link", "br", "hr", "input"];
    let page = render_page_of_runs_with_injected_markup();
    let body = page_without_style_and_script(&page);
    let mut open: Vec<String> = Vec::new();
    for part in body.split('<').skip(1) {
        let tag = part.split('>').next().unwrap_or_default();
        let name = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
        if let Some(closing) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name(closing).as_str()));
        } else if !tag.starts_with('!') && !VOID_ELEMENTS.contains(&name(tag).as_str()) {
            open.push(name(tag));
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
}

#[test]
fn the_page_of_a_tiny_run_matches_its_snapshot() {
    let record = sample_records::build_record_with_sizes(
        &[16, 32],
        &[
            sample_records::sample_subject("none", true, false),
            sample_records::sample_subject("linear", false, false),
            sample_records::sample_subject("nft", false, true),
        ],
        2,
    );
    let page = render_page(&record, &[]);
    // One tag per line, without embedded data, so that differences are readable.
    let shown: Vec<String> = page_without_style_and_script(&page)
        .replace('<', "\n<")
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| match line.find("base64,") {
            Some(at) => format!("{}base64,…\">", &line[..at]),
            None => line.to_owned(),
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}
