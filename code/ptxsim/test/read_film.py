"""What a film's page has, for the tests:
  read_film.py counts REPORT.json FILM.html...  whether the films' counts add up to the report's, by line
  read_film.py faults FILM.html                 each fault: kind, line, the other's line, the sentence
  read_film.py values FILM.html                 whether chapter 3's stored scores are those that are loaded
  read_film.py culprit FILM.html                kind, what is missing, and the lines of the fault that it opens at
  read_film.py said FILM.html KEY               a value of the recording, or of the page (tiles, title)
  read_film.py watched SAID CHECK [FILE]        whether all pages that watch_films.py has watched pass a check
"""
import base64
import collections
import gzip
import json
import re
import statistics
import struct
import sys


def film(page):
    text = open(page, encoding="utf-8").read()
    packed = re.search(r'id="film">([^<]*)<', text).group(1)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def line_of(recording, insn):
    file, line = recording["instructions"][insn][:2]
    return file, line


def counts(recording):
    """For each line: instructions, wavefronts, conflicts, sectors, shared bytes, global bytes."""
    sums = collections.defaultdict(lambda: [0] * 6)
    for event in recording["events"]:
        if event[0] == 0:
            first, count = recording["blocks"][event[2]]
            for insn in range(first, first + count):
                sums[line_of(recording, insn)][0] += 1
        elif event[0] == 2:
            own = sums[line_of(recording, event[1])]
            for i in range(5):
                own[i + 1] += event[2 + i]
    return sums


def counted(of_line):
    def total(names):
        return sum(of_line.get(name, 0) for name in names.split())
    return [
        total("warp_instructions"),
        total("shared_load_wavefronts shared_store_wavefronts shared_atomic_wavefronts"),
        total("shared_load_conflicts shared_store_conflicts shared_atomic_conflicts"),
        total("global_load_sectors global_store_sectors global_atomic_sectors"),
        total("shared_bytes"),
        total("global_load_bytes global_store_bytes global_atomic_bytes"),
    ]


def compare(report, pages):
    sums = collections.defaultdict(lambda: [0] * 6)
    for page in pages:
        for line, own in counts(film(page)["recording"]).items():
            sums[line] = [a + b for a, b in zip(sums[line], own)]
    lines = json.load(open(report))["kernels"][0]["lines"]
    wrong = 0
    for line in lines:
        place, want = (line["file"], line["line"]), counted(line["counts"])
        if sums[place] != want:
            print(place, "report:", want, "film:", sums[place])
            wrong += 1
    total = [sum(column) for column in zip(*sums.values())]
    print(len(lines), "lines,", wrong, "differ; wavefronts", total[1])
    return wrong == 0 and len(lines) > 5 and total[0] > 100


def bits_of(event, kind, per=1):
    """Lane -> the numbers in its register, `per` of them, from an event with values."""
    lanes = [lane for lane in range(32) if event[4] >> lane & 1]
    words = [struct.pack("<I", bits) for bits in event[5:]]
    return {lane: struct.unpack(f"<{per}{kind}", word) for lane, word in zip(lanes, words)}


