//! `barewire lab plot`: a result as a page, and its plots as files.

use std::path::{Path, PathBuf};

use clap::Args;

use super::error::Result;
use super::store;

/// The page that is written beside the result.
const PAGE: &str = "plot.html";

/// Draw the tables of a result
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// The folder of a result, or its JSON
    pub result: PathBuf,
    /// The page to write [default: plot.html beside the result]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also write each plot as an SVG file beside the page
    #[arg(long)]
    pub svg: bool,
}

/// Draws them, and says where.
pub fn plot(args: &PlotArgs) -> Result<()> {
    let (folder, results) = store::read(&args.result)?;
    let page = args.out.clone().unwrap_or_else(|| folder.join(PAGE));
    store::write(&page, results.to_html())?;
    eprintln!("wrote {}", page.display());
    if args.svg {
        let folder = page.parent().unwrap_or(Path::new(""));
        for (name, text) in results.to_svgs() {
            let path = folder.join(name);
            store::write(&path, text)?;
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}
