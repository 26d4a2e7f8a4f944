from weft import tc

f = tc.Def('smooth')
(N,), (i,) = tc.sizes('N'), tc.indices('i')
x, y, m = f.input('x', 'float', N), f.output('y'), f.output('m')
y[i] = sum(c * x[i + k] for k, c in enumerate([0.25, 0.5, 0.25]))
m[()] = tc.amax(y[i])
print(f, end='')
smooth = f.open()  # weft.comprehension of this text
