# chart: queries that find their key, and error of the worst head, over the number of keys
height = 190.0
eval term(height)
set multiplot
set tmargin at screen 1 - 46 / height
set bmargin at screen 40 / height
set logscale x 2
set xrange [7000:155000]
set xtics ('8192' 8192, '16384' 16384, '32768' 32768, '65536' 65536, '131072' 131072)
set grid xtics ytics ls 20
set xlabel 'keys' textcolor rgb ink offset 0,0.5
set style line 10 lc rgb gate pt 0 ps 0 lw 1.3 dt (4,3)
set style line 11 lc rgb '#2f7d5b' pt 4 ps 0.7 lw 1.3
set style line 12 lc rgb '#3d6d9e' pt 8 ps 0.8 lw 1.3
set style line 13 lc rgb '#0b3c6f' pt 7 ps 0.7 lw 1.6
set style line 15 lc rgb '#8a4f9e' pt 10 ps 0.8 lw 1.3
set style line 14 lc rgb '#b5600f' pt 6 ps 0.7 lw 1.3
set lmargin at screen 42.0 / width
set rmargin at screen 232.0 / width
set yrange [0:100]
set ytics 0,20,100 format '%.0f %%'
set label 1 'needles found' at graph 0, screen 1 - 36 / height left textcolor rgb ink
set label 10 '- - in double' at screen 0.02, screen 1 - 12 / height textcolor ls 10
set label 11 '□ P in half' at screen 0.19, screen 1 - 12 / height textcolor ls 11
set label 12 '△ floats take over every tile' at screen 0.34, screen 1 - 12 / height textcolor ls 12
set label 13 '● every second' at screen 0.64, screen 1 - 12 / height textcolor ls 13
set label 14 '○ at the end' at screen 0.83, screen 1 - 12 / height textcolor ls 14
plot for [w = 0:4] data index w every ::1 using 1:($2 * 100) with linespoints ls 10 + w
unset for [w = 10:14] label w
set lmargin at screen 282.0 / width
set rmargin at screen 472.0 / width
set logscale y
set yrange [*:*]
set ytics ('10⁻³' 1e-3, '10⁻²' 1e-2, '10⁻¹' 1e-1, '1' 1) format '%g'
set label 1 'error of the worst head' at graph 0, screen 1 - 36 / height left
set label 2 'exponentials, maximum ▽' at graph 0.99, graph 0.44 right textcolor ls 15
plot for [w = 1:5] data index w every ::1 using 1:3 with linespoints ls 10 + w
unset multiplot
