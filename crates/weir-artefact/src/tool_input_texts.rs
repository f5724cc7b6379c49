//! The contents of a form: the texts that its tools load, and the files that hold them.

use weir_model::Family;

/// A file of an artefact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArtefactFileKind {
    /// The nft tables, for `nft -f`.
    Nft,
    /// Rules, for `iptables-restore` or `ip6tables-restore`.
    IptablesRules(Family),
    /// The sets of the ruleset, for `ipset restore`.
    UserSets,
    /// The sets that passes made, for `ipset restore`.
    GeneratedSets,
    /// The names of both, a line each.
    AllSetNames,
    /// The script that loads the form.
    LoadScript,
    /// The script that restores what was in force before.
    UnloadScript,
}

impl ArtefactFileKind {
    /// All of them, in the order of the manifest.
    pub const ALL: [ArtefactFileKind; 8] = [
        ArtefactFileKind::Nft,
        ArtefactFileKind::IptablesRules(Family::V4),
        ArtefactFileKind::IptablesRules(Family::V6),
        ArtefactFileKind::UserSets,
        ArtefactFileKind::GeneratedSets,
        ArtefactFileKind::AllSetNames,
        ArtefactFileKind::LoadScript,
        ArtefactFileKind::UnloadScript,
    ];

    /// Its name inside the folder.
    pub const fn file_name(self) -> &'static str {
        match self {
            ArtefactFileKind::Nft => "ruleset.nft",
            ArtefactFileKind::IptablesRules(Family::V4) => "iptables.rules",
            ArtefactFileKind::IptablesRules(Family::V6) => "ip6tables.rules",
            ArtefactFileKind::UserSets => "user.ipset",
            ArtefactFileKind::GeneratedSets => "weir.ipset",
            ArtefactFileKind::AllSetNames => "names.ipset",
            ArtefactFileKind::LoadScript => "load.sh",
            ArtefactFileKind::UnloadScript => "unload.sh",
        }
    }

    /// The file of that name.
    pub fn from_file_name(name: &str) -> Option<ArtefactFileKind> {
        ArtefactFileKind::ALL.into_iter().find(|kind| kind.file_name() == name)
    }

    /// Whether it is a script.
    pub const fn is_script(self) -> bool {
        matches!(self, ArtefactFileKind::LoadScript | ArtefactFileKind::UnloadScript)
    }
}

/// The texts of a form, one for each tool that loads a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtefactRulesetTexts {
    /// nft tables.
    pub nft: Option<String>,
    /// IPv4 rules.
    pub v4: Option<String>,
    /// IPv6 rules.
    pub v6: Option<String>,
    /// Sets.
    pub sets: Option<IpsetTexts>,
}

/// The sets of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpsetTexts {
    /// Those of the ruleset.
    pub user: String,
    /// Those that passes made.
    pub generated: String,
    /// The names of both, a line each.
    pub names: String,
}

impl ArtefactRulesetTexts {
    /// The rules of a family.
    pub const fn rules_text(&self, family: Family) -> Option<&String> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }

    /// The place for the rules of a family.
    pub const fn rules_text_mut(&mut self, family: Family) -> &mut Option<String> {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// The texts that are there, in the order of the manifest.
    pub fn texts(&self) -> impl Iterator<Item = (ArtefactFileKind, &str)> {
        ArtefactFileKind::ALL.into_iter().filter_map(|kind| Some((kind, self.text_of_file(kind)?)))
    }

    /// One text; scripts are none.
    pub fn text_of_file(&self, kind: ArtefactFileKind) -> Option<&str> {
        let sets = self.sets.as_ref();
        let text = match kind {
            ArtefactFileKind::Nft => self.nft.as_ref(),
            ArtefactFileKind::IptablesRules(family) => self.rules_text(family),
            ArtefactFileKind::UserSets => sets.map(|s| &s.user),
            ArtefactFileKind::GeneratedSets => sets.map(|s| &s.generated),
            ArtefactFileKind::AllSetNames => sets.map(|s| &s.names),
            ArtefactFileKind::LoadScript | ArtefactFileKind::UnloadScript => None,
        };
        text.map(String::as_str)
    }

    /// Puts a text into its place; a script has none.
    pub(crate) fn store_text(&mut self, kind: ArtefactFileKind, text: String) {
        match kind {
            ArtefactFileKind::Nft => self.nft = Some(text),
            ArtefactFileKind::IptablesRules(family) => *self.rules_text_mut(family) = Some(text),
            ArtefactFileKind::UserSets => self.sets.get_or_insert_default().user = text,
            ArtefactFileKind::GeneratedSets => self.sets.get_or_insert_default().generated = text,
            ArtefactFileKind::AllSetNames => self.sets.get_or_insert_default().names = text,
            ArtefactFileKind::LoadScript | ArtefactFileKind::UnloadScript => {}
        }
    }
}
