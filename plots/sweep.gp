# chart: times as fast as the fastest peer at thirteen shapes, without and with a causal mask
stats data index 0 using 1 nooutput
rows = STATS_max
height = 74.0 + 14.0 * rows
eval term(height)
set multiplot
set tmargin at screen 1 - 24 / height
set bmargin at screen 46 / height
set logscale x
set xrange [0.29:2.8]
set xtics ('⅓' 1 / 3.0, '½' 0.5, '1' 1, '1.5' 1.5, '2' 2)
set yrange [rows + 0.6:0.4]
set grid xtics ytics ls 20
set border 1
set arrow 1 from 1, graph 0 to 1, graph 1 nohead ls 21 front
set style line 12 lc rgb '#6f9ac4' pt 9 ps 0.85
set label 1 '◇ portable: 15 and 20' at screen 0.01, screen 1 - 10 / height textcolor ls 9
set label 2 '▲ Hopper, P in half: 17 and 20' at screen 0.30, screen 1 - 10 / height textcolor ls 12
set label 3 '● Hopper, E4M3: 18 and 20' at screen 0.70, screen 1 - 10 / height textcolor ls 1
do for [panel = 0:1] {
    set lmargin at screen (panel ? 290.0 : 78.0) / width
    set rmargin at screen (panel ? 470.0 : 270.0) / width
    set xlabel (panel ? 'causal mask' : 'no mask') . ', fastest peer = 1' textcolor rgb ink offset 0,0.3
    if (panel) {
        unset label
        plot data index 1 using 3:1:ytic('') with points ls 9, data index 1 using 4:1 with points ls 12, \
             data index 1 using 5:1 with points ls 1
    } else {
        plot data index 0 using 3:1:ytic(2) with points ls 9, data index 0 using 4:1 with points ls 12, \
             data index 0 using 5:1 with points ls 1
    }
}
unset multiplot
