#!/bin/bash
# Gradescope runs this once, as root, when it builds the container.
set -e
cd /autograder/source
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends make bubblewrap
make grade
bwrap --unshare-all --ro-bind / / true || echo "no sandbox is possible here: nothing will be graded"
