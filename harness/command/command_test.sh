#!/bin/bash
# The built command, as a user meets it: what it prints, where errors go, and its exit status, above all on bad input.
set -u
qpexam=$PWD/$1
corpus=$PWD/corpus
expect=$PWD/harness/command/expect.sh
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/command.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
source "$expect"

# Nothing that is read by a person or a program may hold terminal codes when it goes into a file.
no_colour() {
  if grep -q $'\033' out err; then fail "terminal codes in a pipe: $*"; fi
}

cat > good.qpx << 'END'
# one write
qp a rc ops=RDMA_WRITE
qp b rc
connect a b
mr m len=64 access=LOCAL_WRITE|REMOTE_WRITE fill=0x5a
start a
  rdma_write a wr_id=1 flags=SIGNALED rkey=m addr=m+32
  set_sge a addr=m+0 len=16
complete a
poll a.send
END

# --- help and usage ---
expect 2 'check +run and judge' "$qpexam"
expect 0 'check +run and judge' "$qpexam" --help
expect 0 'Exit status: 0 fine, 1 findings' "$qpexam" help
expect 0 'qpexam run prog.qpx' "$qpexam" help run
expect 0 'qpexam run prog.qpx' "$qpexam" run --help
expect 2 'no command "no-such"' "$qpexam" help no-such
expect 0 "Runs qpexam.s own tests" "$qpexam" help test
expect 0 'qpexam report before.json' "$qpexam" help report
expect 0 '^granted-more ' "$qpexam" variations granted-more
expect 2 'no variation is named "no-such"' "$qpexam" variations no-such

# --- a device that is not here is no typing error ---
expect 3 'no such device here' "$qpexam" run good.qpx --provider=device:no-such
expect 3 'no such device here' "$qpexam" check --corpus=. --with=device:no-such
expect 2 'providers --all. lists the faults' "$qpexam" run good.qpx --provider=faulty:no-such-fault-at-all
expect 0 '^total ' "$qpexam" check --corpus=. --provider=reference,reference

# --- nor is a provider that the rdma-core of this build does not have ---
expect 0 '^hosted:ionic ' "$qpexam" providers
if grep -q '^hosted:ionic .*not available' out; then
  remedy='hosted:ionic: rdma-core [0-9.]+ does not have this provider: .* RDMA_CORE_VERSION=65.0'
  expect 3 "$remedy" "$qpexam" run good.qpx --provider=hosted:ionic
else
  expect 0 '' "$qpexam" run good.qpx --provider=hosted:ionic
fi

# --- reports summed up ---
expect 0 '' "$qpexam" run good.qpx --json=one.json
expect 0 '^reference: 1 program: 1 conforms' "$qpexam" report one.json
head -c 40 one.json > cut.json
expect 2 'cut.json: is no JSON, or was cut off' "$qpexam" report cut.json
expect 2 'no-such.json: cannot be read' "$qpexam" report no-such.json

# --- a fuzzer's input as a program ---
printf '\1\2\3\4garbage' > input.bin
expect 0 '' "$qpexam" fmt --bytes input.bin
expect 0 '^qpexam [0-9.]+ with rdma-core [0-9.]+ \((dir|tarball|apt|http)\)$' "$qpexam" --version
expect 2 'help. lists the commands|help no-such' "$qpexam" no-such
expect 2 '`qpexam help run` shows' "$qpexam" run
expect 2 '`qpexam help run` shows' "$qpexam" run --colour good.qpx
expect 2 '`qpexam help bench` shows' "$qpexam" bench --seconds=-1
# libbnxt_re crashes in what is measured (56.1): the report is written all the same.
expect 4 'run it as ./qpexam bench --sanitizers' "$qpexam" bench --sanitizers
"$qpexam" bench --provider=hosted:bnxt_re --seconds=0.001 --json=bench.json > out 2> err < /dev/null
case $? in 0 | 1) ;; *) fail "bench ends with its provider: status $?" ;; esac
[ -s bench.json ] || fail 'bench writes no report where a provider crashes'
expect 2 '`qpexam help exec` shows' "$qpexam" exec
expect 2 'exec runs programs over packaged providers' "$qpexam" exec --provider=reference -- true
expect 2 'unknown provider "packaged:no-such"' "$qpexam" exec --provider=packaged:no-such -- true

