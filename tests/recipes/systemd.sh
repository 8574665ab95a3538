. "$RECIPES/lib.sh"
needs systemd-analyze
# The unit of the guide, with a neap and a program that are here.
sed -n '/^    \[Service\]/,/^$/s/^    //p' "$RECIPES/../../docs/guide/recipes.md" |
    sed "s|^ExecStart=/usr/bin/neap|ExecStart=$NEAP|; s|/usr/bin/python3|$(command -v python3)|" >job.service
grep -q "^ExecStart=$NEAP run --require" job.service
# That of the packages is one of a user's own systemd.
cp "$RECIPES/../../packaging/systemd/neap@.service" neap@team.service
# It ends well where it only has objections.
systemd-analyze verify --man=no "$work/job.service" 2>objections || echo "status $?" >>objections
XDG_RUNTIME_DIR=$work systemd-analyze verify --user --man=no "$work/neap@team.service" 2>>objections || echo "status $?" >>objections
[ ! -s objections ] || { cat objections; exit 1; }
