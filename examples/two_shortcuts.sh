#!/bin/sh
# Two shortcuts at once: a tag and a colour cast. Removing one alone feeds the other.
#
#   python examples/tagged_photos.py DATA_DIR photos --shortcut tag_and_cast
#   sh examples/two_shortcuts.sh photos --model small_cnn --epochs 8
#
# Words after the folder go to the training. BUDGET is the time of each repair. A colour has no
# place, hence no masks: its folder says what it is, and images get the colours of others.
set -e
PHOTOS=$1
shift
rightreasons train --data folder --data-dir "$PHOTOS" "$@" --out erm
rightreasons audit erm --out audit
rightreasons audit accept audit 1 --out first
rightreasons audit accept audit 2 --out second
set -- --budget "${BUDGET:-5m}" --trials "${TRIALS:-2}"
rightreasons fix erm --masks first --watch second "$@" --out fixed-first
rightreasons fix erm --masks second --watch first "$@" --out fixed-second
rightreasons fix erm --masks first --masks second "$@" --out fixed
rightreasons report fixed --audit audit --out report.html
