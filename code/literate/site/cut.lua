-- Cuts the book's single HTML page into a site: one page for each chapter, and what belongs to all of them.
--
--   texlua code/literate/site/cut.lua BOOK.html README.md DIR [FILMS [PDF...]]
--
-- BOOK.html is written by code/literate/book; comments `<!-- page NAME -->` in it mark where pages begin. DIR is
-- replaced as a whole, or remains as it was. It gets NAME.html; index.html (landing.lua: what README.md says, and the
-- contents); book.css, dark.css, site.css, site.js, search.js; the PDFs; and in films/ those films of the folder FILMS
-- (chapterN.html, `make films`) that a figure names, whose lines then lead to their chunks. The pages need no network,
-- no server and no JavaScript, except for the search, the choice of colours, copying, and a film inside its figure.
-- Environment: REPOSITORY, the address of the repository on the web; the landing page then leads to its files.
--
-- A link inside the book that leads nowhere, or a page that is too large, is reported in one line, with status 1.

local PAGE_LIMIT = 1000000 -- bytes, so that even a phone opens a page at once
local SEARCH_LIMIT = 3000000
local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/?.lua;" .. package.path
local landing = require "landing"

local function die(...)
    io.stderr:write("site: ", string.format(...), "\n")
    os.exit(1)
end

local function read(path)
    local file = io.open(path, "rb")
    if file then
        local text = file:read("a")
        file:close()
        return text
    end
end

local function write(path, text)
    local file, trouble = io.open(path, "wb")
    if not file or not file:write(text) or not file:close() then
        die("cannot write %s", trouble or path)
    end
end

local function quote(path)
    return "'" .. path:gsub("'", "'\\''") .. "'"
end

local function shell(...)
    local command = string.format(...)
    if not os.execute(command) then
        die("cannot %s", command)
    end
end

-- Replaces {{name}} by its value.
local function fill(template, values)
    return (template:gsub("{{(%w+)}}", function(name)
        return values[name] or die("the page has no %s", name)
    end))
end

-- ---- The book ----------------------------------------------------------------------------------

-- The text of HTML, in one line. Inline elements are joined without a space. An equation's TeX, which Pandoc leaves in
-- the HTML beside the equation, is dropped.
local IN_LINE = {}
for tag in ("a b code em i span strong sub sup math semantics mi mn mo mrow msub msup mtext"):gmatch("%w+") do
    IN_LINE[tag] = true
end
local ENTITIES = { lt = "<", gt = ">", quot = '"', ["#39"] = "'", amp = "&" }

local function plain(html)
    local text = html:gsub("<annotation.-</annotation>", ""):gsub('<span class="remark">', " %0")
        :gsub("</?(%w+)[^>]*>", function(tag) return IN_LINE[tag] and "" or " " end)
        :gsub("&(#?%w+);", ENTITIES):gsub("%s+", " ")
    return text:match("^ ?(.-) ?$")
end

