// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import "drover.io/runtime/yamllimit"

// maxHost is how many characters the host of an API server may have, as in DNS.
const maxHost = 253

// objectionToSize refuses content whose parsing takes much memory, before it is parsed.
func objectionToSize(content []byte) string {
	if err := yamllimit.Check(content); err != nil {
		return err.Error() + "; leave only the current context in it, with `kubectl config view --minify --flatten`"
	}
	if yamllimit.MayHaveAliases(content) {
		return "it has aliases of YAML (*name), which are not supported; write the values in full"
	}
	return ""
}
