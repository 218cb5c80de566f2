# chart: tokens a second of a real model on an H200, and the share of its time that is attention, over the context
height = 250.0
eval term(height)
set multiplot
set tmargin at screen 1 - 46 / height
set bmargin at screen 40 / height
set logscale x 2
set xrange [110:19000]
set xtics ('128' 128, '512' 512, '2048' 2048, '8192' 8192)
set grid xtics ytics ls 20
set xlabel 'context, tokens' textcolor rgb ink offset 0,0.5
set style line 11 lc rgb '#b5600f' pt 6 ps 0.7 lw 1.3
set style line 12 lc rgb '#8a4f9e' pt 4 ps 0.65 lw 1.3
set style line 13 lc rgb '#3d6d9e' pt 8 ps 0.8 lw 1.3
set style line 14 lc rgb '#0b3c6f' pt 7 ps 0.7 lw 1.6
set lmargin at screen 42.0 / width
set rmargin at screen 232.0 / width
set yrange [0:*]
set ytics 0,1,20
set label 1 'million tokens a second' at graph 0, screen 1 - 36 / height left textcolor rgb ink
set label 11 '○ PyTorch, flash' at screen 0.02, screen 1 - 12 / height textcolor ls 11
set label 12 '□ PyTorch, cuDNN' at screen 0.27, screen 1 - 12 / height textcolor ls 12
set label 13 '△ chapter 15' at screen 0.54, screen 1 - 12 / height textcolor ls 13
set label 14 '● chapter 18' at screen 0.77, screen 1 - 12 / height textcolor ls 14
plot for [w = 0:3] data index w every ::1 using 1:($2 / 1e6) with linespoints ls 11 + w
unset for [w = 11:14] label w
set lmargin at screen 282.0 / width
set rmargin at screen 472.0 / width
set yrange [0:100]
set ytics 0,25,100 format '%.0f %%'
set label 1 'attention and quantisation, share of the time' at graph -0.16, screen 1 - 36 / height left
plot for [w = 0:3] data index w every ::1 using 1:($3 * 100) with linespoints ls 11 + w
unset multiplot
