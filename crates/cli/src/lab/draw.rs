//! `barewire lab draw`: the network of a plan as a picture.

use std::path::PathBuf;

use barewire_report::columns::print;
use barewire_tables::picture;
use barewire_tables::plan::PlanSource;
use clap::Args;

use super::args::PlanArgs;
use super::error::{LabError, Result};
use super::store;

pub const AFTER_DRAW: &str = "\
Examples:
  barewire lab draw mine.toml                 as text
  barewire lab draw mine.toml -o mine.svg     as a drawing
  barewire lab draw mine.toml --set hosts.client.count=40   with a change";

/// Draw the network that a plan describes
#[derive(Clone, Debug, Args)]
pub struct DrawArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Write an SVG drawing to this file, in place of text to standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Draws it.
pub fn draw(lab: PlanSource, args: &DrawArgs) -> Result<()> {
    let draft = lab.open(&args.plan.plan)?;
    let plan = lab.resolve(&draft, &args.plan.wanted())?;
    let Some(sketch) = plan.system.sketch(&plan.parameters) else {
        return Err(LabError::Usage(format!(
            "`{}` is a plan of {}, which has one network and no picture of it; plans that describe \
             their own have system = \"network\"",
            args.plan.plan,
            plan.system.name()
        )));
    };
    // The plan has been checked.
    let sketch = sketch.map_err(|error| LabError::Usage(error.to_string()))?;
    let Some(path) = &args.out else {
        return Ok(print(&picture::to_text(&sketch))?);
    };
    let title = plan.title.as_deref().unwrap_or(&plan.name);
    store::write(path, picture::to_svg(&sketch, title))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
