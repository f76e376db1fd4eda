//! Documents that are read, printed and refused, and what changes from one to another.

use proptest::prelude::*;

use super::*;
use crate::cell::{Consistency, Durability};

#[track_caller]
fn policy(text: &str) -> SubtreePolicy {
    SubtreePolicy::parse(text).unwrap_or_else(|fault| panic!("{fault}\n{}", fault.caret()))
}

fn pipeline(text: &str) -> String {
    policy(text).pipeline().to_string()
}

/// Refused at the place that begins with `here`, in these words.
#[track_caller]
fn refused(text: &str, here: &str, words: &str) {
    let fault = SubtreePolicy::parse(text).expect_err(text);
    assert!(text[fault.offset..].starts_with(here), "{fault}\n{}", fault.caret());
    assert!(fault.cause.to_string().contains(words), "{fault}");
}

#[test]
fn an_empty_document_is_posix_with_100_inodes() {
    let policy = policy("");
    assert_eq!(policy, SubtreePolicy::default());
    assert_eq!((policy.cell(), policy.allocated_inodes(), policy.interfere()), (Cell::POSIX, 100, Interfere::Allow));
    assert_eq!((policy.sync_interval(), policy.blind(), policy.floor()), (None, false, Floor::default()));
    assert_eq!(pipeline("# nothing"), "rpcs + stream");
}

#[test]
fn others_are_refused_if_nothing_is_said_or_read_where_the_work_is_merged_while_it_goes_on() {
    let interfere = |text: &str| policy(text).interfere();
    for preset in crate::Preset::ALL {
        let alone = SubtreePolicy::of(preset).pipeline().has_client_journal();
        let met = if alone { Interfere::Block } else { Interfere::Allow };
        assert_eq!((SubtreePolicy::of(preset).interfere(), interfere(&format!("preset = '{preset}'"))), (met, met));
    }
    assert_eq!(interfere("preset = 'batchfs'\nsync_interval = '1s'"), Interfere::Read);
    assert_eq!(interfere("preset = 'deltafs'\nsync_interval = '1s'"), Interfere::Block, "it promises to show nothing");
    assert_eq!(interfere("preset = 'batchfs'\nsync_interval = '1s'\ninterfere = 'block'"), Interfere::Block);
    assert_eq!(interfere("preset = 'hdfs'\ninterfere = 'read'"), Interfere::Read);
}

#[test]
fn the_documents_of_the_guide_make_sense() {
    let guide = include_str!("../../../../docs/subtree-policies.md");
    let documents: Vec<&str> =
        guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().expect("a part")).collect();
    assert_eq!(documents.len(), 4);
    for document in &documents[..2] {
        assert_eq!(
            (policy(document).cell().to_string(), policy(document).interfere()),
            ("weak/local".into(), Interfere::Read)
        );
    }
    assert_eq!(policy(documents[3]).placement(), Some(Placement::Giga));
    let pipeline = pipeline(documents[2]);
    assert!(guide.contains(&format!("`{pipeline}`")), "the guide does not say {pipeline}");
    for cell in Cell::all() {
        assert!(guide.contains(&format!("| `{}` |", cell.composition())), "{cell}");
    }
    for preset in crate::Preset::ALL {
        assert!(guide.contains(&format!("| `{preset}` | {} |", preset.cell())), "{preset}");
    }
}

#[test]
fn the_two_keys_come_together_as_in_the_table_and_persist_before_they_apply() {
    let both = |consistency: &str, durability: &str| {
        pipeline(&format!("consistency = '{consistency}'\ndurability = '{durability}'"))
    };
    let weak_local = "append_client_journal + local_persist + volatile_apply";
    assert_eq!(both("append client journal + volatile apply", "local persist"), weak_local);
    assert_eq!(both("weak", "local_persist"), weak_local);
    assert_eq!(both("append_client_journal + volatile_apply", "Local"), weak_local);
    assert_eq!(both("rpcs", "stream || local_persist"), "rpcs + stream || local_persist");
    for cell in Cell::all() {
        let composed = both(cell.consistency.name(), cell.durability.name());
        assert_eq!(composed, cell.composition().to_string(), "{cell}");
    }
}

