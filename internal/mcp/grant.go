package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/oauth"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	// renewEarly is how long before its end an access token is renewed, renewWait how long another process may take to
	// renew it, and the authorization server to answer.
	renewEarly = 30 * time.Second
	renewWait  = 30 * time.Second
)

// tokens gives the access token of a grant. One that ends is renewed, by one process at a time: a refresh token may be
// good for one use only, and whoever uses it twice loses the grant.
type tokens struct {
	client *http.Client
	mu     sync.Mutex
	grant  oauth.Grant
	// used holds the tokens that were sent, so that no result shows them; guarded by mu.
	used []secret.Value
}

// bearer returns the header of a request.
func (t *tokens) bearer(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends() {
		if err := t.renew(ctx); err != nil {
			return "", tool.Fail(tool.Denied, "an operator must sign in again: inspan mcp login SERVER --agent NAME",
				fmt.Errorf("the grant for this server cannot be renewed: %w", err))
		}
	}
	t.used = t.grant.Masked()
	return "Bearer " + t.grant.Access, nil
}

// ends reports whether the token is at its end.
func (t *tokens) ends() bool {
	return !t.grant.Expiry.IsZero() && time.Until(t.grant.Expiry) < renewEarly
}

// refused says that the server did not take the token.
func (t *tokens) refused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grant.Expiry = time.Now()
}

// mask hides what was sent to the server from what it answers.
func (t *tokens) mask(text string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return secret.Mask(t.used...)(text)
}

// renew gets the next token, or takes the one that another process got meanwhile.
func (t *tokens) renew(ctx context.Context) error {
	lock, err := disk.WaitLock(filepath.Join(filepath.Dir(t.grant.File), "."+filepath.Base(t.grant.File)+".lock"),
		renewWait)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	before := t.grant
	text, err := os.ReadFile(t.grant.File)
	if err != nil {
		return err
	}
	if now, ok := oauth.Parse(string(text)); ok && now.Access != before.Access && now.Server == before.Server {
		now.File = before.File
		if t.grant = now; !t.ends() {
			return nil
		}
	}
	if t.grant.Refresh == "" {
		return errors.New("it has ended, and the server gave no means to renew it")
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, t.client), renewWait)
	defer cancel()
	cfg := oauth2.Config{ClientID: t.grant.ClientID, ClientSecret: t.grant.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: t.grant.TokenURL, AuthStyle: oauth2.AuthStyle(t.grant.AuthStyle)}}
	got, err := cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: t.grant.Refresh}).Token()
	if err != nil {
		return refusedRenewal(err)
	}
	t.grant.Access, t.grant.Refresh, t.grant.Expiry = got.AccessToken, got.RefreshToken, got.Expiry
	return t.grant.Write(t.grant.File)
}

// refusedRenewal is what an authorization server says, without the rest of its answer.
func refusedRenewal(err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the authorization server answered %d %s", e.Response.StatusCode, e.ErrorCode)
	}
	return err
}
