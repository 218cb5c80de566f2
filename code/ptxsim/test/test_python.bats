# The Python package `ptxsim` on texts of PTX, without numpy and Triton (`make test-triton` tests it with
# them): launches, refusals, reports. The library can be loaded beside a CUDA runtime.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export PYTHONPATH=code/ptxsim/python PYTHONDONTWRITEBYTECODE=1
}

@test "load: launches, arguments, faults" {
    run python3 code/ptxsim/python/test/test_load.py
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"Ran 19 tests"*OK ]]
}

@test "the library exports its own names only, under a name of its own" {
    run -0 readelf -d --wide build/ptxsim/libptxsim.so
    [[ $output == *"Library soname: [libptxsim.so]"* ]]
    run -0 nm -D --defined-only build/ptxsim/libptxsim.so
    [ "$(grep -c ' T ptxsim_' <<<"$output")" -eq 14 ]
    run -1 grep -v -e ' ptxsim_' -e ' libptxsim.so$' <<<"$output"
}

@test "a library that is not built is named, with what builds it" {
    touch "$BATS_TEST_TMPDIR/libcudart.so.13"
    PTXSIM_NATIVE=$BATS_TEST_TMPDIR run python3 -c 'import ptxsim; ptxsim.load(".version 8.0")'
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == "FileNotFoundError: $BATS_TEST_TMPDIR/libptxsim.so: the simulator is not built: "* ]]
}
