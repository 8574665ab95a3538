. "$RECIPES/lib.sh"
needs_module ipykernel
needs_module jupyter_client
neap jupyter install --memory 96M --prefix "$VENV" # the line
cat >session.py <<'PY'
import sys
import threading
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="neap")
said = []

def run(code, timeout=120):
    said.clear()
    reply = client.execute_interactive(code, timeout=timeout, output_hook=lambda m: said.append(m["content"].get("text", "")))
    return reply["content"]["status"], "".join(said), reply["content"].get("ename")

# What Jupyter's displays of resources ask a kernel for, in MiB: its processes' resident memory.
def displayed():
    request = client.session.msg("usage_request")
    client.control_channel.send(request)
    while True:
        reply = client.control_channel.get_msg(timeout=30)
        if reply["parent_header"].get("msg_id") == request["header"]["msg_id"]:
            return reply["content"]["kernel_memory"] >> 20

fill = "rows = [f'row {i} of a notebook' for i in range(2_000_000)]; print(sum(map(len, rows)))"
assert run(fill) == ("ok", str(sum(len(f"row {i} of a notebook") for i in range(2_000_000))) + "\n", None), said
assert 32 < displayed() < 150, displayed() # plainly 211, and 82 under neap
for _ in range(3):
    threading.Timer(1.0, manager.interrupt_kernel).start()
    status, _, name = run("import time\ntime.sleep(60)")
    assert (status, name) == ("error", "KeyboardInterrupt"), (status, name)
assert run("print(len(rows))") == ("ok", "2000000\n", None)
manager.restart_kernel(now=False)
client.wait_for_ready(timeout=60)
assert run("rows")[2] == "NameError"
assert run("import os; print('neap' in os.environ['LD_PRELOAD'])")[1] == "True\n"
client.stop_channels()
manager.shutdown_kernel(now=False)
print("the notebook's session went as without neap")
PY
python3 session.py
