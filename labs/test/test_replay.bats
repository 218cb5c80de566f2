# Lab 14: the program that answers a search and counts its questions (labs/replay.c), ./lab14's
# reports, and how the grader treats programs that know the answer.

bats_require_minimum_version 1.5.0

setup_file() {
    # Builds a program. replay WHAT ...: tries landscapes and games without a search. replay play COMMAND...: a
    # game with a search, on the journal or, if the variable SEED is set, on the landscape drawn from it; the
    # search may take SECONDS_LEFT seconds, or else 60.
    cat >"$BATS_FILE_TMPDIR/replay.c" <<'END'
#include "replay.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct landscape l;

static int count(int verdict)
{
    int n = 0;
    for (int s = 0; s < REPLAY_SETTINGS; ++s)
        n += (int)l.verdict[s] == verdict;
    return n;
}

static int play(char **command, struct game *g)
{
    int in[2], out[2];
    if (pipe(in) || pipe(out))
        return 3;
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execvp(command[0], command);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    signal(SIGPIPE, SIG_IGN);
    game_play(g, out[0], in[1], getenv("SECONDS_LEFT") ? atoi(getenv("SECONDS_LEFT")) : 60);
    close(in[1]);
    close(out[0]);
    kill(child, SIGTERM); // the program may still sleep when the game ends
    waitpid(child, NULL, 0);
    printf("asked %d missing %d first_64 %d elite %d count %d best %.4g: %s%s\n", g->asked, g->missing,
           g->first_64, g->elite, game_count(g), g->best, g->late ? "late: " : "", *g->wrong ? g->wrong : "by the rules");
    return 0;
}

int main(int argc, char **argv)
{
    char why[512], answer[REPLAY_LINE];
    struct game g;

    if (!strcmp(argv[1], "journal")) {
        if (!landscape_read(&l, argv[2], why, sizeof why))
            return printf("%s\n", why), 1;
        printf("timed %d refused %d unknown %d best %.6g\n", count(SETTING_TIMED), count(SETTING_REFUSED),
               count(SETTING_UNKNOWN), l.best);
    } else if (!strcmp(argv[1], "drawn")) {
        landscape_draw(&l, strtoull(argv[2], NULL, 10));
        printf("timed %d refused %d unknown %d best %.6g\n", count(SETTING_TIMED), count(SETTING_REFUSED),
               count(SETTING_UNKNOWN), l.best);
    } else if (!strcmp(argv[1], "ask")) { // on the journal: the answer to each question, and the end
        landscape_read(&l, argv[2], why, sizeof why);
        game_begin(&g, &l);
        for (int i = 3; i < argc; ++i)
            printf("%s\n", game_answer(&g, argv[i], answer) ? answer : "no answer");
        game_end(&g);
        printf("asked %d missing %d first_64 %d elite %d: %s\n", g.asked, g.missing, g.first_64, g.elite, g.wrong);
    } else if (!strcmp(argv[1], "children")) { // on stdin
        struct children c;
        children_read(&c, argv[2], 0, 5);
        printf("%d children: %s\n", c.count, *c.wrong ? c.wrong : "as promised");
    } else if (!strcmp(argv[1], "random")) {
        landscape_read(&l, argv[2], why, sizeof why);
        printf("%d %d\n", random_count(&l, 11), random_count(&l, 11));
        for (int s = 0; s < REPLAY_SETTINGS; ++s) // now every setting is in the elite
            l.verdict[s] = SETTING_TIMED, l.score[s] = l.best;
        printf("%d\n", random_count(&l, 11));
    } else if (!strcmp(argv[1], "median")) {
        int counts[9];
        for (int i = 2; i < argc; ++i)
            counts[i - 2] = atoi(argv[i]);
        printf("%d\n", median_count(counts, argc - 2));
    } else if (!strcmp(argv[1], "play")) {
        if (getenv("SEED"))
            landscape_draw(&l, strtoull(getenv("SEED"), NULL, 10));
        else
            landscape_read(&l, "plots/runs/h200/search.jsonl", why, sizeof why);
        game_begin(&g, &l);
        return play(argv + 2, &g);
    }
    return 0;
}
END
    cc -std=c11 -D_GNU_SOURCE -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover -Ilabs \
        -Icode "$BATS_FILE_TMPDIR/replay.c" labs/replay.c code/host/clock.c -l:libjansson.a -lm -o "$BATS_FILE_TMPDIR/replay"
    export JOURNAL=plots/runs/h200/search.jsonl GRADE_SECRET=tests-of-the-grader
    bwrap --unshare-all --ro-bind / / true 2>/dev/null || export NO_BOX=1
    # For a program that only sleeps, the lab and the grader each wait for one run, 20 s. They do so
    # while the other tests go on; waited_for returns the result.
    printf '#include <unistd.h>\nint main(void) { for (;;) sleep(100); }\n' >"$BATS_FILE_TMPDIR/sleeper.c"
    begin lab labs/lab14 "$BATS_FILE_TMPDIR/sleeper.c" --record "$BATS_FILE_TMPDIR/record.json"
    [ -n "${NO_BOX:-}" ] || begin grader labs/grade --lab 14 --no-gpu "$BATS_FILE_TMPDIR/sleeper.c"
}

