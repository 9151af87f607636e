package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/sandbox/rest"
)

const (
	// callWait bounds one request, maxRetry is the longest wait between two tries of it.
	callWait = 30 * time.Second
	maxRetry = 10 * time.Second
	// maxAnswer is the most bytes of an answer, maxWord of an error text of it.
	maxAnswer = 32 << 20
	maxWord   = 300
	// maxPages is the most pages of a list.
	maxPages = 1000
)

// cluster speaks the API of a cluster.
type cluster struct {
	cfg       Config
	url       string
	token, ca string // files
	http      *http.Client
}

// pods is the path of the pods, or of one.
func (c *cluster) pods(name string) string {
	at := "/api/v1/namespaces/" + url.PathEscape(c.cfg.Namespace) + "/pods"
	if name != "" {
		at += "/" + url.PathEscape(name)
	}
	return at
}

// client makes requests.
func (c *cluster) client() *rest.Client {
	return &rest.Client{HTTP: c.http, URL: c.url, Who: "the API server", Retry: c.cfg.Poll, MaxWait: maxRetry,
		CallWait: callWait, MaxAnswer: maxAnswer,
		Authorize: c.authorize, Named: func(err error) error { return err }}
}

// call makes a request until it is answered for good. A refusal for now is waited for.
func (c *cluster) call(ctx context.Context, method, path string, in, out any) error {
	if _, err := c.client().Call(ctx, method, path, in, out, false); err != nil {
		return fmt.Errorf("%w: %w", ErrCluster, err)
	}
	return nil
}

// authorize adds the token, read anew.
func (c *cluster) authorize(h http.Header) error {
	if c.token == "" {
		return nil
	}
	token, err := os.ReadFile(c.token)
	if err != nil {
		return fmt.Errorf("INSPAN_KUBERNETES_TOKEN_FILE: %w", err)
	}
	h.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return nil
}

// list returns the objects of a path that have a label.
func list[T any](ctx context.Context, c *cluster, at, selector string) ([]T, error) {
	query := url.Values{"labelSelector": {selector}, "limit": {"200"}}
	var all []T
	for range maxPages {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		if err := c.call(ctx, http.MethodGet, at+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
	return all, nil
}

// remove deletes a pod and returns when it is gone; one that is not there is.
func (c *cluster) remove(ctx context.Context, name string) error {
	return c.deleteAndWait(ctx, "pod "+name, c.pods(name), "gracePeriodSeconds="+strconv.Itoa(grace))
}

// deleteAndWait deletes an object and returns when it is not there.
func (c *cluster) deleteAndWait(ctx context.Context, what, at, query string) error {
	err := c.call(ctx, http.MethodDelete, at+"?"+query, nil, nil)
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	for err == nil {
		if err = c.call(ctx, http.MethodGet, at, nil, nil); err != nil {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if rest.Missing(err) {
		return nil
	}
	return fmt.Errorf("delete %s: %w", what, err)
}
