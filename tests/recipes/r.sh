. "$RECIPES/lib.sh"
needs Rscript
cat >job.R <<'R'
tables <- lapply(1:20, function(i) data.frame(key = seq_len(100000), value = (seq_len(100000) * i) %% 97))
cat(sum(vapply(tables, function(table) sum(table$value), 0)), "\n")
R
neap run -m 48M -- Rscript job.R >managed # the line
must_have_paged
Rscript job.R | cmp - managed
