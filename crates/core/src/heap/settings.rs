//! The settings that the heap is told when it starts: the config file and the environment.

use crate::base::text::{self, Buffer, Sink};
use crate::class::UNIT_BYTES;
use crate::heap::Heap;
use crate::options::{
    self, CONFIG_FILE, OptionId, Origin, Refused, Setting, TOOL_VARIABLES, VARIABLE_PREFIX,
};
use crate::os::{Os, Unread};
use core::ffi::CStr;

const MOST_PATH_BYTES: usize = 511;
const PREFIX: &[u8] = VARIABLE_PREFIX.as_bytes();

impl<O: Os> Heap<O> {
    pub(crate) fn read_settings(&self) {
        if self.os.is_privileged() {
            return;
        }
        self.read_config_file();
        self.os.each_variable(&mut |name, value| {
            if let Some(option) = name.strip_prefix(PREFIX) {
                if !TOOL_VARIABLES.iter().any(|tool| tool.as_bytes() == name) {
                    self.take_variable(option, value);
                }
            } else if let Some(outcome) = self.options.set_foreign(name, value) {
                self.warn_about(outcome.err(), "", name, value);
            }
        });
        if self.options.is_on(OptionId::double_free_check) {
            self.warn(&[
                b"double_free_check has no effect any more: a second free of a block of up to 64 bytes is \
                stopped without it, one of any block by the hardened library (vcm run --hardened)",
            ]);
        }
        if !self.options.is_on(OptionId::dump_heaps) {
            self.leave_heaps_out_of_dumps();
        }
    }

    fn leave_heaps_out_of_dumps(&self) {
        if self.os.page_bytes() <= UNIT_BYTES {
            return self.pages.leave_out_heaps();
        }
        self.warn(&[
            b"dump_heaps=off has no effect with pages of more than 16 KiB: core files have the memory of heaps",
        ]);
    }

    /// `VCM_CACHE_LIMIT` is the option `cache_limit`.
    fn take_variable(&self, option: &[u8], value: &[u8]) {
        let mut lower = [0u8; 48];
        let Some(name) = lower.get_mut(..option.len()) else {
            return self.warn_about(Some(Refused::UnknownName), VARIABLE_PREFIX, option, value);
        };
        for (to, from) in name.iter_mut().zip(option) {
            *to = from.to_ascii_lowercase();
        }
        let outcome = self.options.set(name, value, Origin::Environment);
        self.warn_about(outcome.err(), VARIABLE_PREFIX, name, value);
    }

    fn read_config_file(&self) {
        let mut path = [0u8; MOST_PATH_BYTES + 1];
        let (mut named, mut too_long) = (false, false);
        self.os.each_variable(&mut |name, value| {
            if name == b"VCM_CONFIG" {
                named = !value.is_empty();
                // The last byte stays zero.
                match path.get_mut(..value.len()).filter(|room| room.len() <= MOST_PATH_BYTES) {
                    Some(room) => room.copy_from_slice(value),
                    None => too_long = true,
                }
            }
        });
        if too_long {
            return self.warn(&[b"VCM_CONFIG is longer than 511 bytes: no config file is read"]);
        }
        let path = CStr::from_bytes_until_nul(&path).unwrap_or(CONFIG_FILE);
        let path = if named { path } else { CONFIG_FILE };
        // Most processes have no such file: they do not touch two pages of stack to find that out.
        match self.os.read_file(path, &mut []) {
            Ok(_) => self.read_config(path),
            Err(_) if named => {
                self.warn(&[b"the file that VCM_CONFIG names cannot be read: ", path.to_bytes()])
            }
            Err(Unread::Refused) => {
                self.warn(&[path.to_bytes(), b" cannot be read: what it sets does not hold here"])
            }
            Err(Unread::Missing) => {}
        }
    }

    #[inline(never)]
    fn read_config(&self, path: &CStr) {
        let mut content = [0u8; options::FILE_ROOM];
        let length = self.os.read_file(path, &mut content).unwrap_or(0);
        self.take_config(path, content.get(..length).unwrap_or(&[]));
    }

    fn take_config(&self, path: &CStr, content: &[u8]) {
        let (content, cut) = options::part_to_read(content);
        if cut {
            self.warn(&[path.to_bytes(), b": longer than 8191 bytes; the rest is not read"]);
        }
        let mut program = [0u8; 16];
        let length = self.os.program_name(&mut program);
        let program = program.get(..length).unwrap_or(&[]);
        options::each_setting(content, program, |setting| match setting {
            Setting::Value { name, text, origin, number } => {
                if let Err(refused) = self.options.set(name, text, origin) {
                    self.warn_at(path, number, &mut |sink| {
                        options::put_refusal_after(sink, "", name, text, refused);
                    });
                }
            }
            Setting::BadLine { number } => self.warn_at(path, number, &mut |sink| {
                text::put_str(sink, "expected 'name = value' or '[program]'\n");
            }),
        });
    }

    fn warn_about(&self, refused: Option<Refused>, prefix: &str, name: &[u8], value: &[u8]) {
        let Some(refused) = refused else { return };
        let mut line = [0u8; 512];
        let mut buffer = Buffer::new(&mut line);
        options::put_refusal(&mut buffer, prefix, name, value, refused);
        self.os.write(2, buffer.as_bytes());
    }

    /// One line about a line of the config file.
    fn warn_at(&self, path: &CStr, number: usize, put: &mut dyn FnMut(&mut dyn Sink)) {
        let mut line = [0u8; 1024];
        let mut buffer = Buffer::new(&mut line);
        text::put_str(&mut buffer, "vcmalloc: ");
        buffer.put(path.to_bytes());
        text::put_str(&mut buffer, ":");
        text::put_decimal(&mut buffer, number as u64);
        text::put_str(&mut buffer, ": ");
        put(&mut buffer);
        self.os.write(2, buffer.as_bytes());
    }

    fn warn(&self, parts: &[&[u8]]) {
        let mut line = [0u8; 1024];
        let mut buffer = Buffer::new(&mut line);
        text::put_str(&mut buffer, "vcmalloc: ");
        parts.iter().for_each(|part| buffer.put(part));
        text::put_str(&mut buffer, "\n");
        self.os.write(2, buffer.as_bytes());
    }
}
