//! Chains, rules and sets of a namespace as bytes of the kernel.

use std::time::Duration;

use weir_kernel::Namespace;
use weir_kernel::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use weir_kernel::netlink::{NLM_F_DUMP, NetlinkProtocol, NetlinkSocket};
use weir_kernel::nft_protocol::*;

/// What the kernel has, in its order: names, and attributes with their bytes.
#[derive(Debug, PartialEq)]
pub struct KernelObjects {
    chains: Vec<KernelObject>,
    rules: Vec<KernelObject>,
    sets: Vec<KernelObject>,
}

/// An object: attributes by number.
type KernelObject = Vec<(u16, Vec<u8>)>;

/// Attributes that are compared; handles and use counts are not.
const CHAIN_ATTRIBUTES: &[u16] = &[
    NFTA_CHAIN_TABLE,
    NFTA_CHAIN_NAME,
    NFTA_CHAIN_HOOK,
    NFTA_CHAIN_POLICY,
    NFTA_CHAIN_TYPE,
    NFTA_CHAIN_USERDATA,
];
const RULE_ATTRIBUTES: &[u16] =
    &[NFTA_RULE_TABLE, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_USERDATA];
const SET_ATTRIBUTES: &[u16] = &[
    NFTA_SET_TABLE,
    NFTA_SET_NAME,
    NFTA_SET_FLAGS,
    NFTA_SET_KEY_TYPE,
    NFTA_SET_KEY_LEN,
    NFTA_SET_DATA_TYPE,
    NFTA_SET_DATA_LEN,
    NFTA_SET_DESC,
    NFTA_SET_USERDATA,
    NFTA_SET_EXPR,
];

pub fn read_kernel_objects(namespace: &Namespace) -> KernelObjects {
    let open = || NetlinkSocket::open(NetlinkProtocol::Netfilter);
    let mut socket = namespace.call_inside(open).expect("inside").expect("a socket");
    KernelObjects {
        chains: dump(&mut socket, NFT_MSG_GETCHAIN, CHAIN_ATTRIBUTES),
        rules: dump(&mut socket, NFT_MSG_GETRULE, RULE_ATTRIBUTES),
        sets: dump(&mut socket, NFT_MSG_GETSET, SET_ATTRIBUTES),
    }
}

fn dump(socket: &mut NetlinkSocket, message: u8, compared: &[u16]) -> Vec<KernelObject> {
    let request = NetfilterSubsystem::NfTables.new_request(message, NLM_F_DUMP, 0, 0);
    let limit = Duration::from_secs(20);
    let dumped = socket.fold_dumped_objects(&request, limit, Vec::new, |objects, message| {
        let attributes = message.attributes(NFGENMSG_BYTES)?.iter();
        let compared = attributes.filter(|attribute| compared.contains(&attribute.kind));
        objects.push(compared.map(|a| (a.kind, a.value.to_vec())).collect::<KernelObject>());
        Ok(())
    });
    dumped.expect("nf_tables is there")
}

impl KernelObjects {
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    pub fn assert_equal(&self, theirs: &KernelObjects, name: &str) {
        let kinds = [
            ("chain", &self.chains, &theirs.chains),
            ("rule", &self.rules, &theirs.rules),
            ("set", &self.sets, &theirs.sets),
        ];
        for (kind, ours, theirs) in kinds {
            assert_eq!(ours.len(), theirs.len(), "{name}: number of {kind}s");
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                let differing = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
                assert_eq!(ours, theirs, "{name}: {kind} {index}: first difference {differing:x?}");
            }
        }
    }
}
