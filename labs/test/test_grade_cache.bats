# The grader for a lab whose kernels read a cache: what it draws, compares and reports.

bats_require_minimum_version 1.5.0

setup_file() {
    export GRADE_SECRET=tests-of-the-grader
    export lab_file=$PWD/labs/fixtures/lab21.json
    export CHEATS=$BATS_FILE_TMPDIR/cheats
    mkdir "$CHEATS"
    for file in labs/fixtures/cheats/cache-*.cu; do # a submission is one file
        awk '/^#include "caches.h"$/ { while ((getline l <"labs/fixtures/cheats/caches.h") > 0) print l; next } 1' \
            "$file" >"$CHEATS/${file##*/cache-}"
    done
    if ! bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
        export NO_BOX=1
        return
    fi
    export OWN=$BATS_FILE_TMPDIR/own # the book's own program, graded by the lab's own sheet
    labs/grade --lab 21 --no-gpu --json "$OWN.json" --film "$OWN.html" code/ch21_decode.cu >"$OWN"
}

setup() {
    [ -z "${NO_BOX:-}" ] || [[ $BATS_TEST_DESCRIPTION == *"written down"* ]] ||
        skip "bubblewrap may not make a sandbox here"
}

grade() { run labs/grade --lab 21 --lab-file "$lab_file" --no-gpu "$@"; }

one_line() { tr -s ' \n' ' ' <<<"$output"; }

# without NAME...: the fixture's sheet without these items, whose points go to `correct`.
without() {
    python3 - "$lab_file" "$BATS_TEST_TMPDIR/lab.json" "$@" <<'END'
import json, sys
lab = json.load(open(sys.argv[1]))
lab["points"] = [p for p in lab["points"] if p["name"] not in sys.argv[3:]]
lab["points"][0]["points"] += 100 - sum(p["points"] for p in lab["points"])
json.dump(lab, open(sys.argv[2], "w"))
END
    lab_file=$BATS_TEST_TMPDIR/lab.json
}

@test "the book's own program earns every point, and the program before it none" {
    output=$(<"$OWN")
    echo "$output"
    [[ $output == *"correct "*" 20 / 20   ok"*"hidden "*" 15 / 15   ok"*"ctas >= 8 @ 1x2x1024q4p16, from 2 "*" 30 / 30   ok"* ]]
    [[ $output == *"points "*" 85 / 85"*"Full marks: all that can be had here before somebody reads the answers (15)."* ]]
    [ -z "$(awk 'length > 80' <<<"$output")" ]
    [ ! -e "$OWN.html" ] # no film: nothing is wrong
    run labs/grade --lab 21 --no-gpu code/ch21_unsplit.cu
    [ "$status" -eq 0 ]
    [[ $output == *"11 of 11 right"*"11 of 11 right"*"4 of 4 right"*" 0 / 30   FAIL"*"points "*" 0 / 85" ]]
}

@test "the order in which a cache is to be filled is recorded beside the launches" {
    PTXSIM_LAUNCHES=3 LD_LIBRARY_PATH=build/ptxsim build/ch21_decode --launch-only \
        --shapes 1x2x1024q4p16,2x8x33q12p256r1 3>"$BATS_TEST_TMPDIR/lines" >"$BATS_TEST_TMPDIR/said"
    mapfile -t lines <"$BATS_TEST_TMPDIR/lines"
    [ "${#lines[@]}" -eq 2 ]
    # Several CTAs for each of 2 heads, one for each of 16 heads; the only parameter is a cache_args
    # of 136 bytes.
    [[ ${lines[0]} =~ ^launch\ [a-zA-Z0-9_]*attention[a-zA-Z0-9_]*\ [248]\ 2\ 1\ [0-9]+\ 1\ 1\ [0-9]+\ 0\ [0-9a-f]{272}$ ]]
    [[ ${lines[1]} == *" 1 8 2 "* ]]
    python3 - "$BATS_TEST_TMPDIR/said" <<'END'
import sys
def numbers(digits):
    return [int(digits[i:i + 4], 16) for i in range(0, len(digits), 4)]
scratches = []
for line, page in zip(open(sys.argv[1]), (16, 256)):
    head, scratch, codes, scales = line.split()
    scratches.append(int(scratch))
    assert head == "cache"
    codes, scales = numbers(codes), numbers(scales)
    assert sorted(codes) == list(range(2 * page * 64)) and sorted(scales) == list(range(2 * page))
    assert codes[:1024] == list(range(1024)) # the first 16 tokens of K, one after the other
    assert scales[:8] == [0, 1, 2, 3, 8, 9, 10, 11] # four scales of K, then four of V
assert scratches[0] > 0 and scratches[1] == 0, scratches # scratch memory only where keys are divided
END
}

