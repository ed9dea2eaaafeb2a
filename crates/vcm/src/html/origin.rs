//! Parts of every page: who is drawn in which colour, and where it comes from.

use std::time::SystemTime;
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_measure::allocators;
use vcm_measure::machine::Machine;
use vcm_report::chart::Name;
use vcm_report::{Colour, Part};

/// In the colour of the allocator that it is; others by their place.
pub fn name(name: &str, place: usize) -> Name {
    let colour = allocators::known(name).map(|known| known.colour);
    let colour = colour.map_or(Colour::of_place(place), |(red, green, blue)| Colour(red, green, blue));
    Name::new(name, colour)
}

/// The words that were typed, where and when.
pub fn origin() -> Vec<Part> {
    let words: Vec<String> = std::env::args_os().map(|word| word.shown().printed()).collect();
    let machine = Machine::this();
    let facts = [
        ("processor", format!("{} x {}", machine.cpus, machine.processor)),
        ("memory", format!("{} GiB", machine.memory_gib)),
        ("system", format!("{}, Linux {}", machine.system, machine.kernel)),
        ("when", humantime::format_rfc3339_seconds(SystemTime::now()).to_string()),
        ("written by", format!("vcm {}", env!("VCMALLOC_VERSION"))),
    ];
    vec![
        Part::Heading("The command, and the machine".to_owned()),
        Part::Code { what: String::new(), text: say::typed(words) },
        Part::Facts(facts.map(|(name, value)| (name.to_owned(), value)).to_vec()),
    ]
}
