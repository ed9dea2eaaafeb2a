//! On which machine rows were measured, and on which versions of the peers. The page says it, not the rows.

use super::peers;
use vcm_measure::allocators::{ALLOCATORS, Library, Places};
use vcm_measure::machine::Machine;

#[derive(Debug, PartialEq)]
pub struct Origin {
    machine: String,
    /// A line each.
    versions: Vec<String>,
}

impl Origin {
    /// For what was measured just now, on the allocators of these names.
    pub fn here(names: &[&str], places: &Places) -> Self {
        let taking_part = ALLOCATORS.iter().filter(|one| names.contains(&one.name));
        let version = |library| match library {
            Library::Built(name) => peers::version_of(name, places),
            _ => None,
        };
        let line = |name, library| Some(format!("- {name}: {}", version(library)?));
        let versions = taking_part.filter_map(|one| line(one.name, one.library)).collect();
        Self { machine: format!("{}.", Machine::this()), versions }
    }

    /// For rows of an earlier session, as their page had it.
    pub fn of_page(page: &str) -> Self {
        let head: Vec<&str> = page.lines().skip(1).skip_while(|line| line.is_empty()).collect();
        let head = head.split(|line| line.is_empty()).next().unwrap_or_default();
        let machine = head.first().copied().unwrap_or("On a machine that was not noted.").to_owned();
        let versions = head.iter().filter(|line| line.starts_with("- ")).map(|line| line.to_string());
        Self { machine, versions: versions.collect() }
    }

    /// With lines in front of the peers' versions: ours, and what was typed.
    pub fn led_by(self, lines: impl IntoIterator<Item = String>) -> Self {
        Self { versions: lines.into_iter().chain(self.versions).collect(), ..self }
    }

    /// A paragraph with this about the origin around `text`.
    pub fn around(&self, text: &str) -> String {
        let lines = [self.machine.as_str(), text].into_iter().chain(self.versions.iter().map(String::as_str));
        lines.map(|line| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_says_of_its_machine_stays_when_it_is_made_again() {
        let origin = Origin {
            machine: "2 x A processor, Linux 6.18.".to_owned(),
            versions: vec!["- jemalloc-new: tikv-jemalloc-sys 0.7.1".to_owned()],
        };
        let page = format!("# Measurements x\n\n{}\n![x](x.svg)\n\n- not this\n", origin.around("Quiet."));
        assert_eq!(Origin::of_page(&page), origin);
        let unknown = Origin::of_page("").around("Quiet.");
        assert_eq!(unknown, "On a machine that was not noted.\nQuiet.\n");
    }
}
