// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// The kubeconfigs of several clusters can be used together: each has a context of the cluster's name.
func TestContextNames(t *testing.T) {
	t.Parallel()
	var files []string
	for _, name := range []string{"alpha", "beta", ""} {
		d := open(t, t.TempDir(), "v1.37.2", name)
		ensure(t, d, names, time.Now(), Admin, Agent, Serving)
		if err := d.WriteKubeconfigs("https://" + name + ".example.com:6443"); err != nil {
			t.Fatal(err)
		}
		files = append(files, d.AdminKubeconfig())
	}
	all, err := (&clientcmd.ClientConfigLoadingRules{Precedence: files}).Load()
	if err != nil {
		t.Fatal(err)
	}
	for context, server := range map[string]string{
		"alpha": "https://alpha.example.com:6443", "beta": "https://beta.example.com:6443", "standalone": "https://.example.com:6443",
	} {
		overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
		config, err := clientcmd.NewDefaultClientConfig(*all, overrides).ClientConfig()
		if err != nil {
			t.Fatal(context, err)
		}
		if config.Host != server || len(config.CertData) == 0 {
			t.Errorf("context %s is for %s", context, config.Host)
		}
	}
}
