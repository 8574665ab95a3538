. "$RECIPES/lib.sh"
needs make && needs gcc
python3 - <<'PY'
for name in ("one", "two"):
    with open(name + ".c", "w") as out:
        for i in range(150):
            out.write(f"int {name}{i}(int *a, int n) {{ int s = {i}; for (int j = 0; j < n; j++) s += a[j] * (j ^ s) + a[(j * {i + 3}) % n]; return s; }}\n")
open("Makefile", "w").write("all: one.o two.o\n%.o: %.c\n\tgcc -O1 -c $< -o $@\n")
PY
neap run -m 22M -- make -j2 # the line
must_have_paged
sha256sum one.o two.o >managed
make --silent --always-make
sha256sum --check --quiet managed