# cache-page-zero and cache-leaves-scratch are graded below, where reports are tested.
@test "submissions that cheat with a cache, and their honest twins, are graded as their texts say" {
    run labs/tools/check-grader --quick cache-honest cache-last-output cache-without-the-newest \
        cache-of-zeros cache-guesses-the-order cache-own-order cache-writes-the-table
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"7 submissions are graded as they say" ]]
}

@test "cheats that only caches drawn by the grader find" {
    run labs/tools/check-grader --small cache-ends-at-nan cache-opens-no-page cache-pages-of-the-lab
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"3 submissions are graded as they say" ]]
}

@test "every submission gets the caches that the sheet promises, each submission others" {
    (cat code/ch21_decode.cu && echo "// another") >"$BATS_TEST_TMPDIR/another.cu"
    labs/grade --lab 21 --no-gpu --json "$BATS_TEST_TMPDIR/r.json" "$BATS_TEST_TMPDIR/another.cu"
    python3 - "$OWN.json" "$BATS_TEST_TMPDIR/r.json" <<'END'
import json, re, sys
drawn = []
for path in sys.argv[1:]:
    cases = json.load(open(path))["cases"]
    hidden = [c for c in cases if c["item"] == "hidden"]
    assert all(c["pass"] for c in cases), path
    shapes = [re.fullmatch(r"(\d+)x(\d+)x(\d+)q(\d+)p(\d+)(?:r(\d+))?", c["shape"]).groups("0") for c in hidden]
    shapes = [tuple(map(int, s)) for s in shapes] # batch, heads, tokens, queries, page, seed of the lengths
    plain = [s for s in shapes if not s[5]]
    assert 1 in {s[2] for s in plain}, shapes # the newest token is the only one
    assert any(s[2] > 1 and s[2] % s[4] == 1 for s in plain), shapes # the first of its page
    assert any(s[2] % s[4] > 1 for s in plain), shapes # in the middle of its page
    assert any(s[2] % s[4] == 0 for s in plain), shapes # the last of its page
    assert len(shapes) - len(plain) == 3, shapes
    assert any(s[3] > 8 for s in shapes) and any(s[3] == 1 for s in shapes), shapes
    assert {16, 32, 256} <= {s[4] for s in shapes}, shapes
    assert max(s[2] for s in shapes) > 8192 and any(s[0] * s[1] > 58 for s in shapes), shapes
    assert len({c["scale"] for c in hidden}) > 5 and len({c["schedule"] for c in hidden}) > 5
    assert {c["input"] for c in hidden} == {"normal", "mean", "peaky", "rising", "flat"}
    drawn.append({(c["shape"], c["scale"], c["seed"]) for c in cases if c["item"] != "races"})
assert not drawn[0] & drawn[1]
END
}

@test "a cache left with wrong bytes is reported: the missing, the changed, and a line that repeats the run" {
    without hidden races
    grade "$CHEATS/page-zero.cu"
    echo "$output"
    [ "$status" -eq 0 ]
    said=$(one_line)
    [[ $said == *"normal inputs: the new token is not in its place in the cache, and other bytes of it have changed"* ]]
    # Two heads of one sequence, 130 bytes each: all of them are written elsewhere.
    [[ $said =~ "260 of 260 bytes of new tokens are not in their places, "[1-9][0-9]+" other bytes of the cache have changed" ]]
    [[ $said =~ "again: ./lab21 FILE --shapes 1x2x300q12p16 --inputs normal --seeds "[0-9]+ ]]
    [ -z "$(awk 'length > 80' <<<"$output")" ]
    grade "$CHEATS/tidies-up.cu"
    said=$(one_line)
    [[ $said == *"bytes of the cache have changed that are not the new token's"* ]]
    [[ $said == *" 0 of 260 bytes of new tokens are not in their places, 8 other bytes of the cache have changed"* ]]
    # A seed has 64 bits; the lab accepts the reported line.
    read -ra again < <(one_line | grep -o -- '--shapes [^ ]* --inputs [^ ]* --seeds 1[0-9]\{19\}')
    [ "${#again[@]}" -eq 6 ]
    NO_COLOR=1 run labs/lab21 "$CHEATS/tidies-up.cu" --on simulator "${again[@]}"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $(one_line) == *"correct, 20 points: bytes of the cache have changed that are not the new token's"* ]]
    grade "$CHEATS/leaves-scratch.cu"
    [[ $(one_line) == *"launch 2 of "*": the new token is not in its place in the cache again:"* ]]
}

