-- Drawings and charts. All new TikZ pictures are set in one run of LaTeX, in the book's type sizes, and
-- become pages of a PDF; the printed book includes these pages, HTML gets SVG. Charts (SVG) become PDF
-- for LaTeX. Results are kept in build/figures by the hash of their source: for a picture HASH.page, with
-- "FILE.pdf PAGE", and HASH.svg.

local figures = {}

local CACHE = "build/figures"

local BORDER = 1 -- pt around a picture, for lines that go past its edge
local PREAMBLE = [[
\documentclass[class=scrbook,10.5pt,multi=picturepage,border=]] .. BORDER .. [[pt]{standalone}
\usepackage{amsmath,tikz}
\input{fonts.tex}
\input{figures.tex}
\tikzset{every picture/.style={book figure}}
\usepackage[final]{microtype}
\frenchspacing
\hfuzz0.3pt
\newenvironment{picturepage}{}{}
\begin{document}]]

local function read(path)
    local file = io.open(path, "rb")
    local text = file and file:read("a")
    if file then
        file:close()
    end
    return text
end

local function write(path, text)
    local file = assert(io.open(path, "wb"))
    file:write(text)
    file:close()
end

local function quote(word)
    return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function shell(...)
    return os.execute(string.format(...)) == true
end

-- A picture's code, in a tikzpicture environment.
function figures.picture(text)
    if text:find("\\begin{tikzpicture}", 1, true) then
        return text
    end
    return "\\begin{tikzpicture}\n" .. text .. "\n\\end{tikzpicture}"
end

-- Finds in LaTeX's log the faulty picture and the message; nil: no fault. source.from: the first line of the
-- picture in pages.tex.
local function complaint(log, sources)
    local what, at = log:match("\n! ([^\n]*)"), tonumber(log:match("\nl%.(%d+)"))
    if what then
        local macro = log:match("\n! Undefined control sequence%.\n[^\n]*(\\[%a@]+) *\n")
        what = macro and what .. " " .. macro or what
    else
        what = log:match("\n(Overfull[^\n]*)") or log:match("\n(Missing character[^\n]*)")
        at = what and tonumber(what:match("at lines? (%d+)"))
    end
    local char = what and what:match("^Missing character: There is no (.-) %(U%+")
    local guilty = sources[1]
    for _, source in ipairs(sources) do
        if char and source.text:find(char, 1, true) then
            return source, what
        elseif at and source.from <= at then
            guilty = source
        end
    end
    return what and guilty, what
end

-- Typesets the sources, one a page, into a PDF in `folder`. Returns nil, or what LaTeX complained of.
local function typeset(sources, folder, here)
    local tex = { PREAMBLE }
    local _, line = PREAMBLE:gsub("\n", "")
    line = line + 2
    for _, source in ipairs(sources) do
        local picture = "\\begin{picturepage}" .. figures.picture(source.text)
            .. "\\end{picturepage}"
        local _, breaks = picture:gsub("\n", "")
        source.from, line = line, line + breaks + 1
        table.insert(tex, picture)
    end
    table.insert(tex, "\\end{document}\n")
    write(folder .. "/pages.tex", table.concat(tex, "\n"))
    if not here:match("^/") then
        here = pandoc.system.get_working_directory() .. "/" .. here
    end
    local ran = shell("cd %s && TEXINPUTS=%s: max_print_line=10000 lualatex -halt-on-error "
        .. "-interaction=batchmode pages.tex >/dev/null 2>&1", folder, quote(here))
    local log = read(folder .. "/pages.log")
    if not log then
        return "lualatex cannot be run (make deps installs it)"
    end
    local guilty, what = complaint(log, sources)
    if guilty or not ran then
        return (guilty or sources[1]).where .. ": in the figure: " .. (what or "LaTeX failed")
    end
end

