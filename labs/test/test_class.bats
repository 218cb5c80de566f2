# What a teacher learns about a class besides the points: which submissions are alike, late,
# suspicious or fastest. The submissions do not compile, so that grading takes no time.

bats_require_minimum_version 1.5.0

setup_file() {
    export GRADE_SECRET=tests-of-the-grader
    export class=$BATS_FILE_TMPDIR/class out=$BATS_FILE_TMPDIR/out
    mkdir "$class"
    base=$(sed '1i #error none' build/starters/ch04_cp_async.cu)
    # anna has a helper that no starter has; ben a copy of it with other names, numbers, comments
    # and layout; carla another helper.
    helper='__device__ float fold(const float *in, int n)
{
    float best = in[0], sum = 0;
    for (int i = 1; i < n; i += 2) {
        best = fmaxf(best, in[i] - in[i - 1]);
        if (best > 3 * sum)
            sum += best / (n - i);
        else
            sum = (sum - in[i]) * (sum + 1);
    }
    while (sum > best)
        sum = sum / 2 - 1;
    return n > 4 ? sum * best : in[n - 1] + sum;
}'
    other='__device__ void spread(int *to, unsigned lane, bool odd)
{
    int at = lane & 15;
    do {
        to[at] ^= odd ? lane << 1 : ~lane;
        at = (at * 5 + 1) % 16;
        if (!(to[at] & 1) || at == 7)
            continue;
        switch (at >> 2) {
        case 0: to[at]--; break;
        case 1: to[at] |= 4; break;
        default: return;
        }
    } while (at != 0 && --lane);
}'
    printf '%s\n%s\n' "$base" "$helper" >"$class/anna.cu"
    sed -e 's/\bsum\b/total/g; s/\bbest\b/top/g; s/\bfold\b/reduce/; s/\bin\b/values/g; s/ 3 / 2 /; s/^    /\t/' \
        <<<"$helper" | sed '3i // my own' | cat - >"$class/ben.cu"
    sed -i '1i #error none' "$class/ben.cu"
    printf '%s\n%s\n' "$base" "$other" >"$class/carla.cu"
    printf '%s\n' "$base" >"$class/dan.cu"
    cp "$class/dan.cu" "$class/eva.cu"
    printf '%s\n__attribute__((constructor)) static void early(void)\n{\n    fopen ("/proc/self/mem", "w");\n    open("x", 0);\n}\n' \
        "$base" >"$class/flagged.cu"
    printf '%s\n// to open( a file is no crime in a comment, nor is reopen(\n' "$base" >"$class/gina.cu"
    touch -d '2026-11-20 10:00' "$class"/anna.cu "$class"/[d-g]*.cu
    touch -d '2026-11-22 23:59' "$class/ben.cu"
    touch -d '2026-11-24 00:00' "$class/carla.cu"
}

setup() {
    bwrap --unshare-all --ro-bind / / true 2>/dev/null || skip "bubblewrap may not make a sandbox here"
}

class() {
    run labs/grade --lab 4 --no-gpu --out "$out" "$@" "$class"
    echo "$output"
    [ "$status" -eq 0 ]
}

column() { # NAME: a column of the gradebook, with the submissions
    python3 - "$out/grades.csv" "$1" <<'END'
import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    print(row["submission"], row[sys.argv[2]])
END
}

@test "alike: the same lines under other names, and neither the starter nor another helper" {
    class
    [[ $output == *"1 pair has text of their own in common: "*alike.csv* ]]
    [ "$(wc -l <"$out/alike.csv")" -eq 2 ]
    python3 - "$out/alike.csv" "$class" <<'END'
import csv, sys
row, = csv.DictReader(open(sys.argv[1]))
assert (row["first"], row["second"]) == ("anna.cu", "ben.cu"), row
assert int(row["percent"]) >= 90 and int(row["fingerprints"]) >= 8, row
lines = open(sys.argv[2] + "/ben.cu").read().split("\n")
first, last = map(int, row["of the second"].split("-"))
assert 1 < first <= last < len(lines), row # the helper's lines are below the line with the error
END
}

