// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

// The documents with commands.
const (
	Readme          = "README.md"
	Chart           = "charts/agent/README.md"
	Evidence        = "docs/evidence.md"
	Examples        = "docs/examples/README.md"
	Export          = "docs/export.md"
	GitOps          = "docs/gitops.md"
	Groups          = "docs/groups.md"
	HA              = "docs/ha.md"
	Profiles        = "docs/profiles.md"
	RBAC            = "docs/rbac.md" // which has manifests alone
	RegistryAPI     = "docs/registry-api.md"
	Release         = "docs/release.md"
	Restore         = "docs/restore.md"
	Rules           = "docs/rules.md"
	RunOutside      = "docs/run-outside.md"
	Standalone      = "docs/standalone.md"
	Troubleshooting = "docs/troubleshooting.md"
	UI              = "docs/ui.md"
	Uninstall       = "docs/uninstall.md"
	Upgrade         = "docs/upgrade.md"
)

// Document is how the commands of a document are run. A command is named by how it begins.
type Document struct {
	Path string
	// Typed are the commands that a test takes from the text: FOLDER.TEST → commands.
	Typed map[string][]string
	// DryRun are those of make: TestMake has make say what it would do.
	DryRun []string
	// Not are the commands that nothing runs, each with the reason.
	Not map[string]string
}

// scenes is the test that types most of them.
const scenes = "e2e/documents/scenes.TestDocuments"

// All are the documents with commands, in the order of their paths.
func All() []Document {
	return []Document{
		readme(), chart(), evidence(), examples(), export(), gitops(), groups(), ha(), profiles(), registryAPI(), release(),
		restore(), rules(), runOutside(), standalone(), troubleshooting(), ui(), uninstall(), upgrade(),
	}
}

func readme() Document {
	return Document{
		Path:   Readme,
		DryRun: []string{"make demo", "make demo-kubernetes", "make test"},
		Typed: map[string][]string{"e2e/pods.TestReadme": {
			"helm install", "agentctl join",
			"kubectl --context cluster-2 get cluster cluster-2", "kubectl --context cluster-2 -n cluster-registry get secret cluster-2",
			"kubectl --context cluster-1 get cluster cluster-1", "kubectl --context cluster-1 -n cluster-registry get secret cluster-1",
			"kubectl get clusters", "agentctl status", "agentctl status --fleet", "agentctl doctor",
			"kubectl --context cluster-1 -n cluster-registry create secret",
			"kubectl --context cluster-2 -n cluster-registry get secret test-secret", "kubectl --context cluster-3 -n cluster-registry get secret test-secret",
		}},
	}
}

func chart() Document {
	return Document{Path: Chart, Typed: map[string][]string{
		"e2e/pods.TestHelmTest":    {"helm test"},
		"e2e/pods.TestNameIsTaken": {"kubectl -n cluster-registry logs"},
		"e2e/pods.TestThreeAgents": {
			"helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set replicas=0",
			"helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set replicas=1",
		},
		scenes: {
			"helm install", "kubectl create namespace", "helm template", "kubectl -n cluster-registry create token",
			"helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set mesh.service.type=LoadBalancer",
			"kubectl get clusters -o custom-columns", "kubectl get clusters -o wide",
		},
	}}
}

func evidence() Document {
	return Document{Path: Evidence, Typed: map[string][]string{scenes: {"agentctl bundle", "agentctl verify"}}}
}

func examples() Document {
	return Document{Path: Examples, Typed: map[string][]string{"e2e.TestRuleExamples": {
		"agentctl rules lint", "kubectl --context cluster-1 apply -f docs/examples/rights", "kubectl --context cluster-2 apply",
		"kubectl --context cluster-1 apply -f docs/examples/rules",
	}}}
}

