// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
)

// TestUnansweredCreationIsNotAbsent deletes a machine whose creation got no answer and that EC2 does not list yet: it
// must not count as absent.
func TestUnansweredCreationIsNotAbsent(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	d := ec2.connect(t)
	ec2.cloud.HideNext(3)
	ec2.cloud.FailNext(awsfake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
		t.Fatal("the answer was not lost")
	}
	for verb, call := range map[string]func() error{
		"delete": func() error { return d.Delete(t.Context(), identity) },
		"get":    func() error { _, err := d.Get(t.Context(), identity); return err },
	} {
		if err := call(); err == nil || driver.IsNotFound(err) {
			t.Errorf("%s while EC2 does not list it: got %v", verb, err)
		}
	}
	for range 3 {
		_, _ = d.Get(t.Context(), identity) // each read brings the listing closer
	}
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Fatalf("deleting what is listed: %v", err)
	}
	wantDeleted(t, ec2, d)
}

// TestFailedCreationIsAbsentAfterTheWindow has a request that had no effect.
func TestFailedCreationIsAbsentAfterTheWindow(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{Faults: faultOf("RunInstances", awsfake.Fault{Status: 500, Code: "InternalError", Message: "An internal error has occurred"})})
	d := ec2.connect(t)
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
		t.Fatal("the creation succeeded")
	}
	if _, err := d.Get(t.Context(), identity); err == nil || driver.IsNotFound(err) {
		t.Errorf("within the window: got %v", err)
	}
	ec2.clock.Advance(3 * time.Minute)
	if _, err := d.Get(t.Context(), identity); !driver.IsNotFound(err) {
		t.Errorf("after the window: got %v, want a NotFoundError", err)
	}
}

// TestInstanceIsNotAbsentAfterARestart has a provider that restarts after the creation, with an empty cache.
func TestInstanceIsNotAbsentAfterARestart(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	ec2.cloud.HideNext(4)
	created, err := ec2.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	d, byID := ec2.connectRestarted(t), identity
	byID.ProviderID = created.ProviderID
	for as, id := range map[string]driver.Identity{"UID": identity, "provider ID": byID} {
		if _, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) {
			t.Errorf("reading by %s: got %v", as, err)
		}
		if err := d.Delete(t.Context(), id); err == nil {
			t.Errorf("deleting by %s: got no error", as)
		}
	}
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Fatalf("deleting what is listed: %v", err)
	}
	wantDeleted(t, ec2, ec2.connect(t))
	ec2.clock.Advance(3 * time.Minute)
	if _, err := d.Get(t.Context(), driver.Identity{UID: "never", Name: "never"}); !driver.IsNotFound(err) {
		t.Errorf("after the window: got %v, want a NotFoundError", err)
	}
}

