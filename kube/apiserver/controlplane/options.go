// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/informers"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// Options stand for pkg/controlplane/apiserver/options/options.go.
type Options struct {
	Run           *genericoptions.ServerRunOptions
	SecureServing *genericoptions.SecureServingOptionsWithLoopback
	Etcd          *genericoptions.EtcdOptions
	Features      *genericoptions.FeatureOptions

	ClientCA       string // file with the CA of client certificates
	Issuer         string // of ServiceAccount tokens, which SigningKey, a file, signs
	SigningKey     string
	TokenFile      string // static tokens; empty for none
	Authentication string // AuthenticationConfiguration file; empty for none
	Authorization  string // AuthorizationConfiguration file; empty for RBAC
	TokenGetter    func(informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter
	Schemes        []*runtime.Scheme // of kinds that are served beside those of this package
	Definitions    common.GetOpenAPIDefinitions
	Servers        int // how many there may be; of several, each serves a new CRD five seconds later
}

// NewOptions returns upstream's defaults. What is for files, tokens and kinds is missing.
func NewOptions() *Options {
	o := &Options{
		Run:           genericoptions.NewServerRunOptions(),
		SecureServing: (&genericoptions.SecureServingOptions{BindAddress: net.IPv4zero, BindPort: 6443, Required: true}).WithLoopback(),
		Etcd:          genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil)),
		Features:      genericoptions.NewFeatureOptions(),
	}
	o.Etcd.DefaultStorageMediaType = runtime.ContentTypeProtobuf
	return o
}

// complete is called once, and says what is wrong with the options.
func (o *Options) complete() error {
	if err := o.Run.Complete(); err != nil {
		return err
	}
	// What is listed at the start of a watch stays to be had for as long as a request may take.
	o.Etcd.StorageConfig.EventsHistoryWindow = max(o.Etcd.StorageConfig.EventsHistoryWindow, o.Run.RequestTimeout+15*time.Second)
	errs := o.Run.Validate()
	errs = append(errs, o.Etcd.Validate()...)
	errs = append(errs, o.SecureServing.Validate()...)
	return utilerrors.NewAggregate(errs)
}
