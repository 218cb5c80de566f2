# The grader: which submissions earn points, which it refuses, and what it keeps them from doing.

bats_require_minimum_version 1.5.0

setup_file() {
    export GRADE_SECRET=tests-of-the-grader
    export lab_file=$PWD/labs/fixtures/lab04.json
    export CHEATS=$BATS_FILE_TMPDIR/cheats
    mkdir "$CHEATS"
    for file in labs/fixtures/cheats/*.cu; do # a submission is one file
        awk '/^#include "kernels.h"$/ { while ((getline l <"labs/fixtures/cheats/kernels.h") > 0) print l; next } 1' \
            "$file" >"$CHEATS/${file##*/}"
    done
    if ! bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
        export NO_BOX=1
        return
    fi
    # The book's own program, graded once for the tests that look at its grade. Most other tests use
    # smaller sheets: long_file has no shape mission; small_file has no long cases, either; short_file
    # has no hidden cases, either, and gives their points to `correct`.
    export OWN=$BATS_FILE_TMPDIR/own long_file=$BATS_FILE_TMPDIR/long.json
    export small_file=$BATS_FILE_TMPDIR/small.json short_file=$BATS_FILE_TMPDIR/short.json
    labs/grade --lab 4 --lab-file "$lab_file" --no-gpu --json "$OWN.json" --gradescope "$OWN.results.json" \
        --film "$OWN.html" code/ch04_cp_async.cu >"$OWN"
    python3 - "$lab_file" "$long_file" "$small_file" "$short_file" <<'END'
import json, sys
lab = json.load(open(sys.argv[1]))
correct, = [p for p in lab["points"] if p["name"] == "correct"]
correct.update(shape="small")
json.dump(lab, open(sys.argv[2], "w"))
lab["longest"] = 512
json.dump(lab, open(sys.argv[3], "w"))
correct.update(points=50)
lab["points"] = [p for p in lab["points"] if p["name"] != "hidden"]
json.dump(lab, open(sys.argv[4], "w"))
END
}

setup() {
    [ -z "${NO_BOX:-}" ] || [[ $BATS_TEST_DESCRIPTION == *"without a sandbox"* ]] ||
        skip "bubblewrap may not make a sandbox here"
}

grade() { run labs/grade --lab 4 --lab-file "$lab_file" --no-gpu "$@"; }

# drawn_from FILE: the value of "drawn_from" in results whose inputs are drawn from the secret in FILE.
drawn_from() {
    # shellcheck disable=SC2016
    python3 - "$(perl -e 'print crypt($ARGV[0], q($y$jAT$AttentionInStages.....))' \
        "$(head -1 "$1" | tr -d '\n' | sha256sum | cut -d' ' -f1)")" <<'END'
import hashlib, sys
print(hashlib.sha256(hashlib.sha256(sys.argv[1].encode()).digest()).hexdigest()[:12])
END
}

small() { lab_file=$small_file; } # a smaller sheet for the rest of a test
short() { lab_file=$short_file; }

# points NAME: the submission's points in the last folder's gradebook.
points() { awk -F, -v name="\"$1\"" '$1 == name { print $2 }' "$BATS_FILE_TMPDIR/out/grades.csv"; }

@test "the book's own program earns every point that there is without a GPU" {
    output=$(<"$OWN")
    [[ $output == *"correct"*"30 / 30   ok"*"points"*"85 / 85"* ]]
    [[ $(xargs <<<"$output") == *"Full marks: all that can be had here without a GPU, which speed (10 points) needs, before somebody reads the answers (5)." ]]
    [ -z "$(awk 'length > 80' <<<"$output")" ]
    grep -q '"score": 85.0' "$OWN.json"
    [ "$(grep -c '"item": "races"' "$OWN.json")" -eq 4 ]
    grep -q "\"lab_hash\": \"$(sha256sum <"$lab_file" | cut -d' ' -f1)\"" "$OWN.json"
    [ ! -e "$OWN.html" ] # no film: nothing is wrong
    run -1 grep -qi film "$OWN" "$OWN.json" "$OWN.results.json"
}

@test "launches are recorded, and no kernel runs" {
    PTXSIM_LAUNCHES=3 LD_LIBRARY_PATH=build/ptxsim PTXSIM_REPORT=$BATS_TEST_TMPDIR/report.json \
        build/ch04_cp_async --launch-only --shapes small,2x1x33 3>"$BATS_TEST_TMPDIR/lines"
    mapfile -t lines <"$BATS_TEST_TMPDIR/lines"
    [ "${#lines[@]}" -eq 2 ]
    # 4 query tiles by 8 heads, 128 threads, no dynamic shared memory, not cooperative; 104 bytes of attention_args.
    [[ ${lines[0]} =~ ^launch\ [a-zA-Z0-9_]*attention[a-zA-Z0-9_]*\ 4\ 8\ 1\ 128\ 1\ 1\ 0\ 0\ [0-9a-f]{208}$ ]]
    [[ ${lines[1]} == *" 2 2 1 128 1 1 0 0 "* ]]
    run -1 grep -q warp_instructions "$BATS_TEST_TMPDIR/report.json"
}

# Documented at gradescope-autograders.readthedocs.io, "Autograder Specifications", "Output format".
@test "results.json holds what Gradescope documents, and nothing else" {
    python3 labs/fixtures/gradescope.py "$OWN.results.json"
    sed 's/"score": 30.0/"score": "30"/' "$OWN.results.json" >"$BATS_TEST_TMPDIR/bad.json"
    run python3 labs/fixtures/gradescope.py "$BATS_TEST_TMPDIR/bad.json"
    [ "$status" -ne 0 ] # shows that a check in gradescope.py can fail
}

# lost FILE [OPTION...]: names of the items that FILE does not pass, without items that were not judged.
lost() {
    grade "$@" --json "$BATS_TEST_TMPDIR/r.json"
    [ "$status" -eq 0 ]
    python3 -c 'import json, sys
print(*[i["name"] for i in json.load(open(sys.argv[1]))["items"]
        if not i["passed"] and not i["by_hand"] and not i["left_out"]])' "$BATS_TEST_TMPDIR/r.json"
}

# labs/fixtures/cheats: each file says how it must be graded. `make check-grader` grades them all. Here is one cheat of
# each kind, with a twin that does the same thing honestly: prints of kernels, places to write to, races between CTAs,
# idle copies, the sandbox's allowed system calls, odd objects, inputs, names of functions, counters of launches, video
# instructions, CTAs that do not fit, detours. Other cheats, such as those with shared memory, state between launches,
# races within a CTA and the date, have tests below.
@test "cheats, and their honest twins, are graded as their texts say" {
    run labs/tools/check-grader --quick prints-reply fills-memory fills-disk keeps-little \
        races-between-ctas meets-when-long lto-options overwrites-inputs \
        includes-devices long-name forks caches-output many-ctas alias-of-a-runtime-function \
        alias-of-its-own allocates-scratch managed-memory idle-copies copies-beside cache-empty-ctas \
        passes-constants video-beside waits-for-all-ctas powers-by-votes
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"24 submissions are graded as they say" ]]
}

# The compiler marks variables of a nameless namespace as it marks a library's. One of these
# variables, `tile`, has the name of a local variable of the lab's own program.
@test "state between launches is flagged" {
    short
    sed 's/\bfinished\b/tile/g' "$CHEATS/counts-ctas.cu" >"$BATS_TEST_TMPDIR/counts.cu"
    [ "$(lost "$BATS_TEST_TMPDIR/counts.cu")" = "" ]
    python3 -c 'import json, sys
flag, = [f for f in json.load(open(sys.argv[1]))["flags"] if f.startswith("state between launches: ")]
assert "tickets" in flag and "tile" in flag, flag' "$BATS_TEST_TMPDIR/r.json"
    # Four variables: one managed, one of a byte in a nameless namespace, one defined in assembly, one constant that is
    # written by its generic address.
    sed -e 's/^__global__ void direct/namespace { __device__ unsigned char once[1]; }\n__managed__ unsigned both;\n__constant__ unsigned fixed;\n&/' \
        -e '/void direct/,$ s/^        attend.*/&\n    if (row == fixed) {\n        ++once[0], ++both;\n        asm volatile(".global .u32 kept; red.global.add.u32 [kept], 1;\\n"\n            "{ .reg .u64 a; mov.u64 a, fixed; cvta.const.u64 a, a; red.add.u32 [a], 1; }");\n    }/' \
        "$CHEATS/inline-ptx.cu" >"$BATS_TEST_TMPDIR/kept.cu"
    lost "$BATS_TEST_TMPDIR/kept.cu"
    python3 -c 'import json, sys
flag, = [f for f in json.load(open(sys.argv[1]))["flags"] if f.startswith("state between launches: ")]
assert all(name in flag for name in ("once", "both", "kept", "fixed")), flag' "$BATS_TEST_TMPDIR/r.json"
}