# begin NAME COMMAND...: starts a command that runs beside the tests.
begin() {
    local file=$BATS_FILE_TMPDIR/$1 status=0
    shift
    { "$@" >"$file.said" 2>&1 || status=$?; echo $status >"$file.status"; } 3>&- </dev/null &
    echo $! >"$file.process"
}

# waited_for NAME: waits until the command has ended; sets $output and $status to its own.
waited_for() {
    while kill -0 "$(cat "$BATS_FILE_TMPDIR/$1.process")" 2>&-; do sleep 0.1; done
    output=$(cat "$BATS_FILE_TMPDIR/$1.said") status=$(cat "$BATS_FILE_TMPDIR/$1.status")
    echo "$output"
}

teardown_file() { # even if no test waited for them
    waited_for lab
    [ -n "${NO_BOX:-}" ] || waited_for grader
}

replay() { "$BATS_FILE_TMPDIR/replay" "$@"; }

# says COMMAND... -- LINE: the command's last line is LINE.
says() {
    local command=()
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    run "${command[@]}"
    echo "$output"
    # shellcheck disable=SC2053 # a pattern
    [[ ${lines[-1]} == $2 ]]
}

@test "a journal: its candidates and no others are known" {
    says replay journal "$JOURNAL" -- "timed 60 refused 31 unknown 4517 best 10.0352"
    sed '3s/timed/timed", "more": "/; 7s/32-32/32-33/' "$JOURNAL" >"$BATS_TEST_TMPDIR/odd"
    says replay journal "$BATS_TEST_TMPDIR/odd" -- "$BATS_TEST_TMPDIR/odd:7: not a line of a journal"
    sed 1d "$JOURNAL" >"$BATS_TEST_TMPDIR/headless"
    says replay journal "$BATS_TEST_TMPDIR/headless" -- "$BATS_TEST_TMPDIR/headless:1: not a line of a journal"
    sed -n 1p "$JOURNAL" >"$BATS_TEST_TMPDIR/empty"
    says replay journal "$BATS_TEST_TMPDIR/empty" -- "$BATS_TEST_TMPDIR/empty: no candidate has a time"
    says replay journal nowhere -- "cannot read the journal nowhere"
}

@test "a drawn landscape: every setting that fits is known, a third refused, each seed another" {
    replay drawn 1 >"$BATS_TEST_TMPDIR/one"
    grep -q "^timed 1920 refused 960 unknown 1728 best " "$BATS_TEST_TMPDIR/one"
    replay drawn 1 | cmp - "$BATS_TEST_TMPDIR/one"
    replay drawn 2 >"$BATS_TEST_TMPDIR/two"
    run -1 cmp -s "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two"
}