// TestUserDataMayChangeBetweenAttempts has a client token that EC2 has stored with other parameters: an existing
// instance is waited for, and a creation that was refused for lack of capacity does not block the next one forever.
func TestUserDataMayChangeBetweenAttempts(t *testing.T) {
	t.Parallel()
	t.Run("finds the instance once it is listed", func(t *testing.T) {
		t.Parallel()
		ec2 := newEnv(t, awsfake.Options{})
		ec2.cloud.HideNext(3)
		ec2.cloud.FailNext(awsfake.Fault{Lost: true})
		req := newRequest(identity, newConfig(t, unchanged))
		_, _ = ec2.connect(t).Create(t.Context(), req)
		req.UserData = []byte("#cloud-config\nhostname: other\n")
		d := ec2.connect(t)
		for range 2 {
			if _, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
				t.Fatalf("while EC2 does not list it: got %v", err)
			}
		}
		_, _ = d.Get(t.Context(), identity)
		created, err := d.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{created.ID}, listInstanceIDs(t, d)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("creates an instance when there is none", func(t *testing.T) {
		t.Parallel()
		ec2 := newEnv(t, awsfake.Options{})
		d := ec2.connect(t)
		req := newRequest(identity, newConfig(t, func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m7i.48xlarge" }))
		if _, err := d.Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
			t.Fatalf("got %v, want an InsufficientCapacityError", err)
		}
		req.UserData = []byte("#cloud-config\nhostname: other\n")
		if _, err := d.Create(t.Context(), req); err == nil || driver.IsInsufficientCapacity(err) {
			t.Fatalf("with a token of other parameters: got %v", err)
		}
		ec2.clock.Advance(3 * time.Minute)
		if _, err := d.Create(t.Context(), req); !driver.IsInsufficientCapacity(err) {
			t.Errorf("after the window: got %v, want another request", err)
		}
	})
}

// TestTerminatedInstanceIsReplacedOnceUnlisted repeats the creation after an instance was terminated before its provider
// ID was stored.
func TestTerminatedInstanceIsReplacedOnceUnlisted(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{TerminatedReads: 2})
	d := ec2.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	first, err := d.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	ec2.cloud.Terminate(first.ID)
	listed, err := d.Create(t.Context(), req)
	if err != nil || listed.State != driver.Terminated || listed.ID != first.ID {
		t.Fatalf("while it is listed: got %+v and %v", listed, err)
	}
	for range 3 {
		_, _ = ec2.connect(t).Get(t.Context(), identity)
	}
	second, err := d.Create(t.Context(), req)
	if err != nil || second.ID == first.ID {
		t.Fatalf("once EC2 does not list it: got %+v and %v", second, err)
	}
	if diff := cmp.Diff([]string{second.ID}, listInstanceIDs(t, d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTerminatedInstanceWithoutTagsDoesNotExist: EC2 lists a terminated instance for up to an hour, and removes its tags
// before.
func TestTerminatedInstanceWithoutTagsDoesNotExist(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{TerminatedReads: 10})
	d := ec2.connect(t)
	created, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	ec2.clock.Advance(5 * time.Minute)
	ec2.cloud.Terminate(created.ID)
	putBack := ec2.cloud.Untag(created.ID, slices.Collect(maps.Keys(identity.Tags()))...)
	id := identity
	id.ProviderID = created.ProviderID
	if found, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Errorf("got %+v and %v, want a NotFoundError", found, err)
	}
	if err := d.Delete(t.Context(), id); err != nil {
		t.Errorf("deleting it: %v", err)
	}
	putBack()
}

// TestDeleteRemovesDuplicates has two instances of one machine, created by two processes that run at the same time.
func TestDeleteRemovesDuplicates(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	d := ec2.connect(t)
	for _, zone := range []string{awsfake.SubnetA, awsfake.SubnetB} {
		ec2.cloud.HideNext(1)
		if _, err := ec2.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = zone }))); err != nil {
			t.Fatal(err)
		}
	}
	_ = listInstanceIDs(t, d) // the read that omits the second
	if instances := listInstanceIDs(t, d); len(instances) != 2 {
		t.Fatalf("got %q, want two instances", instances)
	}
	if err := d.Delete(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	wantDeleted(t, ec2, d)
}

func TestConnectRequiresCredentials(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	for name, data := range map[string]driver.Credentials{
		"no key":    {"AWS_SECRET_ACCESS_KEY": []byte("x")},
		"no secret": {"AWS_ACCESS_KEY_ID": []byte("x")},
		"nothing":   nil,
	} {
		if _, err := ec2.description().Connect(t.Context(), driver.Account{SecretName: "aws", Region: awsfake.Region}, data); !driver.IsUnauthorized(err) {
			t.Errorf("%s: got %v, want an UnauthorizedError", name, err)
		}
	}
}

// TestCredentialsOfTheEnvironment takes credentials from the environment, and fails without any.
func TestCredentialsOfTheEnvironment(t *testing.T) {
	for _, name := range []string{"AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	ec2 := newEnv(t, awsfake.Options{})
	for key, is := range map[string]func(error) bool{
		awsfake.AccessKey: func(err error) bool { return err == nil },
		"AKIAUNKNOWN":     driver.IsUnauthorized,
		"":                driver.IsUnauthorized,
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", key)
		t.Setenv("AWS_SECRET_ACCESS_KEY", key)
		d, err := ec2.description().Connect(t.Context(), driver.Account{Region: awsfake.Region}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); !is(err) {
			t.Errorf("with key %q: got %v", key, err)
		}
	}
}

func unchanged(*infrav1.AWSMachineSpec) {}

// faultOf returns a fault of one action.
func faultOf(action string, fault awsfake.Fault) func(string) awsfake.Fault {
	return func(called string) awsfake.Fault {
		if called == action {
			return fault
		}
		return awsfake.Fault{}
	}
}

// wantDeleted waits until the instance is deleted and requires that nothing is left.
func wantDeleted(t *testing.T, ec2 env, d driver.Driver[aws.InstanceConfig]) {
	t.Helper()
	for range 20 {
		if found, err := d.Get(t.Context(), identity); driver.IsNotFound(err) || err == nil && found.State == driver.Terminated {
			break
		} else if err != nil {
			t.Fatal(errors.Join(errors.New("reading a deleted instance"), err))
		}
	}
	if left := ec2.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