@test "cheats that only hidden cases find, and an honest program that passes them" {
    run labs/tools/check-grader --small skips-rows
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"1 submissions are graded as they say" ]]
    run labs/tools/check-grader --short wrong-at-heads honest-control # wrong, and right, at any length
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"2 submissions are graded as they say" ]]
}

@test "grading a class that is killed and started again gives the same gradebook, and leaves nothing behind" {
    GRADE_SECRET=secret-of-a-class-$RANDOM$RANDOM run labs/tools/check-grader --class 8 includes-passwd prints-result floods-record sleeps
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "check-grader fails for a cheat that expects another grade, and for one that is missing" {
    mkdir -p "$BATS_TEST_TMPDIR/labs/tools" "$BATS_TEST_TMPDIR/labs/fixtures"
    cp labs/tools/check-grader "$BATS_TEST_TMPDIR/labs/tools"
    cp -r labs/fixtures/cheats "$lab_file" "$BATS_TEST_TMPDIR/labs/fixtures"
    ln -s "$PWD/build" "$PWD/code" "$BATS_TEST_TMPDIR"
    sed -i 's,^// Graded: .*,// Graded: loses nothing,' "$BATS_TEST_TMPDIR/labs/fixtures/cheats/incbin.cu"
    run "$BATS_TEST_TMPDIR/labs/tools/check-grader" incbin
    [ "$status" -eq 1 ]
    [[ $output == *'FAIL  incbin.cu is graded as "refused"; it should be: loses nothing'* ]]
    run "$BATS_TEST_TMPDIR/labs/tools/check-grader" no-such-cheat
    [ "$status" -ne 0 ]
    run "$BATS_TEST_TMPDIR/labs/tools/check-grader" --quick wrong-at-64
    [ "$status" -eq 1 ]
    [[ $output == *'FAIL  wrong-at-64.cu needs hidden cases: not with --quick'* ]]
}

@test "cheats are refused for their cheat, not for another mistake" {
    short
    mkdir "$BATS_TEST_TMPDIR/some"
    for name in prints-result floods-record host-computes copies-memory incbin includes-passwd shared-wraps sleeps; do
        cp "$CHEATS/$name.cu" "$BATS_TEST_TMPDIR/some"
    done
    grade --out "$BATS_FILE_TMPDIR/out" "$BATS_TEST_TMPDIR/some"
    echo "$output"
    [ "$status" -eq 0 ]
    gradebook=$(<"$BATS_FILE_TMPDIR/out/grades.csv")
    for line in '"sleeps.cu".*did not end within' '"prints-result.cu".*launches no kernel' \
                '"floods-record.cu".*writes without end' '"host-computes.cu".*does not hand on' \
                '"copies-memory.cu".*copies from the device' '"incbin.cu".*does not compile' \
                '"includes-passwd.cu".*does not compile' \
                '"shared-wraps.cu",0,.*more shared memory than a CTA can have'; do
        grep -q "$line" <<<"$gradebook"
    done
    [ "$(points sleeps.cu)" = 0 ]
    [ -s "$BATS_FILE_TMPDIR/out/summary.svg" ]
    [[ $output != *"no chart"* ]]
    [ "$(wc -l <"$BATS_FILE_TMPDIR/out/grades.tsv")" -eq 8 ]
}

@test "a submission inherits no file descriptor of the grader, such as the secret's" {
    echo a-secret-of-the-grader >"$BATS_TEST_TMPDIR/secret"
    run labs/grade --lab 4 --lab-file "$short_file" --no-gpu --secret /dev/fd/9 "$CHEATS/inherits-files.cu" \
        9<"$BATS_TEST_TMPDIR/secret"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"correct"*"FAIL"* ]]
}

@test "a kernel's prints are shown, bounded, and no part of the answer; source of any editor is accepted" {
    short
    # A byte order mark, Windows line ends, a comment in UTF-8 and one in Latin-1 are accepted as
    # text.
    { printf '\xef\xbb\xbf// größe\r\n' && sed 's/$/\r/' "$CHEATS/prints-points.cu" && printf '// caf\xe9\n'; } >"$BATS_TEST_TMPDIR/points.cu"
    grade "$BATS_TEST_TMPDIR/points.cu"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"What its kernels printed"*"CTA 0 has row 0 of 1024"*"CTA 15 has row 960 of 1024"*"85 / 85"* ]]
    [ "$(grep -c '850 / 850' <<<"$output")" -eq 1 ]
    grep -q '^      | .*points 850 / 850$' <<<"$output" # not on a line of the report's own
    [[ $output != *"CTA 16 has"* ]] # only the prints at `small` are shown
    grade "$CHEATS/prints-flood.cu"
    [ "$status" -eq 0 ]
    [[ $output == *" ..."*"85 / 85"* ]]
    [ "${#output}" -lt 6000 ]
    [ -z "$(awk 'length > 80' <<<"$output")" ]
}

@test "a file that is no text is refused, with the byte and line" {
    folder=$BATS_TEST_TMPDIR/bytes
    mkdir "$folder" "$folder/empty"
    starter=build/starters/ch04_cp_async.cu
    { printf '\0' && cat $starter; } >"$folder/nul.cu"
    { head -30 $starter && printf '/* \f */\n' && tail -n +31 $starter; } >"$folder/page.cu"
    { cat $starter && printf '// \33[2J\n'; } >"$folder/escape.cu"
    { cat $starter && printf '// \177'; } >"$folder/delete.cu"
    { printf '\xff\xfe' && iconv -t UTF-16LE $starter; } >"$folder/wide.cu"
    printf 'has no .cu file' >"$folder/words.cu" # text like the grader's line about a folder, but in a file
    cp $starter "$BATS_TEST_TMPDIR/mine.cu"
    ln "$BATS_TEST_TMPDIR/mine.cu" "$folder/linked.cu"
    local end
    end=$(($(wc -l <$starter) + 1))
    grade --out "$BATS_TEST_TMPDIR/out" "$folder"
    [ "$status" -eq 0 ]
    rest='; of control characters a program has tabs and ends of lines only'
    says() { grep -q "^\"$1\",0,.*,$2,\"$3" "$BATS_TEST_TMPDIR/out/grades.csv"; }
    cat "$BATS_TEST_TMPDIR/out/grades.csv"
    says nul.cu "not graded" "has the byte 0x00 (NUL) in line 1: delete it$rest"
    says page.cu "not graded" "has the byte 0x0c (a form feed) in line 31: delete it$rest"
    says escape.cu "not graded" "has the byte 0x1b (an escape) in line $end: delete it$rest"
    says delete.cu "not graded" "has the byte 0x7f (delete) in line $end: delete it$rest"
    says wide.cu "not graded" "is a text in UTF-16: save it as UTF-8"
    says linked.cu "not graded" "has 2 names (hard links), so it could be somebody else's: make it a file of its own (cp"
    says empty "not graded" "has no .cu file"
    says words.cu "does not compile" ""
}

