// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// Missing reports whether a service itself answered that a resource does not exist. A proxy also answers 404, to every
// request, while a service is moved or its address is wrong; that is no statement about the resource.
func Missing(err error) bool {
	if again, ok := errors.AsType[*gophercloud.ErrErrorAfterReauthentication](err); ok {
		err = again.ErrOriginal
	}
	answer, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err)
	if !ok || answer.Actual != http.StatusNotFound {
		return false
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(answer.Body, &body) != nil {
		return false
	}
	for _, name := range []string{
		"itemNotFound", // Nova and Cinder
		"NeutronError",
	} {
		if _, ok := body[name]; ok {
			return true
		}
	}
	return false
}
