// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
)

// password is a part of every secret that these tests give away.
const password = "hunter2"

// made are the tokens that the controller made while the tests ran.
var made = &tokens{}

type tokens struct {
	mu  sync.Mutex
	all []token.Token
}

func (m *tokens) next() (token.Token, error) {
	t, err := token.New()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, t)
	return t, err
}

// assertKept looks for all secrets of all tests where others may read: in the logs, in the events of
// both clusters, and in the objects that are no Secrets.
func assertKept(ctx context.Context) error {
	secrets := map[string]string{"a password": password}
	for _, t := range made.all {
		secrets[fmt.Sprintf("the token %s", t.ID)] = t.Secret
	}
	config, err := clientcmd.Load(workloads.Kubeconfig)
	if err != nil {
		return err
	}
	for _, user := range config.AuthInfos {
		_, body, _ := strings.Cut(string(user.ClientKeyData), "\n")
		secrets["the key of the kubeconfig"], _, _ = strings.Cut(body, "\n")
	}
	places := map[string]string{"the logs": strings.Join(logs.Lines(""), "\n")}
	for cluster, c := range map[string]client.Client{"management": management.Client, "workload": workloads.Client} {
		lists := []client.ObjectList{&eventsv1.EventList{}}
		if c == management.Client {
			lists = append(lists, &bootstrapv1.BootstrapConfigList{}, &clusterv1.MachineList{}, &clusterv1.ClusterList{})
		}
		for _, list := range lists {
			if err := c.List(ctx, list); err != nil {
				return err
			}
			content, err := json.Marshal(list)
			if err != nil {
				return err
			}
			places[fmt.Sprintf("a %T of the %s cluster", list, cluster)] = string(content)
		}
	}
	var found []error
	for where, content := range places {
		for what, secret := range secrets {
			if strings.Contains(content, secret) {
				found = append(found, fmt.Errorf("%s is in %s", what, where))
			}
		}
	}
	return errors.Join(found...)
}

// Secrets of every kind take the way to data that is made and to data that is refused; the rest is for assertKept.
func TestSecretsAreOnlyInTheData(t *testing.T) {
	f := newFixture(t)
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys", Namespace: f.namespace}, Data: map[string][]byte{
		"user":       []byte(password + "-user"),
		"password":   []byte(password + "-password"),
		"activation": []byte(password + "-activation"),
		"file":       []byte(password + "-file\n"),
		"pull":       []byte(`{"auths":{"registry.example.test":{"username":"puller","password":"` + password + `-pull"}}}`),
		"broken":     []byte(`{"auths":` + password),
	}})
	from := func(key string) bootstrapv1.SecretKeyReference {
		return bootstrapv1.SecretKeyReference{Name: "keys", Key: key}
	}
	everything := func(s *bootstrapv1.BootstrapConfigSpec) {
		s.OperatingSystem = bootstrapv1.RHEL
		s.RHEL.Subscription = bootstrapv1.RHELSubscription{Organization: "1", ActivationKeyFrom: from("activation")}
		s.Files = []bootstrapv1.File{{Path: "/etc/password", ContentFrom: from("file")}}
		s.Containerd.RegistryCredentialsFrom = from("pull")
	}
	config := f.config(f.machine("m1"), func(b *bootstrapv1.BootstrapConfig) { everything(&b.Spec) })
	f.eventuallyReady(config)
	data := f.hostFiles(config)
	for _, want := range []string{"--activationkey='" + password + "-activation'", "content: |\n      " + password + "-file\n", `"password":"` + password + `-pull"`} {
		if !strings.Contains(data, want) {
			t.Errorf("the data lacks a secret that was requested: %q", want)
		}
	}
	byUser := func(s *bootstrapv1.BootstrapConfigSpec) {
		everything(s)
		s.RHEL.Subscription = bootstrapv1.RHELSubscription{UsernameFrom: from("user"), PasswordFrom: from("password")}
	}
	user := f.config(f.machine("m2"), func(b *bootstrapv1.BootstrapConfig) { byUser(&b.Spec) })
	f.eventuallyReady(user)
	secret := f.dataSecret(user)
	if !strings.Contains(f.hostFiles(user), "--username='"+password+"-user' --password='"+password+"-password'") {
		t.Error("the data lacks the user of the subscription")
	}
	if words := string(secret.Data[redactKey]); strings.Contains(words, password+"-user") || !strings.Contains(words, password+"-password") {
		t.Error("not the password alone of the subscription is removed from what is quoted of the console")
	}
	for name, change := range map[string]func(*bootstrapv1.BootstrapConfigSpec){
		"user-missing":   func(s *bootstrapv1.BootstrapConfigSpec) { byUser(s); s.RHEL.Subscription.PasswordFrom = from("none") },
		"over-the-limit": func(s *bootstrapv1.BootstrapConfigSpec) { s.MaxSizeBytes = new(int32(4096)) },
		"broken":         func(s *bootstrapv1.BootstrapConfigSpec) { s.Containerd.RegistryCredentialsFrom = from("broken") },
		"missing":        func(s *bootstrapv1.BootstrapConfigSpec) { s.Files[0].ContentFrom = from("none") },
	} {
		refused := f.config(f.machine(name), func(b *bootstrapv1.BootstrapConfig) {
			everything(&b.Spec)
			change(&b.Spec)
		})
		f.eventually(refused, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.InvalidSpecReason)
	}
}