@test "alike in spite of macros: a helper in one line, a call in two halves" {
    folder=$BATS_TEST_TMPDIR/macros
    mkdir "$folder"
    cp "$class/anna.cu" "$folder"
    { cat "$class/dan.cu" && printf '#define IT '&& sed -n '/^__device__ float fold/,$p' "$class/anna.cu" | sed 's/fold/reduce/' |
        tr '\n' ' ' && printf '\nIT\n#define IN(a, b) a ## b\nFILE *it() { return IN(fo, pen)("it", "w"); }\n'; } >"$folder/henry.cu"
    class=$folder class
    [ "$(sed 1d "$out/alike.csv" | cut -d, -f1,2)" = '"anna.cu","henry.cu"' ]
    python3 - "$out/alike.csv" "$folder/henry.cu" <<'END'
import csv, sys
row, = csv.DictReader(open(sys.argv[1]))
lines = open(sys.argv[2]).read().split("\n")
assert int(row["percent"]) >= 90, row
last = int(row["of the second"].split("-")[1])
assert lines[last - 1] == "IT", row # the line that uses the helper
END
    [ "$(column flags | grep -v ' $')" = "henry.cu host code that reaches outside: fopen" ]
}

@test "flags: code that runs early or reaches outside, but no part of a longer word, and nothing of the starter" {
    class
    [ "$(column flags | grep -v ' $')" = "flagged.cu runs before main: constructor; host code that reaches outside: open, fopen, /proc/" ]
    [ "$(column score | cut -d' ' -f2 | sort -u)" = 0 ]
    [ "$(column status | cut -d' ' -f2- | sort -u)" = "does not compile" ]
    column why | grep -q '^anna.cu does not compile: attention.cu:1:2: error: #error none$'
}

