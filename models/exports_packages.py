"""Networks of torchvision, timm and transformers, small ones or made small by their configurations, with drawn weights.

PACKAGES maps a name to an exports.Network.
"""

from torch import nn

from exports import TORCH, Network, floats, indices, mask

BATCHES = [{"batch": 2}, {"batch": 1}, {"batch": 3}]
LENGTHS = [{"batch": 2, "S": 7}, {"batch": 1, "S": 12}, {"batch": 3, "S": 5}]
SQUARES = [{"batch": 2, "h": 64, "w": 96}, {"batch": 1, "h": 96, "w": 64}, {"batch": 3, "h": 64, "w": 64}]


class Outputs(nn.Module):
    """Calls a network with its inputs by name, and keeps the named parts of what it gives."""

    def __init__(self, network, inputs, parts, options):
        super().__init__()
        self.network, self.inputs, self.parts, self.options = network, inputs, parts, options

    def forward(self, *values):
        found = self.network(**dict(zip(self.inputs, values)), **self.options)
        return tuple(found[part] for part in self.parts) if self.parts else found


def vision(name, size=None, **options):
    """A network of torchvision; of any size where none is given."""
    def make():
        import torchvision.models
        return torchvision.models.get_model(name, weights=None, num_classes=10, **options)
    if size:
        return Network(make, {"image": floats("batch", 3, size, size)}, BATCHES, source="torchvision")
    return Network(make, {"image": floats("batch", 3, "h", "w")}, SQUARES, source="torchvision")


def segmenter(name):
    def make():
        import torchvision.models
        return Outputs(torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5), ["input"], ["out"], {})
    return Network(make, {"image": floats("batch", 3, "h", "w")}, SQUARES, source="torchvision")


def timm(name, size=64, **options):
    def make():
        import timm
        return timm.create_model(name, pretrained=False, num_classes=10, exportable=True, **options)
    return Network(make, {"image": floats("batch", 3, size, size)}, BATCHES, source="timm")


def transformer(model, config, inputs, sizes=LENGTHS, parts=("last_hidden_state",), options=None,
                exporters=TORCH, **sides):
    """A class of transformers, with a small configuration of a class of it."""
    def make():
        import transformers
        made = getattr(transformers, config)(**sides)
        made._attn_implementation = "eager"
        return Outputs(getattr(transformers, model)(made), list(inputs), list(parts), options or {})
    return Network(make, inputs, sizes, exporters, source="transformers")


