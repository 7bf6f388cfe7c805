// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kubeconfig returns a kubeconfig for the server of a configuration and its user.
func Kubeconfig(config *rest.Config) ([]byte, error) {
	written := clientcmdapi.NewConfig()
	written.Clusters["c"] = &clientcmdapi.Cluster{Server: URL(config), CertificateAuthorityData: config.CAData}
	written.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	written.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	written.CurrentContext = "x"
	return clientcmd.Write(*written)
}

// URL returns that of the server of a configuration.
func URL(config *rest.Config) string {
	if strings.Contains(config.Host, "://") {
		return config.Host
	}
	return "https://" + config.Host
}

// Impersonate returns a configuration that acts as a user.
func Impersonate(admin *rest.Config, user string) *rest.Config {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return config
}

// CreateManifest creates the objects of a manifest, whose path is relative to the working folder or to one above it. It
// skips empty documents.
func CreateManifest(ctx context.Context, c client.Client, manifest string) error {
	file, err := find(manifest)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", manifest, err)
		case len(object.Object) == 0:
			continue
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating the objects of %s: %w", manifest, err)
		}
	}
}

// AwaitAccess waits until a user may do something: the API server reads tokens, roles and bindings from caches.
func AwaitAccess(ctx context.Context, as *rest.Config, to authorizationv1.ResourceAttributes) error {
	clients, err := kubernetes.NewForConfig(as)
	if err != nil {
		return err
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &to}}
	last := error(nil)
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var answer *authorizationv1.SelfSubjectAccessReview
		answer, last = clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return last == nil && answer.Status.Allowed, nil
	})
	return errors.Join(err, last)
}
