// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"context"
	"fmt"
	"strings"

	"github.com/roster-mesh/roster/e2e/documents"
)

// mark begins the annotations that are about one cluster alone.
const mark = "local.cluster-registry.k8s.cisco.com/"

// join makes one group of all clusters. shop-1 comes as an edge, and becomes a full member.
func (r *room) join() {
	r.types(documents.Groups, "agentctl join --context cluster-1 --peer-context cluster-2")
	r.types(documents.Groups, "agentctl join --context cluster-1 --peer-context cluster-2,cluster-3,cluster-4")
	r.types(documents.Groups, "kubectl --context shop-1 get cluster shop-1")
	r.with(",shop-2", "").types(documents.Groups, "agentctl join --context cluster-1 --peer-context shop-1,shop-2 --role edge")
	r.until(documents.Groups, "agentctl members -o wide", "edge")
	r.types(documents.Groups, "agentctl join --context cluster-1 --peer-context shop-1 --role full")
	r.types(documents.Groups, "kubectl --context cluster-1 annotate --overwrite cluster shop-1")
	r.types(documents.Standalone, "agentctl join")
}

// leave has cluster-3 leave, settle what it keeps, and come back.
func (r *room) leave() {
	r.prints(r.types(documents.Groups, "agentctl leave --context cluster-3 --dry-run"), "web-tls")
	r.types(documents.Groups, "agentctl leave --context cluster-3")
	r.until(documents.Groups, "agentctl orphans list", "web-certs", "web-tls", "old-tls")
	const orphaned = `jsonpath={.metadata.annotations.cluster-registry\.k8s\.cisco\.com/orphaned}`
	r.types(documents.Groups, "agentctl orphans adopt rsr/web-certs")
	r.must("", r.none(three, "get", "rsr", "web-certs", "-o", orphaned)(r.Context()))
	r.types(documents.Groups, "agentctl orphans adopt secret/web-tls")
	r.must("", r.none(three, "-n", "shop", "get", "secret", "web-tls", "-o", orphaned)(r.Context()))
	r.types(documents.Groups, "agentctl orphans delete")
	r.must("", r.none(three, "-n", "shop", "get", "secret", "old-tls")(r.Context()))
	r.must(r.cluster(three).Kubectl(r.Context(), "delete", "rsr", "web-certs"))
	r.must(r.cluster(three).Kubectl(r.Context(), "-n", "shop", "delete", "secret", "web-tls"))
	r.types(documents.Groups, "agentctl join --context cluster-1 --peer-context cluster-2,cluster-3,cluster-4")
	r.types(documents.Groups, "agentctl disable")
	r.eventually("cluster-2 is disabled", r.shows(one, "Disabled", "get", "cluster", two))
	r.types(documents.Groups, "agentctl enable")
	r.types(documents.Troubleshooting, "agentctl status --wait")
}

// remove has cluster-1 remove cluster-3 by a command, and cluster-4 by hand, which is held until somebody confirms it.
func (r *room) remove() {
	r.prints(r.types(documents.Groups, "agentctl remove cluster-3 --context cluster-1 --dry-run"), "If cluster cluster-3 were removed")
	r.must("", r.shows(one, three, "get", "cluster", three)(r.Context()))
	r.types(documents.Groups, "agentctl remove cluster-3 --context cluster-1")
	fourth := r.id(four) + "/" + r.fingerprint(four)
	r.with(three, four).types(documents.Groups, "key=", "kubectl annotate cluster cluster-3 "+mark+"remove")
	r.until(documents.Groups, "agentctl removals list", three, "in effect", four, "held")
	// cluster-2 may know both before shop-1 does, which is asked as well.
	r.with("cluster-5", shop).until(documents.Groups, "agentctl removals confirm cluster-3 cluster-4", "would be confirmed")
	r.with("CLUSTERID/FINGERPRINT", fourth).types(documents.Groups, "kubectl --context cluster-2 annotate cluster cluster-2 "+mark+"confirm-removals")
	r.eventually("cluster-2 lists cluster-4 no more", r.lacks(two, four))
	r.with("cluster-5", shop).types(documents.Groups, "agentctl removals confirm --by")
	r.eventually("nor does shop-1", r.lacks(shop, four))
}

// back has cluster-3 come back under a new key, be approved, and be removed again. shop-1 leaves by hand.
func (r *room) back() {
	r.types(documents.Groups, "agentctl join --replace-key")
	key := strings.TrimSpace(r.types(documents.Groups, "kubectl --context cluster-3 get cluster cluster-3"))
	if key != r.fingerprint(three) {
		r.Errorf("the fingerprint is %q", key)
	}
	approval := r.with(four, shop, "3f6c…", key)
	r.with("CLUSTERID/FINGERPRINT", r.id(three)+"/"+key).types(documents.Groups, "kubectl --context cluster-2 annotate cluster cluster-2 "+mark+"approve")
	approval.types(documents.Groups, "agentctl approve cluster-3 --contexts cluster-2,cluster-4 --key 3f6c… --dry-run")
	approval.types(documents.Groups, "agentctl approve cluster-3 --contexts cluster-2,cluster-4 --key 3f6c…")
	for _, name := range []string{two, shop} {
		r.eventually("cluster-3 is synced in "+name, r.shows(name, "Synced", "get", "cluster", three))
	}
	r.prints(r.types(documents.Groups, "agentctl members --tree --context cluster-1"), three)
	r.types(documents.Groups, "agentctl remove cluster-3 --context cluster-1 --with-admitted")
	r.in(shop).with(three, shop).types(documents.Groups, "key=", "kubectl annotate cluster cluster-3 "+mark+"leave")
	for _, name := range []string{three, shop} {
		r.eventually("cluster-2 does not list "+name, r.lacks(two, name))
	}
}

func (r *room) id(name string) string {
	r.Helper()
	return r.must(r.cluster(name).ID(r.Context()))
}

// fingerprint is that of the key that a cluster publishes, as agentctl says it.
func (r *room) fingerprint(name string) string {
	r.Helper()
	out := r.must(r.in(name).shell(r.Context(), "agentctl members --context "+name+" -o wide"))
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == name {
			return fields[len(fields)-2]
		}
	}
	r.Fatalf("no line of %s:\n%s", name, out)
	return ""
}

// lacks is a condition: a cluster does not list another one.
func (r *room) lacks(name, other string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := r.cluster(name).Kubectl(ctx, "get", "clusters", "-o", "name")
		if err == nil && strings.Contains(out, "/"+other+"\n") {
			err = fmt.Errorf("it lists %s", out)
		}
		return err
	}
}
