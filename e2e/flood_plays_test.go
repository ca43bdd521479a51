// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
)

// These are the plays of TestFloods in which more than an object is changed.

// inventions has gamma, whose key is stolen, admit clusters that there are not, each of which changes what it publishes as fast as it can.
func (r *room) inventions(t *testing.T, quietly latency, key ed25519.PrivateKey, thief *replica.Replica) {
	ghosts, keys, says := []*replica.Replica{}, []ed25519.PrivateKey{}, [][]byte{}
	for i := range inventions {
		name := fmt.Sprint("ghost-", i)
		_, ghostKey, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		data, err := payload.EncodeAdmission(trust.Admission{PublicKey: ghostKey.Public().(ed25519.PublicKey)})
		if err != nil {
			t.Fatal(err)
		}
		ghost := signer(t, name, ghostKey)
		says = append(says, publishes(t, thief, payload.AdmissionKey(name), data)[0])
		says = append(says, publishes(t, ghost, payload.ClusterKey(name), invented(t, name, ghostKey))...)
		ghosts, keys = append(ghosts, ghost), append(keys, ghostKey)
	}
	r.play(t, quietly, func(ctx context.Context, n int) error {
		if n > 0 { // each says something else
			says = says[:0]
			for i, ghost := range ghosts {
				key, data, err := somethingElse(n, i, keys[i])
				if err != nil {
					return err
				}
				messages, err := ghost.Publish(key, replica.Live, data)
				if err != nil {
					return err
				}
				says = append(says, messages...)
			}
		}
		return r.hears(ctx, t, key, says)
	})
	listed, err := r.beta.Dynamic.Resource(harness.Clusters()).List(lasting(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d clusters are listed in beta", len(listed.Items)); len(listed.Items) < 100 {
		t.Error("the inventions have not come")
	}
}

// somethingElse is what invention i publishes in round n: some a large Cluster object, some a rule, which are written to API servers, and
// most a feature, which every member has to verify and to keep.
func somethingElse(n, i int, key ed25519.PrivateKey) (replica.Key, []byte, error) {
	name := fmt.Sprint("ghost-", i)
	flood := metav1.ObjectMeta{Name: "flood-" + name, Annotations: map[string]string{"example.com/flood": fmt.Sprint(n)}}
	switch i % 64 {
	case 0:
		data, err := payload.EncodeCluster(&v1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"example.com/flood": strings.Repeat(fmt.Sprint(n%10), 40<<10)}}, // what fits a frame
			Spec:       v1alpha1.ClusterSpec{ClusterID: types.UID(name), Mesh: &v1alpha1.ClusterMesh{PublicKey: key.Public().(ed25519.PublicKey), Endpoints: []string{"127.0.0.1:1"}}},
		})
		return payload.ClusterKey(name), data, err
	case 1:
		data, err := payload.EncodeRule(&v1alpha1.ResourceSyncRule{ObjectMeta: flood, Spec: v1alpha1.ResourceSyncRuleSpec{
			GVK:   v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"},
			Rules: []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{Labels: []metav1.LabelSelector{{MatchLabels: map[string]string{"n": fmt.Sprint(n)}}}}}}},
		}})
		return payload.RuleKey(flood.Name), data, err
	}
	data, err := payload.EncodeFeature(&v1alpha1.ClusterFeature{ObjectMeta: metav1.ObjectMeta{Name: "flood"}, Spec: v1alpha1.ClusterFeatureSpec{FeatureName: fmt.Sprint(n, "-", i)}})
	return payload.FeatureKey("flood"), data, err
}

// removals has gamma, whose key is stolen, admit one cluster after the other that there is not, each of which removes clusters that nobody
// knows, as many as are kept of one.
func (r *room) removals(t *testing.T, quietly latency, key ed25519.PrivateKey, thief *replica.Replica) {
	before := received(t, r.beta, "fresh")
	r.play(t, quietly, func(ctx context.Context, n int) error {
		name := fmt.Sprint("remover-", n)
		_, ghostKey, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		data, err := payload.EncodeAdmission(trust.Admission{PublicKey: ghostKey.Public().(ed25519.PublicKey)})
		if err != nil {
			return err
		}
		says, err := thief.Publish(payload.AdmissionKey(name), replica.Live, data)
		if err != nil {
			return err
		}
		ghost := signer(t, name, ghostKey)
		messages, err := ghost.Publish(payload.ClusterKey(name), replica.Live, invented(t, name, ghostKey))
		if err != nil {
			return err
		}
		says = append(says, messages...)
		for i := range removalsOfOne {
			removal, err := ghost.SignRemoval(fmt.Sprint(name, "-", i), make([]byte, ed25519.PublicKeySize), "", "", 0)
			if err != nil {
				return err
			}
			says = append(says, removal.Message())
		}
		return r.hears(ctx, t, key, says)
	})
	taken := received(t, r.beta, "fresh") - before
	if t.Logf("beta has taken %d messages", taken); taken < roomOfAll/2 {
		t.Error("it is no flood")
	}
}

