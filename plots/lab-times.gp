# chart: a lab's kernel before and after on a GPU: p50, the ratio with its interval, the promise
shapes = int(system("grep -vc '^#' '" . data . "'"))
step = shapes > 1 ? 106 : 94 # a promise is above its bars, below the axis of the shape before
height = 14.0 + step * shapes
eval term(height)
set multiplot
set border 1
set style fill solid 1 noborder
set ytics scale 0
set yrange [2.65:0.35]
set lmargin at screen 138.0 / width
set rmargin at screen 1 - 96.0 / width
half = 0.36
field(line, column) = system(sprintf("grep -v '^#' '%s' | sed -n %dp | cut -f %d", data, line, column))

# The ends of an interval, with enough digits to tell them apart.
ends(low, high) = high - low > 0.01 ? sprintf('%.2f–%.2f', low, high) : sprintf('%.4f–%.4f', low, high)

$bars << EOD
1
EOD
do for [k = 1:shapes] {
    old = field(k, 5) + 0
    new = field(k, 6) + 0
    median = field(k, 7) + 0
    low = field(k, 8) + 0
    high = field(k, 9) + 0
    promise = field(k, 10) + 0
    top = 8 + step * (k - 1)
    set tmargin at screen 1 - (top + 14) / height
    set bmargin at screen 1 - (top + 58) / height
    set xrange [0:1.1 * (old > new ? old : new)]
    set xtics autofreq scale 0.5 format '%g'
    set ytics (field(k, 2) 1, field(k, 3) 2)
    set xlabel sprintf('p50 of %s on %s, µs', field(k, 1), field(k, 4)) textcolor rgb ink offset 0,0.6
    set label 1 sprintf('%.2f×', median) at graph 1, first 1.3 left offset 1,0 \
        font ',15' textcolor rgb after
    set label 2 ends(low, high) at graph 1, first 2.15 left offset 1.1,0 \
        textcolor rgb ink
    unset arrow
    unset label 3
    if (promise > 0) {
        set arrow 1 from old / promise, graph 0 to old / promise, graph 1.02 nohead ls 21 front
        set label 3 sprintf('promised %.2f×: %s', promise, field(k, 11)) \
            at old / promise, graph 1 center offset 0,0.6 textcolor rgb gate
    }
    plot $bars using (0):(1):(0):(old):(1 - half):(1 + half) with boxxyerror lc rgb before, \
         $bars using (0):(2):(0):(new):(2 - half):(2 + half) with boxxyerror lc rgb '#40709f', \
         $bars using (new):(2):(old / high):(old / low) with xerrorbars pt 0 lw 1.4 lc rgb '#000000', \
         $bars using (0):(1):(sprintf('%.1f', old)) with labels left offset 0.5,0 textcolor rgb ink, \
         $bars using (0):(2):(sprintf('%.1f', new)) with labels left offset 0.5,0 \
             textcolor rgb '#ffffff'
}
unset multiplot
