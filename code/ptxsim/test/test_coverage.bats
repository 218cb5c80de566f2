# The table of opcodes; and the simulator's results for every opcode, random programs and every matrix
# product, against the record of an H200. `make tests` builds what runs here.

# All cases are run once; the tests compare their results.
setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export HERE=$BATS_FILE_TMPDIR/here
    LD_LIBRARY_PATH=build/ptxsim build/tests/coverage/coverage "$HERE"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
    export LD_LIBRARY_PATH=build/ptxsim
}

@test "the table of opcodes is today's" {
    build/tests/coverage/generate table | diff code/ptxsim/test/coverage/opcodes.tsv -
    [ "$(wc -l <code/ptxsim/test/coverage/opcodes.tsv)" -gt 1000 ]
}

@test "every case runs, with the same results under one thread and other instruction sets" {
    PTXSIM_THREADS=1 PTXSIM_ISA=base build/tests/coverage/coverage "$BATS_TEST_TMPDIR/base"
    cmp "$HERE" "$BATS_TEST_TMPDIR/base"
}

# The exceptions are 13 random programs, no more and no fewer; compare.c says what ptxas does to each.
@test "each result equals the H200's, bit for bit or within its bound, but for 13 programs that ptxas changes" {
    record=plots/runs/h200/coverage.base64
    [ -f $record ] || skip "no record"
    base64 -d $record >"$BATS_TEST_TMPDIR/there"
    run build/tests/coverage/compare "$HERE" "$BATS_TEST_TMPDIR/there"
    [ "$status" -eq 0 ]
    [[ "${lines[-1]}" == *", 13 changed by ptxas, 0 wrong" ]]
    [ "$(grep -c '^mma m16n8k.*, reals: follows the rule' <<<"$output")" -eq 9 ]
}

@test "compare: a sum that does not follow the machine's rule is wrong, by one bit" {
    for format in 'k16 f16' 'k8 tf32' 'k32 e4m3'; do
        base64 -d plots/runs/h200/coverage.base64 |
            awk -v name="mma m16n8$format, reals" -F'\t' '
                seen == 1 { sub(/[0-9a-f] /, "", $0); $0 = "1 " $0; seen = 2 }
                $1 == name { seen = 1 } { print }' >"$BATS_TEST_TMPDIR/there"
        run build/tests/coverage/compare "$HERE" "$BATS_TEST_TMPDIR/there"
        [ "$status" -eq 1 ]
        grep -q "^mma m16n8$format, reals: word [0-9]* is not what the rule gives" <<<"$output"
    done
}

@test "compare: other cases and cut files are refused by name" {
    printf 'a\t1\nxxxx' >"$BATS_TEST_TMPDIR/a"
    printf 'a\t2\nxxxx' >"$BATS_TEST_TMPDIR/cut"
    printf 'b\t1\nxxxx' >"$BATS_TEST_TMPDIR/b"
    printf 'a\t1\nxxxy' >"$BATS_TEST_TMPDIR/other"
    run build/tests/coverage/compare "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/cut"
    [ "$status" -eq 1 ]
    [[ "$output" == *"cut: ends too early" ]]
    run build/tests/coverage/compare "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
    [ "$status" -eq 1 ]
    [[ "$output" == *"b: has other cases" ]]
    run build/tests/coverage/compare "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/other"
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "a: differs" ]
    run build/tests/coverage/compare
    [ "$status" -eq 2 ]
}

@test "every row of the table has a test: an H200's result, or a reference in test_interp.c" {
    record=plots/runs/h200/coverage.base64
    [ -f $record ] || skip "no record"
    base64 -d $record | LC_ALL=C grep -aoE '^[a-z][ -~]*	[0-9]+	([0-9a-f]{16}|~)' | cut -f1 >"$BATS_TEST_TMPDIR/tested"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/tested")" -gt 1000 ]
    grep -oE 'X\( *"[a-z0-9._]+"' code/ptxsim/test/test_interp.c | sed -E 's/.*"(.*)"/\1/' >>"$BATS_TEST_TMPDIR/tested"
    run comm -23 <(sed 1d code/ptxsim/test/coverage/opcodes.tsv | cut -f1 | sort -u) \
        <(sort -u "$BATS_TEST_TMPDIR/tested")
    echo "without a test: $output"
    [ -z "$output" ]
}
