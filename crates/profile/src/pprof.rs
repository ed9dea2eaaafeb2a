//! Profiles in pprof's format, compressed as its tools write them.

use super::message;
use super::profile::{Amount, Frame, Mapping, Measure, Profile, Site};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::time::{Duration, UNIX_EPOCH};

/// The most that a compressed file may unfold to.
const MOST_BYTES: u64 = 1 << 30;

/// Numbers for texts, functions and locations, each given once.
#[derive(Default)]
struct Tables {
    texts: HashMap<String, i64>,
    list: Vec<String>,
    functions: HashMap<(String, String), u64>,
    function_list: Vec<message::Function>,
}

impl Tables {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.list.len() as i64;
        self.list.push(text.to_string());
        self.texts.insert(text.to_string(), number);
        number
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let key = (frame.function.clone(), frame.file.clone());
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.function_list.len() as u64 + 1;
        let (name, filename) = (self.text(&frame.function), self.text(&frame.file));
        self.function_list.push(message::Function { id, name, system_name: name, filename });
        self.functions.insert(key, id);
        id
    }

    fn kind(&mut self, name: &str, unit: &str) -> message::ValueType {
        message::ValueType { kind: self.text(name), unit: self.text(unit) }
    }
}

impl Profile {
    /// The bytes of a file for pprof, which shows `first` unless it is asked for another measure.
    pub fn to_pprof(&self, first: Measure) -> Vec<u8> {
        let bytes = self.message(first).encode_to_vec();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        // A vector takes all that is written.
        let _ = encoder.write_all(&bytes);
        encoder.finish().unwrap_or_default()
    }

    /// The measures of pprof's own heap profiles, in their order, and what else is known.
    fn written(&self) -> Vec<Measure> {
        let others = [Measure::Peak, Measure::Pinned].into_iter();
        let others = others.filter(|measure| self.measures.contains(measure));
        [Measure::Allocated, Measure::Live].into_iter().chain(others).collect()
    }

    fn message(&self, first: Measure) -> message::Profile {
        let mut tables = Tables::default();
        tables.text("");
        let measures = self.written();
        let mut sample_type = Vec::new();
        for measure in &measures {
            sample_type.push(tables.kind(&format!("{}_objects", measure.name()), "count"));
            sample_type.push(tables.kind(&format!("{}_space", measure.name()), "bytes"));
        }
        let mapping =
            self.mappings.iter().zip(1..).map(|(from, id)| mapping(from, id, &mut tables)).collect();
        let (location, numbers) = self.locations(&mut tables);
        let sample = self.sites.iter().map(|site| message::Sample {
            location_id: site.frames.iter().filter_map(|frame| numbers.get(frame).copied()).collect(),
            value: measures.iter().flat_map(|measure| values(site.amount(*measure))).collect(),
        });
        let time = self.time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        message::Profile {
            sample_type,
            sample: sample.filter(|sample| sample.value.iter().any(|value| *value != 0)).collect(),
            mapping,
            location,
            time_nanos: time.as_nanos() as i64,
            duration_nanos: self.duration.as_nanos() as i64,
            period_type: Some(tables.kind("space", "bytes")),
            period: self.interval as i64,
            comment: self.comments.iter().map(|line| tables.text(line)).collect(),
            default_sample_type: tables.text(&format!("{}_space", first.name())),
            function: std::mem::take(&mut tables.function_list),
            string_table: tables.list,
        }
    }

    /// One for each address, and their numbers.
    fn locations(&self, tables: &mut Tables) -> (Vec<message::Location>, HashMap<u64, u64>) {
        let (mut locations, mut numbers) = (Vec::new(), HashMap::new());
        for address in self.sites.iter().flat_map(|site| &site.frames) {
            if numbers.contains_key(address) {
                continue;
            }
            let id = locations.len() as u64 + 1;
            numbers.insert(*address, id);
            let frames = self.frames.get(address).map(Vec::as_slice).unwrap_or_default();
            let line = frames.iter().map(|frame| message::Line {
                function_id: tables.function(frame),
                line: i64::from(frame.line),
            });
            let holds = |mapping: &Mapping| (mapping.start..mapping.end).contains(address);
            let mapping_id = self.mappings.iter().position(holds).map_or(0, |index| index as u64 + 1);
            locations.push(message::Location { id, mapping_id, address: *address, line: line.collect() });
        }
        (locations, numbers)
    }