-- Sets for each source { text, where } its `pdf` and `page` in the cache and, unless it is for LaTeX, its
-- `svg`. All sources that are not in the cache go through one run of LaTeX. Two makes at the same time do not
-- disturb each other: each has its own folder, and files appear in the cache whole. Returns true; or false and
-- what is wrong.
function figures.compile(sources, here, latex)
    if #sources == 0 then
        return true
    end
    local style = PREAMBLE .. (read(here .. "/figures.tex") or "") .. (read(here .. "/fonts.tex") or "")
    local missing, hashes = {}, {}
    for _, source in ipairs(sources) do
        source.path = CACHE .. "/" .. pandoc.utils.sha1(style .. source.text)
        source.pdf, source.page = (read(source.path .. ".page") or ""):match("^(%S+) (%d+)\n$")
        if not source.pdf or not read(source.pdf) then
            table.insert(missing, source)
            table.insert(hashes, source.path)
        end
    end
    shell("mkdir -p %s", CACHE)
    local pipe = io.popen("mktemp -d " .. CACHE .. "/run.XXXXXX")
    local folder = pipe:read()
    pipe:close()
    local trouble = #missing > 0 and typeset(missing, folder, here)
    if #missing > 0 and not trouble then
        local pdf = CACHE .. "/" .. pandoc.utils.sha1(table.concat(hashes)) .. ".pdf"
        assert(os.rename(folder .. "/pages.pdf", pdf))
        for i, source in ipairs(missing) do
            source.pdf, source.page = pdf, i
            write(folder .. "/page", pdf .. " " .. i .. "\n")
            assert(os.rename(folder .. "/page", source.path .. ".page"))
        end
    end
    for _, source in ipairs(trouble and {} or latex and {} or sources) do
        source.svg = read(source.path .. ".svg")
        if not source.svg then
            if not shell("pdftocairo -svg -f %d -l %d %s %s/svg", source.page, source.page, source.pdf, folder)
                or not os.rename(folder .. "/svg", source.path .. ".svg") then
                trouble = source.where .. ": pdftocairo cannot convert the figure"
                break
            end
            source.svg = read(source.path .. ".svg")
        end
    end
    shell("rm -rf %s", folder)
    return not trouble, trouble
end

-- A picture for LaTeX: its page of the PDF, cut to the picture's size without the border.
function figures.included(source)
    return string.format("\\includegraphics[page=%d,trim=%dpt %dpt %dpt %dpt]{%s}", source.page, BORDER, BORDER, BORDER,
        BORDER, source.pdf)
end

-- An SVG as an image of its own, so that its ids cannot clash with ids of the page.
function figures.image(svg, alt, width)
    local data = svg:gsub("^<%?xml.-%?>%s*", ""):gsub("\n", " "):gsub("[%%#<>\"'?&]", function(char)
        return string.format("%%%02X", char:byte())
    end)
    return string.format('<img src="data:image/svg+xml,%s" alt="%s"%s>', data,
        alt:gsub('[&<>"]', { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }),
        width ~= nil and width ~= "" and ' style="width:' .. width .. '"' or "")
end

-- A chart in the format of the page; or nil, and what is wrong.
function figures.chart(path, latex, width, alt)
    local svg = read(path)
    if not svg then
        return nil, "no chart " .. path .. " (make plots draws it)"
    end
    if not latex then
        return figures.image(svg, alt, width)
    end
    local pdf = CACHE .. "/" .. pandoc.utils.sha1(svg) .. ".pdf"
    if not read(pdf) then
        shell("mkdir -p %s", CACHE)
        if not shell("rsvg-convert -f pdf -o %s.tmp %s", pdf, quote(path))
            or not os.rename(pdf .. ".tmp", pdf) then
            return nil, "rsvg-convert cannot convert " .. path
        end
    end
    local share = tonumber((width or ""):match("^(%d+)%%$"))
    return string.format("\\includegraphics[width=%.2f\\linewidth]{%s}", (share or 100) / 100, pdf)
end

return figures
