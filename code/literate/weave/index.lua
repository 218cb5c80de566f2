-- The subject index. In a chapter
--
--   [wavefronts]{.index key="wavefront"}   prints the word, and the entry "wavefront" leads here
--   [wavefront]{.index}                    the same, where the entry is the word itself
--   []{.index key="bank!conflict"}         prints nothing; the entry "conflict" is below "bank"
--   []{.index key="block" see="CTA"}       no place: the entry says where to look
--
-- Words in backquotes are code, even in a key. A mark that has no place of its own (in a heading, or
-- the caption of a drawing) is an error.
--
--   index.number(chapter)   called once for each chapter, when its sections have numbers
--   index.mark(span)        sets a mark: a list of inlines
--   index.set()             the index itself, a block

local common = require "weave.common"
local LATEX, HANDOUT = common.LATEX, common.HANDOUT
local raw, raw_block, escape, where = common.raw, common.raw_block, common.escape, common.where

local index = {}

local entries = {} -- by key: { places = { { n, section } }, see, where }
local marks = 0

-- A key as one line: in the source it may be broken over two.
local function one_line(key)
    return key and key:gsub("%s+", " ")
end

-- The words of inlines, with code in backquotes: the key of a mark without `key`.
local function words_of(inlines)
    local out = {}
    for _, el in ipairs(inlines) do
        table.insert(out, el.t == "Code" and "`" .. el.text .. "`" or pandoc.utils.stringify(el))
    end
    return table.concat(out)
end

local function note(span, chapter, section)
    local key = one_line(span.attributes.key or words_of(span.content))
    if key == "" or key:match("^!") or key:match("!$") then
        common.fail(where(span.attributes.line), "an index mark without an entry: []{.index key=\"…\"}")
        key = "?"
    end
    local entry = entries[key] or { places = {} }
    entries[key] = entry
    if span.attributes.see then
        entry.see, entry.where = one_line(span.attributes.see), where(span.attributes.line)
        return
    end
    marks = marks + 1
    span.attributes.mark = tostring(marks)
    local name = section and section.number or chapter.number
        or chapter.contents[1] and chapter.contents[1].entry.title or "preface"
    table.insert(entry.places, { n = marks, section = name })
end

-- Gives each mark of a chapter its number, and its entry the section that it is in.
function index.number(chapter)
    local section
    for i, block in ipairs(chapter.blocks) do
        if block.t == "Header" then
            for _, item in ipairs(chapter.contents) do
                section = item.entry.id == block.identifier and item.entry or section
            end
        else
            chapter.blocks[i] = pandoc.walk_block(pandoc.Div { block }, {
                Span = function(span)
                    if span.classes:includes("index") then
                        span.attributes.line = tostring(common.position(span) or "")
                        note(span, chapter, section)
                        return span
                    end
                end,
            }).content[1]
        end
    end
end

function index.mark(span)
    local n = span.attributes.mark
    if not n and not span.attributes.see then
        common.fail(where(common.position(span)), "an index mark cannot stand here: put it into a paragraph")
    end
    local out = pandoc.List(span.content)
    if n and not HANDOUT and LATEX then
        out:insert(raw("\\ixmark{" .. n .. "}")) -- the mark is after the words, which may begin the paragraph
    elseif n and not HANDOUT then
        out:insert(1, raw('<span id="ix-' .. n .. '">'))
        out:insert(raw("</span>"))
    end
    return out
end

-- ---- The index --------------------------------------------------------------------------------

-- The key for sorting: only letters and digits count, in upper or lower case, so `__syncthreads` is
-- under s. A sub-entry comes right after its entry: "bank!rules of" before "bank account".
local function sort_key(key)
    return (key:lower():gsub("[^%w\128-\255!]+", " "):gsub("^ ", ""):gsub(" ?! ?", "\1"))
end

local function set_words(text)
    return (text:gsub("([^`]*)(`?)([^`]*)`?", function(words, tick, code)
        words, code = escape(words), escape(code)
        if tick == "" then
            return words
        elseif LATEX then
            return words .. "\\code{" .. code:gsub("([/_.])", "%1\\cbk{}") .. "}"
        end
        return words .. "<code>" .. code .. "</code>"
    end))
end

local function set_places(places)
    local out, last = {}, nil
    for _, place in ipairs(places) do
        if LATEX then
            table.insert(out, tostring(place.n))
        elseif place.section ~= last then -- a place once for each section, since HTML has no page numbers
            table.insert(out, string.format('<a href="#ix-%d">%s</a>', place.n, escape(place.section)))
            last = place.section
        end
    end
    if #out == 0 then
        return ""
    end
    return LATEX and "\\indexpages{" .. table.concat(out, ",") .. "}" or " " .. table.concat(out, ", ")
end

local function set_entry(words, entry, level)
    local see = entry.see and (LATEX and ", \\textit{see} " or ", <em>see</em> ") .. set_words(entry.see)
        or ""
    if LATEX then
        return string.format("\\ixentry{%d}{%s%s}{%s}", level, set_words(words), see,
            set_places(entry.places))
    end
    return string.format('<li class="level%d">%s%s%s</li>', level, set_words(words), see,
        set_places(entry.places))
end

-- The keys of all entries, in order; an entry that has only sub-entries gets a line without a place.
local function sorted_keys()
    local keys = {}
    for key, entry in pairs(entries) do
        local above = key:match("^(.-)!")
        if above and not entries[above] then
            keys[above] = true
        end
        keys[key] = true
        if entry.see and not entries[entry.see] then
            table.insert(common.failures, entry.where .. ": the index has no entry " .. entry.see)
        end
    end
    local list = {}
    for key in pairs(keys) do
        table.insert(list, key)
    end
    table.sort(list, function(a, b)
        local x, y = sort_key(a), sort_key(b)
        return x < y or x == y and a < b
    end)
    return list
end

-- The index as one block; nil if nothing was marked.
function index.set()
    local out, letter = {}, nil
    for _, key in ipairs(sorted_keys()) do
        local first = sort_key(key):sub(1, 1):match("%a") or "0"
        if letter and first ~= letter then
            table.insert(out, LATEX and "\\ixgap" or '<li class="gap"></li>')
        end
        letter = first
        local above, words = key:match("^(.-)!(.*)$")
        table.insert(out, set_entry(words or key, entries[key] or { places = {} }, above and 2 or 1))
    end
    if #out == 0 then
        return nil
    elseif LATEX then
        return raw_block("\\addchap{Index}\\label{index}\n\\begin{subjectindex}\n"
            .. table.concat(out, "\n") .. "\n\\end{subjectindex}")
    end
    return raw_block('<h1 id="index">Index</h1>\n<ul class="index">' .. table.concat(out, "\n") .. "</ul>")
end

return index