IDS = {"input_ids": indices(90, "batch", "S")}
MASKED = IDS | {"attention_mask": mask("batch", "S")}
SMALL = {"vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
POSITIONS = SMALL | {"max_position_embeddings": 64}
DECODER = {"options": {"use_cache": False}} | POSITIONS
GROUPED = DECODER | {"num_key_value_heads": 2}
PIXELS = {"pixel_values": floats("batch", 3, 32, 32)}
PATCHES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
SPEECH = [{"batch": 2, "S": 1600}, {"batch": 1, "S": 2400}, {"batch": 3, "S": 1200}]
WAVES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 30,
         "conv_dim": [16] * 3, "conv_stride": [5, 4, 2], "conv_kernel": [10, 4, 3], "num_feat_extract_layers": 3,
         "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}

PACKAGES = {
    # torchvision
    **{name: vision(name) for name in
       ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5",
        "regnet_y_400mf", "swin_t")},
    "vit": vision("vit_b_16", 224),
    "lraspp": segmenter("lraspp_mobilenet_v3_large"),
    # timm
    **{name: timm(name) for name in
       ("resnet10t", "mobilenetv4_conv_small", "ghostnet_050", "tinynet_e", "lcnet_050", "repvit_m0_9", "mobileone_s0", "edgenext_xx_small",
        "mobilevit_xxs", "poolformer_s12", "efficientvit_b0", "fastvit_t8", "pvt_v2_b0", "convnextv2_atto", "lambda_resnet26t",
        "skresnet18", "inception_next_atto", "resnest14d", "repvgg_a0", "xcit_nano_12_p16_224")},
    **{name: timm(name, 64, img_size=64) for name in ("deit_tiny_patch16_224", "mixer_s32_224", "gmlp_ti16_224", "coat_lite_tiny")},
    "levit_128s": timm("levit_128s", 224),
    # transformers: encoders
    "bert": transformer("BertModel", "BertConfig", MASKED | {"token_type_ids": indices(2, "batch", "S")},
                        parts=("last_hidden_state", "pooler_output"), **POSITIONS),
    "roberta": transformer("RobertaModel", "RobertaConfig", MASKED, **POSITIONS),
    "distilbert": transformer("DistilBertModel", "DistilBertConfig", MASKED, vocab_size=90, dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "albert": transformer("AlbertModel", "AlbertConfig", MASKED, embedding_size=16, **POSITIONS),
    "electra": transformer("ElectraModel", "ElectraConfig", MASKED, embedding_size=16, **POSITIONS),
    "deberta": transformer("DebertaV2Model", "DebertaV2Config", MASKED, relative_attention=True, pos_att_type=["p2c", "c2p"],
                           position_buckets=8, max_relative_positions=64, **POSITIONS),
    "mpnet": transformer("MPNetModel", "MPNetConfig", MASKED, **POSITIONS),
    "convbert": transformer("ConvBertModel", "ConvBertConfig", MASKED, embedding_size=32, **POSITIONS),
    "squeezebert": transformer("SqueezeBertModel", "SqueezeBertConfig", MASKED, embedding_size=32, **POSITIONS),
    "fnet": transformer("FNetModel", "FNetConfig", IDS, exporters=("dynamo",), **{k: v for k, v in POSITIONS.items() if k != "num_attention_heads"}),
    "modernbert": transformer("ModernBertModel", "ModernBertConfig", MASKED, pad_token_id=0, **POSITIONS),
    "xlnet": transformer("XLNetModel", "XLNetConfig", MASKED, exporters=("torchscript",), vocab_size=90, d_model=32, n_layer=2, n_head=4, d_inner=64),
    "funnel": transformer("FunnelBaseModel", "FunnelConfig", MASKED, vocab_size=90, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8,
                          d_inner=64),
    # transformers: decoders
    "gpt2": transformer("GPT2LMHeadModel", "GPT2Config", MASKED, parts=("logits",), options={"use_cache": False}, vocab_size=90, n_embd=32,
                        n_layer=2, n_head=4, n_positions=64),
    "llama": transformer("LlamaForCausalLM", "LlamaConfig", MASKED, parts=("logits",), **GROUPED),
    "mistral": transformer("MistralForCausalLM", "MistralConfig", MASKED, parts=("logits",), sliding_window=4, **GROUPED),
    "qwen2": transformer("Qwen2ForCausalLM", "Qwen2Config", MASKED, parts=("logits",), **GROUPED),
    "qwen3": transformer("Qwen3ForCausalLM", "Qwen3Config", MASKED, parts=("logits",), head_dim=8, **GROUPED),
    "gemma": transformer("GemmaForCausalLM", "GemmaConfig", MASKED, parts=("logits",), head_dim=8, **GROUPED),
    "gemma3": transformer("Gemma3ForCausalLM", "Gemma3TextConfig", MASKED, parts=("logits",), head_dim=8, **GROUPED),
    "phi": transformer("PhiForCausalLM", "PhiConfig", MASKED, parts=("logits",), **DECODER),
    "gpt_neox": transformer("GPTNeoXForCausalLM", "GPTNeoXConfig", MASKED, parts=("logits",), **DECODER),
    "opt": transformer("OPTForCausalLM", "OPTConfig", MASKED, parts=("logits",), options={"use_cache": False}, vocab_size=90, hidden_size=32,
                       num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, max_position_embeddings=64, word_embed_proj_dim=32),
    "bloom": transformer("BloomForCausalLM", "BloomConfig", MASKED, parts=("logits",), options={"use_cache": False}, vocab_size=90,
                         hidden_size=32, n_layer=2, n_head=4),
    "falcon": transformer("FalconForCausalLM", "FalconConfig", MASKED, parts=("logits",), options={"use_cache": False}, vocab_size=90,
                          hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
    "mamba": transformer("MambaModel", "MambaConfig", IDS, [{"batch": 2, "S": 7}], options={"use_cache": False}, vocab_size=90, hidden_size=32,
                         num_hidden_layers=2, state_size=4),
    # transformers: both
    "t5": transformer("T5Model", "T5Config", MASKED | {"decoder_input_ids": indices(90, "batch", "T")},
                      [{"batch": 2, "S": 7, "T": 4}, {"batch": 1, "S": 12, "T": 1}, {"batch": 3, "S": 5, "T": 6}],
                      options={"use_cache": False}, vocab_size=90, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "bart": transformer("BartModel", "BartConfig", MASKED, options={"use_cache": False}, vocab_size=90, d_model=32, encoder_layers=2,
                        decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                        max_position_embeddings=64),
    # transformers: images and sound
    "vit_tiny": transformer("ViTModel", "ViTConfig", PIXELS, BATCHES, **PATCHES),
    "dinov2": transformer("Dinov2Model", "Dinov2Config", PIXELS, BATCHES, **PATCHES),
    "yolos": transformer("YolosForObjectDetection", "YolosConfig", {"pixel_values": floats("batch", 3, 32, 32)}, BATCHES,
                         parts=("logits", "pred_boxes"), **PATCHES | {"image_size": [32, 32]}),
    "swin": transformer("SwinModel", "SwinConfig", PIXELS, BATCHES, image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
                        num_heads=[2, 4], window_size=4),
    "segformer": transformer("SegformerForSemanticSegmentation", "SegformerConfig", {"pixel_values": floats("batch", 3, "h", "w")}, SQUARES,
                             parts=("logits",), depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], decoder_hidden_size=16),
    "clip": transformer("CLIPTextModel", "CLIPTextConfig", MASKED, eos_token_id=2, **POSITIONS),
    "clip_vision": transformer("CLIPVisionModel", "CLIPVisionConfig", PIXELS, BATCHES, **PATCHES),
    "whisper": transformer("WhisperModel", "WhisperConfig", {"input_features": floats("batch", 20, 64),
                                                                     "decoder_input_ids": indices(90, "batch", "S")},
                                   options={"use_cache": False}, exporters=("dynamo",), vocab_size=90, num_mel_bins=20, d_model=32, encoder_layers=2, decoder_layers=2,
                                   encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                                   max_source_positions=32, max_target_positions=32, pad_token_id=0),
    "wav2vec2": transformer("Wav2Vec2Model", "Wav2Vec2Config", {"input_values": floats("batch", "S")}, SPEECH, **WAVES),
    "hubert": transformer("HubertModel", "HubertConfig", {"input_values": floats("batch", "S")}, SPEECH, **WAVES),
}