// stolen is the key of gamma, whose agent is stopped, and who signs with it.
func (r *room) stolen(t *testing.T) (ed25519.PrivateKey, *replica.Replica) {
	t.Helper()
	key, id := privateKey(t, r.gamma), clusterID(t, r.gamma)
	if err := r.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.gamma.StartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	return key, signer(t, id, key)
}

// hears has beta read messages, as slowly as it likes, from who has that key.
func (r *room) hears(ctx context.Context, t *testing.T, key ed25519.PrivateKey, messages [][]byte) error {
	t.Helper()
	conn := shake(t, r.beta, key, "roster-packet/1")
	if conn == nil {
		return errors.New("gamma is refused")
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	for _, message := range messages {
		if _, err := conn.Write(frame(message)); err != nil {
			return nil // it may be cut off
		}
	}
	if err := conn.CloseWrite(); err != nil {
		return nil
	}
	for err := error(nil); err == nil; { // what it answers, until it has read all
		_, err = conn.Read(make([]byte, 4<<10))
	}
	return nil
}

// leaves has gamma's rule leave copies behind, as gamma deletes their sources and makes others, a few large ones and many small ones. They are
// there in the plays that follow.
func (r *room) leaves(t *testing.T, quietly latency) {
	const large, size, small = 32, 100 << 10, 500
	r.rule(t, r.gamma, "left", "groupVersionKind: {version: v1, kind: Secret}, deletionPolicy: Orphan, targets: {matchLabels: {tier: flooded}}, rules: [{"+forLabel("left")+"}]")
	secrets := r.gamma.Kube.CoreV1().Secrets(r.name)
	each := func(ctx context.Context, n int, do func(ctx context.Context, name string, size int) error) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(4)
		for i := range large + small {
			bytes := size
			if i >= large {
				bytes = 1
			}
			group.Go(func() error { return do(ctx, fmt.Sprintf("left-%d-%d", n, i), bytes) })
		}
		return group.Wait()
	}
	var old int64
	r.play(t, quietly, func(ctx context.Context, n int) error {
		err := each(ctx, n, func(ctx context.Context, name string, size int) error {
			_, err := secrets.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"for": "left"}}, Data: map[string][]byte{"v": make([]byte, size)},
			}, metav1.CreateOptions{})
			return err
		})
		if err == nil && n > 0 {
			err = each(ctx, n-1, func(ctx context.Context, name string, _ int) error {
				return secrets.Delete(ctx, name, metav1.DeleteOptions{})
			})
		}
		if err == nil && n%10 == 9 { // its own etcd shall not be what ends the flood
			old, err = compact(ctx, r.gamma, old)
		}
		return err
	})
	if err := r.gamma.Dynamic.Resource(harness.Rules()).Delete(lasting(t), r.name+"-left", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	list, err := r.beta.Kube.CoreV1().Secrets(r.name).List(lasting(t), metav1.ListOptions{LabelSelector: "for=left," + v1alpha1.LabelOwnerClusterID + "=" + clusterID(t, r.gamma)})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, s := range list.Items {
		sum += len(s.Data["v"]) * 4 / 3
	}
	const room = floodedMemory / 100 * 90 / 5 // see agent/tuning and syncrules/engine/bounds
	if t.Logf("%d copies are left behind, with %d KiB; there is room for %d", len(list.Items), sum>>10, room>>10); sum > room/2+underWay*size*4/3 {
		t.Error("one cluster has more than half of the room")
	}
}

// watches has gamma make as many rules of as many namespaces as may be in force in beta, and name other namespaces in each again and again.
// They are watched at two clusters and in beta, which is more than its agent may have open.
func (r *room) watches(t *testing.T, quietly latency) {
	before := r.wide(t, r.alpha, r.gamma)
	const rules = inforce.MaxViews / wideNamespaces
	names := func(from int) (out []string) {
		for n := range wideNamespaces {
			out = append(out, fmt.Sprint("n", from+n))
		}
		return out
	}
	for i := range rules {
		r.rule(t, r.gamma, wideRule(i), r.wideSpec(names(0)))
	}
	r.play(t, quietly, func(ctx context.Context, n int) error {
		for i := range rules {
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"rules": []any{map[string]any{"match": []any{map[string]any{
				"namespaces": names(((n+1)*rules + i) * wideNamespaces),
			}}}}}})
			if err != nil {
				return err
			}
			_, err = r.gamma.Dynamic.Resource(harness.Rules()).Patch(ctx, r.name+"-"+wideRule(i), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return err
			}
		}
		return nil
	})
	const most = floodedMemory / 10 * 9 / bounds.WatchMemory // an agent leaves a tenth of its limit
	eventually(t, fmt.Sprintf("beta has all the %d watches that it may have, and no more", most), afterFault, func(context.Context) error {
		opened := r.watchesOfConfigMaps(t) - before
		if t.Logf("%d watches are open because of the rules", opened); opened > most || opened < most*9/10 {
			return fmt.Errorf("%d watches are open", opened)
		}
		return nil
	})
	for i := range rules {
		kubectl(t, r.gamma, "delete", "rsr", r.name+"-"+wideRule(i))
	}
	// Their deletions wait behind what gamma has used up.
	eventually(t, "the last of the rules is gone in beta", 5*afterFault, absent(r.beta, harness.Rules(), "", r.name+"-"+wideRule(rules-1)))
}