# --- a program that runs ---
expect 0 '^good.qpx: conforms$' "$qpexam" run good.qpx
no_colour run
expect 0 '' "$qpexam" run --quiet good.qpx
[ -s out ] && fail 'run --quiet says something'
expect 0 '^qpexam-trace 1$' "$qpexam" run good.qpx --trace=-
expect 0 '' "$qpexam" run good.qpx --trace=t --trace-json=t.json --json=r.json
grep -q 'wc cq=a.send qp=a wr_id=1 status=SUCCESS opcode=RDMA_WRITE' t || fail 'no completion in the trace'
python3 - << 'END' || fail 'the JSON files are not what they should be'
import json
trace, report = json.load(open("t.json")), json.load(open("r.json"))
assert trace["schema"] == "qpexam-trace/1"
assert report["schema"] == "qpexam-report/1", report
assert report["providers"]["reference"]["counts"]["programs"] == 1
END
expect 0 'conforms$' "$qpexam" judge t
expect 0 'conforms$' "$qpexam" judge t.json
cp t first; "$qpexam" run good.qpx --trace=t > /dev/null
cmp -s first t || fail 'the same program gives two traces'

# A trace that tells of a breach: the completion is gone.
grep -v 'wc cq=a.send' t | sed 's/^\(@8.*\) count=1/\1 settled=1/' > broken
expect 1 'WR-' "$qpexam" judge broken
expect 1 'violation' "$qpexam" judge broken --json=b.json
grep -q '"kind": "violation"' b.json || fail 'no violation in the report'

# --- fmt, lists ---
expect 0 '^start a$' "$qpexam" fmt good.qpx
cp out formatted.qpx
expect 0 '' "$qpexam" fmt --check formatted.qpx
printf 'qp   a   rc\n' > ugly.qpx
expect 1 'ugly.qpx: not formatted' "$qpexam" fmt --check ugly.qpx
expect 0 '' "$qpexam" fmt --write ugly.qpx
grep -qx 'qp a rc' ugly.qpx || fail 'fmt --write left it as it was'
expect 0 '^reference +[0-9.]+' "$qpexam" providers
expect 0 '^faulty:[a-z]' "$qpexam" providers --all
expect 0 '^unsignaled-refused +\(WR-SAMPLE-006\)' "$qpexam" variations
expect 0 '^287 clauses' "$qpexam" clauses
expect 0 '^WR-ATOM-002 ' "$qpexam" clauses atom-002
expect 0 '^WR-ATOM-001 ' "$qpexam" clauses ATOM
expect 2 'no clause and no group "NONE-1"' "$qpexam" clauses none-1
expect 0 'clauses have no test' "$qpexam" clauses --untested
expect 0 '^  rule: +SendQueue::Complete' "$qpexam" clauses WR-ATOM-002
expect 0 '^  faults: +result-read-after-unlock: ' "$qpexam" clauses WR-ATOM-010
expect 0 '^  faults: +none: ' "$qpexam" clauses WR-ABI-004
expect 0 '^  tests: +not listed: .*suites were not found' env QPEXAM_SUITES=/nowhere "$qpexam" clauses WR-ATOM-010
expect 0 '^287 clauses' "$qpexam" clauses --json=clauses.json
python3 -c 'import json; a = json.load(open("clauses.json")); assert len(a) == 287 and a[0]["rule"]["place"]' || fail "clauses --json"

# --- check and diff over a small corpus ---
mkdir -p mine/seeds
cp good.qpx mine/seeds/atom-good.qpx
expect 0 '^atom +1 +1 +0 +0 ' "$qpexam" check --corpus=mine --provider=reference --json=check.json
no_colour check
expect 0 'do the same in all 1 programs' "$qpexam" diff reference reference mine
expect 2 'no program of .* has "zzz"' "$qpexam" check --corpus=mine --filter=zzz
expect 2 'no-such-folder' "$qpexam" check --corpus=no-such-folder
mkdir empty
expect 2 'no .qpx file' "$qpexam" check --corpus=empty

# --- minimize: the finding stays, what does not matter goes ---
expect 2 'shows no finding' "$qpexam" minimize good.qpx
sed 's/wr_id=1/wr_id=0x100000001/' good.qpx > large_id.qpx
expect 1 'WR-SAMPLE-004|WR-' "$qpexam" run large_id.qpx --provider=faulty:wr-id-truncated
expect 0 'calls, from 9' "$qpexam" minimize large_id.qpx --provider=faulty:wr-id-truncated --output=short.qpx --tries=300
expect 1 'violation' "$qpexam" run short.qpx --provider=faulty:wr-id-truncated
[ "$(grep -vc '^#\|^qpx' short.qpx)" -le 9 ] || fail 'the minimized program is longer'

