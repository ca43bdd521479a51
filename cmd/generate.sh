#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/cli.md, from the definitions of commands and flags. One program after the other: both write the same file.
set -eu
cd "$(dirname "$0")/.."
for program in agent agentctl; do
	UPDATE_GOLDEN=1 go test -vet=off -count=1 -run '^TestReference$' "./cmd/$program"
done
