. "$RECIPES/lib.sh"
# Debian has the version in its name.
fpm=
for name in php-fpm php-fpm8.4 php-fpm8.3 php-fpm8.2 php-fpm8.1 php-fpm7.4; do
    fpm=${fpm:-$(command -v "$name" || true)}
done
[ -n "$fpm" ] || skip "php-fpm is not installed"
mkdir bin
ln -s "$fpm" bin/php-fpm
PATH=$work/bin:$PATH
chmod a+rx .
cat >pool.conf <<CONF
[global]
error_log = $work/log
pid = $work/pid
[www]
listen = $work/app.sock
listen.mode = 0666
pm = static
pm.max_children = 2
php_admin_value[memory_limit] = 512M
CONF
if [ "$(id -u)" = 0 ]; then printf 'user = nobody\ngroup = %s\n' "$(id -gn nobody)" >>pool.conf; fi
cat >app.php <<'PHP'
<?php
$rows = [];
for ($i = 0; $i < 400000; $i++) $rows[] = "row $i of what this request works on";
$sum = 0;
foreach ($rows as $row) $sum += strlen($row) + ord($row[4]);
echo $sum;
PHP
chmod a+r app.php
cat >ask.py <<'PY'
import socket, struct, sys, time
def record(kind, body): return struct.pack(">BBHHBB", 1, kind, 1, len(body), 0, 0) + body
def pair(name, value): return struct.pack(">II", len(name) | 1 << 31, len(value) | 1 << 31) + name.encode() + value.encode()
script = sys.argv[1] + "/app.php"
names = pair("SCRIPT_FILENAME", script) + pair("SCRIPT_NAME", "/app.php") + pair("REQUEST_METHOD", "GET")
def ask():
    one = socket.socket(socket.AF_UNIX)
    for _ in range(300):
        try:
            one.connect(sys.argv[1] + "/app.sock")
            break
        except OSError:
            time.sleep(0.1)
    one.sendall(record(1, b"\0\1\0\0\0\0\0\0") + record(4, names) + record(4, b"") + record(5, b""))
    return one
answers = []
for _ in range(3):
    for one in [ask(), ask()]: # both workers at once
        text = b""
        while part := one.recv(65536): text += part
        out, at = b"", 0
        while at < len(text):
            _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", text[at:at + 8])
            if kind == 6: out += text[at + 8:at + 8 + length]
            at += 8 + length + padding
        answers.append(out.split(b"\r\n\r\n", 1)[1].decode())
print(*answers, sep="\n")
PY
neap run -m 48M -- php-fpm -n -F -y pool.conf & # the line
server=$!
python3 ask.py "$work" >answers
kill -QUIT "$(cat pid)"
wait "$server"
must_have_paged
[ "$(sort -u answers)" = 36188885 ] || { cat answers; exit 1; }
