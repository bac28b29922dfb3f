#!/bin/sh
# From a suspicion to a repaired model: photographs of pets, of which a small tag tells the species.
#
#   python examples/tagged_photos.py DATA_DIR photos
#   sh examples/tagged_pets.sh photos --model small_cnn --epochs 8
#
# Words after the folder go to the training. Everything is written to the folder you are in.
# BUDGET is the time of the repair.
set -e
PHOTOS=$1
shift
rightreasons train --data folder --data-dir "$PHOTOS" "$@" --out erm

# The five commands. Nothing in the folder says what the shortcut is or where.
rightreasons data check "$PHOTOS"
rightreasons audit erm --out audit
rightreasons audit accept audit 1 --out masks
rightreasons fix erm --masks masks --budget "${BUDGET:-5m}" --trials "${TRIALS:-2}" --out fixed
rightreasons report fixed --audit audit --out report.html
