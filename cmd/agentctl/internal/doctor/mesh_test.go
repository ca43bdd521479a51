// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor/meshport"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// meshPort is a server that, as an agent does, wants a certificate that nobody here has.
func meshPort(t *testing.T) (address string, key ed25519.PublicKey) {
	t.Helper()
	key, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, private)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, func(conn net.Conn) {
		server := tls.Server(conn, &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
			ClientAuth:   tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13, NextProtos: []string{meshport.Protocol},
		})
		_ = server.HandshakeContext(t.Context()) // it refuses us, and we have seen its key by then
	}), key
}

func serve(t *testing.T, each func(net.Conn)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				each(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestCheckMesh(t *testing.T) {
	t.Parallel()
	good, key := meshPort(t)
	other, _ := meshPort(t)
	chatty := serve(t, func(conn net.Conn) { _, _ = conn.Write([]byte("SSH-2.0-hello\r\n")) })
	for name, tc := range map[string]struct {
		endpoints []string
		opinion   string // of the agent in another cluster
		want      Severity
		text      string
	}{
		"the right key":            {endpoints: []string{good}},
		"at the second address":    {endpoints: []string{"127.0.0.1:1", good}},
		"another key":              {endpoints: []string{other}, want: Error, text: "another key than its Cluster object records"},
		"no mesh":                  {endpoints: []string{chatty}, want: Error, text: "no mesh port"},
		"nobody, agents agree":     {endpoints: []string{"127.0.0.1:1"}, opinion: "False", want: Error, text: "neither here nor to the agents in west"},
		"nobody, agents do better": {endpoints: []string{"127.0.0.1:1"}, opinion: "True", want: Unknown, text: "while agents in west reach it"},
		"a name that is none":      {endpoints: []string{"no.such.name.invalid:1"}, want: Unknown, text: "no agent says"},
		"no address":               {want: Error, text: "advertises no address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{ClusterID: "id-alpha", Mesh: &v1alpha1.ClusterMesh{Endpoints: tc.endpoints, PublicKey: key}}}
			c.Name = "alpha"
			x := &inspection{targets: []*target{{client: &clusters.Client{Context: "east"}, id: "id-alpha", clusters: []*v1alpha1.Cluster{c}}}}
			if tc.opinion != "" {
				seen := memberSeen("id-alpha", tc.opinion)
				x.targets = append(x.targets, &target{client: &clusters.Client{Context: "west"}, id: "id-west", clusters: []*v1alpha1.Cluster{seen}})
			}
			found := checkMesh(t.Context(), x)
			if tc.want == "" {
				if len(found) > 0 {
					t.Fatalf("found %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Severity != tc.want || !strings.Contains(found[0].Message, tc.text) || found[0].Fix == "" {
				t.Fatalf("found %+v", found)
			}
		})
	}
}

func memberSeen(id types.UID, status string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{ClusterID: id}}
	c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionMember, Status: metav1.ConditionStatus(status), Reason: "Test"}}
	return c
}

// An address that swallows what it is sent costs no more than the timeout.
func TestServerKeyGivesUp(t *testing.T) {
	t.Parallel()
	silent := serve(t, func(net.Conn) { <-t.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := meshport.Key(ctx, silent); err == nil {
		t.Fatal("a key from nobody")
	}
}
