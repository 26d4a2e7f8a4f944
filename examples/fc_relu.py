import numpy as np
import weft

fc_relu = weft.comprehension(open('examples/fc_relu.tc').read(), 'fc_relu')
x, w, b = (np.ones(s, np.float32) for s in ((8, 3), (3, 4), (4,)))
print(fc_relu(x, w, b)[0], fc_relu.infer(x, w, b)['outputs'])
y = np.empty((8, 4), np.float32)
fc_relu(x, w=w, b=b, out=y)  # into memory of yours
try:
    fc_relu(x, x, b)
except weft.Error as error:
    print(error.code, error)
