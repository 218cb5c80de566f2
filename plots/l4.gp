# chart: PyTorch's attention on a real L4, as reported, beside the floors, over S and over B
height = 300.0
eval term(height)
set multiplot
set tmargin at screen 1 - 40 / height
set bmargin at screen 42 / height
set logscale xy
set yrange [3:8000]
set ytics ('3' 3, '10' 10, '30' 30, '100' 100, '300' 300, '1000' 1000, '3000' 3000)
set grid xtics ytics ls 20
set style line 11 lc rgb gate lw 1.4
set style line 12 lc rgb gate lw 1.4 dt (4,3)
set label 1 'p50, µs' at screen 10.0 / width, graph 0.5 center rotate textcolor rgb ink
set label 2 'L4, as reported, not measured by us: ◆ one run with its fastest and slowest sample, ◇ other days' \
    at screen 0.01, screen 1 - 9 / height textcolor ls 9
set label 3 'an L4''s floors: tensor cores (line), memory (dashed)' at screen 0.01, screen 1 - 24 / height \
    textcolor rgb gate
set label 4 '● H200, measured' at screen 0.72, screen 1 - 24 / height textcolor ls 1

do for [panel = 0:1] {
    b = 4 * panel
    set lmargin at screen (panel ? 270.0 : 52.0) / width
    set rmargin at screen (panel ? 470.0 : 252.0) / width
    if (panel) {
        unset label
        set ytics format ''
        set ytics ('' 3, '' 10, '' 30, '' 100, '' 300, '' 1000, '' 3000)
        set xrange [0.8:90]
        set xtics ('1' 1, '8' 8, '16' 16, '32' 32, '64' 64)
        set xlabel 'B (8 heads, S = 512)' textcolor rgb ink offset 0,0.5
    } else {
        set xrange [100:2600]
        set xtics ('128' 128, '256' 256, '512' 512, '1024' 1024, '2048' 2048)
        set xlabel 'S (32 batches of 8 heads)' textcolor rgb ink offset 0,0.5
    }
    plot data index b + 2 using 1:2 with lines ls 11, \
         data index b + 2 using 1:3 with lines ls 12, \
         data index b + 3 using 1:2 with linespoints ls 1 lw 1, \
         data index b using 1:2:3:4 with yerrorbars ls 9 pt 13 ps 0.75, \
         data index b + 1 using 1:2 with points ls 9 pt 12 ps 0.8
}
unset multiplot
