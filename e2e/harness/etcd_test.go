// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import "testing"

func TestLeads(t *testing.T) {
	t.Parallel()
	const about = "# TYPE etcd_server_is_leader gauge\n"
	for value, want := range map[string]bool{"1": true, "0": false} {
		if got, err := leads([]byte(about + "etcd_server_is_leader " + value + "\nother 1\n")); got != want || err != nil {
			t.Errorf("%s: %v, %v", value, got, err)
		}
	}
	if _, err := leads([]byte(about)); err == nil {
		t.Error("a page that does not tell is no error")
	}
}
