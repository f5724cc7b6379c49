//! `weir example`: generated rulesets for experiments.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use weir_example::{
    FILTER_SET_RULES_MAX, FilterSetOptions, FilterSetShape, IspOptions, RuleListKind,
    RuleListOptions, ServicesOptions, UniversityOptions, generate_filter_set, generate_isp_ruleset,
    generate_rule_list, generate_rule_list_nft, generate_services_ruleset,
    generate_university_ruleset,
};
use weir_packet::{Addr, Family, Packet, Transport, pcap, tcp_flag};

use super::YesNoExitStatus;
use crate::atomic_file_replacement::replace_file_atomically_if_possible;
use crate::cli::{ExampleCommand, FilterSetShapeArg};
use crate::terminal;

/// Writes or prints an example.
pub fn generate_and_write_example(args: &ExampleCommand) -> Result<YesNoExitStatus> {
    match args {
        ExampleCommand::Isp { seed, scale, output_folder: output } => {
            generate_and_write_isp_ruleset(*seed, *scale, output.as_deref())
        }
        ExampleCommand::Frames {
            source_address_count: flows,
            first_source_addr: from,
            to,
            tcp,
            port,
            payload,
            verdict,
            output,
        } => {
            ensure!((1..=65_536).contains(flows), "--flows {flows}: must be from 1 to 65,536");
            let flow = ExampleFrameTemplate {
                destination: *to,
                is_tcp: *tcp,
                destination_port: *port,
                payload,
            };
            let sources = (0..*flows).map(|n| Ipv4Addr::from(u32::from(*from).wrapping_add(n)));
            write_frames_with_given_verdict(
                output,
                sources.map(|source| flow.frame_from_source(source)),
                verdict,
            )
        }
        ExampleCommand::Services { count, seed } => {
            ensure!((1..=20_000).contains(count), "--count {count}: must be from 1 to 20,000");
            terminal::print_escaped_if_terminal(&generate_services_ruleset(&ServicesOptions {
                count: *count,
                seed: *seed,
            }))
        }
        ExampleCommand::University { departments, seed, untracked } => {
            ensure!(
                (1..=200).contains(departments),
                "--departments {departments}: must be from 1 to 200"
            );
            let options = UniversityOptions {
                department_count: *departments,
                seed: *seed,
                track_connections: !untracked,
            };
            terminal::print_escaped_if_terminal(&generate_university_ruleset(&options))
        }
        ExampleCommand::Classbench { shape, rules, seed } => {
            print_filter_set(*shape, *rules, *seed)
        }
        ExampleCommand::NonmatchingRules { count, seed, nft } => {
            ensure!(*count <= 200_000, "--count {count}: must be at most 200,000");
            let kind = RuleListKind::Stateless;
            let options = RuleListOptions { nonmatching_rule_count: *count, seed: *seed, kind };
            terminal::print_escaped_if_terminal(&if *nft {
                generate_rule_list_nft(&options)
            } else {
                generate_rule_list(&options)
            })
        }
    }
}

fn generate_and_write_isp_ruleset(
    seed: u64,
    scale: f64,
    output_folder: Option<&Path>,
) -> Result<YesNoExitStatus> {
    ensure!(scale > 0.0 && scale <= 5.0, "--scale {scale}: must be above 0, at most 5");
    let example = generate_isp_ruleset(&IspOptions::scale_published_counts(seed, scale));
    let Some(dir) = output_folder else {
        return terminal::print_escaped_if_terminal(&example.v4);
    };
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let texts = [
        ("isp.rules", Some(example.v4)),
        ("isp.rules6", Some(example.v6)),
        ("isp.ipset", example.ipset),
    ];
    for (name, text) in texts {
        let Some(text) = text else { continue };
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        terminal::print_escaped_if_terminal(&format!("{}\n", path.display()))?;
    }
    Ok(YesNoExitStatus::Yes)
}

fn print_filter_set(
    shape: FilterSetShapeArg,
    rule_count: usize,
    seed: u64,
) -> Result<YesNoExitStatus> {
    let in_range = (1..=FILTER_SET_RULES_MAX).contains(&rule_count);
    ensure!(in_range, "--rules {rule_count}: must be from 1 to 1,000,000");
    let shape = match shape {
        FilterSetShapeArg::Acl => FilterSetShape::Acl,
        FilterSetShapeArg::Fw => FilterSetShape::Fw,
        FilterSetShapeArg::Ipc => FilterSetShape::Ipc,
        FilterSetShapeArg::BlockList => FilterSetShape::BlockList,
        FilterSetShapeArg::AccessNetwork => FilterSetShape::AccessNetwork,
    };
    terminal::print_escaped_if_terminal(&generate_filter_set(&FilterSetOptions {
        shape,
        rule_count,
        seed,
    }))
}

/// Writes frames and the verdict of each next to them.
fn write_frames_with_given_verdict(
    path: &Path,
    frames: impl Iterator<Item = Vec<u8>>,
    verdict: &str,
) -> Result<YesNoExitStatus> {
    let frames: Vec<Vec<u8>> = frames.collect();
    let verdicts = format!("{verdict}\n").repeat(frames.len());
    let mut beside = path.to_owned().into_os_string();
    beside.push(".verdicts");
    let beside = PathBuf::from(beside);
    pcap::encode_frames(frames)
        .and_then(|bytes| replace_file_atomically_if_possible(path, &bytes))
        .with_context(|| format!("write {}", path.display()))?;
    fs::write(&beside, verdicts).with_context(|| format!("write {}", beside.display()))?;
    Ok(YesNoExitStatus::Yes)
}

/// What the packets of `weir example frames` have in common.
struct ExampleFrameTemplate<'a> {
    destination: Ipv4Addr,
    is_tcp: bool,
    destination_port: u16,
    payload: &'a str,
}

impl ExampleFrameTemplate<'_> {
    /// The packet of one source.
    fn frame_from_source(&self, source: Ipv4Addr) -> Vec<u8> {
        let addr = |address: Ipv4Addr| Addr(u32::from(address).into());
        let (sport, dport) = (40_000, self.destination_port);
        let proto = if self.is_tcp { 6 } else { 17 };
        let mut packet = Packet::new(Family::V4, addr(source), addr(self.destination), proto);
        packet.payload = self.payload.as_bytes().to_vec();
        packet.transport = if self.is_tcp {
            let (flags, options) = (tcp_flag::ACK, Vec::new());
            Transport::Tcp { sport, dport, seq: 1, ack: 1, flags, options }
        } else {
            Transport::Udp { sport, dport }
        };
        packet.to_frame_with_dmac([2, 0, 0, 0, 0, 1])
    }
}
