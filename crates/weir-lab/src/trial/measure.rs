//! Trials of packets: validated first, then measured, repeated where they were disturbed.

use std::time::Duration;

use weir_stats::{Connections, Kind, Scenario, Spectrum, State, Trial};

use crate::LabError;
use crate::host::command::{Job, dropped_in};
use crate::host::target::ExecTarget;
use crate::program::generator::Play;
use crate::program::tcp::Open;
use crate::schedule::files::Files;
use crate::schedule::run::Run;
use crate::topology::Firewall;
use crate::trial::judge::{self, Leeway};
use crate::trial::runner::{Bench, Rules, Seen};
use crate::workload::loopback;
use crate::workload::sockets;
use crate::workload::tcp;
use weir_study::ClientKind;
use weir_study::ConnectionLoad;
use weir_study::Loaded;
use weir_study::{PlannedTrial, Variant};

/// Longest validation trial: its counters matter, not its length.
const VALIDATION_SECONDS: f64 = 0.1;

/// The first trial of an variant at a point: discarded as a warm-up, its counters checked against the
/// rules' own and the kernel's reasons.
pub(crate) fn validate(
    run: &mut Run<'_>,
    point: &Scenario,
    variant: &Variant,
) -> Result<Trial, LabError> {
    let step = PlannedTrial {
        scenario: point.clone(),
        variant: variant.clone(),
        block: 0,
        order: 0,
        leg: 0,
    };
    let seconds = run.preset.trial_seconds.min(VALIDATION_SECONDS);
    let (_, mut trial) = play(run, &step, seconds, true)?;
    trial.state = State::Warmup;
    let told =
        run.bench.knows_reasons() && !run.loaded.subjects.0[&step.variant.subject].before_netfilter;
    let unlike = told.then(|| judge::of_reasons(&trial)).flatten();
    if let Some((state, why)) = verdict(run, &trial).or(unlike) {
        trial.state = state;
        trial.why = Some(why);
    }
    Ok(trial)
}

/// One trial that counts, repeated while it is disturbed and the cap allows.
pub(crate) fn measure(run: &mut Run<'_>, step: &PlannedTrial) -> Result<(), LabError> {
    let limits = run.loaded.study.noise.clone();
    let realtime = run.scheduling.starts_with("fifo");
    let Some(first) = run.done.next_repeat(step) else { return Ok(()) };
    for repeat in first..=limits.repeats {
        let (seen, mut trial) = play(run, step, run.preset.trial_seconds, false)?;
        trial.repeat = repeat;
        let is_last = repeat == limits.repeats;
        let mut disturbance = judge::of_noise(&trial, &limits, realtime);
        if !seen.played.finished {
            disturbance = Some("the generator did not come to its end".to_owned());
        }
        let asked = asked(&seen, &trial);
        // On an axis of rates some are above what the machine carries, and that is what is asked.
        let is_swept = run.loaded.study.connections().is_some_and(|c| c.rate_axis.is_some());
        if seen.played.given_up * 100 > asked && !is_swept {
            disturbance = Some(format!("{} of {asked} came too late", seen.played.given_up));
        }
        let (verdict, usable) = (verdict(run, &trial), is_last && seen.played.finished);
        if settle(run, trial, verdict, disturbance, usable)? {
            break;
        }
    }
    Ok(())
}

/// Keeps a trial with its verdict, or else with what disturbed it: it counts all the same where it
/// is `usable`, for no repeat is left. Whether the step is done.
pub(crate) fn settle(
    run: &mut Run<'_>,
    mut trial: Trial,
    verdict: Option<(State, String)>,
    disturbance: Option<String>,
    usable: bool,
) -> Result<bool, LabError> {
    if let Some((state, why)) = verdict {
        (trial.state, trial.why) = (state, Some(why));
    } else if let Some(why) = disturbance {
        trial.state = if usable { State::Accepted } else { State::Disturbed };
        trial.why = Some(why);
        run.given_up += u64::from(usable);
    }
    let is_done = matches!(trial.state, State::Accepted | State::Failed);
    run.keep(trial)?;
    Ok(is_done)
}

/// Packets, or connections, that the rate of a trial asked for.
fn asked(seen: &Seen, trial: &Trial) -> u64 {
    let offered = trial.connections.as_ref().map_or(seen.played.offered, |all| all.offered);
    offered + seen.played.given_up
}

/// What the packets of a trial say, and its connections.
fn verdict(run: &Run<'_>, trial: &Trial) -> Option<(State, String)> {
    let subject = &run.loaded.subjects.0[&trial.subject];
    let leeway = Leeway {
        lets_through: weir_stats::within_limit(subject.lets_through_pps, trial.seconds),
        many_cores: subject.many_cores,
    };
    let is_flooded = run.loaded.study.connections().is_some_and(|c| c.flood_axis.is_some());
    tcp::judge(trial).or_else(|| match is_flooded {
        // What a firewall lets through of a flood, and what of the connections it takes for one,
        // is what is asked.
        true => judge::of_sum(trial, leeway),
        false => judge::of_packets(trial, leeway),
    })
}