    /// Reads a file of pprof's format, ours or another tool's.
    pub fn from_pprof(bytes: &[u8]) -> io::Result<Profile> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_string());
        let mut plain = Vec::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            MultiGzDecoder::new(bytes).take(MOST_BYTES).read_to_end(&mut plain)?;
        } else {
            plain = bytes.to_vec();
        }
        let message = message::Profile::decode(plain.as_slice())
            .map_err(|_| wrong("is no profile of pprof's format"))?;
        if message.sample_type.is_empty() {
            return Err(wrong("is no profile of pprof's format"));
        }
        let profile = of_message(&message);
        if profile.measures.is_empty() {
            return Err(wrong("is a profile, but not one of a heap"));
        }
        Ok(profile)
    }
}

fn values(amount: Amount) -> [i64; 2] {
    [amount.objects.round() as i64, amount.bytes.round() as i64]
}

fn mapping(from: &Mapping, id: u64, tables: &mut Tables) -> message::Mapping {
    message::Mapping {
        id,
        memory_start: from.start,
        memory_limit: from.end,
        file_offset: from.offset,
        filename: tables.text(&from.file),
        build_id: tables.text(&from.build_id),
        has_functions: from.named,
        has_filenames: from.named,
        has_line_numbers: from.named,
        has_inline_frames: from.named,
    }
}

fn of_message(message: &message::Profile) -> Profile {
    let text = |number: i64| {
        let text = usize::try_from(number).ok().and_then(|at| message.string_table.get(at));
        text.cloned().unwrap_or_default()
    };
    let names: Vec<String> = message.sample_type.iter().map(|kind| text(kind.kind)).collect();
    let place = |name: String| names.iter().position(|known| *known == name);
    let columns: Vec<(Measure, Option<usize>, usize)> = Measure::ALL
        .into_iter()
        .filter_map(|measure| {
            let space = place(format!("{}_space", measure.name()))?;
            Some((measure, place(format!("{}_objects", measure.name())), space))
        })
        .collect();
    let functions: HashMap<u64, &message::Function> =
        message.function.iter().map(|function| (function.id, function)).collect();
    // Addresses may repeat from file to file, or be missing: then the location's number stands for it.
    let address = |location: &message::Location| match location.address {
        0 => u64::MAX - location.id,
        address => address,
    };
    let addresses: HashMap<u64, u64> =
        message.location.iter().map(|location| (location.id, address(location))).collect();
    let frame = |line: &message::Line| {
        let function = functions.get(&line.function_id)?;
        let line = u32::try_from(line.line).unwrap_or(0);
        Some(Frame { function: text(function.name), file: text(function.filename), line })
    };
    let frames = message
        .location
        .iter()
        .map(|location| (address(location), location.line.iter().filter_map(frame).collect::<Vec<Frame>>()));
    let interval = u64::try_from(message.period).unwrap_or(0);
    let site = |sample: &message::Sample| {
        let frames = sample.location_id.iter().filter_map(|id| addresses.get(id).copied()).collect();
        let mut site = Site { frames, ..Site::default() };
        for (measure, objects, space) in &columns {
            let value = |at: usize| sample.value.get(at).copied().unwrap_or(0) as f64;
            *site.amount_mut(*measure) = Amount::sampled(objects.map_or(0.0, value), value(*space), interval);
        }
        site
    };
    Profile {
        sites: message.sample.iter().map(site).collect(),
        mappings: message.mapping.iter().map(|from| of_mapping(from, &text)).collect(),
        frames: frames.filter(|(_, frames)| !frames.is_empty()).collect(),
        interval,
        time: u64::try_from(message.time_nanos).ok().map(|time| UNIX_EPOCH + Duration::from_nanos(time)),
        duration: Duration::from_nanos(u64::try_from(message.duration_nanos).unwrap_or(0)),
        comments: message.comment.iter().map(|line| text(*line)).collect(),
        measures: columns.into_iter().map(|(measure, ..)| measure).collect(),
        ..Profile::default()
    }
}