func export() Document {
	return Document{Path: Export, Typed: map[string][]string{
		scenes: {
			"agentctl export --context cluster-1 > clusters.yaml", "agentctl export cluster-2 cluster-3", "agentctl export --context cluster-1 -l",
			"agentctl import clusters.yaml --context other --dry-run", "agentctl import clusters.yaml --context other",
			"agentctl export --context cluster-1 --with-credentials --to",
			"agentctl kubeconfig", "kubectl --context cluster-2 get clusters",
			"kubectl --context cluster-2 create namespace ci", "kubectl --context cluster-2 -n ci create serviceaccount",
			"kubectl --context cluster-2 -n ci create rolebinding",
			"agentctl export --context cluster-1 -o kubeconfig", "kubectl --kubeconfig clusters.kubeconfig config set-credentials",
			"kubectl --kubeconfig clusters.kubeconfig --context cluster-2 -n ci get pods",
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
	return Document{Path: GitOps, Typed: map[string][]string{scenes: {"agentctl rules lint"}}}
}

func groups() Document {
	return Document{Path: Groups, Typed: map[string][]string{
		"e2e/pods.TestReadme": {
			"kubectl --context cluster-2 get cluster cluster-2", "kubectl --context cluster-2 -n cluster-registry get secret",
			"kubectl --context cluster-1 get cluster cluster-1", "kubectl --context cluster-1 -n cluster-registry get secret",
		},
		scenes: {
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

func ha() Document {
	return Document{Path: HA, Typed: map[string][]string{
		scenes:                     {"agent run"},
		"e2e/pods.TestThreeAgents": {"agentctl group recover --dry-run", "agentctl group recover"},
	}}
}

func profiles() Document {
	return Document{Path: Profiles, Typed: map[string][]string{scenes: {
		"kubectl create namespace inventory", "helm upgrade", "kubectl get clusterprofiles",
		"kubectl delete clusterprofiles", "kubectl delete clusterproperties",
	}}}
}

func registryAPI() Document {
	return Document{Path: RegistryAPI, Typed: map[string][]string{
		scenes:                     {"kubectl get clusters.clusterregistry.k8s.io"},
		"e2e/pods.TestRegistryAPI": {"helm upgrade", "kubectl wait"},
	}}
}

func release() Document {
	return Document{
		Path: Release,
		DryRun: []string{
			"make publish REGISTRY=registry.example/team", "make publish REGISTRY=registry.example/team SIGN_WITH", "git checkout COMMIT && make release",
		},
		Typed: map[string][]string{
			scenes: {"ln -s agentctl", "kubectl roster", "helm install"},
			"cmd/internal/publish.TestCosignVerifies": {"cosign verify"},
			"cmd/internal/release.TestTheSameTwice":   {"sha256sum"},
			"e2e/pods.TestReadme":                     {"ctr -n k8s.io"},
		},
		Not: map[string]string{
			"kubectl krew install": "krew is a program of others that downloads; cmd/internal/release.TestKrew reads the manifest",
			"skopeo copy":          "skopeo is a program of others, and the registry is somebody else's",
		},
	}
}

func restore() Document {
	return Document{Path: Restore, Typed: map[string][]string{"e2e.TestRestoredAPIServer": {
		"kubectl get clusters -o wide", "agentctl restore confirm --context gamma --dry-run", "agentctl restore confirm --context gamma",
	}}}
}

func rules() Document {
	return Document{Path: Rules, Typed: map[string][]string{scenes: {
		"kubectl --context west label", "agentctl rules adopt", "agentctl accept",
	}}}
}

func runOutside() Document {
	return Document{Path: RunOutside, Typed: map[string][]string{scenes: {
		"kubectl create namespace", "helm template", "kubectl config view", "kubectl --kubeconfig agent.kubeconfig config delete-user",
		"kubectl --kubeconfig agent.kubeconfig config set-credentials", "kubectl --kubeconfig agent.kubeconfig config set-context", "agent run",
	}}}
}

func standalone() Document {
	return Document{Path: Standalone, DryRun: []string{"make build apiserver"}, Typed: map[string][]string{
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
		scenes:                   {"kubectl get clusters.clusterregistry.k8s.io", "agentctl join"},
	}}
}

func troubleshooting() Document {
	return Document{Path: Troubleshooting, Typed: map[string][]string{scenes: {
		"agentctl status --context A", "agentctl status --fleet", "agentctl status --wait", "agentctl doctor --context A",
		"agentctl doctor --context A --peer-context B",
		"agentctl rules lint", "agentctl rules list", "agentctl rules list --fleet", "agentctl rules explain web-certs", "agentctl rules explain secret",
		"agentctl rules explain -f",
	}}}
}

func ui() Document {
	return Document{Path: UI, Typed: map[string][]string{
		scenes: {"agentctl ui", "agentctl ui --context"},
		"e2e/pods.TestPage": {
			"kubectl -n cluster-registry create secret tls", "helm upgrade", "kubectl -n default create serviceaccount", "kubectl create clusterrolebinding",
			"kubectl -n default create token",
		},
	}}
}

func uninstall() Document {
	return Document{Path: Uninstall, Typed: map[string][]string{
		"e2e/pods.TestUninstall": {"helm uninstall"},
		scenes: {
			"kubectl delete apiservice", "kubectl delete clusterrole", "kubectl delete role,rolebinding", "kubectl delete rolebinding",
			"kubectl delete namespace", "kubectl get secrets", "kubectl delete secrets", "kubectl delete crd",
		},
	}}
}

func upgrade() Document {
	return Document{Path: Upgrade, Typed: map[string][]string{
		scenes:                 {"agentctl version", "agentctl doctor", "kubectl get clusters", "agentctl status"},
		"e2e/pods.TestUpgrade": {"helm upgrade", "helm rollback"},
	}}
}
