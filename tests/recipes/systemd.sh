. "$RECIPES/lib.sh"
needs systemd-analyze
# The unit of the guide, with a neap, a program and a user that are here.
sed -n '/^    \[Service\]/,/^$/s/^    //p' "$RECIPES/../../docs/guide/recipes.md" |
    sed "s|^ExecStart=/usr/bin/neap|ExecStart=$NEAP|; s|/usr/bin/python3|$(command -v python3)|; s|^User=job|User=nobody|" >job.service
grep -q "^ExecStart=$NEAP run --require" job.service
systemd-analyze verify --man=no "$work/job.service"