#[test]
fn what_is_not_said_is_the_presets_and_without_a_preset_that_of_posix() {
    assert_eq!(pipeline("preset = 'batchfs'"), "append_client_journal + local_persist + volatile_apply");
    assert_eq!(policy("preset = 'batchfs'\ndurability = 'global'").cell().to_string(), "weak/global");
    assert_eq!(policy("preset = 'batchfs'\nconsistency = 'strong'").cell().to_string(), "strong/local");
    assert_eq!(pipeline("consistency = 'weak'"), "append_client_journal + global_persist + volatile_apply");
    assert_eq!(pipeline("durability = 'none'"), "rpcs");
    assert_eq!(pipeline("preset = 'hdfs'\npipeline = 'rpcs'"), "rpcs");
}

#[test]
fn a_whole_pipeline_excludes_the_two_keys() {
    refused("pipeline = 'rpcs'\ndurability = 'none'", "'none'", "excludes `durability`");
    refused("pipeline = 'rpcs'\nconsistency = 'weak'", "'weak'", "excludes `consistency`");
}

#[test]
fn what_is_wrong_in_a_composition_is_told_with_line_and_column_of_the_document() {
    let text = "# a policy\nallocated_inodes = 5\nconsistency = \"append_client_journal + volatile_aply\"\n";
    let fault = SubtreePolicy::parse(text).expect_err("it is wrong");
    assert_eq!((fault.line, fault.column), (3, 40));
    assert_eq!(
        fault.caret(),
        "consistency = \"append_client_journal + volatile_aply\"\n                                       ^"
    );
    refused("consistency = 'rpcs'\ndurability = '''\nstream\n+ local_persit'''", "local_persit", "`local_persist`?");
    refused("consistency = 'append client journal'\ndurability = 'stream'", "stream", "global_persist");
    refused(
        "pipeline = 'append_client_journal + volatile_apply + local_persist'",
        "local_persist'",
        "crash in the apply",
    );
    // Where it does not stand as it is read, at its beginning.
    refused("pipeline = \"rp\\u0063s + strea\"", "\"rp", "`stream`?");
}

#[test]
fn each_key_takes_its_own_mechanisms_and_in_their_order() {
    refused("consistency = 'rpcs + stream'", "stream", "says something of durability, not of consistency");
    refused(
        "consistency = 'volatile_apply + append_client_journal'",
        "append",
        "put `append_client_journal` before it",
    );
    refused("consistency = 'volatile_apply'", "volatile_apply", "there is none");
    refused("durability = 'rpcs'", "rpcs", "says something of consistency, not of durability");
}

#[test]
fn unknown_keys_and_values_are_told_with_what_was_likely_to_be_meant() {
    refused("durabilty = 'none'", "durabilty", "no key `durabilty`; did you mean `durability`?");
    refused("x = 1\ny = 2", "x", "no key `x`");
    refused("[floor]\ndurabilit = 'none'", "durabilit", "`durability`?");
    refused("preset = 'batchf'", "'batchf'", "did you mean `batchfs`?");
    refused("preset = 7", "7", "one of posix, relaxed, batchfs");
    refused("durability = 'weak'", "weak", "no mechanism");
    refused("consistency = true", "true", "\"invisible\", \"weak\", \"strong\"");
    refused("interfere = 'maybe'", "'maybe'", "\"allow\", \"read\" or \"block\"");
    refused("preset = 'deltafs'\ninterfere = 'read'", "'read'", "this policy merges nothing");
    refused("interfere = 'read'", "'read'", "with this policy nothing is decoupled");
    refused(
        "preset = 'relaxed'\ninterfere = 'block'",
        "'block'",
        "nothing is decoupled: it is strong/none; leave it out",
    );
    assert_eq!(policy("preset = 'relaxed'\ninterfere = 'allow'").interfere(), Interfere::Allow);
    refused("blind = 'yes'", "'yes'", "true or false");
    refused("floor = 'weak'", "'weak'", "a table");
    refused("[floor]\nconsistency = 'local'", "'local'", "\"invisible\", \"weak\" or \"strong\"");
    refused("preset = ", "", "");
    refused("blind = true\nblind = false", "blind = false", "duplicate");
}

