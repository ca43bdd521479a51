// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authorization/cel"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	kubeauthorizer "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
)

// authorization stands for BuildAuthorizer in pkg/controlplane/apiserver/config.go and for
// pkg/kubeapiserver/options/authorization.go. The file is read again when it changes.
func (c *Config) authorization(ctx context.Context) error {
	config := kubeauthorizer.Config{
		VersionedInformerFactory: c.Informers,
		WebhookRetryBackoff:      genericoptions.DefaultAuthWebhookRetryBackoff(),
		ReloadFile:               c.o.Authorization,
		AuthorizationConfiguration: &apiserver.AuthorizationConfiguration{Authorizers: []apiserver.AuthorizerConfiguration{
			{Type: apiserver.AuthorizerType(modes.ModeRBAC), Name: kubeauthorizer.GetNameForAuthorizerMode(modes.ModeRBAC)},
		}},
	}
	var err error
	if c.o.Authorization != "" {
		config.AuthorizationConfiguration, config.InitialAuthorizationConfigurationData, err = kubeauthorizer.LoadAndValidateFile(c.o.Authorization, cel.NewDefaultCompiler(), nil)
		if err != nil {
			return err
		}
	}
	c.Generic.Authorization.Authorizer, c.Generic.RuleResolver, err = config.New(ctx, c.Generic.APIServerID)
	if err != nil {
		return fmt.Errorf("invalid authorization config: %w", err)
	}
	return nil
}
