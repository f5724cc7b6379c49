//! What the kernel calls at each netfilter hook of the current network namespace, in its order
//! (include/uapi/linux/netfilter/nfnetlink_hook.h, Linux 5.14).

use std::time::Duration;

use crate::KernelError;
use crate::netlink::attribute::{MalformedNetlink, NetlinkAttributes};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{NLM_F_DUMP, NetlinkProtocol, NetlinkSocket};
use crate::nft_objects::nft_family_name;

const NFNL_MSG_HOOK_GET: u8 = 0;
const NFNLA_HOOK_HOOKNUM: u16 = 1;
const NFNLA_HOOK_PRIORITY: u16 = 2;
const NFNLA_HOOK_DEV: u16 = 3;
const NFNLA_HOOK_FUNCTION_NAME: u16 = 4;
const NFNLA_HOOK_MODULE_NAME: u16 = 5;
const NFNLA_HOOK_CHAIN_INFO: u16 = 6;
const NFNLA_HOOK_INFO_DESC: u16 = 1;
const NFNLA_HOOK_INFO_TYPE: u16 = 2;
const NFNL_HOOK_TYPE_NFTABLES: u32 = 1;
const NFNL_HOOK_TYPE_BPF: u32 = 2;
const NFNLA_CHAIN_TABLE: u16 = 1;
const NFNLA_CHAIN_FAMILY: u16 = 2;
const NFNLA_CHAIN_NAME: u16 = 3;
const NFNLA_HOOK_BPF_ID: u16 = 1;
const NFPROTO_NETDEV: u8 = 5;
/// A dump that takes longer is broken.
const DUMP_TIMEOUT: Duration = Duration::from_secs(20);

/// What the kernel calls at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetfilterHookEntry {
    /// Number of the hook in its family.
    pub hook_number: u32,
    /// Its priority: lower ones come first.
    pub priority: i32,
    /// The function, as the kernel names it; empty if it is not told.
    pub function: String,
    /// The module of the function; empty if it is built in.
    pub module: String,
    /// What the function evaluates, if the kernel says so.
    pub program: HookedProgram,
}

/// What is evaluated at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookedProgram {
    /// A base chain of nf_tables.
    NftChain {
        /// `ip`, `inet`, …
        family: &'static str,
        /// Its table.
        table: String,
        /// Its name.
        chain: String,
    },
    /// A BPF program.
    Bpf {
        /// Its number in the kernel.
        program_id: u32,
    },
    /// The function itself.
    Function,
}

/// Reads what is called at a hook of IPv4 (2), IPv6 (10) or bridges (7), in its order.
///
/// The kernel loads `nfnetlink_hook` if it is not there: see
/// [`KernelFeature`](crate::kernel_feature::KernelFeature).
///
/// # Errors
/// If weir is not root, or the kernel has no such list.
pub fn read_hook_entries(
    family: u8,
    hook_number: u32,
) -> Result<Vec<NetfilterHookEntry>, KernelError> {
    read_entries(family, hook_number, None)
}

/// Reads what is called where a device receives (0) or sends (1) packets.
///
/// # Errors
/// As [`read_hook_entries`].
pub fn read_device_hook_entries(
    device: &str,
    hook_number: u32,
) -> Result<Vec<NetfilterHookEntry>, KernelError> {
    read_entries(NFPROTO_NETDEV, hook_number, Some(device))
}

fn read_entries(
    family: u8,
    hook_number: u32,
    device: Option<&str>,
) -> Result<Vec<NetfilterHookEntry>, KernelError> {
    let mut socket = NetlinkSocket::open(NetlinkProtocol::Netfilter)
        .map_err(KernelError::io("open", "netfilter hooks"))?;
    let mut request =
        NetfilterSubsystem::Hook.new_request(NFNL_MSG_HOOK_GET, NLM_F_DUMP, family, 0);
    request.attributes.put(NFNLA_HOOK_HOOKNUM, &hook_number.to_be_bytes());
    if let Some(device) = device {
        request.attributes.put_text(NFNLA_HOOK_DEV, device);
    }
    socket
        .fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |entries, message| {
            entries.push(parse_entry(message.attributes(NFGENMSG_BYTES)?)?);
            Ok(())
        })
        .map_err(KernelError::netlink("read", "netfilter hooks"))
}

