#!/bin/sh
# Copyright The Roster Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes what README.md says of the values, and docs/rbac.md of the rights.
set -eu
cd "$(dirname "$0")/../.."
go run ./charts/internal/chartdocs .
