//! Who may depend on whom: arrows go only to a lower tier, and between crates
//! of one tier only where ARCHITECTURE.md names the edge and its reason:
//!
//! ````text
//! ```edges
//! shm -> fabric: its memory implements the traits there
//! ```
//! ````
//!
//! The network never depends on the laboratory, so that no program which uses it carries
//! a simulator. The `barewire` command and the Python package are the exceptions: nothing
//! depends on them, they are above both, and people run the laboratory with them. The
//! laboratory never sees the live system, nor these two.

use super::outcome::{Finding, Outcome};
use super::tree::Tree;
use super::workspace::{Crate, Workspace};

/// The tiers of the network, by the name of the folder in `crates/`.
const NETWORK: &[(&str, u32)] = &[
    ("cpu", 0),
    ("report", 0),
    ("units", 0),
    ("wire", 0),
    ("fabric", 1),
    ("proto", 1),
    ("shm", 1),
    ("tcp", 1),
    ("calls", 2),
    ("carrier", 2),
    ("ofi", 2),
    ("sys", 2),
    ("barewire", 3),
    ("sockets", 4),
    ("bridge", 4),
    ("daq", 4),
    ("edge", 4),
    ("bench", 4),
    ("capi", 4),
    ("fi", 4),
    ("vipl", 4),
    ("cli", 5),
];

/// The Python package, the one crate of the network beside `crates/`.
const PYTHON: Place<'static> = Place::Network {
    name: "python",
    tier: 5,
};

/// The tiers of the laboratory, by the name of the folder in `lab/`.
const LAB: &[(&str, u32)] = &[
    ("formats", 0),
    ("classic", 1),
    ("models", 1),
    ("des", 1),
    ("testbed", 2),
    ("tables", 3),
];

/// The crates of the network that may see the laboratory: the command and the Python package, at
/// the top of both.
const SEE_LAB: &[&str] = &["cli", "python"];

/// The highest tier of the network that the laboratory may see: above it are
/// system calls and the live network.
const LAB_SEES_MAX: u32 = 1;

/// The crates of the network that have neither clock, entropy nor thread.
pub(crate) fn network_crates_below(tier: u32) -> impl Iterator<Item = String> {
    NETWORK
        .iter()
        .filter(move |&&(_, of_crate)| of_crate < tier)
        .map(|(name, _)| format!("crates/{name}"))
}

/// Where a crate stands.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Network {
        name: &'a str,
        tier: u32,
    },
    Lab {
        name: &'a str,
        tier: u32,
    },
    /// `tests/*`, `xtask`, `fuzz`, `benches`: may see all, seen by none.
    Outside,
    Unknown,
}

fn place_of(dir: &str) -> Place<'_> {
    let tier_in = |table: &[(&str, u32)], name: &str| {
        table
            .iter()
            .find(|&&(known, _)| known == name)
            .map(|&(_, tier)| tier)
    };
    match dir.split_once('/') {
        Some(("crates", name)) => match tier_in(NETWORK, name) {
            Some(tier) => Place::Network { name, tier },
            None => Place::Unknown,
        },
        Some(("lab", name)) => match tier_in(LAB, name) {
            Some(tier) => Place::Lab { name, tier },
            None => Place::Unknown,
        },
        Some(("tests", _)) => Place::Outside,
        None if dir == "python" => PYTHON,
        None if matches!(dir, "xtask" | "fuzz" | "benches") => Place::Outside,
        _ => Place::Unknown,
    }
}

/// An edge that ARCHITECTURE.md names.
#[derive(Debug, PartialEq, Eq)]
struct Edge<'a> {
    line: usize,
    from: &'a str,
    to: &'a str,
}

/// Reads the ```edges block; a malformed line is a finding.
fn read_edges<'a>(architecture: &'a str, findings: &mut Vec<Finding>) -> Option<Vec<Edge<'a>>> {
    let mut lines = architecture.lines().enumerate();
    lines.find(|(_, line)| line.trim() == "```edges")?;
    let mut edges = Vec::new();
    for (line, text) in lines.take_while(|(_, line)| line.trim() != "```") {
        if text.trim().is_empty() {
            continue;
        }
        let parsed = text.split_once(':').and_then(|(edge, reason)| {
            let (from, to) = edge.split_once("->")?;
            (!reason.trim().is_empty()).then_some(Edge {
                line,
                from: from.trim(),
                to: to.trim(),
            })
        });
        match parsed {
            Some(edge) => edges.push(edge),
            None => findings.push(Finding {
                place: format!("ARCHITECTURE.md:{}", line + 1),
                message: "an edge reads `from -> to: reason`".into(),
            }),
        }
    }
    Some(edges)
}