@test "answers come from the journal, unknown settings count as questions, too, and the elite is within 2 %" {
    run replay ask "$JOURNAL" 32-32-2-2-0-0-0-1 64-64-2-3-0-0-0-1 128-32-1-1-0-0-0-0 64-64-2-1-0-0-1-1 64-64-2-2-4-0-0-1
    echo "$output"
    [[ ${lines[0]} == '{"knobs": "32-32-2-2-0-0-0-1", "generation": 0, "verdict": "timed", "score": 11.9789'* ]]
    [[ ${lines[1]} == *'"verdict": "refused", "score": 0, '*'"said": "over a limit"}' ]]
    [[ ${lines[2]} == *'"verdict": "untried", "score": 0, '*'"said": "not in the journal"}' ]]
    # The fourth candidate is 2.6 % slower than the best; the fifth, the third of the book's elite, is 1.3 % slower.
    [[ ${lines[5]} == "asked 5 missing 1 first_64 2 elite 5: "* ]]
}

@test "the rules: ask for valid settings, for each once, and for all neighbours of the best" {
    first=32-32-2-2-0-0-0-1
    says replay ask "$JOURNAL" "$first" 32-48-2-2-0-0-0-1 -- "asked 2 * elite 0: question 2, 32-48-2-2-0-0-0-1: block_n has no value 48"
    says replay ask "$JOURNAL" "$first" 32-32-2-2-0-0-0-1x -- "asked 2 * elite 0: question 2, 32-32-2-2-0-0-0-1x: no setting"
    says replay ask "$JOURNAL" 32-32-4-2-0-0-0-1 -- "asked 1 * elite 0: question 1, 32-32-4-2-0-0-0-1: these do not fit together"
    says replay ask "$JOURNAL" "$first" "$first" -- "asked 2 * elite 0: question 2, $first: asked for before"
    says replay ask "$JOURNAL" 64-64-2-3-0-0-0-1 -- "asked 1 * elite 0: it ended after 1 candidates, none with a time"
    # Asks for all single changes of the best setting except one, and then for that one, too.
    around=(32-64-2-2-0-0-0-1 64-128-2-2-0-0-0-1 64-64-1-2-0-0-0-1 64-64-2-1-0-0-0-1 64-64-2-3-0-0-0-1
        64-64-2-4-0-0-0-1 64-64-2-2-1-0-0-1 64-64-2-2-2-0-0-1 64-64-2-2-4-0-0-1 64-64-2-2-0-1-0-1
        64-64-2-2-0-0-1-1)
    says replay ask "$JOURNAL" 64-64-2-2-0-0-0-1 "${around[@]}" -- \
        "asked 12 * elite 1: it ended after 12 candidates without 64-64-2-2-0-0-0-0, one change of its best"
    says replay ask "$JOURNAL" 64-64-2-2-0-0-0-1 "${around[@]}" 64-64-2-2-0-0-0-0 -- "asked 13 * elite 1: "
}

