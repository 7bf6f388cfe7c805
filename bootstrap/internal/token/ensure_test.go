// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/runtime/logtest"
	"drover.io/runtime/metric"
	"drover.io/runtime/metric/metrictest"
)

var (
	now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tok = token.Token{ID: "abcdef", Secret: "0123456789abcdef"}
)

// request is for a token of one hour.
func request() token.Request {
	return token.Request{Token: tok, MachineUID: "uid", Machine: "ns/m1", TTL: time.Hour, Now: now}
}

// secret is the Secret of a token that expires after a time.
func secret(name, value string, left time.Duration, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{bootstrapv1.MachineUIDLabel: "uid"}},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-secret": []byte(value), "expiration": []byte(now.Add(left).Format(time.RFC3339)), "auth-extra-groups": []byte(token.Group),
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// writes returns the verbs by which a fake API server was written to.
func writes(c *fake.Clientset) (verbs []string) {
	for _, action := range c.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			verbs = append(verbs, verb+" "+action.GetResource().Resource)
		}
	}
	return verbs
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	const name = "bootstrap-token-abcdef"
	for what, test := range map[string]struct {
		before *corev1.Secret
		next   time.Duration
		err    error
		writes []string
		log    string
	}{
		"creates a token that does not exist":               {nil, 30 * time.Minute, nil, []string{"create secrets"}, "created bootstrap token"},
		"leaves one with more than half of its time":        {secret(name, tok.Secret, 31*time.Minute), time.Minute, nil, nil, ""},
		"renews one with half of its time":                  {secret(name, tok.Secret, 30*time.Minute), 30 * time.Minute, nil, []string{"patch secrets"}, "renewed bootstrap token"},
		"renews one that has expired":                       {secret(name, tok.Secret, -time.Hour), 30 * time.Minute, nil, []string{"patch secrets"}, "renewed bootstrap token"},
		"renews one without a time that can be read":        {secret(name, tok.Secret, time.Hour, func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") }), 30 * time.Minute, nil, []string{"patch secrets"}, "renewed bootstrap token"},
		"takes over one that is marked for another Machine": {secret(name, tok.Secret, time.Hour, func(s *corev1.Secret) { s.Labels[bootstrapv1.MachineUIDLabel] = "other" }), 30 * time.Minute, nil, []string{"patch secrets"}, "renewed bootstrap token"},
		"corrects one with other groups":                    {secret(name, tok.Secret, time.Hour, func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }), 30 * time.Minute, nil, []string{"patch secrets"}, "renewed bootstrap token"},
		"refuses an id that is taken":                       {secret(name, "another", time.Hour), 0, token.ErrTaken, nil, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientset()
			if test.before != nil {
				if err := c.Tracker().Add(test.before); err != nil {
					t.Fatal(err)
				}
			}
			recorder := &logtest.Recorder{}
			ctx := recorder.Context(t.Context())
			next, err := token.Ensure(ctx, c.CoreV1(), request())
			if next != test.next || !errors.Is(err, test.err) {
				t.Errorf("got %s, %v; want %s, %v", next, err, test.next, test.err)
			}
			if diff := cmp.Diff(test.writes, writes(c)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			assertLine(t, recorder.Lines(""), test.log)
		})
	}
}

// assertLine has one line about the Secret of the token, or none, and never the token itself.
func assertLine(t *testing.T, lines []string, message string) {
	t.Helper()
	if message == "" && len(lines) == 0 {
		return
	}
	if len(lines) != 1 || !strings.Contains(lines[0], `"msg"="`+message+`"`) ||
		!strings.Contains(lines[0], `"Secret"={"name"="bootstrap-token-abcdef" "namespace"="kube-system"}`) || strings.Contains(lines[0], tok.Secret) {
		t.Errorf("the log is %q, want one line %q", lines, message)
	}
}

func TestCreatedTokenIsOnlyGoodForJoining(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	if _, err := token.Ensure(t.Context(), c.CoreV1(), request()); err != nil {
		t.Fatal(err)
	}
	got, err := c.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"token-id": "abcdef", "token-secret": tok.Secret, "expiration": "2026-01-02T04:04:05Z", "usage-bootstrap-authentication": "true",
		"auth-extra-groups": "system:bootstrappers:drover", "description": "bootstrap token of Machine ns/m1, deleted when its Node has joined",
	}
	if diff := cmp.Diff(want, got.StringData); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if got.Type != corev1.SecretTypeBootstrapToken || got.Labels[bootstrapv1.MachineUIDLabel] != "uid" {
		t.Errorf("it is of type %q with the labels %v", got.Type, got.Labels)
	}
}

// failing makes a fake API server answer a verb of Secrets with an error.
func failing(c *fake.Clientset, verb string, err error) *fake.Clientset {
	c.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	return c
}

func TestEnsureReportsErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	existing := secret("bootstrap-token-abcdef", tok.Secret, 0)
	for what, test := range map[string]struct {
		c    *fake.Clientset
		want string
	}{
		"of reading":  {failing(fake.NewClientset(), "get", boom), "reading bootstrap token: boom"},
		"of creating": {failing(fake.NewClientset(), "create", boom), "creating bootstrap token: boom"},
		"of renewing": {failing(fake.NewClientset(existing), "patch", boom), "renewing bootstrap token: boom"},
	} {
		recorder := &logtest.Recorder{}
		ctx := recorder.Context(t.Context())
		next, err := token.Ensure(ctx, test.c.CoreV1(), request())
		if next != 0 || !errors.Is(err, boom) || err.Error() != test.want || len(recorder.Lines("")) != 0 {
			t.Errorf("%s: got %s, %v, log %q", what, next, err, recorder.Lines(""))
		}
	}
}

// TestTokenThatAppearsMeanwhileIsReadAgain: another process has created it between the read and the write.
func TestTokenThatAppearsMeanwhileIsReadAgain(t *testing.T) {
	t.Parallel()
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "x")
	recorder := &logtest.Recorder{}
	ctx := recorder.Context(t.Context())
	if next, err := token.Ensure(ctx, failing(fake.NewClientset(), "create", exists).CoreV1(), request()); next != 0 || err != nil || len(recorder.Lines("")) != 0 {
		t.Errorf("got %s, %v, log %q", next, err, recorder.Lines(""))
	}
}

// It runs alone, as the counter is shared by the process.
func TestDecisionsAreCounted(t *testing.T) {
	const name = "bootstrap-token-abcdef"
	registry := prometheus.NewRegistry()
	if err := metric.Register(registry); err != nil {
		t.Fatal(err)
	}
	before := metrictest.Samples(t, registry)
	for _, held := range []runtime.Object{nil, secret(name, tok.Secret, 0), secret(name, "another", time.Hour)} {
		c := fake.NewClientset()
		if held != nil {
			c = fake.NewClientset(held)
		}
		if _, err := token.Ensure(t.Context(), c.CoreV1(), request()); err != nil && !errors.Is(err, token.ErrTaken) {
			t.Fatal(err)
		}
		if err := token.Revoke(t.Context(), c.CoreV1(), "uid", token.Token{}); err != nil {
			t.Fatal(err)
		}
	}
	after := metrictest.Samples(t, registry)
	metrictest.Growth(t, before, after, map[string]float64{
		"drover_bootstrap_tokens_total decision=created":  1,
		"drover_bootstrap_tokens_total decision=renewed":  1,
		"drover_bootstrap_tokens_total decision=id_taken": 1,
		"drover_bootstrap_tokens_total decision=deleted":  3,
	})
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	const name = "bootstrap-token-abcdef"
	unmarked := func(s *corev1.Secret) { s.Labels = nil }
	for what, test := range map[string]struct {
		before []runtime.Object
		token  token.Token
		writes []string
		log    string
	}{
		"deletes the marked token":                        {[]runtime.Object{secret(name, tok.Secret, 0)}, token.Token{}, []string{"delete secrets"}, "deleted bootstrap token"},
		"deletes the given one though it is not marked":   {[]runtime.Object{secret(name, tok.Secret, 0, unmarked)}, tok, []string{"delete secrets"}, "deleted bootstrap token"},
		"leaves the given id to another token":            {[]runtime.Object{secret(name, "another", 0, unmarked)}, tok, nil, ""},
		"leaves tokens of other Machines":                 {[]runtime.Object{secret("bootstrap-token-ffffff", tok.Secret, 0, func(s *corev1.Secret) { s.Labels[bootstrapv1.MachineUIDLabel] = "other" })}, tok, nil, ""},
		"leaves what is marked and no token":              {[]runtime.Object{secret(name, tok.Secret, 0, func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })}, token.Token{}, nil, ""},
		"has nothing to do where there is none":           {nil, tok, nil, ""},
		"tries a token twice that is both, and logs once": {[]runtime.Object{secret(name, tok.Secret, 0)}, tok, []string{"delete secrets", "delete secrets"}, "deleted bootstrap token"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientset(test.before...)
			recorder := &logtest.Recorder{}
			ctx := recorder.Context(t.Context())
			if err := token.Revoke(ctx, c.CoreV1(), "uid", test.token); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.writes, writes(c)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			assertLine(t, recorder.Lines(""), test.log)
		})
	}
}

func TestRevokeReportsErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	existing := secret("bootstrap-token-abcdef", tok.Secret, 0)
	for what, test := range map[string]struct {
		c    *fake.Clientset
		want string
	}{
		"of listing":  {failing(fake.NewClientset(), "list", boom), "listing bootstrap tokens: boom"},
		"of reading":  {failing(fake.NewClientset(), "get", boom), "reading bootstrap token: boom"},
		"of deleting": {failing(fake.NewClientset(existing), "delete", boom), "deleting bootstrap token: boom"},
	} {
		if err := token.Revoke(t.Context(), test.c.CoreV1(), "uid", tok); !errors.Is(err, boom) || err.Error() != test.want {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