fn parse_entry(entry: NetlinkAttributes<'_>) -> Result<NetfilterHookEntry, MalformedNetlink> {
    let text = |kind| entry.find(kind).map(|name| name.to_text()).unwrap_or_default();
    Ok(NetfilterHookEntry {
        hook_number: entry.require(NFNLA_HOOK_HOOKNUM)?.be32()?,
        priority: entry.require(NFNLA_HOOK_PRIORITY)?.be32()?.cast_signed(),
        function: text(NFNLA_HOOK_FUNCTION_NAME),
        module: text(NFNLA_HOOK_MODULE_NAME),
        program: parse_program(entry)?,
    })
}

fn parse_program(entry: NetlinkAttributes<'_>) -> Result<HookedProgram, MalformedNetlink> {
    let Some(info) = entry.find(NFNLA_HOOK_CHAIN_INFO) else { return Ok(HookedProgram::Function) };
    let info = info.nested_attributes()?;
    let kind = info.find(NFNLA_HOOK_INFO_TYPE).map(|kind| kind.be32()).transpose()?;
    let Some(details) = info.find(NFNLA_HOOK_INFO_DESC) else { return Ok(HookedProgram::Function) };
    let details = details.nested_attributes()?;
    Ok(match kind {
        Some(NFNL_HOOK_TYPE_NFTABLES) => {
            let [family] = details.require(NFNLA_CHAIN_FAMILY)?.fixed_bytes()?;
            HookedProgram::NftChain {
                family: nft_family_name(family),
                table: details.require(NFNLA_CHAIN_TABLE)?.to_text(),
                chain: details.require(NFNLA_CHAIN_NAME)?.to_text(),
            }
        }
        Some(NFNL_HOOK_TYPE_BPF) => {
            HookedProgram::Bpf { program_id: details.require(NFNLA_HOOK_BPF_ID)?.be32()? }
        }
        _ => HookedProgram::Function,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of an attribute.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).expect("a short value");
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn parse_encoded_entry(more: &[Vec<u8>]) -> Result<NetfilterHookEntry, MalformedNetlink> {
        let mut bytes = attribute(NFNLA_HOOK_HOOKNUM, &1u32.to_be_bytes());
        bytes.extend(attribute(NFNLA_HOOK_PRIORITY, &(-300i32).to_be_bytes()));
        bytes.extend(more.concat());
        parse_entry(NetlinkAttributes::parse(&bytes)?)
    }

    fn encode_chain_info(kind: u32, details: &[Vec<u8>]) -> Vec<u8> {
        let kind = attribute(NFNLA_HOOK_INFO_TYPE, &kind.to_be_bytes());
        let details = attribute(NFNLA_HOOK_INFO_DESC, &details.concat());
        attribute(NFNLA_HOOK_CHAIN_INFO, &[kind, details].concat())
    }

    #[test]
    fn functions_chains_and_programs_are_told_apart() {
        let function = attribute(NFNLA_HOOK_FUNCTION_NAME, b"ipt_do_table\0");
        let function =
            parse_encoded_entry(&[function, attribute(NFNLA_HOOK_MODULE_NAME, b"ip_tables\0")]);
        assert_eq!(
            function,
            Ok(NetfilterHookEntry {
                hook_number: 1,
                priority: -300,
                function: "ipt_do_table".to_owned(),
                module: "ip_tables".to_owned(),
                program: HookedProgram::Function,
            })
        );
        let chain = encode_chain_info(
            NFNL_HOOK_TYPE_NFTABLES,
            &[
                attribute(NFNLA_CHAIN_TABLE, b"office\0"),
                attribute(NFNLA_CHAIN_FAMILY, &[1]),
                attribute(NFNLA_CHAIN_NAME, b"in\0"),
            ],
        );
        let (table, chain_name) = ("office".to_owned(), "in".to_owned());
        assert_eq!(
            parse_encoded_entry(&[chain]).map(|entry| entry.program),
            Ok(HookedProgram::NftChain { family: "inet", table, chain: chain_name })
        );
        let program = attribute(NFNLA_HOOK_BPF_ID, &7u32.to_be_bytes());
        assert_eq!(
            parse_encoded_entry(&[encode_chain_info(NFNL_HOOK_TYPE_BPF, &[program])])
                .map(|entry| entry.program),
            Ok(HookedProgram::Bpf { program_id: 7 })
        );
    }

    #[test]
    fn a_chain_without_its_table_is_malformed() {
        let chain =
            encode_chain_info(NFNL_HOOK_TYPE_NFTABLES, &[attribute(NFNLA_CHAIN_FAMILY, &[1])]);
        let missing = MalformedNetlink::MissingAttribute { kind: NFNLA_CHAIN_TABLE };
        assert_eq!(parse_encoded_entry(&[chain]), Err(missing));
    }
}
