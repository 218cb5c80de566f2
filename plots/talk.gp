# chart: a terminal in which the model answers
rows = int(system("wc -l <".data))
height = 17.0 * rows + 20
eval term(height)
unset border
unset tics
set margins 0,0,0,0
set xrange [0:1]
set yrange [height:0]
set object 1 rectangle from graph 0,0 to graph 1,1 fillcolor rgb '#20242b' fillstyle solid noborder behind
place(row) = 17.0 * row + 18
plot data every ::::0 using (0.03):(place($0)):1 with labels left font 'monospace,10' textcolor rgb '#9ecbff', \
    data every ::1::rows-2 using (0.03):(place($0 + 1)):1 with labels left font 'monospace,10' textcolor rgb '#f0f0f0', \
    data every ::rows-1 using (0.03):(place(rows - 1)):1 with labels left font 'monospace,10' textcolor rgb '#9aa4b0'
