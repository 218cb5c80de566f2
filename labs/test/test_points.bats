# The rule of points (labs/sheet/rule.h), and how the grader and the sheets apply it.
# bats file_tags=quick

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    cat >"$BATS_TEST_TMPDIR/rule.c" <<'END'
#include "rule.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// rule WHAT SHARE CORRECT AIM TRIED: what is paid.
// rule all: whether the aims alone always pay more than all other items without them.
int main(int argc, char **argv)
{
    if (argc == 2) {
        for (int aims = 30; aims <= 60; ++aims) // of 90: at least a third
            for (int right = 0; right <= 4; ++right) {
                struct reached with = {right / 4.0, 1, true}, without = {1, 0, true};
                double least = share_paid(PAYS_AIM, 1, &with) * aims;
                double most = share_paid(PAYS_CASES, 1, &without) * (90 - aims);
                if (!(least > most))
                    return printf("aims %d, right %d/4: %g <= %g\n", aims, right, least, most), 1;
                if (most != 0)
                    return printf("without the aim: %g\n", most), 1;
            }
        return 0;
    }
    enum pays_for what = !strcmp(argv[1], "cases") ? PAYS_CASES : !strcmp(argv[1], "aim") ? PAYS_AIM : PAYS_LIMIT;
    struct reached r = {atof(argv[3]), atof(argv[4]), atoi(argv[5])};
    printf("%g\n", share_paid(what, atof(argv[2]), &r));
    return argc != 6;
}
END
    cc -std=c11 -Wall -Wextra -Werror -Ilabs/sheet "$BATS_TEST_TMPDIR/rule.c" -o "$BATS_TEST_TMPDIR/rule"
}

paid() { # EXPECTED WHAT SHARE CORRECT AIM TRIED
    local expected=$1
    shift
    run "$BATS_TEST_TMPDIR/rule" "$@"
    echo "$*: $output, not $expected"
    [ "$output" = "$expected" ]
}

@test "a program that reaches everything gets all points" {
    paid 1 cases 1 1 1 1
    paid 1 aim 1 1 1 1
    paid 1 limit 1 1 1 1
    paid 0.5 cases 0.5 1 1 1 # one of two cases
    paid 0 limit 0 1 1 1
}

@test "a right program gets nothing without the aim, and half of the points with half of the aim" {
    paid 0 cases 1 1 0 1
    paid 0 limit 1 1 0 1
    paid 0 aim 0 1 0 1
    paid 0.5 cases 1 1 0.5 1 # half of the way to the aim
    paid 0.25 cases 0.5 1 0.5 1
    paid 0.5 aim 0.5 1 0.5 1
}

@test "while a case of `correct` fails, limits give no points, and an aim half of its points" {
    paid 0.75 cases 0.75 0.75 1 1
    paid 0 limit 1 0.75 1 1
    paid 0.5 aim 1 0.75 1 1
    paid 0.5 aim 1 0 1 1 # no case is right, but a gap is filled
    paid 0.5 cases 0.5 0 1 1
}

@test "no points without a right case or the aim, nor for an aim that the starter reaches already" {
    paid 0 cases 1 0 0 1
    paid 0 cases 1 0 1 0
    paid 0 aim 1 0 1 0
    paid 0.5 aim 1 0.1 1 0 # a right case shows that somebody worked
}

@test "a program with the aims always has more points than one without, which has none" {
    run "$BATS_TEST_TMPDIR/rule" all
    echo "$output"
    [ "$status" -eq 0 ]
}

# Rule for the book's sheets: every graded lab has aims, which carry at least a third of its points.
@test "each graded lab has aims, which the previous program does not reach" {
    python3 - build/labs/lab*.json <<'END'
import json, sys
graded = 0
for path in sys.argv[1:]:
    lab = json.load(open(path))
    if "not_graded" in lab:
        continue
    graded += 1
    items = [i for i in lab["points"] if i["name"] not in ("written", "speed")]
    aims = [i for i in items if "from" in i]
    assert aims, path
    for i in aims:
        assert i["from"] > i["limit"] if i["relation"] == "<=" else i["from"] < i["limit"], (path, i)
    assert 3 * sum(i["points"] for i in aims) >= sum(i["points"] for i in items), path
assert graded >= 17
END
}

# The most points that a planted bug may cost by the book (code/literate/sheets.lua), compared with
# the points that the judge gave: a bug in a program that still reaches the aim costs no more, and
# one that fails every case costs exactly as many.
@test "a planted bug costs at most what its sheet says, by the judge's points" {
    python3 - plots/runs/simulator/grades.json build/labs/lab*.json <<'END'
import json, sys
grades, exact, compared = json.load(open(sys.argv[1])), set(), 0
for path in sys.argv[2:]:
    lab = json.load(open(path))
    graded = grades.get("lab%02d" % lab["lab"], {})
    aims = sum(item["points"] for item in lab["points"] if "from" in item)
    for bug in lab["mutants"]:
        if bug["program"] != lab["program"] or bug["name"] not in graded.get("planted", {}):
            continue # not graded since it was planted: the book has the formula's value
        cost = graded["total"] - graded["planted"][bug["name"]]
        if graded["total"] - cost < aims / 2: # it misses the aim
            continue
        compared += 1
        assert cost <= bug["costs"] + 0.1, (path, bug, cost)
        if abs(cost - bug["costs"]) < 0.1 and "correct" in bug["loses"]:
            exact.add(lab["lab"])
assert compared >= 40 and {3, 4, 6} <= exact, (compared, exact)
END
}

# The record of all pairs fits today's aims and has every kernel of the book; every program that
# earns something has the lab's idea.
@test "only programs with a lab's idea earn its aims, by today's sheets" {
    python3 - plots/runs/simulator/pairs.json labs/ideas.tsv code build/labs/lab*.json <<'END'
import glob, json, os, sys
record, labs = json.load(open(sys.argv[1])), {}
ideas = {}
for line in open(sys.argv[2]):
    if not line.startswith("#"):
        name, numbers = line.rstrip("\n").split("\t")
        ideas[name] = {int(n) for n in numbers.split()}
for path in sys.argv[4:]:
    lab = json.load(open(path))
    aims = ["%s %s %.15g from %.15g @ %s %d" % (p["name"], p["relation"], p["limit"], p["from"], p.get("shape", "-"), p["points"])
            for p in lab["points"] if "from" in p]
    if aims and not {"journal", "not_graded", "runs"} & set(lab):
        labs["lab%02d" % lab["lab"]] = aims
assert record["aims"] == labs, "check-labs --pairs"
judged = set(record["programs"]) | set(record["refused"])
for path in glob.glob(sys.argv[3] + "/ch*.cu"):
    text = open(path).read()
    if ".launch" in text and ".launch_prompt" not in text and "model/model.h" not in text: # no sheet has a prompt, or a model
        assert os.path.basename(path)[:-3] in judged, path
for name, earned in record["programs"].items():
    paid = {int(lab[3:]) for lab, points in earned.items() if points > 0}
    assert paid == ideas.get(name, set()), (name, paid)
assert len(record["programs"]) >= 40
END
}
