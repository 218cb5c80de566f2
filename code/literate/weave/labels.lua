-- Numbers chapters, sections, figures, tables, equations, chunks and index marks, and finds the
-- targets of links.
--
--   labels.chapter(chapter, book)   called once for each chapter, in order
--   labels.find(id)                 may be called after that
--   labels.pictures                 the TikZ pictures, in order: { text, where, caption }

local common = require "weave.common"
local index = require "weave.index"
local read = require "weave.read"
local where, fail = common.where, common.fail

local labels = {}

local entries = {} -- by id: a list of { kind, number, id (unique in the book), chapter, title }
labels.pictures = {}

-- Adds a target for links within the book; kind: chapter, appendix, section, figure, table, equation or chunk.
local function label(kind, id, number, line, title)
    local entry = { kind = kind, number = number, id = id, chapter = common.reading, title = title }
    entries[id] = entries[id] or {}
    for _, other in ipairs(entries[id]) do
        if other.chapter == common.reading then
            fail(where(line), "second %s named %s", kind, id)
        end
        entry.id = common.reading.tag .. "-" .. id
    end
    table.insert(entries[id], entry)
    return entry
end

local function counter(chapter, kind)
    chapter.counts[kind] = (chapter.counts[kind] or 0) + 1
    return chapter.number and chapter.number .. "." .. chapter.counts[kind]
        or tostring(chapter.counts[kind])
end

-- Numbers a chapter; sets its `contents`, { level, entry } for each heading of the first two levels.
function labels.chapter(chapter, book)
    common.reading = chapter
    chapter.contents = {}
    chapter.blocks = pandoc.walk_block(pandoc.Div(chapter.blocks), {
        Header = function(el)
            local numbered = chapter.number and not el.classes:includes("unnumbered")
            local kind, number = "section", nil
            if el.level == 1 then
                kind = chapter.appendix and "appendix" or "chapter"
                number = numbered and not chapter.interlude and chapter.number
            elseif el.level == 2 and numbered then
                number = counter(chapter, "section")
            end
            local entry = label(kind, el.identifier, number or nil, el.attributes.line,
                pandoc.utils.stringify(el))
            el.identifier = entry.id
            if el.level <= 2 then
                table.insert(chapter.contents, { level = el.level, entry = entry })
            end
            return el
        end,
    }).content
    local function place(kind, id, line)
        return id ~= "" and label(kind, id, counter(chapter, kind), line)
    end
    local function numbered(kind, el)
        if el.classes:includes(kind) then
            local entry = place(kind, el.identifier, el.attributes.line)
            el.attributes.number, el.identifier = entry.number, entry.id
            return el
        end
    end
    chapter.blocks = pandoc.walk_block(pandoc.Div(chapter.blocks), {
        Table = function(el)
            if #el.caption.long > 0 then
                local entry = place("table", el.identifier, el.attributes.line)
                el.attributes.number = entry and entry.number or counter(chapter, "table")
                el.identifier = entry and entry.id or ""
                return el
            end
        end,
        Span = function(el) return numbered("equation", el) end,
        Div = function(el) return numbered("figure", el) end,
        CodeBlock = function(el)
            local part = book.blocks[chapter.path .. ":" .. (el.attributes.line or "")]
            if el.classes:includes("tikz") then
                local at = where(el.attributes.line)
                if not read.captions[at] then
                    fail(at, "a picture without a paragraph 'Figure: …' below it, its caption")
                end
                local entry = place("figure", el.identifier, el.attributes.line)
                el.attributes.number = entry and entry.number or counter(chapter, "figure")
                el.identifier = entry and entry.id or ""
                table.insert(labels.pictures, { text = el.text, where = at,
                    caption = read.captions[at] or pandoc.List() })
                el.attributes.figure = tostring(#labels.pictures)
                return el
            elseif part and (part.owner.kind ~= "starter" or part.owner.number) then
                part.number = counter(chapter, "chunk")
                local owner = part.owner
                part.label = "chunk:" .. (owner.id and owner.id .. ":" .. part.index
                    or owner.of .. ":" .. (owner.name or "task")
                    -- Answers of two chapters may have the same name.
                    .. (owner.kind == "answer" and ":" .. owner.chapter.tag .. (owner.only or "") or ""))
                if part.owner.id and part.index == 1 then
                    local entry = label("chunk", part.owner.id, part.number, el.attributes.line)
                    entry.id, entry.title = part.label, part.owner.title
                end
            end
        end,
    }).content
    index.number(chapter)
end

-- The entry of an id, preferably in the chapter that is being read (nil: there is none); and whether the id is
-- ambiguous.
function labels.find(id)
    local candidates = entries[id] or {}
    for _, entry in ipairs(candidates) do
        if entry.chapter == common.reading then
            return entry
        end
    end
    return candidates[1], #candidates > 1
end

return labels