@test "an invalid order, too much scratch memory, and a kernel with another parameter are refused by name" {
    mkdir "$BATS_TEST_TMPDIR/some"
    cp "$CHEATS"/{same-place,much-scratch}.cu "$BATS_TEST_TMPDIR/some"
    sed 's/, scale_place_of, NULL/, same, NULL/; s/^PROGRAM/static int same(enum cache_tensor, int) { return 1; }\n&/' \
        "$CHEATS/honest.cu" >"$BATS_TEST_TMPDIR/some/scales.cu"
    sed 's/(const __grid_constant__ cache_args a)/(int, const __grid_constant__ cache_args a)/; s/(\*a); /(0, *a);/' \
        "$CHEATS/honest.cu" >"$BATS_TEST_TMPDIR/some/parameter.cu"
    cp code/ch04_cp_async.cu "$BATS_TEST_TMPDIR/some/no-cache.cu"
    without hidden races
    grade --out "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/some"
    [ "$status" -eq 0 ]
    cat "$BATS_TEST_TMPDIR/out/grades.csv"
    while read -r name why; do
        grep -q "^\"$name.cu\",0,.*,refused,\"$why\"" "$BATS_TEST_TMPDIR/out/grades.csv"
    done <<'END'
same-place its code_place() does not have each place of a page once
scales its scale_place() does not have each place of a page once
much-scratch wants more than 64 MB of scratch memory
parameter does not hand on the cache_args that it is given, as its first parameter
no-cache its host code launches no kernel
END
}

@test "a race in a cache's kernel has its film, at a public cache" {
    without hidden
    page=$BATS_TEST_TMPDIR/race.html
    grade --film "$page" "$CHEATS/page-zero.cu" # one head writes its token where others still read theirs
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(one_line) == *" At 1x1x96q4p16: "*" Watch it: race.html, or ./lab21 FILE --film film.html points"* ]]
    [ "$(stat -c %s "$page")" -lt 2200000 ]
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" source | grep -c cache_args)" -gt 0 ]
    # The command that the report names.
    NO_COLOR=1 run labs/lab21 "$CHEATS/page-zero.cu" --film "$BATS_TEST_TMPDIR/again.html"
    [ "$status" -eq 0 ]
    [ -s "$BATS_TEST_TMPDIR/again.html" ]
}

@test "a sheet of caches that cannot be is refused in one line" {
    change() { # PYTHON
        python3 -c "import json, sys
lab = json.load(open(sys.argv[1]))
$1
json.dump(lab, open(sys.argv[2], 'w'))" "$PWD/labs/fixtures/lab21.json" "$BATS_TEST_TMPDIR/odd.json"
        lab_file=$BATS_TEST_TMPDIR/odd.json grade "$CHEATS/honest.cu"
        echo "$output"
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
    }
    change 'lab["shapes"] = ["small", "1x2x33q1p16"]'
    [[ $output == *': "shapes": some are caches, and some are not' ]]
    change 'lab["shapes"] = ["1x2x33q1p15"]'
    [[ $output == *': "shapes": "1x2x33q1p15" is no cache: write BxHxSqQpP'* ]]
    change 'lab["longest"] = 1024'
    [[ $output == *': "longest" is not for labs of caches' ]]
    change 'lab["shapes"] = []'
    [[ $output == *': "shapes" are not 1 to 4' ]]
    change 'lab["points"][1].update(name="speed", relation=">=", limit=0.5, full=1.0, shape="1x2x33q1p16")'
    [[ $output == *"lab 21: speed is no item of a cache, which is not timed" ]]
}