@test "300 candidates are all that a search may ask for" {
    mapfile -t all < <(for m in 32 64; do for s in 1 2 3 4; do for p in 0 1 2 4; do for e in 0-0-0 0-0-1 0-1-0 1-0-0 1-1-0 1-0-1 0-1-1 1-1-1
        do echo $m-64-2-$s-$p-$e; echo $m-32-1-$s-$p-$e; done; done; done; done | grep -v '64-64-2-[12]-[04]-0-0-1')
    run replay ask "$JOURNAL" "${all[@]}"
    [[ ${lines[-1]} == "asked 300 "*" elite 0: it does not end: more than 300 candidates" ]]
    [ "$(grep -c '^no answer$' <<<"$output")" -eq $((${#all[@]} - 300)) ]
}

@test "children: enough of them, all in the space, with every knob and value, and one to three changes each" {
    good() { build/ch14_search --children 32-32-2-2-0-0-0-0 --seed "${1-1}"; }
    for seed in 1 2 3; do
        good "$seed" | says replay children 32-32-2-2-0-0-0-0 -- "500 children: as promised"
    done
    good | sed 1d | says replay children 32-32-2-2-0-0-0-0 -- "499 children: 499 children, not 500"
    good | sed 's/-3-/-4-/' | says replay children 32-32-2-2-0-0-0-0 -- "500 children: none of 500 children has stages = 3"
    good | sed '9s/child [0-9]*/child 96/' | says replay children 32-32-2-2-0-0-0-0 -- "9 children: child 9, 96-*: block_m has no value 96"
    good | sed '9s/ .*/ 64-64-2-1-0-0-0-1/' | says replay children 32-32-2-2-0-0-0-0 -- "9 children: child 9, 64-64-2-1-0-0-0-1: 4 knobs are changed"
    good | sed '9s/-/+/' | says replay children 32-32-2-2-0-0-0-0 -- "9 children: child 9, *, is no setting"
    one='32-32-2-2-0-0-0-0'
    { for k in 64-32-2-2-0-0-0-0 128-32-2-2-0-0-0-0 32-16-2-2-0-0-0-0 32-64-2-2-0-0-0-0 32-128-2-2-0-0-0-0 32-32-1-2-0-0-0-0 \
        32-32-4-2-0-0-0-0 32-32-2-1-0-0-0-0 32-32-2-3-0-0-0-0 32-32-2-4-0-0-0-0 32-32-2-2-1-0-0-0 32-32-2-2-2-0-0-0 \
        32-32-2-2-4-0-0-0 32-32-2-2-0-1-0-0 32-32-2-2-0-0-1-0 32-32-2-2-0-0-0-1; do echo "child $k"; done
      yes "child $one" | head -490; } | says replay children "$one" -- "506 children: none of 506 children has more than one change"
}

@test "random choice asks for valid settings, the same for one seed; of an even number the lower median counts" {
    run replay random "$JOURNAL"
    [ "${lines[0]%% *}" = "${lines[0]##* }" ]
    [ "${lines[1]}" = 1 ]
    says replay median 5 1 9 3 -- 3
    says replay median 5 1 9 -- 5
}

@test "a game by a pipe: lines that are no questions are ignored, and a program that does not end is stopped" {
    says replay play sh -c 'echo hello; echo "ask 64-64-2-2-0-0-0-1"; read a; echo "$a"; echo "ask 64-64-2-1-0-0-0-1"' -- \
        "asked 2 missing 0 first_64 1 elite 1 count 1 best 10.04: it ended after 2 candidates without *"
    says replay play sh -c 'echo "ask 64-64-2-2-0-0-0-9"; read a || echo "ask 64-64-2-2-0-0-0-1"' -- \
        "asked 1 missing 0 first_64 0 elite 0 count 300 best inf: question 1, 64-64-2-2-0-0-0-9: swizzle has no value 9"
    SECONDS_LEFT=1 says replay play sh -c 'exec sleep 1000' -- "asked 0 * late: it does not end in time"
    # A search that has broken a rule and then sleeps is stopped when its time is up; so is one that
    # reads no answers, so that the pipe gets full.
    SECONDS_LEFT=1 says replay play sh -c 'echo ask 64-64-2-2-0-0-0-1; echo ask 64-64-2-2-0-0-0-1; exec sleep 1000' -- \
        "asked 2 * late: question 2, 64-64-2-2-0-0-0-1: asked for before"
    SECONDS_LEFT=1 says replay play sh -c 'for i in $(seq 290); do echo "ask 64-64-2-2-0-0-0-1"; done; exec sleep 1000' -- \
        "asked 2* late: question 2, 64-64-2-2-0-0-0-1: asked for before"
    says replay play yes -- "asked 0 * it writes without end"
    says replay play sh -c 'head -c 100000 /dev/zero | tr "\0" x; echo; echo "ask 32-32-2-2-0-0-0-1"' -- "asked 1 missing 0 *"
    says replay play true -- "asked 0 * it ended after 0 candidates, none with a time"
}

@test "the book's search keeps the rules on landscapes that nobody has seen, and knows the same space" {
    for seed in 3 4 5 6 7 8; do
        SEED=$seed says replay play build/ch14_search --replay - --seed "$seed" --budget 150 -- "*: by the rules"
    done
    # labs/replay.c must have the chapter's space: the values are compared by --help, the valid settings
    # by their number.
    build/ch14_search --help | sed -nE 's/^  (block|warps|stages|producers|persistent|fast|swizzle)(_[a-z]*)? +/\1\2 /p' >"$BATS_TEST_TMPDIR/theirs"
    sed -nE '/\} space\[/,/^\};/p' labs/replay.c | grep -oE '"[a-z_]+", [0-9], \{[0-9, ]+\}' |
        sed -E 's/"([a-z_]+)", [0-9], \{([0-9, ]+)\}/\1 \2/' >"$BATS_TEST_TMPDIR/ours"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/ours")" -eq 8 ]
    diff -b "$BATS_TEST_TMPDIR/theirs" "$BATS_TEST_TMPDIR/ours"
}

# ---- ./lab14 ------------------------------------------------------------------------------------

@test "the lab: a line for each seed, as recorded, with yardsticks beside it, in 80 columns" {
    run labs/lab14 code/ch14_search.c --record "$BATS_TEST_TMPDIR/record.json"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(wc -L <<<"$output")" -le 80 ]
    [[ ${lines[1]} == ch14_search ]]
    grep -qE '^ +1 +19 +49 +71 +0 +10\.04$' <<<"$output"
    grep -qE '^  random choice +none in 300 +none in 300$' <<<"$output"
    grep -qE '^  searches on drawn landscapes +40 of 40  ok: elite in [0-9]+, median [0-9]+$' <<<"$output"
    python3 - "$BATS_TEST_TMPDIR/record.json" plots/runs/cpu/ch14-replay.json <<'END'
import json, sys
new, kept = (json.load(open(path)) for path in sys.argv[1:])
assert new["search"] == kept["search"], "the record is not of today's search: ./lab14 code/ch14_search.c --record it"
seeds = kept["search"]["seeds"]
assert [s["seed"] for s in seeds] == list(range(1, 11))
assert sorted(s["elite"] for s in seeds)[4] == kept["search"]["median"]
assert sum(s["missing"] for s in seeds) == kept["search"]["missing"] and seeds[0]["missing"] == 0
assert new["runtime"] == "cpu" and all(g["pass"] for g in new["gates"]) and len(new["gates"]) == 3
END
}

@test "the lab: a starter and each planted bug break a rule, which is reported; all else stays open" {
    run labs/lab14 build/starters/ch14_search.c --record "$BATS_TEST_TMPDIR/record.json"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(wc -L <<<"$output")" -le 80 ]
    [[ $output == *"seed 1, it ended after 8 candidates without 32-64-2-2-0-0-0-1"* ]]
    [[ $output == *"together                                       0 of 100, and 15 open"* ]]
    [[ $output == *'task 1, "Set one to three knobs anew", is still open:'* ]]
    for bug in last-knob-stays:'none of 500 children has swizzle = 1' twice-as-large:'has no value 8' \
        first-neighbour:'it ended after 49 candidates without' one-round:'one change' asks-again:'asked for before'; do
        run labs/lab14 "build/mutants/ch14_search.${bug%%:*}.c" --record "$BATS_TEST_TMPDIR/record.json"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *"${bug#*:}"* ]]
        [[ $output == *"A rule is broken: limits pay nothing yet"* ]]
        [[ $output != *"hint 1 of"* ]] # no gap is open: the wrong line may belong to any task
    done
}

@test "the lab: a file that is neither a search nor a kernel, and a missing journal" {
    cp code/ch14_search.c "$BATS_TEST_TMPDIR/my.py"
    run labs/lab14 "$BATS_TEST_TMPDIR/my.py"
    [ "$status" -eq 2 ]
    [[ $output == *"lab 14 takes a search in C, as code/ch14_search.c is or make starter14 writes one, or a kernel's"* ]]
    run build/lab --lab 14 --search ch14_search --journal nowhere.jsonl code/ch14_search.c
    [ "$status" -eq 3 ]
    [ "${lines[-1]}" = "lab14: cannot read the journal $(readlink -f .)/nowhere.jsonl" ]
    run labs/lab14 --film x.html code/ch14_search.c
    [ "$status" -eq 2 ]
    [[ $output == *"ch14_search has no kernel to watch"* ]]
}

# ---- The grader ---------------------------------------------------------------------------------

# graded NAME: grades a program from stdin; its points in $points, its report in $output.
graded() {
    [ -z "${NO_BOX:-}" ] || skip "bubblewrap may not make a sandbox here"
    cat >"$BATS_TEST_TMPDIR/$1.c"
    run labs/grade --lab 14 --no-gpu --json "$BATS_TEST_TMPDIR/$1.json" "$BATS_TEST_TMPDIR/$1.c"
    echo "$output"
    [ "$status" -eq 0 ]
    points=$(python3 -c 'import json, sys; print("%g" % json.load(open(sys.argv[1]))["score"])' "$BATS_TEST_TMPDIR/$1.json")
    echo "$1: $points"
}

@test "the grader: the book's search has every point; another text gets other landscapes" {
    graded solution <code/ch14_search.c
    [ "$points" = 85 ]
    { cat code/ch14_search.c; echo '// mine'; } | graded other
    [ "$points" = 85 ]
    python3 - "$BATS_TEST_TMPDIR"/{solution,other}.json <<'END'
import json, sys
one, other = ([c["seed"] for c in json.load(open(path))["cases"] if c["item"] == "correct"] for path in sys.argv[1:])
assert len(one) == 14 and not set(one) & set(other)
END
}

@test "the grader: to know the journal's winner is not to search" {
    graded winner <<'END'
#include <stdio.h>
int main(void)
{
    printf("ask 64-64-2-2-0-0-0-1\n");
    return 0;
}
END
    # It has half of the aim's points, since no case of `correct` is right, and no other points.
    [ "$points" = 10 ]
    [[ $output == *"a search on the journal"*"without"*"one change of its best"* ]]
}

@test "the grader: a program finds no journal to read, and results that it prints are ignored" {
    graded reader <<'END'
#include <stdio.h>
int main(void)
{
    static const char *const paths[] = {"plots/runs/h200/search.jsonl", "/work/plots/runs/h200/search.jsonl",
                                        "/book/plots/runs/h200/search.jsonl", "/work/search.jsonl"};
    char line[400] = "", knobs[64];
    for (int i = 0; i < 4; ++i) {
        FILE *f = fopen(paths[i], "r");
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "{\"knobs\": \"%63[0-9-]\"", knobs) == 1)
                printf("ask %s\n", knobs);
    }
    printf("best: 64-64-2-2-0-0-0-1, 10.04 us; 1 asked for, 0 not in the journal\n{\"elite\": 1}\nelite 1\n");
    for (int i = 0; i < 500; ++i)
        printf("child 64-64-2-2-0-0-0-1\n");
    return 0;
}
END
    [ "$points" = 0 ]
    [[ $output == *"it ended after 0 candidates, none with a time"* ]]
}