/// What is wrong with the arrow from one crate to another, if anything.
/// `named` says whether ARCHITECTURE.md names it.
fn judge(from: &Place<'_>, to: &Place<'_>, named: bool) -> Result<(), String> {
    let (from_tier, to_tier) = match (from, to) {
        (Place::Outside, _) => return Ok(()),
        // Reported once, for the crate itself.
        (Place::Unknown, _) | (_, Place::Unknown) => return Ok(()),
        (_, Place::Outside) => return Err("is only for the project's own checks".into()),
        (Place::Network { name, .. }, Place::Lab { .. }) if !SEE_LAB.contains(name) => {
            return Err("is of the laboratory, which the network never sees".into());
        }
        (Place::Lab { .. }, Place::Network { tier, .. }) if *tier > LAB_SEES_MAX => {
            return Err("is of the live system, which the laboratory never sees".into());
        }
        (
            Place::Network { tier: from, .. } | Place::Lab { tier: from, .. },
            Place::Network { tier: to, .. } | Place::Lab { tier: to, .. },
        ) => (*from, *to),
    };
    match to_tier.cmp(&from_tier) {
        std::cmp::Ordering::Less => Ok(()),
        std::cmp::Ordering::Equal if named => Ok(()),
        std::cmp::Ordering::Equal => {
            Err("is of the same tier: name the edge in ARCHITECTURE.md, or drop it".into())
        }
        std::cmp::Ordering::Greater => Err(format!(
            "is of tier {to_tier}, above tier {from_tier}: arrows go down"
        )),
    }
}

fn name_of<'a>(place: &Place<'a>) -> Option<(&'a str, u32)> {
    match *place {
        Place::Network { name, tier } | Place::Lab { name, tier } => Some((name, tier)),
        Place::Outside | Place::Unknown => None,
    }
}

/// Every arrow of every crate.
pub(crate) fn check(workspace: &Workspace, architecture: Option<&str>) -> Outcome {
    let mut outcome = Outcome {
        checked: workspace.crates.len(),
        ..Outcome::default()
    };
    let edges = architecture.and_then(|text| read_edges(text, &mut outcome.findings));
    if edges.is_none() && !workspace.crates.is_empty() {
        outcome.find(
            "ARCHITECTURE.md",
            "no ```edges block: it names the arrows within a tier",
        );
    }
    let edges = edges.unwrap_or_default();
    let mut used = vec![false; edges.len()];
    for krate in &workspace.crates {
        let from = place_of(&krate.dir);
        if from == Place::Unknown {
            outcome.find(
                &krate.dir,
                "an unknown crate: give it a tier in xtask/src/tidy/tiers.rs",
            );
        }
        for needed in &krate.needs {
            let to = place_of(needed);
            let mut named = false;
            if let (Some((from, from_tier)), Some((to, to_tier))) = (name_of(&from), name_of(&to)) {
                for (edge, used) in edges.iter().zip(&mut used) {
                    if edge.from == from && edge.to == to {
                        named = true;
                        *used |= from_tier == to_tier;
                    }
                }
            }
            if let Err(why) = judge(&from, &to, named) {
                outcome.find(&krate.dir, format!("depends on {needed}, which {why}"));
            }
        }
    }
    for (edge, used) in edges.iter().zip(used) {
        if !used {
            outcome.find(
                format!("ARCHITECTURE.md:{}", edge.line + 1),
                format!(
                    "no manifest has the arrow {} -> {} within one tier",
                    edge.from, edge.to
                ),
            );
        }
    }
    outcome
}

/// That there is a laboratory whose arrows [`check`] looked at.
pub(crate) fn check_lab(workspace: &Workspace) -> Outcome {
    let is_lab = |krate: &&Crate| krate.dir.starts_with("lab/");
    match workspace.crates.iter().filter(is_lab).count() {
        0 => Outcome::skipped("no lab crates yet"),
        checked => Outcome {
            checked,
            ..Outcome::default()
        },
    }
}

