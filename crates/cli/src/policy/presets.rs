//! `loligo policy presets`: the policies that have a name.

use loligo_subtree_policy::Preset;
use serde_json::json;

use crate::output::{Outcome, put};

/// Prints them.
pub fn run(json: bool) -> Outcome {
    if json {
        let one = |preset: Preset| {
            let pipeline = preset.cell().composition().to_string();
            json!({ "name": preset.name(), "cell": preset.cell().to_string(), "pipeline": pipeline, "for": preset.purpose() })
        };
        return put(format_args!("{:#}", serde_json::Value::from(Preset::ALL.map(one).to_vec())));
    }
    let line = |name: &str, cell: &str, pipeline: &str, purpose: &str| {
        put(format_args!("{name:<8} {cell:<15} {pipeline:<57} {purpose}"))
    };
    line("name", "cell", "pipeline", "for")?;
    for preset in Preset::ALL {
        let cell = preset.cell();
        line(preset.name(), &cell.to_string(), &cell.composition().to_string(), preset.purpose())?;
    }
    Ok(())
}
