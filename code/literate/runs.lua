-- Numbers in prose: references into recorded runs, and the small expressions over them.
--
--   h200/ch03_wmma_qk:shapes.mission.timing.p50_us     a value of plots/runs/h200/ch03_wmma_qk.json
--   h200/ch02_scalar:… / h200/ch03_wmma_qk:…           + - * / with spaces around, left to right
--   lines:code/ptxsim                                  today's lines of C in a folder, without its tests
--
-- A part of a path is the name of a field, an index into an array (from 0), or [field=value,…]: the one element
-- of an array whose fields have these values, as in correctness[seed=0,input=normal].rel_head. A record is
-- stale if its source hash differs from today's (build/hashes.tsv: program, tab, hash).

local runs = {}

local null = setmetatable({}, { __tostring = function() return "null" end })

local ESCAPES = {
    b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/",
}
local WORDS = { ["true"] = true, ["false"] = false, null = null }

-- A strict JSON reader (RFC 8259): the value, or nil and what is wrong at which byte.
local function parse_json(text)
    local at = 1
    local value

    local function fail(what)
        error({ message = what .. " at byte " .. at }, 0)
    end
    local function next_char()
        at = text:find("[^ \t\r\n]", at) or #text + 1
        return text:sub(at, at)
    end

    local function str()
        if next_char() ~= '"' then
            fail("expected a string")
        end
        at = at + 1
        local parts = {}
        while true do
            local stop = text:find('["\\%c]', at)
            if not stop then
                fail("unfinished string")
            end
            table.insert(parts, text:sub(at, stop - 1))
            at = stop + 1
            local char = text:sub(stop, stop)
            if char == '"' then
                return table.concat(parts)
            elseif char ~= "\\" then
                fail("control character in a string")
            end
            local kind = text:sub(at, at)
            at = at + 1
            if kind == "u" then
                local code = text:match("^%x%x%x%x", at) or fail("bad \\u escape")
                table.insert(parts, utf8.char(tonumber(code, 16)))
                at = at + 4
            else
                table.insert(parts, ESCAPES[kind] or fail("bad escape"))
            end
        end
    end

    local function number()
        local found = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at) or ""
        local result = tonumber(found)
        if not result or found:match("^-?0%d") or found:match("%.$") or found:match("%.[eE]") then
            fail("bad value")
        end
        at = at + #found
        return result
    end

    -- Reads the members after an opening bracket, separated by commas, up to `close`.
    local function members(close, add)
        local result = {}
        at = at + 1
        if next_char() == close then
            at = at + 1
            return result
        end
        repeat
            add(result)
            local char = next_char()
            if char ~= "," and char ~= close then
                fail("expected ',' or '" .. close .. "'")
            end
            at = at + 1
        until char == close
        return result
    end

    function value()
        local char = next_char()
        if char == "{" then
            return members("}", function(object)
                local name = str()
                if object[name] ~= nil then
                    fail("field '" .. name .. "' twice")
                elseif next_char() ~= ":" then
                    fail("expected ':'")
                end
                at = at + 1
                object[name] = value()
            end)
        elseif char == "[" then
            return members("]", function(array) table.insert(array, value()) end)
        elseif char == '"' then
            return str()
        end
        local word = text:match("^%a+", at)
        if WORDS[word] ~= nil then
            at = at + #word
            return WORDS[word]
        end
        return number()
    end

    local ok, result = pcall(function()
        local all = value()
        if next_char() ~= "" then
            fail("something after the end")
        end
        return all
    end)
    if ok then
        return result
    end
    return nil, result.message or result
end

local function read(path)
    local file = io.open(path)
    local text = file and file:read("a")
    if file then
        file:close()
    end
    return text
end

local hashes -- today's hashes, by program

local function hash_today(program)
    if not hashes then
        hashes = {}
        for line in (read("build/hashes.tsv") or ""):gmatch("[^\n]+") do
            local name, hash = line:match("^(%S+)\t(%x+)$")
            hashes[name or ""] = hash
        end
    end
    return hashes[program]
end

-- Why a record must no longer be quoted; nil: it may be.
local function staleness(path, record)
    local sources = { [record.program or path:match("([^/]+)%.json$")] = record.source_hash }
    for program, hash in pairs(record.source_hashes or {}) do
        sources[program] = hash
    end
    for program, hash in pairs(sources) do
        local now = hash_today(program)
        if not now then
            return path .. ": cannot tell whether it is stale: build/hashes.tsv has no hash of "
                .. program
        elseif now ~= hash then
            return path .. " is stale: " .. program
                .. " has changed since it was recorded (run it again: make runs)"
        end
    end
end

local records = {} -- by name: { record, trouble, stale }

local function load_record(name)
    local entry = records[name]
    if entry then
        return entry
    end
    entry = {}
    records[name] = entry
    local path = "plots/runs/" .. name .. ".json"
    local text = read(path)
    if not text then
        entry.trouble = "no recorded run " .. path
        return entry
    end
    local why
    entry.record, why = parse_json(text)
    if type(entry.record) ~= "table" then
        entry.trouble = path .. ": not JSON: " .. (why or "no object")
    else
        entry.stale = staleness(path, entry.record)
    end
    return entry
end

-- Why a record ("h200/lab03") cannot be quoted; nil: it can.
function runs.trouble(name)
    local entry = load_record(name)
    return entry.trouble or entry.stale