fn play(
    run: &mut Run<'_>,
    step: &PlannedTrial,
    seconds: f64,
    check: bool,
) -> Result<(Seen, Trial), LabError> {
    let loaded = run.loaded;
    let study = &loaded.study;
    // Beside a flood, connections may be dropped, too.
    let mut some_to_drop = study.connections().is_some_and(|c| c.flood_axis.is_some());
    let open = study.connections().map(|c| tcp::open(run, c, step, seconds));
    let mut open = open.transpose()?;
    if let Some(open) = &mut open {
        open.verify |= check;
    }
    let subject = &loaded.subjects.0[&step.variant.subject];
    if study.loopback().is_some() {
        some_to_drop = subject.drops_all;
    } else if open.is_none() {
        let (part, frames) = run.files.frames(study, &step.scenario);
        run.bench.load_frames(&part, frames, run.options.seed)?;
        some_to_drop = frames.iter().any(|frame| frame.to_drop);
    }
    let point = step.scenario.on(&study.ruleset.axis_names());
    let firewall = &run.firewalls[&(point.clone(), step.variant.clone())];
    let files = &run.files;
    let count = || dropped_by_rules(loaded, files, step, &point, &*firewall.target);
    let rules = match (check, some_to_drop, subject.count.is_empty()) {
        (false, false, _) => Rules::Unwatched,
        (false, true, false) => Rules::Counted(&count),
        (true, _, false) => Rules::Checked(&count),
        (_, _, true) => Rules::Reasons,
    };
    if let (Some(open), Some(connecting)) = (open, study.connections()) {
        let asking = (connecting, subject.client, &step.scenario);
        let (seen, connections) = connect(&mut run.bench, firewall, asking, &open, rules)?;
        let trial = Trial {
            // What is compared is the same, whoever asks.
            kind: crate::workload::tcp::kind(connecting),
            rate_pps: if subject.client.keeps_a_rate() { open.rate as f64 } else { 0.0 },
            connections: Some(connections),
            ..trial(run, step, &seen)
        };
        return Ok((seen, trial));
    }
    if let Some(looping) = study.loopback() {
        let length = (Duration::from_secs_f64(seconds), 0);
        let bench = &mut run.bench;
        let seen = loopback::trial(bench, firewall, looping, length, subject.drops_all, rules)?;
        let trial = trial(run, step, &seen);
        return Ok((seen, trial));
    }
    let play = Play {
        duration: Duration::from_secs_f64(seconds),
        rate_pps: run.preset.rate_pps,
        packets_max: 0,
        // A mix is even as it stands.
        shuffled: study.drop_axis().is_none(),
        seed: run.options.seed as u32 ^ step.block,
    };
    let seen = run.bench.trial(firewall, &play, rules)?;
    let trial = trial(run, step, &seen);
    Ok((seen, trial))
}

/// Connections at a point, opened by whom its subject says.
fn connect(
    bench: &mut Bench,
    firewall: &Firewall,
    (connecting, client, point): (&ConnectionLoad, ClientKind, &Scenario),
    open: &Open,
    rules: Rules<'_>,
) -> Result<(Seen, Connections), LabError> {
    let connecting = connecting.by(client);
    if connecting.sockets.is_some() {
        let asking = sockets::asking(bench, &connecting, client, point, open);
        return sockets::trial(bench, firewall, &asking, rules);
    }
    let (seen, connections) = tcp::trial(bench, firewall, open, rules)?;
    Ok((seen, Connections { client: client.record(Spectrum::default()), ..connections }))
}

/// What the subject of a step says that its rules dropped so far.
fn dropped_by_rules(
    loaded: &Loaded,
    files: &Files,
    step: &PlannedTrial,
    point: &Scenario,
    target: &dyn ExecTarget,
) -> Result<u64, LabError> {
    let study = &loaded.study;
    let ruleset = files.ruleset(study, point);
    let folder = files.folder(study, point, &step.variant.subject);
    let job = Job {
        what: format!("count of {}", step.variant.subject),
        text: &loaded.subjects.0[&step.variant.subject].count,
        scenario: point,
        files: vec![("RULESET", &ruleset), ("DIR", &folder)],
    };
    let (_, text) = files.run_on(target, &job, false)?;
    dropped_in(&text).ok_or_else(|| LabError::Command {
        what: job.what.clone(),
        scenario: point.clone(),
        command: job.text.to_owned(),
        status: "no line `dropped N`".to_owned(),
        message: text.lines().take(3).collect::<Vec<_>>().join("; "),
    })
}

/// The trial of a step, with what was seen of its frames.
pub(crate) fn trial(run: &Run<'_>, step: &PlannedTrial, seen: &Seen) -> Trial {
    let kind = if run.preset.rate_pps == 0 { Kind::Rate } else { Kind::Paced };
    let seconds = seen.played.seconds;
    let by_rules: u64 =
        seen.dropped.iter().filter(|d| d.counter == "rules").map(|d| d.packets).sum();
    let decided = seen.arrived.delivered + seen.arrived.leaked + by_rules;
    Trial {
        copy: step.variant.copy,
        offered: seen.played.offered,
        delivered: seen.arrived.delivered,
        leaked: seen.arrived.leaked,
        foreign: seen.arrived.foreign,
        to_drop: seen.played.to_drop,
        dropped: seen.dropped.iter().filter(|drop| drop.packets > 0).cloned().collect(),
        seconds,
        pps: if seconds > 0.0 { decided as f64 / seconds } else { 0.0 },
        rate_pps: run.preset.rate_pps as f64,
        noise: seen.noise.clone(),
        collected: seen.collected.clone(),
        ..run.blank(step, kind)
    }
}
