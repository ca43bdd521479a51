// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

// Document is how the commands of a document are run. A command is named by how it begins.
type Document struct {
	Path string
	// Typed are the commands that a test takes from the text: FOLDER.TEST → commands.
	Typed map[string][]string
	// Not are the commands that no test runs, each with the reason.
	Not map[string]string
}

// Scenes is the test that types most of them.
const Scenes = "e2e/documents/scenes.TestDocuments"

// dryRun is the test that has make say what it would do.
const dryRun = "e2e/documents.TestMake"

// All are the documents with commands.
func All() []Document {
	return []Document{
		readme(), evidence(), examples(), export(), gitops(), groups(), ha(), profiles(), registryAPI(), release(),
		restore(), rules(), runOutside(), standalone(), troubleshooting(), ui(), uninstall(), upgrade(), chart(),
	}
}

func readme() Document {
	return Document{Path: "README.md", Typed: map[string][]string{
		dryRun: {"make demo", "make demo-kubernetes", "make test"},
		"e2e/pods.TestReadme": {
			"helm install", "agentctl join",
			"kubectl --context cluster-2 get cluster cluster-2", "kubectl --context cluster-2 -n cluster-registry get secret cluster-2",
			"kubectl --context cluster-1 get cluster cluster-1", "kubectl --context cluster-1 -n cluster-registry get secret cluster-1",
			"kubectl get clusters", "agentctl status", "agentctl status --fleet", "agentctl doctor",
			"kubectl --context cluster-1 -n cluster-registry create secret",
			"kubectl --context cluster-2 -n cluster-registry get secret test-secret", "kubectl --context cluster-3 -n cluster-registry get secret test-secret",
		},
	}}
}

func evidence() Document {
	return Document{Path: "docs/evidence.md", Typed: map[string][]string{Scenes: {"agentctl bundle", "agentctl verify"}}}
}

func examples() Document {
	return Document{Path: "docs/examples/README.md", Typed: map[string][]string{"e2e.TestRuleExamples": {
		"agentctl rules lint", "kubectl --context cluster-1 apply -f docs/examples/rights", "kubectl --context cluster-2 apply",
		"kubectl --context cluster-1 apply -f docs/examples/rules",
	}}}
}

func export() Document {
	return Document{Path: "docs/export.md", Typed: map[string][]string{
		Scenes: {
			"agentctl export --context cluster-1 > clusters.yaml", "agentctl export cluster-2 cluster-3", "agentctl export --context cluster-1 -l",
			"agentctl import clusters.yaml --context other --dry-run", "agentctl import clusters.yaml --context other",
			"agentctl export --context cluster-1 --with-credentials --to",
			"agentctl kubeconfig", "kubectl --context cluster-2 get clusters",
			"agentctl export --context cluster-1 -o kubeconfig", "kubectl --kubeconfig clusters.kubeconfig config set-credentials",
			"kubectl --kubeconfig clusters.kubeconfig --context cluster-2 get nodes",
			"helm upgrade", "agentctl export --context cluster-1 --with-credentials -o argocd --renew",
		},
		"e2e/gitops.TestTools": {
			"agentctl export --context cluster-1 --with-credentials -o argocd | kubectl --context argo", "kubectl --context argo -n argocd patch secret",
			"kubectl --context argo -n argocd patch configmap", "kubectl --context argo -n argocd rollout restart",
			"agentctl export --context cluster-1 --with-credentials -o flux", "agentctl export --context cluster-1 --with-credentials -o multicluster-runtime",
			"id=", "kubectl --context cluster-2 create namespace shop", "kubectl --context cluster-2 -n shop create role deploy",
			"kubectl --context cluster-2 -n shop create rolebinding",
		},
	}}
}

func gitops() Document {
	return Document{Path: "docs/gitops.md", Typed: map[string][]string{Scenes: {"agentctl rules lint"}}}
}

