# build/ptxsim/ptxsim profile: the lines of a chapter with their counts, and the tables of its pictures.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../../.."
    make -s build/ptxsim/ptxsim build/ptxsim/libcudart.so.13 build/ch03_wmma_qk
}

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
    small=(build/ch03_wmma_qk --shapes small --seeds 0 --no-timing --quiet)
}

# The appendix's lines and pictures equal what the simulator gives today.
@test "the recorded lines and pictures are today's (else: labs/tools/measure-pictures)" {
    OUT=$BATS_TEST_TMPDIR run labs/tools/measure-pictures
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(ls "$BATS_TEST_TMPDIR"/*.{txt,tsv} | wc -l)" -eq "$(grep -c '^record ' labs/tools/measure-pictures)" ]
    for new in "$BATS_TEST_TMPDIR"/*.{txt,tsv}; do
        diff "plots/runs/simulator/${new##*/}" "$new"
    done
}

@test "lines are hottest first, 80 columns, and add up" {
    run build/ptxsim/ptxsim profile --lines 5 --json "$BATS_TEST_TMPDIR/lines.json" "${small[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^.{81}' <<<"$output")" -eq 0 ]
    [ "$(grep -cE '^ *[0-9.]+% .*:[0-9]+ ' <<<"$output")" -eq 5 ]
    grep -oE '^ *[0-9.]+%' <<<"$output" | tr -d ' %' | head -5 | sort -rgc
    grep -qE 'load_matrix_sync' <<<"$output"
    grep -oE '"share": [0-9.e-]+' "$BATS_TEST_TMPDIR/lines.json" |
        awk '{ sum += $2 } END { exit !(sum > 0.999 && sum < 1.001) }'
}

@test "lines are cut at the terminal's width" {
    command -v script >/dev/null || skip "no script(1) to make a terminal"
    local columns
    for columns in 60 100; do
        run script -qec "stty cols $columns; build/ptxsim/ptxsim profile --lines 30 ${small[*]}" /dev/null </dev/null
        [ "$status" -eq 0 ]
        grep -E '^ *[0-9.]+% .*:[0-9]+ ' <<<"$output" | tr -d '\r' | awk -v columns="$columns" '
            length > most { most = length } END { print most; exit most != columns }'
    done
}

@test "./lab3 --profile is make profile3; ./lab3 my.cu --profile has the lines of my.cu" {
    make -s chapter3 >"$BATS_TEST_TMPDIR/make" || { cat "$BATS_TEST_TMPDIR/make"; false; }
    make -s profile3 >"$BATS_TEST_TMPDIR/expected"
    ./lab3 --profile | diff "$BATS_TEST_TMPDIR/expected" -
    cp code/ch03_wmma_qk.cu "$BATS_TEST_TMPDIR/profiled.cu"
    run ./lab3 "$BATS_TEST_TMPDIR/profiled.cu" --shapes small --profile
    echo "$output"
    [ "$status" -eq 0 ]
    line=$(grep -n 'load_matrix_sync(q' code/ch03_wmma_qk.cu | head -1 | cut -d: -f1)
    grep -qE "profiled.cu:$line +.*load_matrix_sync" <<<"$output"
    [[ "$output" != *GREEN* ]]
    echo 'int main() { return' >"$BATS_TEST_TMPDIR/broken.cu"
    run ./lab3 "$BATS_TEST_TMPDIR/broken.cu" --profile
    [ "$status" -eq 1 ]
    [[ "${lines[-1]}" == "lab3: "*"broken.cu does not compile" ]]
    rm -f build/student/profiled* build/student/broken*
}

@test "sorting by another unit, and an unknown one" {
    run build/ptxsim/ptxsim profile --by exp --lines 1 "${small[@]}"
    grep -q 'expf\|__expf' <<<"$output"
    run build/ptxsim/ptxsim profile --by heat "${small[@]}"
    [ "$status" -eq 2 ]
    [ "$output" = 'ptxsim profile: --by: "heat" is none of tensor, exp, shared, issue, dram' ]
}

