# The whole library under the address and undefined-behaviour sanitizers, which find nothing in the
# chapters' programs and in those of the tests. `make tests` builds what runs here.

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export LD_LIBRARY_PATH=build/san ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
    export UBSAN_OPTIONS=print_stacktrace=1
    sanitizer=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)
}

# Expects a program to pass without a finding of the sanitizers, which would end it.
expect_clean() {
    LD_PRELOAD=$sanitizer run "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    run -1 grep -E 'AddressSanitizer|runtime error' <<<"$output"
}

@test "the sanitized library is the one that runs" {
    LD_PRELOAD=$sanitizer LD_DEBUG=libs run build/ch02_scalar --shapes 1x1x8 --seeds 0 --no-timing
    [ "$status" -eq 0 ]
    grep -q 'calling init: build/san/libcudart.so.13' <<<"$output"
}

@test "every chapter's program is clean" {
    for program in build/ch[0-9][0-9]_*; do
        [[ $program == *.* ]] && continue
        grep -qs workbench_main "code/${program#build/}.cu" || continue # the program has no attention kernel
        shapes=1x1x40,1x2x64
        if grep -q launch_cache "code/${program#build/}.cu"; then shapes=1x1x40q9p32,1x2x300q4p16r1; fi
        if grep -q launch_prompt "code/${program#build/}.cu"; then shapes=1x1x40q9p32s20,1x2x300q4p16s9r1; fi
        expect_clean "$program" --shapes "$shapes" --seeds 0 --no-timing
    done
}

@test "the programs of the tests are clean" {
    for test in math libraries programs debug hopper; do
        [ -x build/tests/code/ptxsim/test/test_$test ]
        # Their run path names the unsanitized library: the sanitized one must come first.
        LD_PRELOAD=$sanitizer:build/san/libcudart.so.13 run build/tests/code/ptxsim/test/test_$test
        echo "$output"
        [ "$status" -eq 0 ]
        run -1 grep -E 'AddressSanitizer|runtime error' <<<"$output"
    done
}
