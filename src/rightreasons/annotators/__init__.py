"""Annotators: masks of all images from masks of a few."""

from rightreasons.annotators.annotator import PseudoAnnotator as PseudoAnnotator
from rightreasons.annotators.by_hand import annotated_by_hand as annotated_by_hand
from rightreasons.annotators.few import few_places as few_places
from rightreasons.annotators.few import with_few as with_few
from rightreasons.annotators.mask_archive import with_mask_archive as with_mask_archive
from rightreasons.annotators.mask_file import with_mask_files as with_mask_files
from rightreasons.annotators.mask_net import MaskNet as MaskNet
from rightreasons.annotators.next_image import Suggestion as Suggestion
from rightreasons.annotators.next_image import next_to_annotate as next_to_annotate
from rightreasons.annotators.patch_discriminator import PatchDiscriminator as PatchDiscriminator
from rightreasons.annotators.pix2pix import Pix2Pix as Pix2Pix
from rightreasons.annotators.quality import MaskQuality as MaskQuality
from rightreasons.annotators.quality import mask_quality as mask_quality
from rightreasons.annotators.rest import annotate_rest as annotate_rest
from rightreasons.annotators.segmentation import Segmentation as Segmentation
from rightreasons.annotators.uncertainty import mask_uncertainty as mask_uncertainty
from rightreasons.annotators.unet import UNet as UNet

__all__ = [
    "MaskNet",
    "MaskQuality",
    "PatchDiscriminator",
    "Pix2Pix",
    "PseudoAnnotator",
    "Segmentation",
    "Suggestion",
    "UNet",
    "annotate_rest",
    "annotated_by_hand",
    "few_places",
    "mask_quality",
    "mask_uncertainty",
    "next_to_annotate",
    "with_few",
    "with_mask_archive",
    "with_mask_files",
]
