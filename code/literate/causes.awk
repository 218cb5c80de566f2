# Compares chapters/causes.tsv with the chapters: awk -f causes.awk FOLDER/causes.tsv FOLDER/*.md.
# Also looks for the named solutions in FOLDER/solutions, and for records in FOLDER/../plots/runs.
# Prints a line for each error. The head of causes.tsv describes the rows.
#
# Reads the prose of chapters and appendices sentence by sentence, without code, drawings and
# tables. Predictions and questions (hypotheses, guesses, labs, exercises) claim nothing about a
# measured time, and are left out.

BEGIN {
    CAUSE = "[Bb]ecause|[Tt]h(at|is) is why|, since |^Since |reason|explain|due to|thanks to|[Ss]o it is|[Ww]hat costs|" \
        "cause of|causes|binds|outweigh|[Ii]t is not (the|that)|[:;,] for (it|they|there) "
    TIME = "µs| ms|%|times as|faster|slower|as long|cycle|[Cc]ost|[Gg]ain|[Ll]ose|[Ll]oss|[Ww]ait|(the|in|its|a) time[^a-z]"
    HEDGE = "[Pp]erhaps|[^A-Za-z]may |might |likel(y|iest) |seem|unexplained|open\\.|expect|would|not know|not found|" \
        "no explanation|not measured|unclear|suspect"
    UNSURE = "[Pp]erhaps|might|likely|probabl|seem|not know"
    split("counter control experiment arithmetic perhaps other", names)
    for (n in names) kinds[names[n]] = 1
}

function fault(where, what) { print where ": " what }

function exists(path,   line, there) {
    there = (getline line <path) >= 0
    close(path)
    return there
}

# Reads a row of causes.tsv.
function read_row(   at) {
    at = FILENAME ":" FNR
    if (NF != 4 || !($2 in kinds)) {
        fault(at, "not: chapter, kind, where, fragment, with tabs between")
        return
    }
    n_rows++
    place[n_rows] = at; chapter[n_rows] = $1; kind[n_rows] = $2; evidence[n_rows] = $3; fragment[n_rows] = $4
}

# The words of a sentence, without index marks, and with N for each number that comes from a record.
function plain(text) {
    gsub(/\[\]\{\.index[^}]*\}|\{\.index[^}]*\}/, "", text)
    gsub(/`[^`]*`\{\.run[^}]*\}/, "N", text)
    gsub(/ +/, " ", text)
    return text
}

function judge_sentence(text,   i, rows) {
    for (i = 1; i <= n_rows; i++) {
        if (chapter[i] != number || !index(text, fragment[i])) continue
        rows++; found[i]++
        if (kind[i] == "perhaps" && text !~ HEDGE)
            fault(place[i], "is a perhaps, and its sentence says none (" file ":" where ")")
    }
    if (!rows && text ~ CAUSE && text ~ TIME)
        fault(file ":" where, "a cause of a time without a row in causes.tsv: " text)
}

function end_paragraph(   rest) {
    rest = plain(paragraph); paragraph = ""
    if (summary && rest ~ UNSURE) fault(file ":" where, "a summary that is not sure")
    while (match(rest, /[.?!][)*"”]* [A-Z[(*"`“]/)) {
        judge_sentence(substr(rest, 1, RSTART + RLENGTH - 3))
        rest = substr(rest, RSTART + RLENGTH - 1)
    }
    if (rest != "") judge_sentence(rest)
}

function quote(line) {
    while (match(line, /[a-z0-9-]+\/[A-Za-z0-9_.-]+/)) {
        quoted[number, substr(line, RSTART, RLENGTH)] = 1
        line = substr(line, RSTART + RLENGTH)
    }
}

FNR == 1 && NR > 1 {
    end_paragraph()
    file = FILENAME; number = file
    sub(/.*\//, "", number); sub(/-.*/, "", number)
    fence = caption = hypothesis = depth = left_out = summary = 0
}
NR == FNR { FS = "\t"; $0 = $0; if (!/^#/ && NF) read_row(); folder = FILENAME; next }
{ quote($0) }
fence && /(^|[ `])[a-z][a-z0-9-]*\/[A-Za-z0-9_{]/ { measured[id] = 1 }
match($0, /\{[^}]*#[a-z]+[:-][A-Za-z0-9-]+/) {
    id = substr($0, RSTART, RLENGTH); sub(/.*#/, "#", id)
    ids[id] = 1
    if (/\]\(plots\//) measured[id] = 1
}
/^ *```/ { end_paragraph(); fence = !fence; caption = 0; next }
fence && /^(Table|Figure): / { caption = 1; where = FNR; paragraph = $0; next }
fence && (!caption || /^ *\|/ || /^ *$/) { caption = 0; next }
/^::: *\{/ {
    end_paragraph(); depth++
    if (!left_out && /\.(predict|answer|exercises|lab)/) left_out = depth
    if (/\.learned/) summary = depth
    next
}
/^:::$/ {
    end_paragraph()
    if (left_out == depth) left_out = 0
    if (summary == depth) summary = 0
    depth--
    next
}
/^#/ { end_paragraph(); hypothesis = /-hypothesis\}/; next }
/^ *$/ || /^\|/ { end_paragraph(); next }
left_out || hypothesis || number !~ /^([0-9]+|[A-F]|SM)$/ { next }
/^ *([-*]|[0-9]+\.) / || /^!\[/ { end_paragraph() }
{
    if (paragraph == "") where = FNR
    sub(/^ +/, ""); paragraph = paragraph == "" ? $0 : paragraph " " $0
}

END {
    end_paragraph()
    sub(/[^\/]*$/, "", folder)
    for (i = 1; i <= n_rows; i++) {
        if (found[i] != 1) fault(place[i], "found " found[i] + 0 " times in chapter " chapter[i] ": " fragment[i])
        if (kind[i] ~ /^(perhaps|other)$/) continue
        e = evidence[i]
        if (e ~ /^#/) {
            if (!(e in ids)) fault(place[i], e " is no table, figure or section of these chapters")
            else if (e ~ /^#tbl:/ && kind[i] != "arithmetic" && !(e in measured))
                fault(place[i], e " has no number from a record")
        } else if (e ~ /^exercise [0-9]+\.[0-9]+$/) {
            split(substr(e, 10), part, ".")
            solution = sprintf("%ssolutions/%02d.md", folder, part[1])
            there = 0
            while ((getline line <solution) > 0) if (line ~ "^::: [{][.]solution of=" part[2] "}") there = 1
            close(solution)
            if (!there) fault(place[i], e " has no solution")
        } else if (!((chapter[i], e) in quoted)) fault(place[i], e " is not quoted in chapter " chapter[i])
        else if (!exists(folder "../plots/runs/" e ".json") && !exists(folder "../plots/runs/" e))
            fault(place[i], "plots/runs/" e " does not exist")
    }
}