func groups() Document {
	return Document{Path: "docs/groups.md", Typed: map[string][]string{
		"e2e/pods.TestReadme": {
			"kubectl --context cluster-2 get cluster cluster-2", "kubectl --context cluster-2 -n cluster-registry get secret",
			"kubectl --context cluster-1 get cluster cluster-1", "kubectl --context cluster-1 -n cluster-registry get secret",
		},
		Scenes: {
			"agentctl join --context cluster-1 --peer-context cluster-2", "agentctl join --context cluster-1 --peer-context cluster-2,cluster-3,cluster-4",
			"agentctl join --context cluster-1 --peer-context shop-1,shop-2 --role edge", "agentctl members -o wide",
			"kubectl --context shop-1 get cluster shop-1", "agentctl join --context cluster-1 --peer-context shop-1 --role full",
			"kubectl --context cluster-1 annotate --overwrite cluster shop-1",
			"kubectl get clusters", "kubectl get clusters -o wide", "agentctl members", "agentctl members --tree", "agentctl status --fleet",
			"kubectl describe cluster NAME",
			"agentctl leave --context cluster-3 --dry-run", "agentctl leave --context cluster-3",
			"agentctl orphans list", "agentctl orphans adopt rsr/web-certs", "agentctl orphans adopt secret/web-tls", "agentctl orphans delete",
			"agentctl remove cluster-3 --context cluster-1 --dry-run", "agentctl remove cluster-3 --context cluster-1",
			"agentctl join --replace-key", "agentctl members --tree --context cluster-1", "agentctl remove cluster-3 --context cluster-1 --with-admitted",
			"agentctl removals list", "agentctl removals confirm cluster-3 cluster-4", "agentctl removals confirm --by",
			"kubectl --context cluster-2 annotate cluster cluster-2 local.cluster-registry.k8s.cisco.com/confirm-removals",
			"kubectl --context cluster-3 get cluster cluster-3", "agentctl approve cluster-3 --contexts cluster-2,cluster-4 --key 3f6c… --dry-run",
			"agentctl approve cluster-3 --contexts cluster-2,cluster-4 --key 3f6c…",
			"kubectl --context cluster-2 annotate cluster cluster-2 local.cluster-registry.k8s.cisco.com/approve",
			"key=", "kubectl annotate cluster cluster-3 local.cluster-registry.k8s.cisco.com/remove", "kubectl annotate cluster cluster-3 local.cluster-registry.k8s.cisco.com/leave",
			"agentctl disable", "agentctl enable",
		},
	}}
}

func profiles() Document {
	return Document{Path: "docs/profiles.md", Typed: map[string][]string{Scenes: {
		"kubectl create namespace inventory", "helm upgrade", "kubectl get clusterprofiles",
		"kubectl delete clusterprofiles", "kubectl delete clusterproperties",
	}}}
}

func registryAPI() Document {
	return Document{Path: "docs/registry-api.md", Typed: map[string][]string{
		Scenes:                     {"kubectl get clusters.clusterregistry.k8s.io"},
		"e2e/pods.TestRegistryAPI": {"helm upgrade", "kubectl wait"},
	}}
}

func restore() Document {
	return Document{Path: "docs/restore.md", Typed: map[string][]string{"e2e.TestRestoredAPIServer": {
		"kubectl get clusters -o wide", "agentctl restore confirm --context gamma --dry-run", "agentctl restore confirm --context gamma",
	}}}
}

func rules() Document {
	return Document{Path: "docs/rules.md", Typed: map[string][]string{Scenes: {
		"kubectl --context west label", "kubectl --context west -n team annotate", "agentctl accept",
	}}}
}

func troubleshooting() Document {
	return Document{Path: "docs/troubleshooting.md", Typed: map[string][]string{Scenes: {
		"agentctl status --context A", "agentctl status --fleet", "agentctl status --wait", "agentctl doctor --context A",
		"agentctl doctor --context A --peer-context B",
		"agentctl rules lint", "agentctl rules list", "agentctl rules list --fleet", "agentctl rules explain web-certs", "agentctl rules explain secret",
		"agentctl rules explain -f",
	}}}
}

func ui() Document {
	return Document{Path: "docs/ui.md", Typed: map[string][]string{
		Scenes: {"agentctl ui", "agentctl ui --context"},
		"e2e/pods.TestPage": {
			"kubectl -n cluster-registry create secret tls", "helm upgrade", "kubectl -n default create serviceaccount", "kubectl create clusterrolebinding",
			"kubectl -n default create token",
		},
	}}
}
