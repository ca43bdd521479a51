// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestRemoverDoesNotBecomeTheRemoved: whoever has gamma's key removes beta, and introduces beta's clusterID under a key of its
// own, with a Cluster object and a rule. alpha shows that, also after a restart, and takes nothing from it. A person then
// admits the real beta.
func TestRemoverDoesNotBecomeTheRemoved(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "takeover")
	putSecret(t, g.beta, "takeover", "one")
	apply(t, g.beta, rule("takeover", "takeover"))
	eventually(t, "alpha has a copy of beta's", within, hasCopy(g.alpha, g.beta, "takeover", "one"))
	key := privateKey(t, g.gamma)
	if err := g.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.bringBack(t) })

	id := clusterID(t, g.beta)
	remover := signer(t, clusterID(t, g.gamma), key)
	removal, err := remover.SignRemoval(id, publicKey(t, g.alpha, "beta"), "beta", "gamma", 0)
	if err != nil {
		t.Fatal(err)
	}
	say(t, g.alpha, key, removal.Message())
	eventually(t, "beta is removed in alpha", within, absent(g.alpha, harness.Clusters(), "", "beta"))

	_, stolen, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	evil := posing(t, id, stolen)
	say(t, g.alpha, key, evil...)
	eventually(t, "who poses as beta waits", within, waitsIn(g.alpha, "beta"))
	if err := g.alpha.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	say(t, g.alpha, key, evil...)
	eventually(t, "the copy is an orphan", within, isOrphan(g.alpha, "takeover"))
	eventually(t, "and so is the rule", within, ruleIsOrphan(g.alpha, "takeover"))
	stays(t, "and has nothing of beta's", quiet, func(ctx context.Context) error {
		return errors.Join(
			absent(g.alpha, harness.Clusters(), "", "beta")(ctx), absent(g.alpha, harness.Rules(), "", "posing")(ctx), isOrphan(g.alpha, "takeover")(ctx),
			ruleIsOrphan(g.alpha, "takeover")(ctx),
		)
	})
	// Later than the status that an agent writes as it starts: before it was told, it knows of nobody who waits.
	eventually(t, "who poses as beta waits also after a restart", within, waitsIn(g.alpha, "beta"))
	if out, err := g.alpha.Kubectl(t.Context(), "get", "clusters", "-o", "wide"); err != nil || !strings.Contains(out, "agentctl approve beta --key "+v1alpha1.KeyFingerprint(stolen.Public().(ed25519.PublicKey))) {
		t.Errorf("kubectl get clusters: %v\n%s", err, out)
	}
	g.bringBack(t)
	eventually(t, "alpha follows the real beta", afterFault, hasCopy(g.alpha, g.beta, "takeover", "one"))
}

// TestInventionsGoWithTheirAuthor: whoever has gamma's key admits a cluster that there is not, which admits another one. They are
// members for all, as are those that they would admit. A person in beta removes gamma with them: nobody has them then, and they
// are refused.
func TestInventionsGoWithTheirAuthor(t *testing.T) {
	g := joined(t)
	made := g.invent(t, "ghost", "spook")
	eventually(t, "beta knows whose they are", within, func(ctx context.Context) error {
		out, err := g.Agentctl(ctx, "members", "--tree", "--context", "beta")
		gamma, ghost, spook := strings.Index(out, "|-gamma "), strings.Index(out, "| |-ghost "), strings.Index(out, "| | |-spook ")
		if err == nil && (gamma < 0 || ghost < gamma || spook < ghost) {
			err = fmt.Errorf("gamma, ghost and spook, each below the other, are not in:\n%s", out)
		}
		return err
	})
	if out, err := g.Agentctl(t.Context(), "remove", "gamma", "--context", "beta", "--timeout", "5s"); err == nil || !strings.Contains(err.Error(), "cluster gamma admitted ghost, spook: say --with-admitted") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(agentctl(t, g, "remove", "gamma", "--context", "beta", "--dry-run"))
	_, _ = g.Agentctl(lasting(t), "remove", "gamma", "--context", "beta", "--with-admitted", "--timeout", "5s") // the inventions confirm nothing
	gone := func(ctx context.Context) (err error) {
		for _, c := range []*harness.Cluster{g.alpha, g.beta} {
			for _, name := range []string{"gamma", "ghost", "spook"} {
				err = errors.Join(err, absent(c, harness.Clusters(), "", name)(ctx))
			}
		}
		return err
	}
	eventually(t, "all three are gone", within, gone)
	for _, of := range []ed25519.PrivateKey{made.author, made.ghost, made.spook} {
		tryToSay(t, g.alpha, of, made.says...)
	}
	stays(t, "and do not come back", quiet, gone)
}

