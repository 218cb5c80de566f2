# chart: what the warps of one CTA execute or wait for, in the order of instructions
part(k) = system(sprintf("head -1 '%s' | cut -f %d", data, k))
first = part(2) + 0
last = part(3) + 0
warps = part(4) + 0
# A chapter's pictures are beside each other, so all have the scale of its longest.
longest = system(sprintf("f='%s' b=${f##*/}; head -qn 1 \"$f\" \"${f%%/*}\"/\"${b%%%%[-.]*}\"-*timeline.tsv 2>/dev/null | " . \
    "cut -f 3 | sort -n | tail -1", data)) + 0
labels = int(system(sprintf("awk 'NR > 1 && !NF { exit } NR > 1 { n++ } END { print n }' '%s'", data)))
columns = 2
key_rows = (labels + 1) / columns
below = 40
height = below + 22.0 * warps + 16 + 14 * key_rows
eval term(height)
set lmargin at screen 52.0 / width
set rmargin at screen 1 - 14.0 / width
set bmargin at screen below / height
set tmargin at screen (below + 22.0 * warps) / height
set border 1
set style fill solid 1 noborder
set xrange [first:first + longest]
set yrange [warps - 0.5:-0.5]
set xtics nomirror scale 0.5
set ytics scale 0
set format x '%.0f'
set ytics ('warp 0' 0)
set for [w = 1:warps - 1] ytics add (sprintf('warp %d', w) w)
set xlabel 'instructions executed by a warp (aligned at barriers; no time)' textcolor rgb ink offset 0,0.6
# A step has the same colour and height in every picture, by the words at the beginning of its chunk's name; a chunk
# with another name takes the next colour in reserve. Steps of one height differ in lightness, so a step can be told
# in grey. Whole bars compute, those of 0.6 copy, load or convert, those of 0.3 do the rest; waits are thin.
array words[20] = ['waits at', 'all else', 'Convert a ', 'Convert four', 'Load and convert', 'Copy sixteen', \
    'Start copying', 'Load a piece', 'Turn scores', 'Update the online', 'Scale and mask', 'Rescale', 'Multiply', \
    'Accumulate', 'Load matrices', 'Reduce across', 'Find this CTA', 'Swizzle', 'Reset', 'Consume']
array colours[20] = [0xcfc9bc, 0xbdbdbd, 0x2f7d5b, 0xb4d67f, 0x7da2c9, 0x941812, \
    0xc85f55, 0x941812, 0xd08030, 0xd08030, 0xecd2a8, 0xecd2a8, 0x0b3c6f, \
    0x0b3c6f, 0x44505a, 0x8a4f9e, 0x6e6a45, 0xead9ee, 0x5fa8a0, 0x5fa8a0]
array heights[20] = [0.2, 0.3, 0.6, 0.6, 0.6, 0.6, \
    0.6, 0.6, 1, 1, 1, 1, 1, \
    1, 0.3, 1, 0.3, 0.3, 0.3, 0.3]
array reserve[11] = [0x4d4d4d, 0x3d8fa3, 0xc97ba0, 0x6b4f3a, 0x7d7dc4, 0xa3c9c3, 0x8c2d4f, 0xe0cf6a, 0x2b2b6b, \
    0x7f9f7f, 0xd0d0f0]
array shade[11]
array tall[11]
# What does not fit beside the other column is cut off (in a locale that knows UTF-8).
name(k) = system(sprintf("sed -n %dp '%s' | cut -f 2 | sed -E 's/^(.{44}).{4,}/\\1 …/'", k + 2, data))
text(k) = system(sprintf("sed -n %dp '%s' | cut -f 2", k + 2, data))
others = 0
do for [k = 0:labels - 1] {
    shade[k + 1] = -1
    do for [w = 1:|words|] {
        if (shade[k + 1] < 0 && strstrt(text(k), words[w]) == 1) { shade[k + 1] = colours[w]; tall[k + 1] = heights[w] }
    }
    if (shade[k + 1] < 0) {
        others = others + 1
        shade[k + 1] = reserve[others]
        tall[k + 1] = others % 2 ? 0.8 : 0.45
    }
}
do for [k = 0:labels - 1] {
    x = 0.02 + 0.5 * (k % columns)
    y = 1 - (9.0 + 14 * (k / columns)) / height
    h = 10.0 * tall[k + 1] / height
    set object k + 1 rectangle at screen x, screen y - (5.0 / height - h / 2) size screen 0.018, screen h \
        fc rgb shade[k + 1] fs solid border rgb '#999999' lw 0.3
    set label k + 1 name(k) at screen x + 0.018, screen y left textcolor rgb ink font ',10'
}
plot data index 1 using 2:1:2:3:($1 + 0.36 - 0.72 * tall[int($4) + 1]):($1 + 0.36):(shade[int($4) + 1]) \
         with boxxyerror lc rgb variable, \
     data index 2 using 1:(-0.5):(0):(warps) with vectors nohead lc rgb ink lw 0.6
