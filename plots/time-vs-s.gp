# chart: p50 against the sequence length at 2 batches of 8 heads, a line a program
last = int(system("grep -c '^$' '" . data . "'")) / 2  # the index of the labels' block; before it
                                                       # there is one block for each program
gpu = system("head -1 '" . data . "' | cut -f 1")
height = 320.0 + (last > 8 ? 11 * (last - 8) : 0)
eval term(height)
set lmargin at screen 58.0 / width
set rmargin at screen 1 - 132.0 / width
set tmargin at screen 1 - 8 / height
set bmargin at screen 42 / height

shortest = 1e9
longest = 0
do for [b = 0:last - 1] {
    stats data index b skip 1 using 1 nooutput
    shortest = STATS_min < shortest ? STATS_min : shortest
    longest = STATS_max > longest ? STATS_max : longest
}
fastest = 1e9
slowest = 0
do for [b = 0:last] {  # the labels are moved apart, so they may reach further than the points
    if (b < last) { stats data index b skip 1 using 2 nooutput }
    if (b == last) { stats data index b using 3 nooutput }
    fastest = STATS_min < fastest ? STATS_min : fastest
    slowest = STATS_max > slowest ? STATS_max : slowest
}
set logscale xy
set yrange [fastest / 1.5:slowest * 1.5]
set xrange [shortest / 1.2:longest * 1.2]
set xlabel 'S (2 batches of 8 heads)' textcolor rgb ink offset 0,0.5
set label 1 'p50 on ' . gpu . ', µs' at screen 10.0 / width, graph 0.5 center rotate textcolor rgb ink
set xtics shortest, 2 format '%g'
set ytics format '%g'
unset mxtics
set mytics 10
set grid xtics ytics ls 20

plot for [b = 0:last - 1] data index b skip 1 using 1:2 with linespoints \
         lc rgb (b == 0 ? after : before) lw 1.5 pt 7 ps 0.55, \
     for [b = 0:last - 1] data index b skip 1 using 1:($3 == 1 ? $2 : NaN) with points \
         lc rgb '#ffffff' pt 7 ps 0.25, \
     data index last using 1:2:($1 * 0.15):($3 - $2) with vectors nohead lc rgb gate lw 0.5, \
     data index last using ($1 * 1.18):3:4 with labels left textcolor rgb ink
