//! The recommendation, in words.

use super::verdict::{self, Advice, Gain, Judged};
use crate::table::{Runs, Table};

pub struct Advised {
    pub sentence: String,
    pub remarks: Vec<String>,
    /// The lines to write, and the command that proves that they took.
    pub change: Option<(String, String)>,
}

/// None where there is nothing to compare. `applied` has what to write for an arm, and the proof.
pub fn advised(table: &Table, applied: impl Fn(&Runs) -> (String, String)) -> Option<Advised> {
    let finished = table.finished();
    let (judged, first) = (verdict::judged(table)?, *finished.first()?);
    if finished.len() < 2 {
        return None;
    }
    let gains: Vec<Gain> =
        finished.iter().map(|runs| verdict::gain(runs, first, &judged, finished.len())).collect();
    let name = |at: usize| finished.get(at).map_or("", |runs| runs.arm.name.as_str());
    let (by, first) = (by_what(&judged), &first.arm.name);
    Some(match verdict::advice(&gains) {
        Advice::Stay => Advised {
            sentence: format!("No significant advantage over {first}, judged by {by}."),
            remarks: vec![
                format!(
                    "A single line may differ by chance: a recommendation requires a chance below {} % over all \
                     arms.",
                    verdict::CHANCE * 100.0
                ),
                if runs_take_turns(table) {
                    "More periods show smaller differences: --for, --periods".to_owned()
                } else {
                    "More rounds show smaller differences: --repeat".to_owned()
                },
            ],
            change: None,
        },
        Advice::Trade(trades) => {
            let names = trades.into_iter().map(name).collect::<Vec<_>>().join(", ");
            let sentence = format!(
                "A trade-off, judged by {by}: {names} is better than {first} in one and worse in the \
                 other."
            );
            Advised { sentence, remarks: Vec::new(), change: None }
        }
        Advice::Change(best) => {
            let runs = *finished.get(best)?;
            let equals: Vec<&str> = (1..finished.len())
                .filter(|at| *at != best && is_level(finished.get(*at), runs, &judged, finished.len()))
                .map(name)
                .collect();
            let remark = format!("no significant difference from it: {}", equals.join(", "));
            Advised {
                sentence: format!("Recommended, judged by {by}: {}", runs.arm.name),
                remarks: if equals.is_empty() { Vec::new() } else { vec![remark] },
                change: Some(applied(runs)),
            }
        }
    })
}

fn runs_take_turns(table: &Table) -> bool {
    table.runs.iter().any(|runs| !runs.periods.is_empty())
}

/// Whether an arm is not shown to differ from the best.
fn is_level(runs: Option<&&Runs>, best: &Runs, judged: &Judged, arms: usize) -> bool {
    runs.is_some_and(|runs| verdict::gain(runs, best, judged, arms) == Gain::default())
}

fn by_what(judged: &Judged) -> String {
    let memory = judged.memory.as_ref().map_or(String::new(), |memory| format!(" and {}", memory.name));
    format!("{}{memory}", judged.speed.name)
}
