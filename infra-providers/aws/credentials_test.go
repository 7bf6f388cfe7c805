// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
)

// TestSecretIgnoresTheFilesOfTheHost has a host whose shared files name another endpoint, another authority, a role to
// assume and a program to run. With a Secret none of it is used; the operator's network settings in the environment
// are.
func TestSecretIgnoresTheFilesOfTheHost(t *testing.T) {
	folder := t.TempDir()
	ran := filepath.Join(folder, "ran")
	write(t, filepath.Join(folder, "config"), `[profile host]
region = us-east-1
endpoint_url = http://127.0.0.1:1
credential_process = /bin/touch `+ran+`
role_arn = arn:aws:iam::999999999999:role/host
source_profile = host
services = all
use_fips_endpoint = true
[services all]
ec2 =
  endpoint_url = http://127.0.0.1:2
`)
	write(t, filepath.Join(folder, "credentials"), "[host]\naws_access_key_id = HOST\naws_secret_access_key = host\naws_session_token = host\n")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(folder, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(folder, "credentials"))
	t.Setenv("AWS_PROFILE", "host")
	t.Setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "environment")
	t.Setenv("AWS_SESSION_TOKEN", "environment")
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::999999999999:role/web")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", filepath.Join(folder, "config"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:3")

	account := driver.Account{SecretName: "aws", Region: "eu-central-1"}
	data := driver.Credentials{"AWS_ACCESS_KEY_ID": []byte("SECRET"), "AWS_SECRET_ACCESS_KEY": []byte("secret")}
	options := clientOptions(t, account, data)
	found, err := options.Credentials.Retrieve(t.Context())
	if err != nil || found.AccessKeyID != "SECRET" || found.SecretAccessKey != "secret" || found.SessionToken != "" {
		t.Errorf("credentials: got %+v and %v", found, err)
	}
	if options.BaseEndpoint != nil || options.Region != "eu-central-1" || options.EndpointOptions.UseFIPSEndpoint == sdk.FIPSEndpointStateEnabled {
		t.Errorf("the files of the host are used: endpoint %q, region %q, FIPS %v", sdk.ToString(options.BaseEndpoint), options.Region, options.EndpointOptions.UseFIPSEndpoint)
	}
	if _, err := os.Stat(ran); !os.IsNotExist(err) {
		t.Errorf("the program of the host's files ran: %v", err)
	}
	t.Setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:4")
	if got := sdk.ToString(clientOptions(t, account, data).BaseEndpoint); got != "http://127.0.0.1:4" {
		t.Errorf("the operator's endpoint is %q", got)
	}
}

// TestAccountID returns the account's number with the partition, or with the host of a private cloud.
func TestAccountID(t *testing.T) {
	t.Parallel()
	cloud, err := awsfake.New(awsfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for key, want := range map[string]string{awsfake.AccessKey: host + "/" + awsfake.Account, "AKIAUNKNOWN": ""} {
		d, err := connect(t.Context(), Options{Endpoint: server.URL}, driver.Account{SecretName: "aws", Region: awsfake.Region},
			driver.Credentials{"AWS_ACCESS_KEY_ID": []byte(key), "AWS_SECRET_ACCESS_KEY": []byte("secret")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.AccountID(t.Context())
		if got != want || driver.IsUnauthorized(err) != (want == "") {
			t.Errorf("with key %s: got %q and %v, want %q", key, got, err, want)
		}
	}
	for host, want := range map[string]bool{
		"sts.eu-central-1.amazonaws.com": true, "sts.cn-north-1.amazonaws.com.cn": true, "vpce-1.sts.eu-central-1.vpce.amazonaws.com:443": true,
		"amazonaws.com.example": false, "notamazonaws.com": false, "127.0.0.1:80": false,
	} {
		if isAWSHost(host) != want {
			t.Errorf("isAWSHost(%q) = %t", host, !want)
		}
	}
}

func clientOptions(t *testing.T, account driver.Account, data driver.Credentials) ec2.Options {
	t.Helper()
	d, err := connect(t.Context(), Options{}, account, data)
	if err != nil {
		t.Fatal(err)
	}
	return d.api.(*ec2.Client).Options()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCABundleOfTheEnvironment applies with a Secret too.
func TestCABundleOfTheEnvironment(t *testing.T) {
	account := driver.Account{SecretName: "aws", Region: awsfake.Region}
	data := driver.Credentials{"AWS_ACCESS_KEY_ID": []byte(awsfake.AccessKey), "AWS_SECRET_ACCESS_KEY": []byte("secret")}
	cloud, err := awsfake.New(awsfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(cloud)
	t.Cleanup(server.Close)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	write(t, bundle, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for path, ok := range map[string]bool{bundle: true, "": false} {
		t.Setenv("AWS_CA_BUNDLE", path)
		d, err := connect(t.Context(), Options{Endpoint: server.URL}, account, data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.AccountID(t.Context()); (err == nil) != ok {
			t.Errorf("with AWS_CA_BUNDLE=%q: got %v", path, err)
		}
	}
	t.Setenv("AWS_CA_BUNDLE", bundle+".none")
	if _, err := connect(t.Context(), Options{}, account, data); err == nil {
		t.Error("a bundle that does not exist was accepted")
	}
}
