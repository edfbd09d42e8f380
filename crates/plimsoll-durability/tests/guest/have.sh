#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints `have KEY SUM` of each file in the working directory.
for key in k-*; do
  [ -f "$key" ] || continue
  sum=$(md5sum <"$key") || continue
  echo "have $key ${sum%% *}"
done
