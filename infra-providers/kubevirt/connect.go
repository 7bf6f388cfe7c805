// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/workload"
)

const (
	// callTimeout bounds one request.
	callTimeout = 30 * time.Second
	// pageSize is how many objects a page of a list has.
	pageSize = 50
	// secretKey is where a Secret has the kubeconfig.
	secretKey = "value"
)

// Options are the settings of the provider.
type Options struct {
	// Own returns the configuration of the provider's own cluster. It is called with each connection to it.
	Own func() (*rest.Config, error)
	// AllowProxy accepts a proxy-url in kubeconfigs.
	AllowProxy bool
	// PageSize is the number of objects on a page of a list; zero means 50.
	PageSize int64
	// Transport changes the transport of each connection; nil is none.
	Transport func(http.RoundTripper) http.RoundTripper
}

var (
	dataVolumes = schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"}
	dataSources = schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataSource"}
)

// Scheme has the kinds of infrastructure clusters. Of those of CDI only the metadata is read.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(virtv1.AddToScheme(scheme))
	utilruntime.Must(instancetypev1.AddToScheme(scheme))
	return scheme
}

// newMapper maps the kinds in use, which have the same names everywhere, so that no connection discovers them.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	virt, types := virtv1.GroupVersion, instancetypev1.SchemeGroupVersion
	for _, kind := range []schema.GroupVersionKind{
		dataVolumes, dataSources, virt.WithKind("VirtualMachine"), virt.WithKind("VirtualMachineInstance"), types.WithKind("VirtualMachineInstancetype"), types.WithKind("VirtualMachinePreference"),
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	for _, kind := range []schema.GroupVersionKind{
		types.WithKind("VirtualMachineClusterInstancetype"), types.WithKind("VirtualMachineClusterPreference"), corev1.SchemeGroupVersion.WithKind("Namespace"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
	} {
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	return mapper
}

// connector opens connections to infrastructure clusters.
type connector struct {
	options Options
	dialer  *workload.Dialer
	mapper  meta.RESTMapper
	scheme  *runtime.Scheme
	long    *httplimit.Seats
}

func newConnector(options Options) *connector {
	return &connector{
		options: options,
		dialer:  workload.NewDialer(workload.Options{UserAgent: "drover-infra-kubevirt", MaxElements: maxElements}),
		mapper:  newMapper(), scheme: Scheme(), long: httplimit.NewCloudSeats(),
	}
}

// connect reads the kubeconfig and makes no call.
func (c *connector) connect(account driver.Account, secret driver.Credentials) (*Driver, error) {
	config, err := c.config(account, secret)
	if err != nil {
		return nil, &driver.UnauthorizedError{Err: err}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the limits of an account are the same for all clouds, and are kept outside of the drivers
	transport, err := c.dialer.Open(config, "")
	if err != nil {
		return nil, fmt.Errorf("configuring the client of the infrastructure cluster: %w", err)
	}
	wrapped := c.long.WrapShared(bounded{transport})
	if c.options.Transport != nil {
		wrapped = c.options.Transport(wrapped)
	}
	httpClient := workload.HTTPClient(onlyJSON{limited{wrapped}}, callTimeout)
	api, err := client.New(transport.Config(), client.Options{HTTPClient: httpClient, Scheme: c.scheme, Mapper: c.mapper})
	if err != nil {
		return nil, fmt.Errorf("configuring the client of the infrastructure cluster: %w", err)
	}
	plain := transport.Config()
	plain.NegotiatedSerializer = clientgoscheme.Codecs
	raw, err := rest.UnversionedRESTClientForConfigAndClient(plain, httpClient)
	if err != nil {
		return nil, fmt.Errorf("configuring the client of the infrastructure cluster: %w", err)
	}
	return &Driver{api: api, raw: raw, namespace: account.Region, pageSize: cmp.Or(c.options.PageSize, pageSize)}, nil
}

// onlyJSON requests JSON of the metadata of objects, for which client-go prefers what cannot be bounded before it is decoded.
type onlyJSON struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onlyJSON) RoundTrip(request *http.Request) (*http.Response, error) {
	accepted := strings.Split(request.Header.Get("Accept"), ",")
	isProtobuf := func(kind string) bool { return strings.HasPrefix(kind, runtime.ContentTypeProtobuf) }
	if slices.ContainsFunc(accepted, isProtobuf) {
		request = request.Clone(request.Context())
		request.Header.Set("Accept", strings.Join(slices.DeleteFunc(accepted, isProtobuf), ","))
	}
	return o.next.RoundTrip(request)
}

// limited is a transport that fails with RateLimitedError for an answer 429, because client-go reads no pause of the headers
// that reach it.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		return response, err
	}
	_ = response.Body.Close() // nothing of it is used
	pause, _ := driver.ParseRetryAfter(http.Header{"Retry-After": {response.Header.Get(workload.RetryAfterHeader)}}, time.Now())
	return nil, &driver.RateLimitedError{RetryAfter: pause, Err: errLimited}
}

// config returns the kubeconfig of a Secret, or the configuration of the provider's own cluster.
func (c *connector) config(account driver.Account, secret driver.Credentials) (*rest.Config, error) {
	if account.SecretName == "" {
		if c.options.Own == nil {
			return nil, errors.New("the provider has no cluster of its own: set spec.credentialsSecretName")
		}
		config, err := c.options.Own()
		if err != nil {
			return nil, fmt.Errorf("finding the provider's own cluster: %w", err)
		}
		return config, nil
	}
	content := secret[secretKey]
	if len(content) == 0 {
		return nil, fmt.Errorf("the Secret %q has no kubeconfig in its key %q", account.SecretName, secretKey)
	}
	config, err := kubeconfig.Rules{AllowProxy: c.options.AllowProxy}.RESTConfig(string(content))
	if err != nil {
		return nil, fmt.Errorf("the Secret %q: %w", account.SecretName, err)
	}
	return config, nil
}
