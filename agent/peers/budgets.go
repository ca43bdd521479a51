// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"time"

	"github.com/roster-mesh/roster/mesh/pace"
)

// In budgetPeriod the links may make so many attempts to reach an API server that did not turn out to be that of its cluster, and
// ask for so many credentials, each of which is written to a Secret. Whoever invents clusters says where their API servers are.
const (
	maxAttempts  = 1024
	maxAsked     = 512
	budgetPeriod = 10 * time.Second
)

// budgets are shared among clusters by who admitted them.
type budgets struct{ attempts, asked *pace.Budget }

func newBudgets(share pace.Share) budgets {
	return budgets{pace.NewBudget(maxAttempts, budgetPeriod, share), pace.NewBudget(maxAsked, budgetPeriod, share)}
}
