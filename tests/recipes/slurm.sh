. "$RECIPES/lib.sh"
for tool in munged slurmctld slurmd srun sinfo; do needs $tool; done
[ "$(id -u)" = 0 ] || skip "slurmd runs jobs as root only"
# A cluster of this machine, with all of its files here.
node=$(hostname -s)
port=$((20000 + $$ % 20000))
mkdir state spool bin
cat >slurm.conf <<END
ClusterName=one
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthInfo=socket=$work/munge.socket
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=512
PartitionName=all Nodes=$node Default=YES State=UP
END
export SLURM_CONF="$work/slurm.conf"
dd if=/dev/urandom of=key bs=128 count=1 2>/dev/null
chmod 400 key
chmod 755 .
munged --force -F --key-file="$work/key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" --seed-file="$work/seed" </dev/null >munged.log 2>&1 &
daemons=$!
trap 'kill $daemons 2>/dev/null; wait; rm -rf "$work"' EXIT
for _ in $(seq 50); do
    [ -S munge.socket ] && break
    sleep 0.2
done
slurmctld -D >slurmctld.log 2>&1 &
daemons="$daemons $!"
slurmd -D >slurmd.log 2>&1 &
daemons="$daemons $!"
for _ in $(seq 100); do
    sinfo -h -o %t 2>/dev/null | grep -q '^idle$' && break
    sleep 0.3
done
sinfo -h -o %t 2>/dev/null | grep -q '^idle$' || skip "no node of Slurm comes up here"
# What srun finds by its name.
cat >bin/neap <<END
#!/bin/sh
shift
exec "$NEAP" run --summary "\$@" 2>"$work/said"
END
cat >job <<'END'
#!/usr/bin/env python3
import hashlib, os, sys
lines = [b'%d of slurm' % n * 40 for n in range(100000)]
child = os.fork()
if child == 0:
    os._exit(0 if lines[777] == b'777 of slurm' * 40 else 1)
print(os.waitpid(child, 0)[1], hashlib.sha256(b''.join(lines[::7])).hexdigest(), os.environ['SLURM_JOB_NUM_NODES'])
END
chmod +x bin/neap job
PATH=$work/bin:$PATH
srun --mem=200M neap run --require -m 40M -- ./job >managed # the line
must_have_paged
srun --mem=200M ./job >plain
cmp plain managed
