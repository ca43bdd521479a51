// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLostWrites: writes that were lost with the server that led fail when there is another leader. Without that they
// would wait until etcd gives them up, five seconds later.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	servers, _ := threeServers(t)
	c := &cluster{servers: servers[:]}
	const writesEach, tries = 5, 5
	for try := range tries { // on a machine that stood still there was another leader before a write began
		leader := c.leader(t)
		if err := servers[leader].Signal(syscall.SIGKILL, within); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		errs := make([]error, 2*writesEach)
		for i := range errs {
			maps := servers[(leader+1+i%2)%len(servers)].kubernetes(t).CoreV1().ConfigMaps(metav1.NamespaceDefault)
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("lost-%d-%d", try, i)}}
			all.Go(func() { _, errs[i] = maps.Create(t.Context(), object, metav1.CreateOptions{}) })
		}
		all.Wait()
		said := errors.Join(errs...)
		t.Logf("%d: %v", try, said)
		if said != nil && strings.Contains(said.Error(), "leader changed") {
			return
		}
		servers[leader] = start(t, servers[leader].dir)
	}
	t.Error("no write was told that the leader has changed")
}
