//! `neap sim fit`: what real pages compress to, and what that costs here.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use neap_sim::{Fitter, Measured, Models, Nanos, with_dictionary};
use neap_store::{CodecError, Compressor, CompressorKind, Dictionary, Page, SCRATCH};
use neap_sys::monotonic_nanos;
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

use super::failure::Failure;
use super::flags::FitArgs;
use super::output::{Output, distinct, is_stdout};

/// Bits of a pagemap entry: the page is in memory, or in swap.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// One way to compress: a compressor, with a dictionary of these pages or without.
struct Way {
    name: String,
    compressor: Box<dyn Compressor>,
    dictionary: Option<Dictionary>,
}

/// Each compressor, and those of zstd also with the dictionary that `neap run` would make of such pages, if it
/// would make one.
fn ways(kinds: &[CompressorKind], samples: &[u8]) -> Vec<Way> {
    let mut ways = Vec::new();
    for kind in kinds {
        let name = kind.to_string();
        if let CompressorKind::Zstd(level) = *kind
            && let Ok(dictionary) = Dictionary::train(samples, level)
        {
            ways.push(Way {
                name: with_dictionary(&name),
                compressor: kind.build(),
                dictionary: Some(dictionary),
            });
        }
        ways.push(Way {
            name,
            compressor: kind.build(),
            dictionary: None,
        });
    }
    ways
}

/// Pages to make a dictionary of, spread over all.
fn samples(input: &mut File, offsets: &[u64]) -> Vec<u8> {
    let mut page = [0; PAGE_SIZE];
    let mut samples = Vec::with_capacity(TUNING.dictionaries.samples().as_usize() * PAGE_SIZE);
    let stride = (offsets.len() / (2 * TUNING.dictionaries.samples().as_usize())).max(1);
    for &offset in offsets.iter().step_by(stride) {
        let kept = page_at(input, offset, &mut page).is_ok() && page[8..] != page[..PAGE_SIZE - 8];
        if kept && samples.len() < TUNING.dictionaries.samples().as_usize() * PAGE_SIZE {
            samples.extend_from_slice(&page);
        }
    }
    samples
}

/// Fits a model and writes it, with the models that are in the file already.
pub fn run(args: &FitArgs) -> Result<(), Failure> {
    let written = [("--output", Some(&*args.output))];
    distinct(&[("FILE", args.file.as_deref())], &written)?;
    let mut models = earlier(&args.output)?;
    let output = Output::open(&args.output)?;
    let (path, offsets) = source(args)?;
    let read = |source| Failure::Read {
        path: path.clone(),
        source,
    };
    let mut input = File::open(&path).map_err(read)?;
    let stride = offsets.len().div_ceil(args.pages as usize).max(1);
    let mut ways = ways(&args.compressors, &samples(&mut input, &offsets));
    let names: Vec<&str> = ways.iter().map(|way| way.name.as_str()).collect();
    let mut fitter = Fitter::new(&names);
    let mut page = [0; PAGE_SIZE];
    for &offset in offsets.iter().step_by(stride) {
        // A page that went meanwhile is none of the process's.
        if page_at(&mut input, offset, &mut page).is_ok() {
            fitter.page(&page, |number| measure(&mut ways[number], &page));
        }
    }
    let model = fitter.finish(&args.name, &command(args));
    let model = model.ok_or_else(|| {
        let none = "no whole page of 4 KiB to compress";
        read(io::Error::other(none))
    })?;
    models.contents.retain(|other| other.name != model.name);
    models.contents.push(model);
    let text = serde_json::to_string_pretty(&models).unwrap_or_default();
    output.write(format!("{text}\n").as_bytes())
}

/// The models in a file, or none. A file of anything else is not written over.
fn earlier(path: &Path) -> Result<Models, Failure> {
    // A pipe or device holds nothing that could be kept.
    let is_file = !is_stdout(path) && fs::metadata(path).is_ok_and(|found| found.is_file());
    let text = match is_file {
        true => fs::read(path).map_err(|source| Failure::Read {
            path: path.to_owned(),
            source,
        })?,
        false => Vec::new(),
    };
    if text.is_empty() {
        return Ok(Models {
            schema: "neap.fit/1".to_owned(),
            contents: Vec::new(),
        });
    }
    serde_json::from_slice(&text).map_err(|_| Failure::Flag {
        flag: "--output",
        fault: format!(
            "{} has other content than models of neap sim fit: name another file",
            path.display()
        ),
    })
}

/// The command as it can be given again; a process by its name, since its number means
/// nothing later.
fn command(args: &FitArgs) -> String {
    let what = match (args.pid, &args.file) {
        (Some(pid), _) => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("--pid $(pidof {})", name.trim())
        }
        (None, Some(file)) => file.display().to_string(),
        (None, None) => String::new(),
    };
    format!(
        "neap sim fit --name {} --pages {} {what}",
        args.name, args.pages
    )
}

