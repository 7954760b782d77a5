# For tests of the command, to be sourced in the folder that they work in. Counts `failures`.
failures=0

fail() {
  echo "FAILED: $*"
  sed 's/^/  | /' out err
  failures=$((failures + 1))
}

# expect STATUS PATTERN COMMAND...: the status, and a line of stdout or stderr that matches (empty: none looked for).
expect() {
  local status=$1 pattern=$2
  shift 2
  "$@" > out 2> err < /dev/null
  local got=$?
  [ $got = "$status" ] || fail "status $got instead of $status: $*"
  [ -z "$pattern" ] || grep -qE -- "$pattern" out err || fail "nothing matches '$pattern': $*"
}