@test "a starter whose text lies in a macro is a starter; the compiler cannot include files of the host" {
    aims_from 0
    python3 - "$lab_file" "$BATS_TEST_TMPDIR/lab.json" <<'END' # fewer cases: takes seconds
import json, sys
lab = json.load(open(sys.argv[1]))
lab["points"] = [dict(p, points=p["points"] + 30 * (p["name"] == "correct")) for p in lab["points"]
                 if p["name"] in ("correct", "async_copies")]
json.dump(lab, open(sys.argv[2], "w"))
END
    lab_file=$BATS_TEST_TMPDIR/lab.json
    sed '/^#/d; s,//.*,,' build/starters/ch04_cp_async.cu | awk '/^__global__/ { on = 1 } on' |
        sed 's,/\*[^*]*\*/,,; s/$/ \\/' >"$BATS_TEST_TMPDIR/kernel"
    { sed '/^__global__/,$d' build/starters/ch04_cp_async.cu && echo "#define ALL \\" && cat "$BATS_TEST_TMPDIR/kernel" &&
        printf '\nALL\n'; } | sed 's,// Your code.*,,' >"$BATS_TEST_TMPDIR/hidden.cu"
    grade "$BATS_TEST_TMPDIR/hidden.cu" --no-film --json "$BATS_TEST_TMPDIR/r.json"
    echo "$output"
    grep -q '"tried": false' "$BATS_TEST_TMPDIR/r.json"
    grade "$CHEATS/includes-proc.cu"
    [[ $output == *"REFUSED: does not compile"* ]]
    [[ $(tr -s ' |\n' ' ' <<<"$output") == *" /proc/self/mountinfo: No such file or directory "* ]]
}

# faulty CONDITION: a program that reads far past the end where the condition holds.
faulty() {
    sed "s/if (row < rows_of(args))$/if ($1)\n        ((volatile char *)args.out)[1l << 40];\n    &/" \
        "$CHEATS/inline-ptx.cu" >"$BATS_TEST_TMPDIR/faulty.cu"
    run -1 cmp -s "$CHEATS/inline-ptx.cu" "$BATS_TEST_TMPDIR/faulty.cu"
    grade "$BATS_TEST_TMPDIR/faulty.cu" --json "$BATS_TEST_TMPDIR/r.json"
    [ "$status" -eq 0 ]
}

@test "a fault in a hidden case is reported with its place in the source, but without an address" {
    small
    # The program is faulty in exactly one of the hidden cases, whatever is drawn.
    faulty 'args.shape.seq_len < 16 \&\& args.shape.heads < 4 \&\& args.shape.batch < 4'
    echo "$output"
    [[ $output == *"correct"*"ok"*"hidden"*"17 of 18 right; an access out of bounds, attention.cu:"* ]]
    [[ $output != *"0x"* && $output != *"block ("* && $output != *"thread ("* ]]
    run -1 grep -q '"why": .*0x' "$BATS_TEST_TMPDIR/r.json"
    short
    faulty 'args.shape.seq_len == 128 \&\& row == 0' # in a public case the report says everything
    grep -q 'block (0,0,0), thread (0,0,0): reads 1 bytes at 0x' "$BATS_TEST_TMPDIR/r.json"
}

@test "a #line changes the line number that is reported, but puts no text into a report" {
    short
    sed 's/seq_len < 16/seq_len == 128/; s,/etc/the-secret,90 of 90 points: full marks,' "$CHEATS/passes-by-lines.cu" \
        >"$BATS_TEST_TMPDIR/praises.cu"
    grade "$BATS_TEST_TMPDIR/praises.cu" --no-film --json "$BATS_TEST_TMPDIR/r.json"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"attention.cu:1001"* && $output != *"full marks"* ]]
    run -1 grep 'full marks' "$BATS_TEST_TMPDIR/r.json"
}

@test "an endless loop is stopped by a budget of instructions, and reported with its place" {
    short
    sed 's/seq_len == 128/heads == 2/' "$CHEATS/never-ends.cu" >"$BATS_TEST_TMPDIR/loops.cu"
    run -1 cmp -s "$CHEATS/never-ends.cu" "$BATS_TEST_TMPDIR/loops.cu"
    grade "$BATS_TEST_TMPDIR/loops.cu" --json "$BATS_TEST_TMPDIR/r.json"
    [ "$status" -eq 0 ]
    [[ $output == *"correct"*"ok"*"races"*"2 of 4 right; stopped: a loop that does not end, attention.cu:"* ]]
    [[ $output != *"block ("* && $output != *"PTXSIM"* ]]
}

@test "copies are counted by their bytes: empty groups do not count" {
    sed 's/"barriers", "relation": "<=", "limit": 2000/"async_bytes", "relation": ">=", "limit": 524288/' \
        "$short_file" >"$BATS_TEST_TMPDIR/lab.json"
    lab_file=$BATS_TEST_TMPDIR/lab.json
    [ "$(lost code/ch04_cp_async.cu)" = "" ] # bytes: 8 heads x 4 query tiles x (K and V) x 128 keys x 64
    grep -q '"said": "524288"' "$BATS_TEST_TMPDIR/r.json"
    [ "$(lost "$CHEATS/empty-commits.cu")" = "async_bytes" ]
}

@test "every submission gets the cases that the sheet promises, each submission others" {
    lab_file=$long_file
    (cat code/ch04_cp_async.cu && echo "// another") >"$BATS_TEST_TMPDIR/another.cu"
    grade "$BATS_TEST_TMPDIR/another.cu" --json "$BATS_TEST_TMPDIR/r.json"
    [ "$status" -eq 0 ]
    python3 - "$OWN.json" "$BATS_TEST_TMPDIR/r.json" <<'END'
import json, sys
drawn = []
for path in sys.argv[1:]:
    hidden = [c for c in json.load(open(path))["cases"] if c["item"] == "hidden"]
    shapes = [tuple(map(int, c["shape"].split("x"))) for c in hidden]
    assert all(c["pass"] for c in hidden), path
    keys = [s for b, h, s in shapes]
    assert 64 in keys and 256 in keys and max(keys) > 2304 and min(keys) < 16, keys
    assert sum(s > 512 and s % 64 != 0 for s in keys) >= 1, keys
    assert any(s % 64 == 0 and 512 < s <= 1024 and b == h == 2 for b, h, s in shapes), shapes
    assert any(h > 256 for b, h, s in shapes) and any(16 < h <= 256 for b, h, s in shapes), shapes
    assert any(3 < b < 13 for b, h, s in shapes), shapes
    scales = [c["scale"] for c in hidden]
    usual = [s for s in scales if 0.0395 < s < 0.2005] # not those of the cases low, high and flat
    assert len(usual) == len(scales) - 3 and len(set(usual)) > 5, scales
    low, high = [[s for c, s in zip(hidden, scales) if c["input"] == "normal" and a < s < b] for a, b in ((0, 0.031), (0.249, 0.401))]
    assert len(low) == len(high) == 1, scales
    assert any(b > 16 and s <= 40 for b, h, s in shapes), shapes
    assert any(h > 64 and 128 <= s <= 160 for b, h, s in shapes), shapes
    assert len({c["schedule"] for c in hidden}) > 5
    drawn.append([(c["shape"], c["scale"], c["seed"]) for c in hidden])
assert not set(drawn[0]) & set(drawn[1])
assert [s.split("x")[2] for s, _, _ in drawn[0]] != [s.split("x")[2] for s, _, _ in drawn[1]]
END
}

# child PID [NOT]: the process, other than NOT, that grades a submission for the judge PID, once it
# has a box.
child() {
    local found=
    until found=$(pgrep -P "$1" -x judge) && [ "$found" != "${2-}" ] && pgrep -P "$found" -x bwrap >/dev/null; do
        kill -0 "$1" || return
        sleep 0.1
    done
    echo "$found"
}

@test "a grading process that is killed is tried once more, and the class goes on" {
    short
    folder=$BATS_TEST_TMPDIR/class
    out=$BATS_TEST_TMPDIR/out
    mkdir "$folder"
    cp "$CHEATS/sleeps.cu" "$folder/a.cu"
    echo "int main(void) { return 0 }" >"$folder/b.cu"
    secret=$BATS_TEST_TMPDIR/secret
    echo "secret-of-a-test-$RANDOM$RANDOM" >"$secret" # a new secret: nothing is kept for it
    all=(--lab 4 --lab-file "$lab_file" --no-gpu --secret "$secret" --out "$out" --jobs 1 "$folder")
    build/judge "${all[@]}" >"$BATS_TEST_TMPDIR/said" &
    pid=$!
    first=$(child $pid)
    kill -9 "$first"
    second=$(child $pid "$first")
    box=$(pgrep -P "$second" -x bwrap)
    kill -9 "$second"
    wait $pid
    cat "$BATS_TEST_TMPDIR/said"
    grep -q 'a.cu: its grading was stopped from outside (Killed); once more' "$BATS_TEST_TMPDIR/said"
    grep -q '^"a.cu",0,.*could not be graded: this was stopped from outside twice' "$out/grades.csv"
    grep -q '^"b.cu",0,.*does not compile' "$out/grades.csv"
    [[ $(sed -n 's/^State:.//p' "/proc/$box/status" 2>/dev/null) =~ ^(Z|$) ]] # the box ended with the process
    # The result of a process stopped from outside is not kept: the next run grades the submission again.
    labs/grade "${all[@]}"
    grep -q '^"a.cu",0,.*did not end within' "$out/grades.csv"
}