@test "the grader: a program that asks without end, floods, forks or does not compile is soon told so" {
    graded all <<<'#include <stdio.h>
int main(void) {
    static const int m[] = {32, 64, 128}, n[] = {16, 32, 64, 128}, w[] = {1, 2, 4}, p[] = {0, 1, 2, 4};
    for (int i = 0; i < 4608; ++i) {
        int k = i % 8, s = i / 8;
        printf("ask %d-%d-%d-%d-%d-%d-%d-%d\n", m[s % 3], n[s / 3 % 4], w[s / 12 % 3], 1 + s / 36 % 4,
               p[s / 144 % 4], k & 1, k >> 1 & 1, k >> 2);
    }
}'
    [ "$points" = 6 ] # the elite at candidate 157, not 60: half of the aim's points, and none for the cases
    [[ $output == *"these do not fit together"* ]]
    graded flood <<<'#include <stdio.h>
int main(void) { for (;;) puts("hello"); }'
    [ "$points" = 0 ]
    [[ $output == *"it writes without end"* ]]
    graded forks <<<'#include <unistd.h>
#include <stdio.h>
int main(void) { if (fork() >= 0) puts("ask 64-64-2-2-0-0-0-1"); }'
    [ "$points" = 0 ]
    graded broken <<<'int main(void) { return zero; }'
    [ "$points" = 0 ]
    [[ $output == *"REFUSED: does not compile."*"zero"* ]]
    graded empty <<<''
    [ "$points" = 0 ]
}

