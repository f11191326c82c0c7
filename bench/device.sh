#!/bin/sh
# Every Triton kernel on the GPU of this machine: right or wrong against its operator's reference, and its share of the roofline that is
# measured first. Under 8 minutes; writes nothing but what it prints, and docs/device.md where that is named.
#
#   bench/device.sh [docs/device.md]
#   bench/device.sh --dry     on a processor, in Triton's interpreter, the smallest case of every file: figures mean nothing there
#
# Needs a torch for the device and Triton; $PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")/.."
python="${PYTHON:-python}"
exec timeout 480 "$python" -m bench.device "$@"
