// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

// The documents about how Roster is installed, and ends.

func chart() Document {
	return Document{Path: "charts/agent/README.md", Typed: map[string][]string{
		"e2e/pods.TestHelmTest":    {"helm test"},
		"e2e/pods.TestNameIsTaken": {"kubectl -n cluster-registry logs"},
		"e2e/pods.TestThreeAgents": {
			"helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set replicas=0",
			"helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set replicas=1",
		},
		Scenes: {
			"helm install", "kubectl create namespace", "helm template", "kubectl -n cluster-registry create token",
			"helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set mesh.service.type=LoadBalancer",
			"kubectl get clusters -o custom-columns", "kubectl get clusters -o wide",
		},
	}}
}

func ha() Document {
	return Document{Path: "docs/ha.md", Typed: map[string][]string{
		Scenes:                     {"agent run"},
		"e2e/pods.TestThreeAgents": {"agentctl group recover --dry-run", "agentctl group recover"},
	}}
}

func release() Document {
	return Document{
		Path: "docs/release.md",
		Typed: map[string][]string{
			dryRun:                                  {"make publish REGISTRY=registry.example/team", "make publish REGISTRY=registry.example/team SIGN_WITH"},
			Scenes:                                  {"ln -s agentctl", "kubectl roster", "helm install"},
			"cmd/internal/release.TestTheSameTwice": {"sha256sum"},
		},
		Not: map[string]string{
			"git checkout COMMIT":  "it would change the checkout that the tests are in; make release-check builds the images twice and compares them",
			"cosign verify":        "it asks a registry and the transparency log of somebody else; e2e-signatures runs it with flags for a registry of the test's own",
			"kubectl krew install": "krew is a program of others that downloads; TestKrew of cmd/internal/release reads the manifest",
			"ctr -n k8s.io":        "it takes a node's containerd and root; e2e/pods imports the image by containerd's API",
			"skopeo copy":          "skopeo is a program of others, and the registry is somebody else's",
		},
	}
}

func runOutside() Document {
	return Document{Path: "docs/run-outside.md", Typed: map[string][]string{Scenes: {
		"kubectl create namespace", "helm template", "kubectl config view", "kubectl --kubeconfig agent.kubeconfig config delete-user",
		"kubectl --kubeconfig agent.kubeconfig config set-credentials", "kubectl --kubeconfig agent.kubeconfig config set-context", "agent run",
	}}}
}

func standalone() Document {
	return Document{Path: "docs/standalone.md", Typed: map[string][]string{
		dryRun: {"make build apiserver"},
		"e2e/standalone.TestDocument": {
			"bin/agent run --local embedded --data-dir /var/lib/roster", "bin/agent run --local embedded --cluster-name alpha",
			"bin/agent run --local embedded --cluster-name beta", "export KUBECONFIG=/tmp", "bin/agentctl join", "kubectl --context beta get clusters",
			"export KUBECONFIG=/var", "kubectl get clusters", "agentctl status",
		},
		"e2e/standalone.TestDocumentOfServers": {
			"roster-apiserver standalone --data-dir /var/lib/roster-apiserver --cluster-name cluster-1 --listen :6443 --advertise cluster-1.example.com",
			"agent run --kubeconfig",
			"roster-apiserver standalone --data-dir /var/lib/roster-apiserver --cluster-name cluster-1 --listen :6443 --advertise cluster-1.example.com --peer-listen",
			"roster-apiserver add", "roster-apiserver standalone --data-dir /var/lib/roster-apiserver --bundle", "roster-apiserver remove-member",
			"roster-apiserver snapshot save", "roster-apiserver snapshot restore", "roster-apiserver standalone --data-dir /var/lib/restored",
		},
		"e2e.TestHostedRegistry": {"agentctl init standalone", "agentctl delete"},
		Scenes:                   {"kubectl get clusters.clusterregistry.k8s.io", "agentctl join"},
	}}
}

func uninstall() Document {
	return Document{Path: "docs/uninstall.md", Typed: map[string][]string{
		"e2e/pods.TestUninstall": {"helm uninstall"},
		Scenes: {
			"kubectl delete apiservice", "kubectl delete clusterrole", "kubectl delete role,rolebinding", "kubectl delete rolebinding",
			"kubectl delete namespace", "kubectl get secrets", "kubectl delete secrets", "kubectl delete crd",
		},
	}}
}

func upgrade() Document {
	return Document{Path: "docs/upgrade.md", Typed: map[string][]string{
		Scenes:                 {"agentctl version", "agentctl doctor", "kubectl get clusters", "agentctl status"},
		"e2e/pods.TestUpgrade": {"helm upgrade", "helm rollback"},
	}}
}
