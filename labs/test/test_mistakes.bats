# What a lab says of ordinary mistakes. All of labs/fixtures/mistakes are judged by labs/tools/mistakes; here are some,
# one of each kind: a race, wrong numbers on a ragged shape alone, a grid that leaves rows out.
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
}

@test "each mistake can be made in today's program, and changes it" {
    local lab name
    for lab in 4 10; do
        [ "$(labs/fixtures/mistake $lab | wc -l)" -ge 8 ]
        for name in $(labs/fixtures/mistake $lab); do
            labs/fixtures/mistake $lab "$name" >"$BATS_TEST_TMPDIR/my.cu"
            run -1 cmp -s "code/$(code/tools/stages $lab program).cu" "$BATS_TEST_TMPDIR/my.cu"
        done
    done
    run -1 labs/fixtures/mistake 4 no-such-mistake
    [ "$output" = "mistake: labs/fixtures/mistakes/04.txt has no no-such-mistake" ]
}

@test "what the lab says first names what is wrong, on one screen" {
    make -s chapter4 chapter10
    run labs/tools/mistakes 4 no-barrier no-mask
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    run labs/tools/mistakes 10 grid-rounded-down
    echo "$output"
    [ "$status" -eq 0 ]
}
