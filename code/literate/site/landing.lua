-- The page at which the site opens. It has no text of its own about the book: README.md says what the book is,
-- and the book has the rest. One line of book.md names what is shown of the book:
--
--   landing: film=FIGURE ladder=FIGURE board=FIGURE exercise=CHAPTER.NUMBER
--
--   landing.parts(book, readme, links)   the parts that landing.html needs, as HTML
--       book     the HTML of the whole book
--       readme   the path of README.md
--       links    the address of the repository's files on the web; nil: the files are only named

local landing = {}

local function die(...)
    error(string.format(...), 0)
end

-- Parts of the README: its opening with the commands, up to the first picture; the section of the scoreboard,
-- to the end of its table; and the licences, after the last listing.
local function readme_parts(path, links)
    local file = io.open(path, "rb")
    if not file then
        die("cannot read %s", path)
    end
    file:close()
    local pipe = io.popen("pandoc -f gfm -t html --no-highlight --wrap=none '" .. path:gsub("'", "'\\''") .. "'")
    local html = pipe:read("a")
    if not pipe:close() then
        die("pandoc cannot read %s", path)
    end
    html = html:gsub('<a\nhref', "<a href"):gsub('<a href="([^"]*)">(.-)</a>', function(target, words)
        if target:match("^%a+:") then
            return nil
        elseif links then
            return string.format('<a href="%s/blob/HEAD/%s">%s</a>', links, target, words)
        end
        local named = "<code>" .. target .. "</code>"
        return words == target and named or words .. " (" .. named .. ")"
    end):gsub("<table.->.-</table>", '<div class="table">%0</div>')
    local parts = {
        opening = html:match("^%s*<h1.-</h1>(.-)<p><img") or html:match("^%s*<h1.-</h1>(.-)<figure"),
        scoreboard = html:match('(<h2 id="the%-scoreboard">.-)<!%-%- end of scoreboard %-%->'),
        licences = "",
    }
    for after in html:gmatch("</pre>()") do
        parts.licences = html:sub(after)
    end
    for _, name in ipairs { "opening", "scoreboard", "licences" } do
        if not parts[name] or not parts[name]:match("<p>") then
            die("%s has no %s for the landing page", path, name)
        end
    end
    parts.scoreboard = parts.scoreboard:gsub("<!%-%-.-%-%->", "")
    return parts
end

-- A figure of the book without its id, which remains in its chapter.
local function figure(book, id)
    local tag, inner = book:match('(<figure id="' .. id:gsub("%p", "%%%0") .. '"[^>]*>)(.-</figure>)')
    if not tag then
        die("the landing page shows %s, which is no figure of the book", id)
    end
    return (tag:gsub(' id="[^"]*"', "") .. inner:gsub('<a class="here".-</a>', ""))
end

-- The items of the lists in a div; html: what follows the div's opening tag. Items of nested lists are not
-- listed separately.
local function items(html)
    local found, divs, depth, from = {}, 1, 0, nil
    for at, slash, tag, after in html:gmatch("()<(/?)(%w+)[^>]*>()") do
        local change = slash == "" and 1 or -1
        divs = divs + (tag == "div" and change or 0)
        depth = depth + (tag == "li" and change or 0)
        if divs == 0 then
            break
        elseif tag == "li" and depth == 1 and change == 1 then
            from = after
        elseif tag == "li" and depth == 0 then
            table.insert(found, html:sub(from, at - 1))
        end
    end
    return found
end

-- The exercises and the book's answers, both by number, and how many there are of each.
local function exercises_of(book)
    local exercises, answers, count, answered = {}, {}, 0, 0
    for page in (book .. "<!-- page end -->"):gmatch("(.-)<!%-%- page [%w-]+ %-%->") do
        local chapter = page:match('<h1[^>]*>%s*<span class="number">[^<]-(%w+)</span>')
        local number = 0
        for after in page:gmatch('<div class="exercises">()') do
            for _, item in ipairs(items(page:sub(after))) do
                number, count = number + 1, count + 1
                exercises[(chapter or "") .. "." .. number] = item
            end
        end
    end
    for section in book:gmatch('<div class="solutions">(.-)<h[12]') do
        local from, name
        for at, next, after in (section .. "<p><strong>end.0</strong>"):gmatch("()<p><strong>(%w+%.%d+)</strong>()") do
            if name then
                answers[name] = "<p>" .. section:sub(from, at - 1)
                answered = answered + 1
            end
            from, name = after, next
        end
    end
    return exercises, answers, count, answered
end

function landing.parts(book, readme, links)
    local asked = {}
    for name, value in (book:match('<meta name="landing" content="([^"]*)">') or ""):gmatch("(%w+)=(%S+)") do
        asked[name] = value
    end
    for _, name in ipairs { "film", "ladder", "board", "exercise" } do
        if not asked[name] then
            die("book.md does not say which %s the landing page shows", name)
        end
    end
    local parts = readme_parts(readme, links)
    for _, name in ipairs { "film", "ladder", "board" } do
        parts[name] = figure(book, asked[name])
    end
    local exercises, answers, count, answered = exercises_of(book)
    local exercise, answer = exercises[asked.exercise], answers[asked.exercise]
    if not exercise then
        die("the landing page shows exercise %s, which is none of the book", asked.exercise)
    end
    local plain = function(html)
        return (html:gsub('<a class="here".-</a>', ""):gsub('(<%w[^>]*) id="[^"]*"', "%1"))
    end
    parts.exercises = string.format("%d exercises, %d of them answered here", count, answered)
    parts.exercise = string.format('<p><strong>%s</strong></p>\n%s', asked.exercise, plain(exercise))
    parts.answer = answer and "<details><summary>The answer</summary>\n" .. plain(answer) .. "</details>" or ""
    return parts
end

return landing
