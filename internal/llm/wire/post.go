package wire

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// userAgent is the name of this program in requests.
const userAgent = "inspan"

// Endpoint is where a provider takes requests.
type Endpoint struct {
	// Client is one that Client made.
	Client *http.Client
	// BaseURL has passed CheckBaseURL and is not empty.
	BaseURL string
	// Header goes with every request; it carries the key.
	Header http.Header
}

// Post sends body, a JSON document, to path below the base URL and asks for an event stream. Nothing but the Header and
// what is given here decides what is sent. The caller closes the body of the response.
func (e Endpoint) Post(ctx context.Context, path, query string, body []byte) (*http.Response, error) {
	base, err := url.Parse(e.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the base url: %w", err)
	}
	to := base.JoinPath(path)
	to.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	for name, values := range e.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", userAgent)
	return e.Client.Do(req)
}