/// What to read pages from, and where they are.
fn source(args: &FitArgs) -> Result<(PathBuf, Vec<u64>), Failure> {
    let Some(pid) = args.pid else {
        let path = args.file.clone().unwrap_or_default();
        let length = fs::metadata(&path).and_then(|file| match file.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(file.len()),
        });
        return match length {
            Ok(length) => {
                let pages = length / PAGE_SIZE as u64;
                Ok((
                    path,
                    (0..pages).map(|page| page * PAGE_SIZE as u64).collect(),
                ))
            }
            Err(source) => Err(Failure::Read { path, source }),
        };
    };
    let maps = PathBuf::from(format!("/proc/{pid}/maps"));
    let pagemap = PathBuf::from(format!("/proc/{pid}/pagemap"));
    let text = fs::read_to_string(&maps).map_err(|source| Failure::Read { path: maps, source })?;
    let mut offsets = Vec::new();
    let read = |source| Failure::Read {
        path: pagemap.clone(),
        source,
    };
    let mut entries = File::open(&pagemap).map_err(read)?;
    for range in text.lines().filter_map(anonymous) {
        touched(&mut entries, range, &mut offsets).map_err(read)?;
    }
    Ok((PathBuf::from(format!("/proc/{pid}/mem")), offsets))
}

/// First and last address of a line of maps, if it is private writable memory of no file.
fn anonymous(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let private = words.next()?.starts_with("rw-p");
    let inode = words.nth(2)?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    (private && inode == "0").then_some((hex(start)?, hex(end)?))
}

/// Adds the addresses of pages that were ever touched.
fn touched(entries: &mut File, (start, end): (u64, u64), into: &mut Vec<u64>) -> io::Result<()> {
    let page = PAGE_SIZE as u64;
    entries.seek(SeekFrom::Start(start / page * 8))?;
    // In parts, for a range may be terabytes that nobody touched.
    let mut words = [[0; 8]; 4096];
    let mut address = start;
    while address < end {
        let count = ((end - address) / page).min(words.len() as u64) as usize;
        entries.read_exact(words[..count].as_flattened_mut())?;
        for word in &words[..count] {
            if u64::from_ne_bytes(*word) & (PRESENT | SWAPPED) != 0 {
                into.push(address);
            }
            address += page;
        }
    }
    Ok(())
}

fn page_at(input: &mut File, offset: u64, page: &mut Page) -> io::Result<()> {
    input.seek(SeekFrom::Start(offset))?;
    input.read_exact(page)
}

/// Compresses a page and decompresses it again.
fn measure(way: &mut Way, page: &Page) -> Measured {
    let (compressor, dictionary) = (&mut *way.compressor, way.dictionary.as_ref());
    let mut packed = [0; SCRATCH];
    let mut back = [0; PAGE_SIZE];
    let begun = monotonic_nanos();
    let length = compressor.compress(page, dictionary, &mut packed);
    let done = monotonic_nanos();
    let bytes = match length {
        Ok(bytes) => bytes,
        Err(CodecError::Poor | CodecError::Failed | CodecError::Damaged) => PAGE_SIZE,
    };
    let unpacking = monotonic_nanos();
    if length.is_ok() {
        // A page that does not come back would show as a fast one; it never happens.
        let _ = compressor.decompress(&packed[..bytes], dictionary, &mut back);
    }
    Measured {
        bytes,
        compress: Nanos(done - begun),
        decompress: Nanos(monotonic_nanos() - unpacking),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_memory_of_no_file_counts() {
        let heap = "55d0a000-55d0c000 rw-p 00000000 00:00 0    [heap]";
        assert_eq!(anonymous(heap), Some((0x55d0_a000, 0x55d0_c000)));
        for other in [
            "7f00-7f01 r--p 00000000 00:00 0",
            "7f00-7f01 rw-s 00000000 00:00 0",
            "7f00-7f01 rw-p 00001000 08:01 1234 /usr/lib/libc.so",
        ] {
            assert_eq!(anonymous(other), None, "{other}");
        }
    }

    #[test]
    fn this_process_can_be_fitted() {
        let args = FitArgs {
            name: "self".to_owned(),
            pid: Some(std::process::id()),
            file: None,
            compressors: vec!["lz4".parse().unwrap()],
            pages: 50,
            output: tempfile::tempdir().unwrap().keep().join("models.json"),
        };
        run(&args).map_err(|failure| failure.lines()).unwrap();
        run(&args).map_err(|failure| failure.lines()).unwrap();
        let models = earlier(&args.output).unwrap();
        assert_eq!(models.contents.len(), 1, "replaced, not added");
        let content = &models.contents[0];
        assert!(content.pages > 10 && content.compressors[0].sizes.is_sorted());
        fs::remove_dir_all(args.output.parent().unwrap()).unwrap();
    }
}
