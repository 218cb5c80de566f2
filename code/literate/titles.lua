-- A program for people to read: its chunks put together, with their titles as comments.
--
--   local titles = require "titles"
--   titles.program(root)           the text of code/chNN_name.cu
--   titles.program(root, swap)     the text with starters for the chunks that `swap` maps to them
--
-- The rules. A chunk that the program itself takes in at the left margin gets a banner, `// ----
-- Title ----`; any other chunk gets a quiet `// Title`, indented like its code. There is no title
-- if the reader can do without: if the chunk opens with a comment, if the title is the name of its
-- function, or if the line above is a title or a comment; and no quiet title if each line has a
-- comment. Nor is there a title where it would mislead: above #include; above a chunk that consists
-- of other chunks, which have their own titles; between a pragma, or the head of a statement, and
-- its body. Two exceptions: a section (several declarations with blank lines between) always has
-- its banner, and a starter always has its title, since the lab names it. Blank lines come before
-- and after a chunk that has a title or is at the left margin, and after the file's first comment.
local chunks = require "chunks"
local titles = {}

---------------------------------------------------------------------------------------------------
-- Lines

-- The code of a line, without its comment and the spaces around it; and whether the line has a
-- comment.
local function code_of(text)
    local code = text:gsub("%s*//.*$", "")
    return code:match("^%s*(.-)%s*$"), code ~= text
end

local function is_comment(text)
    local code, commented = code_of(text)
    return commented and code == ""
end

local function is_include(text)
    return text:match("^%s*#%s*include") ~= nil
end

local function opens_block(text)
    return code_of(text):match("[{:]$") ~= nil or text:match("^%s*#%s*if") ~= nil
end

-- Whether a statement may begin after this line: not after the head of one, or its pragma.
local function ends_statement(text)
    local code = code_of(text)
    if code:match("^#") then
        return not code:match("^#%s*pragma")
    end
    return code == "" or code:match("[;{}:]$") ~= nil
end

local function all_commented(lines)
    for _, text in ipairs(lines) do
        local _, commented = code_of(text)
        if not commented then
            return false
        end
    end
    return true
end

---------------------------------------------------------------------------------------------------
-- Chunks

-- The chunk that chunks.expand opens at `at`. lines: its lines that are not blank; composed: if all
-- of them come from chunks inside; section: if it is a section (see the rules).
local function survey(entries, at)
    local chunk = { lines = {}, composed = true, section = false }
    local depth, blank = 1, false
    while depth > 0 do
        at = at + 1
        local entry = entries[at]
        depth = depth + (entry.opens and 1 or entry.closes and -1 or 0)
        local text = entry.text
        if text == "" then
            blank = #chunk.lines > 0
        elseif text then
            chunk.composed = chunk.composed and depth > 1
            chunk.section = chunk.section or blank and text:match("^[^%s#]") ~= nil
            blank = false
            table.insert(chunk.lines, text)
        end
    end
    return chunk
end

-- Whether the title is the name of the chunk's function, apart from articles and the like, as "Load
-- a tile" is for load_tile.
local function names_function(title, lines)
    local small = { a = "", an = "", the = "", of = "" }
    local words = "_" .. title:lower():gsub("%a+", small):gsub("%W+", "_") .. "_"
    local name = table.concat(lines, " "):match("([%w_]+)%s*%(") or ""
    return ("_" .. name .. "_"):find(words:gsub("_+", "_"), 1, true) ~= nil
end

-- How a chunk is announced: "banner", "quiet" or nil. top: whether it is at the left margin, in no
-- chunk with a banner; above: the last line before it that is not blank; near: whether that is the
-- line right before it.
local function announce(entry, chunk, top, above, near)
    local first, title, starter = chunk.lines[1], entry.opens.title, entry.by ~= entry.opens
    if not first or chunk.composed or is_include(first) then
        return nil
    elseif top and chunk.section then
        return "banner"
    elseif not top and (not ends_statement(above) or near and is_comment(above)) then
        return nil
    elseif not starter and (is_comment(first) or names_function(title, chunk.lines)
            or not top and all_commented(chunk.lines)) then
        return nil
    end
    return top and "banner" or "quiet"
end

---------------------------------------------------------------------------------------------------
-- The page

-- A text that grows line by line, and never has two blank lines in a row.
local function new_page(heading)
    return {
        lines = { heading },
        above = heading,  -- the last line that is not blank
        ended = false,    -- whether a paragraph ends after that line
        header = nil,     -- whether the file's first comment is going on; nil: it has not begun
        banners = 0,      -- how many enclosing chunks have a banner
        around = {},      -- all enclosing chunks, innermost last: { banner, paragraph }
    }
end

local function add(page, text)
    if text ~= "" or page.lines[#page.lines] ~= "" then
        table.insert(page.lines, text)
    end
    page.above = text ~= "" and text or page.above
end

local function add_code(page, text)
    local parted = page.ended and not text:match("^%s*}") and ends_statement(page.above)
    if parted or page.header and not is_comment(text) then
        add(page, "")
    end
    if page.header ~= false then
        page.header = is_comment(text)
    end
    add(page, text)
    page.ended = false
end

local function add_title(page, kind, entry, first)
    if kind == "quiet" then
        add(page, entry.indent .. "// " .. entry.opens.title)
    else
        add(page, "// ---- " .. entry.opens.title .. " ----")
        if is_comment(first) then
            add(page, "") -- the comment belongs to the first declaration only
        end
    end
end

local function open_chunk(page, entry, chunk)
    local top = entry.indent == "" and page.banners == 0
    local near = page.lines[#page.lines] ~= ""
    local kind = announce(entry, chunk, top, page.above, near)
    local paragraph = kind ~= nil or top and not chunk.composed
    local together = is_include(chunk.lines[1] or "") and is_include(page.above)
    if paragraph then
        if not together and not opens_block(page.above) then
            add(page, "")
        end
        page.ended, page.header = false, false
    end
    if kind then
        add_title(page, kind, entry, chunk.lines[1])
    end
    page.banners = page.banners + (kind == "banner" and 1 or 0)
    table.insert(page.around, { banner = kind == "banner", paragraph = paragraph })
end

local function close_chunk(page)
    local closed = table.remove(page.around)
    page.banners = page.banners - (closed.banner and 1 or 0)
    page.ended = page.ended or closed.paragraph
end

function titles.program(root, swap)
    local chapter = root.parts[1].file
    local page = new_page(swap and "// What you start from in the lab of " .. chapter .. "."
        or "// Tangled from " .. chapter .. "; edit that, then `make tangle`.")
    add(page, "")
    local entries = chunks.expand(root, swap)
    for i, entry in ipairs(entries) do
        if entry.opens then
            open_chunk(page, entry, survey(entries, i))
        elseif entry.closes then
            close_chunk(page)
        else
            add_code(page, entry.text)
        end
    end
    return table.concat(page.lines, "\n") .. "\n"
end

return titles
