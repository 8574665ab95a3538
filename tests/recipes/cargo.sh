. "$RECIPES/lib.sh"
needs cargo
mkdir src
printf '[package]\nname = "job"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' >Cargo.toml
python3 - >src/main.rs <<'PY'
print("use std::collections::BTreeMap;")
for i in range(120):
    print(f"#[inline(never)] fn f{i}(m: &mut BTreeMap<String, Vec<u{8 << i % 4}>>) -> usize {{ m.entry(format!(\"{{}}\", m.len())).or_default().push({i}); m.values().map(|v| v.iter().map(|x| *x as usize).sum::<usize>()).sum() }}")
print("fn main() { let mut n = 0;")
for i in range(120):
    print(f"n += f{i}(&mut BTreeMap::new());")
print('println!("{n}"); }')
PY
unset CARGO_TARGET_DIR
neap run -m 56M -- cargo build --release --offline --jobs 2 # the line
must_have_paged
[ "$(target/release/job)" = 7140 ] # 0 + 1 + ... + 119
