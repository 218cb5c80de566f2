#!/bin/bash
# Runs tests that speak TAP: cmocka executables and bats files, in the order given. Shows each
# file's result as it comes and every failure in full; the last line is "N passed, N failed"
# (", N skipped" where there are any), and the exit status is 0 only if nothing failed.
#   code/run-tests.sh TEST...
set -u
cd "$(dirname "$0")/.." || exit 2
[ $# -gt 0 ] || { echo "usage: code/run-tests.sh TEST..." >&2; exit 2; }
logs=build/tests/log
mkdir -p "$logs"
export CMOCKA_MESSAGE_OUTPUT=TAP LC_ALL=C.UTF-8
unset MAKEFLAGS MAKELEVEL MFLAGS # a make inside a test starts afresh

# "passed failed skipped" of a TAP log. Tests that a plan announced and nobody ran are one failure,
# and so is an exit status that no failing test explains.
count() {
    awk -v status="$2" '
        /^ok / { if (tolower($0) ~ /# skip/) skipped++; else passed++ }
        /^not ok / { failed++ }
        /^1\.\.[0-9]+/ { planned += substr($1, 4) }
        END {
            if (planned + 0 != passed + failed + skipped || (status && !failed)) failed++
            print passed + 0, failed + 0, skipped + 0
        }' "$1"
}

passed=0 failed=0 skipped=0
for test in "$@"; do
    log=$logs/$(echo "$test" | tr / -).tap
    [ -t 1 ] && printf '  %-40s ...' "$test"
    began=$SECONDS
    case $test in
    *.bats) bats --tap "$test" ;;
    *) "$test" ;;
    esac >"$log" 2>&1 </dev/null
    status=$?
    read -r p f s < <(count "$log" $status)
    [ -t 1 ] && printf '\r\033[K'
    printf '  %-40s %3d passed' "$test" "$p"
    [ "$f" = 0 ] || printf ', %d FAILED' "$f"
    [ "$s" = 0 ] || printf ', %d skipped' "$s"
    printf '  (%d s)\n' $((SECONDS - began))
    if [ "$f" != 0 ]; then
        # A failing test with the lines that belong to it; all of it when no test says what failed.
        grep -q '^not ok ' "$log" &&
            awk '/^ok /{show=0} /^not ok /{show=1} show {print "    " $0}' "$log" ||
            { tail -40 "$log" | sed 's/^/    /'; echo "    exit status $status"; }
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
[ "$skipped" = 0 ] && echo "$passed passed, $failed failed" ||
    echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
