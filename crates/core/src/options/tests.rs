use super::*;
use crate::base::text::Buffer;
use proptest::prelude::*;

fn text_of(write: impl Fn(&mut dyn Sink)) -> String {
    let mut bytes = [0u8; 512];
    let mut buffer = Buffer::new(&mut bytes);
    write(&mut buffer);
    String::from_utf8(buffer.as_bytes().to_vec()).unwrap()
}

fn refusal(name: &str, value: &str) -> String {
    let options = Options::new();
    let refused = options.set(name.as_bytes(), value.as_bytes(), Origin::Environment).unwrap_err();
    text_of(|sink| put_refusal(sink, "VCM_", name.as_bytes(), value.as_bytes(), refused))
}

#[test]
fn every_default_reads_back_as_it_is_written() {
    for id in OptionId::ALL {
        let (spec, options) = (spec(id), Options::new());
        assert_eq!(options.origin(id), Origin::Default);
        assert_eq!(
            text_of(|sink| put_value(sink, spec.kind, options.get(id))),
            spec.default,
            "{}",
            spec.name
        );
    }
}

#[test]
fn byte_counts_take_the_units_that_people_write() {
    let options = Options::new();
    let known: [(&str, u64); 7] = [
        ("0", 0),
        ("4096", 4096),
        ("64k", 64 << 10),
        ("32M", 32 << 20),
        ("32MiB", 32 << 20),
        ("1GB", 1 << 30),
        ("auto", AUTO),
    ];
    for (text, bytes) in known {
        options.set(b"cache_limit", text.as_bytes(), Origin::Api).unwrap();
        assert_eq!(options.get(OptionId::cache_limit), bytes, "{text}");
    }
    for bad in ["", "M", "-1", "32Q", "32 M", "1.5M", "18446744073709551616", "99999999T", "2T"] {
        assert!(options.set(b"cache_limit", bad.as_bytes(), Origin::Api).is_err(), "{bad}");
    }
    assert_eq!(options.get(OptionId::cache_limit), AUTO, "a refused value changes nothing");
}

/// The value of an option as it is printed.
fn written(options: &Options, id: OptionId) -> Vec<u8> {
    let mut bytes = [0u8; PATH_BYTES];
    let mut buffer = Buffer::new(&mut bytes);
    options.put(&mut buffer, id);
    buffer.as_bytes().to_vec()
}

#[test]
fn a_path_reads_back_as_it_is_written() {
    let longest = [&b"/"[..], &[b'x'; PATH_BYTES - 2]].concat();
    for path in [&b"/8\xb5:"[..], b"/var/log/%e.%p 100%%", b"//#=[x]", b"off", &longest] {
        let (options, again) = (Options::new(), Options::new());
        assert_eq!(options.set(b"last_words", path, Origin::Api), Ok(OptionId::last_words));
        let text = written(&options, OptionId::last_words);
        assert_eq!(text, path);
        assert_eq!(again.set(b"last_words", &text, Origin::Api), Ok(OptionId::last_words));
        assert_eq!(written(&again, OptionId::last_words), path);
    }
}

