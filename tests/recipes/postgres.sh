. "$RECIPES/lib.sh"
needs postgres
needs psql
initdb=$(command -v initdb || echo "$(dirname "$(readlink -f "$(command -v postgres)")")/initdb")
[ -x "$initdb" ] || skip "initdb is not installed"
# postgres does not run as root.
as=
if [ "$(id -u)" = 0 ]; then
    as='setpriv --reuid=65534 --regid=65534 --clear-groups'
    chown 65534:65534 "$work"
    mkdir bin
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$as" "$(command -v postgres)" >bin/postgres
    chmod a+rx . bin bin/postgres
    PATH=$work/bin:$PATH
fi
$as "$initdb" -D "$work/data" -U job >/dev/null
printf "listen_addresses = ''\nunix_socket_directories = '%s'\nwork_mem = '512MB'\nshared_buffers = '16MB'\nfsync = off\n" "$work" >>data/postgresql.conf
query="SELECT count(*), sum(v) FROM (SELECT g % 1000 AS v, row_number() OVER (ORDER BY md5(g::text)) AS r FROM generate_series(1, 300000) g) t WHERE r % 7 = 0"
ask() {
    for _ in $(seq 100); do
        if psql -h "$work" -U job -d template1 -Atc 'SELECT 1' >/dev/null 2>&1; then break; fi
        sleep 0.2
    done
    psql -h "$work" -U job -d template1 -Atc "$query"
    kill -INT "$(head -1 data/postmaster.pid)"
}
neap run -m 40M -- postgres -D data & # the line
server=$!
ask >managed
wait "$server"
must_have_paged
postgres -D data 2>plainly &
server=$!
ask >plain
wait "$server"
cmp plain managed
