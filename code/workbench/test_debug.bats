#!/usr/bin/env bats
# test_debug.bats: DEBUG_PRINT in a kernel does nothing unless it is switched on.

bats_require_minimum_version 1.5.0

root=$BATS_TEST_DIRNAME/../..

setup() {
    [ -x "$root/build/cuda/bin/nvcc" ] || skip "no nvcc"
    cd "$BATS_TEST_TMPDIR"
    plain=$root/code/workbench/fixtures/faulty.cu
    mkdir with without
    cp "$plain" without/faulty.cu
    sed '/^    for (int j = 0; j < keys; ++j) {$/a\        DEBUG_PRINT("key %d of %d, max %.1f\\n", j, keys, max);' \
        "$plain" >with/faulty.cu
    [ "$(grep -c DEBUG_PRINT with/faulty.cu)" -eq 1 ]
}

nvcc() { # FOLDER OPTION...
    (cd "$1" && "$root/build/cuda/bin/nvcc" -std=c++20 -O1 -I"$root/code" --compress-mode=none \
        -cudart shared -arch=compute_89 -code=compute_89 "${@:2}")
}

@test "without the flag the PTX is the same as without the line" {
    nvcc without -ptx faulty.cu -o faulty.ptx
    nvcc with -ptx faulty.cu -o faulty.ptx
    cmp without/faulty.ptx with/faulty.ptx
    nvcc with -DDEBUG_PRINTS -ptx faulty.cu -o printing.ptx
    grep -q vprintf with/printing.ptx
    run -1 grep -q vprintf with/faulty.ptx
}

@test "with it one thread of one CTA prints, in the simulator" {
    [ -e "$root/build/ptxsim/libcudart.so.13" ] || skip "no simulator in build/"
    nvcc with -DDEBUG_PRINTS faulty.cu "$root/build/libworkbench.a" -l:libjansson.a -o faulty
    run env LD_LIBRARY_PATH="$root/build/ptxsim" with/faulty --shapes 1x2x5 --seeds 0 --quiet
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 7 ] # a note about estimates, five keys, and the verdict
    [[ ${lines[0]} == "ptxsim: registers and occupancy are estimated from the PTX"* ]]
    [ "${lines[1]}" = "key 0 of 5, max -inf" ]
    [[ ${lines[5]} == "key 4 of 5, max "* ]]
    [ "${lines[6]}" = "faulty: PASS: 1 of 1 outputs right" ]
}