#[test]
fn a_path_with_a_control_byte_is_refused_for_it_is_printed_on_one_line() {
    let options = Options::new();
    options.set(b"last_words", b"/kept", Origin::Api).unwrap();
    for byte in (0..b' ').chain([0x7f]) {
        for path in [&[b'/', byte][..], &[b'/', b'a', byte], &[b'/', b'%', b'p', byte, b'z']] {
            let refused = Err(Refused::BadValue(BadValue::NotOfKind));
            assert_eq!(options.set(b"last_words", path, Origin::Api), refused, "{path:?}");
        }
    }
    assert_eq!(written(&options, OptionId::last_words), b"/kept");
    assert!(refusal("last_words", "/a\tb").contains("no control characters"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_value_that_is_taken_reads_back_as_it_is_written_on_one_line(
        option in 0..OPTION_COUNT,
        text in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..12),
            "[0-9]{1,20}(|%|[KMGTkmgt](|B|iB|b)|B|b|ns|us|ms|s|m|min|h|S|MS)".prop_map(String::into_bytes),
            "(?i)auto|on|off|always|locked|few|true|false|yes|no|0|1".prop_map(String::into_bytes),
            "/([ -~]|%[pe%]){0,300}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| [&b"/"[..], &bytes].concat()),
        ],
    ) {
        let (id, options, again) = (OptionId::ALL[option], Options::new(), Options::new());
        let name = spec(id).name.as_bytes();
        if options.set(name, &text, Origin::Environment) == Ok(id) {
            let printed = written(&options, id);
            prop_assert!(!printed.is_empty() && !printed.iter().any(u8::is_ascii_control), "{:?}", printed);
            prop_assert_eq!(again.set(name, &printed, Origin::Environment), Ok(id));
            prop_assert_eq!((again.get(id), written(&again, id)), (options.get(id), printed));
        }
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_one() {
    let line = refusal("cache_limt", "1M");
    assert_eq!(
        line,
        "vcmalloc: VCM_CACHE_LIMT: no option of this name; did you mean VCM_CACHE_LIMIT? ('vcm config' lists all)\n"
    );
    assert!(!refusal("zzzzzz", "1M").contains("did you mean"));
}

#[test]
fn a_bad_value_is_refused_with_what_is_expected() {
    assert_eq!(
        refusal("cache_limit", "lots"),
        "vcmalloc: VCM_CACHE_LIMIT: 'lots' cannot be read; expected bytes such as 32M, or auto, from 0 to 1T; \
         it stays at the value it had\n"
    );
    assert!(refusal("stats_at_exit", "maybe").contains("expected on or off"));
    assert!(refusal("janitor", "maybe").contains("expected on, off or always"));
    for (name, value) in
        [("release_delay", "1ms"), ("release_delay", "2h"), ("cache_limit", "2T"), ("retain", "101%")]
    {
        assert!(refusal(name, value).contains("is out of range"), "{name} {value}");
    }
}

#[test]
fn the_stronger_origin_wins_in_any_order() {
    let options = Options::new();
    options.set(b"cache_limit", b"1M", Origin::Environment).unwrap();
    options.set(b"cache_limit", b"2M", Origin::File).unwrap();
    assert_eq!(options.get(OptionId::cache_limit), 1 << 20);
    options.set(b"cache_limit", b"3M", Origin::Api).unwrap();
    assert_eq!(
        (options.get(OptionId::cache_limit), options.origin(OptionId::cache_limit)),
        (3 << 20, Origin::Api)
    );
}

#[test]
fn an_option_that_is_read_at_start_cannot_be_changed_later() {
    assert_eq!(Options::new().set(b"front", b"locked", Origin::Api), Err(Refused::NotLive));
    assert_eq!(Options::new().set(b"front", b"locked", Origin::Environment), Ok(OptionId::front));
}

#[test]
fn a_file_holds_for_all_programs_until_its_first_section() {
    let content = b"cache_limit = 1M # for all\n\n[ceph-osd]\ncache_limit=2M\n[other]\ncache_limit = 3M\n[*]\nstats_at_exit = on";
    let mut seen = Vec::new();
    each_setting(content, b"ceph-osd", |setting| {
        if let Setting::Value { text, origin, .. } = setting {
            seen.push((text, origin));
        }
    });
    assert_eq!(seen, [(&b"1M"[..], Origin::File), (b"2M", Origin::FileSection), (b"on", Origin::File)]);
}

#[test]
fn a_line_that_cannot_be_read_is_reported_with_its_number() {
    let mut bad = Vec::new();
    each_setting(b"# fine\ncache_limit 1M\n= 3\n", b"x", |setting| {
        if let Setting::BadLine { number } = setting {
            bad.push(number);
        }
    });
    assert_eq!(bad, [2, 3]);
}

#[test]
fn lines_behind_a_section_that_cannot_be_read_hold_for_nobody() {
    for bad in ["[ceph-osd", "[", "[]", "[ceph-*]", "[/usr/bin/ceph-osd]"] {
        let mut seen = Vec::new();
        let content = format!("retain = 1M\n{bad}\nretain = 2M\n[redis]\nretain = 3M\n");
        each_setting(content.as_bytes(), b"redis", |setting| match setting {
            Setting::Value { text, .. } => seen.push(String::from_utf8(text.to_vec()).unwrap()),
            Setting::BadLine { number } => seen.push(format!("line {number}")),
        });
        assert_eq!(seen, ["1M", "line 2", "3M"], "{bad}");
    }
    let mut found = 0;
    each_setting(b"[Web Content]\nretain = 1M", b"Web Content", |_| found += 1);
    assert_eq!(found, 1, "a program's name may have a blank in it");
}

#[test]
fn of_a_file_that_is_too_long_whole_lines_are_read() {
    let short = [b'x'; FILE_ROOM - 1];
    assert_eq!(part_to_read(&short), (&short[..], false));
    let mut long = [b'x'; FILE_ROOM + 10];
    assert_eq!(part_to_read(&long), (&[][..], true));
    long[8000] = b'\n';
    assert_eq!(part_to_read(&long), (&long[..8000], true));
}

#[test]
fn a_section_may_give_a_name_longer_than_the_kernel_keeps() {
    let mut found = 0;
    each_setting(b"[a-very-long-daemon-name]\ncache_limit = 1M", b"a-very-long-dae", |_| found += 1);
    assert_eq!(found, 1);
}
