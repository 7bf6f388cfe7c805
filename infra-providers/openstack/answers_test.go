// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/runtime/httplimit"
)

// TestAnswersOfEmptyObjectsAreNotDecoded: an empty object of three bytes becomes a server of some KiB.
func TestAnswersOfEmptyObjectsAreNotDecoded(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := r.connect(t)
	r.faults.Fail(reads("/servers/detail"), http.StatusOK, `{"servers":[`+strings.Repeat("{},", 60_000)+`{}]}`)
	var last error
	for _, last = range d.List(t.Context(), driver.Owner{}) {
		continue
	}
	if _, ok := errors.AsType[*httplimit.TooManyElementsError](last); !ok {
		t.Errorf("the list ended with %v", last)
	}
}

// endless has a list with a next page for ever.
type endless struct {
	next http.RoundTripper
	// path is that of the list, entry one of its elements, and pages how many were read.
	path, entry string
	pages       int
}

func (e *endless) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(request.URL.Path, "/"+e.path) {
		return e.next.RoundTrip(request)
	}
	if e.pages++; e.pages > 40 { // for the host of this test
		return nil, errors.New("more pages were read than are kept")
	}
	kind := strings.TrimSuffix(e.path, "/detail")
	body := fmt.Sprintf(`{%q:[%s%s],"%s_links":[{"rel":"next","href":%q}]}`, kind, strings.Repeat(e.entry+",", 999), e.entry, kind, request.URL)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: request,
	}, nil
}

// TestListsWithoutEndAreAborted: what a list shows is kept until its end, and the server decides where that is.
func TestListsWithoutEndAreAborted(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "o", Namespace: "n", Name: "c"}}
	var tags, metadata []string
	for key, value := range attachments.Tags(id) {
		tags = append(tags, fmt.Sprintf("%q", key+"="+value))
		metadata = append(metadata, fmt.Sprintf("%q:%q", key, value))
	}
	remains := func(d driver.Driver[openstack.InstanceConfig]) (last error) {
		for _, last = range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), driver.Owner{}) {
			continue
		}
		return last
	}
	for path, test := range map[string]struct {
		entry string
		call  func(driver.Driver[openstack.InstanceConfig]) error
	}{
		"ports":          {`{"tags":[` + strings.Join(tags, ",") + `]}`, remains},
		"volumes/detail": {`{"metadata":{` + strings.Join(metadata, ",") + `}}`, remains},
		"servers/detail": {`{"metadata":{` + strings.Join(metadata, ",") + `}}`, func(d driver.Driver[openstack.InstanceConfig]) error {
			_, err := d.Get(t.Context(), id)
			return err
		}},
		"flavors/detail": {`{"id":"x"}`, func(d driver.Driver[openstack.InstanceConfig]) error {
			_, err := d.Create(t.Context(), newRequest(t, minimalSpec()))
			return err
		}},
	} {
		t.Run(strings.TrimSuffix(path, "/detail"), func(t *testing.T) {
			t.Parallel()
			r := newEnv(t)
			list := &endless{next: r.faults, path: path, entry: test.entry}
			err := test.call(connect(t, list, driver.Account{SecretName: "cloud"}, r.secret))
			if _, ok := errors.AsType[*access.TooManyError](err); !ok {
				t.Errorf("after %d pages: %v", list.pages, err)
			}
		})
	}
}

// TestListsOfLongTextsAreAborted: elements have any length, and what a list shows is kept until its end.
func TestListsOfLongTextsAreAborted(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "o", Namespace: "n", Name: "c"}}
	metadata, tags := []string{fmt.Sprintf(`"long":%q`, strings.Repeat("x", 6<<10))}, []string{fmt.Sprintf("%q", strings.Repeat("x", 6<<10))}
	for key, value := range attachments.Tags(id) {
		metadata, tags = append(metadata, fmt.Sprintf("%q:%q", key, value)), append(tags, fmt.Sprintf("%q", key+"="+value))
	}
	for path, test := range map[string]struct {
		entry string
		call  func(driver.Driver[openstack.InstanceConfig]) error
	}{
		"servers/detail": {`{"metadata":{` + strings.Join(metadata, ",") + `}}`, func(d driver.Driver[openstack.InstanceConfig]) error {
			_, err := d.Get(t.Context(), id)
			return err
		}},
		"ports": {`{"tags":[` + strings.Join(tags, ",") + `]}`, func(d driver.Driver[openstack.InstanceConfig]) (last error) {
			for _, last = range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), driver.Owner{}) {
				continue
			}
			return last
		}},
	} {
		r := newEnv(t)
		list := &endless{next: r.faults, path: path, entry: test.entry}
		err := test.call(connect(t, list, driver.Account{SecretName: "cloud"}, r.secret))
		if _, ok := errors.AsType[*httplimit.TooLargeError](err); !ok || list.pages > 7 {
			t.Errorf("%s: after %d pages of 6 MiB: %v", path, list.pages, err)
		}
	}
}
