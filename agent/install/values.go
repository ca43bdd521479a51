// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica/journal"
)

// What a flag may be. Errors do not name it: the caller does.

// CheckHostPort checks an address: for listening as net.Listen accepts it, else one that others can dial.
func CheckHostPort(address string, listen bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port", address)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has no port between 0 and 65535", address)
	}
	if listen {
		return nil
	}
	if n == 0 || host == "" || net.ParseIP(host).IsUnspecified() {
		return fmt.Errorf("%q cannot be dialled by others: name a host and a port", address)
	}
	return nil
}

// ParseLabels reads labels that are written as KEY=VALUE.
func ParseLabels(pairs []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok {
			return nil, fmt.Errorf("%q is not KEY=VALUE", pair)
		}
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			return nil, fmt.Errorf("%q is not a label key: %s", key, msgs[0])
		}
		if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
			return nil, fmt.Errorf("%q is not a label value: %s", value, msgs[0])
		}
		if strings.HasPrefix(key, v1alpha1.Prefix) {
			return nil, fmt.Errorf("%q is a label that agents set", key)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("%q is named twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}

// CheckMeshService checks --mesh-service, beside --mesh-advertise.
func CheckMeshService(service, advertise string) error {
	namespace, name, _ := strings.Cut(service, "/")
	switch {
	case service == "":
		return nil
	case len(validation.IsDNS1123Label(namespace)) > 0, len(validation.IsDNS1123Label(name)) > 0:
		return fmt.Errorf("%q is not NAMESPACE/NAME of a Service", service)
	case advertise != "":
		return errors.New("is of no use beside --mesh-advertise: leave one of them out")
	}
	return nil
}

// CheckGroup tells bad what is wrong with the flags of a cluster with several agents: its --data-dir, --group-address and
// --group-peers.
func CheckGroup(dataDir, address string, peers []string, bad func(flag, format string, args ...any)) {
	if len(peers) == 0 {
		if address != "" {
			bad("group-address", "is of no use without --group-peers, the addresses of all agents of this cluster")
		}
		return
	}
	for _, peer := range peers {
		if err := CheckHostPort(peer, false); err != nil {
			bad("group-peers", "%v", err)
		}
	}
	if dataDir == "" {
		bad("group-peers", "needs --data-dir, which is empty: agents that are a group keep what they agreed upon on disk")
	}
	seen := map[string]bool{}
	for _, peer := range peers {
		if seen[peer] {
			bad("group-peers", "names %s twice", peer)
		}
		seen[peer] = true
	}
	if len(peers) > journal.MaxServers {
		bad("group-peers", "names %d agents; %d are the most, and three are enough", len(peers), journal.MaxServers)
	}
	if address == "" {
		bad("group-peers", "needs --group-address: the HOST:PORT where the other agents reach the mesh port of this one")
	} else if err := CheckHostPort(address, false); err != nil {
		bad("group-address", "%v", err)
	} else if !seen[address] {
		bad("group-address", "%s is not one of --group-peers, which names all agents of this cluster, this one as the others do", address)
	}
}

// CheckLocal tells bad what is wrong with the flags of a cluster without Kubernetes: --local-listen, and what may be beside
// it.
func CheckLocal(listen, kubeconfig, dataDir string, bad func(flag, format string, args ...any)) {
	if err := CheckHostPort(listen, true); err != nil {
		bad("local-listen", "%v", err)
	} else if _, port, _ := net.SplitHostPort(listen); strings.Trim(port, "0") == "" {
		bad("local-listen", "%q would be another port each time the API server starts: name one", listen)
	}
	if kubeconfig != "" {
		bad("local", "embedded is a cluster of this agent's own, and --kubeconfig names another one: give one of the two")
	}
	if dataDir == "" {
		bad("data-dir", "--local embedded keeps the cluster there: name a directory")
	}
}
