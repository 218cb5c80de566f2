"""Watches films in headless Chromium, all in one session, and prints what each page's own test says:
  watch_films.py FILM.html[#PLACE]...   a line of JSON for each: {"page", "query", "place", "opened",
                                        "pressed", "seen", "said", "paint", "paper", "errors"}
Chromium is driven over a pipe (--remote-debugging-pipe): messages of JSON, each ended by a zero byte.
"""
import json
import os
import subprocess
import sys
import tempfile


# The milliseconds from the request of the page until it was first painted.
PAINT = """new Promise((tell) => new PerformanceObserver((list) => {
    const first = list.getEntriesByName("first-contentful-paint")[0];
    if (first) tell(first.startTime);
}).observe({ type: "paint", buffered: true }))"""

# Whether the line of the step is visible once the page is painted; true if the step has no line.
SEEN = """new Promise((tell) => requestAnimationFrame(() => requestAnimationFrame(() => {
    if (!view.here) return tell(true);
    const row = view.here.getBoundingClientRect(), box = document.getElementById("source").getBoundingClientRect();
    tell(row.top >= box.top && row.bottom <= box.bottom);
})))"""


class Browser:
    def __init__(self, folder):
        to_child, self.out = os.pipe()
        self.inward, from_child = os.pipe()

        def give_pipes():
            # Chromium reads from file descriptor 3 and writes to 4.
            high = os.dup(to_child), os.dup(from_child)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--user-data-dir=" + folder, "--no-first-run", "--window-size=1280,900", "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log":
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.inward, 1 << 20)
            if not more:
                sys.exit("watch_films.py: Chromium has ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"watch_films.py: {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        """The value of a JavaScript expression in the page; waits for a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            sys.exit("watch_films.py: " + json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def key(self, name):
        for kind in "rawKeyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=name)

    def open(self, address):
        self.events.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        while self.message_named("Page.loadEventFired", address) is None:
            self.events.append(self.message())
        self.value("opened")

    def message_named(self, method, address):
        # Events count from the page itself on, not from the blank page before it.
        frames = [i for i, e in enumerate(self.events)
                  if e.get("method") == "Page.frameNavigated" and e["params"]["frame"]["url"].startswith("file:")]
        if not frames:
            return None
        return next((e for e in self.events[frames[0]:] if e.get("method") == method), None)

    def errors(self):
        """Exceptions and console messages since the page was opened."""
        said = []
        for e in self.events:
            if e.get("method") == "Runtime.exceptionThrown":
                said.append(e["params"]["exceptionDetails"].get("text", "exception"))
            if e.get("method") == "Runtime.consoleAPICalled":
                said.append(" ".join(str(a.get("value")) for a in e["params"]["args"]))
            if e.get("method") == "Log.entryAdded":
                said.append(e["params"]["entry"]["text"])
        return said

    def close(self):
        os.close(self.out)
        self.process.wait()


def watch(browser, page):
    address, _, place = page.partition("#")
    path, _, query = address.partition("?")
    browser.open("file://" + os.path.abspath(path) + ("?" + query if query else "") + ("#" + place if place else ""))
    at = browser.value("view.at")
    pressed, seen = [], [browser.value(SEEN)]
    for key in "ArrowRight", "ArrowLeft", "End", "Home":
        browser.key(key)
        pressed.append(browser.value("view.at"))
        seen.append(browser.value(SEEN))
    return {"page": path, "query": query, "place": place, "opened": at, "pressed": pressed, "seen": seen, "said": browser.value("selfTest()"),
            "paint": browser.value(PAINT), "paper": browser.value("getComputedStyle(document.body).backgroundColor"),
            "errors": browser.errors()}


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        for page in sys.argv[1:]:
            print(json.dumps(watch(browser, page)), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
