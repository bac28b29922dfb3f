"""Models: the papers' small nets, residual nets and VGG, and adapters for models of others."""

from rightreasons.models.attention_branch import AttentionBranch as AttentionBranch
from rightreasons.models.attention_branch import attention_branch as attention_branch
from rightreasons.models.cifar_nets import resnet32 as resnet32
from rightreasons.models.cifar_nets import wide_resnet28_10 as wide_resnet28_10
from rightreasons.models.efficientnet_lite import efficientnet_lite0 as efficientnet_lite0
from rightreasons.models.foreign import Binary as Binary
from rightreasons.models.foreign import HuggingFace as HuggingFace
from rightreasons.models.foreign import binary as binary
from rightreasons.models.foreign import huggingface as huggingface
from rightreasons.models.lenet import lenet as lenet
from rightreasons.models.mlp import mlp as mlp
from rightreasons.models.mlp import mlp2 as mlp2
from rightreasons.models.normalised import Normalise as Normalise
from rightreasons.models.normalised import normalised as normalised
from rightreasons.models.r4_nets import derma_net as derma_net
from rightreasons.models.r4_nets import isic_net as isic_net
from rightreasons.models.r4_nets import plant_net as plant_net
from rightreasons.models.registry import create as create
from rightreasons.models.registry import default_model as default_model
from rightreasons.models.registry import describe as describe
from rightreasons.models.registry import names as names
from rightreasons.models.resnet import resnet18 as resnet18
from rightreasons.models.resnet import resnet34 as resnet34
from rightreasons.models.resnet import resnet50 as resnet50
from rightreasons.models.selective import Abstaining as Abstaining
from rightreasons.models.selective import SelectiveHeads as SelectiveHeads
from rightreasons.models.selective import abstaining as abstaining
from rightreasons.models.selective import selective_net as selective_net
from rightreasons.models.small_cnn import small_cnn as small_cnn
from rightreasons.models.surgery import with_softplus as with_softplus
from rightreasons.models.text_nets import MeanMLP as MeanMLP
from rightreasons.models.text_nets import TextCNN as TextCNN
from rightreasons.models.text_nets import TextLSTM as TextLSTM
from rightreasons.models.text_nets import text_cnn as text_cnn
from rightreasons.models.text_nets import text_lstm as text_lstm
from rightreasons.models.text_nets import text_mlp as text_mlp
from rightreasons.models.transformer import TextClassifier as TextClassifier
from rightreasons.models.transformer import transformer as transformer
from rightreasons.models.vgg import vgg11 as vgg11
from rightreasons.models.weights import LoadedWeights as LoadedWeights
from rightreasons.models.weights import find_weights as find_weights
from rightreasons.models.weights import load_weights as load_weights

__all__ = [
    "Abstaining",
    "AttentionBranch",
    "Binary",
    "HuggingFace",
    "LoadedWeights",
    "MeanMLP",
    "Normalise",
    "SelectiveHeads",
    "TextCNN",
    "TextClassifier",
    "TextLSTM",
    "abstaining",
    "attention_branch",
    "binary",
    "create",
    "default_model",
    "derma_net",
    "describe",
    "efficientnet_lite0",
    "find_weights",
    "huggingface",
    "isic_net",
    "lenet",
    "load_weights",
    "mlp",
    "mlp2",
    "names",
    "normalised",
    "plant_net",
    "resnet18",
    "resnet32",
    "resnet34",
    "resnet50",
    "selective_net",
    "small_cnn",
    "text_cnn",
    "text_lstm",
    "text_mlp",
    "transformer",
    "vgg11",
    "wide_resnet28_10",
    "with_softplus",
]
