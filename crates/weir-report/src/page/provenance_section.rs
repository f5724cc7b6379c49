//! The origin of the numbers: machine, commands, rulesets, and the records themselves.

use std::collections::BTreeMap;

use maud::{Markup, html};
use weir_stats::{HostEnvironment, RunRecord};

use crate::embedded_records;
use crate::number_format::{
    format_bytes, format_count, format_duration_with_units, format_rfc3339_to_minute,
};
use crate::report_model::ReportModel;

/// Environment, commands, rulesets.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let run = &model.record.run;
    html! {
        section #origin {
            h2 { "How to repeat it" }
            pre { (run.command) }
            dl {
                dt { "seed" } dd { (run.seed) }
                dt { "weir" } dd { (run.weir) }
                dt { "began" } dd { (format_rfc3339_to_minute(&run.date)) }
                dt { "took" } dd { (format_duration_with_units(run.seconds)) }
            }
            (render_subjects(model))
            (render_environment("Environment", &run.environment))
            @for host in &run.hosts {
                (render_environment(&format!("Another machine: the {}", host.role), &host.environment))
                dl {
                    dt { "weir there" } dd { (host.weir) }
                    dt { "its clock" }
                    dd {
                        (format!("{:+.6} s", host.clock_offset_seconds)) ", asked within "
                        (format!("{:.6} s", host.clock_round_trip_seconds))
                    }
                }
            }
            (render_ruleset_hashes(model))
        }
    }
}

fn render_subjects(model: &ReportModel<'_>) -> Markup {
    html! {
        h3 { "Subjects" }
        div.scroll {
            table {
                thead { tr { th { "name" } th { "what it is" } th { "loaded by" } } }
                tbody {
                    @for subject in &model.record.run.subjects {
                        tr {
                            th.tight scope="row" { code { (subject.name) } }
                            td {
                                (subject.title) ". " span.range { (subject.about) }
                                @if let Some(why) = &subject.lacking { br; "Not measured: " (why) }
                                @if let Some(why) = &subject.excluded_points_and_reason { br; "Left out: " (why) }
                            }
                            td { code { (subject.load) } }
                        }
                    }
                }
            }
        }
    }
}

fn render_environment(title: &str, machine: &HostEnvironment) -> Markup {
    html! {
        h3 { (title) }
        dl {
            dt { "kernel" } dd { (machine.kernel) ", " (machine.architecture) }
            dt { "processor" }
            dd {
                (machine.cpu_model) ", " (machine.cores) " cores, trials on core " (machine.core)
                @if machine.hypervisor { ", in a virtual machine" }
            }
            dt { "memory" } dd { (format_count(machine.memory_mib)) " MiB" }
            dt { "scheduling" } dd { (machine.generator_scheduling_policy) }
            dt { "clock source" } dd { (machine.clocksource) }
        }
        (render_collapsed_values("Tools", &machine.tools))
        (render_collapsed_values("Kernel settings", &machine.sysctls))
        (render_collapsed_values("Mitigations of processor vulnerabilities", &machine.mitigations))
    }
}

fn render_collapsed_values(title: &str, values: &BTreeMap<String, String>) -> Markup {
    html! {
        @if !values.is_empty() {
            details {
                summary { (title) }
                dl { @for (name, value) in values { dt { (name) } dd { (value) } } }
            }
        }
    }
}

fn render_ruleset_hashes(model: &ReportModel<'_>) -> Markup {
    let rulesets = &model.record.run.rulesets;
    html! {
        @if !rulesets.is_empty() {
            details {
                summary { "Rulesets: " (rulesets.len()) ", by origin and hash" }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th { "point" } th { "origin" }
                                th.right { "size" } th { "SHA-256" }
                            }
                        }
                        tbody {
                            @for ruleset in rulesets {
                                tr {
                                    td.tight { (ruleset.scenario.to_string()) }
                                    td {
                                        code { (ruleset.command) }
                                        @if let Some(file) = &ruleset.file {
                                            br; span.range { (file) }
                                        }
                                    }
                                    td.right { (format_bytes(ruleset.bytes)) }
                                    td { code { (ruleset.sha256) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The records, to be saved from the page; those of several runs by the names of the runs.
pub(super) fn render_downloads(runs: &[(&str, &RunRecord)]) -> Markup {
    html! {
        section #data {
            h2 { "Data" }
            p.about { "Every trial, accepted or not, is inside this page." }
            @for (name, record) in runs {
                @if !name.is_empty() { h3 { (name) } }
                (render_download_links(name, record))
            }
        }
    }
}

fn render_download_links(run: &str, record: &RunRecord) -> Markup {
    let (json, csv) =
        (embedded_records::run_and_trials_to_json(record), embedded_records::trials_to_csv(record));
    let gap = if run.is_empty() { "" } else { "-" };
    let name = safe_file_name(&format!("{}{gap}{run}", record.run.study));
    html! {
        div.downloads {
            a download={ (name) ".json" } href=(embedded_records::data_url("application/json", &json)) {
                "Records, JSON" small { (format_bytes(json.len() as u64)) }
            }
            a download={ (name) ".csv" } href=(embedded_records::data_url("text/csv", &csv)) {
                "Trials, CSV" small { (format_bytes(csv.len() as u64)) }
            }
        }
    }
}

/// A study's name as the name of a file: letters, digits, `-` and `_`.
fn safe_file_name(study: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    study.chars().map(safe).collect()
}
