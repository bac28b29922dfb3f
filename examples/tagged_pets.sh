#!/bin/sh
# From a suspicion to a repaired model on tagged Pets, in five commands.
#   sh examples/tagged_pets.sh DATA_DIR
set -e
DATA="--data pets_tag --data-dir $1 --set-data size=96"
rightreasons train $DATA --model small_cnn --out erm
rightreasons audit erm --out audit
rightreasons audit accept audit 1 --out masks
rightreasons fix --model small_cnn --weights erm/model.safetensors $DATA --masks masks --out fixed
rightreasons report erm fixed --out report.html