end

-- The only element of an array that meets a condition such as "seed=0,input=normal".
local function choose(array, condition)
    local found
    for _, element in ipairs(array) do
        local same = type(element) == "table"
        for field, wanted in condition:gmatch("([%w_]+)=([^,]+)") do
            same = same and tostring(element[field]) == wanted
        end
        if same and found then
            return nil, "more than one element has " .. condition
        end
        found = found or same and element or nil
    end
    return found, "no element has " .. condition
end

-- The value at `path` in a record; or nil, and perhaps the reason.
local function lookup(record, path)
    local here, rest = record, path
    while rest ~= "" do
        if type(here) ~= "table" or here == null then
            return nil
        end
        local why
        local condition, after = rest:match("^%[([^%]]*)%]%.?(.*)$")
        if condition then
            here, why = choose(here, condition)
        else
            local part
            part, after = rest:match("^([^.%[]+)%.?(.*)$")
            if not part then
                return nil
            end
            local index = here[part] == nil and math.tointeger(tonumber(part))
            here = here[index and index + 1 or part]
        end
        if here == nil then
            return nil, why
        end
        rest = after
    end
    return here
end

-- Counts the lines of C in a folder and its subfolders, without blank lines, comments and tests; nil: there is
-- no such folder.
local function count_lines(folder)
    local find = "find \"$0\" \\( -name '*.[ch]' -o -name '*.def' \\) -not -path '*/test/*' 2>/dev/null"
    local ok, files = pcall(pandoc.pipe, "sh", { "-c", find, folder }, "")
    local count = 0
    for path in (ok and files or ""):gmatch("[^\n]+") do
        for line in io.lines(path) do
            local code = line:find("^%s*[^%s/]") or line:find("^%s*/[^/]")
            count = count + (code and 1 or 0)
        end
    end
    return ok and count or nil
end

-- Returns the value of a number or a reference and, if the value is stale, why; or nil and what is wrong.
local function operand(word)
    local number = tonumber(word)
    if number then
        return number
    end
    local folder = word:match("^lines:(%S+)$")
    if folder then
        local count = count_lines(folder)
        return count, not count and "there is no folder " .. folder or nil
    end
    local name, path = word:match("^([%w_.-]+/[%w_.-]+):(%S+)$")
    if not name then
        return nil, "'" .. word .. "' is neither a number nor <gpu>/<record>:<key>"
    end
    local entry = load_record(name)
    if entry.trouble then
        return nil, entry.trouble
    end
    local found, why = lookup(entry.record, path)
    if found == nil or found == null then
        return nil, "plots/runs/" .. name .. ".json has no '" .. path .. "'"
            .. (why and " (" .. why .. ")" or "")
    elseif type(found) == "table" then
        return nil, "'" .. path .. "' of plots/runs/" .. name .. ".json is not one value"
    end
    return found, entry.stale
end

local OPERATORS = {
    ["+"] = function(a, b) return a + b end,
    ["-"] = function(a, b) return a - b end,
    ["*"] = function(a, b) return a * b end,
    ["/"] = function(a, b) return a / b end,
}

-- Groups digits in threes, from five digits on, with thin spaces that do not break (U+202F).
local function whole_number_grouped(text)
    local before, digits, after = text:match("^([^%d]*)(%d%d%d%d%d+)([^%d.]*)$")
    if not digits then
        return text
    end
    digits = digits:reverse():gsub("%d%d%d", "%0 "):reverse():gsub("^ ", ""):gsub(" ", "\u{202F}")
    return before .. digits .. after
end

-- Evaluates the text of a .run span; fmt: a format of printf; scale: a factor. Returns the text to set and, if
-- the record is stale, why; or nil and what is wrong.
function runs.evaluate(expression, fmt, scale)
    local words = {}
    for word in expression:gmatch("%S+") do
        table.insert(words, word)
    end
    if scale then
        table.insert(words, "*")
        table.insert(words, scale)
    end
    if #words % 2 == 0 then
        return nil, "cannot read '" .. expression .. "': value [operator value …]"
    end
    local result, stale = operand(words[1])
    if result == nil then
        return nil, stale
    end
    for i = 2, #words, 2 do
        local apply = OPERATORS[words[i]]
        local right, why = operand(words[i + 1])
        if not apply then
            return nil, "unknown operator '" .. words[i] .. "' in '" .. expression
                .. "' (+ - * / with spaces around)"
        elseif right == nil then
            return nil, why
        elseif type(result) ~= "number" or type(right) ~= "number" then
            return nil, "'" .. expression .. "' computes with what is no number"
        elseif words[i] == "/" and right == 0 then
            return nil, "'" .. expression .. "' divides by zero"
        end
        result, stale = apply(result, right), stale or why
    end
    if type(result) == "boolean" then
        result = result and "yes" or "no"
    end
    local whole = math.type(result) == "float" and (fmt or ""):find("%%[-+ 0#]*%d*d")
    fmt = fmt or (math.type(result) == "float" and "%.6g" or "%s")
    local ok, text = pcall(string.format, fmt, whole and math.floor(result + 0.5) or result)
    if not ok then
        return nil, 'fmt="' .. fmt .. '" does not fit the value ' .. tostring(result)
    end
    return whole_number_grouped(text), stale
end

return runs