@test "a text that is another chapter's program is named, under other names too; the lab's own is not" {
    folder=$BATS_TEST_TMPDIR/chapters
    mkdir "$folder"
    for of in ida=ch07_reuse_scores jon=ch04_cp_async kim=ch03_wmma_qk; do
        { echo '#error none' && sed 's/\bkeys_left\b/left/g; s,//.*,,' "code/${of#*=}.cu"; } >"$folder/${of%=*}.cu"
    done
    class=$folder class
    [ "$(column flags | grep -v ' $')" = "ida.cu of the book: chapter 7's program, ch07_reuse_scores
kim.cu of the book: chapter 3's program, ch03_wmma_qk" ]
    grep -q "This is the book's: chapter 7's program, ch07_reuse_scores[.]" "$out"/reports/001-*.txt
    run -1 grep -q "This is the book's" "$out"/reports/002-*.txt
}

@test "a starter without its marks is recognised, whatever its comments, layout, names and numbers" {
    cat >"$BATS_TEST_TMPDIR/same.c" <<'END'
#include "judge/judge.h"
#include <stdarg.h>
struct options options;
struct sheet sheet;
void write_csv(FILE *to, const char *field) { (void)to, (void)field; }
void preprocess(const struct source sources[], struct source plain[], int count) { (void)sources, (void)plain, (void)count; }
struct source source_of(const char *path)
{
    struct source source;
    source.text = read_file(path, &source.bytes);
    return source;
}
int main(int argc, char **argv)
{
    struct source first = source_of(argv[1]), second = source_of(argv[argc - 1]);
    return argc != 3 || !reads_the_same(&first, &second);
}
END
    cc -std=c11 -D_GNU_SOURCE -include stdlib.h -Icode -Ilabs -isystem build/cuda/include "$BATS_TEST_TMPDIR/same.c" \
        labs/judge/alike.c build/lib{host,workbench}.a -l:libjansson.a -lm -ldl -o "$BATS_TEST_TMPDIR/same"
    cd "$BATS_TEST_TMPDIR"
    starter=$OLDPWD/build/starters/ch04_cp_async.cu
    sed -e 's,// Your code.*,,; s/\bkey\b/first/g; s/^    /  /' -e '5i /* mine\n   now */\n#define NOTHING \\\n    here' "$starter" >other.cu
    run -1 cmp -s "$starter" other.cu
    ./same "$starter" other.cu
    sed 's/^        score(t, warp);/        __syncthreads();\n&/' "$starter" >tried.cu
    run -1 cmp -s "$starter" tried.cu
    run -1 ./same "$starter" tried.cu
    printf 'int f(int a) { return a + "x" [1]; }' >a.cu
    printf 'int g(int b)\n{ return b - "y"[2]; } // +' >b.cu
    printf 'int g(int b)\n{ return b + "a longer \\" one"[2]; } // -' >c.cu
    run -1 ./same a.cu b.cu
    ./same a.cu c.cu
}

@test "a megabyte of one unfinished word, of spaces or of open comments takes no longer than other texts" {
    python3 - "$BATS_TEST_TMPDIR" <<'END'
import os, sys
folder = sys.argv[1] + "/long"
os.mkdir(folder)
for name, text in ("words", "xopen("), ("spaces", " "), ("comments", "/*"), ("quotes", "'\\"), ("braces", "{x(1)"):
    open(f"{folder}/{name}.cu", "w").write("#error none\n" + (text * 2**20)[:2**20 - 100])
END
    (ulimit -t 30 && labs/grade --lab 4 --no-gpu --out "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/long")
    [ "$(wc -l <"$BATS_TEST_TMPDIR/out/grades.csv")" -eq 6 ]
}

@test "late: by the files' times or a list; each begun day counts, free days do not; percent" {
    class --deadline 2026-11-22T23:59
    [ "$(column late_days | xargs)" = "anna.cu 0 ben.cu 0 carla.cu 2 dan.cu 0 eva.cu 0 flagged.cu 0 gina.cu 0" ]
    for file in "$class"/*.cu; do echo "${file##*/},2026-11-20 12:00"; done >"$BATS_TEST_TMPDIR/times"
    sed -i 's/^dan.*/dan.cu,2026-11-23T00:00:00/' "$BATS_TEST_TMPDIR/times"
    class --deadline '2026-11-22 23:59' --times "$BATS_TEST_TMPDIR/times"
    [ "$(column late_days | xargs)" = "anna.cu 0 ben.cu 0 carla.cu 0 dan.cu 1 eva.cu 0 flagged.cu 0 gina.cu 0" ]
    class
    run -1 grep -q late_days "$out/grades.csv"
}

@test "late: what is left of the points" {
    cat >"$BATS_TEST_TMPDIR/late.c" <<'END'
#include "judge/judge.h"
struct options options = {.late_days = 2, .penalty = 15};
int main(void)
{
    for (int days = 0; days < 10; ++days)
        printf("%g ", late_points(80.5, days));
}
END
    cc -std=c11 -D_GNU_SOURCE -Icode -Ilabs -isystem build/cuda/include "$BATS_TEST_TMPDIR/late.c" labs/judge/late.c \
        build/lib{host,workbench}.a -l:libjansson.a -lm -ldl -o "$BATS_TEST_TMPDIR/late"
    [ "$("$BATS_TEST_TMPDIR/late" | xargs)" = "80.5 80.5 80.5 68.4 56.4 44.3 32.2 20.1 8.1 0" ]
}

