# chart: the candidates of a search in the order in which they were tried, and the best so far
part(k) = system(sprintf("head -1 '%s' | cut -c 3- | cut -f %d", data, k))
count = part(3) + 0
rejected = part(5) + 0
evolved = part(6) + 0
height = 262.0
eval term(height)
set lmargin at screen 52.0 / width
set rmargin at screen 1 - 14.0 / width
set tmargin at screen 1 - 44.0 / height
set bmargin at screen 40.0 / height

stats data index 0 using 2 nooutput
low = STATS_min / 1.25
high = STATS_max * 1.25
set logscale y
set yrange [low:high]
set xrange [0:count + 1]
set xlabel 'candidate' textcolor rgb ink offset 0,0.6
set label 1 sprintf('p50 of %s on %s, µs', part(1), part(2)) at screen 10.0 / width, graph 0.5 \
    center rotate textcolor rgb ink
set ytics (5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000) format '%g'
set xtics scale 0.5
set grid ytics ls 20
if (evolved < count) {
    set arrow 1 from evolved + 0.5, graph 0 to evolved + 0.5, graph 1 nohead ls 21
    set label 2 'changes of the best' at evolved, graph 0.95 offset 0,0 right textcolor rgb gate
}
set key at screen 0.02, screen 1 - 4.0 / height top left vertical maxrows 2 Left reverse samplen 1.2 \
    width 2 textcolor rgb ink
none = rejected > 0 ? 'data index 1 using 1:(low * 1.07) with points pt 2 ps 0.5 lc rgb gate ' \
    . 'title "refused, wrong or the same code",' : ''

plot @none data index 0 using 1:($4 == 0 ? $2 : 1/0) with points pt 6 ps 0.6 lw 1.2 lc rgb '#b5600f' \
         title 'without swizzle', \
     data index 0 using 1:($4 == 1 ? $2 : 1/0) with points pt 7 ps 0.6 lc rgb '#0b3c6f' \
         title 'with swizzle', \
     data index 0 using 1:3 with steps lc rgb ink lw 0.9 title 'best so far'
