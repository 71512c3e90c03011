//! What a configuration says of what is wrong in it.

use barewire_proto::evb::Part;
use barewire_units::Rate;

use super::*;
use crate::shape::Shaping;

fn faults(text: &str) -> Vec<String> {
    let faults = Config::parse(text, "a.toml").expect_err("faulty");
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn the_template_is_the_default() {
    let config = Config::parse(&template(), "template").expect("the template");
    let empty = Config::parse("", "empty").expect("all defaults");
    assert_eq!(config.manager, empty.manager);
    assert_eq!(config.source, empty.source);
    assert_eq!(config.builder, empty.builder);
    assert_eq!(config.sizes, empty.sizes);
    assert_eq!(config.tcp_builders.len(), 1);
}

#[test]
fn every_key_says_what_it_expected() {
    for key in keys::KEYS {
        let text = format!("[{}]\n{} = 1979-05-27\n", key.section, key.name);
        let found = faults(&text);
        let start = format!(
            "a.toml:2: {}.{} = 1979-05-27: expected",
            key.section, key.name
        );
        assert!(found.iter().any(|it| it.starts_with(&start)), "{found:?}");
    }
}

#[test]
fn errors_name_line_key_and_what_was_expected() {
    let text = "[run]\ntransport = \"rings\"\nseeds = 4\n[sourc]\n[source]\npiece = \"3 parsecs\"\n\
                [network]\nring = \"96 KiB\"\n[parts]\nsources = 0\n[tcp]\nmanager = \"here\"\n";
    assert_eq!(
        faults(text),
        [
            "a.toml:2: run.transport = \"rings\": expected one of \"ring\", \"tcp\", \"hosts\"; did you mean `ring`?",
            "a.toml:3: run.seeds = 4: no such key; did you mean `seed`?",
            "a.toml:4: sourc: no such section; did you mean `source`?",
            "a.toml:6: source.piece = \"3 parsecs\": unknown unit, expected one of: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB; \
             expected a size with its unit, such as \"64 KiB\"",
            "a.toml:8: network.ring = \"96 KiB\": expected a power of two of at least 256KiB for such pieces",
            "a.toml:10: parts.sources = 0: expected a whole number, 1 to 1024",
            "a.toml:12: tcp.manager = \"here\": `here`: expected an address or a host name with a port, such as 127.0.0.1:7100",
        ]
    );
    assert_eq!(faults("a = [\n").len(), 1);
}

#[test]
fn faulty_fragments_are_for_the_generator_and_no_more_than_all() {
    let config = Config::parse(
        "[faults]\nlate = 0.5\ncheck = 0.5\ndelay = \"3 s\"\n",
        "a.toml",
    );
    let asked = config.expect("good").faults;
    assert_eq!((asked.late, asked.check, asked.any()), (0.5, 0.5, true));
    assert_eq!(asked.delay, Duration::from_ms(3000));
    assert!(!Config::parse("", "a.toml").expect("good").faults.any());
    let many = faults("[faults]\nsize = 0.5\ncheck = 0.6\n");
    assert!(
        many[0].starts_with("a.toml:2: faults.size = 0.5: expected shares"),
        "{many:?}"
    );
    let own = faults("[source]\nkind = \"own\"\n[faults]\ntwice = 0.5\n");
    assert!(
        own[0].starts_with("a.toml:4: faults.twice = 0.5: only the generator"),
        "{own:?}"
    );
    let more = faults("[faults]\nnumber = 1.5\n");
    assert!(more[0].ends_with("expected a number, 0 to 1"), "{more:?}");
}

#[test]
fn a_key_gets_another_value() {
    let text = with("[run]\nseed = 3\n", "a.toml", "fragments.size", "2 KiB");
    let text = with(&text.expect("a key"), "a.toml", "run.seed", "4").expect("a key");
    let config = Config::parse(&text, "a.toml").expect("good");
    assert_eq!((config.sizes.mean_bytes, config.seed), (2048, 4));
    assert!(with("", "a.toml", "run.sed", "4").is_err());
    assert!(with("", "a.toml", "run.seed", "=").is_err());
}

#[test]
fn shaping_by_the_kernel_is_for_tcp() {
    let kernel = "[flow]\ncontrol = \"kernel\"\nrate = \"100 Mbit/s\"\nburst = \"1 KiB\"\n";
    let found = faults(kernel);
    assert!(found[0].starts_with("a.toml:2: flow.control = \"kernel\": `kernel` shapes"));
    assert!(
        found[1].contains("expected at least 2500B: what the rate sends in 200us"),
        "{found:?}"
    );
    let good = kernel.replace("1 KiB", "4 KiB") + "[run]\ntransport = \"tcp\"\n";
    let config = Config::parse(&good, "a.toml").expect("good");
    let shaping = Shaping {
        rate: Rate::from_mbps(100),
        burst_bytes: 4096,
    };
    assert_eq!(
        (config.shaping, config.source.flow),
        (Some(shaping), Flow::Free)
    );
    let many = good + "[parts]\nsources = 1000\nbuilders = 100\n";
    assert!(faults(&many)[0].contains("100000 pairs"));
}

#[test]
fn parts_on_other_hosts_are_started_by_the_commands_of_the_configuration() {
    let text = "[run]\ntransport = \"hosts\"\n[parts]\nsources = 2\nbuilders = 2\n\
                [start]\nbuilders = [\"ssh  node1\", \"\"]\nsources = [\"ssh node2\"]\nprogram = \"/opt/b\"\n";
    let config = Config::parse(text, "a.toml").expect("good");
    let line = |part| {
        let (here, file) = (Path::new("/here/b"), Path::new("a.toml"));
        let program = config.start.program(part, here);
        let (mut command, file) = config.start.command(part, program, file);
        command.arg(file);
        format!("{command:?}").replace('"', "")
    };
    assert_eq!(line(None), "/here/b a.toml");
    let builder = |id| line(Some(Part::Builder(BuilderId(id))));
    assert_eq!(builder(0), "ssh node1 /opt/b -");
    assert_eq!(builder(1), "/here/b a.toml");
    let source = |id| line(Some(Part::Source(SourceId(id))));
    assert_eq!(source(1), "ssh node2 /opt/b -");
    let few = text
        .replace("sources = 2", "sources = 3")
        .replace("[\"ssh node2\"]", "[\"a\", \"b\"]");
    assert!(
        faults(&few)[0].starts_with("a.toml:8: start.sources"),
        "{few}"
    );
    let odd = faults("[hosts]\nsecurity = \"none\"\n");
    assert!(odd[0].contains("\"insecure-anywhere\""), "{odd:?}");
}

#[test]
fn contradictory_values_are_reported() {
    let barrel = "[flow]\ncontrol = \"barrel\"\nslot = \"1 us\"\n";
    assert!(faults(barrel)[0].starts_with("a.toml:3: flow.slot = \"1 us\": 125 B go in a slot"));
    let bucket = "[flow]\ncontrol = \"bucket\"\nburst = \"1 KiB\"\n";
    assert!(faults(bucket)[0].contains("expected at least"));
    let sizes = "[fragments]\nsize = \"1 KiB\"\nsize_min = \"2 KiB\"\n";
    assert!(faults(sizes)[0].contains("from size_min to size_max"));
    let replay = "[source]\nkind = \"replay\"\n[replay]\nfiles = [\"/nowhere.evb\"]\n";
    let replay = faults(replay);
    assert!(
        replay[0].contains("trigger.mode = \"max\": expected \"sources\""),
        "{replay:?}"
    );
    assert!(
        replay[1].starts_with("a.toml:4: replay.files"),
        "{replay:?}"
    );
    let nobody = faults("[trigger]\nmode = \"sources\"\n");
    assert!(
        nobody[0].starts_with("a.toml:2: trigger.mode"),
        "{nobody:?}"
    );
    let sink = "[sink]\nkind = \"hdf5\"\ndirectory = \"/nowhere\"\n";
    assert!(faults(sink)[0].starts_with("a.toml:3: sink.directory"));
    let busy = "[parts]\nliveness = \"20 ms\"\n";
    assert!(
        faults(busy)[0]
            .starts_with("a.toml:2: parts.liveness = \"20 ms\": expected at least 200ms"),
        "{:?}",
        faults(busy)
    );
    let large = "[fragments]\nsize = \"2 MiB\"\n[source]\nbuffer = \"1 MiB\"\n";
    assert!(
        faults(large)[0].starts_with("a.toml:4: source.buffer = \"1 MiB\": expected at least 2MiB"),
        "{:?}",
        faults(large)
    );
    let shared = "[run]\ntransport = \"tcp\"\n[parts]\nbuilders = 2\n\
                  [tcp]\nmanager = \"[::1]:1\"\nbuilders = [\"[::1]:1\", \"[::1]:1\"]\n";
    let found = faults(shared);
    assert!(
        found[0].contains("builder 0 has the address of tcp.manager"),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|it| it.contains("builders 0 and 1 have the same address")),
        "{found:?}"
    );
    let builders = "[parts]\nbuilders = 3\n[tcp]\nbuilders = [\"[::1]:1\", \"[::1]:2\"]\n";
    assert!(faults(builders)[0].starts_with("a.toml:4: tcp.builders"));
}

