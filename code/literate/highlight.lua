-- Splits a line of code into coloured tokens: { {class, text}, … } with the classes
-- kw (keyword) ty (type) bi (CUDA built-in, library word) nu (number) st (string) co (comment)
-- pp (preprocessor) fn (function being called) va (shell variable) and nil (plain).
-- The book sets code itself, without Pandoc's highlighter, because a line of code also has links to
-- other chunks, and bars where it differs from an earlier chapter.

local highlight = {}

local function set(text)
    local words = {}
    for word in text:gmatch("%S+") do words[word] = true end
    return words
end

local c = {
    line_comment = "//",
    block_comment = { "/*", "*/" },
    strings = "\"'",
    preprocessor = true,
    kw = set [[
        if else for while do switch case default break continue return goto sizeof typedef struct
        union enum static const constexpr extern inline volatile register restrict template typename
        class using namespace auto static_assert _Static_assert alignas _Alignas alignof new delete
        operator public private asm __asm__ true false nullptr NULL]],
    ty = set [[
        void char short int long float double signed unsigned bool _Bool size_t ssize_t ptrdiff_t
        int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t FILE half half2
        float2 float4 int2 int4 uint2 uint4 uint3 dim3 __half __half2 __nv_bfloat16 __nv_fp8_e4m3
        __nv_fp8_storage_t __nv_fp8x2_storage_t cudaError_t cudaStream_t cudaEvent_t]],
    bi = set [[
        __global__ __device__ __host__ __shared__ __constant__ __launch_bounds__ __forceinline__
        __noinline__ __restrict__ __align__ threadIdx blockIdx blockDim gridDim warpSize
        __syncthreads __syncwarp]],
}

local languages = {
    c = c,
    cuda = c,
    cpp = c,
    gnuplot = {
        line_comment = "#",
        strings = "\"'",
        kw = set [[set unset plot splot replot do for if else while call load reset print exit]],
        ty = set [[
            with using title notitle axes linecolor lc linetype lt linewidth lw pointtype pt
            pointsize ps dashtype dt terminal output xlabel ylabel xrange yrange logscale key grid
            border tics xtics ytics mxtics mytics style label arrow format size font datafile
            separator margin lmargin rmargin tmargin bmargin offset at from to]],
        bi = set [[
            lines points linespoints boxes yerrorbars xerrorbars labels impulses vectors
            filledcurves steps svg pngcairo enhanced first graph screen character nohead]],
    },
    bash = {
        line_comment = "#",
        strings = "\"'",
        variables = true,
        kw = set [[
            if then else elif fi for in do done while until case esac function return exit local
            export set trap]],
        bi = set [[
            make nvcc gcc ncu nsys pandoc gnuplot git cd echo printf sudo python3 bash sed]],
    },
    ptx = {
        line_comment = "//",
        strings = "\"",
        kw = set [[bra ret call exit]],
        words = "[%w_.%%$]",
        ty = set [[
            .reg .shared .global .param .entry .visible .func .target .version .address_size]],
    },
    python = {
        line_comment = "#",
        strings = "\"'",
        kw = set [[
            and as assert class def del elif else except for from global if import in is lambda not or pass
            raise return try while with yield None True False]],
    },
    make = { line_comment = "#", strings = "\"'", variables = true },
    json = { strings = "\"", kw = set [[true false null]] },
}
languages.sh, languages.console = languages.bash, languages.bash
languages.h = c

-- `state` remembers a block comment from line to line; it is {} at first.
function highlight.line(text, language, state)
    local lang = languages[language]
    if not lang then return { { nil, text } } end
    local tokens, at = {}, 1
    local function put(class, upto)
        if upto >= at then
            local last = tokens[#tokens]
            if last and last[1] == class then last[2] = last[2] .. text:sub(at, upto)
            else tokens[#tokens + 1] = { class, text:sub(at, upto) } end
            at = upto + 1
        end
    end
    local function block_comment()
        local _, stop = text:find(lang.block_comment[2], at, true)
        state.comment = stop == nil
        put("co", stop or #text)
    end
    if state.comment then block_comment() end
    if lang.preprocessor and text:match("^%s*#", at) then
        local directive = text:match("^%s*#%s*%a*", at)
        put("pp", at + #directive - 1)
        if directive:match("include$") and text:match("^%s*<[^>]*>", at) then
            put("st", at + #text:match("^%s*<[^>]*>", at) - 1)
        end
    end
    local word_chars = lang.words or "[%w_]"
    while at <= #text do
        local char = text:sub(at, at)
        local before = at > 1 and text:sub(at - 1, at - 1) or " "
        if lang.line_comment and text:sub(at, at + #lang.line_comment - 1) == lang.line_comment
            and (lang.line_comment ~= "#" or before:match("%s")) then
            put("co", #text)
        elseif lang.block_comment and text:sub(at, at + 1) == lang.block_comment[1] then
            local start = at
            local _, stop = text:find(lang.block_comment[2], start + 2, true)
            state.comment = stop == nil
            put("co", stop or #text)
        elseif lang.strings and lang.strings:find(char, 1, true) then
            local stop = at
            repeat
                stop = text:find(char, stop + 1, true)
            until not stop or not text:sub(1, stop - 1):match("\\+$")
                or #text:sub(1, stop - 1):match("\\+$") % 2 == 0
            put("st", stop or #text)
        elseif lang.variables and char == "$" then
            local name = text:match("^%$%b{}", at) or text:match("^%$%b()", at)
                or text:match("^%$[%w_]+", at) or char
            put("va", at + #name - 1)
        elseif char:match("%d") and not before:match("[%w_]") then
            local number = text:match("^0[xXbB][%x']+[uUlL]*", at)
                or text:match("^[%d.]+[eE][+-]?%d+[fFlL]?", at)
                or text:match("^[%d.']+[uUlLfF]*", at)
            put("nu", at + #number - 1)
        elseif char:match(word_chars) then
            local word = text:match("^" .. word_chars .. "+", at)
            local class
            for _, name in ipairs { "kw", "ty", "bi" } do
                if not class and lang[name] and lang[name][word] then class = name end
            end
            if not class and lang == c and text:match("^%s*[(]", at + #word) then class = "fn" end
            put(class, at + #word - 1)
        else
            local rest = text:match("^[^%w_\"'/#$]+", at) or char
            put(nil, at + #rest - 1)
        end
    end
    return tokens
end

return highlight
