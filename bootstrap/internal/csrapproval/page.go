// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/runtime/httplimit"
)

// pageTimeout is how long an answer may take: one that drips holds a seat among the long ones.
const pageTimeout = 30 * time.Second

// page reads one page. A page that is too long to be read at once is read request by request.
func (s *listerWatcher) page(ctx context.Context, next string) (*certificatesv1.CertificateSigningRequestList, error) {
	within, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err := s.certificates.CertificateSigningRequests().List(within, metav1.ListOptions{Limit: pageSize, Continue: next})
	if !isTooLong(err) {
		return page, err
	}
	return s.longPage(ctx, next)
}

// isTooLong reports whether an answer was not read because of its length.
func isTooLong(err error) bool {
	_, bytes := errors.AsType[*httplimit.TooLargeError](err)
	_, elements := errors.AsType[*httplimit.TooManyElementsError](err)
	return bytes || elements
}

// longPage reads each request of a page by its name, and leaves out those that are too long by themselves. No kubelet makes
// one, but root on a worker or the holder of a bootstrap token can, and must not keep all others from being decided on.
func (s *listerWatcher) longPage(ctx context.Context, next string) (*certificatesv1.CertificateSigningRequestList, error) {
	names, meta, err := s.names(ctx, next)
	if err != nil {
		return nil, err
	}
	page := &certificatesv1.CertificateSigningRequestList{ListMeta: meta}
	for _, name := range names {
		csr, err := s.one(ctx, name)
		switch {
		case err == nil:
			page.Items = append(page.Items, *csr)
		case !isTooLong(err) && !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return page, nil
}

func (s *listerWatcher) one(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return s.certificates.CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
}

// names returns the names of the requests of a page, from a Table as kubectl prints it: its rows are short, whatever the
// requests contain.
func (s *listerWatcher) names(ctx context.Context, next string) ([]string, metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	answer, err := s.certificates.RESTClient().Get().Resource("certificatesigningrequests").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Param("includeObject", string(metav1.IncludeNone)).Param("limit", strconv.Itoa(pageSize)).Param("continue", next).
		Do(ctx).Raw()
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	table := metav1.Table{}
	if err := json.Unmarshal(answer, &table); err != nil {
		return nil, metav1.ListMeta{}, fmt.Errorf("decoding table of certificate requests: %w", err)
	}
	var names []string
	for _, row := range table.Rows {
		if len(row.Cells) == 0 {
			continue
		}
		if name, is := row.Cells[0].(string); is && name != "" {
			names = append(names, name)
		}
	}
	return names, table.ListMeta, nil
}