def scores(page):
    """Chapter 3's scores of the first key tile, from two sources: the registers of the fragments that are
    stored, with their layout, and what the softmax loads from shared memory. (row, column) -> number."""
    recording = page["recording"]
    tile = next(t for t in page["tiles"] if t["name"] == "t.scores")
    stored, loaded, at, warp, first = {}, {}, {}, 0, 0
    for event in recording["events"]:
        if event[0] == 0:
            warp, (first, _) = event[1], recording["blocks"][event[2]]
        if event[0] == 3:
            pattern = recording["patterns"][event[4]]
            lanes = [lane for lane in range(32) if pattern[1] >> lane & 1]
            at = {lane: event[3] + offset for lane, offset in zip(lanes, pattern[2:])}
        opcode = recording["instructions"][event[1]][4] if event[0] == 13 else ""
        if opcode.startswith("wmma.store") and (warp, event[2]) not in stored:
            layout = recording["fragments"][str(event[1])]["matrix"]
            stored[warp, event[2]] = {
                (warp // 2 * 16 + lane // 4 + layout["row"][event[2]],
                 warp % 2 * 16 + lane % 4 * layout["step"] + layout["column"][event[2]]): number
                for lane, (number,) in bits_of(event, "f").items()}
        if opcode == "ld.shared.f32":
            for lane, (number,) in bits_of(event, "f").items():
                loaded.setdefault(divmod((at[lane] - tile["at"]) // 4, 32), number)
    return {place: number for part in stored.values() for place, number in part.items()}, loaded


def values(page):
    stored, loaded = scores(page)
    wrong = [(place, stored[place], loaded.get(place)) for place in stored if loaded.get(place) != stored[place]]
    print(len(stored), "scores,", len(wrong), "differ", wrong[:5])
    return len(stored) == 1024 and len(set(stored.values())) > 900 and not wrong


def held(said, _):
    """The page's text about lane 0's elements of the first fragment with values: chapter 3's scores."""
    if "held" not in said["said"]:
        return []
    stored, _ = scores(film(said["page"]))
    told = re.findall(r"\((\d+),(\d+)\) = (-?[\d.e+-]+)", said["said"]["held"])
    wrong = [(row, column, number, stored[int(row), int(column)]) for row, column, number in told
             if abs(float(number) - stored[int(row), int(column)]) > 1e-5 * abs(float(number))]
    return wrong if len(told) == 8 else [said["said"]["held"]]


def culprit(page):
    """For the fault at which a page opens: its kind, the source lines that the sentence names, what is missing."""
    fault = next(f for f in page["recording"]["faults"] if not f.get("again"))
    text = {f"{file.split('/')[-1]}:{line}": words for file, line, words in page["source"]}
    places = re.findall(r"line ([^ ,]+:\d+)", fault["sentence"])
    missing = r"A \w+ is missing( \(__\w+\(\)(, or an mbarrier)?\)| \([\w.]+\))?"
    others = "|An address is wrong|Two threads use the same place|Nothing orders two CTAs|Nobody goes on|"
    what = re.match(missing + others, fault["sentence"]).group()
    other = page.get("other")
    ctas = [",".join(map(str, r["cta"])) for r in (other, page["recording"]) if r]
    return [fault["kind"], what, *[text[place].strip() for place in places], *(["CTAs " + " and ".join(ctas)] if other else [])]


def walks(said, _):
    """Walks to the end and back, by calls and by keys; no error, nothing on the console."""
    steps, at = said["said"]["steps"], said["opened"]
    walk = [said["said"][key] for key in ("end", "start", "back")]
    keys = [min(at + 1, steps - 1), min(at + 1, steps - 1) - 1, steps - 1, 0]
    return [] if walk == [steps - 1, 0, 0] and said["pressed"] == keys and not said["errors"] else [walk, said["pressed"], said["errors"]]


def counted_lines(said, _):
    wrong = list(said["said"]["wrong"])
    if said["said"]["drawn"] != said["said"]["waves"]:
        wrong.append(("drawn", said["said"]["drawn"], "counted", said["said"]["waves"]))
    for (file, line), own in counts(film(said["page"])["recording"]).items():
        shown = said["said"]["lines"].get(f"{file}:{line}")
        if line and shown != own[:3]:
            wrong.append((file, line, "shown", shown, "recorded", own[:3]))
    return wrong


def lessons(said, table):
    """Each row of the table: chapter, lesson, opcode, words of the line, and what its sentence must name."""
    chapter = re.search(r"chapter(\d+)\.html$", said["page"])
    if not chapter:
        return []
    rows = [line.rstrip("\n").split("\t") for line in open(table, encoding="utf-8") if not line.startswith("#")]
    want = {row[1]: row[2:] for row in rows if row[0] == chapter.group(1)}
    found = {lesson["name"]: lesson for lesson in said["said"]["lessons"]}
    wrong = [("in one of the two only", name) for name in set(want) ^ set(found)]
    for name, (opcode, text, facts) in want.items():
        lesson = found.get(name)
        if not lesson:
            continue
        if opcode not in lesson["opcode"] or not any(text in line for line in lesson["lines"]):
            wrong.append((name, lesson["opcode"], lesson["lines"]))
        if "undefined" in lesson["sentence"] or "{" in lesson["sentence"]:
            wrong.append((name, lesson["sentence"]))
        for fact in facts.split("; ") if facts else []:
            key, value = fact.split("=", 1)
            if str(lesson["facts"].get(key)) != value:
                wrong.append((name, fact, lesson["facts"]))
    return wrong


def buffers(said, _):
    """The pages of chapters 4, 13 and 18 list the buffers of their rings."""
    want = {"chapter4.html": ["t.codes[0]", "t.codes[1]"], "chapter13.html": ["t.ring[0]", "t.ring[1]"],
            "chapter18.html": [f"{name}[{i}]" for name in ("k", "v", "vt") for i in range(4)]}
    page = said["page"].split("/")[-1]
    shown = said["said"]["buffers"]
    return [] if page not in want or shown == want[page] else [shown, "instead of", want[page]]


def opens(said, _):
    lesson = {item["name"]: item["step"] for item in said["said"]["lessons"]}
    race = [fault[-2][1] for fault in said["said"]["fault"][:1]]
    place = said["place"]
    if place.startswith("step="):
        want = int(place[5:])
    elif place:
        want = lesson[place.split("=")[1]]
    else:
        want = (race or [said["said"]["lessons"][0]["step"]])[0]
    return [] if said["opened"] == want and want > 0 else [said["opened"], "instead of", want]


def colours(said, _):
    """Chromium's own colours are light; the address may ask for dark ones."""
    want = "rgb(20, 24, 28)" if said["query"] == "colours=dark" else "rgb(253, 253, 251)"
    return [] if said["paper"] == want else [said["paper"], "instead of", want]


def seen(said, _):
    """The line of the step is visible where the page opens and after each key."""
    return [] if said["seen"] == 5 * [True] else said["seen"]


def tours(said, _):
    """"The next lesson", pressed repeatedly from the beginning, visits each in turn; a step by the reader stops
    playing."""
    want = sorted({lesson["step"] for lesson in said["said"]["lessons"]} - {0})
    same = said["said"]["toured"] == want and said["said"]["last"] and said["said"]["played"] == ["pause", "play"]
    return [] if same else [said["said"][key] for key in ("toured", "last", "played")]


def chunks(said, _):
    """If the page knows the book's chunks (linked.html, the first 400 lines of chapter 3), links lead to them."""
    linked = said["page"].endswith("linked.html")
    links = said["said"]["chunks"]
    wrong = [link for link in links if not re.match(r"03:[123]?\d?\d$", link[0]) or link[1] != "../chapter3.html#here"]
    reached = [link for link in links if link[2] == 0] # only the current step's link is reached by keys
    return wrong if bool(links) == linked and len(reached) == linked and len(links) >= 50 * linked else [len(links), reached]


def quick(pages):
    """Medians of all pages: a single page might be slow because the machine was busy."""
    paint, step = (statistics.median(times) for times in ([p["paint"] for p in pages], [p["said"]["ms"] for p in pages]))
    print(f"first paint {paint:.0f} ms, a step with its layout {step:.1f} ms")
    return paint < 2000 and step < 1000 / 60


def watched(file, check, table=None):
    checks = {"walks": walks, "counts": counted_lines, "lessons": lessons, "opens": opens, "held": held, "buffers": buffers,
              "colours": colours, "seen": seen, "tours": tours, "chunks": chunks}
    pages = [json.loads(line) for line in open(file, encoding="utf-8")]
    if check == "quick":
        return quick(pages)
    wrong = [(said["page"], said["place"], wrong) for said in pages if (wrong := checks[check](said, table))]
    for one in wrong:
        print(*one)
    return bool(pages) and not wrong


def main():
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "counts":
        sys.exit(0 if compare(rest[0], rest[1:]) else 1)
    if what == "faults":
        recording = film(rest[0])["recording"]
        for f in recording["faults"]:
            if not f.get("again"):
                other = line_of(recording, f["other"])[1] if f["other"] >= 0 else "-"
                line = line_of(recording, f["insn"])[1] if f["insn"] >= 0 else "-"
                print(f["kind"], line, other, f["sentence"], sep="\t")
    if what == "watched":
        sys.exit(0 if watched(*rest) else 1)
    if what == "values":
        sys.exit(0 if values(film(rest[0])) else 1)
    if what == "culprit":
        print(*culprit(film(rest[0])), sep="\t")
    if what == "said":
        page = film(rest[0])
        print(json.dumps(page.get(rest[1], page["recording"].get(rest[1]))))


main()
