// Package oauth holds what a person granted to this station at a server of others: a file of the folder of secrets.
//
// Promises: a grant is used for requests to the origin that it was given for, and for no other. It prints as nothing:
// whoever shows a Grant shows neither a token nor the secret of its client. A grant is stored in one move, for its
// owner alone.
package oauth

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/secret"
)

// Grant is what an authorization server gave, and what it needs to give it again.
type Grant struct {
	// Server is the address that it was given for.
	Server string `json:"server"`
	// ClientID and ClientSecret are this client at the authorization server, TokenURL is where it asks. AuthStyle is how
	// the secret is sent, as golang.org/x/oauth2 counts.
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret,omitempty"`
	TokenURL     string `json:"token_url"`
	AuthStyle    int    `json:"auth_style,omitempty"`
	// Access is sent with requests until Expiry (zero: no one knows), Refresh is exchanged for the next one.
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"`
	// File is where the grant is kept, so that a new one is put there. Only in memory.
	File string `json:"file,omitempty"`
}

// stored is the form of the file; the name tells it from the text of any other secret.
type stored struct {
	OAuth2 *Grant `json:"oauth2"`
}

// Parse reads the content of a secret. ok is false where it is no grant.
func Parse(text string) (g Grant, ok bool) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return Grant{}, false
	}
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.OAuth2 == nil || s.OAuth2.Access == "" {
		return Grant{}, false
	}
	return *s.OAuth2, true
}

// Secret is the grant as Parse reads it, with the file that it is kept in.
func (g Grant) Secret(file string) (secret.Value, error) {
	g.File = file
	b, err := json.Marshal(stored{&g})
	return secret.New(string(b)), err
}

// Masked are the parts that no tool may show.
func (g Grant) Masked() []secret.Value {
	var all []secret.Value
	for _, text := range []string{g.Access, g.Refresh, g.ClientSecret} {
		if v := secret.New(text); !v.Empty() {
			all = append(all, v)
		}
	}
	return all
}

// Write puts the grant into a file.
func (g Grant) Write(file string) error {
	g.File = ""
	b, err := json.MarshalIndent(stored{&g}, "", "  ")
	if err != nil {
		return err
	}
	return disk.Replace(file, append(b, '\n'), 0o600)
}

// For reports whether the grant is meant for an address: that of its server, by scheme, host and port.
func (g Grant) For(address string) bool {
	a, err := url.Parse(address)
	b, err2 := url.Parse(g.Server)
	return err == nil && err2 == nil && a.Host != "" && a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// Format shows whose grant it is, for every verb.
func (g Grant) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "grant for "+g.Server) }
