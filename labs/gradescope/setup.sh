#!/bin/bash
# Gradescope runs this once, as root, when it builds the container.
set -e
cd /autograder/source
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends make bubblewrap
make grade
# The key for published seeds: the same for all submissions, so it lies in the container.
(umask 077 && mkdir -p build/grade && head -c 32 /dev/urandom | sha256sum | cut -d' ' -f1 >build/grade/seeds)
bwrap --unshare-all --ro-bind / / true || echo "no sandbox is possible here: nothing will be graded"