// TestKeptStayWithTheRemover: gamma has admitted wraith, and that one shade. A person in beta removes gamma and keeps those: they stay
// members for all, on the word of beta, each by itself, until they are removed.
func TestKeptStayWithTheRemover(t *testing.T) {
	g := joined(t)
	g.invent(t, "wraith", "shade")
	_, _ = g.Agentctl(lasting(t), "remove", "gamma", "--context", "beta", "--keep-admitted", "--timeout", "2s") // the inventions confirm nothing
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "gamma is gone in "+c.Name, within, absent(c, harness.Clusters(), "", "gamma"))
		eventually(t, "wraith is there on the word of beta in "+c.Name, within, func(ctx context.Context) error {
			u, err := get(ctx, c, harness.Clusters(), "", "wraith")
			if err != nil {
				return err
			}
			by, _, err := unstructured.NestedStringSlice(u.Object, "status", "admittedBy")
			if err == nil && !slices.Contains(by, clusterID(t, g.beta)) {
				err = fmt.Errorf("it is there on the word of %v", by)
			}
			return errors.Join(err, lists(c, "shade")(ctx))
		})
	}
	for _, each := range [][2]string{{"wraith", "alpha"}, {"shade", "alpha"}, {"shade", "beta"}} { // another one by the same cluster is held in the other
		_, _ = g.Agentctl(lasting(t), "remove", each[0], "--context", each[1], "--timeout", "2s")
	}
	for _, each := range [][2]string{{"wraith", "beta"}, {"shade", "alpha"}, {"shade", "beta"}} { // where it is held, since others were removed before
		_, _ = g.Agentctl(lasting(t), "removals", "confirm", each[0], "--context", each[1])
	}
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "the others are gone in "+c.Name, within, func(ctx context.Context) error {
			return errors.Join(absent(c, harness.Clusters(), "", "wraith")(ctx), absent(c, harness.Clusters(), "", "shade")(ctx))
		})
	}
}

// haunted are clusters that there are not: a ghost, and a spook, which that one admitted.
type haunted struct {
	author, ghost, spook ed25519.PrivateKey
	says                 [][]byte
}

// invent has whoever has gamma's key admit a cluster that there is not, which admits another one. Their names are
// used once: what is removed is reserved. gamma's agent does not run until the test ends, which has gamma removed.
func (g *group) invent(t *testing.T, first, second string) haunted {
	t.Helper()
	g.restoreGroup(t)
	key := privateKey(t, g.gamma)
	if err := g.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.gamma.StartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	ghost, ghostSays := invent(t, first)
	spook, spookSays := invent(t, second)
	say(t, g.alpha, key, ghostSays...)
	stays(t, "nobody has admitted "+first, quiet, absent(g.alpha, harness.Clusters(), "", first))
	say(t, g.alpha, key, append([][]byte{admits(t, clusterID(t, g.gamma), key, first, ghost)}, ghostSays...)...)
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, first+" is a member in "+c.Name, within, lists(c, first))
	}
	say(t, g.alpha, ghost, append([][]byte{admits(t, first, ghost, second, spook)}, spookSays...)...)
	eventually(t, "and so is "+second, within, lists(g.beta, second))
	return haunted{key, ghost, spook, append(ghostSays, spookSays...)}
}

// TestOtherKeyIsShown: whoever has gamma's key admits the clusterID of beta under a key of its own. alpha has beta under the first key
// still, and says in two objects who does that, until gamma is removed.
func TestOtherKeyIsShown(t *testing.T) {
	g := joined(t)
	g.restoreGroup(t)
	key, id := privateKey(t, g.gamma), clusterID(t, g.beta)
	if err := g.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.gamma.StartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	_, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pinned := publicKey(t, g.alpha, "beta")
	say(t, g.alpha, key, admits(t, clusterID(t, g.gamma), key, id, own))
	tryToSay(t, g.alpha, key, posing(t, id, own)...)
	shown := func(ctx context.Context) error {
		var messages []string
		for _, name := range []string{"beta", "alpha"} {
			u, err := get(ctx, g.alpha, harness.Clusters(), "", name)
			if err != nil {
				return err
			}
			text, _, err := unstructured.NestedString(u.Object, "status", "message")
			if err != nil {
				return err
			}
			if name == "alpha" {
				text = fmt.Sprint(harness.Condition(u, v1alpha1.ConditionClustersAdmitted))
			}
			messages = append(messages, text)
		}
		for _, text := range messages {
			if !strings.Contains(text, "cluster gamma ("+clusterID(t, g.gamma)+") admits cluster beta ("+id+") under another key, "+v1alpha1.KeyFingerprint(own.Public().(ed25519.PublicKey))) {
				return fmt.Errorf("it is said: %q", messages)
			}
		}
		return nil
	}
	eventually(t, "alpha says who admits beta under another key", within, shown)
	if !pinned.Equal(publicKey(t, g.alpha, "beta")) {
		t.Error("beta has another key")
	}
	t.Log(agentctl(t, g, "remove", "gamma", "--context", "beta"))
	eventually(t, "and no more, once that one is removed", within, func(ctx context.Context) error {
		if shown(ctx) == nil {
			return errors.New("it is shown")
		}
		return absent(g.alpha, harness.Clusters(), "", "gamma")(ctx)
	})
}