#[test]
fn inodes_are_a_number_within_bounds() {
    assert_eq!(policy("allocated_inodes = 4_294_967_296").allocated_inodes(), ALLOCATED_INODES_MAX);
    assert_eq!(policy("allocated_inodes = 0x10").allocated_inodes(), 16);
    for bad in ["0", "-1", "4294967297", "99999999999999999999", "1.5", "'many'"] {
        refused(&format!("allocated_inodes = {bad}"), bad, "from 1 to 4294967296");
    }
}

#[test]
fn partial_merges_need_a_clients_journal() {
    let interval = policy("preset = 'deltafs'\nsync_interval = '10s'").sync_interval().expect("it is said");
    assert_eq!(interval.to_string(), "10s");
    refused("sync_interval = '10s'", "'10s'", "this policy has none");
    refused("preset = 'deltafs'\nsync_interval = 10", "10", "with one of the units");
}

#[test]
fn a_ceiling_says_the_most_and_one_below_what_the_policy_asks_for_is_refused() {
    let text =
        "preset = 'hdfs'\nallocated_inodes = 5\n[ceiling]\ndecouple = false\nallocated_inodes = 5\nlease = '30s'";
    let ceiling = policy(text).ceiling();
    assert_eq!(
        (ceiling.forbids, ceiling.allocated_inodes, ceiling.lease.map(|most| most.millis())),
        (true, Some(5), Some(30_000))
    );
    assert_eq!(SubtreePolicy::parse(&policy(text).to_text()), Ok(policy(text)));
    assert!(policy("[ceiling]\ndecouple = true").bounds().is_none());
    refused("preset = 'hdfs'\n[ceiling]\nallocated_inodes = 99", "99", "asks for 100, more than 99");
    refused("[ceiling]\nleas = '1s'", "leas", "`lease`?");
    refused("[ceiling]\ndecouple = 'no'", "'no'", "true or false");
    refused("ceiling = 5", "5", "a table");
    assert_eq!(
        policy("[ceiling]\nallocated_inodes = 99").ceiling().allocated_inodes,
        Some(99),
        "its operations go to the rank"
    );
}

#[test]
fn a_floor_above_what_the_policy_itself_gives_is_refused() {
    let floor = policy("preset = 'hdfs'\n[floor]\nconsistency = 'weak'\ndurability = 'local'").floor();
    assert_eq!((floor.consistency, floor.durability), (Some(Consistency::Weak), Some(Durability::Local)));
    refused("preset = 'hdfs'\n[floor]\nconsistency = 'strong'", "'strong'", "is weak, less than strong");
    refused("preset = 'ramdisk'\n[floor]\ndurability = 'local'", "'local'", "is none, less than local");
}

#[test]
fn a_document_is_bounded_and_bytes_that_are_no_text_are_refused() {
    let long = format!("#{}", "x".repeat(LEN_MAX));
    let fault = SubtreePolicy::parse(&long).expect_err("too long");
    assert!(fault.to_string().contains("longer than 4096 bytes"), "{fault}");
    policy(&long[..LEN_MAX]);
    SubtreePolicy::parse(&format!("floor = {}", "[".repeat(4000))).expect_err("nested");
    let fault = SubtreePolicy::parse_bytes(b"blind = true\n\xff").expect_err("no text");
    assert_eq!((fault.line, fault.column, fault.cause), (2, 1, Cause::NoText));
}

