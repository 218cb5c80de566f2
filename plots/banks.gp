# chart: which banks the lanes of one shared-memory access touch
head = system("head -1 '" . data . "'")
part(k) = system(sprintf("head -1 '%s' | cut -f %d", data, k))
wavefronts = part(3) + 0
least = part(4) + 0
stats data using 1 nooutput
rows = STATS_max + 1
row = rows > 16 ? 3.4 : 7.6
height = 74 + row * rows
eval term(height)
set lmargin at screen 58.0 / width
set rmargin at screen 1 - 14.0 / width
set tmargin at screen 1 - 34.0 / height
set bmargin at screen 36.0 / height
set border 0
set style fill solid 1 noborder
set xrange [-0.5:31.5]
set yrange [rows - 0.5:-0.5]
set xtics 0,4,31 scale 0 offset 0,0.3
set ytics 0,(rows > 16 ? 4 : 1),rows scale 0
set xlabel 'bank' textcolor rgb ink offset 0,0.7
set ylabel (rows == 32 && part(2)[1:4] eq 'wmma' ? 'row of 16 bytes' : 'lane') textcolor rgb ink offset 1,0
set label 1 sprintf('%s', part(2)) at graph 0, screen 1 - 10.0 / height left textcolor rgb ink
set label 2 sprintf('%d wavefronts, %d without conflicts', wavefronts, least) \
    at graph 0, screen 1 - 23.0 / height left textcolor rgb gate
do for [k = 0:32] { set arrow from k - 0.5, -0.5 to k - 0.5, rows - 0.5 nohead ls 20 back }
do for [k = 0:rows] { set arrow from -0.5, k - 0.5 to 31.5, k - 0.5 nohead ls 20 back }
# A line separates the parts of an access that are served one after another.
do for [k = 1:3] { if (least == 4 && rows == 32) {
    set arrow from -0.5, k * 8 - 0.5 to 31.5, k * 8 - 0.5 nohead lc rgb ink lw 0.8 front } }
# The darker a bank, the more words of it are wanted at the same time.
colour(n) = n <= 1 ? 0x9fb8d1 : n <= 2 ? 0x5f8ab5 : n <= 4 ? 0x2f6196 : 0x0b3c6f
plot data using 2:1:(0.42):(0.40):(colour($3)) with boxxyerror lc rgb variable