@test "the grader: a search that breaks a rule and reads no answers is waited for once" {
    [ -z "${NO_BOX:-}" ] || skip "bubblewrap may not make a sandbox here"
    printf '%s\n' '#include <stdio.h>' '#include <unistd.h>' 'int main(int argc, char **argv) {' \
        "    if (argc > 1 && argv[1][2] == 'c') return 0; // --children" \
        '    printf("ask 64-64-2-2-0-0-0-1\nask 64-64-2-2-0-0-0-1\n");' '    fflush(stdout);' '    for (;;) pause();' '}' >"$BATS_TEST_TMPDIR/deaf.c"
    run labs/grade --lab 14 --no-gpu --json "$BATS_TEST_TMPDIR/deaf.json" --wall 4 "$BATS_TEST_TMPDIR/deaf.c"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"STOPPED: it took longer than 4 s by the clock in all"* ]]
    python3 - "$BATS_TEST_TMPDIR/deaf.json" <<'END'
import json, sys
why = [c["why"] for c in json.load(open(sys.argv[1]))["cases"]]
ran = [w for w in why if not w.startswith("not run")]
assert len(why) > 50 and "asked for before" in ran[-1] and len(ran) == 5, ran # four runs for children, one search
END
}

@test "the grader: a folder takes .c files, and one item is graded anew" {
    [ -z "${NO_BOX:-}" ] || skip "bubblewrap may not make a sandbox here"
    mkdir "$BATS_TEST_TMPDIR/class"
    cp code/ch14_search.c "$BATS_TEST_TMPDIR/class/ada.c"
    cp build/mutants/ch14_search.one-round.c "$BATS_TEST_TMPDIR/class/bob.c"
    cp code/ch14_autotune.cu "$BATS_TEST_TMPDIR/class/eve.cu"
    run labs/grade --lab 14 --no-gpu --out "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/class"
    echo "$output"
    cat "$BATS_TEST_TMPDIR/out/grades.csv"
    [ "$status" -eq 0 ]
    grep -q '^"ada.c",85' "$BATS_TEST_TMPDIR/out/grades.csv"
    grep -q '^"eve.cu",.*is a .cu file: a submission ends in .c' "$BATS_TEST_TMPDIR/out/grades.csv"
    cp "$BATS_TEST_TMPDIR/out/grades.csv" "$BATS_TEST_TMPDIR/before.csv"
    run labs/grade --lab 14 --no-gpu --item candidates --out "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/class"
    echo "$output"
    [ "$status" -eq 0 ]
    diff <(cut -d, -f1-2 "$BATS_TEST_TMPDIR/before.csv") <(cut -d, -f1-2 "$BATS_TEST_TMPDIR/out/grades.csv")
}

