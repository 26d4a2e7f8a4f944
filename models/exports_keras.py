"""Networks of Keras, small ones, with drawn weights: channels last, as TensorFlow has them.

KERAS maps a name to an exports.Network whose `make` gives the model.
"""

from exports import Network, floats, indices

BATCHES = [{"N": 2}, {"N": 1}, {"N": 5}]


def images(make):
    return Network(make, {"image": floats("N", 32, 32, 3)}, BATCHES, ("tf2onnx",), source="keras")


def words(make):
    return Network(make, {"words": indices(50, "N", 9, dtype="int32")}, BATCHES, ("tf2onnx",), source="keras")


def mobile():
    import keras
    return keras.applications.MobileNet((32, 32, 3), alpha=0.25, weights=None, classes=10)


def residual():
    import keras
    from keras import layers
    x = image = keras.Input((32, 32, 3), name="image")
    x = layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(x)
    for dilation in (1, 2):
        y = layers.Activation("relu")(layers.BatchNormalization()(x))
        y = layers.SeparableConv2D(16, 3, padding="same", dilation_rate=dilation)(y)
        x = layers.add([x, layers.LeakyReLU()(y)])
    x = layers.UpSampling2D(2, interpolation="bilinear")(layers.AveragePooling2D(2)(x))
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="swish")(x)
    return keras.Model(image, layers.Dense(5, "softmax")(layers.GlobalMaxPooling2D()(x)))


def recurrent(kind):
    def make():
        import keras
        from keras import layers
        x = inputs = keras.Input((9,), name="words", dtype="int32")
        x = layers.Embedding(50, 12)(x)
        x = layers.Bidirectional(getattr(layers, kind)(10, return_sequences=True))(x)
        return keras.Model(inputs, layers.Dense(3, "softmax")(layers.GlobalAveragePooling1D()(x)))
    return make


def attention():
    import keras
    from keras import layers
    x = inputs = keras.Input((9,), name="words", dtype="int32")
    x = layers.Embedding(50, 16)(x)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 4)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, "silu")(x)))
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x)))


KERAS = {"keras_mobilenet": images(mobile), "keras_residual": images(residual), "keras_lstm": words(recurrent("LSTM")),
         "keras_gru": words(recurrent("GRU")), "keras_attention": words(attention)}
