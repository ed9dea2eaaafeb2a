//! Any text as a name, a value or a config file: nothing ends the process, a value reads back as it is
//! printed, on one line, and a refused one changes nothing.

use vcmalloc_core::base::text::Buffer;
use vcmalloc_core::options::{self, Kind, OptionId, Options, Origin, Setting, each_setting};

fn text_of(write: impl Fn(&mut Buffer)) -> Vec<u8> {
    let mut bytes = [0u8; 1024];
    let mut buffer = Buffer::new(&mut bytes);
    write(&mut buffer);
    buffer.as_bytes().to_vec()
}

fn values(options: &Options) -> Vec<(u64, Origin)> {
    OptionId::ALL.iter().map(|id| (options.get(*id), options.origin(*id))).collect()
}

fn take(options: &Options, name: &[u8], text: &[u8], origin: Origin) {
    let before = values(options);
    match options.set(name, text, origin) {
        Ok(id) => {
            assert!(options.origin(id) >= origin, "the stronger origin wins");
            let (spec, again) = (options::spec(id), Options::new());
            let printed = text_of(|sink| options.put(sink, id));
            assert!(!printed.iter().any(u8::is_ascii_control), "{} = {printed:?}", spec.name);
            assert_eq!(again.set(spec.name.as_bytes(), &printed, Origin::Environment), Ok(id));
            assert_eq!(text_of(|sink| again.put(sink, id)), printed, "{}", spec.name);
            // A path's value is the number of its text.
            assert!(
                spec.kind == Kind::Path || again.get(id) == options.get(id),
                "{} = {printed:?}",
                spec.name
            );
        }
        Err(refused) => {
            assert_eq!(values(options), before, "a refused value changes nothing");
            let line = text_of(|sink| options::put_refusal(sink, "VCM_", name, text, refused));
            assert!(line.starts_with(b"vcmalloc: ") && (line.len() == 1024 || line.ends_with(b"\n")));
        }
    }
}

pub fn run(input: &[u8]) {
    let options = Options::new();
    let (first, rest) = input.split_first().unwrap_or((&0, &[]));
    // Every option sees the whole input as its value.
    let id = OptionId::ALL[*first as usize % OptionId::ALL.len()];
    take(&options, options::spec(id).name.as_bytes(), rest, Origin::Api);
    take(&options, options::spec(id).name.as_bytes(), rest, Origin::Environment);
    let lines = rest.split(|byte| *byte == b'\n').count();
    let mut settings = 0;
    each_setting(rest, b"program", |setting| {
        settings += 1;
        match setting {
            Setting::Value { name, text, origin, .. } => {
                assert!(!name.is_empty() && !text.is_empty() && text.trim_ascii() == text);
                take(&options, name, text, origin);
            }
            Setting::BadLine { number } => assert!((1..=lines).contains(&number)),
        }
    });
    assert!(settings <= lines);
    let _ = (options::nearest(rest), options::find_alias(rest), options::find(rest));
}