#[test]
fn rates_are_admitted_against_the_line() {
    let with = |control: &str, rate: &str| {
        let flow =
            format!("[flow]\ncontrol = \"{control}\"\nline = \"1 Gbit/s\"\nslot = \"10 ms\"\n");
        format!("{flow}rate = \"{rate}\"\n[parts]\nsources = 4\nbuilders = 2\n")
    };
    for (control, rate) in [
        ("bucket", "250 Mbit/s"),
        ("bucket", "2.5e8 bit/s"),
        ("barrel", "1 Gbit/s"),
    ] {
        assert!(
            Config::parse(&with(control, rate), "a.toml").is_ok(),
            "{control}"
        );
    }
    assert_eq!(
        faults(&with("bucket", "300 Mbit/s")),
        [
            "a.toml:3: flow.line = \"1 Gbit/s\": source 3 reserves 300Mbit/s to each builder, and 100000000 bit/s \
          of its line are left: expected flow.rate of at most 250Mbit/s"
        ]
    );
    let all = |rate| faults(&with("bucket", rate)).join("\n");
    assert!(all("2.5e-1 bit/s").contains("not a whole number"));
    assert!(all("1e-Gbit/s").contains("such as 15, 7.9 or 1e-3"));
    assert!(faults(&with("barrel", "2 Gbit/s"))[0].contains("at most 1Gbit/s"));
    assert!(faults(&with("credits", "1 Mbit/s"))[0].contains("sources reserve no rate"));
}