@test "banks: four words a row, eight rows deep" {
    line=$(grep -n 'load_matrix_sync(q, &t.q' chapters/03-wmma-scores.md | head -1 | cut -d: -f1)
    run build/ptxsim/ptxsim profile --banks "03:$line" "${small[@]}"
    echo "$output" | head -5
    [ "$status" -eq 0 ]
    # 4 tiles x 8 rows x 4 words; each word shares its bank with seven others
    [ "$(grep -cE '^[0-9]+'$'\t''[0-9]+'$'\t''8'$'\t' <<<"$output")" -eq 128 ]
    grep -q $'\t32\t4\t' <<<"$output"
}

@test "a line without an access to shared memory: one line, status 3" {
    run --separate-stderr build/ptxsim/ptxsim profile --banks 03:1 "${small[@]}"
    [ "$status" -eq 3 ]
    [ "$(tail -1 <<<"$stderr")" = "ptxsim profile: warp 0 makes no access to shared memory at 03:1" ]
}

@test "at an mbarrier a warp waits for the last that arrives" {
    run build/ptxsim/ptxsim profile --timeline build/ch13_warp_specialised --shapes small --seeds 0 --no-timing --quiet
    echo "$output"
    [ "$status" -eq 0 ]
    # Rows of the table: warp, from, to, label. After all warps have met, the first wait is for the
    # first tile: every consumer's wait ends where the last producer has converted the tile.
    rows=$(grep -E '^[0-9]+\s[0-9]+\s[0-9]+\s[0-9]+$' <<<"$output")
    label=$(awk -F'\t' '$2 ~ /^Convert a piece/ { print $1; exit }' <<<"$output")
    begins=$(awk -v l="$label" '$1 >= 4 && $4 == l && (!n || $2 < n) { n = $2 } END { print n }' <<<"$rows")
    for warp in 0 1 2 3; do
        end=$(awk -v w=$warp -v b="$begins" '$1 == w && $4 == 0 && $3 > b { print $3; exit }' <<<"$rows")
        [ "$end" -gt "$((begins + 50))" ]
    done
    # Producers, in turn, wait for an empty stage while the consumers work.
    [ "$(awk '$1 == 4 && $4 == 0 && $2 > 300' <<<"$rows" | wc -l)" -ge 1 ]
}

@test "a picture is drawn" {
    command -v gnuplot >/dev/null || skip "no gnuplot"
    make -s build/series
    run build/ptxsim/ptxsim profile --timeline --steps 0:2000 --svg "$BATS_TEST_TMPDIR/t.svg" "${small[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '</svg>' "$BATS_TEST_TMPDIR/t.svg"
}

@test "what is no report is refused in one line" {
    echo '{"kernels":' >"$BATS_TEST_TMPDIR/broken.json"
    echo '{}' >"$BATS_TEST_TMPDIR/other.json"
    for file in broken other missing; do
        run build/ptxsim/ptxsim profile "$BATS_TEST_TMPDIR/$file.json"
        echo "$output"
        [ "$status" -eq 3 ]
        [ "${#lines[@]}" -eq 1 ]
    done
    run build/ptxsim/ptxsim profile
    [ "$status" -eq 2 ]
    run build/ptxsim/ptxsim profile build/no-such-program
    [ "$status" -eq 3 ]
}

@test "a trace leaves the counts as they are, and a bad CTA is named" {
    export LD_LIBRARY_PATH=$PWD/build/ptxsim
    PTXSIM_REPORT=$BATS_TEST_TMPDIR/a.json "${small[@]}"
    PTXSIM_REPORT=$BATS_TEST_TMPDIR/b.json PTXSIM_TRACE=$BATS_TEST_TMPDIR/t.json@1,2,0 "${small[@]}"
    cmp "$BATS_TEST_TMPDIR/a.json" "$BATS_TEST_TMPDIR/b.json"
    grep -q '"block":\[1,2,0\]' "$BATS_TEST_TMPDIR/t.json"
    PTXSIM_TRACE=$BATS_TEST_TMPDIR/u.json@1,2 run "${small[@]}"
    [ "$status" -eq 0 ]
    grep -qF 'ptxsim: PTXSIM_TRACE: "@1,2" is no CTA: @x,y,z' <<<"$output"
    [ ! -e "$BATS_TEST_TMPDIR/u.json" ]
}