@test "invisible characters, and those that reverse a line's direction, are written as escapes" {
    mkdir "$BATS_TEST_TMPDIR/class"
    echo 'int main(void) { return 0 }' >"$BATS_TEST_TMPDIR/class/"$'uc.\u202etxt\u200b.cu'
    grade --out "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/class"
    [ "$status" -eq 0 ]
    grep -qF '"uc.\u202etxt\u200b.cu",0,' "$BATS_TEST_TMPDIR/out/grades.csv"
    [[ $output != *$'\u202e'* ]]
    printf '#error "\u2066 \u00fc \U000e0041"\n' >"$BATS_TEST_TMPDIR/error.cu"
    grade "$BATS_TEST_TMPDIR/error.cu"
    [[ $output == *'\u2066 ü \U000e0041'* ]] # foreign letters stay
}

@test "a planted race loses the points for races and no others, though its numbers are right" {
    short
    # Four warps write one word, on which nothing depends.
    sed -e 's/^    __shared__ tiles t;/&\n    __shared__ int last;\n    last = threadIdx.x \/ 32;/' \
        -e 's/^        score(t, warp);/        if (last > 99) return;\n&/' code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/race.cu"
    run -1 cmp -s code/ch04_cp_async.cu "$BATS_TEST_TMPDIR/race.cu"
    page=$BATS_TEST_TMPDIR/race.html
    [ "$(lost "$BATS_TEST_TMPDIR/race.cu" --film "$page" --gradescope "$BATS_TEST_TMPDIR/g.json")" = "races" ]
    # The race has a film, at a public shape, which opens at the race and shows the submission's own
    # lines.
    line=$(grep -n '^    last = ' "$BATS_TEST_TMPDIR/race.cu" | cut -d: -f1)
    run python3 code/ptxsim/test/read_film.py faults "$page"
    [[ ${lines[0]} == *"use the same place at line attention.cu:$line: "*"only decide who is last"* ]]
    [ "$(python3 code/ptxsim/test/read_film.py said "$page" grid)" = "[3, 1, 1]" ]
    [ "$(stat -c %s "$page")" -lt 1000000 ]
    grep -qF '<title>lab4: attention: a film</title>' "$page"
    grep -qF "content=\"default-src 'none'; script-src" "$page" # nothing gets out
    [ "$(python3 -c 'import json, sys; print(sorted(json.load(open(sys.argv[1]))["film"]))' "$BATS_TEST_TMPDIR/r.json")" = "['file', 'sentence', 'shape']" ]
    grep -q 'At 1x1x96: .*Watch it: ./lab4 FILE --film film.html' "$BATS_TEST_TMPDIR/g.json"
    python3 labs/fixtures/gradescope.py "$BATS_TEST_TMPDIR/g.json"
}

@test "a film shows public inputs, contains no file of the grader, and is bounded" {
    short
    # At the judged shapes the program reads out of bounds at once; at the filmed shape it prints in
    # an endless loop.
    faulty='args.shape.seq_len != 96'
    sed "s/if (row < rows_of(args))$/if ($faulty)\n        ((volatile char *)args.out)[1l << 40];\n    else\n        for (unsigned i = 1; i; i = 1664525 * i | 1)\n            printf(\"%u\", i);\n    &/
        s,^__global__ void.*,// </script><b>\n#line 1 \"/etc/passwd\"\n&," "$CHEATS/inline-ptx.cu" >"$BATS_TEST_TMPDIR/loop.cu"
    page=$BATS_TEST_TMPDIR/loop.html
    grade "$BATS_TEST_TMPDIR/loop.cu" --film "$page"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"At 1x1x96: "*"Watch it: loop.html, or ./lab4 FILE --film film.html"* ]]
    [ -z "$(awk 'length > 80' <<<"$output")" ]
    [ "$(stat -c %s "$page")" -lt 2200000 ]
    [[ $output == *"the loop"*"has not ended after 4000000 warp instructions"* && $output != *PTXSIM* ]]
    run -1 grep -q '</script><b>\|root:' "$page"
    python3 code/ptxsim/test/read_film.py said "$page" source >"$BATS_TEST_TMPDIR/source"
    run -1 grep root: "$BATS_TEST_TMPDIR/source"
}

