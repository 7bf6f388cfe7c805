// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"encoding/json"
	"net/http"
	"strings"
)

// token is the only valid token.
const token = "token-of-the-tests"

// consolePath begins the paths of the blobs of consoles.
const consolePath = "/bootdiagnostics/"

// serveAuthority answers as Microsoft Entra does.
func (c *Cloud) serveAuthority(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	base := "https://" + r.Host + "/" + strings.Split(r.URL.Path, "/")[1]
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(map[string]string{
			"token_endpoint": base + "/oauth2/v2.0/token", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "issuer": base + "/v2.0",
		})
		return
	}
	if err := r.ParseForm(); err != nil || r.Form.Get("client_secret") != ClientSecret || r.Form.Get("client_id") != ClientID {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"error": "invalid_client", "error_codes": []int{7000215},
			"error_description": "AADSTS7000215: Invalid client secret provided. Trace ID: 3f6a8a2c Timestamp: 2026-11-01 12:00:00Z",
		})
		return
	}
	c.tokens++
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "expires_in": 3600, "token_type": "Bearer"})
}

// serveConsole answers as the storage of Azure does. It must not get the token of the Resource Manager.
func (c *Cloud) serveConsole(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		c.violate("the storage of consoles was sent a token")
	}
	if r.URL.Query().Get("sig") == "" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if c.console == "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write([]byte(c.console))
}
