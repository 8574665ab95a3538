. "$RECIPES/lib.sh"
needs node
cat >job.js <<'JS'
const rows = [];
for (let i = 0; i < 700000; i++) rows.push({ id: i, name: `row ${i}`, tags: [i % 7, i % 11] });
console.log(rows.reduce((sum, row) => sum + row.name.length + row.tags[0] * row.tags[1], 0));
JS
neap run -m 96M -- node --max-old-space-size=512 job.js >managed # the line
must_have_paged
node --max-old-space-size=512 job.js | cmp - managed
