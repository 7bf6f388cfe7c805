// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package googlefake

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
)

// Key returns the JSON key of the service account.
func (c *Cloud) Key() []byte {
	encoded, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		panic(err) // an RSA key can always be marshalled
	}
	key, _ := json.Marshal(map[string]string{
		"type":           "service_account",
		"project_id":     Project,
		"private_key_id": "fake",
		"private_key":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
		"client_email":   ServiceUser,
		"token_uri":      "https://oauth2.googleapis.com/token",
	})
	return key
}

// answerToken answers a request for a token, which has to be signed with the key of the service account.
func (c *Cloud) answerToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.ParseForm() != nil || r.PostForm.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || !c.signed(r.PostForm.Get("assertion")) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`))
		return
	}
	_, _ = w.Write([]byte(`{"access_token":"` + accessToken + `","token_type":"Bearer","expires_in":3599}`))
}

func (c *Cloud) signed(assertion string) bool {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	claims := struct{ Iss, Scope string }{}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Iss != ServiceUser || claims.Scope != "https://www.googleapis.com/auth/compute" {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return err == nil && rsa.VerifyPKCS1v15(&c.key.PublicKey, crypto.SHA256, sum[:], signature) == nil
}