# --- bad input: file, line and remedy, and never a crash ---
expect 2 'missing.qpx' "$qpexam" run missing.qpx
expect 2 'missing' "$qpexam" judge missing
expect 2 'missing.qpx' "$qpexam" fmt missing.qpx
: > zero.qpx
expect 2 'empty' "$qpexam" judge zero.qpx
"$qpexam" run zero.qpx > out 2> err
[ $? -le 2 ] || fail 'a 0-byte program'
head -c 4096 /bin/ls > binary.qpx
expect 2 'binary.qpx' "$qpexam" run binary.qpx
expect 2 'binary.qpx' "$qpexam" judge binary.qpx
expect 2 'binary.qpx' "$qpexam" fmt binary.qpx
expect 2 'is a folder' "$qpexam" judge "$work"
printf 'qp a rc\nconnect a b\n' > unknown.qpx
expect 2 'unknown.qpx:2' "$qpexam" run unknown.qpx
printf 'mr m len=100000\n' > large.qpx
expect 2 'large.qpx:1' "$qpexam" run large.qpx
printf 'qp a rc\nqp a' > cut.qpx
expect 2 'cut.qpx:2' "$qpexam" run cut.qpx
head -c 300 t > cut-trace
expect 2 'cut-trace' "$qpexam" judge cut-trace
sed 's/status=SUCCESS/status=FINE/' t > odd-trace
expect 2 'odd-trace:[0-9]+: .*FINE' "$qpexam" judge odd-trace
echo '{"schema": "qpexam-trace/1"' > cut.json
expect 2 'cut.json' "$qpexam" judge cut.json
expect 2 'unknown provider "mlx5"; did you mean .*hosted:mlx5' "$qpexam" run good.qpx --provider=mlx5
expect 2 'unknown provider "refrence"; did you mean reference\?' "$qpexam" run good.qpx --provider=refrence
expect 2 'unknown provider' "$qpexam" run good.qpx --provider=packaged:no-such
expect 3 'device:none0: not run: libibverbs finds no such device' "$qpexam" check --corpus=mine --with=device:none0
expect 2 'one program' "$qpexam" run good.qpx ugly.qpx --trace=t2
# A good program beside a bad one still runs.
expect 2 '^good.qpx: conforms$' "$qpexam" run good.qpx unknown.qpx

# --- fuzz: the same seed, the same run; a fault is found, made short, kept, and not found again ---
expect 0 'no findings' "$qpexam" fuzz --runs=1500 --seconds=60 --output=f0
expect 0 'continuing seed 1 at program 1500' "$qpexam" fuzz --runs=500 --seconds=60 --output=f0
for run in f1 f2; do
  expect 1 'WR-' "$qpexam" fuzz --provider=faulty:flags-of-previous-request --runs=600 --seconds=60 --output=$run \
    --until=finding
done
for finding in f1/*/; do
  [ -s "$finding/explanation.txt" ] && [ -s "$finding/trace.txt" ] || fail 'a finding without its explanation and trace'
  [ -s "$finding/repro.c" ] || fail 'a finding without its C file'
  expect 1 'violation' "$qpexam" run "$finding/program.qpx" --provider=faulty:flags-of-previous-request
  expect 0 'conforms' "$qpexam" run "$finding/program.qpx"
done
diff -r f1 f2 > out 2> err || fail 'the same seed found something else'
expect 4 'start it from the tree: ./qpexam fuzz --engine=libfuzzer' "$qpexam" fuzz --engine=libfuzzer
expect 2 'nobody' "$qpexam" fuzz --provider=nobody

# --- emit-c ---
expect 0 'ibv_wr_rdma_write\(wr_a' "$qpexam" emit-c good.qpx

# --- places that cannot be written ---
expect 2 'cannot be written' "$qpexam" run good.qpx --json=no/such/folder/r.json
[ -s out ] && fail 'it ran before it found that the report has no place'
if [ -w /dev/full ]; then
  expect 2 'could be written: No space left' "$qpexam" run good.qpx --json=/dev/full
  "$qpexam" clauses > /dev/full 2> err
  [ $? = 2 ] || fail 'a full disk under stdout'
fi
"$qpexam" clauses ATOM 2> err | head -1 > out
[ -s err ] && fail 'a reader that goes away'

# --- an interrupt leaves a partial report, and nobody behind ---
mkdir many
for i in $(seq 300); do cp good.qpx many/p$i.qpx; done
"$qpexam" check --corpus=many --provider=reference --json=partial.json > out 2> err &
pid=$!
sleep 0.02
kill -INT $pid 2> /dev/null
wait $pid
status=$?
case $status in
  0) ;; # it was faster than the signal
  130) grep -q '"interrupted": true' partial.json || fail 'no partial report after an interrupt' ;;
  *) fail "status $status after an interrupt" ;;
esac
if pgrep -P $$ -f "$qpexam" > /dev/null; then fail 'a child is left behind'; fi

[ $failures = 0 ] && echo "all as expected"
exit $((failures != 0))
