// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
)

// writeServingCertificate puts a certificate for loopback where a manager's webhook server
// looks for it, and returns who signed it.
func writeServingCertificate(dir string) (ca []byte, err error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return nil, err
	}
	return certificate, errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
	)
}
