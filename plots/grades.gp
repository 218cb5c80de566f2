# Shows how many submissions earned all, some and none of each item's points, and how the sums of points
# are distributed; submissions without points have the colour of the reason:
# gnuplot -c plots/grades.gp summary.tsv grades.tsv summary.svg TITLE
load 'plots/style.gp'
set datafile separator "\t"
data = ARG1
totals = ARG2
stats data using 2 skip 1 nooutput
rows = int(STATS_records)
head = 42.0
below = head + 19 * rows
height = below + 44 + 190
eval term(height)
set output (ARG3)
set multiplot
set label 1 (ARG4) at screen 0.01, screen 1 - 12 / height textcolor rgb ink
set border 1
set ytics scale 0
set lmargin at screen 170.0 / width
set rmargin at screen 1 - 20.0 / width
set tmargin at screen 1 - head / height
set bmargin at screen 1 - below / height
set key at screen 0.99, screen 1 - 20 / height top right horizontal maxrows 1 width -2 Left reverse \
    samplen 0.8 textcolor rgb ink
set grid xtics ls 20
set style data boxxyerror
set style fill solid border rgb '#ffffff'
set yrange [rows + 0.6:0.4]
set xrange [0:*]
set xlabel 'submissions' textcolor rgb ink offset 0,0.6
plot data skip 1 using (0):($0 + 1):(0):2:($0 + 0.7):($0 + 1.3):ytic(1) lc rgb after title 'all points', \
     data skip 1 using (0):($0 + 1):2:($2 + $3):($0 + 0.7):($0 + 1.3) lc rgb before title 'some', \
     data skip 1 using (0):($0 + 1):($2 + $3):($2 + $3 + $4):($0 + 0.7):($0 + 1.3) lc rgb '#b5600f' \
         title 'none'

unset label 1

set tmargin at screen 1 - (below + 102) / height
set bmargin at screen 40.0 / height
set border 3
set ytics autofreq scale 0.5
set grid noxtics ytics ls 20
set xrange [-5:105]
set yrange [0:*]
set xtics 0,20,100
set xlabel 'points, of 100 that can be had here' textcolor rgb ink offset 0,0.5
set ylabel 'submissions' textcolor rgb ink
set boxwidth 9 absolute
set key at screen 0.99, screen 1 - (below + 52) / height top right horizontal maxrows 2 width -2 Left reverse \
    samplen 0.8 textcolor rgb ink
array why[6] = ['graded', 'wrong', 'stopped', 'does not compile', 'refused', 'not graded'] # judge.h: enum status
array tint[6] = [after, '#b5600f', '#7a4a9a', '#a8a8a8', '#8a1f1f', '#404040']
array there[6]
do for [k = 0:5] {
    stats totals using ($2 == k) nooutput
    there[k + 1] = int(STATS_sum)
}
# Draws, for each reason, the submissions with this or a later reason, over those with an earlier
# one.
plot for [k = 0:5] totals using (10 * floor($1 / 10.0001) + 5):($2 >= k ? 1 : 0) smooth frequency with boxes \
    lc rgb tint[k + 1] title (there[k + 1] ? why[k + 1] : '')
unset multiplot
