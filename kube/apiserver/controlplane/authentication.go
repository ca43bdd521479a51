// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	kubeauthenticator "k8s.io/kubernetes/pkg/kubeapiserver/authenticator"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// tokenCached is for how long a token is good that was.
	tokenCached = 10 * time.Second
	// reloadWithin bounds how long new settings of OpenID Connect may take to be in force.
	reloadWithin = time.Minute
)

// authentication stands for BuiltInAuthenticationOptions.ApplyTo in pkg/kubeapiserver/options/authentication.go: client
// certificates, ServiceAccounts, static tokens, and the JWTs of an AuthenticationConfiguration.
func (c *Config) authentication(ctx context.Context) error {
	config, err := c.authenticators()
	if err != nil {
		return err
	}
	info := &c.Generic.Authentication
	if err := info.ApplyClientCert(c.clientCA, c.Generic.SecureServing); err != nil {
		return fmt.Errorf("unable to load client CA file: %w", err)
	}
	info.APIAudiences = config.APIAudiences
	authenticate, update, v2, v3, err := config.New(ctx)
	if err != nil {
		return err
	}
	info.Authenticator = authenticate
	c.Generic.OpenAPIConfig.SecurityDefinitions = v2
	c.Generic.OpenAPIV3Config.SecuritySchemes = v3
	if c.o.Authentication != "" {
		id := c.Generic.APIServerID
		metrics.RegisterMetrics()
		metrics.RecordAuthenticationConfigLastConfigInfo(id, config.AuthenticationConfigData)
		r := &reload{
			file: c.o.Authentication, server: id, issuers: config.ServiceAccountIssuers, update: update,
			seen: config.AuthenticationConfigData, anonymous: config.AuthenticationConfig.Anonymous.DeepCopy(),
		}
		go filesystem.WatchUntil(ctx, time.Minute, r.file, func() { r.check(ctx) },
			func(err error) { klog.ErrorS(err, "watching authentication config file") })
	}
	return nil
}

func (c *Config) authenticators() (*kubeauthenticator.Config, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", c.o.ClientCA)
	if err != nil {
		return nil, err
	}
	c.clientCA = ca
	keys, err := keyutil.PublicKeysFromFile(c.o.SigningKey)
	if err != nil {
		return nil, err
	}
	if c.keys, err = serviceaccount.StaticPublicKeysGetter(keys); err != nil {
		return nil, fmt.Errorf("failed to set up public service account keys: %w", err)
	}
	config := &kubeauthenticator.Config{
		Anonymous:                      apiserver.AnonymousAuthConfig{Enabled: true},
		TokenAuthFile:                  c.o.TokenFile,
		TokenSuccessCacheTTL:           tokenCached,
		AuthenticationConfig:           &apiserver.AuthenticationConfiguration{},
		APIAudiences:                   authenticator.Audiences{c.o.Issuer},
		ServiceAccountIssuers:          []string{c.o.Issuer},
		ServiceAccountLookup:           true,
		ServiceAccountPublicKeysGetter: c.keys,
		ServiceAccountTokenGetter:      c.o.TokenGetter(c.Informers),
		SecretsWriter:                  c.client.CoreV1(),
		ClientCAContentProvider:        ca,
		APIServerID:                    c.Generic.APIServerID,
	}
	if c.o.Authentication == "" {
		return config, nil
	}
	data, err := os.ReadFile(c.o.Authentication)
	if err == nil {
		config.AuthenticationConfig, err = decodeAuthentication(data)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to load authentication configuration from file %q: %w", c.o.Authentication, err)
	}
	config.AuthenticationConfigData = string(data)
	config.OIDCSigningAlgs = oidc.AllValidSigningAlgorithms()
	if config.AuthenticationConfig.Anonymous != nil {
		config.Anonymous = *config.AuthenticationConfig.Anonymous
	}
	err = validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), config.AuthenticationConfig, config.ServiceAccountIssuers).ToAggregate()
	if err != nil {
		return nil, fmt.Errorf("invalid authentication configuration: %w", err)
	}
	return config, nil
}

func decodeAuthentication(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	object, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	config, ok := object.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", object)
	}
	return config, nil
}

// reload takes up an AuthenticationConfiguration that has changed.
type reload struct {
	file    string
	server  string // the ID of this one, in metrics
	issuers []string
	update  func(context.Context, *apiserver.AuthenticationConfiguration) error

	mu        sync.Mutex
	seen      string                         // what was taken up last, or can never be
	anonymous *apiserver.AnonymousAuthConfig // does not change while the server runs
}

// check is called when the file may have changed. What may yet come right is tried again.
func (r *reload) check(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, err := os.ReadFile(r.file)
	if err != nil {
		r.failed(err, "failed to read authentication config file")
		return
	}
	if string(data) == r.seen {
		return
	}
	config, err := decodeAuthentication(data)
	if err != nil {
		r.seen = string(data)
		r.failed(err, "failed to load authentication config")
		return
	}
	errs := validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), config, r.issuers)
	if !reflect.DeepEqual(r.anonymous, config.Anonymous) {
		errs = append(errs, field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file"))
	}
	if err := errs.ToAggregate(); err != nil {
		r.seen = string(data)
		r.failed(err, "failed to validate authentication config")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reloadWithin)
	defer cancel()
	if err := r.update(ctx, config); err != nil {
		r.failed(err, "failed to update authentication config")
		return
	}
	r.seen = string(data)
	klog.InfoS("reloaded authentication config")
	metrics.RecordAuthenticationConfigAutomaticReloadSuccess(r.server, r.seen)
}

func (r *reload) failed(err error, what string) {
	klog.ErrorS(err, what)
	metrics.RecordAuthenticationConfigAutomaticReloadFailure(r.server)
}
