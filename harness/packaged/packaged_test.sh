#!/bin/bash
# The installed libibverbs and plugins over the emulated kernel: `exec`, `run` and `check`, as a user meets them.
# Needs what bazel/setup.sh calls `test`: the distribution's plugins and libibverbs' example programs.
set -u
qpexam=$PWD/$1 two_elements=$PWD/$2
corpus=$PWD/corpus
expect=$PWD/harness/command/expect.sh
document=$PWD/docs/packaged.md
root=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/packaged.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
cd "$work"
source "$expect"

command -v ibv_devinfo > /dev/null || { echo 'ibverbs-utils is missing: ./qpexam test installs it'; exit 1; }

# --- exec: the machine's own tools find the device, and only it ---
for provider in rxe:rxe0 mlx5:mlx5_0 efa:efa_0 hns:hns_0 bnxt_re:bnxt_re0; do
  name=${provider%:*} device=${provider#*:}
  expect 0 "^ +${device}[[:space:]]+0200000000000000$" "$qpexam" exec --provider=packaged:"$name" -- ibv_devices
  [ "$(grep -c 0200 out)" = 1 ] || fail "not one device: $name"
  expect 0 'PORT_ACTIVE' "$qpexam" exec --provider=packaged:"$name" -- ibv_devinfo -v
  grep -q "^hca_id:.*$device" out || fail "no hca_id: $name"
done

# --- exec: the command's own status ---
expect 7 '' "$qpexam" exec --provider=packaged:rxe -- sh -c 'exit 7'
expect 137 '' "$qpexam" exec --provider=packaged:rxe -- sh -c 'kill -9 $$'
expect 127 'no-such-command' "$qpexam" exec --provider=packaged:rxe -- no-such-command
expect 126 'Permission denied|Is a directory' "$qpexam" exec --provider=packaged:rxe -- ./tmp
printf 'one line\n' > in
"$qpexam" exec --provider=packaged:rxe -- cat < in | cmp -s - in || fail 'stdin and stdout are not the command’s'
expect 2 'exec runs programs over packaged providers' "$qpexam" exec --provider=hosted:rxe -- true

# --- exec: doorbells of a program that knows nothing of us, and what is found below it ---
# librxe adds the first element's length as often as there are elements: WR-SGE-001, in 44.0 and 56.1.
expect 0 '^success, 24 bytes arrived$' "$qpexam" exec --provider=packaged:mlx5 -- "$two_elements"
expect 1 '^qpexam: wqe WR-SGE-001: ' "$qpexam" exec --provider=packaged:rxe -- "$two_elements"

# --- run and check: judged, the same twice ---
expect 0 'conforms|variation' "$qpexam" run --provider=packaged:mlx5 "$corpus"/seeds/01-manual-example.qpx
expect 0 'conforms|variation' "$qpexam" run --provider=packaged:hns "$corpus"/seeds/01-manual-example.qpx
expect 0 'conforms|variation' "$qpexam" run --provider=packaged:efa "$corpus"/seeds/01-manual-example.qpx
expect 0 'conforms|variation' "$qpexam" run --provider=packaged:bnxt_re "$corpus"/seeds/create-plain.qpx
expect 1 '^violation WR-SGE-001' "$qpexam" run --provider=packaged:rxe "$corpus"/regressions/rxe-sge-list-length.qpx
expect 1 '' "$qpexam" run --provider=packaged:rxe "$corpus"/regressions --quiet --json=a.json
expect 1 '' "$qpexam" run --provider=packaged:rxe "$corpus"/regressions --quiet --json=b.json
python3 - << 'END' || fail 'two runs differ'
import json
def findings(file):
    return [(f["kind"], f["clause"], f["what"]) for f in json.load(open(file))["providers"]["packaged:rxe"]["findings"]]
assert findings("a.json") and findings("a.json") == findings("b.json")
END

# --- a device of this machine: here the emulated one stands in, in real time and by the installed libibverbs ---
in_sight() { "$qpexam" exec --provider=packaged:"$1" -- "$qpexam" "${@:2}"; }
expect 0 '^device:mlx5_0 +' in_sight mlx5 providers
expect 0 'conforms|variation' in_sight mlx5 run --provider=device:mlx5_0 "$corpus"/seeds/01-manual-example.qpx
expect 0 '^device:mlx5_0' in_sight mlx5 check --provider=device:mlx5_0 --filter=manual
expect 1 '^violation WR-SGE-001' in_sight rxe run --provider=device:rxe0 "$corpus"/regressions/rxe-sge-list-length.qpx
expect 0 'ibv_wr_start|MIX' in_sight mlx5 conform --provider=device:mlx5_0 --group=MIX
expect 3 'did you mean device:rxe0' in_sight rxe run --provider=device:rxe1 "$corpus"/seeds/01-manual-example.qpx

# --- what the document shows, for its status; Python's tests are .ci/pyverbs' ---
ran=0
while read -r line; do
  case $line in
    *python3*) continue ;;
    *' check '*) line="$line --filter=atom --provider=reference" ;;
  esac
  (cd "$root" && "$qpexam" ${line#./qpexam }) > out 2> err < /dev/null
  got=$?
  [ $got -le 1 ] || fail "status $got: $line"
  ran=$((ran + 1))
done < <(grep '^\./qpexam .*packaged:' "$document")
[ $ran -ge 5 ] || fail "only $ran commands in $document"

[ -z "$(ls "$TMPDIR")" ] || fail "left behind: $(ls "$TMPDIR")"
[ $failures = 0 ] && echo 'all as expected'
exit $((failures != 0))
