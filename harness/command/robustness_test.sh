#!/bin/bash
# What happens to the command itself: processes killed, input without end or sense, folders shared or closed, a bare
# environment, a machine with RDMA devices of its own. Nothing found is lost, nobody is left behind.
set -u
qpexam=$PWD/$1
corpus=$PWD/corpus
expect=$PWD/harness/command/expect.sh
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/robustness.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
source "$expect"
: > out
: > err

cat > good.qpx << 'END'
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

# The processes that hold $1 in their environment, but for the zombies.
marked() {
  local process
  for process in /proc/[0-9]*; do
    grep -qs "^ROBUSTNESS_MARK=$1$" <(tr '\0' '\n' 2> /dev/null < "$process/environ") &&
      grep -qs '^State:[[:space:]]*[^ZX]' "$process/status" 2> /dev/null && echo "${process#/proc/}"
  done
}
# Waits until a command holds, for 20 seconds at most.
until_true() {
  local tries
  for tries in $(seq 200); do
    "$@" && return 0
    sleep 0.1
  done
  return 1
}
nobody_left() { [ -z "$(marked "$1")" ]; }
found_something() { compgen -G "$1/*/program.qpx" > /dev/null; }

# --- a parent that is killed leaves no process, and what it found is there ---
ROBUSTNESS_MARK=parent "$qpexam" fuzz --provider=faulty:flags-of-previous-request --seconds=60 --jobs=2 --output=killed \
  > out 2> err < /dev/null &
parent=$!
until_true found_something killed || fail 'no finding within 20 seconds'
kill -KILL $parent
wait $parent 2> /dev/null
until_true nobody_left parent || fail "a killed parent left $(marked parent) behind"
expect 1 'violation' "$qpexam" run killed/*/program.qpx --provider=faulty:flags-of-previous-request

# --- a child that is killed from outside: the run goes on to its end, and the provider is not accused for good (while our
# own part of the work was on, it is an error of ours, 5) ---
ROBUSTNESS_MARK=child "$qpexam" fuzz --provider=hosted:rxe --seconds=4 --output=child > out 2> err < /dev/null &
parent=$!
two_there() { [ "$(marked child | wc -l)" -ge 2 ]; }
until_true two_there || fail 'no child within 20 seconds'
for child in $(marked child); do
  [ "$child" = $parent ] || kill -KILL "$child" 2> /dev/null
done
wait $parent
status=$?
case $status in 0 | 1 | 5) ;; *) fail "status $status after a child was killed" ;; esac
grep -q 'programs in' out || fail 'a killed child ended the run'
grep -h 'found' out err | grep 'crash\|internal' | grep -v unstable > found && fail "a killed child counts: $(cat found)"
until_true nobody_left child || fail "after a killed child $(marked child) is left"

# --- an interrupt ends a search with what it has ---
ROBUSTNESS_MARK=search "$qpexam" fuzz --provider=faulty:flags-of-previous-request --seconds=60 --output=interrupted \
  > out 2> err < /dev/null &
parent=$!
until_true found_something interrupted || fail 'no finding within 20 seconds'
kill -INT $parent
wait $parent
status=$?
[ $status = 130 ] || fail "status $status after an interrupt"
until_true nobody_left search || fail "an interrupt left $(marked search) behind"
for finding in interrupted/*/; do
  [ -s "$finding/program.qpx" ] || fail "a finding without its program: $finding"
done

# --- two searches in one folder ---
"$qpexam" fuzz --provider=faulty:flags-of-previous-request --runs=400 --output=shared > out1 2> err1 < /dev/null &
first=$!
expect 1 '' "$qpexam" fuzz --provider=faulty:flags-of-previous-request --seed=2 --runs=400 --output=shared
wait $first
[ $? = 1 ] || { cat out1 err1 > out; fail 'the first of two searches in a folder'; }
for finding in shared/*/; do
  for file in program.qpx explanation.txt trace.txt repro.c; do
    [ -s "$finding$file" ] || fail "two searches in one folder: $finding has no $file"
  done
done

# --- a gigabyte of nothing, and many megabytes of noise: refused soon, in little memory ---
truncate -s 1G zeros.qpx
head -c 8000000 /dev/urandom > noise.qpx
mkdir noisy && cp noise.qpx noisy/
for file in zeros.qpx noise.qpx; do
  for command in 'run FILE' 'judge FILE' 'report FILE' 'minimize FILE --provider=reference' 'fmt FILE' 'emit-c FILE'; do
    # The sanitizers' shadow is no memory of ours.
    expect 2 "$file" timeout 60 "$qpexam" ${command//FILE/$file}
    [ "$(wc -c < err)" -lt 20000 ] || fail "a message of $(wc -c < err) bytes"
  done
done
expect 2 'noise.qpx' timeout 60 "$qpexam" check --provider=reference --corpus=noisy

# --- places that nobody can write to ---
expect 2 'cannot' "$qpexam" fuzz --runs=10 --output=/proc/qpexam-findings
expect 2 'cannot be written' "$qpexam" run good.qpx --json=/proc/qpexam.json
expect 2 'cannot be written' "$qpexam" run good.qpx --trace=/proc/qpexam.trace

# --- no HOME, no terminal, no session, another language: the same words ---
expect 0 'variation granted-more' "$qpexam" run good.qpx --provider=hosted:rxe
cp out plain
for bare in 'env -i' 'env -i LANG=C' 'env -i LANG=C.UTF-8 LC_ALL=C.UTF-8' 'env -i LC_ALL=de_DE.UTF-8 TERM=xterm' 'setsid -w'; do
  expect 0 'variation granted-more' $bare "$qpexam" run good.qpx --provider=hosted:rxe
  cmp -s out plain || fail "$bare: other words"
done
expect 0 'conforms' "$qpexam" run good.qpx <&-

# --- hosted runs open no RDMA device of this machine, which libibverbs lists beside the emulated one ---
if command -v strace > /dev/null && strace -o /dev/null true 2> /dev/null; then
  for provider in reference hosted:rxe hosted:mlx5 hosted:efa hosted:hns hosted:bnxt_re; do
    strace -f -e trace=open,openat,openat2 -o calls "$qpexam" run good.qpx --provider=$provider > out 2> err < /dev/null
    [ -s calls ] || fail "$provider: nothing was traced"
    grep /dev/infiniband calls > out && fail "$provider opens this machine's devices"
  done
fi

[ $failures = 0 ] && echo 'all as expected'
exit $((failures > 0))
