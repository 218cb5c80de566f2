"""What a site's pages hold, for the tests:
  read_site.py DIR          every page read: one title each, no id twice, every link with its target, every
                            picture with its words, nothing fetched from elsewhere; prints what was counted
  read_site.py page FILE    a page's titles, links of classes and rels, one a line
"""
import html.parser
import os
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.sources, self.wrong, self.title, self.told = [], [], [], [], "", []
        self.inside = None
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if "id" in a:
            self.ids.append(a["id"])
        if tag == "a" and "href" in a:
            self.links.append(a["href"])
            for kind in ("class", "rel"):
                if a.get(kind) in ("film", "prev", "next"):
                    self.told.append(f"{a[kind]} {a['href']}")
        for name in ("src", "href") if tag != "a" else ():
            if name in a:
                self.sources.append(a[name])
        if tag == "img" and not a.get("alt"):
            self.wrong.append("a picture without words")
        if tag == "iframe":
            self.wrong.append("a frame before it is asked for")
        self.inside = tag

    def handle_data(self, data):
        if self.inside == "title":
            self.title += data.strip()


def check(folder):
    names = sorted(n for n in os.listdir(folder) if n.endswith(".html"))
    pages = {n: Page(os.path.join(folder, n)) for n in names}
    wrong, count = [], 0
    for name, page in pages.items():
        say = lambda what: wrong.append(f"{name}: {what}")
        for what in page.wrong:
            say(what)
        if not page.title:
            say("no title")
        for double in {i for i in page.ids if page.ids.count(i) > 1}:
            say(f"id {double} twice")
        for source in page.sources:
            if not source.startswith("data:") and not os.path.isfile(os.path.join(folder, source)):
                say(f"no {source[:80]}")
        for link in page.links:
            if link.startswith(("https://", "http://", "mailto:")):
                continue
            count += 1
            path, place = urllib.parse.urldefrag(link)
            target = path or name
            if target.startswith("films/") or target.endswith(".pdf"):
                if not os.path.isfile(os.path.join(folder, target)):
                    say(f"no {link}")
            elif target not in pages:
                say(f"no page {link}")
            elif place and urllib.parse.unquote(place) not in pages[target].ids:
                say(f"no place {link}")
    titles = [p.title for p in pages.values()]
    wrong += [f"two pages have the title {t}" for t in set(titles) if titles.count(t) > 1]
    print("\n".join(wrong) if wrong else f"{len(pages)} pages, {count} links")
    return 1 if wrong else 0


if sys.argv[1] == "page":
    page = Page(sys.argv[2])
    print(page.title, *page.told, sep="\n")
else:
    sys.exit(check(sys.argv[1]))