@test "a board of what was timed: right kernels, ties by their intervals, one GPU" {
    run labs/grade --lab 10 --board plots/runs/h200/grades/lab10-*.json
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "Lab 10: no conflicts, on NVIDIA H200" ]
    [[ ${lines[3]} == "| 1 | solution.cu | 1.00 [1.00, 1.00] | 24.17 |" ]]
    [[ ${lines[4]} == "| 2 | ldmatrix.cu | 0.50 [0.50, 0.50] | 48.32 |" ]]
    made() { # FILE NAME LOW RATIO HIGH [GPU]
        printf '{"lab": 10, "name": "%s", "score": 1, "gpu": "%s", "speed": {"ratio": %s, "low": %s, "high": %s, "us": 1}}' \
            "$2" "${6:-NVIDIA H200}" "$4" "$3" "$5" >"$BATS_TEST_TMPDIR/$1.json"
    }
    made a 'a|b [x](javascript:f()) <b>*c*.cu' 1.00 1.02 1.04
    made b second.cu 0.98 1.01 1.03 # overlaps with the first
    made c third.cu 0.90 0.95 0.99  # overlaps with the second, but not with the first, whose rank it would share
    run labs/grade --lab 10 --board "$BATS_TEST_TMPDIR"/{c,b,a}.json
    [[ ${lines[3]} == '| 1 | a\|b \[x\]\(javascript\:f\(\)\) &#60;b&#62;\*c\*.cu | 1.02 '* ]]
    [[ ${lines[4]} == "| 1 | second.cu | 1.01 "* ]]
    [[ ${lines[5]} == "| 3 | third.cu | 0.95 "* ]]
    made b second.cu 0.98 1.01 1.03 "NVIDIA L4"
    run labs/grade --lab 10 --board "$BATS_TEST_TMPDIR"/{a,b}.json
    [ "$status" -eq 2 ]
    [ "$output" = "grade: a board is of one GPU, and these are of NVIDIA H200 and NVIDIA L4" ]
}

@test "Gradescope: who may see which item, and when; the time on a GPU for its leaderboard" {
    labs/grade --lab 4 --no-gpu --visibility hidden=after_published,races=hidden --gradescope "$BATS_TEST_TMPDIR/r.json" "$class/dan.cu" >/dev/null
    python3 labs/fixtures/gradescope.py "$BATS_TEST_TMPDIR/r.json"
    python3 - "$BATS_TEST_TMPDIR/r.json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
seen = {test["name"].split()[0]: test["visibility"] for test in result["tests"]}
assert seen["hidden"] == "after_published" and seen["races"] == "hidden", seen
assert set(seen.values()) == {"after_published", "hidden", "visible"} and seen["correct"] == "visible", seen
assert result["leaderboard"] == [], result
END
}

@test "bad usage is one line and status 2" {
    one_line() {
        local expected=$1
        shift
        run labs/grade --lab 4 --no-gpu "$@"
        echo "$output"
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == *"$expected"* ]]
    }
    one_line '--visibility: "hiden=hidden" is not an item of lab 4' --visibility races=hidden,hiden=hidden "$class"
    one_line '--visibility: "races=never" is not' --visibility races=never "$class"
    one_line '--times, --late-days and --penalty go with --deadline' --penalty 5 "$class"
    one_line '--deadline: "tomorrow" is no time such as 2026-11-22T23:59' --deadline tomorrow "$class"
    one_line '--times: cannot read /no/such' --deadline 2026-11-22T23:59 --times /no/such "$class"
    one_line 'whole number from 0 to 100' --deadline 2026-11-22T23:59 --penalty 101 "$class"
    echo 'anna.cu,2026-11-22' >"$BATS_TEST_TMPDIR/times"
    run labs/grade --lab 4 --no-gpu --out "$out" --deadline 2026-11-22T23:59 --times "$BATS_TEST_TMPDIR/times" "$class"
    [ "$status" -eq 2 ]
    [[ ${lines[-1]} == *'--times: anna.cu: "2026-11-22" is no time such as'* ]]
    echo 'anna.cu,2026-11-22 10:00' >"$BATS_TEST_TMPDIR/times"
    run labs/grade --lab 4 --no-gpu --out "$out" --deadline 2026-11-22T23:59 --times "$BATS_TEST_TMPDIR/times" "$class"
    [ "$status" -eq 2 ]
    [[ ${lines[-1]} == *'--times: there is no line for ben.cu'* ]]
    one_line 'is no result of lab 4' --board plots/runs/h200/grades/lab10-solution.json
    sed 's/"speed"/"spid"/' plots/runs/h200/grades/lab04-solution.json >"$BATS_TEST_TMPDIR/untimed.json"
    one_line 'none of them was timed' --board "$BATS_TEST_TMPDIR/untimed.json"
}