#[test]
fn what_changes_is_told_with_whether_each_guarantee_becomes_stronger_or_weaker() {
    let (posix, batchfs) = (policy(""), policy("preset = 'batchfs'\nallocated_inodes = 5\ninterfere = 'block'"));
    let lines = changes(&posix, &batchfs);
    assert!(lines[0].starts_with("consistency: strong -> weak (weaker): "), "{lines:?}");
    assert!(lines[1].starts_with("durability: global -> local (weaker): "), "{lines:?}");
    assert_eq!(lines[2], "pipeline: rpcs + stream -> append_client_journal + local_persist + volatile_apply");
    assert_eq!(lines[3], "allocated_inodes: 100 -> 5");
    assert!(lines[4].starts_with("interfere: allow -> block: others are refused"), "{lines:?}");
    assert_eq!(lines.len(), 5);
    assert!(changes(&batchfs, &posix)[1].contains("local -> global (stronger)"));
    // Nothing is decoupled then.
    assert!(!changes(&batchfs, &posix).iter().any(|line| line.starts_with("interfere")));
    assert_eq!(changes(&batchfs, &batchfs), Vec::<String>::new());
    let floored = policy("sync_interval = '1s'\nblind = true\npreset = 'hdfs'\n[floor]\nconsistency = 'weak'");
    let lines = changes(&policy("preset = 'hdfs'"), &floored);
    assert!(lines[0].starts_with("interfere: block -> read: others read the state of the last merge"), "{lines:?}");
    assert_eq!(lines[1], "sync_interval: - -> 1s");
    assert!(lines[2].starts_with("blind: false -> true: a merge does not look"), "{lines:?}");
    let floor =
        "floor of consistency: - -> weak (stronger): policies of directories below must be at least consistency weak";
    assert_eq!(lines[3], floor);
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_placement_is_one_of_those_that_directories_can_have_and_goes_with_what_is_done_at_the_rank() {
    assert_eq!(policy("blind = true").placement(), None);
    for placement in Placement::ALL {
        let text = format!("durability = 'local'\nplacement = '{}'", placement.name());
        assert_eq!(policy(&text).placement(), Some(placement));
    }
    refused(
        "placement = 'gigo'",
        "'gigo'",
        "one of subtree, giga, replicated, table, table-inherit has to stand here, not `gigo`; did you mean `giga`?",
    );
    refused("placement = 'inherited'", "'inherited'", "not `inherited`");
    refused("placement = true", "true", "one of subtree");
    refused("placment = 'giga'", "placment", "did you mean `placement`?");
}

#[test]
fn what_may_be_given_to_one_client_has_no_directories_at_all_ranks() {
    assert_eq!(policy("preset = 'batchfs'\nplacement = 'subtree'").placement(), Some(Placement::Subtree));
    for placement in Placement::ALL.iter().filter(|placement| placement.scatters()) {
        let text = format!("placement = '{}'\npreset = 'batchfs'", placement.name());
        let words = format!("under `{}` directories get ranks of their own", placement.name());
        refused(&text, &format!("'{}'", placement.name()), &words);
        let fault = SubtreePolicy::parse(&text).expect_err("it is refused").to_string();
        assert!(fault.contains("at one rank") && fault.contains("say `subtree`"), "no cause and remedy in {fault}");
        assert!(policy("preset = 'deltafs'").excludes(*placement) && !policy("").excludes(*placement));
    }
}

#[test]
fn a_document_with_a_placement_has_room_for_the_longest() {
    let of = |len: usize| format!("placement = \"giga\"\n#{}", "x".repeat(len - 20));
    let most = LEN_MAX - 16 + "\"giga\"".len();
    let text = of(most);
    assert_eq!((text.len(), policy(&text).placement()), (most, Some(Placement::Giga)));
    let longest = with_placement(text.as_bytes(), Placement::TableInherit);
    assert_eq!(
        SubtreePolicy::parse_bytes(&longest).map(|policy| policy.placement()),
        Ok(Some(Placement::TableInherit))
    );
    refused(&of(most + 1), "\"giga\"", "a policy with a placement is longer than 4080 bytes");
}

#[test]
fn the_journal_is_one_of_five_modes_and_selective_has_a_threshold() {
    assert_eq!(policy("").journaling(), None);
    for mode in JournalMode::ALL {
        let text = format!("journal = '{}'", mode.name());
        assert_eq!(policy(&text).journaling(), Some(Journaling::of(mode)));
    }
    let text = "journal = 'selective'\njournal_threshold = '16KiB'";
    let selective = Journaling { mode: JournalMode::Selective, threshold: 16384 };
    assert_eq!(policy(text).journaling(), Some(selective));
    refused("journal = 'wastless'", "'wastless'", "did you mean `wasteless`?");
    refused("journal = 1", "1", "one of wasteless, selective, data, ordered, writeback");
    for wrong in ["'0B'", "'257KiB'", "'16'", "'1MiB'", "16"] {
        let text = format!("journal = 'selective'\njournal_threshold = {wrong}");
        refused(&text, wrong, "a size from \"1B\" to \"256KiB\"");
    }
    refused("journal = 'data'\njournal_threshold = '1KiB'", "'1KiB'", "mode `data` has none");
    refused("journal_threshold = '1KiB'", "'1KiB'", "no `journal` is said");
}

#[test]
fn data_goes_into_the_journal_only_where_answers_wait_for_it() {
    for mode in JournalMode::ALL {
        let text = format!("durability = 'local'\njournal = '{}'", mode.name());
        match mode.takes_data() {
            true => refused(&text, &format!("'{}'", mode.name()), "in a relaxed directory answers come before"),
            false => assert_eq!(policy(&text).journaling(), Some(Journaling::of(mode))),
        }
    }
}

fn policies() -> impl Strategy<Value = SubtreePolicy> {
    let pipelines = prop::sample::select(vec![
        "rpcs || stream",
        "append_client_journal + local_persist || global_persist + nonvolatile_apply",
        "append_client_journal + (local_persist + volatile_apply)",
        "rpcs + local_persist",
        "append_client_journal",
    ]);
    let rest =
        (1..=ALLOCATED_INODES_MAX, any::<bool>(), any::<bool>(), 10..86_400_000u64, 0..4usize, 0..4usize, 0..6usize);
    let journal = (0..6usize, prop::option::of(1..=256u32 << 10));
    (pipelines, rest, journal).prop_map(|(pipeline, rest, (mode, threshold))| {
        let (inodes, block, blind, ms, consistency, durability, placement) = rest;
        let mut policy = SubtreePolicy::default();
        policy.pipeline = Pipeline::parse(pipeline).expect("it makes sense");
        policy.allocated_inodes = inodes;
        policy.interfere = match block {
            true if policy.pipeline.has_client_journal() => Interfere::Block,
            _ if policy.pipeline.merges() => Interfere::Read,
            _ => Interfere::Allow,
        };
        policy.blind = blind;
        policy.sync_interval = SyncInterval::of(&format!("{ms}ms")).filter(|_| policy.pipeline.has_client_journal());
        policy.placement = Placement::ALL.get(placement).copied().filter(|one| !policy.excludes(*one));
        policy.journal = JournalMode::ALL.get(mode).copied().filter(|mode| !mode.takes_data() || !policy.is_relaxed());
        policy.journal_threshold = threshold.filter(|_| policy.journal == Some(JournalMode::Selective));
        let cell = policy.cell();
        policy.floor.consistency =
            Consistency::ALL.get(consistency).copied().filter(|level| *level <= cell.consistency);
        policy.floor.durability = Durability::ALL.get(durability).copied().filter(|level| *level <= cell.durability);
        policy
    })
}

proptest! {
    #[test]
    fn the_canonical_text_reads_back_as_the_same_policy(policy in policies()) {
        let text = policy.to_text();
        prop_assert!(text.len() <= LEN_MAX);
        let again = SubtreePolicy::parse(&text).map_err(|fault| TestCaseError::fail(format!("{fault}: {text}")))?;
        prop_assert_eq!(again.to_text(), text.as_str());
        prop_assert_eq!(names_placement(text.as_bytes()), policy.placement.is_some());
        let own = policy.placement.unwrap_or_default();
        let shown = with_placement(text.as_bytes(), own);
        prop_assert_eq!(shown.as_ref(), text.as_bytes());
        prop_assert_eq!(again, policy);
    }

    #[test]
    fn no_bytes_panic_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(fault) = SubtreePolicy::parse_bytes(&bytes) {
            prop_assert_eq!(fault.caret().lines().count(), 2);
        }
    }

    #[test]
    fn no_document_panics_the_reader(
        text in "((preset|consistency|durability|pipeline|allocated_inodes|floor|sync_interval|[a-z]{1,3})( = |\\.)\
                 (['\"]{1,3}|true|\\{|\\[|[0-9]{1,3}|rpcs|stream|weak|\\\\u00e9|\\PC){0,6}\n?){0,4}"
    ) {
        if let Err(fault) = SubtreePolicy::parse(&text) {
            prop_assert!(fault.offset <= text.len());
            prop_assert!(fault.column >= 1 && fault.line >= 1);
        }
    }
}