-- The pages { name, html, title, number } in order; the first is the preface, after the book's title.
local function pages_of(book)
    local main = book:match('<main id="top">%s*(.*)<footer>')
    if not main then
        die("%s is no book of code/literate/book", arg[1])
    end
    local pages, name, from = {}, "preface", main:match("^<header>.-</header>%s*()") or 1
    local function close(to)
        local html = main:sub(from, to)
        local number, title = html:match('<h1[^>]*>%s*<span class="number">([^<]*)</span>(.-)</h1>')
        title = title or html:match("<h1[^>]*>(.-)</h1>") or name
        table.insert(pages, { name = name, html = html, title = plain(title), number = number })
    end
    for at, next, after in main:gmatch("()<!%-%- page ([%w-]+) %-%->\n?()") do
        close(at - 1)
        name, from = next, after
    end
    close(#main)
    return pages
end

-- For each id, the page that has it.
local function places_of(pages)
    local at = { top = "index" }
    for _, page in ipairs(pages) do
        for id in page.html:gmatch('<%w[^>]*%sid="([^"]*)"') do
            if at[id] then
                die("two places are named %s, on the pages %s and %s", id, at[id], page.name)
            end
            at[id] = page.name
        end
    end
    return at
end

-- Turns each link to #id in the page `from` into a link to the page that has the id (at[id]).
local function lead(html, from, at)
    return (html:gsub('(<a[^>]-%shref=")#([^"]*)"', function(head, id)
        local name = at[id] or die("page %s has a link to #%s, which is nowhere in the book", from, id)
        local file = name == from and "" or name .. ".html"
        return head .. file .. (id == "top" and file ~= "" and "" or "#" .. id) .. '"'
    end))
end

-- Turns the text of a figure about its film into a link, if there is a film.
local function link_films(html, films)
    return (html:gsub('<span class="film">(.-)<code>build/films/(chapter%w+)%.html(.-)</code>%.</span>',
        function(_, name, place)
            if films[name] then
                return string.format(' <a class="film" href="films/%s.html%s">Watch it: the film of %s</a>', name,
                    place, (name:gsub("(%d+)", " %1")))
            end
        end))
end

local function js(text)
    return '"' .. text:gsub('[\\"]', "\\%0"):gsub("[%c]", " "):gsub("</", "<\\/") .. '"'
end

-- For film.js: for each chapter, the chunks of its lines: CHUNKS[chapter's path] = [[first, last, address], ...].
local function chunks_of(pages)
    local by_file, files = {}, {}
    for _, page in ipairs(pages) do
        for id, file, first, last in page.html:gmatch('<div class="chunk [%w ]+" id="([^"]*)" '
            .. 'data%-lines="([^":]*):(%d+)%-(%d+)">') do
            if not by_file[file] then
                by_file[file] = {}
                table.insert(files, file)
            end
            local there = js("../" .. page.name .. ".html#" .. id)
            table.insert(by_file[file], string.format("[%s,%s,%s]", first, last, there))
        end
    end
    for i, file in ipairs(files) do
        files[i] = js(file) .. ":[" .. table.concat(by_file[file], ",") .. "]"
    end
    return "<script>\nconst CHUNKS = {" .. table.concat(files, ",\n") .. "};\n</script>\n"
end

-- The contents, with all sections of the current page, and only the titles of other chapters; all: with the sections
-- of all chapters.
local function contents_of(sidebar, page, at, all)
    local out, on_page = {}, nil
    for line in sidebar:gmatch("[^\n]+") do
        local level, id = line:match('^<a class="level(%d)" href="#([^"]*)"')
        if not level then
            table.insert(out, line)
        else
            on_page = level == "1" and at[id] or on_page
            if level == "1" or all or on_page == page then
                if level == "1" and on_page == page then
                    line = line:gsub("<a ", '<a aria-current="page" ')
                end
                table.insert(out, lead(line, page, at))
            end
        end
    end
    return table.concat(out, "\n")
end

-- ---- The search --------------------------------------------------------------------------------

-- What the search can find: each section with its text, and chunks, figures and index entries by name:
-- [address, kind, title, where, text]. An index entry has a list of [address, section] for `where`.
local function search_of(pages, at)
    local out = {}
    local function add(address, kind, title, where, text)
        where = type(where) == "table" and "[" .. table.concat(where, ",") .. "]" or js(where)
        table.insert(out, "[" .. table.concat({ js(address), js(kind), js(title), where, js(text) }, ",") .. "]")
    end
    local function add_page(page)
        local where = (page.number and page.number .. " " or "") .. page.title
        local html = page.html:gsub('<img.->', " ") .. '<h1 id="">'
        local from, level, id, inner
        for start, next_level, tag, stop in html:gmatch("()<h([123])([^>]*)>()") do
            if id then
                local close = html:find("</h" .. level .. ">", from, true)
                inner = html:sub(from, close - 1)
                add(page.name .. ".html#" .. id, "section", plain(inner), level == "1" and "" or where,
                    plain(html:sub(close, start - 1)))
            end
            from, level, id = stop, next_level, tag:match('id="([^"]+)"')
        end
        for chunk, head in html:gmatch('<div class="chunk [%w ]+" id="([^"]*)"[^>]*><p class="head">'
            .. '<span class="name">(.-)</span>') do
            add(page.name .. ".html#" .. chunk, "code", (plain(head):gsub(" %+?≡$", "")), where, "")
        end
        for figure, caption in html:gmatch('<figure id="([^"]*)".-<figcaption>(.-)</figcaption>') do
            local words = plain((caption:gsub('<span class="film".*', "")))
            local first, rest = words:match("^(%w+ [%w.]+%. .-[.:;]) (.*)$")
            add(page.name .. ".html#" .. figure, "figure", first or words, where, rest or "")
        end
    end
    -- The entry "a, see b" leads to the places of b.
    local function add_subjects(page)
        local above, list, by_name = "", {}, {}
        for level, entry in page.html:gmatch('<li class="level(%d)">(.-)</li>') do
            local words, other = entry:match("^(.-), <em>see</em> (.*)$")
            words = plain(words or entry:match("^(.-)<a ") or entry)
            above = level == "1" and words or above
            local one = { name = level == "1" and words or above .. ": " .. words, other = other and plain(other),
                places = {} }
            for id, section in entry:gmatch('<a href="#(ix%-%d+)">(.-)</a>') do
                local address = at[id] .. ".html#" .. id
                one.first = one.first or address
                table.insert(one.places, "[" .. js(address) .. "," .. js(plain(section)) .. "]")
            end
            table.insert(list, one)
            by_name[one.name] = one
        end
        for _, one in ipairs(list) do
            local there = one.other and by_name[one.other] or one
            if there.first then
                add(there.first, "index", one.name, there.places, one.other and "see " .. one.other or "")
            end
        end
    end
    for _, page in ipairs(pages) do
        if page.name == "subjects" then
            add_subjects(page)
        elseif page.name ~= "index-of-chunks" then
            add_page(page)
        end
    end
    return "window.BOOK = [\n" .. table.concat(out, ",\n") .. "\n];\n"
end

-- ---- The site ----------------------------------------------------------------------------------

-- Mends HTML for readers to whom a page is read out: a table's head without words becomes an ordinary cell; Pandoc's
-- roles for the bibliography and its entries, which DPUB-ARIA 1.1 has withdrawn, become those of a list and its items.
local function mend(html)
    return (html:gsub("<th(%s?[^<>]*)></th>", "<td%1></td>"):gsub('role="doc%-bibliography"', 'role="list"')
        :gsub('role="doc%-biblioentry"', 'role="listitem"'))
end

local function turn(page, word, arrow)
    return page and string.format('<a rel="%s" href="%s.html">%s</a>', word, page.name,
        arrow:gsub("TITLE", ((page.number and page.number .. ": " or "") .. page.title):gsub("%%", "%%%%"))) or ""
end

local function check_size(name, bytes, limit)
    if bytes > limit then
        die("%s has %d bytes; at most %d", name, bytes, limit)
    end
end

local source, readme, dir, film_dir = arg[1], arg[2], arg[3], arg[4]
local pdfs = table.move(arg, 5, #arg, 1, {})
if not dir then
    io.stderr:write("usage: cut.lua BOOK.html README.md DIR [FILMS [PDF...]]\n")
    os.exit(2)
end
local book = read(source) or die("cannot read %s", source)
local pages = pages_of(book)
local at = places_of(pages)
local sidebar = book:match('<nav aria%-label="Contents">.-</p>\n(.-)</nav>') or die("%s has no contents", source)
local title = plain(book:match("<title>(.-)</title>") or "")
local footer = book:match("<footer>(.-)</footer>") or ""
local edition = footer:match("<p>Edition.-</p>") or ""
local template = read(here .. "/page.html")

local films, wanted = {}, {}
for name in book:gmatch("<code>build/films/(chapter%w+)%.html") do
    if film_dir and not films[name] and read(film_dir .. "/" .. name .. ".html") then
        films[name] = true
        table.insert(wanted, name)
    end
end

local front = { name = "index", title = title }
local new = dir .. ".new"
shell("rm -rf %s && mkdir -p %s/films", quote(new), quote(new))
local total, largest, largest_name = 0, 0, ""
local function add_page(name, values)
    values.book = title
    -- HTML needs no quotes around a class of one word: appendix E highlights some 16,000 words of code.
    local html = mend(fill(template, values)):gsub('<span class="(%l%l)">', "<span class=%1>")
    check_size(name .. ".html", #html, PAGE_LIMIT)
    write(new .. "/" .. name .. ".html", html)
    total = total + #html
    if #html > largest then
        largest, largest_name = #html, name .. ".html"
    end
end
for i, page in ipairs(pages) do
    add_page(page.name, {
        title = (page.number and page.number .. ": " or "") .. page.title:gsub("[&<>]",
            { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }) .. " · " .. title,
        contents = contents_of(sidebar, page.name, at),
        previous = turn(pages[i - 1] or front, "prev", "← TITLE"), next = turn(pages[i + 1], "next", "TITLE →"),
        text = link_films(lead(page.html, page.name, at), films), footer = edition,
    })
end

local fine, parts = pcall(landing.parts, book, readme, os.getenv("REPOSITORY"))
if not fine then
    die("%s", parts)
end
parts.book, parts.first = title, pages[1].name
parts.subtitle = book:match('<p class="subtitle">(.-)</p>') or ""
parts.contents = contents_of(sidebar, "index", at, true)
parts.printed = ""
for _, path in ipairs(pdfs) do
    local name = path:match("[^/]*$")
    write(new .. "/" .. name, read(path) or die("cannot read %s", path))
    parts.printed = parts.printed .. string.format(' <a href="%s">%s</a>', name, name)
end
add_page("index", {
    title = title, contents = contents_of(sidebar, "index", at), previous = "",
    next = turn(pages[1], "next", "TITLE →"),
    text = link_films(lead(fill(read(here .. "/landing.html"), parts), "index", at), films), footer = footer,
})
local search = search_of(pages, at)
check_size("search.js", #search, SEARCH_LIMIT)
write(new .. "/search.js", search)
for _, name in ipairs { "../book.css", "../dark.css", "site.css", "site.js" } do
    write(new .. "/" .. name:match("[^/]*$"), read(here .. "/" .. name) or die("cannot read %s/%s", here, name))
end
local chunks = chunks_of(pages)
for _, name in ipairs(wanted) do
    local path = film_dir .. "/" .. name .. ".html"
    local film = read(path)
    local at_data = film:find('<script type="application/octet-stream"', 1, true) or die("%s is no film", path)
    write(new .. "/films/" .. name .. ".html", film:sub(1, at_data - 1) .. chunks .. film:sub(at_data))
end
shell("rm -rf %s && mv %s %s", quote(dir), quote(new), quote(dir))
print(string.format("%s/index.html: %d pages, %.1f MB; the largest, %s, has %.0f KB; %d films", dir, #pages + 1,
    total / 1e6, largest_name, largest / 1e3, #wanted))