@test "a folder's reports have their films beside them, unless none are wanted" {
    folder=$BATS_TEST_TMPDIR/class
    out=$BATS_TEST_TMPDIR/out
    mkdir "$folder"
    sed 's/seq_len > 420/seq_len > 0/' "$CHEATS/races-when-long.cu" >"$folder/a.cu"
    cp "$CHEATS/inline-ptx.cu" "$folder/b.cu"
    python3 - "$small_file" "$BATS_TEST_TMPDIR/lab.json" <<'END'
import json, sys
lab = json.load(open(sys.argv[1]))
lab["points"] = [dict(p, points=50) for p in lab["points"] if p["name"] in ("correct", "races")]
json.dump(lab, open(sys.argv[2], "w"))
END
    class() { # OPTION...
        labs/grade --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" --no-gpu --out "$out" "$@" "$folder"
    }
    class --fresh
    page=$(echo "$out"/reports/001-*.html)
    [ "$(find "$out" -name '*.html')" = "$page" ]
    grep -q "Watch it: ${page##*/}, or" "$out"/reports/001-*.txt
    run -1 grep -q "Watch it" "$out"/reports/002-*.txt
    sum=$(cksum <"$page")
    rm "$page"
    class # writes the page again, from what was kept
    [ "$(cksum <"$page")" = "$sum" ]
    cp "$out/grades.csv" "$BATS_TEST_TMPDIR/with.csv"
    out=$out.without
    class --no-film
    [ "$(find "$out" -name '*.html' | wc -l)" -eq 0 ]
    run -1 grep -q "Watch it" "$out"/reports/*.txt
    cut -d, -f1-5 "$out/grades.csv" | diff - <(cut -d, -f1-5 "$BATS_TEST_TMPDIR/with.csv") # a film costs nothing
    # If no page can be made, the report says "Film: failed.", and the grade stays the same.
    root=$BATS_TEST_TMPDIR/root
    mkdir -p "$root/build/ptxsim"
    ln -s "$PWD"/{code,plots,chapters} "$root"
    ln -s "$PWD"/build/{runner,clock.so,cuda,labs,starters,*.a} "$root/build"
    ln -s "$PWD"/build/ptxsim/lib* "$root/build/ptxsim"
    cp build/judge "$root/build"
    printf '#!/bin/sh\nexit 1\n' >"$root/build/ptxsim/ptxsim"
    chmod +x "$root/build/ptxsim/ptxsim"
    run "$root/build/judge" --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" --no-gpu --film "$page" "$folder/a.cu"
    [ "$status" -eq 0 ]
    [[ $output == *$'\n  Film: failed.\n'*" 50 / 100"* && $output != *"Watch it"* ]]
}

@test "a submission that is wrong on ragged sizes only loses hidden cases, and a race case of such a size" {
    small
    sed 's/if (lane >= keys_left)/if (false)/' code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/ragged.cu"
    run -1 cmp -s code/ch04_cp_async.cu "$BATS_TEST_TMPDIR/ragged.cu"
    [ "$(lost "$BATS_TEST_TMPDIR/ragged.cu")" = "hidden races" ]
    # Each case that is right is paid: so `hidden` and `races` are paid in part, other items in full.
    python3 - "$BATS_TEST_TMPDIR/r.json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
cases = [c["pass"] for c in result["cases"] if c["item"] == "hidden"]
assert 0 < sum(cases) < len(cases), cases
keys = [int(c["shape"].split("x")[2]) for c in result["cases"] if c["shape"] != "small"]
assert len(cases) == 18 and max(keys) == 512, keys # 512: the longest case of this sheet
earned = {i["name"]: i["points"] for i in result["items"]}
assert earned["hidden"] == round(20 * sum(cases) / len(cases), 1), earned
races = [c["pass"] for c in result["cases"] if c["item"] == "races"]
assert len(races) == 4 and 0 < sum(races) < 4, races
assert earned["races"] == round(15 * sum(races) / len(races), 1), earned
assert abs(result["score"] - (85 - 35 + earned["hidden"] + earned["races"])) < 1e-6, result["score"]
END
}

@test "too many barriers lose the points for them: the count is the simulator's, and exact" {
    sed 's/^        score(t, warp);/        __syncthreads();\n&/' code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/more.cu"
    # 1536: the count of the book's program
    sed 's/"limit": 2000/"limit": 1536/' "$short_file" >"$BATS_TEST_TMPDIR/lab.json"
    lab_file=$BATS_TEST_TMPDIR/lab.json
    [ "$(lost code/ch04_cp_async.cu)" = "" ]
    [ "$(lost "$BATS_TEST_TMPDIR/more.cu")" = "barriers" ]
}

@test "a kernel that is wrong everywhere earns no points for resources; the report says where it is wrong" {
    short
    sed 's/new_max = fmaxf(old_max, warp_max(s))/new_max = 0/' code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/wrong.cu"
    run -1 cmp -s code/ch04_cp_async.cu "$BATS_TEST_TMPDIR/wrong.cu"
    sed -i 's/float norm = v_scale/float norm = 1.01f * v_scale/' "$BATS_TEST_TMPDIR/wrong.cu"
    grade "$BATS_TEST_TMPDIR/wrong.cu"
    [ "$status" -eq 0 ]
    [[ $output == *"withheld"*" 0 / 85"* ]]
    said=$(xargs <<<"$output")
    [[ $said == *"0 of 5 right: small, normal inputs: relative error"* ]]
    [[ $said =~ [1-9][0-9]+" of 65536 elements are off, in 1024 of 1024 rows; most of all batch 0, head "[0-7]", row "[0-9]+", column "[0-9]+": " ]]
    [[ $said =~ "again: ./lab4 FILE --shapes small --inputs normal --seeds "[0-9]+" " ]]
    [[ $said == *"No case of \`correct\` is right: nothing else is paid yet."* ]]
    [[ $said != *"Watch it"* && $said != *"Film"* ]] # neither a race nor a fault: wrong numbers have no film
    [ -z "$(awk 'length > 80' <<<"$output")" ]
}

# aims_from FROM: uses the small sheet with an aim: a count of asynchronous copies, which begins at
# FROM.
aims_from() {
    python3 - "$1" "$small_file" "$BATS_TEST_TMPDIR/aims.json" <<'END'
import json, sys
lab = json.load(open(sys.argv[2]))
lab["points"] = [p for p in lab["points"] if p["name"] in ("correct", "races", "registers", "written")]
for p, points in zip(lab["points"], (30, 20, 5, 5)):
    p["points"] = points
lab["points"].append({"name": "async_copies", "relation": ">=", "limit": 2176, "from": float(sys.argv[1]),
                      "shape": "small", "points": 40, "words": ""})
json.dump(lab, open(sys.argv[3], "w"))
END
    lab_file=$BATS_TEST_TMPDIR/aims.json
}

@test "the previous program earns nothing; the lab's own program with one wrong line earns no less" {
    aims_from 0
    grade code/ch03_wmma_qk.cu
    [ "$status" -eq 0 ]
    [[ $output =~ "correct "\ +"0 / 30   withheld" ]]
    [[ $output =~ "async_copies >= 2176 @ small, from 0 "\ +"0 / 40   FAIL" ]]
    [[ $output =~ "points "\ +"0 / 95" ]]
    [[ $(xargs <<<"$output") == *"The aim is reached to 0 %, and so much is paid of all else."* ]]
    # The copies that the aim counts are made, but one line is wrong, and so is every output.
    sed 's/float norm = v_scale/float norm = 1.5f * v_scale/' code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/wrong.cu"
    run -1 cmp -s code/ch04_cp_async.cu "$BATS_TEST_TMPDIR/wrong.cu"
    grade "$BATS_TEST_TMPDIR/wrong.cu"
    [[ $output =~ "async_copies >= 2176 @ small, from 0 "\ +"20 / 40   in part" ]]
    [[ $output =~ "registers <= 255 "\ +"0 / 5    withheld" ]]
    [[ $output =~ "races "\ +"0 / 20   FAIL" ]] # it has no races, but its numbers are wrong
    [[ $output =~ "points "\ +"20 / 95" ]]
}

@test "printf's stack frame is no spill, a local array that is read is one; a double gets a remark" {
    python3 - "$small_file" "$BATS_TEST_TMPDIR/lab.json" <<'END'
import json, sys
lab = json.load(open(sys.argv[1]))
lab["points"] = [dict(p, points=70) if p["name"] == "races" else dict(p, points=30, limit=0)
                 for p in lab["points"] if p["name"] in ("races", "spills")]
json.dump(lab, open(sys.argv[2], "w"))
END
    lab_file=$BATS_TEST_TMPDIR/lab.json # the kernels return at once: the test then takes seconds
    sed -e '1i #include <cstdio>' -e 's/^    __shared__ tiles t;/&\n    if (args.shape.seq_len > 99999) printf("%d %g\\n", threadIdx.x, 1.0);\n    if (args.shape.seq_len) return;/' \
        code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/prints.cu"
    run -1 cmp -s code/ch04_cp_async.cu "$BATS_TEST_TMPDIR/prints.cu"
    [[ " $(lost "$BATS_TEST_TMPDIR/prints.cu") " != *" spills "* ]]
    run -1 grep -q remark "$BATS_TEST_TMPDIR/r.json"
    sed -e '1i #include <cstdio>' -e 's/^    __shared__ tiles t;/&\n    volatile int kept[64];\n    kept[threadIdx.x % 64] = 1;\n    if (kept[threadIdx.x % 64] * 0.1 > 99999) printf("%d\\n", kept[1]);\n    if (args.shape.seq_len) return;/' \
        code/ch04_cp_async.cu >"$BATS_TEST_TMPDIR/array.cu"
    run -1 cmp -s code/ch04_cp_async.cu "$BATS_TEST_TMPDIR/array.cu"
    [[ " $(lost "$BATS_TEST_TMPDIR/array.cu") " == *" spills "* ]]
    grep -q '"remark": "It computes in double: [0-9]* warp instructions of a launch at [0-9a-z]*, ' "$BATS_TEST_TMPDIR/r.json"
}

@test "the compiler's message about a template keeps its line breaks" {
    cat >"$BATS_TEST_TMPDIR/template.cu" <<'END'
template <typename A, typename B, typename C> struct a_rather_long_name { static_assert(sizeof(A) == 99, "no"); };
template <typename T> void f() { a_rather_long_name<T, a_rather_long_name<T, T, T> *, a_rather_long_name<int, T, T> *> x; }
int main(void) { f<double>(); }
END
    grade "$BATS_TEST_TMPDIR/template.cu"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"REFUSED: does not compile"* ]]
    [ -z "$(awk 'length > 80' <<<"$output")" ]
    grep -q '^    | attention.cu(1): error: ' <<<"$output"
    grep -qE '^    \|   [^ ]' <<<"$output" # the rest of a long line, indented by two more columns
    [[ $output =~ "correct "\ +"0 / 30   not run" ]]
}

# Two programs that launch nothing and are refused with different words, which show which of the two
# was run; in a tree of the test's own, where the book's files can be changed.
@test "compiled programs are kept, and compiled anew when damaged or when anything about them has changed" {
    root=$BATS_TEST_TMPDIR/root
    mkdir -p "$root/build" "$root/code"
    cp -r code/workbench code/film "$root/code"
    cp build/{judge,libworkbench.a} "$root/build"
    ln -s "$PWD"/build/{runner,clock.so,profile,ptxsim,cuda} "$root/build"
    [ ! -e build/libjansson.a ] || ln -s "$PWD/build/libjansson.a" "$root/build"
    echo 'int main(void) { return 0; }' >"$BATS_TEST_TMPDIR/quiet.cu"
    echo 'int main(void) { __builtin_trap(); }' >"$BATS_TEST_TMPDIR/crashes.cu"
    echo 'int main(void) { return 0 }' >"$BATS_TEST_TMPDIR/wrong.cu"
    try() { # NAME REFUSAL ENTRIES: NAME.cu is refused with REFUSAL; ENTRIES compiled programs are kept then
        rm -f "$kept"/*.launches # kept by earlier calls
        run "$root/build/judge" --lab 4 --lab-file "$lab_file" --no-gpu --no-film "$BATS_TEST_TMPDIR/$1.cu"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"REFUSED: $2"* ]]
        [ "$(find "$kept" -name '*.built' | wc -l)" -eq "$3" ]
        [ "$(find "$kept" -type f ! -name '*.built' ! -name '*.plain' ! -name '*.launches' | wc -l)" -eq 0 ]
    }
    kept=$root/build/grade/kept
    try quiet "its host code launches no kernel" 1
    [ "$(stat -c %a "$kept")" = 700 ] # no student reads it
    quiet=$(echo "$kept"/*.built)
    cp "$quiet" "$BATS_TEST_TMPDIR/whole"
    try wrong "does not compile" 1
    try crashes "its host code crashed" 2
    crashes=$(find "$kept" -name '*.built' ! -path "$quiet")
    cp "$crashes" "$BATS_TEST_TMPDIR/other"
    # A kept program is used, whatever the secret: if another program replaces it, the other one
    # runs.
    cp "$BATS_TEST_TMPDIR/other" "$quiet"
    GRADE_SECRET=another-secret-of-it try quiet "its host code crashed" 2
    # If a kept program is damaged or empty, its source is compiled anew, and the result kept.
    for damage in 's/ELF/ELK/' d; do
        sed "$damage" "$BATS_TEST_TMPDIR/other" >"$quiet"
        run -1 cmp -s "$quiet" "$BATS_TEST_TMPDIR/other"
        try quiet "its host code launches no kernel" 2
        cmp "$quiet" "$BATS_TEST_TMPDIR/whole"
    done
    # Without a box, no kept program is used, and none is kept.
    cp "$BATS_TEST_TMPDIR/other" "$quiet"
    run "$root/build/judge" --lab 4 --lab-file "$lab_file" --no-gpu --no-film --unsafe-no-sandbox \
        "$BATS_TEST_TMPDIR/quiet.cu"
    [[ $output == *"REFUSED: its host code launches no kernel"* ]]
    cmp "$quiet" "$BATS_TEST_TMPDIR/other"
    # Another library, another grader (with other flags, say), another header: each makes a new
    # entry. The least recently used ones are removed: half a gigabyte is kept.
    (cd "$root/build" && ar q libworkbench.a "$BATS_TEST_TMPDIR/quiet.cu")
    try quiet "its host code launches no kernel" 3
    echo >>"$root/build/judge"
    try quiet "its host code launches no kernel" 4
    truncate -s 1G "$kept/old.built"
    touch -d 2001-01-01 "$kept/old.built"
    echo "// more" >>"$root/code/workbench/workbench.h"
    try quiet "its host code launches no kernel" 5
    [ ! -e "$kept/old.built" ]
    # Another compiler makes the kept programs invalid: this one compiles nothing.
    rm "$root/build/cuda"
    mkdir -p "$root/build/cuda/bin"
    printf '#!/bin/sh\nexit 1\n' >"$root/build/cuda/bin/nvcc"
    chmod +x "$root/build/cuda/bin/nvcc"
    try quiet "does not compile" 5
}

@test "recorded launches are kept: the host code is not run again" {
    short
    cp "$CHEATS/asks-the-date.cu" "$BATS_TEST_TMPDIR/a.cu"
    echo "// $RANDOM$RANDOM" >>"$BATS_TEST_TMPDIR/a.cu" # a new text: nothing is kept for it
    touch "$BATS_TEST_TMPDIR/begin"
    grade --no-film "$BATS_TEST_TMPDIR/a.cu"
    echo "$output"
    [[ $(xargs <<<"$output") == *"asked twice how it launches, says two things: launch 1 has another grid"* ]]
    kept=$(find build/grade/kept -name '*.launches' -newer "$BATS_TEST_TMPDIR/begin")
    grep -q '^{"small":{' "$kept"
    run -1 grep -q '},"' "$kept" # refused at once: the host code was not asked about other shapes
    sed -i 's/says two things/said two things then/' "$kept"
    grade --no-film "$BATS_TEST_TMPDIR/a.cu"
    echo "$output"
    [[ $(xargs <<<"$output") == *"REFUSED: its host code, asked twice how it launches, said two things then"* ]]
    rm "$kept"
}

@test "--wall bounds the time of all work for a submission; the report says when the time is over" {
    grade --no-film --wall 1 code/ch04_cp_async.cu # it compiles, then computes for more than 1 s
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"STOPPED: it took longer than 1 s by the clock in all."* ]]
    [[ $(xargs <<<"$output") == *"not run: it took longer than 1 s by the clock in all"* ]]
    short
    { cat code/ch04_cp_async.cu; echo "// $RANDOM$RANDOM"; } >"$BATS_TEST_TMPDIR/new.cu" # a new text
    grade --no-film --wall 1 "$BATS_TEST_TMPDIR/new.cu"
    echo "$output"
    [[ $(xargs <<<"$output") == *"REFUSED: does not compile: it took longer than 1 s by the clock in all."* ]]
}

@test "a text that includes itself is stopped by its size, and is not compiled twice" {
    short
    { for i in {1..20000}; do echo "extern int of_the_many_$i(int);"; done; echo '#include __FILE__'; } >"$BATS_TEST_TMPDIR/self.cu"
    grade --no-film "$BATS_TEST_TMPDIR/self.cu"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(xargs <<<"$output") == *"REFUSED: does not compile. | preprocesses to more than 20 MB"* ]]
}

@test "no more submissions at a time than there is memory for" {
    mkdir "$BATS_TEST_TMPDIR/class"
    touch "$BATS_TEST_TMPDIR/class/notes.txt"
    echo "MemAvailable: 5000000 kB" >"$BATS_TEST_TMPDIR/meminfo"
    GRADE_MEMINFO=$BATS_TEST_TMPDIR/meminfo grade --jobs 3 --out "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/class"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "1 at a time, not 3: each may take 4.25 GiB, and 4.8 are free" ]
    echo "MemAvailable: 14000000 kB" >"$BATS_TEST_TMPDIR/meminfo"
    GRADE_MEMINFO=$BATS_TEST_TMPDIR/meminfo grade --jobs 3 --out "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/class"
    [[ $output != *"at a time"* ]] || [[ $output == *"2 at a time, not 3"* ]] # "2 at a time" if a control group has less memory
}

@test "names are only names: spaces, quotes, newlines, dashes" {
    folder=$BATS_TEST_TMPDIR/names
    mkdir "$folder"
    printf 'int main(void) { return 0; }\n' >"$BATS_TEST_TMPDIR/empty.cu"
    for name in '-rf.cu' 'a b.cu' 'say "hi", you.cu' $'two\nlines.cu' '$(touch pwned).cu' "it's.cu" '=1+1.cu' ＝1+1.cu ＋1.cu －1.cu ＠1.cu ' @1.cu'; do
        cp "$BATS_TEST_TMPDIR/empty.cu" "$folder/$name"
    done
    mkdir "$folder/a folder" "$folder/none"
    cp "$BATS_TEST_TMPDIR/empty.cu" "$folder/a folder/attention.cu"
    ln -s /etc/passwd "$folder/link.cu"
    # As students hand them in: another ending, no ending, a zip with a folder in a folder, a Mac's
    # litter.
    cp "$BATS_TEST_TMPDIR/empty.cu" "$folder/UPPER.CU"
    cp "$BATS_TEST_TMPDIR/empty.cu" "$folder/attention.cu.txt"
    cp "$BATS_TEST_TMPDIR/empty.cu" "$folder/noending"
    ln -s "a folder" "$folder/linked"
    mkfifo "$folder/pipe.cu"
    mkdir -p "$folder/zipped/lab four/__MACOSX" "$folder/__MACOSX" "$folder/two/old" "$folder/below/a" "$folder/below/b"
    cp "$BATS_TEST_TMPDIR/empty.cu" "$folder/zipped/lab four/attention.cu"
    touch "$folder/zipped/lab four/__MACOSX/b.cu" "$folder/zipped/._attention.cu" "$folder/._attention.cu"
    cp "$BATS_TEST_TMPDIR/empty.cu" "$folder/two/attention.cu" # the file directly in the folder counts
    touch "$folder/two/old/attention.cu" "$folder/below/a/a.cu" "$folder/below/b/b.cu"
    (cd "$BATS_TEST_TMPDIR" && "$OLDPWD/labs/grade" --lab 4 --lab-file "$lab_file" --no-gpu --out out names) >"$BATS_TEST_TMPDIR/said"
    grades=$BATS_TEST_TMPDIR/out/grades.csv
    [ ! -e "$BATS_TEST_TMPDIR/pwned" ]
    [ "$(wc -l <"$grades")" -eq 24 ] # a line for each, whatever its name, and the heading
    grep -q '^"say ""hi"", you.cu",0,' "$grades"
    grep -q '^"two\\nlines.cu",0,' "$grades"
    grep -q "^\"'-rf.cu\",0," "$grades" # not a formula for a spreadsheet
    for name in =1+1 ＝1+1 ＋1 －1 ＠1 ' @1'; do grep -qF "\"'$name.cu\",0," "$grades"; done
    grep -q '^"link.cu",0,.*"is a link, not a file"' "$grades"
    grep -q '^"none",0,.*"has no .cu file"' "$grades"
    grep -q '^"UPPER.CU",0,.*,refused,"its host code launches no kernel","",reports/' "$grades"
    grep -q '^"attention.cu.txt",0,.*,not graded,"is a .txt file: a submission ends in .cu",' "$grades"
    grep -q '^"noending",0,.*,not graded,"has no ending: a submission ends in .cu",' "$grades"
    grep -q '^"linked",0,.*,not graded,"is a link, not a file",' "$grades"
    grep -q '^"pipe.cu",0,.*,not graded,"is a pipe, not a file",' "$grades"
    grep -q '^"zipped",0,.*,refused,"its host code launches no kernel",' "$grades"
    grep -q '^"two",0,.*,refused,"its host code launches no kernel",' "$grades"
    grep -q '^"below",0,.*,not graded,"has 2 .cu files, not one",' "$grades"
    grep -qx "skipped: ._attention.cu, a Mac's notes on another file" "$BATS_TEST_TMPDIR/said"
    grep -qx "skipped: __MACOSX, a Mac's notes on a zip" "$BATS_TEST_TMPDIR/said"
    # Each row names its report, whose name has only safe parts of the submission's; the chart shows
    # the reasons.
    for name in 'two_nlines' 'say__hi___you' '_1_1' '-rf' 'zipped'; do
        [ "$(grep -cE ",reports/[0-9]{3}-$name-[0-9a-f]{12}\.txt$" "$grades")" -eq 1 ] || { echo "no report of $name"; false; }
    done
    sed 1d "$grades" | sed 's/.*,//' | while read -r report; do [ -s "$BATS_TEST_TMPDIR/out/$report" ]; done
    grep -q 'not graded' "$BATS_TEST_TMPDIR/out/summary.svg"
    grep -q 'refused' "$BATS_TEST_TMPDIR/out/summary.svg"
    run -1 grep -q 'does not compile' "$BATS_TEST_TMPDIR/out/summary.svg"
    run labs/grade --lab 4 --lab-file "$lab_file" --no-gpu -- "$folder/-rf.cu"
    [ "$status" -eq 0 ]
}

@test "grading a folder resumes where it was stopped, and the order does not matter" {
    folder=$BATS_TEST_TMPDIR/class
    out=$BATS_TEST_TMPDIR/out
    mkdir "$folder" "$folder.named"
    for i in 1 2; do
        echo "int main(void) { return 0; } // $i" >"$folder/s$i.cu"
    done
    echo "int main(void) { return 0 }" >"$folder/s3.cu"
    cp code/ch04_cp_async.cu "$folder/s4.cu"
    python3 - "$small_file" "$BATS_TEST_TMPDIR/lab.json" <<'END' # a sheet with two items, so that grading takes seconds
import json, sys
lab = json.load(open(sys.argv[1]))
lab["points"] = [dict(p, points=70) if p["name"] == "correct" else dict(p, points=30)
                 for p in lab["points"] if p["name"] in ("correct", "registers")]
json.dump(lab, open(sys.argv[2], "w"))
END
    lab_file=$BATS_TEST_TMPDIR/lab.json
    secret=$BATS_TEST_TMPDIR/secret
    echo "secret-of-a-test-$RANDOM$RANDOM" >"$secret" # nothing is kept for this secret yet
    all=(--lab 4 --lab-file "$lab_file" --no-gpu --secret "$secret" --out "$out" "$folder")
    : >"$BATS_TEST_TMPDIR/said" # the background shell may be late to make it
    labs/grade "${all[@]}" --jobs 1 >"$BATS_TEST_TMPDIR/said" &
    pid=$!
    while [ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -lt 2 ]; do sleep 0.2; done
    kill -9 $pid
    wait $pid || true
    grep -q '^ 1 of 4 ' "$BATS_TEST_TMPDIR/said" # progress
    left=$(mktemp -d /tmp/grade.XXXXXX) held=$(mktemp -d /tmp/grade.XXXXXX)
    exec 9<"$held"
    flock 9 # as a judge that is still running locks its folder
    run labs/grade "${all[@]}" --jobs 2
    [ "$status" -eq 0 ]
    [ ! -e "$left" ]
    rmdir "$held"
    [ "$(cut -d, -f2 "$out/grades.csv" | xargs)" = "score 0 0 0 100" ]
    local used
    TIMEFORMAT="%U %S"
    used=$({ time labs/grade "${all[@]}" >/dev/null 2>&1; } 2>&1)
    awk '{ exit !($1 + $2 < 3) }' <<<"$used" # all results were kept: nothing is compiled or run
    cp "$out/grades.csv" "$BATS_TEST_TMPDIR/first.csv"
    # In another order, several at a time, from the start: each program earns the same.
    for i in 1 2 3 4; do mv "$folder/s$i.cu" "$folder.named/s$((5 - i)).cu"; done
    labs/grade "${all[@]/%class/class.named}" --fresh --jobs 3 >/dev/null
    row() { sed -e 1d -e 's/,reports[^,]*$//' "$1" | cut -d, -f2-; } # without the report's name
    diff <(row "$BATS_TEST_TMPDIR/first.csv") <(row "$out/grades.csv" | tac)
}

@test "one item is graded anew for a class, by another limit; all other items stay" {
    folder=$BATS_TEST_TMPDIR/class
    out=$BATS_TEST_TMPDIR/out
    mkdir "$folder"
    cp code/ch04_cp_async.cu "$folder/a.cu"
    echo "int main(void) { return 0 }" >"$folder/b.cu"
    python3 - "$small_file" "$BATS_TEST_TMPDIR/lab.json" <<'END' # fewer cases: takes seconds
import json, sys
lab = json.load(open(sys.argv[1]))
points = {"correct": 60, "registers": 20, "barriers": 20}
lab["points"] = [dict(p, points=points[p["name"]]) for p in lab["points"] if p["name"] in points]
json.dump(lab, open(sys.argv[2], "w"))
END
    secret=$BATS_TEST_TMPDIR/secret
    echo "secret-of-a-test-$RANDOM$RANDOM" >"$secret"
    anew() { # OPTION...
        run labs/grade --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" --no-gpu --secret "$secret" --out "$out" \
            "$@" "$folder"
        echo "$output"
        [ "$status" -eq 0 ]
    }
    score() { cut -d, -f1,2 "$out/grades.csv" | sed 1d | xargs; }
    anew
    [ "$(score)" = "a.cu,100 b.cu,0" ]
    kept=$(grep -l "\"drawn_from\": \"$(drawn_from "$secret")\"" build/grade/kept/*.json | xargs grep -l '"score": 100.0')
    # The other items are taken from the earlier result, here changed as if half of `correct` had
    # been right.
    sed -i '/"name": "correct"/,/"share"/ s/"share": 1.0/"share": 0.5/' "$kept"
    sed -i 's/2000, "shape"/1000, "shape"/' "$BATS_TEST_TMPDIR/lab.json"
    anew --item barriers
    [[ $output == *"1 of 2 have no result under this secret in which one item could change: they are graded whole"* ]]
    [ "$(score)" = "a.cu,30 b.cu,0" ] # half of the 60 points of `correct`; no limit pays while a case is wrong
    grep -q 'Graded anew: barriers. All else is as before.' "$out"/reports/*.txt
    anew --item correct
    [ "$(score)" = "a.cu,80 b.cu,0" ]
    # With the first limit again it gets all points.
    sed -i 's/1000, "shape"/2000, "shape"/' "$BATS_TEST_TMPDIR/lab.json"
    anew --item barriers
    [ "$(score)" = "a.cu,100 b.cu,0" ]
    echo "another-secret-of-it-$RANDOM" >"$secret"
    anew --item barriers
    [[ $output == *"2 of 2 have no result under this secret"* ]]
    [ "$(score)" = "a.cu,100 b.cu,0" ]
}

@test "the secret decides the cases, and reaches no submission" {
    small
    # A kernel that faults at once: grading takes little more time than drawing its cases.
    sed 's/^    while .*/    (void)flag[1l << 40]/' "$CHEATS/kernel-spins.cu" >"$BATS_TEST_TMPDIR/faults.cu"
    run -1 cmp -s "$CHEATS/kernel-spins.cu" "$BATS_TEST_TMPDIR/faults.cu"
    for secret in the-first-secret the-first-secret another-secret-it-is; do
        printf '%s\n' "$secret" >"$BATS_TEST_TMPDIR/secret"
        run labs/grade --lab 4 --lab-file "$lab_file" --no-gpu --secret "$BATS_TEST_TMPDIR/secret" \
            --json "$BATS_TEST_TMPDIR/r.json" "$BATS_TEST_TMPDIR/faults.cu"
        [ "$status" -eq 0 ]
        [ "$(grep -c '"item": "hidden"' "$BATS_TEST_TMPDIR/r.json")" -eq 18 ]
        published+=("$(grep -A4 '"item": "correct"' "$BATS_TEST_TMPDIR/r.json" | grep -E '"(shape|seed)"')")
        shapes+=("$(grep -A1 '"item": "hidden"' "$BATS_TEST_TMPDIR/r.json" | grep shape)")
        whys+=("$(grep '"why"' "$BATS_TEST_TMPDIR/r.json")")
    done
    [ "${shapes[0]}" = "${shapes[1]}" ]
    [[ ${whys[0]} == *"0x"* ]] # it has addresses, and the next line expects the same ones
    [ "${whys[0]}" = "${whys[1]}" ]
    [ "${shapes[0]}" != "${shapes[2]}" ]
    # What a report tells is drawn without the secret: it does not help to guess the secret.
    [[ ${published[0]} == *'"seed": "'* ]]
    [ "${published[0]}" = "${published[2]}" ]
    [ "$(stat -c %a build/grade/seeds)" = 600 ]
}

