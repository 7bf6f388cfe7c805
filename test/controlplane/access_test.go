// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfigNamesUserAndGroups(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ofUser, err := c.Kubeconfig("jane", "team-a", "team-b")
	if err != nil {
		t.Fatal(err)
	}
	ofServiceAccount, err := c.ServiceAccountKubeconfig(t.Context(), "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kubeconfig []byte
		user       string
		groups     []string
	}{
		"a client certificate": {ofUser, "jane", []string{"team-a", "team-b", "system:authenticated"}},
		"the administrator":    {c.AdminKubeconfig(), "kubernetes-admin", []string{"system:masters", "system:authenticated"}},
		"a ServiceAccount": {
			ofServiceAccount, "system:serviceaccount:default:default",
			[]string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reviews := clientFrom(t, test.kubeconfig).AuthenticationV1().SelfSubjectReviews()
			review, err := reviews.Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.user, review.Status.UserInfo.Username); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.groups, review.Status.UserInfo.Groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubeconfigIsBoundByRBAC(t *testing.T) {
	t.Parallel()
	raw, err := sharedCluster(t).Kubeconfig("user-without-permissions")
	if err != nil {
		t.Fatal(err)
	}
	_, err = clientFrom(t, raw).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets: got %v, want forbidden", err)
	}
}

func TestKubeconfigNeedsAUser(t *testing.T) {
	t.Parallel()
	if _, err := sharedCluster(t).Kubeconfig(""); err == nil {
		t.Error("made a kubeconfig without a user")
	}
}

func TestServiceAccountKubeconfigNeedsTheAccount(t *testing.T) {
	t.Parallel()
	_, err := sharedCluster(t).ServiceAccountKubeconfig(t.Context(), "default", "absent")
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestEndpointServesTheExtraNames(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Options{Name: "names", ExtraSANs: []string{"workload.example", "192.0.2.7"}})
	host, port := c.Endpoint()
	conn, err := tls.Dial("tcp", fmt.Sprintf("%s:%d", host, port), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the names are checked below
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	for _, name := range []string{"localhost", "127.0.0.1", "workload.example", "192.0.2.7", "kubernetes.default.svc"} {
		if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

// tokenOf returns the token that a kubeconfig holds.
func tokenOf(t *testing.T, kubeconfig []byte) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config.BearerToken
}
