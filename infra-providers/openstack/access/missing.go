// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// Missing reports whether Nova, Cinder or Neutron itself answered that a resource does not exist. A proxy also answers 404,
// to every request, while a service is moved or its address is wrong; that is no statement about the resource.
func Missing(err error) bool {
	body := notFound(err)
	_, fault := body["itemNotFound"] // Nova and Cinder
	_, neutron := body["NeutronError"]
	return fault || neutron
}

// MissingImage is Missing for Glance, which answers {"code": "404 Not Found", "title": "Not Found", "message": …}.
func MissingImage(err error) bool {
	body := notFound(err)
	return string(body["code"]) == `"404 Not Found"` && string(body["title"]) == `"Not Found"`
}

// notFound returns the body of an answer 404; nil of any other error.
func notFound(err error) (body map[string]json.RawMessage) {
	if again, ok := errors.AsType[*gophercloud.ErrErrorAfterReauthentication](err); ok {
		err = again.ErrOriginal
	}
	answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !ok || answer.Actual != http.StatusNotFound || json.Unmarshal(answer.Body, &body) != nil {
		return nil
	}
	return body
}
