-- The chapters as a web of chunks: parsed by Pandoc, linked, checked, expanded.
-- tangle.lua writes programs from it; the weave sets it in type.
--
--   package.path = pandoc.path.directory(PANDOC_SCRIPT_FILE) .. "/?.lua;" .. package.path
--   local chunks = require "chunks"
--   local book = chunks.load({ "chapters/01-attention-on-paper.md", ... })   -- in reading order
--
-- book.errors    { "chapters/03-wmma-scores.md:120: unknown chunk <<x>>", ... }, in reading order;
--                if there are any, the other fields may be incomplete, and must not be printed
-- book.chapters  { path, tag = "03", sheet }, in reading order
-- book.roots     the chunks that are programs, in reading order
-- book.solutions { path, tag = "03", solution = true }, the files of solutions, in reading order
-- book.variants  all starters, mutants and answers, in reading order
-- book.chunks    all chunks in the order they are defined; also by id: book.chunks["ch03-score"]
-- book.parts     all code blocks in a language of programs, in reading order
-- book.blocks    parts by "path:line" of the fence; chunks.block(book, attributes) looks one up
--
-- chunk    id, title, language = "cuda" | "c", chapter, file = "code/ch03_wmma_qk.cu" if a root,
--          parts       its code blocks, in order: the definition and its continuations
--          uses        { chunk, file, line } for each reference that it makes
--          used_by     { chunk, file, line } for each reference to it: the chunk that makes it, and where
--          programs    the roots that take it, directly or not (a root takes itself)
--          replaces    the chunk named by replaces=, if any; replaced_by lists the reverse
--          starters    variants for students, one a chapter at most
--          mutants     variants with a planted bug
-- part     file, line (of the fence), first (line of its first code line), lines, index (1 is the
--          definition), offset (chunk lines before it), and owner: the chunk or variant it belongs to;
--          later if the book prints it after the chapters, changes if its chapter shows what differs
-- variant  kind = "starter" | "mutant" | "answer", chunk (which it replaces), chapter, name, breaks, title,
--          shapes (at which its bug shows, if shapes= names some), only (the program, if only= names one),
--          define (a macro and its value, defined before the program, if its bug shows only with that),
--          parts (one), uses, programs (those of its own chapter, or `only`, that take the chunk), attributes
--
-- A chapter with a lab that gives points has a sheet; sheets.lua describes it.
--
-- chunks.lines, expand, diff, changes, difference and starters are described at their definitions.
--
-- A file named chapters/solutions/03.md has solutions of chapter 3's exercises, and no chunks. An answer,
-- `{.cuda .answer of=ch02-score name=pairs}`, replaces a chunk of a program of chapter 3, as a mutant does; but
-- answers of one name replace their chunks together, since an exercise may change several.
--
-- The rules. A block of class cuda or c with file= is a root, one with an id is a chunk, and any other is an
-- illustration. A block with both is a root that may also be referred to, continued, and mutated by its id;
-- without an id, its file is its id. `<<id>>` on a line of its own refers to a chunk. Class `later` has the
-- weave print a part of a chunk in the appendix with the rest of the programs. With class `changes`, the
-- appendix prints the whole chunk, and the chapter what differs from the chunk that it replaces. Neither
-- changes a program.
local sheets = require "sheets"
local chunks = {}

local COLUMNS = 80 -- as many as fit on the page
local WIDE = { points = true, table = true, tikz = true } -- the weave prints these in another form
local WORTHWHILE = 0.8 -- a difference is shown if it has at most this share of the chunk's lines
local EXTENSIONS = { c = "c", cuda = "cu" }
local REFERENCE = "^(%s*)<<([%w][%w_./-]*)>>%s*$"

local function complain(book, file, line, ...)
    table.insert(book.errors, { file = file, line = line, text = string.format(...) })
end

-- The file (nil: the document has no name), first and last line of a block, from the attribute that
-- `+sourcepos` adds. In a list, that attribute begins with the position of the list.
function chunks.position(attributes)
    local position
    for key, value in pairs(attributes) do
        if key == "data-pos" then
            position = value
        end
    end
    if not position then
        return nil
    end
    local file, first = position:match("^([^;]-)@?(%d+):%d+%-")
    local last, column = position:match("(%d+):(%d+)$")
    last = tonumber(last)
    return file ~= "" and file or nil, tonumber(first), column == "1" and last - 1 or last
