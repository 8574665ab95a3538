//! Files that other programs read, made anew from fixed seeds.

use std::fmt::Write as _;

use super::random::Random;

/// A file of C that gcc takes memory and seconds for.
///
/// # Errors
/// None yet: a string takes all.
pub fn c_source(functions: usize) -> Result<String, String> {
    let mut random = Random::new(11);
    let mut text = String::from("struct node { struct node *next; long key, more[6]; };\n");
    for number in 0..functions {
        function(&mut text, number, &mut random).map_err(|e| e.to_string())?;
    }
    Ok(text)
}

fn function(text: &mut String, number: usize, random: &mut Random) -> std::fmt::Result {
    writeln!(
        text,
        "long f{number}(struct node *n, long a, long b)\n{{\n  long sum = a;"
    )?;
    writeln!(
        text,
        "  for (long i = 0; i < b; i++) {{\n    switch ((n->key + i) % 8) {{"
    )?;
    for case in 0..7 {
        let (field, shift, add) = (random.below(6), random.below(30), random.below(9999));
        writeln!(
            text,
            "    case {case}: sum += (n->more[{field}] << {shift}) ^ (i * {add}); n->more[{}] = sum; break;",
            random.below(6)
        )?;
    }
    let step = random.below(90) + 3;
    writeln!(text, "    default: n = n->next; sum -= i / {step};\n    }}")?;
    writeln!(
        text,
        "    if (sum > {}) sum %= b + {step};\n  }}",
        random.below(1 << 30)
    )?;
    if number > 0 {
        let called = random.below(number);
        writeln!(text, "  if (sum & {step}) sum += f{called}(n, sum, b - 1);")?;
    }
    writeln!(text, "  return sum;\n}}")
}

/// Lines to be sorted.
///
/// # Errors
/// None yet: a string takes all.
pub fn lines(mib: usize) -> Result<String, String> {
    const NAMES: [&str; 8] = [
        "Hamburg", "Lagos", "Lima", "Osaka", "Perth", "Quebec", "Tunis", "Zagreb",
    ];
    let mut random = Random::new(12);
    let mut text = String::with_capacity(mib << 20);
    while text.len() + 100 < mib << 20 {
        let (bits, name) = (random.bits(), NAMES[random.below(8)]);
        let day = random.below(28) + 1;
        writeln!(
            text,
            "{name} {:010} 2024-03-{day:02} order {} of customer {}",
            bits >> 32,
            bits % 100_000,
            bits % 5003
        )
        .map_err(|e| e.to_string())?;
    }
    text.truncate(text.trim_end().len());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_large_as_asked_for() {
        let text = lines(1).unwrap();
        assert!(((1 << 20) - 200..1 << 20).contains(&text.len()));
        assert_eq!(c_source(5).unwrap().matches("return sum").count(), 5);
    }
}