/// That every crate takes the workspace's lints: without the line, none apply.
pub(crate) fn check_manifests(workspace: &Workspace, tree: &Tree) -> Outcome {
    let mut outcome = Outcome::default();
    for krate in &workspace.crates {
        let path = format!("{}/Cargo.toml", krate.dir);
        outcome.checked += 1;
        let takes_lints = tree.text(&path).is_some_and(|text| {
            let mut lines = text.lines().map(str::trim);
            lines.any(|line| line == "[lints]")
                && lines
                    .take_while(|line| !line.starts_with('['))
                    .any(|line| line.replace(' ', "") == "workspace=true")
        });
        if !takes_lints {
            outcome.find(path, "needs `[lints]` with `workspace = true`");
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(crates: &[(&str, &[&str])]) -> Workspace {
        Workspace {
            crates: crates
                .iter()
                .map(|&(dir, needs)| Crate {
                    dir: dir.into(),
                    needs: needs.iter().map(|&need| need.into()).collect(),
                    roots: Vec::new(),
                })
                .collect(),
            ..Workspace::default()
        }
    }

    fn findings(crates: &[(&str, &[&str])], edges: &str) -> Vec<String> {
        let architecture = format!("# Map\n\n```edges\n{edges}```\n");
        check(&workspace(crates), Some(&architecture))
            .findings
            .into_iter()
            .map(|finding| format!("{}: {}", finding.place, finding.message))
            .collect()
    }

    #[test]
    fn arrows_down_are_fine() {
        let good: &[(&str, &[&str])] = &[
            ("crates/units", &[]),
            ("crates/shm", &["crates/units"]),
            ("crates/barewire", &["crates/shm", "crates/sys"]),
            ("lab/models", &["crates/wire"]),
            ("lab/testbed", &["crates/fabric", "lab/models"]),
            ("crates/cli", &["crates/barewire", "lab/tables"]),
            ("tests/conformance", &["crates/cli", "lab/tables"]),
            ("xtask", &[]),
        ];
        assert_eq!(findings(good, ""), Vec::<String>::new());
    }

    #[test]
    fn canary_upward() {
        let bad = findings(&[("crates/shm", &["crates/sys"])], "");
        assert!(
            bad[0].contains("crates/sys") && bad[0].contains("arrows go down"),
            "{bad:?}"
        );
    }

    #[test]
    fn canary_sideways() {
        let arrow: &[(&str, &[&str])] = &[("crates/fabric", &["crates/shm"])];
        assert!(findings(arrow, "")[0].contains("same tier"));
        assert_eq!(
            findings(arrow, "fabric -> shm: queues run over rings\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn canary_edge_that_nobody_has() {
        assert!(findings(&[], "fabric -> shm: old\n")[0].contains("no manifest"));
        // Downward arrows need no name: naming them would hide what is special.
        let down: &[(&str, &[&str])] = &[("crates/shm", &["crates/units"])];
        assert!(findings(down, "shm -> units: needless\n")[0].contains("no manifest"));
        // A name does not make an upward arrow right.
        let up: &[(&str, &[&str])] = &[("crates/shm", &["crates/sys"])];
        assert_eq!(findings(up, "shm -> sys: please\n").len(), 2);
    }

    #[test]
    fn canary_edge_without_reason() {
        assert!(findings(&[], "fabric -> shm:\n")[0].contains("from -> to: reason"));
    }

    #[test]
    fn canary_no_edges_block() {
        let some = workspace(&[("crates/units", &[])]);
        assert_eq!(check(&some, None).findings.len(), 1);
        assert_eq!(check(&some, Some("# Map")).findings.len(), 1);
    }

    #[test]
    fn canary_network_on_lab() {
        // The command and the Python package alone may, whatever the tiers say.
        for (network, _) in NETWORK.iter().filter(|(name, _)| !SEE_LAB.contains(name)) {
            for (lab, _) in LAB {
                let (from, to) = (format!("crates/{network}"), format!("lab/{lab}"));
                let bad = findings(&[(&from, &[&to])], "");
                assert!(bad[0].contains("laboratory"), "{bad:?}");
            }
        }
    }

    #[test]
    fn canary_lab_on_command() {
        let bad = findings(&[("lab/tables", &["crates/cli"])], "");
        assert!(bad[0].contains("live system"), "{bad:?}");
    }

    #[test]
    fn canary_lab_on_live_system() {
        for live in ["crates/sys", "crates/barewire"] {
            let bad = findings(&[("lab/tables", &[live])], "");
            assert!(bad[0].contains("live system"), "{bad:?}");
        }
    }

    #[test]
    fn canary_unknown_crate() {
        assert!(findings(&[("crates/misc", &[])], "")[0].contains("unknown crate"));
        assert!(findings(&[("lab/misc", &[])], "")[0].contains("unknown crate"));
        assert!(findings(&[("misc", &[])], "")[0].contains("unknown crate"));
    }

    #[test]
    fn canary_dependency_on_tests() {
        let bad = findings(&[("crates/cli", &["tests/conformance"])], "");
        assert!(bad[0].contains("own checks"), "{bad:?}");
    }

    #[test]
    fn canary_manifest_without_lints() {
        let some = workspace(&[("crates/a", &[]), ("crates/b", &[])]);
        let tree = Tree::of(&[
            (
                "crates/a/Cargo.toml",
                "[package]\n[lints]\nworkspace = true\n",
            ),
            (
                "crates/b/Cargo.toml",
                "[lints]\n[dependencies]\nworkspace = true\n",
            ),
        ]);
        let outcome = check_manifests(&some, &tree);
        assert_eq!(outcome.findings.len(), 1);
        assert_eq!(outcome.findings[0].place, "crates/b/Cargo.toml");
    }
}