fn of_mapping(from: &message::Mapping, text: &impl Fn(i64) -> String) -> Mapping {
    Mapping {
        start: from.memory_start,
        end: from.memory_limit,
        offset: from.file_offset,
        file: text(from.filename),
        build_id: text(from.build_id),
        to_file: from.file_offset.wrapping_sub(from.memory_start),
        named: from.has_functions,
        readable: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Profile {
        let amount = |bytes: f64| Amount::sampled(bytes / 10.0, bytes, 1000);
        let site = |frames: &[u64], live: f64| Site {
            frames: frames.to_vec(),
            live: amount(live),
            allocated: amount(live * 3.0),
            ..Site::default()
        };
        let frame = |name: &str| Frame { function: name.into(), file: "a.c".into(), line: 7 };
        Profile {
            sites: vec![site(&[0x1010, 0x1020], 500.0), site(&[0x1030, 0x1020], 70.0), site(&[0x9], 0.0)],
            mappings: vec![Mapping {
                start: 0x1000,
                end: 0x2000,
                file: "/bin/a".into(),
                build_id: "ab12".into(),
                named: true,
                ..Mapping::default()
            }],
            frames: [(0x1010, vec![frame("inner"), frame("outer")]), (0x1020, vec![frame("main")])].into(),
            interval: 1000,
            time: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            duration: Duration::from_secs(30),
            comments: vec!["ceph-osd -i 3".into()],
            measures: vec![Measure::Live, Measure::Allocated],
            ..Profile::default()
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let before = small();
        let bytes = before.to_pprof(Measure::Live);
        assert_eq!(bytes.get(..2), Some(&[0x1f, 0x8b][..]));
        let after = Profile::from_pprof(&bytes).unwrap();
        // A site without anything is left out.
        assert_eq!(after.sites.len(), 2);
        for (before, after) in before.sites.iter().zip(&after.sites) {
            assert_eq!(
                (&before.frames, before.live, before.allocated),
                (&after.frames, after.live, after.allocated)
            );
        }
        assert_eq!(after.frames, before.frames);
        let mapping = after.mappings.first().unwrap();
        assert_eq!(
            (mapping.file.as_str(), mapping.build_id.as_str(), mapping.named),
            ("/bin/a", "ab12", true)
        );
        assert_eq!((after.interval, after.time, after.duration), (1000, before.time, before.duration));
        assert_eq!((after.comments, after.measures), (before.comments, before.measures));
    }

    #[test]
    fn kinds_of_sample_stand_where_heap_profiles_have_them() {
        let message = small().message(Measure::Allocated);
        let text = |number: i64| message.string_table.get(number as usize).unwrap().as_str();
        let kinds: Vec<(&str, &str)> =
            message.sample_type.iter().map(|kind| (text(kind.kind), text(kind.unit))).collect();
        assert_eq!(
            kinds,
            [
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes")
            ]
        );
        assert_eq!(text(message.default_sample_type), "alloc_space");
        let period = message.period_type.unwrap();
        assert_eq!((text(period.kind), text(period.unit), message.period), ("space", "bytes", 1000));
        assert_eq!(message.string_table.first().map(String::as_str), Some(""));
    }

    #[test]
    fn what_is_no_profile_is_refused_in_words() {
        let refused = |bytes: &[u8]| Profile::from_pprof(bytes).err().map(|error| error.to_string());
        assert_eq!(refused(b"").as_deref(), Some("is no profile of pprof's format"));
        assert_eq!(
            refused(b"heap profile: 1: 2 [3: 4] @ heapprofile").as_deref(),
            Some("is no profile of pprof's format")
        );
        let cut = small().to_pprof(Measure::Live);
        assert!(refused(cut.get(..cut.len() / 2).unwrap()).is_some());
        let cpu = message::Profile {
            sample_type: vec![message::ValueType { kind: 1, unit: 2 }],
            string_table: ["", "cpu", "nanoseconds"].map(str::to_string).to_vec(),
            ..message::Profile::default()
        };
        assert_eq!(refused(&cpu.encode_to_vec()).as_deref(), Some("is a profile, but not one of a heap"));
    }
}
