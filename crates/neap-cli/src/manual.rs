//! Manual pages and what shells complete, from the same table as the flags.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::flags::{Cli, CompletionsArgs, ManArgs};
use crate::talk;

/// `neap completions`: to standard output.
pub fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "neap", &mut text);
    match io::stdout().write_all(&text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => failed("stdout", &error),
        _ => ExitCode::SUCCESS,
    }
}

/// `neap man`: a file for the command, and one for each of its subcommands.
pub fn pages(args: &ManArgs) -> ExitCode {
    let mut command = Cli::command();
    command.build();
    match write_pages(&command, &args.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&args.dir.display().to_string(), &error),
    }
}

fn failed(place: &str, error: &io::Error) -> ExitCode {
    talk::note(&format!("{place}: {error}"));
    ExitCode::from(1)
}

/// What a reader may be told of: not what is hidden, and not `help`, which clap adds to each level.
fn subcommands(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    let all = command.get_subcommands();
    all.filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn write_pages(command: &clap::Command, dir: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    std::fs::write(dir.join(format!("{name}.1")), page(name, command)?)?;
    subcommands(command).try_for_each(|sub| write_pages(sub, dir))
}

fn page(name: &str, command: &clap::Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .source(concat!("neap ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut text)?;
    }
    let mut rest = Roff::new();
    add_subcommands(&mut rest, command);
    let after = command.get_after_help().map(ToString::to_string);
    add_tables(&mut rest, after.as_deref().unwrap_or_default());
    add_relatives(&mut rest, name, command);
    rest.to_writer(&mut text)?;
    Ok(text)
}

fn add_subcommands(page: &mut Roff, command: &clap::Command) {
    if subcommands(command).next().is_some() {
        page.control("SH", ["SUBCOMMANDS"]);
    }
    for sub in subcommands(command) {
        let name = sub.get_display_name().unwrap_or(sub.get_name());
        let about = sub.get_about().map(ToString::to_string);
        page.control("TP", []);
        page.text([bold(name), roman("(1)")]);
        page.text([roman(about.unwrap_or_default())]);
    }
}

/// The tables below the options, as `--help` has them: a title with a colon, and rows of two columns.
fn add_tables(page: &mut Roff, after_help: &str) {
    for line in after_help.lines() {
        if let Some(row) = line.strip_prefix("  ") {
            let (word, meaning) = row.split_once(' ').unwrap_or((row, ""));
            page.control("TP", []);
            page.text([bold(word)]);
            page.text([roman(meaning.trim_start())]);
        } else if let Some((title, rest)) = line.split_once(':') {
            page.control("SH", [title.to_uppercase().as_str()]);
            page.text([roman(rest.trim_start())]);
        }
    }
}

/// The page above, those beside it, and the ones below are named above already.
fn add_relatives(page: &mut Roff, name: &str, command: &clap::Command) {
    page.control("SH", ["SEE ALSO"]);
    let above = name.rsplit_once('-').map(|(above, _)| above);
    let below = subcommands(command).filter_map(clap::Command::get_display_name);
    let pages: Vec<_> = above.into_iter().chain(below).collect();
    for (at, relative) in pages.iter().enumerate() {
        let end = if at + 1 < pages.len() { "(1)," } else { "(1)" };
        page.text([bold(*relative), roman(end)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> String {
        let mut command = Cli::command();
        command.build();
        let dir = tempfile::tempdir().unwrap();
        write_pages(&command, dir.path()).unwrap();
        std::fs::read_to_string(dir.path().join(name)).unwrap()
    }

    #[test]
    fn a_page_has_every_flag_status_and_variable() {
        let page = text("neap-run.1").replace("\\-", "-");
        let mut command = Cli::command();
        command.build();
        let run = command.find_subcommand("run").unwrap();
        for flag in run.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(page.contains(&format!("--{flag}")), "{flag}");
        }
        for (code, _) in crate::exit::TABLE.iter().filter(|(code, _)| *code > 124) {
            assert!(page.contains(&format!("\n.TP\n\\fB{code}\\fR\n")), "{code}");
        }
        for variable in crate::env::TABLE {
            assert!(page.contains(&format!("\\fB{}\\fR\n", variable.name)));
        }
        assert!(page.contains(".SH ENVIRONMENT") && page.contains(".SH \"EXIT STATUS\""));
    }

    #[test]
    fn every_subcommand_has_a_page_but_hidden_ones() {
        let top = text("neap.1").replace("\\-", "-");
        for name in ["neap-run", "neap-doctor", "neap-sim", "neap-completions"] {
            assert!(top.contains(name), "{name}");
        }
        assert!(!top.contains("neap-man") && !top.contains("neap-help"));
        assert!(text("neap-sim-replay.1").contains("\\fBneap\\-sim\\fR(1)"));
    }
}
