"""sh_test of Bazel releases before 8."""

sh_test = native.sh_test
