// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 stands in for github.com/fluxcd/pkg/apis/crypto/v1, which says how to authenticate to clouds, registries and SPIFFE, from
// the annotations of a ServiceAccount. It has the names that kustomize-controller and Flux's package auth are compiled with, and can
// only refuse: a Kustomization that has spec.decryption or spec.kubeConfig.configMapRef is not reconciled. A kubeconfig in a Secret
// asks nothing of it.
package v1

import (
	"errors"
	"time"
)

// Values of fields, and what clouds are asked for by default.
const (
	ProviderAWS   = "aws"
	ProviderAzure = "azure"
	ProviderGCP   = "gcp"

	CredentialProviderKubernetes = "kubernetes"
	CredentialProviderSPIFFE     = "spiffe"
	CredentialTypeJWT            = "jwt"

	DefaultAudienceAWS   = "sts.amazonaws.com"
	DefaultAudienceAzure = "api://AzureADTokenExchange"
	RegistryAWSPublicECR = "public.ecr.aws"
)

// ErrNotSupported is returned when anything is asked for.
var ErrNotSupported = errors.New("this build of the controller cannot authenticate to clouds, registries or SPIFFE")

// Spec is what is configured. There never is one.
type Spec struct{ Auth *AuthSpec }

// AuthSpec is how to authenticate.
type AuthSpec struct {
	Credential *struct {
		Provider, Type, Username string
		Expiration               time.Duration
		Audiences                []string
	}
	AWS *struct {
		RoleARN, STSEndpoint string
		Cluster              *struct{ Region, Name string }
	}
	Azure *struct {
		TenantID, ClientID string
		Cluster            *struct{ SubscriptionID, ResourceGroup, Name string }
	}
	GCP           *struct{ WorkloadIdentityProvider, ServiceAccount string }
	DockerHub     *struct{ OIDCConnectionID string }
	TransitEngine *TransitEngineSpec
}

// OptedIn reports whether a provider of credentials was chosen.
func (*AuthSpec) OptedIn() bool { return false }

// TransitEngineSpec is how to log in to Vault.
type TransitEngineSpec struct{ LoginPath, Role string }

// Option is a part of a configuration.
type Option struct{}

// BuildSpec refuses.
func BuildSpec(...Option) (*Spec, error) { return nil, ErrNotSupported }

// WithAnnotations is an Option.
func WithAnnotations(map[string]string) Option { return Option{} }

// WithKubeConfigAudiences is an Option.
func WithKubeConfigAudiences(string) Option { return Option{} }

// WithKubeConfigCluster is an Option.
func WithKubeConfigCluster(string) Option { return Option{} }

// WithServiceProvider is an Option.
func WithServiceProvider(string) Option { return Option{} }

// WithSOPSVaultConfigMap is an Option.
func WithSOPSVaultConfigMap() Option { return Option{} }

// ParseArtifactRepository refuses.
func ParseArtifactRepository(_, _ string) (string, error) { return "", ErrNotSupported }

// ParseGitRepository refuses.
func ParseGitRepository(_, _ string) (string, error) { return "", ErrNotSupported }

// ParseClusterAddress refuses.
func ParseClusterAddress(string) (string, error) { return "", ErrNotSupported }

// GetRegistryFromArtifactRepository refuses.
func GetRegistryFromArtifactRepository(string) (string, error) { return "", ErrNotSupported }

// GetAWSRegionFromCodeCommitURL refuses.
func GetAWSRegionFromCodeCommitURL(string) (string, error) { return "", ErrNotSupported }

// GetAWSRegionFromArtifactRegistryInput is not reached: the functions above refuse before.
func GetAWSRegionFromArtifactRegistryInput(string) string { panic(ErrNotSupported) }

// GetAWSRoleSessionName is not reached either.
func GetAWSRoleSessionName(_, _, _ string) string { panic(ErrNotSupported) }

// GetDefaultAudienceGCP is not reached either.
func GetDefaultAudienceGCP(string) string { panic(ErrNotSupported) }