# plots/runs/h200/grades: results by labs/grade --json on an H200 for solutions and the stages
# before; a starter, and the cheat that only shows on a GPU, would earn nothing.
@test "speed points as recorded on a GPU: by the curve, all for the solution, none for a cheat" {
    python3 - plots/runs/h200/grades/*.json <<'END'
import json, os, sys
assert len(sys.argv) > 4
for path in sys.argv[1:]:
    result = json.load(open(path))
    what = os.path.basename(path)[len("lab04-"):-len(".json")]
    items = {i["name"]: i for i in result["items"]}
    sheet = json.load(open("build/labs/lab%02d.json" % result["lab"]))
    wanted = {i["name"]: i for i in sheet["points"]}["speed"]
    item, speed = items["speed"], result.get("speed")
    assert result["gpu"] == "NVIDIA H200" and not item["left_out"], path
    assert item["max"] == wanted["points"], path
    earned = sum(i["points"] for i in items.values() if not i["by_hand"])
    assert abs(earned - result["score"]) < 1e-6, path
    if speed:
        assert speed["low"] <= speed["ratio"] <= speed["high"] and speed["us"] > 0, path
        share = (speed["high"] - wanted["limit"]) / (wanted["full"] - wanted["limit"])
        assert abs(item["points"] - round(min(max(share, 0), 1) * item["max"], 1)) < 1e-6, path
    if what == "solution":
        assert item["points"] == item["max"] and result["score"] == result["total"], path
    elif what in ("starter", "gpu-tires"):
        assert not speed and result["score"] == 0, path
    else: # the program that the lab compares with
        assert result["score"] < result["total"], path
END
}

@test "bad usage is one line and status 2" {
    one_line() {
        local expected=$1
        shift
        run labs/grade "$@"
        echo "$output"
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == *"$expected"* ]]
    }
    one_line "which lab" code/ch04_cp_async.cu
    one_line "whole number" --lab four code/ch04_cp_async.cu
    one_line "which submission" --lab 4
    one_line '--item: lab 4 has no item "written" that is not read by a person: correct, hidden, races, registers' \
        --lab 4 --lab-file "$lab_file" --item written labs/fixtures
    one_line "--film, or --no-film?" --lab 4 --lab-file "$lab_file" --film a.html --no-film code/ch04_cp_async.cu
    one_line "--json, --gradescope and --film are for one submission" --lab 4 --lab-file "$lab_file" --film a.html labs/fixtures
    one_line "--item is for a folder" --lab 4 --lab-file "$lab_file" --item races code/ch04_cp_async.cu
    one_line "there is no" --lab 4 --lab-file "$lab_file" no-such-file.cu
    one_line "is there no lab 98" --lab 98 code/ch04_cp_async.cu
    one_line "--nonsense is no option; --help lists them" --lab 4 --nonsense code/ch04_cp_async.cu
    one_line "--secret" --lab 4 --lab-file "$lab_file" --secret /no/such code/ch04_cp_async.cu
    printf 'fifteen letters\r\n' >"$BATS_TEST_TMPDIR/secret"
    one_line "the secret of $BATS_TEST_TMPDIR/secret has 15 bytes, and 16 are the least: head -c 24 /dev/urandom | base64 makes one" \
        --lab 4 --lab-file "$lab_file" --secret "$BATS_TEST_TMPDIR/secret" code/ch04_cp_async.cu
    GRADE_SECRET=tests one_line "the secret of GRADE_SECRET has 5 bytes" --lab 4 --lab-file "$lab_file" code/ch04_cp_async.cu
    one_line "--one is for a folder" --lab 4 --lab-file "$lab_file" --one code/ch04_cp_async.cu
    sed 's/"points": 30/"points": 31/' "$lab_file" >"$BATS_TEST_TMPDIR/lab.json"
    one_line "the points are 101, not 100" --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" code/ch04_cp_async.cu
    sed 's/"lab": 4,/& "not_graded": "it is too easy",/' "$lab_file" >"$BATS_TEST_TMPDIR/lab.json"
    one_line "lab 4 is not graded: it is too easy (./lab4 FILE" --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" code/ch04_cp_async.cu
    sed 's/"lab": 4,/& "longest": 500,/' "$lab_file" >"$BATS_TEST_TMPDIR/lab.json"
    one_line '"longest" is no number of keys: a multiple of 128, 512 at least' --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" code/ch04_cp_async.cu
    sed 's/"name": "barriers", "relation": "<=",/& "from": 1999,/' "$lab_file" >"$BATS_TEST_TMPDIR/lab.json"
    one_line 'barriers: an aim is <= or >= a limit, and "from" is beyond it' --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" code/ch04_cp_async.cu
    sed 's/"barriers"/"barrels"/' "$lab_file" >"$BATS_TEST_TMPDIR/lab.json"
    one_line '"barrels" is no item: correct, hidden, races, written, speed; a resource: registers, shared, spills, occupancy, threads, ctas; a counter of the simulator: warp_instructions ' --lab 4 --lab-file "$BATS_TEST_TMPDIR/lab.json" code/ch04_cp_async.cu
}

@test "without a sandbox the grader says what to do, and judges files only with the option for one's own" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\necho "bwrap: No permissions to create new namespace" >&2\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/bwrap"
    chmod +x "$BATS_TEST_TMPDIR/bin/bwrap"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run labs/grade --lab 4 --lab-file "$lab_file" code/ch04_cp_async.cu
    echo "$output"
    [ "$status" -eq 3 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"user namespaces"*"--unsafe-no-sandbox"* ]]
    short
    [ -z "${NO_BOX:-}" ] || lab_file=labs/fixtures/lab04.json
    grade --unsafe-no-sandbox code/ch04_cp_async.cu
    [ "$status" -eq 0 ]
    [[ $output == *"85 / 85"* ]]
}
