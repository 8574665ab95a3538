//! The recipes of docs/guide/recipes.md: each is a script that runs its program over its limit, and the guide shows its line.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neap_tests::{Need, Run, exclusive, neap_binary, require, skip, target_dir};

fn recipes() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes")).expect("the recipes")
}

fn guide() -> String {
    fs::read_to_string(recipes().join("../../docs/guide/recipes.md")).expect("the guide")
}

/// Runs one. The script says itself what it lacks, by status 77.
fn follow(test: &str, name: &str) {
    if !require(
        test,
        &[Need::Neap, Need::Userfaultfd, Need::Tool("python3")],
    ) {
        return;
    }
    let _alone = exclusive();
    let venv = fs::canonicalize(target_dir().join("recipes-venv")).unwrap_or_default();
    let run = Run::new(["sh".into(), recipes().join(name)])
        .env("RECIPES", recipes())
        .env("NEAP", neap_binary().expect("required"))
        .env("VENV", venv)
        .limit(Duration::from_secs(240))
        .go();
    if run.status.code() == Some(77) {
        let text = run.text();
        let why = text.lines().find_map(|line| line.strip_prefix("skip: "));
        return skip(test, why.unwrap_or("it says not why"));
    }
    run.must_exit(0);
    println!("{name}: {:.1} s", run.seconds);
}

macro_rules! recipes {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            follow(stringify!($test), $name);
        })*

        const NAMES: &[&str] = &[$($name),*];
    };
}

recipes! {
    a_parallel_make: "make.sh",
    a_build_of_cargo: "cargo.sh",
    a_java_heap_larger_than_the_limit: "java.sh",
    a_node_heap_larger_than_the_limit: "node.sh",
    tables_of_r: "r.sh",
    tests_on_several_workers: "xdist.sh",
    a_query_of_duckdb: "duckdb.sh",
    a_frame_of_polars: "polars.sh",
    workers_of_gunicorn: "gunicorn.sh",
    a_pool_of_php: "php-fpm.sh",
    a_sort_of_postgres: "postgres.sh",
    a_worker_of_dask: "dask.sh",
    a_worker_of_dask_with_a_nanny: "dask-nanny.sh",
    an_actor_of_ray: "ray.sh",
    an_actor_of_ray_beside_its_monitor: "ray-monitor.sh",
    a_job_of_slurm: "slurm.sh",
    a_unit_of_systemd: "systemd.sh",
    a_notebook_is_interrupted_and_restarted: "jupyter.sh",
}

#[test]
fn each_recipe_says_what_to_set_what_to_expect_and_what_not_to_do() {
    let guide = guide();
    let recipes: Vec<String> = guide
        .split("\n## ")
        .skip(1)
        .map(|recipe| recipe.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert!(recipes.len() > 10, "{recipes:?}");
    for recipe in &recipes {
        for word in ["*Set*", "*Expect*", "*Do not*"] {
            assert!(recipe.contains(word), "no {word}: {recipe}");
        }
    }
}

#[test]
fn the_guide_shows_the_line_of_each_recipe() {
    let guide = guide();
    for entry in fs::read_dir(recipes()).expect("the recipes") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // What all share; and a unit, which the script reads from the guide itself.
        if ["lib.sh", "systemd.sh"].contains(&name.as_str()) {
            continue;
        }
        assert!(NAMES.contains(&name.as_str()), "{name} is no test");
        let text = fs::read_to_string(&path).expect("a recipe");
        let line = text
            .lines()
            .find_map(|line| line.strip_suffix(" # the line"));
        let line = line.unwrap_or_else(|| panic!("{name} marks no line"));
        let shown = line
            .split(" >managed")
            .next()
            .unwrap_or(line)
            .trim_end_matches(" &");
        let shown = shown.replace(" --prefix \"$VENV\"", "");
        // Sizes of the test are small; the guide's are those that a user would write.
        let bare = |word: &str| {
            word.split(|letter: char| letter.is_ascii_digit())
                .next()
                .unwrap_or(word)
                .to_owned()
        };
        let without = |text: &str| {
            text.split_whitespace()
                .map(bare)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let lines = guide.lines().map(|line| without(line.trim()));
        assert!(
            lines.into_iter().any(|line| line == without(&shown)),
            "{name}: {shown}"
        );
    }
}