@test "the grader: a wrong search is not launched as a kernel: there is nothing to film" {
    printf '%s\n' '#include <stdio.h>' "int main(int argc, char **argv) {" \
        "    FILE *calls = fopen(\"$BATS_TEST_TMPDIR/calls\", \"a\");" \
        '    fprintf(calls, "%s\n", argc > 1 ? argv[1] : "");' '}' >"$BATS_TEST_TMPDIR/calls.c"
    run labs/grade --lab 14 --no-gpu --unsafe-no-sandbox "$BATS_TEST_TMPDIR/calls.c"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"0 of 14 right"* ]]
    sort "$BATS_TEST_TMPDIR/calls" | uniq -c
    diff <(printf -- '--children\n%.0s' {1..4}; printf -- '--replay\n%.0s' {1..50}) <(sort "$BATS_TEST_TMPDIR/calls")
}

# ---- Programs that only sleep -------------------------------------------------------------------

@test "the lab: of a search that does not end, one run is waited for" {
    waited_for lab
    [ "$status" -eq 1 ]
    [[ $output == *"0 of 4  FAIL"*"not run: a search did not end in time"* ]]
    [[ $output == *"0 of 10  FAIL"*"seed 1, it does not end in time"* ]]
    [[ $output == *"0 of 40  FAIL"*"seed 1, not run: another one did not end in time"* ]]
}

@test "the grader: of a search that does not end, one run is waited for, and nothing is filmed" {
    [ -z "${NO_BOX:-}" ] || skip "bubblewrap may not make a sandbox here"
    waited_for grader
    [ "$status" -eq 0 ]
    [[ $output == *"it does not end in time"*"not run: another one did not end in time"* ]]
    [ "$(grep -c 'again, after ./lab14 FILE: build/student/NAME --' <<<"$output")" -eq 1 ]
    [[ $output == *"points  "*" 0 / 85" ]]
}
