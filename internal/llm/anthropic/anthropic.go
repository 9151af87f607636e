// Package anthropic asks Anthropic's Messages API, and servers that speak it, as an llm.Model.
//
// Promises: every request streams; a stream without its message_stop is an error, never an answer. Raw is the array of
// content blocks, put together from the bytes of the events with every field in it that the provider sent: signatures
// of thinking, unknown blocks, unknown fields. It goes back in the next request as it came; only text blocks without
// text are left out then, which the API refuses. Nothing is read from the environment, there is no retry, and the key
// is in no error.
//
// A Schema is asked for with the API's own output format (output_config), not with a forced tool: the answer stays
// text, and tools can be used in the same conversation. The API takes a part of JSON Schema only, so what it cannot
// enforce moves into descriptions and the caller checks the answer. Models before Claude 4.5 refuse it.
package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// Provider is the adapter's name in answers and references ("anthropic/MODEL").
const Provider = "anthropic"

// KeyEnv is where a person is told to put the key.
const KeyEnv = "ANTHROPIC_API_KEY"

// ownURL is Anthropic's own server; version is the one of the API that this adapter speaks.
const (
	ownURL  = "https://api.anthropic.com/"
	version = "2023-06-01"
)

// Config of the adapter.
type Config struct {
	// APIKey may be empty only with a BaseURL.
	APIKey string
	// BaseURL of a server that speaks the Messages API, without "/v1/messages". Empty is Anthropic's own.
	BaseURL string
	// HTTPClient; nil uses the default transport. Redirects are never followed. It should have no Timeout: the
	// context ends a request.
	HTTPClient *http.Client
}

var _ llm.Model = (*Model)(nil)

// Model asks the API. It is safe for concurrent use.
type Model struct {
	endpoint wire.Endpoint
	errs     wire.Provider
}

// New makes the adapter. It fails, with an *llm.Error, without a key and on an address that is none.
func New(cfg Config) (*Model, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, &llm.Error{Class: llm.Auth, Err: errors.New("anthropic: missing api key"), Hint: "set " + KeyEnv}
	}
	if err := wire.CheckKey(cfg.APIKey); err != nil {
		return nil, &llm.Error{Class: llm.Auth, Err: fmt.Errorf("anthropic: %w", err), Hint: "set " + KeyEnv + " again"}
	}
	if err := wire.CheckBaseURL(cfg.BaseURL); err != nil {
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("anthropic: %w", err),
			Hint: "correct the base url of anthropic"}
	}
	to := wire.Endpoint{Client: wire.Client(cfg.HTTPClient), BaseURL: cfg.BaseURL, Header: http.Header{}}
	if to.BaseURL == "" {
		to.BaseURL = ownURL
	}
	to.Header.Set("Anthropic-Version", version)
	if cfg.APIKey != "" {
		to.Header.Set("X-Api-Key", cfg.APIKey)
	}
	return &Model{endpoint: to, errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv, Key: cfg.APIKey}}, nil
}

// Ask sends one request and reads its stream to the end.
func (m *Model) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	if err := ctx.Err(); err != nil {
		return llm.Answer{}, err
	}
	body, err := requestBody(req)
	if err != nil {
		return llm.Answer{}, m.errs.Unsent(err)
	}
	res, err := m.endpoint.Post(ctx, "v1/messages", "", body)
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	if err := m.errs.Opened(ctx, res, err); err != nil {
		return llm.Answer{}, err
	}
	return m.read(ctx, res.Body, req, sink)
}

func (m *Model) read(ctx context.Context, body io.Reader, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	s := newStream(sink)
	for e, err := range wire.Events(body) {
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		if e.Type == "error" {
			return llm.Answer{}, m.errs.StreamError(e.Data)
		}
		failed, err := s.receive(e.Data)
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		if failed {
			return llm.Answer{}, m.errs.StreamError(e.Data)
		}
		if s.stopped {
			return s.answer(req)
		}
	}
	return llm.Answer{}, m.errs.Broken(ctx, wire.ErrCut)
}