end

-- The part that a code block of a document makes of a chunk or a variant; nil: the block makes none, as an
-- illustration. file: the document's name, if the block's position has none.
function chunks.block(book, attributes, file)
    local named, line = chunks.position(attributes)
    return line and book.blocks[(named or file) .. ":" .. line]
end

local function split_lines(text)
    local lines = {}
    for line in (text .. "\n"):gmatch("(.-)\r?\n") do
        table.insert(lines, line)
    end
    return lines
end

-- All lines of a chunk or variant, as the chapters have them.
function chunks.lines(owner)
    local lines = {}
    for _, part in ipairs(owner.parts) do
        table.move(part.lines, 1, #part.lines, #lines + 1, lines)
    end
    return lines
end

---------------------------------------------------------------------------------------------------
-- Reading

local function language_of(block)
    for _, class in ipairs(block.classes) do
        if EXTENSIONS[class] then
            return class
        end
    end
end

local function default_title(id)
    return (id:gsub("^ch%w+%-", ""):gsub("%-", " "))
end

local function check_lines(book, part)
    for i, line in ipairs(part.lines) do
        local width = utf8.len(line) or #line
        if line:find("\t") then
            complain(book, part.file, part.first + i - 1, "tab in a code block")
        elseif width > COLUMNS then
            complain(book, part.file, part.first + i - 1, "line of %d columns; the page takes %d",
                width, COLUMNS)
        end
    end
end

local function add_variant(book, chapter, block, part, kind)
    local attribute = kind == "starter" and "for" or "of"
    local of = block.attributes[attribute]
    if not of then
        complain(book, part.file, part.line, "%s without %s=", kind, attribute)
        return
    end
    if (kind == "answer") ~= (chapter.solution == true) then
        complain(book, part.file, part.line, "%s of %s in a %s", kind, of,
            chapter.solution and "file of solutions" or "chapter")
    end
    local variant = {
        kind = kind, of = of, chapter = chapter, language = part.language, parts = { part },
        name = block.attributes.name, breaks = block.attributes.breaks,
        shapes = block.attributes.shapes, only = block.attributes.only,
        define = block.attributes.define,
        attributes = block.attributes,
        uses = {}, programs = {},
    }
    variant.title = block.attributes.title or variant.name or kind
    part.owner, part.index, part.offset = variant, 1, 0
    if kind ~= "starter" and not (variant.name or ""):match("^[%w_-]+$") then
        complain(book, part.file, part.line, "%s of %s without a name= of letters, "
            .. "digits and dashes", kind, of)
    end
    if kind == "mutant" and (variant.breaks or "") == "" then
        complain(book, part.file, part.line, "mutant of %s without breaks=", of)
    end
    if block.identifier ~= "" or block.attributes.file then
        complain(book, part.file, part.line, "%s of %s has an id or a file of its own", kind, of)
    end
    table.insert(book.variants, variant)
end

local KINDS = { "mutant", "starter", "answer" }

local function kind_of(block)
    for _, kind in ipairs(KINDS) do
        if block.classes:includes(kind) then
            return kind
        end
    end
end

local function check_root(book, chapter, part, file)
    local extension = EXTENSIONS[part.language]
    local stem = file:match("^code/(ch" .. chapter.tag .. "_[%w_]+)%.%w+$")
    if not file:match("^code/") then
        complain(book, part.file, part.line, "root %s is outside code/", file)
    elseif not stem then
        complain(book, part.file, part.line, "root %s is not named code/ch%s_name.%s", file,
            chapter.tag, extension)
    elseif not file:match("%." .. extension .. "$") then
        complain(book, part.file, part.line, "root %s is in language %s, whose files end in .%s",
            file, part.language, extension)
    end
    stem = stem or file
    local first = book.programs[stem]
    if first then
        complain(book, part.file, part.line, "duplicate root %s (first at %s:%d)", file,
            first.file, first.line)
    end
    book.programs[stem] = first or part
end

local function add_chunk(book, chapter, block, part)
    local file = block.attributes.file
    local id = block.identifier ~= "" and block.identifier or file
    if file then
        check_root(book, chapter, part, file)
    end
    if id ~= file and id:sub(1, #chapter.tag + 3) ~= "ch" .. chapter.tag .. "-" then
        complain(book, part.file, part.line, "chunk %s is not named ch%s-…", id, chapter.tag)
    end
    local chunk = book.chunks[id]
    if not chunk then
        chunk = {
            id = id, language = part.language, chapter = chapter, parts = {},
            uses = {}, used_by = {}, programs = {}, replaced_by = {}, starters = {}, mutants = {},
            answers = {},
        }
        book.chunks[id] = chunk
        table.insert(book.chunks, chunk)
    elseif chunk.language ~= part.language then
        complain(book, part.file, part.line, "chunk %s is in language %s, and was %s at %s:%d", id,
            part.language, chunk.language, chunk.parts[1].file, chunk.parts[1].line)
    end
    if file and not chunk.file then
        chunk.file = file
        table.insert(book.roots, chunk)
    end
    chunk.given_title = chunk.given_title or block.attributes.title
    chunk.title = chunk.given_title or (id == file and file or default_title(id))
    chunk.replaces_id = chunk.replaces_id or block.attributes.replaces
    part.owner, part.index, part.offset = chunk, #chunk.parts + 1, #chunks.lines(chunk)
    table.insert(chunk.parts, part)
end

-- Complains about a part with `.later` whose owner is no chunk, or has a starter in a lab: what a lab asks for must
-- be printed where the chapter explains it. Also about a part with `.changes` that replaces nothing, or too much.
local function check_later(book, part)
    local chunk = part.owner
    if not part.later then
        return
    elseif not chunk or chunk.kind then
        complain(book, part.file, part.line, "only a chunk can be printed later")
    elseif #chunk.starters > 0 then
        complain(book, part.file, part.line, "chunk %s is printed later, and the starter at %s:%d "
            .. "stands in for it", chunk.id, chunk.starters[1].parts[1].file,
            chunk.starters[1].parts[1].line)
    elseif part.changes and (not chunk.replaces_id or part.index > 1) then
        complain(book, part.file, part.line, "chunk %s has no replaces= here, so nothing that changes",
            chunk.id)
    elseif part.changes and chunk.replaces then
        local shown = #chunks.difference(chunk)
        if shown > WORTHWHILE * #part.lines then
            complain(book, part.file, part.line, "chunk %s has %d lines, and what it changes takes %d: "
                .. "print it whole", chunk.id, #part.lines, shown)
        end
    end
end

local function add_block(book, chapter, raw, block)
    local _, first, last = chunks.position(block.attributes)
    local part = {
        file = chapter.path, line = first, first = first + 1, language = language_of(block),
        lines = block.text == "" and {} or split_lines(block.text),
    }
    if #block.classes == 0 and not raw[first]:match("^ ? ? ?[`~][`~][`~]") then
        part.first = first -- an indented block, without a fence
    elseif not raw[last]:match("^[%s>]*[`~][`~][`~]+%s*$") then
        complain(book, chapter.path, first, "code block is never closed")
        return
    end
    if not block.classes:find_if(function(class) return WIDE[class] end) then
        check_lines(book, part)
    end
    if not part.language then
        return
    end
    part.changes = block.classes:includes("changes")
    part.later = part.changes or block.classes:includes("later")
    table.insert(book.parts, part)
    local kind = kind_of(block)
    if kind then
        add_variant(book, chapter, block, part, kind)
    elseif chapter.solution and (block.attributes.file or block.identifier ~= "") then
        complain(book, part.file, part.line, "a chunk in a file of solutions: an answer has of= and name=")
        return
    elseif block.attributes.file or block.identifier ~= "" then
        add_chunk(book, chapter, block, part)
    else
        return
    end
    book.blocks[part.file .. ":" .. part.line] = part
end

local function read_chapter(book, path)
    local chapter = { path = path, index = #book.chapters + #book.solutions + 1 }
    chapter.tag = path:match("([^/]*)$"):match("^(%w+)%-.*%.md$")
    local of = path:match("/solutions/(%w+)%.md$") -- the chapter whose exercises this file solves
    if of then
        chapter.tag, chapter.solution = of, true
    end
    local input, why = io.open(path, "rb")
    local text = input and input:read("a")
    if input then
        input:close()
    end
    if not text then
        complain(book, path, 0, "cannot be read: %s", why or "not a file")
        return
    elseif not chapter.tag then
        complain(book, path, 0, "a chapter's file is named like 03-wmma-scores.md")
        return
    end
    table.insert(of and book.solutions or book.chapters, chapter)
    local raw = split_lines(text)
    local found = {}
    local document = pandoc.read(text, "commonmark_x-emoji+sourcepos")
    chapter.document = document
    document:walk({ CodeBlock = function(block) table.insert(found, block) end })
    for _, block in ipairs(found) do
        add_block(book, chapter, raw, block)
    end
    if not of then
        sheets.read(book, chapter, document, complain, chunks.position)
    end
end

---------------------------------------------------------------------------------------------------
-- Linking and checking

local function link_reference(book, owner, name, file, line)
    local target = book.chunks[name]
    if not target then
        complain(book, file, line, "unknown chunk <<%s>>", name)
        return
    elseif target.chapter.index > owner.chapter.index then
        complain(book, file, line, "<<%s>> belongs to a later chapter, %s", name,
            target.chapter.path)
    elseif owner.language == "c" and target.language ~= "c" then
        complain(book, file, line, "<<%s>> is in language %s, and this chunk in c", name,
            target.language)
    end
    table.insert(owner.uses, { chunk = target, file = file, line = line })
    if not owner.kind then
        table.insert(target.used_by, { chunk = owner, file = file, line = line })
    end
end

local function link_references(book, owner)
    for _, part in ipairs(owner.parts) do
        for i, text in ipairs(part.lines) do
            local line = part.first + i - 1
            local _, name = text:match(REFERENCE)
            local shared = text:match("<<(ch%w+%-[%w_-]+)>>")
            if name then
                link_reference(book, owner, name, part.file, line)
                if (part.lines[i - 1] or ""):match("\\$") then
                    complain(book, part.file, line, "<<%s>> inside a macro", name)
                end
            elseif shared then
                complain(book, part.file, line, "<<%s>> must stand on a line of its own", shared)
            end
        end
    end
end

local function link_replaced(book, chunk)
    if not chunk.replaces_id then
        return
    end
    local old = book.chunks[chunk.replaces_id]
    local part = chunk.parts[1]
    if not old then
        complain(book, part.file, part.line, "chunk %s replaces the unknown chunk %s", chunk.id,
            chunk.replaces_id)
    elseif old.chapter.index > chunk.chapter.index or old == chunk then
        complain(book, part.file, part.line, "chunk %s replaces %s, which is not an earlier one",
            chunk.id, old.id)
    else
        chunk.replaces = old
        table.insert(old.replaced_by, chunk)
    end
end

local function link_variant(book, variant, seen)
    local part = variant.parts[1]
    local chunk = book.chunks[variant.of]
    if not chunk then
        complain(book, part.file, part.line, "%s of the unknown chunk %s", variant.kind, variant.of)
        return
    end
    variant.chunk = chunk
    if variant.language ~= chunk.language then
        complain(book, part.file, part.line, "%s in language %s of chunk %s, which is in %s",
            variant.kind, variant.language, chunk.id, chunk.language)
    end
    if table.concat(part.lines, "\n") == table.concat(chunks.lines(chunk), "\n") then
        complain(book, part.file, part.line, "%s of %s changes nothing", variant.kind, chunk.id)
    end
    local key = variant.chapter.index .. " " .. variant.kind .. " " .. (variant.name or chunk.id)
        .. (variant.kind == "answer" and " " .. chunk.id .. " " .. (variant.only or "") or "")
    local first = seen[key]
    if first and variant.kind == "mutant" then
        complain(book, part.file, part.line, "duplicate mutant name %s (first at %s:%d)",
            variant.name, first.file, first.line)
    elseif first then
        complain(book, part.file, part.line, "second %s for %s (first at %s:%d)", variant.kind, chunk.id,
            first.file, first.line)
    end
    seen[key] = first or part
    table.insert(chunk[variant.kind .. "s"], variant)
end

-- Looks for cycles of references below `owner`; `swap` maps chunks to the variants that replace them; `done`
-- collects the chunks that were visited. Returns true if there is no cycle.
local function check_cycles(book, owner, swap, done, path)
    local fine = true
    done[owner] = true
    table.insert(path, owner)
    for _, use in ipairs(owner.uses) do
        local target = swap[use.chunk] or use.chunk
        for i, above in ipairs(path) do
            if above == target then
                local names = {}
                for j = i, #path do
                    table.insert(names, path[j].id or path[j].of)
                end
                table.insert(names, use.chunk.id)
                complain(book, use.file, use.line, "cycle: %s", table.concat(names, " -> "))
                fine = false
            end
        end
        if not done[target] then
            fine = check_cycles(book, target, swap, done, path) and fine
        end
    end
    table.remove(path)
    return fine
end

local function reach(owner, reached)
    reached[owner] = true
    for _, use in ipairs(owner.uses) do
        if not reached[use.chunk] then
            reach(use.chunk, reached)
        end
    end
    return reached
end

-- The chunks of a program that a student gets as starters: chunk -> starter; often empty.
function chunks.starters(book, root)
    local swap = {}
    for _, variant in ipairs(book.variants) do
        if variant.kind == "starter" then
            for _, program in ipairs(variant.programs) do
                swap[variant.chunk] = program == root and variant or swap[variant.chunk]
            end
        end
    end
    return swap
end

-- The answers of the book, those of one program and name together: { root, name, swap = chunk -> answer }, in
-- reading order.
function chunks.answers(book)
    local list, by_key = {}, {}
    for _, variant in ipairs(book.variants) do
        for _, root in ipairs(variant.kind == "answer" and variant.programs or {}) do
            local key = root.id .. " " .. variant.name
            if not by_key[key] then
                by_key[key] = { root = root, name = variant.name, swap = {} }
                table.insert(list, by_key[key])
            end
            by_key[key].swap[variant.chunk] = variant
        end
    end
    return list
end

local function find_programs(book)
    local used, done, fine = {}, {}, true
    for _, root in ipairs(book.roots) do
        local reached = reach(root, {})
        for _, chunk in ipairs(book.chunks) do
            if reached[chunk] then
                used[chunk] = true
                table.insert(chunk.programs, root)
            end
        end
    end
    for _, variant in ipairs(book.variants) do
        for _, root in ipairs(variant.chunk and variant.chunk.programs or {}) do
            local named = not variant.only or root.file:match("([^/]*)%.%w+$") == variant.only
            if root.chapter.tag == variant.chapter.tag and named then
                table.insert(variant.programs, root)
            end
        end
        if variant.chunk and #variant.programs == 0 then
            complain(book, variant.parts[1].file, variant.parts[1].line,
                "%s of %s, which no program %sof %s chapter uses", variant.kind, variant.of,
                variant.only and variant.only .. " " or "", variant.kind == "answer" and "its" or "this")
        end
        reach(variant, used)
    end
    for _, chunk in ipairs(book.chunks) do
        if not used[chunk] then
            complain(book, chunk.parts[1].file, chunk.parts[1].line, "unused chunk %s", chunk.id)
        end
        fine = (done[chunk] or check_cycles(book, chunk, {}, done, {})) and fine
    end
    for _, variant in ipairs(fine and book.variants or {}) do
        if variant.chunk then
            fine = check_cycles(book, variant, { [variant.chunk] = variant }, {}, {}) and fine
        end
    end
    for _, root in ipairs(fine and book.roots or {}) do
        local swap = chunks.starters(book, root)
        check_cycles(book, swap[root] or root, swap, {}, {})
    end
end

-- Turns the complaints in book.errors into lines, in reading order, without repetitions.
local function sort_errors(book, paths)
    local order, lines, seen = {}, {}, {}
    for i, path in ipairs(paths) do
        order[path] = order[path] or i
    end
    table.sort(book.errors, function(a, b)
        if a.file ~= b.file then
            return order[a.file] < order[b.file]
        elseif a.line ~= b.line then
            return a.line < b.line
        end
        return a.text < b.text
    end)
    for _, e in ipairs(book.errors) do
        local line = e.file .. (e.line > 0 and ":" .. e.line or "") .. ": " .. e.text
        if not seen[line] then
            seen[line] = true
            table.insert(lines, line)
        end
    end
    book.errors = lines
end

-- Reads the chapters and links their chunks. Never fails: mistakes are listed in `errors`.
function chunks.load(paths)
    local book = {
        chapters = {}, solutions = {}, chunks = {}, roots = {}, variants = {}, blocks = {}, programs = {},
        parts = {}, errors = {},
    }
    for _, path in ipairs(paths) do
        read_chapter(book, path)
    end
    for _, chunk in ipairs(book.chunks) do
        link_references(book, chunk)
        link_replaced(book, chunk)
    end
    local seen = {}
    for _, variant in ipairs(book.variants) do
        link_references(book, variant)
        link_variant(book, variant, seen)
    end
    find_programs(book)
    for _, part in ipairs(book.parts) do
        check_later(book, part)
    end
    sheets.check(book, complain)
    sort_errors(book, paths)
    return book
end

---------------------------------------------------------------------------------------------------
-- Expansion and comparison

-- The lines of a program with references resolved; `swap` maps chunks to the variants that replace them. A list of
--   { text, file, line }            a line of code
--   { opens = chunk, indent, by }   before the first line of a referenced chunk; by: the chunk, or its variant
--   { closes = chunk }              after the last line of that chunk
function chunks.expand(root, swap)
    local out = {}
    local function add(owner, indent)
        local targets = {}
        for _, use in ipairs(owner.uses) do
            targets[use.file .. ":" .. use.line] = use.chunk
        end
        for _, part in ipairs(owner.parts) do
            for i, line in ipairs(part.lines) do
                local at = part.first + i - 1
                local target = targets[part.file .. ":" .. at]
                if target then
                    local inner = indent .. line:match("^%s*")
                    local by = swap and swap[target] or target
                    table.insert(out, { opens = target, indent = inner, by = by })
                    add(by, inner)
                    table.insert(out, { closes = target })
                else
                    local text = line:match("^%s*$") and "" or indent .. line
                    table.insert(out, { text = text, file = part.file, line = at })
                end
            end
        end
    end
    add(swap and swap[root] or root, "")
    return out
end

-- The changes from one list of lines to another, in order: { op = "same", "added" or "removed", text, index = place
-- in `new` unless removed }. Also returns how many lines were added, and how many removed.
function chunks.diff(old, new)
    local length = {} -- [i][j]: lines in the longest common subsequence of old[i..] and new[j..]
    for i = #old + 1, 1, -1 do
        length[i] = {}
        for j = #new + 1, 1, -1 do
            if i > #old or j > #new then
                length[i][j] = 0
            elseif old[i] == new[j] then
                length[i][j] = length[i + 1][j + 1] + 1
            else
                length[i][j] = math.max(length[i + 1][j], length[i][j + 1])
            end
        end
    end
    local entries, i, j = {}, 1, 1
    while i <= #old or j <= #new do
        if i <= #old and j <= #new and old[i] == new[j] then
            table.insert(entries, { op = "same", text = new[j], index = j })
            i, j = i + 1, j + 1
        elseif j > #new or i <= #old and length[i + 1][j] >= length[i][j + 1] then
            table.insert(entries, { op = "removed", text = old[i] })
            i = i + 1
        else
            table.insert(entries, { op = "added", text = new[j], index = j })
            j = j + 1
        end
    end
    local common = length[1][1]
    return entries, #new - common, #old - common
end

-- The changes from the chunk that `owner` replaces to `owner`, which is a chunk or a variant; as chunks.diff returns.
function chunks.changes(owner)
    return chunks.diff(chunks.lines(owner.replaces or owner.chunk), chunks.lines(owner))
end

-- The entries of chunks.changes, but of the unchanged lines only two before and after each change; `skipped`: lines
-- before this one were left out.
function chunks.difference(owner)
    local entries, near, out = chunks.changes(owner), {}, {}
    for i, entry in ipairs(entries) do
        if entry.op ~= "same" then
            for j = i - 2, i + 2 do
                near[j] = true
            end
        end
    end
    for i, entry in ipairs(entries) do
        if near[i] then
            entry.skipped = #out > 0 and not near[i - 1]
            table.insert(out, entry)
        end
    end
    return out
end

return chunks
