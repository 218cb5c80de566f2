-- Drawings and charts: TikZ pictures go straight into LaTeX or, for HTML, through one LaTeX run to
-- SVG; charts (SVG) become PDF for LaTeX. What was converted is kept in build/figures by its hash.

local figures = {}

local CACHE = "build/figures"

local PREAMBLE = [[
\documentclass[multi=picturepage,border=1pt]{standalone}
\usepackage{amsmath,tikz}
\input{fonts.tex}
\input{figures.tex}
\tikzset{every picture/.style={book figure}}
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

-- A picture's code, with its environment when the block has none.
function figures.picture(text)
    if text:find("\\begin{tikzpicture}", 1, true) then
        return text
    end
    return "\\begin{tikzpicture}\n" .. text .. "\n\\end{tikzpicture}"
end

-- Gives each source { text, where } its `svg`. All that are not in the cache go through one run.
function figures.compile(sources, here)
    local style = (read(here .. "/figures.tex") or "") .. (read(here .. "/fonts.tex") or "")
    local missing = {}
    for _, source in ipairs(sources) do
        source.path = CACHE .. "/" .. pandoc.utils.sha1(style .. source.text) .. ".svg"
        source.svg = read(source.path)
        if not source.svg then
            table.insert(missing, source)
        end
    end
    if #missing == 0 then
        return true
    end
    shell("mkdir -p %s", CACHE)
    local tex = { PREAMBLE }
    local _, line = PREAMBLE:gsub("\n", "")
    line = line + 2
    for _, source in ipairs(missing) do
        local picture = "\\begin{picturepage}" .. figures.picture(source.text)
            .. "\\end{picturepage}"
        local _, breaks = picture:gsub("\n", "")
        source.from, line = line, line + breaks + 1
        table.insert(tex, picture)
    end
    table.insert(tex, "\\end{document}\n")
    write(CACHE .. "/figures.tmp.tex", table.concat(tex, "\n"))
    if not here:match("^/") then
        here = pandoc.system.get_working_directory() .. "/" .. here
    end
    os.remove(CACHE .. "/figures.tmp.log")
    local ran = shell("cd %s && TEXINPUTS=%s: max_print_line=10000 lualatex -halt-on-error "
        .. "-interaction=batchmode figures.tmp.tex >/dev/null 2>&1", CACHE, quote(here))
    if not ran then
        local log = read(CACHE .. "/figures.tmp.log")
        if not log then
            return false, "lualatex cannot be run (make deps installs it)"
        end
        local what = log:match("\n! ([^\n]*)") or "LaTeX failed"
        local macro = log:match("\n! Undefined control sequence%.\n[^\n]*(\\[%a@]+) *\n")
        what = macro and what .. " " .. macro or what
        local at = tonumber(log:match("\nl%.(%d+)")) or 0
        local guilty = missing[1]
        for _, source in ipairs(missing) do
            if source.from <= at then
                guilty = source
            end
        end
        return false, guilty.where .. ": in the figure: " .. what
    end
    for i, source in ipairs(missing) do
        local temporary = CACHE .. "/figures.tmp.svg"
        if not shell("pdftocairo -svg -f %d -l %d %s/figures.tmp.pdf %s", i, i, CACHE, temporary)
            or not os.rename(temporary, source.path) then
            return false, source.where .. ": pdftocairo cannot convert the figure"
        end
        source.svg = read(source.path)
    end
    return true
end

-- An SVG as an image of its own: the names inside it stay out of the page's way.
function figures.image(svg, alt, width)
    local data = svg:gsub("^<%?xml.-%?>%s*", ""):gsub("\n", " "):gsub("[%%#<>\"'?&]", function(char)
        return string.format("%%%02X", char:byte())
    end)
    return string.format('<img src="data:image/svg+xml,%s" alt="%s"%s>', data,
        alt:gsub('[&<>"]', { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }),
        width ~= nil and width ~= "" and ' style="width:' .. width .. '"' or "")
end

-- A chart as the page wants it, or nil and what is wrong.
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
