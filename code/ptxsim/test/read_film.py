"""What a film's page holds, for the tests:
  read_film.py counts REPORT.json FILM.html...  whether the films' counts add up to the report's, by line
  read_film.py faults FILM.html                 each fault: kind, line, the other's line, the sentence
  read_film.py said FILM.html KEY               a value of the recording, or of the page (tiles, title)
"""
import base64
import collections
import gzip
import json
import re
import sys


def film(page):
    text = open(page, encoding="utf-8").read()
    packed = re.search(r'id="film">([^<]*)<', text).group(1)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def line_of(recording, insn):
    file, line = recording["instructions"][insn][:2]
    return file, line


def counts(recording):
    """By line: instructions, wavefronts, conflicts, sectors, shared bytes, global bytes."""
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
    if what == "said":
        page = film(rest[0])
        print(json.dumps(page.get(rest[1], page["recording"].get(rest[1]))))


main()