#[test]
fn a_number_alone_is_no_quantity() {
    for (section, key) in [
        ("fragments", "size"),
        ("fragments", "size_min"),
        ("flow", "burst"),
        ("source", "buffer"),
        ("source", "piece"),
        ("network", "ring"),
        ("sink", "buffer"),
        ("sink", "patience"),
        ("builder", "timeout"),
        ("run", "duration"),
        ("monitor", "period"),
        ("monitor", "line"),
        ("flow", "rate"),
        ("flow", "line"),
    ] {
        let found = faults(&format!("[{section}]\n{key} = \"65536\"\n"));
        let start = format!("a.toml:2: {section}.{key} = \"65536\": ");
        let is_told = |it: &String| it.starts_with(&start) && it.contains("unit");
        assert!(found.iter().any(is_told), "{key}: {found:?}");
    }
    assert!(Config::parse("[fragments]\nsize_min = \"0\"\n", "a.toml").is_ok());
}

/// As many fragments in flight as a MiB takes, or as many as the configuration says.
#[test]
fn small_fragments_have_more_in_flight() {
    let numbers = |text: &str| {
        let config = Config::parse(text, "numbers").expect("sound");
        (config.manager.window, config.builder.credits)
    };
    for (size, window, credits) in [
        ("64 B", 4096, 4096),
        ("256 B", 4096, 4096),
        ("1 KiB", 1024, 1024),
        ("16 KiB", 256, 64),
        ("1 MiB", 256, 64),
    ] {
        let text = format!("[fragments]\nsize = \"{size}\"\n");
        assert_eq!(numbers(&text), (Some(window), Some(credits)), "{size}");
    }
    let given = "[assignment]\nwindow = 3\n[flow]\ncredits = 2\n";
    assert_eq!(numbers(given), (Some(3), Some(2)));
}