// lists: a cluster has a Cluster object of another one.
func lists(c *harness.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := get(ctx, c, harness.Clusters(), "", name)
		return err
	}
}

// TestAuthorityAdmits: beta names alpha as an authority, and so admits gamma, which alpha removed, when alpha has. It says that
// the other one that it names is nobody.
func TestAuthorityAdmits(t *testing.T) {
	g := joined(t)
	g.restoreGroup(t)
	if err := g.beta.StopAgent(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.beta.RestartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	if err := g.beta.StartAgent(t.Context(), "--trust-authorities", clusterID(t, g.alpha)+",nobody"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "beta says that nobody is no member", within, func(ctx context.Context) error {
		u, err := get(ctx, g.beta, harness.Clusters(), "", "beta")
		if err != nil {
			return err
		}
		cond := harness.Condition(u, v1alpha1.ConditionClustersAdmitted)
		if text := fmt.Sprint(cond["message"]); cond["reason"] != v1alpha1.AdmittedUnknownAuthority || !strings.Contains(text, "trust.authorities names nobody") || strings.Contains(text, clusterID(t, g.alpha)) {
			return fmt.Errorf("ClustersAdmitted is %v, %v: %s", cond["status"], cond["reason"], text)
		}
		return nil
	})
	g.eventuallyWhole(t, afterFault)
	t.Log(agentctl(t, g, "remove", "gamma", "--context", "alpha"))
	eventually(t, "gamma says that it was removed", afterFault, saysRemoved(g.gamma, "alpha"))
	t.Log(agentctl(t, g, "join", "--replace-key", "--context", "gamma", "--peer-context", "alpha"))
	g.eventuallyWhole(t, afterFault)
}

// bringBack admits the real beta, which was removed, everywhere.
func (g *group) bringBack(t *testing.T) {
	t.Helper()
	ctx := lasting(t)
	if g.gamma.AgentAlive(ctx) != nil {
		if err := g.gamma.StartAgent(ctx); err != nil {
			t.Error(err)
		}
	}
	if g.whole(ctx) == nil {
		return
	}
	if out, err := g.Agentctl(ctx, "join", "--replace-key", "--yes", "--context", "beta", "--peer-context", "alpha"); err != nil {
		t.Errorf("bring beta back: %v\n%s", err, out)
	}
	g.eventuallyWholeAgain(t)
}

// eventuallyWholeAgain waits until every cluster lists every other as synced, and has a person approve of whoever waits.
func (g *group) eventuallyWholeAgain(t *testing.T) {
	t.Helper()
	eventually(t, "all three clusters synced with each other", afterFault, func(ctx context.Context) error {
		err := g.whole(ctx)
		for _, c := range g.Clusters[:3] {
			for _, newcomer := range g.Clusters[:3] {
				if err != nil && c != newcomer && waitsIn(c, newcomer.Name)(ctx) == nil {
					_, failed := g.Agentctl(ctx, "approve", newcomer.Name, "--context", c.Name, "--timeout", "10s")
					err = errors.Join(err, failed)
				}
			}
		}
		return err
	})
}

// admit approves of a cluster that is back under a new key, in members that it did not swap with.
func (g *group) admit(t *testing.T, name string, at ...*harness.Cluster) {
	t.Helper()
	for _, c := range at {
		eventually(t, name+" waits in "+c.Name, afterFault, waitsIn(c, name))
		t.Log(agentctl(t, g, "approve", name, "--context", c.Name))
	}
}

// waitsIn: a cluster that was removed waits to be admitted, as the own Cluster object says.
func waitsIn(c *harness.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Clusters(), "", c.Name)
		if err != nil {
			return err
		}
		cond := harness.Condition(u, v1alpha1.ConditionClustersAdmitted)
		text := fmt.Sprint(cond["message"])
		if cond["status"] != "False" || cond["reason"] != v1alpha1.AdmittedPending || !strings.Contains(text, name+" (clusterID ") || !strings.Contains(text, "agentctl approve ") {
			return fmt.Errorf("ClustersAdmitted in %s is %v, %v: %s", c.Name, cond["status"], cond["reason"], text)
		}
		return nil
	}
}
