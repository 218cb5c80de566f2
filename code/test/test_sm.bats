# "An SM in six pages": its limits are those of code/image/gpus.c, its table of lanes is computed
# here, and its ten loads, with the answers, are what the simulator counts in
# code/ptxsim/test/banks.cu.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    make -s build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 build/tests/code/ptxsim/test/banks
    make -s banks >"$BATS_FILE_TMPDIR/counts"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    chapter=chapters/SM-inside-an-sm.md
}

# The cells of the table ID, trimmed and separated by tabs, without head and rules.
cells() { # ID
    awk -v id="{#$1}" '/^\|/ { if (!inside) n = 0; inside = 1; row[n++] = $0; next } { inside = 0 }
        index($0, id) { for (i = 2; i < n; i++) print row[i]; exit }' "$chapter" |
        sed -E 's/^\| *//; s/ *\|$//; s/ *\| */\t/g'
}

# A field of a GPU in gpus.c, or a constant of gpus.h; shared memory is in KB.
gpu_field() { # GPU FIELD
    awk -v gpu="[GPU_$1] =" -v field=".$2" 'index($0, gpu) { inside = 1 } inside && $1 == field { print $3; exit }' \
        code/image/gpus.c | tr -d ,
}
constant() { # NAME
    sed -nE "s/^ *$1 = ([0-9]+),.*/\1/p" code/image/gpus.h
}

@test "the limits of an SM are those of gpus.c" {
    for gpu in L4 H200; do
        cat <<END
$(constant GPU_RATE_ISSUE)
$(($(gpu_field $gpu threads_sm) / 32))
$(gpu_field $gpu blocks_sm)
$(constant GPU_REGISTERS)
$(gpu_field $gpu shared_sm)
$(gpu_field $gpu shared_optin)
$(constant GPU_RATE_EXP)
$(($(constant GPU_RATE_SHARED) * 32))
$(gpu_field $gpu sms)
END
    done >"$BATS_TEST_TMPDIR/expected"
    cells tbl:SM-limits >"$BATS_TEST_TMPDIR/cells"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/cells")" -eq 9 ]
    { cut -f2 "$BATS_TEST_TMPDIR/cells"; cut -f3 "$BATS_TEST_TMPDIR/cells"; } |
        diff "$BATS_TEST_TMPDIR/expected" -
}

@test "the table of lanes is 20 times the lane, modulo 32; the cells left out are in the answers" {
    cells tbl:SM-lanes | awk -F'\t' '{ print $1 "\t" $2 "\t" $3; print $5 "\t" $6 "\t" $7 }' |
        sort -n >"$BATS_TEST_TMPDIR/lanes"
    [ "$(cut -f1 "$BATS_TEST_TMPDIR/lanes" | xargs)" = "0 1 2 3 4 5 6 7 8 9 10 31" ]
    awk -F'\t' '$2 != "" && $2 != 20 * $1 || $3 != "" && $3 != 20 * $1 % 32 { print "lane " $1; bad = 1 }
        END { exit bad }' "$BATS_TEST_TMPDIR/lanes"
    [ "$(awk -F'\t' '$3 == "" { print $1 }' "$BATS_TEST_TMPDIR/lanes" | xargs)" = "9 10 31" ]
    sed -n '/^## Answers/,$p' "$chapter" | tr '\n' ' ' |
        grep -qF "want the words $((20 * 9)), $((20 * 10)) and $((20 * 31)), in the banks $((20 * 9 % 32)), $((20 * 10 % 32)) and $((20 * 31 % 32))."
}

# The loads of banks.cu as the simulator counted them: letter, expression, wavefronts.
counted() {
    sed -nE 's/^ *[0-9.]+% +[0-9]+ +([0-9]+) .*banks\.cu:[0-9]+ float[24]? ([a-j]) = (.*);$/\2\t\3\t\1/p' \
        "$BATS_FILE_TMPDIR/counts" | sort
}

@test "the ten loads take the wavefronts that the table and the answers say" {
    counted >"$BATS_TEST_TMPDIR/counted"
    [ "$(cut -f1 "$BATS_TEST_TMPDIR/counted" | xargs)" = "a b c d e f g h i j" ]
    cells tbl:SM-loads | sed -E 's/^(.)\t`([^`]*)`[^\t]*/\1\t\2/' >"$BATS_TEST_TMPDIR/printed"
    cut -f1,2 "$BATS_TEST_TMPDIR/counted" | diff - <(cut -f1,2 "$BATS_TEST_TMPDIR/printed")
    [ "$(awk -F'\t' '$4 == "" { print $1 }' "$BATS_TEST_TMPDIR/printed" | xargs)" = "c h i j" ]
    join -t"$(printf '\t')" "$BATS_TEST_TMPDIR/counted" "$BATS_TEST_TMPDIR/printed" |
        awk -F'\t' '$6 != "" && $6 != $3 { print $1 " takes " $3 ", not " $6; bad = 1 } END { exit bad }'
    of() { awk -F'\t' -v name="$1" '$1 == name { print $3 }' "$BATS_TEST_TMPDIR/counted"; }
    sed -n '/^## Answers/,$p' "$chapter" | tr '\n' ' ' >"$BATS_TEST_TMPDIR/answers"
    grep -qF "**c** takes $(of c) wavefronts." "$BATS_TEST_TMPDIR/answers"
    grep -qF "and the load 4 · 8 = $(of h). In **i**" "$BATS_TEST_TMPDIR/answers"
    grep -qF "and the load takes $(of i): an eighth more memory" "$BATS_TEST_TMPDIR/answers"
    grep -qF "**j** is the exception, a broadcast, and takes $(of j)." "$BATS_TEST_TMPDIR/answers"
}

@test "a wide load goes in as many parts as it has words" {
    cells tbl:SM-loads | awk -F'\t' '{ words = $2 ~ /fours/ ? 4 : $2 ~ /pairs/ ? 2 : 1
        if ($3 != words) { print $1 " has " $3 " parts"; bad = 1 } } END { exit bad || NR != 10 }'
}
