. "$RECIPES/lib.sh"
needs_module gunicorn
cat >app.py <<'PY'
rows = [f"row {i} of what the application loads at its start" for i in range(400_000)]
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(sum(map(len, rows[::7]))).encode()]
PY
neap run -m 64M -- gunicorn --preload --workers 2 --bind unix:app.sock --pid app.pid app:app & # the line
server=$!
python3 - >answers <<'PY'
import http.client, socket, time
for _ in range(600):
    try:
        probe = socket.socket(socket.AF_UNIX)
        probe.connect("app.sock")
        break
    except OSError:
        time.sleep(0.1)
for _ in range(20):
    one = socket.socket(socket.AF_UNIX)
    one.connect("app.sock")
    link = http.client.HTTPConnection("localhost")
    link.sock = one
    link.request("GET", "/")
    print(link.getresponse().read().decode())
    link.close()
PY
[ "$(sort -u answers | wc -l)" = 1 ] && [ "$(wc -l <answers)" = 20 ]
kill -TERM "$(cat app.pid)"
wait "$server"
must_have_paged
