//! The form of each arm for each unit: the files of its drop-in, or none, and whose malloc must be found then.

use super::units::Service;
use crate::arms::{self, OWN};
use crate::cli::compare::Compare;
use crate::drop_in::File;
use crate::unit_plan::{Plan, Wanted, own_allocator};
use std::path::{Path, PathBuf};
use vcm_front::say::{FAILURE, Failure, NOT_UNDERSTOOD};
use vcm_inspect::elf::{self, Depth, Look};
use vcm_inspect::root::Root;
use vcm_measure::arm::{Arm, Expected};

/// The unit as it is without a drop-in of vcm.
const SYSTEM: &str = "system";
const DEFAULT: [&str; 2] = [SYSTEM, OWN];

/// An arm as it is typed.
#[derive(Clone)]
pub struct Side {
    pub arm: Arm,
    is_system: bool,
    /// By what it was typed.
    asked: String,
}

/// An arm under one unit.
pub struct Fitted {
    /// Empty: the drop-in is taken away.
    pub files: Vec<File>,
    /// With what must serve malloc.
    pub arm: Arm,
    pub notes: Vec<String>,
}

pub fn sides(arguments: &Compare) -> Result<Vec<Side>, Failure> {
    let mut sides: Vec<Side> = Vec::new();
    let defaults = DEFAULT.map(str::to_owned);
    let sweeps = super::super::arms::swept_all(&arguments.sweep)?;
    let asked = if arguments.allocators.is_empty() && sweeps.is_empty() {
        &defaults[..]
    } else {
        &arguments.allocators
    };
    for name in asked.iter().map(|name| name.trim()) {
        let is_system = name == SYSTEM;
        let arm = if is_system {
            Arm { name: SYSTEM.to_owned(), ..Arm::plain() }
        } else {
            arms::arm(name, arguments.library.as_deref())?
        };
        push(&mut sides, Side { arm, is_system, asked: name.to_owned() });
    }
    for (text, variable, value) in sweeps {
        let own = arms::arm(OWN, arguments.library.as_deref())?;
        push(
            &mut sides,
            Side { arm: own.with(&text, &variable, &value), is_system: false, asked: OWN.to_owned() },
        );
    }
    if sides.len() < 2 {
        let reason = "--arms: name at least two; 'system,system' shows the noise";
        return Err(Failure::new(NOT_UNDERSTOOD, reason));
    }
    Ok(sides)
}

fn push(sides: &mut Vec<Side>, mut side: Side) {
    let mut names: Vec<Arm> = sides.iter().map(|side| side.arm.clone()).collect();
    arms::add(&mut names, side.arm.clone());
    side.arm.name = names.pop().map_or(String::new(), |arm| arm.name);
    sides.push(side);
}

impl Side {
    pub fn is_without_drop_in(&self) -> bool {
        self.is_system
    }

    /// Refuses what 'vcm enable' refuses, and what cannot be had in this unit.
    pub fn fitted(&self, root: &Root, service: &Service, library: Option<&Path>) -> Result<Fitted, Failure> {
        let own = own_allocator(root, &service.unit);
        let plain = |expected| Fitted {
            files: Vec::new(),
            arm: Arm { expected, library: None, ..self.arm.clone() },
            notes: Vec::new(),
        };
        let preloads = service.unit.assignments(root).into_iter().any(|set| {
            set.name == "LD_PRELOAD"
                && !set.value.trim().is_empty()
                && !crate::drop_in::is_own(root, &set.file)
        });
        if self.is_system {
            return Ok(plain(if preloads { Expected::Anything } else { by_itself(root, service, own) }));
        }
        let is_bare = self.arm.settings.is_empty() && !preloads;
        if self.arm.expected == Expected::Glibc {
            return match own {
                None if is_bare => Ok(plain(Expected::Glibc)),
                None => Err(refused(format!(
                    "{} preloads an allocator of its own, so glibc is not available for it",
                    service.name()
                ))),
                Some(own) => Err(refused(format!(
                    "the program of {} is linked with {}, so the C library's malloc is not available for it; \
                     name that allocator, or 'system'",
                    service.name(),
                    own.display()
                ))),
            };
        }
        if let Some(own) = own.filter(|own| is_bare && self.is_of(own)) {
            return Ok(plain(Expected::File(own)));
        }
        let plan = self.plan(root, service, library)?;
        let expected = plan.library.clone().map_or(Expected::Anything, Expected::File);
        let arm = Arm { expected, library: plan.library.clone(), ..self.arm.clone() };
        Ok(Fitted { files: plan.files(&service.place), arm, notes: plan.notes })
    }

    /// Whether the program is linked with what this arm is: Debian has TCMalloc as two libraries of one allocator.
    fn is_of(&self, own: &Path) -> bool {
        let is_tcmalloc = self.asked == "tcmalloc"
            && own.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libtcmalloc"));
        is_tcmalloc || self.arm.library.as_deref() == Some(own)
    }

    fn plan(&self, root: &Root, service: &Service, library: Option<&Path>) -> Result<Plan, Failure> {
        let is_hardened = self.asked.ends_with("-hardened");
        if !self.arm.is_ours || is_hardened {
            let file = self.arm.library.as_deref();
            return Plan::preloading(root, &service.unit, file, self.arm.settings.clone());
        }
        let is_path = self.asked.contains('/');
        let settings: Vec<String> = self
            .arm
            .settings
            .iter()
            .filter_map(|(name, value)| {
                Some(format!("{}={value}", name.strip_prefix("VCM_")?.to_lowercase()))
            })
            .collect();
        let wanted =
            Wanted { library: if is_path { self.arm.library.as_deref() } else { library }, hardened: false };
        Plan::of(root, &service.unit, &settings, &wanted)
    }
}

/// Whose malloc the program has without any preload. A program that brings its own, or is none for this machine's
/// loader, has what it has.
fn by_itself(root: &Root, service: &Service, own: Option<PathBuf>) -> Expected {
    if let Some(own) = own {
        return Expected::File(own);
    }
    let program = service.unit.program(root).map(|program| root.path(root.resolve(program)));
    match program.map(|program| elf::look(&program, Depth::AllSymbols)) {
        Some(Ok(Look::Elf(elf))) if elf.interpreter.is_some() && !elf.defines("malloc") => Expected::Glibc,
        _ => Expected::Anything,
    }
}

fn refused(reason: String) -> Failure {
    Failure::new(FAILURE, reason)
}
