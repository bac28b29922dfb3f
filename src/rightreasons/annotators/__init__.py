"""Annotators: masks of all images from masks of a few."""

from rightreasons.annotators.annotator import PseudoAnnotator as PseudoAnnotator
from rightreasons.annotators.hand_masks import annotated_by_hand as annotated_by_hand
from rightreasons.annotators.hand_masks import draw_annotated as draw_annotated
from rightreasons.annotators.hand_masks import few_places as few_places
from rightreasons.annotators.hand_masks import find_annotated as find_annotated
from rightreasons.annotators.hand_masks import keep_annotations as keep_annotations
from rightreasons.annotators.hand_masks import with_few as with_few
from rightreasons.annotators.losses import Pix2Pix as Pix2Pix
from rightreasons.annotators.losses import Segmentation as Segmentation
from rightreasons.annotators.mask_files import with_mask_archive as with_mask_archive
from rightreasons.annotators.mask_files import with_mask_files as with_mask_files
from rightreasons.annotators.networks import MaskNet as MaskNet
from rightreasons.annotators.networks import PatchDiscriminator as PatchDiscriminator
from rightreasons.annotators.networks import UNet as UNet
from rightreasons.annotators.next_image import Suggestion as Suggestion
from rightreasons.annotators.next_image import next_to_annotate as next_to_annotate
from rightreasons.annotators.predicted_masks import annotate_rest as annotate_rest
from rightreasons.annotators.quality import MaskQuality as MaskQuality
from rightreasons.annotators.quality import mask_quality as mask_quality
from rightreasons.annotators.quality import mask_uncertainty as mask_uncertainty

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
    "draw_annotated",
    "few_places",
    "find_annotated",
    "keep_annotations",
    "mask_quality",
    "mask_uncertainty",
    "next_to_annotate",
    "with_few",
    "with_mask_archive",
    "with_mask_files",
]
